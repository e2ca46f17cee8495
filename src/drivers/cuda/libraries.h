/* NVIDIA's libraries, opened at run time when they are first needed, from the lists of symbols in *.def. Where they are looked
 * for: in the folders of flag cuda_path (joined by :), in lib64 and lib there, and in each X/lib and nvidia/X/lib there, as
 * wheels of Python's index lie. Without that flag: by the loader, then in /usr/local/cuda and /usr/local/cuda-X. The driver's
 * own two, libcuda and NVML, are asked of the loader in any case. */
#ifndef BTI_DRIVERS_CUDA_LIBRARIES_H
#define BTI_DRIVERS_CUDA_LIBRARIES_H

#include "base/error.h"
#include "drivers/cuda/cublaslt.h"
#include "drivers/cuda/driver_api.h"
#include "drivers/cuda/nccl.h"
#include "drivers/cuda/nvml.h"
#include "drivers/cuda/nvrtc.h"

typedef enum bti_cuda_library {
    BTI_CUDA_DRIVER,
    BTI_CUDA_NVML,
    BTI_CUDA_NVRTC,
    BTI_CUDA_CUBLASLT,
    BTI_CUDA_CUDNN, /* only looked for: no operation of ours is its */
    BTI_CUDA_NCCL,
    BTI_CUDA_LIBRARIES
} bti_cuda_library;

typedef struct bti_cuda_library_state {
    const char *title; /* "NVRTC" */
    char path[512];    /* as it was opened; "" when it is not open */
    char version[32];  /* "" when it is not open */
    char reason[900];  /* why it is not, and what to install */
    int major, minor;  /* of the version */
} bti_cuda_library_state;

/* Opens it, once; whether it is there. Then its functions stand in bti_cu, bti_nvml... Any thread. */
bool bti_cuda_has(bti_cuda_library library);
/* As a status: UNAVAILABLE with the reason. */
bt_status bti_cuda_need(bti_cuda_library library);
/* How it stands, tried before or not; borrowed. */
const bti_cuda_library_state *bti_cuda_library_look(bti_cuda_library library);

/* The CUDA version of the driver, 13.0 as 13000; 0 when libcuda is not there. */
int bti_cuda_driver_version(void);

/* For tests: closes all, to be looked for anew. */
void bti_cuda_libraries_reset(void);

#endif

/* NVIDIA's libraries, opened at run time when they are first needed. Their symbols are listed in *.def. With the flag cuda_path (folders
 * joined by :) they are searched in each folder, in lib64 and lib below it, and in X/lib and nvidia/X/lib below it, where Python's
 * wheels install them. Without the flag: by the loader, then in /usr/local/cuda and /usr/local/cuda-X. The two libraries of the driver,
 * libcuda and NVML, are opened by the loader in any case. */
#ifndef BTI_DRIVERS_CUDA_LIBRARIES_H
#define BTI_DRIVERS_CUDA_LIBRARIES_H

#include "base/error.h"
#include "drivers/cuda/cublaslt.h"
#include "drivers/cuda/cudnn.h"
#include "drivers/cuda/cufft.h"
#include "drivers/cuda/cusolver.h"
#include "drivers/cuda/driver_api.h"
#include "drivers/cuda/nccl.h"
#include "drivers/cuda/nvml.h"
#include "drivers/cuda/nvrtc.h"

typedef enum bti_cuda_library {
    BTI_CUDA_DRIVER,
    BTI_CUDA_NVML,
    BTI_CUDA_NVRTC,
    BTI_CUDA_CUBLASLT,
    BTI_CUDA_CUDNN,
    BTI_CUDA_CUFFT,
    BTI_CUDA_CUSOLVER,
    BTI_CUDA_NCCL,
    BTI_CUDA_LIBRARIES
} bti_cuda_library;

typedef struct bti_cuda_library_state {
    const char *title; /* "NVRTC" */
    char path[512];    /* the path that was opened; "" when it is not open */
    char version[32];  /* "" when it is not open */
    char reason[900];  /* why it is not open, and what to install */
    int major, minor;  /* of the version */
} bti_cuda_library_state;

/* Whether the library is available; the first call opens it and sets its functions in bti_cu, bti_nvml... Any thread. */
bool bti_cuda_has(bti_cuda_library library);
/* The same as a status: UNAVAILABLE with the reason. */
bt_status bti_cuda_need(bti_cuda_library library);
/* Its state, after an attempt to open it; borrowed. */
const bti_cuda_library_state *bti_cuda_library_look(bti_cuda_library library);

/* The CUDA version of the driver, 13.0 as 13000; 0 when libcuda is not available. */
int bti_cuda_driver_version(void);

/* For tests: closes all libraries; they are searched again at the next use. */
void bti_cuda_libraries_reset(void);

#endif

/* The part of NVML (information about GPUs without a context) that is used: names, values and layouts as in NVIDIA's nvml.h. */
#ifndef BTI_DRIVERS_CUDA_NVML_H
#define BTI_DRIVERS_CUDA_NVML_H

#include <stddef.h>

typedef int nvmlReturn_t;
typedef struct nvmlDevice_st *nvmlDevice_t;

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
    NVML_ERROR_MEMORY = 20
};
enum { NVML_DEVICE_MIG_ENABLE = 1 };
enum { NVML_P2P_CAPS_INDEX_NVLINK = 2, NVML_P2P_STATUS_OK = 0 };
#define NVML_VALUE_NOT_AVAILABLE (~0ull)

typedef struct nvmlPciInfo_t { /* of nvmlDeviceGetPciInfo_v3 */
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct nvmlMemory_t {
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct nvmlProcessInfo_t { /* of nvmlDeviceGet...RunningProcesses_v2 and _v3 */
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct bti_nvml_api {
#define BTI_SYMBOL(result, name, symbol, arguments) result(*name) arguments;
#define BTI_SYMBOL_OPTIONAL BTI_SYMBOL
#include "drivers/cuda/nvml.def"
#undef BTI_SYMBOL
#undef BTI_SYMBOL_OPTIONAL
} bti_nvml_api;

extern bti_nvml_api bti_nvml;

#endif

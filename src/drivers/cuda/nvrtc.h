/* The part of NVRTC (the compiler of CUDA C) that is used: names and values as in NVIDIA's nvrtc.h (12 and 13). */
#ifndef BTI_DRIVERS_CUDA_NVRTC_H
#define BTI_DRIVERS_CUDA_NVRTC_H

#include <stddef.h>

typedef int nvrtcResult;
typedef struct _nvrtcProgram *nvrtcProgram;
enum { NVRTC_SUCCESS = 0, NVRTC_ERROR_OUT_OF_MEMORY = 1, NVRTC_ERROR_COMPILATION = 6 };

typedef struct bti_nvrtc_api {
#define BTI_SYMBOL(result, name, symbol, arguments) result(*name) arguments;
#include "drivers/cuda/nvrtc.def"
#undef BTI_SYMBOL
} bti_nvrtc_api;

extern bti_nvrtc_api bti_nvrtc;

#endif

/* The part of cuFFT (Fourier transforms) that is used: names and values as in NVIDIA's cufft.h and cufftXt.h (11 and 12, of CUDA 12 and 13). */
#ifndef BTI_DRIVERS_CUDA_CUFFT_H
#define BTI_DRIVERS_CUDA_CUFFT_H

#include "drivers/cuda/driver_api.h"

typedef int cufftResult;
typedef int cufftHandle;

enum {
    CUFFT_SUCCESS = 0,
    CUFFT_INVALID_PLAN = 1,
    CUFFT_ALLOC_FAILED = 2,
    CUFFT_INVALID_TYPE = 3,
    CUFFT_INVALID_VALUE = 4,
    CUFFT_INTERNAL_ERROR = 5,
    CUFFT_EXEC_FAILED = 6,
    CUFFT_SETUP_FAILED = 7,
    CUFFT_INVALID_SIZE = 8,
    CUFFT_NO_WORKSPACE = 13,
    CUFFT_NOT_SUPPORTED = 16
};
enum { CUFFT_FORWARD = -1, CUFFT_INVERSE = 1 };
enum { /* cufftType */
       CUFFT_C2C = 0x29,
       CUFFT_R2C = 0x2a,
       CUFFT_C2R = 0x2c,
       CUFFT_Z2Z = 0x69,
       CUFFT_D2Z = 0x6a,
       CUFFT_Z2D = 0x6c
};

typedef struct bti_cufft_api {
#define BTI_SYMBOL(result, name, symbol, arguments) result(*name) arguments;
#include "drivers/cuda/cufft.def"
#undef BTI_SYMBOL
} bti_cufft_api;

extern bti_cufft_api bti_cufft;

#endif

/* The part of cuSOLVER (linear algebra; 11.5 of CUDA 12.2 and later, 12 of CUDA 13) that is used, and of cuBLAS, which is loaded with it: names and values as in NVIDIA's cusolver_common.h, cusolverDn.h,
 * cublas_api.h and library_types.h. */
#ifndef BTI_DRIVERS_CUDA_CUSOLVER_H
#define BTI_DRIVERS_CUDA_CUSOLVER_H

#include "drivers/cuda/cublaslt.h"

typedef int cusolverStatus_t;
typedef struct cusolverDnContext *cusolverDnHandle_t;
typedef struct cusolverDnParams *cusolverDnParams_t;
typedef struct cublasContext *cublasHandle_t;

enum {
    CUSOLVER_STATUS_SUCCESS = 0,
    CUSOLVER_STATUS_NOT_INITIALIZED = 1,
    CUSOLVER_STATUS_ALLOC_FAILED = 2,
    CUSOLVER_STATUS_INVALID_VALUE = 3,
    CUSOLVER_STATUS_INTERNAL_ERROR = 7,
    CUSOLVER_STATUS_NOT_SUPPORTED = 9
};
enum { CUSOLVER_EIG_MODE_VECTOR = 1, CUSOLVER_DETERMINISTIC_RESULTS = 1 };
enum { CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1 };
enum { CUBLAS_SIDE_RIGHT = 1 };
enum { CUBLAS_DIAG_NON_UNIT = 0, CUBLAS_DIAG_UNIT = 1 };

typedef struct bti_cusolver_api {
#define BTI_SYMBOL(result, name, symbol, arguments) result(*name) arguments;
#define BTI_SYMBOL_OPTIONAL BTI_SYMBOL
#include "drivers/cuda/cusolver.def"
#undef BTI_SYMBOL
#undef BTI_SYMBOL_OPTIONAL
} bti_cusolver_api;

extern bti_cusolver_api bti_cusolver;

#endif

/* The part of cuDNN (convolutions) that is used: names, values and layouts as in NVIDIA's cudnn_graph.h, cudnn_ops.h and cudnn_cnn.h (9). */
#ifndef BTI_DRIVERS_CUDA_CUDNN_H
#define BTI_DRIVERS_CUDA_CUDNN_H

#include "drivers/cuda/driver_api.h"

typedef int cudnnStatus_t;
typedef struct cudnnContext *cudnnHandle_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;
typedef const void *bti_cudnn_array; /* a descriptor of a tensor, or of a filter where the array is w */
/* Of all three operations: cudnnConvolutionFwdAlgoPerf_t and the other two have the same members. */
typedef struct bti_cudnn_algorithm {
    int algo;
    cudnnStatus_t status;
    float time;
    size_t memory;
    int determinism;
    int mathType;
    int reserved[3];
} bti_cudnn_algorithm;

enum { /* cudnnStatus_t: the thousands are kinds of errors */
       CUDNN_STATUS_SUCCESS = 0,
       CUDNN_STATUS_NOT_INITIALIZED = 1001,
       CUDNN_STATUS_BAD_PARAM = 2000,
       CUDNN_STATUS_BAD_PARAM_NULL_POINTER = 2002,
       CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER = 2003,
       CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT = 2006,
       CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH = 2008,
       CUDNN_STATUS_NOT_SUPPORTED = 3000,
       CUDNN_STATUS_NOT_SUPPORTED_LAYOUT = 3004,
       CUDNN_STATUS_INTERNAL_ERROR = 4000,
       CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED = 4003,
       CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED = 4004,
       CUDNN_STATUS_EXECUTION_FAILED = 5000
};
enum { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_DOUBLE = 1 };
enum {
    CUDNN_DEFAULT_MATH = 0,
    CUDNN_TENSOR_OP_MATH = 1,
    CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION = 2,
    CUDNN_FMA_MATH = 3
};
enum { CUDNN_TENSOR_NCHW = 0 };
enum { CUDNN_CROSS_CORRELATION = 1 };
enum { CUDNN_DETERMINISTIC = 1 };
enum {
    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM = 0,
    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM = 1,
    CUDNN_CONVOLUTION_FWD_ALGO_GEMM = 2,
    CUDNN_CONVOLUTION_FWD_ALGO_DIRECT = 3,
    CUDNN_CONVOLUTION_FWD_ALGO_COUNT = 8
};
enum { CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 = 1, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT = 6 };
enum { CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 = 1, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT = 7 };

typedef struct bti_cudnn_api {
#define BTI_SYMBOL(result, name, symbol, arguments) result(*name) arguments;
#include "drivers/cuda/cudnn.def"
#undef BTI_SYMBOL
} bti_cudnn_api;

extern bti_cudnn_api bti_cudnn;

#endif

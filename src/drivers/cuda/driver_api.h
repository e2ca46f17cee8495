/* The part of CUDA's driver library, libcuda.so.1, that is used: names, values and layouts as in NVIDIA's cuda.h (CUDA 12 and 13). The
 * functions are listed in driver_api.def; libraries.h opens them into bti_cu. */
#ifndef BTI_DRIVERS_CUDA_DRIVER_API_H
#define BTI_DRIVERS_CUDA_DRIVER_API_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;
typedef struct CUDA_KERNEL_NODE_PARAMS_st { /* _v1, which the symbol without a version takes */
    CUfunction func;
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    void **kernelParams;
    void **extra;
} CUDA_KERNEL_NODE_PARAMS;
typedef struct CUDA_MEMCPY3D_st {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    int srcMemoryType; /* CUmemorytype */
    const void *srcHost;
    CUdeviceptr srcDevice;
    void *srcArray, *reserved0;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    int dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    void *dstArray, *reserved1;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;
typedef struct CUDA_MEMSET_NODE_PARAMS_st {
    CUdeviceptr dst;
    size_t pitch; /* unused if height is 1 */
    unsigned value, elementSize;
    size_t width, height; /* elements, rows */
} CUDA_MEMSET_NODE_PARAMS;

enum { /* CUresult: the values that the code distinguishes; error.c lists more */
       CUDA_SUCCESS = 0,
       CUDA_ERROR_OUT_OF_MEMORY = 2,
       CUDA_ERROR_STUB_LIBRARY = 34,
       CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER = 36,
       CUDA_ERROR_NO_DEVICE = 100,
       CUDA_ERROR_INVALID_IMAGE = 200,
       CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
       CUDA_ERROR_INVALID_PTX = 218,
       CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
       CUDA_ERROR_INVALID_SOURCE = 300,
       CUDA_ERROR_NOT_FOUND = 500,
       CUDA_ERROR_NOT_READY = 600,
       CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704
};

enum { /* CUdevice_attribute */
       CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
       CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
       CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
       CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
       CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
       CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
       CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
       CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
};

enum { /* CUfunction_attribute */
       CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
       CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
};

enum { CU_STREAM_NON_BLOCKING = 1, CU_MEMHOSTALLOC_PORTABLE = 1 };
enum { CU_EVENT_DEFAULT = 0, CU_EVENT_DISABLE_TIMING = 2, CU_EVENT_RECORD_EXTERNAL = 1 };
enum { CU_STREAM_CAPTURE_MODE_RELAXED = 2 };
enum { CU_MEMORYTYPE_DEVICE = 2 };
enum { CU_COMPUTEMODE_PROHIBITED = 2 };

typedef struct bti_cuda_driver_api {
#define BTI_SYMBOL(result, name, symbol, arguments) result(*name) arguments;
#include "drivers/cuda/driver_api.def"
#undef BTI_SYMBOL
} bti_cuda_driver_api;

extern bti_cuda_driver_api bti_cu;

#endif

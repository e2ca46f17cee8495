/* The part of NCCL (collectives over GPUs) that is used: names and values as in NVIDIA's nccl.h (2.x). */
#ifndef BTI_DRIVERS_CUDA_NCCL_H
#define BTI_DRIVERS_CUDA_NCCL_H

#include "drivers/cuda/driver_api.h"

typedef int ncclResult_t;
typedef struct ncclComm *ncclComm_t;
enum { ncclSuccess = 0, ncclInProgress = 7 };
enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3 };
enum { /* ncclDataType_t */
       ncclInt8 = 0,
       ncclUint8 = 1,
       ncclInt32 = 2,
       ncclUint32 = 3,
       ncclInt64 = 4,
       ncclUint64 = 5,
       ncclFloat16 = 6,
       ncclFloat32 = 7,
       ncclFloat64 = 8,
       ncclBfloat16 = 9
};

typedef struct bti_nccl_api {
#define BTI_SYMBOL(result, name, symbol, arguments) result(*name) arguments;
#include "drivers/cuda/nccl.def"
#undef BTI_SYMBOL
} bti_nccl_api;

extern bti_nccl_api bti_nccl;

#endif

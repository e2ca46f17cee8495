/* berth/dlpack.h: the structures of DLPack 1.x (dmlc.github.io/dlpack), for programs that look into them. bt_to_dlpack and
 * bt_from_dlpack (file.h) need only their names, so <berth.h> does not include this header.
 *
 * A program that includes dlpack.h itself includes it before this one, which then defines nothing.
 */
#ifndef BERTH_DLPACK_H
#define BERTH_DLPACK_H

#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_ /* the guard of dlpack.h */

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 0

/* Consumers refuse another major version, and only call its deleter. */
typedef struct DLPackVersion {
    uint32_t major, minor;
} DLPackVersion;

#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
    kDLCPU = 1,
    kDLCUDA = 2,
    kDLCUDAHost = 3, /* memory of the host by cudaMallocHost */
    kDLOpenCL = 4,
    kDLVulkan = 7,
    kDLMetal = 8,
    kDLVPI = 9,
    kDLROCM = 10,
    kDLROCMHost = 11,
    kDLExtDev = 12,
    kDLCUDAManaged = 13,
    kDLOneAPI = 14,
    kDLWebGPU = 15,
    kDLHexagon = 16,
    kDLMAIA = 17
} DLDeviceType;

typedef struct DLDevice {
    DLDeviceType device_type;
    int32_t device_id; /* its ordinal */
} DLDevice;

typedef enum {
    kDLInt = 0,
    kDLUInt = 1,
    kDLFloat = 2,
    kDLOpaqueHandle = 3,
    kDLBfloat = 4,
    kDLComplex = 5,
    kDLBool = 6,
    kDLFloat8_e4m3fn = 10,
    kDLFloat8_e5m2 = 12
} DLDataTypeCode;

typedef struct DLDataType {
    uint8_t code; /* DLDataTypeCode */
    uint8_t bits;
    uint16_t lanes; /* elements of a vector type; 1: scalars */
} DLDataType;

typedef struct DLTensor {
    void *data; /* NULL may stand for no elements */
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides;     /* in elements; NULL: row-major, without gaps */
    uint64_t byte_offset; /* of the first element, from data */
} DLTensor;

/* Of versions before 1.0. */
typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self); /* may be NULL */
} DLManagedTensor;

#define DLPACK_FLAG_BITMASK_READ_ONLY (UINT64_C(1) << 0)
#define DLPACK_FLAG_BITMASK_IS_COPIED (UINT64_C(1) << 1) /* the consumer is the only one that has this memory */

typedef struct DLManagedTensorVersioned {
    DLPackVersion version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self); /* may be NULL */
    uint64_t flags;
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

#ifdef __cplusplus
}
#endif
#endif
#endif

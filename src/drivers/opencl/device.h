/* Devices of OpenCL, of every platform that the ICD loader finds. The loader is opened at run time; without it there are no devices.
 *
 * A device has in-order queues: one for kernels and copies within the device, another one for them while they are timed, one for transfers to and from the host, which
 * a thread waits for, and one for copies to the host that wait for kernels. Each allocation is a buffer behind an address of our own: bits 56..63 a tag, 48..55 the device's number + 1, 0..47 the offset. */
#ifndef BTI_DRIVERS_OPENCL_DEVICE_H
#define BTI_DRIVERS_OPENCL_DEVICE_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/vec.h"
#include "drivers/driver.h"
#include "launch/gpu.h"

/* --- library.c ---------------------------------------------------------------------------------------------------- */
typedef struct bti_cl_functions {
#define BTI_CL(name) __typeof__(name) *name;
#include "drivers/opencl/functions.def"
} bti_cl_functions;

/* The functions, opened at the first call; NULL, with the reason, where there are none. */
const bti_cl_functions *bti_cl(bti_str *reason);
/* "CL_OUT_OF_RESOURCES" */
const char *bti_cl_error_name(cl_int error);

/* --- an open device (opencl.c) ------------------------------------------------------------------------------------ */
typedef struct bti_cl_buffer {
    uint64_t address;
    size_t bytes;
    cl_mem memory;
} bti_cl_buffer;

typedef struct bti_cl_device {
    bti_gpu gpu; /* first: the engine's functions stand in the table; its name is `name` */
    const bti_cl_functions *cl;
    int ordinal, number; /* the number is unique among open ones */
    char name[96];
    char key[384]; /* devices of the same key can load each other's binaries */
    cl_device_id id;
    cl_context context;                /* of the platform, shared by its devices */
    cl_command_queue queue, transfers; /* queue: one of queues, by the thread that launches */
    cl_command_queue queues[2];        /* the second keeps times, which may cost time */
    cl_command_queue fetches;          /* keeps times, too */
    size_t largest_buffer, memory_bytes;
    bool
        keeps_binaries; /* in our disk cache; PoCL has its own, and would compile every function for ours, even unused ones */
    bool is_gpu;
    unsigned products_refused;      /* bit per dtype: CLBlast failed at it */
    bool exact_divisions;           /* it can round float32 quotients and square roots correctly */
    pthread_rwlock_t lock;          /* of `buffers` and `next` */
    BTI_VEC(bti_cl_buffer) buffers; /* by address */
    uint64_t next;                  /* offset of the next allocation */
    _Atomic(bti_error *) lost;      /* why the device is lost; NULL */
} bti_cl_device;

/* --- library.c: failures ------------------------------------------------------------------------------------------ */
/* The status of an error, with the operation that failed. An error that says that the device is gone marks it as lost. */
bt_status bti_cl_fail(bti_cl_device *device, const char *what, cl_int error);
/* BT_OK, or UNAVAILABLE with the reason why the device is lost. */
bt_status bti_cl_check(bti_cl_device *device);
#define BTI_CL_TRY(device, what, call)                                          \
    do {                                                                        \
        cl_int error_ = (call);                                                 \
        if (error_ != CL_SUCCESS) return bti_cl_fail((device), (what), error_); \
    } while (0)

/* --- memory.c ----------------------------------------------------------------------------------------------------- */
bt_status bti_cl_alloc(void *device, size_t bytes, uint64_t *address);
void bti_cl_free(void *device, uint64_t address, size_t bytes);
/* The buffer that contains an address, and the offset in it. */
bt_status bti_cl_find_buffer(bti_cl_device *device, uint64_t address, cl_mem *memory, size_t *offset);
bt_status bti_cl_upload(void *device, uint64_t address, const void *host, size_t bytes);
bt_status bti_cl_download(void *device, void *host, uint64_t address, size_t bytes);
bt_status bti_cl_fetch(void *device, void *host, uint64_t address, bti_event made, size_t bytes, bti_work_end *end);
bt_status bti_cl_copy(void *device, uint64_t to, uint64_t from, size_t bytes);
bt_status bti_cl_fill(void *device, uint64_t address, int byte, size_t bytes);
bt_status bti_cl_peer_copy(void *to_device, uint64_t to, void *from_device, uint64_t from, size_t bytes);

/* --- marks.c ------------------------------------------------------------------------------------------------------ */
bt_status bti_cl_mark(void *device, bool begins, bti_mark *mark);
uint64_t bti_cl_read_mark(void *device, bti_mark mark);
/* Back to the queue without times. */
bt_status bti_cl_end_times(bti_cl_device *device);

/* --- product.c ---------------------------------------------------------------------------------------------------- */
/* Whether the device uses CLBlast for matrix products. */
bool bti_cl_has_clblast(const bti_cl_device *device);
bt_status bti_cl_product(void *device, const bti_work *work, bool *done);
bool bti_cl_has_product(void *device, bt_dtype dtype);

/* --- program.c ---------------------------------------------------------------------------------------------------- */
extern const bti_gpu_driver bti_cl_gpu_driver;

/* --- probe.c ------------------------------------------------------------------------------------------------------ */
bool bti_cl_detect(unsigned kinds, bti_str *reason);
bt_status bti_cl_probe(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason);
/* The device with that ordinal. */
bt_status bti_cl_device_of(const bti_cl_functions *cl, int ordinal, cl_platform_id *platform, cl_device_id *id);

#endif

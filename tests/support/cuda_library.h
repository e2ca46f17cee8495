/* Devices of the fake machine that lend their memory to the libraries of products and sums, for tests of these. Included once by a test. */
#ifndef BERTH_TESTS_SUPPORT_CUDA_LIBRARY_H
#define BERTH_TESTS_SUPPORT_CUDA_LIBRARY_H

#include "support/cuda_machine.h"

static bti_cuda_device *lending;

static inline bt_status take(int device, size_t bytes, uint64_t *address, void **block) {
    (void)device;
    BTI_TRY(bti_driver_cuda.alloc(lending, bytes, address));
    *block = (void *)(uintptr_t)*address;
    return BT_OK;
}
static inline void give(int device, void *block) {
    (void)device;
    bti_driver_cuda.free(lending, (uint64_t)(uintptr_t)block, 0);
}
static const bti_allocator allocator = {0, take, give};

/* The one that lends from now on. */
static inline bti_cuda_device *open_one(int ordinal) {
    void *device = NULL;
    OK(bti_driver_cuda.open(ordinal, &allocator, &device));
    lending = device;
    return device;
}
static inline void close_one(bti_cuda_device *device) {
    bti_driver_cuda.close(device);
    assert_int_equal(fake.alive(), 0);
}

#endif

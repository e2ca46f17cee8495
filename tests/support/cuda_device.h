/* Devices of the fake machine, and kernels on them, for tests of the cuda driver. Included once by a test. */
#ifndef BERTH_TESTS_SUPPORT_CUDA_DEVICE_H
#define BERTH_TESTS_SUPPORT_CUDA_DEVICE_H

#include "support/cuda_machine.h"

#define TWO_CARDS "\"devices\": [" CARD_A "," CARD_B "]"
#define B 0 /* in PCI bus order */
#define A 1

static const char add_text[] = "KERNEL(64) fake_add(const struct words3 words) {}\n"
                               "KERNEL(64) fake_add_more(WORDS_IN_MEMORY) {}\n";

static inline bt_status take(int device, size_t bytes, uint64_t *address, void **block) {
    (void)device, (void)bytes, (void)address, (void)block;
    return bti_fail(BT_RESOURCE_EXHAUSTED, "nothing is lent");
}
static inline void give(int device, void *block) { (void)device, (void)block; }
static const bti_allocator allocator = {0, take, give};

static inline bti_cuda_device *open_one(int ordinal) {
    void *device = NULL;
    OK(bti_driver_cuda.open(ordinal, &allocator, &device));
    return device;
}

static inline void close_all(bti_cuda_device *a, bti_cuda_device *b) {
    if (a) bti_driver_cuda.close(a);
    if (b) bti_driver_cuda.close(b);
    assert_int_equal(fake.alive(), 0);
}

static inline bt_status build(bti_cuda_device *device, const char *text, void **module) {
    bti_str str = {0};
    bti_str_add(&str, text);
    bt_status status = bti_cuda_build(device, "add", &str, module);
    bti_str_free(&str);
    return status;
}

/* Adds to floats: words by value, or from memory. */
static inline bt_status launch_add(bti_cuda_device *device, const bti_gpu_function *function, uint64_t address,
                                   uint64_t count, uint64_t by, bool by_value) {
    bti_words words = {.count = by_value ? 3 : 501, .word = {address, count, by}};
    const bti_gpu_launch launch = {function, 2, 64, true, 128, &words};
    return bti_cuda_launch(device, &launch);
}

static inline void finish(bti_cuda_device *device) {
    bti_event event;
    OK(bti_driver_cuda.record(device, &event));
    OK(bti_driver_cuda.wait(device, event));
}

static inline void fill_floats(float *values, size_t count, float from) {
    for (size_t i = 0; i < count; i++) values[i] = from + (float)(i % 1000);
}

static inline void check_floats(const float *values, size_t count, float from) {
    for (size_t i = 0; i < count; i++)
        if (values[i] != from + (float)(i % 1000)) fail_msg("value %zu is %g", i, (double)values[i]);
}

#endif

#include "cli/bench.h"

#include <stdlib.h>

static uint32_t fmix32(uint32_t x) {
    x = (x ^ x >> 16) * 0x85EBCA6B;
    x = (x ^ x >> 13) * 0xC2B2AE35;
    return x ^ x >> 16;
}

static uint32_t word(uint32_t seed, size_t i) { return fmix32((uint32_t)i + seed * 0x9E3779B9); }

static size_t count_of(bt_shape shape) {
    size_t count = 1;
    for (int i = 0; i < shape.rank; i++) count *= (size_t)shape.size[i];
    return count;
}

/* Ready: copied, so that no repetition pays for it. The buffer is freed. */
static bt_array *ready(void *data, bt_dtype dtype, bt_shape shape) {
    bt_array *array = bt_from(data, dtype, shape);
    free(data);
    (void)!bt_block(array); /* what failed is poisoned */
    return array;
}

bt_array *bench_floats(uint32_t seed, float low, float high, bt_shape shape) {
    size_t count = count_of(shape);
    float *data = malloc(count * sizeof *data);
    for (size_t i = 0; data && i < count; i++) data[i] = low + (high - low) * ((float)(word(seed, i) >> 8) * 0x1p-24f);
    return ready(data, BT_F32, shape);
}

bt_array *bench_integers(uint32_t seed, uint32_t limit, bt_shape shape) {
    size_t count = count_of(shape);
    int32_t *data = malloc(count * sizeof *data);
    for (size_t i = 0; data && i < count; i++) data[i] = (int32_t)(word(seed, i) % limit);
    return ready(data, BT_I32, shape);
}

/* Inputs of `berth bench`. */
#include "cli/bench_inputs.h"

#include <stdlib.h>
#include <string.h>

enum { PERIOD = 1000003 };

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

/* The array is computed here, so that no repetition includes the copy. Frees the buffer. */
static bt_array *make_computed(void *data, bt_dtype dtype, bt_shape shape) {
    bt_array *array = bt_from(data, dtype, shape);
    free(data);
    (void)!bt_block(array); /* on errors it is poisoned */
    return array;
}

/* Repeats the first `count` elements of 4 bytes up to `wanted`. */
static void repeat_elements(void *data, size_t count, size_t wanted) {
    char *bytes = data;
    for (size_t done = count; done < wanted;) {
        size_t more = wanted - done < done ? wanted - done : done;
        memcpy(bytes + done * 4, bytes, more * 4);
        done += more;
    }
}

static void fill_floats(float *data, uint32_t seed, float low, float high, size_t count) {
    for (size_t i = 0; i < count; i++) data[i] = low + (high - low) * ((float)(word(seed, i) >> 8) * 0x1p-24f);
}

void bench_fill_floats(float *data, uint32_t seed, float low, float high, size_t count) {
    size_t period = count < PERIOD ? count : PERIOD;
    fill_floats(data, seed, low, high, period);
    repeat_elements(data, period, count);
}

static float *make_floats(uint32_t seed, float low, float high, size_t count) {
    float *data = malloc(count * sizeof *data);
    if (data) fill_floats(data, seed, low, high, count);
    return data;
}

static int32_t *make_integers(uint32_t seed, uint32_t limit, size_t count) {
    int32_t *data = malloc(count * sizeof *data);
    for (size_t i = 0; data && i < count; i++) data[i] = (int32_t)(word(seed, i) % limit);
    return data;
}

bt_array *bench_floats(uint32_t seed, float low, float high, bt_shape shape) {
    return make_computed(make_floats(seed, low, high, count_of(shape)), BT_F32, shape);
}

bt_array *bench_integers(uint32_t seed, uint32_t limit, bt_shape shape) {
    return make_computed(make_integers(seed, limit, count_of(shape)), BT_I32, shape);
}

bt_array *bench_repeated_floats(uint32_t seed, float low, float high, bt_shape shape) {
    float *data = malloc(count_of(shape) * sizeof *data);
    if (data) bench_fill_floats(data, seed, low, high, count_of(shape));
    return make_computed(data, BT_F32, shape);
}

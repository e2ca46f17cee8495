/* Inputs of `berth bench` that other libraries can reproduce. All are computed before the call returns. */
#ifndef BTI_CLI_BENCH_INPUTS_H
#define BTI_CLI_BENCH_INPUTS_H

#include <berth.h>

/* [shape] float32 in [low, high): element i of seed s is low + (high - low) * (fmix32(i + s * 0x9E3779B9) >> 8) / 2^24, where fmix32 is
 * the last step of MurmurHash3. bench_integers: int32, fmix32 % limit. */
bt_array *bench_floats(uint32_t seed, float low, float high, bt_shape shape);
bt_array *bench_integers(uint32_t seed, uint32_t limit, bt_shape shape);
/* The first 1,000,003 elements of bench_floats, repeated: takes less time to make. */
bt_array *bench_repeated_floats(uint32_t seed, float low, float high, bt_shape shape);
/* The elements of bench_repeated_floats, in memory of the host. */
void bench_fill_floats(float *data, uint32_t seed, float low, float high, size_t count);

#endif

/* berth/random.h: random numbers that depend on a key alone: the same on every device, in every order of calls.
 *
 * Threefry-2x32-20 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), equal bit for bit to JAX's in its
 * original layout, or with the flag `random_layout=partitionable` in its partitionable one. A key is an array of two uint32;
 * use each key once, make more by bt_split. Shapes as in `bt_uniform(key, BT_F32, 2, 3)`. All are operations: they record and
 * return at once; errors poison.
 */
#ifndef BERTH_RANDOM_H
#define BERTH_RANDOM_H

#include <berth/array.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The key of a seed: its high and its low 32 bits. */
BT_API bt_array *bt_key(int64_t seed);
#define bt_key(...) BTI_AT(bt_array *, bt_key(__VA_ARGS__))
/* [n, 2]: n new keys; `bt_split_at(keys, i)` is the i-th of them as a key. */
BT_API bt_array *bt_split(bt_array *key, int64_t n);
#define bt_split(...) BTI_AT(bt_array *, bt_split(__VA_ARGS__))
BT_API bt_array *bt_split_at(bt_array *keys, int64_t i);
#define bt_split_at(...) BTI_AT(bt_array *, bt_split_at(__VA_ARGS__))
/* A new key from a key and a number. */
BT_API bt_array *bt_fold_in(bt_array *key, uint32_t data);
#define bt_fold_in(...) BTI_AT(bt_array *, bt_fold_in(__VA_ARGS__))

/* Random bits as an unsigned dtype (U8 to U64). */
BT_API bt_array *bt_bits_shape(bt_array *key, bt_dtype dtype, bt_shape shape);
#define bt_bits(key, dtype, ...) BTI_AT(bt_array *, bt_bits_shape(key, dtype, BT_SHAPE(__VA_ARGS__)))
/* Floats in [0, 1), or in [low, high). */
BT_API bt_array *bt_uniform_shape(bt_array *key, double low, double high, bt_dtype dtype, bt_shape shape);
#define bt_uniform(key, dtype, ...) BTI_AT(bt_array *, bt_uniform_shape(key, 0, 1, dtype, BT_SHAPE(__VA_ARGS__)))
BT_API bt_array *bti_uniform_as(const char *name, bt_array *key, double low, double high, bt_dtype dtype,
                                bt_shape shape);
#define bt_uniform_in(key, low, high, dtype, ...) \
    BTI_AT(bt_array *, bti_uniform_as("bt_uniform_in", key, low, high, dtype, BT_SHAPE(__VA_ARGS__)))
/* The standard normal distribution; sqrt(2) * erfinv(uniform). `cpu` and `sim` give the same bits; devices whose logarithm is
 * their own (`opencl`, `cuda`) may differ by a few units in the last place of float32 and float64. */
BT_API bt_array *bt_normal_shape(bt_array *key, bt_dtype dtype, bt_shape shape);
#define bt_normal(key, dtype, ...) BTI_AT(bt_array *, bt_normal_shape(key, dtype, BT_SHAPE(__VA_ARGS__)))
/* Integers in [low, high); low everywhere when the range is empty. */
BT_API bt_array *bt_randint_shape(bt_array *key, int64_t low, int64_t high, bt_dtype dtype, bt_shape shape);
#define bt_randint(key, low, high, dtype, ...) \
    BTI_AT(bt_array *, bt_randint_shape(key, low, high, dtype, BT_SHAPE(__VA_ARGS__)))
/* bool, true with probability p (p: float scalar or an array that broadcasts to the shape). */
BT_API bt_array *bt_bernoulli_shape(bt_array *key, bt_array *p, bt_shape shape);
#define bt_bernoulli(key, p, ...) BTI_AT(bt_array *, bt_bernoulli_shape(key, p, BT_SHAPE(__VA_ARGS__)))
/* 0..n-1 in random order, int32; bt_shuffle: the rows of x along an axis in that order. */
BT_API bt_array *bt_permutation(bt_array *key, int64_t n);
#define bt_permutation(...) BTI_AT(bt_array *, bt_permutation(__VA_ARGS__))
BT_API bt_array *bt_shuffle(bt_array *key, bt_array *x, int axis);
#define bt_shuffle(...) BTI_AT(bt_array *, bt_shuffle(__VA_ARGS__))
/* Classes drawn with probability softmax(logits) over the last axis, int32; shape: the leading axes of logits broadcast to
 * it. */
BT_API bt_array *bt_categorical_shape(bt_array *key, bt_array *logits, bt_shape shape);
#define bt_categorical(key, logits, ...) BTI_AT(bt_array *, bt_categorical_shape(key, logits, BT_SHAPE(__VA_ARGS__)))

#ifdef __cplusplus
}
#endif
#endif

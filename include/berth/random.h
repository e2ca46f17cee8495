/* berth/random.h: random numbers that depend on a key alone: the same on every device and in any order of calls.
 *
 * Threefry-2x32-20 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), equal bit for bit to JAX's
 * in its original layout, or, with the flag `random_layout=partitionable`, in its partitionable layout. A key is an
 * array of two uint32. Use each key once and make more with bt_split. Shapes are given as in `bt_uniform(key, BT_F32,
 * 2, 3)`. All calls are operations: they record and return at once, and return a poisoned array on errors.
 */
#ifndef BERTH_RANDOM_H
#define BERTH_RANDOM_H

#include <berth/array.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The key [2] of a seed: its high and its low 32 bits. */
BT_API bt_array *bt_key(int64_t seed);
#define bt_key(...) BTI_AT(bt_array *, bt_key(__VA_ARGS__))
/* n new keys: [n, 2]. `bt_split_at(keys, i)` is the i-th of them. */
BT_API bt_array *bt_split(bt_array *key, int64_t n);
#define bt_split(...) BTI_AT(bt_array *, bt_split(__VA_ARGS__))
/* The i-th of the keys [n, 2] of bt_split, as a key [2]. */
BT_API bt_array *bt_split_at(bt_array *keys, int64_t i);
#define bt_split_at(...) BTI_AT(bt_array *, bt_split_at(__VA_ARGS__))
/* A new key from a key and a number (a step or a replica, say). */
BT_API bt_array *bt_fold_in(bt_array *key, uint32_t data);
#define bt_fold_in(...) BTI_AT(bt_array *, bt_fold_in(__VA_ARGS__))

/* Random bits as an unsigned dtype (U8 to U64). */
BT_API bt_array *bt_bits_shape(bt_array *key, bt_dtype dtype, bt_shape shape);
#define bt_bits(key, dtype, ...) BTI_AT(bt_array *, bt_bits_shape(key, dtype, BT_SHAPE(__VA_ARGS__)))
/* Floats in [0, 1). */
BT_API bt_array *bt_uniform_shape(bt_array *key, double low, double high, bt_dtype dtype, bt_shape shape);
#define bt_uniform(key, dtype, ...) BTI_AT(bt_array *, bt_uniform_shape(key, 0, 1, dtype, BT_SHAPE(__VA_ARGS__)))
BT_API bt_array *bti_uniform_as(const char *name, bt_array *key, double low, double high, bt_dtype dtype,
                                bt_shape shape);
/* Floats in [low, high). */
#define bt_uniform_in(key, low, high, dtype, ...) \
    BTI_AT(bt_array *, bti_uniform_as("bt_uniform_in", key, low, high, dtype, BT_SHAPE(__VA_ARGS__)))
/* The standard normal distribution: sqrt(2) * erfinv(uniform). `cpu` and `sim` give the same bits; `opencl` and `cuda`
 * use their own logarithm and may differ by a few units in the last place of float32 and float64. */
BT_API bt_array *bt_normal_shape(bt_array *key, bt_dtype dtype, bt_shape shape);
#define bt_normal(key, dtype, ...) BTI_AT(bt_array *, bt_normal_shape(key, dtype, BT_SHAPE(__VA_ARGS__)))
/* Integers in [low, high); all elements are low when the range is empty. */
BT_API bt_array *bt_randint_shape(bt_array *key, int64_t low, int64_t high, bt_dtype dtype, bt_shape shape);
#define bt_randint(key, low, high, dtype, ...) \
    BTI_AT(bt_array *, bt_randint_shape(key, low, high, dtype, BT_SHAPE(__VA_ARGS__)))
/* bool, true with probability p (p: float scalar or an array that broadcasts to the shape). */
BT_API bt_array *bt_bernoulli_shape(bt_array *key, bt_array *p, bt_shape shape);
#define bt_bernoulli(key, p, ...) BTI_AT(bt_array *, bt_bernoulli_shape(key, BTI_OPERAND(p), BT_SHAPE(__VA_ARGS__)))
/* 0 to n-1 in random order: int32 [n]. */
BT_API bt_array *bt_permutation(bt_array *key, int64_t n);
#define bt_permutation(...) BTI_AT(bt_array *, bt_permutation(__VA_ARGS__))
/* x with its slices along `axis` in the order of bt_permutation. */
BT_API bt_array *bt_shuffle(bt_array *key, bt_array *x, int axis);
#define bt_shuffle(...) BTI_AT(bt_array *, bt_shuffle(__VA_ARGS__))
/* Classes drawn with the probabilities softmax(logits) over the last axis, int32. The leading axes of logits broadcast
 * to the shape. */
BT_API bt_array *bt_categorical_shape(bt_array *key, bt_array *logits, bt_shape shape);
#define bt_categorical(key, logits, ...) BTI_AT(bt_array *, bt_categorical_shape(key, logits, BT_SHAPE(__VA_ARGS__)))

#ifdef __cplusplus
}
#endif
#endif

/* Random numbers: Threefry-2x32-20 in JAX's two layouts, and what is drawn from its words. A key is uint32 [2].
 *
 * T(key, c) is a block: two words a and b of a key and a 64-bit counter. In the partitionable layout element i is made of
 * block i. In the original one, words 0..m-1 are the a of h = ceil(m/2) blocks with counters (i, h + i), then their b; the
 * counter that is missing when m is odd is 0. */
#include <float.h>
#include <math.h>

#include "base/flags.h"
#include "ops/primitive.h"

static bool partitionable(void) { return bti_flag_choice(BTI_FLAG_random_layout) == BTI_RANDOM_PARTITIONABLE; }

static bt_array *record_threefry(bt_array *k0, bt_array *k1, bt_array *c0, bt_array *c1, int word) {
    bt_array *inputs[4] = {k0, k1, c0, c1};
    bt_array *poison = bti_poisoned_by(inputs, 4);
    return poison ? poison
                  : bti_record_aligned(BTI_OP_threefry, BT_U32, BT_U32, false, inputs, 4, &(bti_attr){.word = {word}});
}

static bt_array *record_random_words(bt_array *k0, bt_array *k1, bt_array *number, bt_array *count) {
    bt_array *inputs[4] = {k0, k1, number, count};
    bt_array *poison = bti_poisoned_by(inputs, 4);
    return poison ? poison : bti_record_aligned(BTI_OP_random_word, BT_U32, BT_U32, false, inputs, 4, NULL);
}

/* --- keys and blocks ------------------------------------------------------------------------------------------------ */

static bool is_key(bt_array *key, bt_array **poison) {
    if ((*poison = bti_poisoned_by(&key, 1))) return false;
    if (bti_dtype(key) == BT_U32 && bti_rank(key) == 1 && bti_shape(key)[0] == 2) return true;
    *poison = bti_poisonf(BT_INVALID_ARGUMENT,
                          "the key is %s %s; a key is uint32 (2,), from bt_key, bt_split_at or bt_fold_in",
                          bt_dtype_name(bti_dtype(key)), bti_shape_string(key).text);
    return false;
}

static bt_array *key_word(bt_array *key, int64_t i) { return bti_drop_axes(bti_slice_part(key, 0, i, 1, 1), 1); }

/* Both words of blocks with these counters. */
typedef struct words {
    bt_array *a, *b;
} words;

static words threefry_blocks(bt_array *key, bt_array *high, bt_array *low) {
    bt_array *k0 = key_word(key, 0), *k1 = key_word(key, 1);
    return (words){record_threefry(k0, k1, high, low, 0), record_threefry(k0, k1, high, low, 1)};
}

static bt_array *u32(uint32_t value) { return bti_scalar_bits(value, BT_U32); }

/* Blocks 0..n-1 of the partitionable layout: counters are 64-bit numbers. */
static words numbered_blocks(bt_array *key, int64_t n) {
    if (!bti_size_is_symbolic(n) && n <= INT64_C(1) << 32) return threefry_blocks(key, u32(0), bti_iota(n, BT_U32));
    bt_array *i = bti_iota(n, BT_U64);
    return threefry_blocks(key, bti_cast(bti_binary(BTI_OP_shr, i, bti_scalar_bits(32, BT_U64)), BT_U32),
                           bti_cast(i, BT_U32));
}

/* The h = ceil(m/2) blocks that m words of the original layout come from. */
static words halved_blocks(bt_array *key, int64_t m) {
    int64_t h = bti_size_ceil_div(m, 2);
    bt_array *i = bti_iota(h, BT_U32), *second = bti_binary(BTI_OP_add, i, bti_size_scalar(h, BT_U32));
    if (bti_size_mul(h, 2) != m) { /* odd, or not known */
        bt_array *there = bti_binary(BTI_OP_lt, second, bti_size_scalar(m, BT_U32));
        second = bti_where(there, second, u32(0));
    }
    return threefry_blocks(key, i, second);
}

/* W[0..m) of the original layout. */
static bt_array *original_words(bt_array *key, int64_t m) {
    return record_random_words(key_word(key, 0), key_word(key, 1), bti_iota(m, BT_U32), bti_size_scalar(m, BT_U32));
}

static bt_array *as_u64(words w) {
    bt_array *high = bti_binary(BTI_OP_shl, bti_cast(w.a, BT_U64), bti_scalar_bits(32, BT_U64));
    return bti_binary(BTI_OP_or, high, bti_cast(w.b, BT_U64));
}

/* The lowest `bits` (8 or 16) of words as that dtype. */
static bt_array *low_bits(bt_array *w, int bits) {
    return bti_cast(bti_binary(BTI_OP_and, w, u32((UINT32_C(1) << bits) - 1)), bits == 8 ? BT_U8 : BT_U16);
}

/* Several values from each word, lowest bits first. */
static bt_array *cut_words(bt_array *w, int bits, int64_t n) {
    int64_t parts = 32 / bits;
    bt_array *shift = bti_binary(BTI_OP_mul, bti_iota(parts, BT_U32), u32((uint32_t)bits));
    bt_array *values = low_bits(bti_binary(BTI_OP_shr, bti_new_axis(w, 1), shift), bits);
    int64_t count = bti_size_of(values);
    return bti_slice_part(bti_reshape(values, 1, &count), 0, 0, 1, n);
}

/* n values of 8, 16, 32 or 64 bits, unsigned: [n]. */
static bt_array *flat_bits(bt_array *key, int bits, int64_t n) {
    if (n == 0) return bti_iota(0, bits == 8 ? BT_U8 : bits == 16 ? BT_U16 : bits == 32 ? BT_U32 : BT_U64);
    if (partitionable()) {
        words w = numbered_blocks(key, n);
        if (bits == 64) return as_u64(w);
        bt_array *mixed = bti_binary(BTI_OP_xor, w.a, w.b);
        return bits == 32 ? mixed : low_bits(mixed, bits);
    }
    int64_t m = bti_size_ceil_div(bits == 64 ? bti_size_mul(n, 2) : n, bits < 32 ? 32 / bits : 1);
    if (!bti_size_is_symbolic(m) && m >= INT64_C(1) << 32)
        return bti_poisonf(
            BT_UNIMPLEMENTED,
            "%lld elements need 2**32 words or more, which the original random layout does not number; set "
            "the flag random_layout=partitionable, or draw in parts",
            (long long)n);
    if (bits == 64) return as_u64(halved_blocks(key, m)); /* m is even: h is n */
    return bits == 32 ? original_words(key, m) : cut_words(original_words(key, m), bits, n);
}

static bt_array *shaped_bits(bt_array *key, int bits, bt_shape shape) {
    int64_t n = 1;
    for (int i = 0; i < shape.rank; i++) n = bti_size_mul(n, shape.size[i]);
    return bti_reshape(flat_bits(key, bits, n), shape.rank, shape.size);
}

/* The block with counter (0, number), as a key: also child `number` of a split in the partitionable layout. */
static bt_array *folded(bt_array *key, uint32_t number) {
    words w = threefry_blocks(key, u32(0), u32(number));
    return bti_concat((bt_array *[]){bti_new_axis(w.a, 0), bti_new_axis(w.b, 0)}, 2, 0);
}

/* Two new keys: split(key, 2). In the original layout four words: the a of two blocks, then their b. */
static words two_keys(bt_array *key) {
    if (partitionable()) return (words){folded(key, 0), folded(key, 1)};
    return halved_blocks(key, 4);
}

/* --- public: keys and bits ------------------------------------------------------------------------------------------ */

bt_array *bt_key(int64_t seed) {
    BTI_PUBLIC("bt_key");
    uint32_t halves[2] = {(uint32_t)((uint64_t)seed >> 32), (uint32_t)seed};
    BTI_RETURN(bt_from(halves, BT_U32, BT_SHAPE(2)));
}

bt_array *bt_split(bt_array *key, int64_t n) {
    BTI_PUBLIC("bt_split");
    bt_array *poison;
    if (!is_key(key, &poison)) BTI_RETURN(poison);
    if ((poison = bti_check_shape(BT_U32, BT_SHAPE(n, 2), false))) BTI_RETURN(poison);
    int64_t shape[2] = {n, 2};
    if (n == 0) BTI_RETURN(bti_expand(u32(0), 2, shape));
    if (partitionable()) {
        words w = numbered_blocks(key, n);
        BTI_RETURN(bti_concat((bt_array *[]){bti_new_axis(w.a, 1), bti_new_axis(w.b, 1)}, 2, 1));
    }
    BTI_RETURN(bti_reshape(flat_bits(key, 32, bti_size_mul(n, 2)), 2, shape));
}

bt_array *bt_split_at(bt_array *keys, int64_t i) {
    BTI_PUBLIC("bt_split_at");
    BTI_NEED(keys);
    if (bti_dtype(keys) != BT_U32 || bti_rank(keys) != 2 || bti_shape(keys)[1] != 2)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "the keys are %s %s; keys are uint32 (n, 2), from bt_split",
                               bt_dtype_name(bti_dtype(keys)), bti_shape_string(keys).text));
    int64_t count = bti_shape(keys)[0];
    if (i < 0 || (!bti_size_is_symbolic(count) && i >= count))
        BTI_RETURN(bti_poisonf(BT_OUT_OF_RANGE, "no key %lld among %lld", (long long)i, (long long)count));
    BTI_RETURN(bti_drop_axes(bti_slice_part(keys, 0, i, 1, 1), 1));
}

bt_array *bt_fold_in(bt_array *key, uint32_t data) {
    BTI_PUBLIC("bt_fold_in");
    bt_array *poison;
    if (!is_key(key, &poison)) BTI_RETURN(poison);
    BTI_RETURN(folded(key, data));
}

bt_array *bt_bits_shape(bt_array *key, bt_dtype dtype, bt_shape shape) {
    BTI_PUBLIC("bt_bits");
    bt_array *poison;
    if (!is_key(key, &poison)) BTI_RETURN(poison);
    if ((poison = bti_check_shape(dtype, shape, false))) BTI_RETURN(poison);
    if (!bti_dtype_is_int(dtype) || bti_dtype_is_signed(dtype))
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "bits are unsigned integers, BT_U8 to BT_U64, not %s",
                               bt_dtype_name(dtype)));
    BTI_RETURN(shaped_bits(key, bti_dtype_bits(dtype), shape));
}

/* --- floats --------------------------------------------------------------------------------------------------------- */

/* Random bits under the exponent of 1, minus 1. */
typedef struct unit_format {
    int bits, drop;    /* drawn, and dropped of these from the low end */
    uint64_t exponent; /* the bits of 1 */
    bt_dtype whole;    /* the integer of its size */
} unit_format;

static unit_format format_of(bt_dtype dtype) {
    switch (dtype) {
    case BT_F16: return (unit_format){16, 6, 0x3C00, BT_U16};
    case BT_BF16: return (unit_format){8, 1, 0x3F80, BT_U16};
    case BT_F64: return (unit_format){64, 12, UINT64_C(0x3FF0000000000000), BT_U64};
    default: return (unit_format){32, 9, 0x3F800000, BT_U32};
    }
}

/* In [0, 1), then max(low, u * (high - low) + low). */
static bt_array *uniform_floats(bt_array *key, double low, double high, bt_dtype dtype, bt_shape shape) {
    unit_format format = format_of(dtype);
    bt_array *bits = bti_cast(shaped_bits(key, format.bits, shape), format.whole);
    bits = bti_binary(BTI_OP_shr, bits, bti_scalar_bits((uint64_t)format.drop, format.whole));
    bits = bti_binary(BTI_OP_or, bits, bti_scalar_bits(format.exponent, format.whole));
    bt_array *u = bti_binary(BTI_OP_sub, bti_bitcast(bits, dtype), bti_scalar(1, dtype));
    if (low == 0 && high == 1) return u;
    bt_array *least = bti_scalar(low, dtype), *span = bti_binary(BTI_OP_sub, bti_scalar(high, dtype), least);
    return bti_binary(BTI_OP_maximum, least, bti_binary(BTI_OP_add, bti_binary(BTI_OP_mul, u, span), least));
}

/* A key, a float dtype and a shape. */
static bool floats_fit(bt_array *key, bt_dtype dtype, bt_shape shape, bt_array **poison) {
    if (!is_key(key, poison)) return false;
    if ((*poison = bti_check_shape(dtype, shape, false))) return false;
    if (bti_dtype_is_float(dtype)) return true;
    *poison = bti_poisonf(BT_INVALID_ARGUMENT, "draws floats, not %s; use bt_randint or bt_bits", bt_dtype_name(dtype));
    return false;
}

bt_array *bt_uniform_shape(bt_array *key, double low, double high, bt_dtype dtype, bt_shape shape) {
    return bti_uniform_as("bt_uniform", key, low, high, dtype, shape);
}

/* The name: a literal of the header's macros. */
bt_array *bti_uniform_as(const char *name, bt_array *key, double low, double high, bt_dtype dtype, bt_shape shape) {
    BTI_PUBLIC(name);
    bt_array *poison;
    if (!floats_fit(key, dtype, shape, &poison)) BTI_RETURN(poison);
    if (!isfinite(low) || !isfinite(high))
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "bounds %g and %g; they must be finite", low, high));
    BTI_RETURN(uniform_floats(key, low, high, dtype, shape));
}

/* The number after -1 toward 0. */
static double after_minus_one(bt_dtype dtype) {
    return -1 + (dtype == BT_F64 ? 0x1p-53 : dtype == BT_F32 ? 0x1p-24 : dtype == BT_F16 ? 0x1p-11 : 0x1p-8);
}

bt_array *bt_normal_shape(bt_array *key, bt_dtype dtype, bt_shape shape) {
    BTI_PUBLIC("bt_normal");
    bt_array *poison;
    if (!floats_fit(key, dtype, shape, &poison)) BTI_RETURN(poison);
    bt_array *u = uniform_floats(key, after_minus_one(dtype), 1, dtype, shape);
    BTI_RETURN(bti_binary(BTI_OP_mul, bti_scalar(1.4142135623730951, dtype), bti_unary(BTI_OP_erfinv, u)));
}

/* --- what is chosen ------------------------------------------------------------------------------------------------- */

/* low + offset in a type of `bits` (32 or 64) bits; span is the number of values, 0 for all of the type's. The offset is
 * the number H * 2**bits + L taken modulo span, made of parts that do not overflow. */
static bt_array *random_integers(bt_array *key, uint64_t low, uint64_t span, bt_dtype dtype, bt_shape shape) {
    bool wide = bti_dtype_bits(dtype) == 64;
    bt_dtype whole = wide ? BT_U64 : BT_U32;
    int bits = wide ? 64 : 32;
    uint64_t mask = UINT64_MAX >> (64 - bits), half = UINT64_C(1) << (bits / 2);
    uint64_t root = span ? half % span : half, weight = (root * root) & mask;
    if (span) weight %= span;
    words keys = two_keys(key);
    bt_array *offset = shaped_bits(keys.b, bits, shape), *modulus = bti_scalar_bits(span, whole);
    if (span) offset = bti_binary(BTI_OP_mod, offset, modulus);
    if (weight) { /* so span is not 0 */
        bt_array *high = bti_binary(BTI_OP_mod, shaped_bits(keys.a, bits, shape), modulus);
        high = bti_binary(BTI_OP_mul, high, bti_scalar_bits(weight, whole));
        offset = bti_binary(BTI_OP_mod, bti_binary(BTI_OP_add, high, offset), modulus);
    }
    return bti_binary(BTI_OP_add, bti_bitcast(offset, dtype), bti_scalar_bits(low, dtype));
}

bt_array *bt_randint_shape(bt_array *key, int64_t low, int64_t high, bt_dtype dtype, bt_shape shape) {
    BTI_PUBLIC("bt_randint");
    bt_array *poison;
    if (!is_key(key, &poison)) BTI_RETURN(poison);
    if ((poison = bti_check_shape(dtype, shape, false))) BTI_RETURN(poison);
    if (!bti_dtype_is_int(dtype))
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "draws integers, not %s; use bt_uniform or bt_bernoulli",
                               bt_dtype_name(dtype)));
    int bits = bti_dtype_bits(dtype), sign = bti_dtype_is_signed(dtype);
    int64_t greatest = bits - sign >= 63 ? INT64_MAX : (INT64_C(1) << (bits - sign)) - 1;
    int64_t least = !sign ? 0 : bits == 64 ? INT64_MIN : -(INT64_C(1) << (bits - 1));
    /* Bounds beyond the type are cut; `high` one past its greatest value makes the span one larger. */
    bool past = bits < 64 && high > greatest;
    low = low < least ? least : low > greatest ? greatest : low;
    high = high < least ? least : high > greatest ? greatest : high;
    uint64_t span = (uint64_t)high - (uint64_t)low;
    if (low >= high)
        span = 1;
    else if (past)
        span++;
    bt_dtype drawn = bits < 32 ? BT_I32 : dtype;
    uint64_t mask = bits == 64 ? UINT64_MAX : UINT32_MAX;
    BTI_RETURN(bti_cast(random_integers(key, (uint64_t)low, span & mask, drawn, shape), dtype));
}

bt_array *bt_bernoulli_shape(bt_array *key, bt_array *p, bt_shape shape) {
    BTI_PUBLIC("bt_bernoulli");
    bt_array *poison;
    if (!is_key(key, &poison)) BTI_RETURN(poison);
    BTI_NEED(p);
    /* a plain number counts as float32, the default */
    p = bti_node_of(p)->weak ? bti_cast(p, BT_F32) : bti_float(p);
    if (!floats_fit(key, bti_dtype(p), shape, &poison)) BTI_RETURN(poison);
    bt_array *u = uniform_floats(key, 0, 1, bti_dtype(p), shape);
    BTI_RETURN(bti_binary(BTI_OP_lt, u, bti_expand(p, shape.rank, shape.size)));
}

/* 0..n-1, sorted by random numbers as often as makes ties harmless: ceil(3 ln n / ln(2**32 - 1)) times. */
static bt_array *permutation(bt_array *key, int64_t n) {
    int rounds = n > 1 ? (int)ceil(3 * log((double)n) / log((double)UINT32_MAX)) : 0;
    bt_array *order = NULL;
    for (int i = 0; i < rounds; i++) {
        words keys = two_keys(key);
        key = keys.a;
        bt_array *sorted = bti_argsort(flat_bits(keys.b, 32, n), 0);
        order = order ? bti_take(order, sorted, 0) : sorted;
    }
    return order ? order : bti_iota(n, BT_I32);
}

bt_array *bt_permutation(bt_array *key, int64_t n) {
    BTI_PUBLIC("bt_permutation");
    bt_array *poison;
    if (!is_key(key, &poison)) BTI_RETURN(poison);
    if (n < 0 || n > INT32_MAX)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "n is %lld; it must be 0 to %d", (long long)n, INT32_MAX));
    BTI_RETURN(permutation(key, n));
}

bt_array *bt_shuffle(bt_array *key, bt_array *x, int axis) {
    BTI_PUBLIC("bt_shuffle");
    bt_array *poison;
    if (!is_key(key, &poison)) BTI_RETURN(poison);
    BTI_NEED(x);
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    int64_t size = bti_shape(x)[axis];
    if (bti_size_is_symbolic(size) || size > INT32_MAX)
        BTI_RETURN(bti_poisonf(BT_UNIMPLEMENTED, "axis %d of shape %s must have a known size up to %d", axis,
                               bti_shape_string(x).text, INT32_MAX));
    BTI_RETURN(bti_take(x, permutation(key, size), axis));
}

/* The smallest normal number of a float. */
static double tiny(bt_dtype dtype) { return dtype == BT_F64 ? DBL_MIN : dtype == BT_F16 ? 0x1p-14 : (double)FLT_MIN; }

/* The greatest of logits + Gumbel numbers. */
bt_array *bt_categorical_shape(bt_array *key, bt_array *logits, bt_shape shape) {
    BTI_PUBLIC("bt_categorical");
    bt_array *poison;
    if (!is_key(key, &poison)) BTI_RETURN(poison);
    BTI_NEED(logits);
    int rank = bti_rank(logits);
    if (rank == 0 || bti_shape(logits)[rank - 1] == 0)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "logits have shape %s; the last axis must hold one or more classes",
                               bti_shape_string(logits).text));
    logits = bti_float(logits);
    bt_dtype dtype = bti_dtype(logits);
    if ((poison = bti_check_shape(dtype, shape, false))) BTI_RETURN(poison);
    if (shape.rank < BTI_MAX_RANK) shape.size[shape.rank] = bti_shape(logits)[rank - 1];
    shape.rank++;
    if (!floats_fit(key, dtype, shape, &poison)) BTI_RETURN(poison);
    bt_array *u = uniform_floats(key, tiny(dtype), 1, dtype, shape);
    for (int i = 0; i < 2; i++) u = bti_unary(BTI_OP_neg, bti_unary(BTI_OP_log, u)); /* -log(-log(u)) */
    bt_array *scores = bti_binary(BTI_OP_add, u, bti_expand(logits, shape.rank, shape.size));
    BTI_RETURN(bti_index_of(BTI_OP_max, scores, shape.rank - 1));
}

/* --- by example ------------------------------------------------------------------------------------------------------ */

bt_array *bti_row_bits(bt_array *key, bt_array *step, int64_t first_row, bt_array *like) {
    bt_array *poison;
    if (!is_key(key, &poison)) return poison;
    if ((poison = bti_poisoned_by((bt_array *[]){step, like}, 2))) return poison;
    words drawn = threefry_blocks(key, u32(0), step);
    int64_t rows = bti_rank(like) ? bti_shape(like)[0] : 1, each = 1;
    for (int i = 1; i < bti_rank(like); i++) each = bti_size_mul(each, bti_shape(like)[i]);
    bt_array *row = bti_binary(BTI_OP_add, bti_iota(rows, BT_U32), u32((uint32_t)first_row));
    bt_array *bits = record_threefry(drawn.a, drawn.b, bti_new_axis(row, 1), bti_iota(each, BT_U32), 0);
    return bti_reshape(bits, bti_rank(like), bti_shape(like));
}

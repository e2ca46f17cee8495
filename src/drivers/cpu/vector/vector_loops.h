/* Loops over blocks for one target, from scalar.def, and the table of everything: after vector_functions.h. */
#include <tgmath.h>

#include "ir/threefry.h"

/* --- elementwise -------------------------------------------------------------------------------------------------- */

#if defined(__clang__)
#define INDEPENDENT
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif
#define EACH INDEPENDENT for (int i = 0; i < count; i++)

#define LOOP_OF(name)                                                                                \
    static void name(int count, unsigned number __attribute__((unused)), void *out,                  \
                     const void *xs __attribute__((unused)), const void *ys __attribute__((unused)), \
                     const void *zs __attribute__((unused)), const void *ws __attribute__((unused)))

/* One element as a function of its own, and the loop of it. */
#define LOOP(function, type, real, int_type, uint_type, result, expression)                               \
    static inline __attribute__((always_inline))                                                          \
    result function##_of(unsigned BITS __attribute__((unused)), type x, type y __attribute__((unused))) { \
        typedef real REAL __attribute__((unused));                                                        \
        typedef int_type INT __attribute__((unused));                                                     \
        typedef uint_type UINT __attribute__((unused));                                                   \
        return (result)(expression);                                                                      \
    }                                                                                                     \
    LOOP_OF(function) { EACH((result *)out)[i] = function##_of(number, ((const type *)xs)[i], ((const type *)ys)[i]); }

#define FLOATS(name, real)                                         \
    LOOP(name##_F32, float, float, int32_t, uint32_t, float, real) \
    LOOP(name##_F64, double, double, int64_t, uint64_t, double, real)
#define WHOLE(name, signed, unsigned)                                        \
    LOOP(name##_I32, int32_t, float, int32_t, uint32_t, int32_t, signed)     \
    LOOP(name##_U32, uint32_t, float, int32_t, uint32_t, uint32_t, unsigned) \
    LOOP(name##_I64, int64_t, double, int64_t, uint64_t, int64_t, signed)    \
    LOOP(name##_U64, uint64_t, double, int64_t, uint64_t, uint64_t, unsigned)
#define BOOLEAN(name, boolean) LOOP(name##_BOOL, uint8_t, float, int32_t, uint32_t, uint8_t, boolean)

#define BTI_SCALAR_FLOAT(name, real) FLOATS(name, real)
#define BTI_SCALAR_NUMBER(name, real, signed, unsigned) FLOATS(name, real) WHOLE(name, signed, unsigned)
#define BTI_SCALAR_MATH(...)
#define BTI_SCALAR_MATH_NUMBER(name, real, signed, unsigned) WHOLE(name, signed, unsigned)
#define BTI_SCALAR_BITS(name, signed, unsigned, boolean) WHOLE(name, signed, unsigned) BOOLEAN(name, boolean)
#define BTI_SCALAR_ANY(name, real, signed, unsigned, boolean) \
    FLOATS(name, real) WHOLE(name, signed, unsigned) BOOLEAN(name, boolean)
#define BTI_SCALAR_COMPARE(name, expression)                                   \
    LOOP(name##_F32, float, float, int32_t, uint32_t, uint8_t, expression)     \
    LOOP(name##_F64, double, double, int64_t, uint64_t, uint8_t, expression)   \
    LOOP(name##_I32, int32_t, float, int32_t, uint32_t, uint8_t, expression)   \
    LOOP(name##_U32, uint32_t, float, int32_t, uint32_t, uint8_t, expression)  \
    LOOP(name##_I64, int64_t, double, int64_t, uint64_t, uint8_t, expression)  \
    LOOP(name##_U64, uint64_t, double, int64_t, uint64_t, uint8_t, expression) \
    BOOLEAN(name, expression)
#include "ir/scalar.def"

/* Rows of functions: a vector at a time; what is left over fills up one that begins with it. */
#define VECTOR_LOOP(function, type, vector, expression)                                     \
    static inline __attribute__((always_inline)) vector function##_of(vector x, vector y) { \
        (void)y;                                                                            \
        return expression;                                                                  \
    }                                                                                       \
    LOOP_OF(function) {                                                                     \
        enum { LANES = sizeof(vector) / sizeof(type) };                                     \
        vector x, y;                                                                        \
        int i = 0;                                                                          \
        for (; i + LANES <= count; i += LANES) {                                            \
            memcpy(&x, (const type *)xs + i, sizeof x);                                     \
            memcpy(&y, (const type *)ys + i, sizeof y);                                     \
            x = function##_of(x, y);                                                        \
            memcpy((type *)out + i, &x, sizeof x);                                          \
        }                                                                                   \
        if (LANES == 1 || i >= count) return;                                               \
        type left[2][LANES] = {{0}};                                                        \
        size_t bytes = (size_t)(count - i) * sizeof(type);                                  \
        memcpy(left[0], (const type *)xs + i, bytes);                                       \
        memcpy(left[1], (const type *)ys + i, bytes);                                       \
        memcpy(&x, left[0], sizeof x);                                                      \
        memcpy(&y, left[1], sizeof y);                                                      \
        x = function##_of(x, y);                                                            \
        memcpy(left[0], &x, sizeof x);                                                      \
        memcpy((type *)out + i, left[0], bytes);                                            \
    }

#undef exp
#undef exp2
#undef expm1
#undef log
#undef log2
#undef log10
#undef log1p
#undef sin
#undef cos
#undef tan
#undef asin
#undef acos
#undef atan
#undef sinh
#undef cosh
#undef tanh
#undef erf
#undef erfc
#undef erfinv
#undef pow
#undef atan2
#undef sigmoid
#define FUNCTION(name, x) _Generic((x), vector_f32 : name##_f32, vector_f64 : name##_f64)
#define exp(x) FUNCTION(exp, x)(x)
#define exp2(x) FUNCTION(exp2, x)(x)
#define expm1(x) FUNCTION(expm1, x)(x)
#define log(x) FUNCTION(log, x)(x)
#define log2(x) FUNCTION(log2, x)(x)
#define log10(x) FUNCTION(log10, x)(x)
#define log1p(x) FUNCTION(log1p, x)(x)
#define sin(x) FUNCTION(sin, x)(x)
#define cos(x) FUNCTION(cos, x)(x)
#define tan(x) FUNCTION(tan, x)(x)
#define asin(x) FUNCTION(asin, x)(x)
#define acos(x) FUNCTION(acos, x)(x)
#define atan(x) FUNCTION(atan, x)(x)
#define sinh(x) FUNCTION(sinh, x)(x)
#define cosh(x) FUNCTION(cosh, x)(x)
#define tanh(x) FUNCTION(tanh, x)(x)
#define erf(x) FUNCTION(erf, x)(x)
#define erfc(x) FUNCTION(erfc, x)(x)
#define erfinv(x) FUNCTION(erfinv, x)(x)
#define sigmoid(x) FUNCTION(sigmoid, x)(x)
#define pow(x, y) FUNCTION(pow, x)(x, y)
#define atan2(x, y) FUNCTION(atan2, x)(x, y)

#define BTI_SCALAR_MATH(name, real)                  \
    VECTOR_LOOP(name##_F32, float, vector_f32, real) \
    VECTOR_LOOP(name##_F64, double, vector_f64, real)
#define BTI_SCALAR_MATH_NUMBER(name, real, ...) BTI_SCALAR_MATH(name, real)
#define BTI_SCALAR_NUMBER(...)
#include "ir/scalar.def"

LOOP_OF(threefry_U32) {
    const uint32_t *x = xs, *y = ys, *z = zs, *w = ws;
    EACH {
        uint32_t words[2];
        bti_threefry_words(x[i], y[i], z[i], w[i], &words[0], &words[1]);
        ((uint32_t *)out)[i] = number ? words[1] : words[0];
    }
}
LOOP_OF(random_word_U32) {
    const uint32_t *x = xs, *y = ys, *z = zs, *w = ws;
    EACH((uint32_t *)out)[i] = bti_threefry_word(x[i], y[i], z[i], w[i]);
}

/* --- moves and casts ---------------------------------------------------------------------------------------------- */

#define CHOICES(type)                                                  \
    LOOP_OF(where_##type) {                                            \
        const type *y = ys, *z = zs;                                   \
        EACH((type *)out)[i] = ((const uint8_t *)xs)[i] ? y[i] : z[i]; \
    }
#define MOVES(type)                                                                        \
    LOOP_OF(fill_##type) {                                                                 \
        const type x = *(const type *)xs;                                                  \
        EACH((type *)out)[i] = x;                                                          \
    }                                                                                      \
    LOOP_OF(gather_##type) {                                                               \
        const int64_t step = *(const int64_t *)ys;                                         \
        EACH((type *)out)[i] = *(const type *)(const void *)((const char *)xs + i * step); \
    }                                                                                      \
    LOOP_OF(scatter_##type) {                                                              \
        const int64_t step = *(const int64_t *)ys;                                         \
        EACH *(type *)(void *)((char *)out + i * step) = ((const type *)xs)[i];            \
    }
CHOICES(uint8_t)
CHOICES(uint16_t)
CHOICES(uint32_t)
CHOICES(uint64_t)
typedef struct two_words { /* a complex128 */
    uint64_t word[2];
} two_words;
MOVES(uint8_t)
MOVES(uint16_t)
MOVES(uint32_t)
MOVES(uint64_t)
MOVES(two_words)
#define MOVE_ROW(name) \
    { name##_uint8_t, name##_uint16_t, name##_uint32_t, name##_uint64_t, name##_two_words }

LOOP_OF(counting) {
    const uint64_t start = *(const uint64_t *)xs, step = *(const uint64_t *)ys;
    EACH((uint64_t *)out)[i] = start + (uint64_t)i * step;
}

#define CAST(name, from, to, expression)          \
    LOOP_OF(name) {                               \
        EACH {                                    \
            const from x = ((const from *)xs)[i]; \
            ((to *)out)[i] = (to)(expression);    \
        }                                         \
    }
#define CASTS_OF_FLOAT(name, type)                                                                  \
    CAST(cast_##name##_BOOL, type, uint8_t, x != 0)                                                 \
    CAST(cast_##name##_I32, type, int32_t, BTI_SATURATED(int32_t, INT32_MIN, INT32_MAX, (double)x)) \
    CAST(cast_##name##_U32, type, uint32_t, BTI_SATURATED(uint32_t, 0, UINT32_MAX, (double)x))      \
    CAST(cast_##name##_I64, type, int64_t, BTI_SATURATED(int64_t, INT64_MIN, INT64_MAX, (double)x)) \
    CAST(cast_##name##_U64, type, uint64_t, BTI_SATURATED(uint64_t, 0, UINT64_MAX, (double)x))
#define CASTS_OF_WHOLE(name, type)           \
    CAST(cast_##name##_F32, type, float, x)  \
    CAST(cast_##name##_F64, type, double, x) \
    CAST(cast_##name##_BOOL, type, uint8_t, x != 0)
CASTS_OF_FLOAT(F32, float)
CASTS_OF_FLOAT(F64, double)
CAST(cast_F32_F64, float, double, x)
CAST(cast_F64_F32, double, float, x)
CASTS_OF_WHOLE(I32, int32_t)
CASTS_OF_WHOLE(U32, uint32_t)
CASTS_OF_WHOLE(I64, int64_t)
CASTS_OF_WHOLE(U64, uint64_t)
CAST(cast_BOOL_F32, uint8_t, float, x)
CAST(cast_BOOL_F64, uint8_t, double, x)
CAST(cast_BOOL_32, uint8_t, uint32_t, x)
CAST(cast_BOOL_64, uint8_t, uint64_t, x)
CAST(cast_I32_64, int32_t, uint64_t, x)
CAST(cast_U32_64, uint32_t, uint64_t, x)
CAST(cast_64_32, uint64_t, uint32_t, x)
CAST(cast_32_32, uint32_t, uint32_t, x)
CAST(cast_64_64, uint64_t, uint64_t, x)

CAST(widen_f16, uint16_t, float, bti_f32_from_f16(x))
CAST(widen_bf16, uint16_t, float, bti_f32_from_bf16(x))
CAST(narrow_f16, float, uint16_t, bti_f16_from_f32(x))
CAST(narrow_bf16, float, uint16_t, bti_bf16_from_f32(x))

/* --- folds -------------------------------------------------------------------------------------------------------- */

#define FOLD(fold, element, accumulator, type)                                                       \
    static void fold##_line(int count, void *lanes, const void *xs) {                                \
        const type *x = xs;                                                                          \
        accumulator a[BTI_LANES];                                                                    \
        int i = 0, left = count % BTI_LANES;                                                         \
        memcpy(a, lanes, sizeof a);                                                                  \
        for (; i < count - left; i += BTI_LANES)                                                     \
            for (int k = 0; k < BTI_LANES; k++) a[k] = element##_of(0, a[k], (accumulator)x[i + k]); \
        for (int k = 0; k < left; k++) a[k] = element##_of(0, a[k], (accumulator)x[i + k]);          \
        memcpy(lanes, a, sizeof a);                                                                  \
    }                                                                                                \
    static void fold##_tree(void *lanes) {                                                           \
        accumulator *a = lanes;                                                                      \
        for (int w = BTI_LANES / 2; w; w /= 2)                                                       \
            for (int k = 0; k < w; k++) a[k] = element##_of(0, a[k], a[k + w]);                      \
    }                                                                                                \
    static void fold##_each(int count, void *accumulators, const void *xs) {                         \
        accumulator *a = accumulators;                                                               \
        const type *x = xs;                                                                          \
        EACH a[i] = element##_of(0, a[i], (accumulator)x[i]);                                        \
    }
#define FOLDS_OF_WHOLE(fold, name)                   \
    FOLD(fold##_I32, name##_I32, int32_t, int32_t)   \
    FOLD(fold##_U32, name##_U32, uint32_t, uint32_t) \
    FOLD(fold##_I64, name##_I64, int64_t, int64_t)   \
    FOLD(fold##_U64, name##_U64, uint64_t, uint64_t)
#define WIDE_FOLDS(fold, name)                   \
    FOLD(fold##_F32, name##_F64, double, float)  \
    FOLD(fold##_F64, name##_F64, double, double) \
    FOLDS_OF_WHOLE(fold, name)
#define OWN_FOLDS(fold, name)                    \
    FOLD(fold##_F32, name##_F32, float, float)   \
    FOLD(fold##_F64, name##_F64, double, double) \
    FOLDS_OF_WHOLE(fold, name)                   \
    FOLD(fold##_BOOL, name##_BOOL, uint8_t, uint8_t)
WIDE_FOLDS(sum, add)
WIDE_FOLDS(prod, mul)
OWN_FOLDS(max, maximum)
OWN_FOLDS(min, minimum)

#include "drivers/cpu/vector/attention_loops.h"
#include "drivers/cpu/vector/turn_loops.h"
#include "drivers/cpu/vector/scatter_loops.h"
#include "drivers/cpu/vector/line_loops.h"
#include "drivers/cpu/vector/order_loops.h"

/* --- the table ---------------------------------------------------------------------------------------------------- */

#define FOLD_ROW(fold) \
    { fold##_line, fold##_tree, fold##_each }
#define NUMBER_ROW(row, name) \
    row(name##_F32), row(name##_F64), row(name##_I32), row(name##_U32), row(name##_I64), row(name##_U64)
#define SELF(name) name
#define LINE_LOOPS(name) \
    { along_##name, across_##name }
#define ATTENTION_LOOPS(type) \
    { row_greatest_##type, row_weigh_##type, row_dot_##type, row_scale_##type, row_slope_##type }
#define SCATTER_LOOPS(name) \
    { rows_##name, places_##name }
#define WHOLE_SCATTERS(bool, u8, i8, u16, i16, u32, i32, u64, i64)                                   \
    [BT_BOOL] = SCATTER_LOOPS(bool), [BT_U8] = SCATTER_LOOPS(u8), [BT_I8] = SCATTER_LOOPS(i8),       \
    [BT_F8E4M3] = SCATTER_LOOPS(u8), [BT_F8E5M2] = SCATTER_LOOPS(u8), /* their bits, to be set */    \
        [BT_C64] = SCATTER_LOOPS(u64), [BT_U16] = SCATTER_LOOPS(u16), [BT_I16] = SCATTER_LOOPS(i16), \
    [BT_U32] = SCATTER_LOOPS(u32), [BT_I32] = SCATTER_LOOPS(i32), [BT_U64] = SCATTER_LOOPS(u64),     \
    [BT_I64] = SCATTER_LOOPS(i64)
#define FLOAT_SCATTERS(f16, bf16, f32, f64)                                                        \
    [BT_F16] = SCATTER_LOOPS(f16), [BT_BF16] = SCATTER_LOOPS(bf16), [BT_F32] = SCATTER_LOOPS(f32), \
    [BT_F64] = SCATTER_LOOPS(f64)

const bti_vector_code CODE = {
    .functions =
        {
#define BTI_VECTOR_FUNCTION(name, ...) (const void *)name##_f32, (const void *)name##_f64,
#define BTI_SCALAR_FUNCTION(name, ...) (const void *)name,
#include "launch/functions.def"
        },
    .elementwise =
        {
#define BTI_SCALAR_FLOAT(name, ...) [BTI_OP_##name] = {name##_F32, name##_F64},
#define BTI_SCALAR_NUMBER(name, ...) [BTI_OP_##name] = {NUMBER_ROW(SELF, name)},
#define BTI_SCALAR_ANY(name, ...) [BTI_OP_##name] = {NUMBER_ROW(SELF, name), name##_BOOL},
#define BTI_SCALAR_BITS(name, ...) \
    [BTI_OP_##name] = {NULL, NULL, name##_I32, name##_U32, name##_I64, name##_U64, name##_BOOL},
#define BTI_SCALAR_COMPARE BTI_SCALAR_ANY
#include "ir/scalar.def"
            [BTI_OP_threefry] = {[BTI_PLAIN_U32] = threefry_U32},
            [BTI_OP_random_word] = {[BTI_PLAIN_U32] = random_word_U32},
        },
    .cast = {{NULL, cast_F32_F64, cast_F32_I32, cast_F32_U32, cast_F32_I64, cast_F32_U64, cast_F32_BOOL},
             {cast_F64_F32, NULL, cast_F64_I32, cast_F64_U32, cast_F64_I64, cast_F64_U64, cast_F64_BOOL},
             {cast_I32_F32, cast_I32_F64, NULL, cast_32_32, cast_I32_64, cast_I32_64, cast_I32_BOOL},
             {cast_U32_F32, cast_U32_F64, cast_32_32, NULL, cast_U32_64, cast_U32_64, cast_U32_BOOL},
             {cast_I64_F32, cast_I64_F64, cast_64_32, cast_64_32, NULL, cast_64_64, cast_I64_BOOL},
             {cast_U64_F32, cast_U64_F64, cast_64_32, cast_64_32, cast_64_64, NULL, cast_U64_BOOL},
             {cast_BOOL_F32, cast_BOOL_F64, cast_BOOL_32, cast_BOOL_32, cast_BOOL_64, cast_BOOL_64, NULL}},
    .widen = {widen_f16, widen_bf16},
    .narrow = {narrow_f16, narrow_bf16},
    .where = {where_uint8_t, where_uint16_t, where_uint32_t, where_uint64_t},
    .fill = MOVE_ROW(fill),
    .gather = MOVE_ROW(gather),
    .scatter = MOVE_ROW(scatter),
    .count = counting,
    .folds = {{NUMBER_ROW(FOLD_ROW, sum)},
              {NUMBER_ROW(FOLD_ROW, prod)},
              {NUMBER_ROW(FOLD_ROW, max), FOLD_ROW(max_BOOL)},
              {NUMBER_ROW(FOLD_ROW, min), FOLD_ROW(min_BOOL)}},
    .keys = {{keys_uint32_t, elements_uint32_t, alike_uint32_t, least_uint32_t, below_uint32_t, finds_uint32_t,
              network_uint32_t},
             {keys_uint64_t, elements_uint64_t, alike_uint64_t, least_uint64_t, below_uint64_t, finds_uint64_t,
              network_uint64_t}},
    .scatters = {[BTI_SCATTER_ADD] = {WHOLE_SCATTERS(or, u8, u8, u16, u16, u32, u32, u64, u64),
                                      FLOAT_SCATTERS(f16, bf16, f32, f64)},
                 [BTI_SCATTER_SET] = {WHOLE_SCATTERS(set_8, set_8, set_8, set_16, set_16, set_32, set_32, set_64,
                                                     set_64),
                                      FLOAT_SCATTERS(set_16, set_16, set_32, set_64)},
                 [BTI_SCATTER_MAX] = {WHOLE_SCATTERS(max_u8, max_u8, max_i8,
                                                     max_u16, max_i16, max_u32, max_i32, max_u64, max_i64),
                                      FLOAT_SCATTERS(max_f16, max_bf16, max_f32, max_f64)},
                 [BTI_SCATTER_MIN] = {WHOLE_SCATTERS(min_u8, min_u8, min_i8,
                                                     min_u16, min_i16, min_u32, min_i32, min_u64, min_i64),
                                      FLOAT_SCATTERS(min_f16, min_bf16, min_f32, min_f64)}},
    .lines = {[BT_F16] = LINE_LOOPS(f16),
              [BT_BF16] = LINE_LOOPS(bf16),
              [BT_F32] = LINE_LOOPS(f32),
              [BT_F64] = LINE_LOOPS(f64),
              [BT_U32] = LINE_LOOPS(u32),
              [BT_I32] = LINE_LOOPS(u32),
              [BT_U64] = LINE_LOOPS(u64),
              [BT_I64] = LINE_LOOPS(u64)},
    .rows = {ATTENTION_LOOPS(f32), ATTENTION_LOOPS(f64)},
    .turn = turn,
};

/* berth/ops.h: operations on arrays.
 *
 * All operations record and return at once; the result belongs to the innermost scope. They never return NULL: an
 * operation with invalid arguments returns a poisoned array (status.h). Any thread. Operands broadcast as in NumPy:
 * shapes are aligned at the right, and axes of size 1 are repeated. Negative axes count from the end. The dtype of a
 * result is bt_promote of its operands' dtypes. "Floats" below means: the result is floating-point; integers and bool
 * become float32, 64-bit integers float64.
 *
 * A number without a dtype, bt_num(x), is weak: it takes the dtype of the arrays that it is combined with if they are
 * floats, and float64 if they are integers or bool. An operation on weak arrays only gives a weak float64; bt_cast,
 * bt_concat and bt_stack give a dtype that is not weak. bt_f32(x) and the like are arrays of that dtype like any other.
 *
 * The same inputs give the same bits for any number of threads, fused or not. Products of floats that libraries compute
 * have the same bits on one instruction set; all other operations on every instruction set. The sign and payload of a
 * NaN are not covered. Details: docs/same-bits.md.
 *
 * Shapes are written as letters: [B, T, C]; [I...] is any number of axes.
 */
#ifndef BERTH_OPS_H
#define BERTH_OPS_H

#include <berth/array.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Axes by value: BT_AXES(0, -1); BT_AXES() are none. BT_ALL, and a structure that is all 0, mean all axes. */
typedef struct bt_axes {
    BTI_BY_NAME    /* so that a number is no list of axes */
        int count; /* 0: all; BTI_NO_AXES: none */
    int64_t axis[BT_MAX_RANK];
} bt_axes;
#define BTI_NO_AXES (-1)
static inline bt_axes bti_axes_all(void) {
    bt_axes axes = {NULL, 0, {0}};
    return axes;
}
static inline bt_axes bti_axes_from_shape(bt_shape shape) {
    bt_axes axes = bti_axes_all();
    axes.count = shape.rank ? shape.rank : BTI_NO_AXES;
    for (int i = 0; i < shape.rank && i < BT_MAX_RANK; i++) axes.axis[i] = shape.size[i];
    return axes;
}
#define BT_AXES(...) bti_axes_from_shape(BT_SHAPE(__VA_ARGS__))
#define BT_ALL bti_axes_all()

/* --- elementwise, one input ------------------------------------------------------------------------------------------ */

/* -x. Integers wrap. */
BT_API bt_array *bt_neg(bt_array *x);
#define bt_neg(...) BTI_AT(bt_array *, bt_neg(__VA_ARGS__))
/* |x|. Gradient at 0: 1. */
BT_API bt_array *bt_abs(bt_array *x);
#define bt_abs(...) BTI_AT(bt_array *, bt_abs(__VA_ARGS__))
/* -1, 0 or 1; NaN stays. */
BT_API bt_array *bt_sign(bt_array *x);
#define bt_sign(...) BTI_AT(bt_array *, bt_sign(__VA_ARGS__))
/* x * x. */
BT_API bt_array *bt_square(bt_array *x);
#define bt_square(...) BTI_AT(bt_array *, bt_square(__VA_ARGS__))
/* The greatest integer not above x. Floats. */
BT_API bt_array *bt_floor(bt_array *x);
#define bt_floor(...) BTI_AT(bt_array *, bt_floor(__VA_ARGS__))
/* The least integer not below x. Floats. */
BT_API bt_array *bt_ceil(bt_array *x);
#define bt_ceil(...) BTI_AT(bt_array *, bt_ceil(__VA_ARGS__))
/* Rounds to the nearest integer, halves to even. Floats. */
BT_API bt_array *bt_round(bt_array *x);
#define bt_round(...) BTI_AT(bt_array *, bt_round(__VA_ARGS__))
/* Rounds toward zero. Floats. */
BT_API bt_array *bt_trunc(bt_array *x);
#define bt_trunc(...) BTI_AT(bt_array *, bt_trunc(__VA_ARGS__))
/* bt_exp to bt_erfinv: floats. */
BT_API bt_array *bt_exp(bt_array *x);
#define bt_exp(...) BTI_AT(bt_array *, bt_exp(__VA_ARGS__))
BT_API bt_array *bt_exp2(bt_array *x);
#define bt_exp2(...) BTI_AT(bt_array *, bt_exp2(__VA_ARGS__))
/* e**x - 1, accurate near 0. */
BT_API bt_array *bt_expm1(bt_array *x);
#define bt_expm1(...) BTI_AT(bt_array *, bt_expm1(__VA_ARGS__))
BT_API bt_array *bt_log(bt_array *x);
#define bt_log(...) BTI_AT(bt_array *, bt_log(__VA_ARGS__))
BT_API bt_array *bt_log2(bt_array *x);
#define bt_log2(...) BTI_AT(bt_array *, bt_log2(__VA_ARGS__))
BT_API bt_array *bt_log10(bt_array *x);
#define bt_log10(...) BTI_AT(bt_array *, bt_log10(__VA_ARGS__))
/* log(1 + x), accurate near 0. */
BT_API bt_array *bt_log1p(bt_array *x);
#define bt_log1p(...) BTI_AT(bt_array *, bt_log1p(__VA_ARGS__))
BT_API bt_array *bt_sqrt(bt_array *x);
#define bt_sqrt(...) BTI_AT(bt_array *, bt_sqrt(__VA_ARGS__))
/* 1 / sqrt(x). */
BT_API bt_array *bt_rsqrt(bt_array *x);
#define bt_rsqrt(...) BTI_AT(bt_array *, bt_rsqrt(__VA_ARGS__))
/* 1 / x. */
BT_API bt_array *bt_reciprocal(bt_array *x);
#define bt_reciprocal(...) BTI_AT(bt_array *, bt_reciprocal(__VA_ARGS__))
/* bt_sin to bt_tan: x in radians. */
BT_API bt_array *bt_sin(bt_array *x);
#define bt_sin(...) BTI_AT(bt_array *, bt_sin(__VA_ARGS__))
BT_API bt_array *bt_cos(bt_array *x);
#define bt_cos(...) BTI_AT(bt_array *, bt_cos(__VA_ARGS__))
BT_API bt_array *bt_tan(bt_array *x);
#define bt_tan(...) BTI_AT(bt_array *, bt_tan(__VA_ARGS__))
BT_API bt_array *bt_asin(bt_array *x);
#define bt_asin(...) BTI_AT(bt_array *, bt_asin(__VA_ARGS__))
BT_API bt_array *bt_acos(bt_array *x);
#define bt_acos(...) BTI_AT(bt_array *, bt_acos(__VA_ARGS__))
BT_API bt_array *bt_atan(bt_array *x);
#define bt_atan(...) BTI_AT(bt_array *, bt_atan(__VA_ARGS__))
BT_API bt_array *bt_sinh(bt_array *x);
#define bt_sinh(...) BTI_AT(bt_array *, bt_sinh(__VA_ARGS__))
BT_API bt_array *bt_cosh(bt_array *x);
#define bt_cosh(...) BTI_AT(bt_array *, bt_cosh(__VA_ARGS__))
BT_API bt_array *bt_tanh(bt_array *x);
#define bt_tanh(...) BTI_AT(bt_array *, bt_tanh(__VA_ARGS__))
BT_API bt_array *bt_erf(bt_array *x);
#define bt_erf(...) BTI_AT(bt_array *, bt_erf(__VA_ARGS__))
/* 1 - erf(x), accurate where the result is near 0. */
BT_API bt_array *bt_erfc(bt_array *x);
#define bt_erfc(...) BTI_AT(bt_array *, bt_erfc(__VA_ARGS__))
BT_API bt_array *bt_erfinv(bt_array *x);
#define bt_erfinv(...) BTI_AT(bt_array *, bt_erfinv(__VA_ARGS__))
/* bool: whether x == 0. */
BT_API bt_array *bt_logical_not(bt_array *x);
#define bt_logical_not(...) BTI_AT(bt_array *, bt_logical_not(__VA_ARGS__))
/* The bits of x inverted. Integers and bool. */
BT_API bt_array *bt_bit_not(bt_array *x);
#define bt_bit_not(...) BTI_AT(bt_array *, bt_bit_not(__VA_ARGS__))
/* bool: whether x is NaN. */
BT_API bt_array *bt_isnan(bt_array *x);
#define bt_isnan(...) BTI_AT(bt_array *, bt_isnan(__VA_ARGS__))
/* bool: whether x is inf or -inf. */
BT_API bt_array *bt_isinf(bt_array *x);
#define bt_isinf(...) BTI_AT(bt_array *, bt_isinf(__VA_ARGS__))
/* bool: whether x is neither infinite nor NaN. */
BT_API bt_array *bt_isfinite(bt_array *x);
#define bt_isfinite(...) BTI_AT(bt_array *, bt_isfinite(__VA_ARGS__))

/* --- activations (floats) -------------------------------------------------------------------------------------------- */

/* max(x, 0). Gradient at 0: 0. */
BT_API bt_array *bt_relu(bt_array *x);
#define bt_relu(...) BTI_AT(bt_array *, bt_relu(__VA_ARGS__))
/* 1 / (1 + e**-x). */
BT_API bt_array *bt_sigmoid(bt_array *x);
#define bt_sigmoid(...) BTI_AT(bt_array *, bt_sigmoid(__VA_ARGS__))
/* log(1 + e**x), without overflow. */
BT_API bt_array *bt_softplus(bt_array *x);
#define bt_softplus(...) BTI_AT(bt_array *, bt_softplus(__VA_ARGS__))
/* x * sigmoid(x). */
BT_API bt_array *bt_silu(bt_array *x);
#define bt_silu(...) BTI_AT(bt_array *, bt_silu(__VA_ARGS__))
/* x * P(X <= x) for a standard normal X; the exact form, computed with erfc. */
BT_API bt_array *bt_gelu(bt_array *x);
#define bt_gelu(...) BTI_AT(bt_array *, bt_gelu(__VA_ARGS__))
/* x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x**3))), an approximation of bt_gelu: "gelu_new" of GPT-2, PyTorch's approximate="tanh", the default of JAX and Flux. */
BT_API bt_array *bt_gelu_tanh(bt_array *x);
#define bt_gelu_tanh(...) BTI_AT(bt_array *, bt_gelu_tanh(__VA_ARGS__))
/* x, or alpha * (e**x - 1) below 0. */
BT_API bt_array *bt_elu(bt_array *x, double alpha);
#define bt_elu(...) BTI_AT(bt_array *, bt_elu(__VA_ARGS__))
/* x, or slope * x below 0. */
BT_API bt_array *bt_leaky_relu(bt_array *x, double slope);
#define bt_leaky_relu(...) BTI_AT(bt_array *, bt_leaky_relu(__VA_ARGS__))
/* x itself. */
BT_API bt_array *bt_identity(bt_array *x);
#define bt_identity(...) BTI_AT(bt_array *, bt_identity(__VA_ARGS__))

/* --- elementwise, two inputs ----------------------------------------------------------------------------------------- */

/* x + y. Integers wrap. */
BT_API bt_array *bt_add(bt_array *x, bt_array *y);
#define bt_add(x, y) BTI_AT(bt_array *, bt_add(BTI_OPERAND(x), BTI_OPERAND(y)))
BT_API bt_array *bt_sub(bt_array *x, bt_array *y);
#define bt_sub(x, y) BTI_AT(bt_array *, bt_sub(BTI_OPERAND(x), BTI_OPERAND(y)))
BT_API bt_array *bt_mul(bt_array *x, bt_array *y);
#define bt_mul(x, y) BTI_AT(bt_array *, bt_mul(BTI_OPERAND(x), BTI_OPERAND(y)))
/* x / y. Floats. */
BT_API bt_array *bt_div(bt_array *x, bt_array *y);
#define bt_div(x, y) BTI_AT(bt_array *, bt_div(BTI_OPERAND(x), BTI_OPERAND(y)))
/* Python's //: the floor of the exact quotient, rounded to the dtype. Floats divided by 0 give x / 0; an infinite x
 * gives NaN. Integers divided by 0 give 0; the smallest integer divided by -1 gives itself (it wraps). */
BT_API bt_array *bt_floor_div(bt_array *x, bt_array *y);
#define bt_floor_div(x, y) BTI_AT(bt_array *, bt_floor_div(BTI_OPERAND(x), BTI_OPERAND(y)))
/* Python's %: the result has the sign of y; exact except for one rounding. Floats modulo 0 give NaN, integers 0. */
BT_API bt_array *bt_mod(bt_array *x, bt_array *y);
#define bt_mod(x, y) BTI_AT(bt_array *, bt_mod(BTI_OPERAND(x), BTI_OPERAND(y)))
/* x ** y. */
BT_API bt_array *bt_pow(bt_array *x, bt_array *y);
#define bt_pow(x, y) BTI_AT(bt_array *, bt_pow(BTI_OPERAND(x), BTI_OPERAND(y)))
/* atan2(x, y): the angle in radians of the point with abscissa y and ordinate x. Floats. */
BT_API bt_array *bt_atan2(bt_array *x, bt_array *y);
#define bt_atan2(x, y) BTI_AT(bt_array *, bt_atan2(BTI_OPERAND(x), BTI_OPERAND(y)))
/* The greater of x and y. bt_maximum and bt_minimum: NaN if either is NaN. Where x == y each gets half of the gradient. */
BT_API bt_array *bt_maximum(bt_array *x, bt_array *y);
#define bt_maximum(x, y) BTI_AT(bt_array *, bt_maximum(BTI_OPERAND(x), BTI_OPERAND(y)))
BT_API bt_array *bt_minimum(bt_array *x, bt_array *y);
#define bt_minimum(x, y) BTI_AT(bt_array *, bt_minimum(BTI_OPERAND(x), BTI_OPERAND(y)))
/* The bits that x and y have. bt_bit_and to bt_shift_right: integers and bool. */
BT_API bt_array *bt_bit_and(bt_array *x, bt_array *y);
#define bt_bit_and(x, y) BTI_AT(bt_array *, bt_bit_and(BTI_OPERAND(x), BTI_OPERAND(y)))
/* The bits that x or y has. */
BT_API bt_array *bt_bit_or(bt_array *x, bt_array *y);
#define bt_bit_or(x, y) BTI_AT(bt_array *, bt_bit_or(BTI_OPERAND(x), BTI_OPERAND(y)))
/* The bits that one of x and y has, but not both. */
BT_API bt_array *bt_bit_xor(bt_array *x, bt_array *y);
#define bt_bit_xor(x, y) BTI_AT(bt_array *, bt_bit_xor(BTI_OPERAND(x), BTI_OPERAND(y)))
/* The bits of x shifted to the left by y places. x and y are promoted to one dtype first, as in bt_add, and y counts
 * bits of that dtype. A negative y, or one of the dtype's width or more, gives 0. For bool: x and not y. */
BT_API bt_array *bt_shift_left(bt_array *x, bt_array *y);
#define bt_shift_left(x, y) BTI_AT(bt_array *, bt_shift_left(BTI_OPERAND(x), BTI_OPERAND(y)))
/* The bits of x shifted to the right by y places, as by bt_shift_left. Signed dtypes keep the sign: shifting out all bits of a negative x gives -1. */
BT_API bt_array *bt_shift_right(bt_array *x, bt_array *y);
#define bt_shift_right(x, y) BTI_AT(bt_array *, bt_shift_right(BTI_OPERAND(x), BTI_OPERAND(y)))
/* bt_eq to bt_logical_xor: bool. */
BT_API bt_array *bt_eq(bt_array *x, bt_array *y);
#define bt_eq(x, y) BTI_AT(bt_array *, bt_eq(BTI_OPERAND(x), BTI_OPERAND(y)))
BT_API bt_array *bt_ne(bt_array *x, bt_array *y);
#define bt_ne(x, y) BTI_AT(bt_array *, bt_ne(BTI_OPERAND(x), BTI_OPERAND(y)))
BT_API bt_array *bt_lt(bt_array *x, bt_array *y);
#define bt_lt(x, y) BTI_AT(bt_array *, bt_lt(BTI_OPERAND(x), BTI_OPERAND(y)))
BT_API bt_array *bt_le(bt_array *x, bt_array *y);
#define bt_le(x, y) BTI_AT(bt_array *, bt_le(BTI_OPERAND(x), BTI_OPERAND(y)))
/* x > y. */
BT_API bt_array *bt_gt(bt_array *x, bt_array *y);
#define bt_gt(x, y) BTI_AT(bt_array *, bt_gt(BTI_OPERAND(x), BTI_OPERAND(y)))
/* x >= y. */
BT_API bt_array *bt_ge(bt_array *x, bt_array *y);
#define bt_ge(x, y) BTI_AT(bt_array *, bt_ge(BTI_OPERAND(x), BTI_OPERAND(y)))
/* Whether x != 0 and y != 0. */
BT_API bt_array *bt_logical_and(bt_array *x, bt_array *y);
#define bt_logical_and(x, y) BTI_AT(bt_array *, bt_logical_and(BTI_OPERAND(x), BTI_OPERAND(y)))
/* Whether x != 0 or y != 0. */
BT_API bt_array *bt_logical_or(bt_array *x, bt_array *y);
#define bt_logical_or(x, y) BTI_AT(bt_array *, bt_logical_or(BTI_OPERAND(x), BTI_OPERAND(y)))
/* Whether one of x != 0 and y != 0 holds, but not both. */
BT_API bt_array *bt_logical_xor(bt_array *x, bt_array *y);
#define bt_logical_xor(x, y) BTI_AT(bt_array *, bt_logical_xor(BTI_OPERAND(x), BTI_OPERAND(y)))

/* --- elementwise, the rest ------------------------------------------------------------------------------------------- */

/* x where `condition` (bool, or a number that is not 0) holds, else y. */
BT_API bt_array *bt_where(bt_array *condition, bt_array *x, bt_array *y);
#define bt_where(condition, x, y) BTI_AT(bt_array *, bt_where(BTI_OPERAND(condition), BTI_OPERAND(x), BTI_OPERAND(y)))
/* log(exp(x) + exp(y)), without overflow. Floats. */
BT_API bt_array *bt_logaddexp(bt_array *x, bt_array *y);
#define bt_logaddexp(x, y) BTI_AT(bt_array *, bt_logaddexp(BTI_OPERAND(x), BTI_OPERAND(y)))
/* x with these numbers in the place of NaN, inf and -inf; integers are unchanged. */
BT_API bt_array *bt_nan_to_num(bt_array *x, double nan, double posinf, double neginf);
#define bt_nan_to_num(...) BTI_AT(bt_array *, bt_nan_to_num(__VA_ARGS__))
/* x limited to [low, high]. Where x equals low or high the gradient is one half. */
BT_API bt_array *bt_clamp(bt_array *x, double low, double high);
#define bt_clamp(...) BTI_AT(bt_array *, bt_clamp(__VA_ARGS__))
/* Converts to a dtype: floats to integers round toward zero and saturate, NaN gives 0; integers wrap; to bool: x != 0. */
BT_API bt_array *bt_cast(bt_array *x, bt_dtype dtype);
#define bt_cast(...) BTI_AT(bt_array *, bt_cast(__VA_ARGS__))
/* The bits of x read as another dtype of the same size. */
BT_API bt_array *bt_bitcast(bt_array *x, bt_dtype dtype);
#define bt_bitcast(...) BTI_AT(bt_array *, bt_bitcast(__VA_ARGS__))
/* The sum of `count` >= 1 arrays of equal shape and dtype, added in their order. */
BT_API bt_array *bt_add_n(bt_array *const *arrays, int count);
#define bt_add_n(...) BTI_AT(bt_array *, bt_add_n(__VA_ARGS__))
/* x; no gradient passes through it. */
BT_API bt_array *bt_stop_gradient(bt_array *x);
#define bt_stop_gradient(...) BTI_AT(bt_array *, bt_stop_gradient(__VA_ARGS__))

/* --- reductions --------------------------------------------------------------------------------------------------------
 * What they go over is said by name, or by place: `bt_sum(x)` of all elements, `bt_sum(x, .axes = BT_AXES(1), .keep = true)`,
 * `bt_sum(x, BT_AXES(1), true)`. With `keep` the axes stay, with size 1. The functions themselves take both, as declared. */

/* The sum. Integers and bool are summed in 64 bits and give a 64-bit integer, as in NumPy. */
BT_API bt_array *bt_sum(bt_array *x, bt_axes axes, bool keep);
/* The product; dtypes as in bt_sum. */
BT_API bt_array *bt_prod(bt_array *x, bt_axes axes, bool keep);
/* The mean. Floats. */
BT_API bt_array *bt_mean(bt_array *x, bt_axes axes, bool keep);
/* The greatest element. bt_max and bt_min: NaN if any element is NaN. Equal extrema share the gradient. INVALID_ARGUMENT if there are no elements. */
BT_API bt_array *bt_max(bt_array *x, bt_axes axes, bool keep);
BT_API bt_array *bt_min(bt_array *x, bt_axes axes, bool keep);
/* bool: whether all elements are true, or not 0. */
BT_API bt_array *bt_all(bt_array *x, bt_axes axes, bool keep);
/* bool: whether an element is true, or not 0. */
BT_API bt_array *bt_any(bt_array *x, bt_axes axes, bool keep);
/* log(sum(exp(x))), without overflow. Floats. */
BT_API bt_array *bt_logsumexp(bt_array *x, bt_axes axes, bool keep);
/* The sum in a dtype: x is cast to it first. */
BT_API bt_array *bt_sum_as(bt_array *x, bt_axes axes, bool keep, bt_dtype dtype);
#define bt_sum_as(...) BTI_AT(bt_array *, bt_sum_as(__VA_ARGS__))
/* The product in a dtype: x is cast to it first. */
BT_API bt_array *bt_prod_as(bt_array *x, bt_axes axes, bool keep, bt_dtype dtype);
#define bt_prod_as(...) BTI_AT(bt_array *, bt_prod_as(__VA_ARGS__))
/* The variance: sum((x - mean)**2) / (n - ddof). Floats. */
BT_API bt_array *bt_var(bt_array *x, bt_axes axes, bool keep, int ddof);
/* The square root of bt_var. */
BT_API bt_array *bt_std(bt_array *x, bt_axes axes, bool keep, int ddof);
/* Euclid's norm: sqrt(sum(x**2)). Floats. */
BT_API bt_array *bt_norm(bt_array *x, bt_axes axes, bool keep);
/* The value below which a part q (0 to 1) of the elements lies, between two of them in proportion; with a NaN it is NaN. Floats. UNIMPLEMENTED if one of the axes has an unknown
 * size (bt_input). */
BT_API bt_array *bt_quantile(bt_array *x, double q, bt_axes axes, bool keep);
/* bt_quantile with q 0.5. */
BT_API bt_array *bt_median(bt_array *x, bt_axes axes, bool keep);

/* The arguments of a reduction behind the array, by place or by name. */
typedef struct bt_over {
    BTI_START
    bt_axes axes BTI_INITIALLY({}); /* [all] */
    bool keep BTI_INITIALLY(false);
} bt_over;
typedef struct bt_spread_over {
    BTI_START
    bt_axes axes BTI_INITIALLY({}); /* [all] */
    bool keep BTI_INITIALLY(false);
    int ddof BTI_INITIALLY(0); /* [0] */
} bt_spread_over;
static inline bt_array *bti_reduce_over(bt_array *(*function)(bt_array *, bt_axes, bool), bt_array *x, bt_over over) {
    return function(x, over.axes, over.keep);
}
static inline bt_array *bti_spread(bt_array *(*function)(bt_array *, bt_axes, bool, int), bt_array *x,
                                   bt_spread_over over) {
    return function(x, over.axes, over.keep, over.ddof);
}
static inline bt_array *bti_quantile_over(bt_array *x, double q, bt_over over) {
    return bt_quantile(x, q, over.axes, over.keep);
}
#ifndef BERTH_BUILDING
#define BTI_REDUCE(function, x, ...) bti_reduce_over(function, x, BTI_VALUE(bt_over, __VA_ARGS__))
#define BTI_SPREAD(function, x, ...) bti_spread(function, x, BTI_VALUE(bt_spread_over, __VA_ARGS__))
#define BTI_QUANTILE(x, q, ...) bti_quantile_over(x, q, BTI_VALUE(bt_over, __VA_ARGS__))
#define bt_sum(...) BTI_AT(bt_array *, BTI_REDUCE(bt_sum, __VA_ARGS__, ))
#define bt_prod(...) BTI_AT(bt_array *, BTI_REDUCE(bt_prod, __VA_ARGS__, ))
#define bt_mean(...) BTI_AT(bt_array *, BTI_REDUCE(bt_mean, __VA_ARGS__, ))
#define bt_max(...) BTI_AT(bt_array *, BTI_REDUCE(bt_max, __VA_ARGS__, ))
#define bt_min(...) BTI_AT(bt_array *, BTI_REDUCE(bt_min, __VA_ARGS__, ))
#define bt_all(...) BTI_AT(bt_array *, BTI_REDUCE(bt_all, __VA_ARGS__, ))
#define bt_any(...) BTI_AT(bt_array *, BTI_REDUCE(bt_any, __VA_ARGS__, ))
#define bt_logsumexp(...) BTI_AT(bt_array *, BTI_REDUCE(bt_logsumexp, __VA_ARGS__, ))
#define bt_norm(...) BTI_AT(bt_array *, BTI_REDUCE(bt_norm, __VA_ARGS__, ))
#define bt_median(...) BTI_AT(bt_array *, BTI_REDUCE(bt_median, __VA_ARGS__, ))
#define bt_var(...) BTI_AT(bt_array *, BTI_SPREAD(bt_var, __VA_ARGS__, ))
#define bt_std(...) BTI_AT(bt_array *, BTI_SPREAD(bt_std, __VA_ARGS__, ))
#define bt_quantile(...) BTI_AT(bt_array *, BTI_QUANTILE(__VA_ARGS__, ))
#endif

/* int32: the index of the first maximum, or of the first NaN. The axis is removed. */
BT_API bt_array *bt_argmax(bt_array *x, int axis);
#define bt_argmax(...) BTI_AT(bt_array *, bt_argmax(__VA_ARGS__))
/* int32: the index of the first minimum, or of the first NaN. The axis is removed. */
BT_API bt_array *bt_argmin(bt_array *x, int axis);
#define bt_argmin(...) BTI_AT(bt_array *, bt_argmin(__VA_ARGS__))
/* The cumulative sum along an axis, from its end if `reverse`; x keeps its shape and dtype, and is no bool (bt_cast it first). */
BT_API bt_array *bt_cumsum(bt_array *x, int axis, bool reverse);
#define bt_cumsum(...) BTI_AT(bt_array *, bt_cumsum(__VA_ARGS__))
/* The cumulative product. Its gradient is right where x has zeros. Otherwise as bt_cumsum. */
BT_API bt_array *bt_cumprod(bt_array *x, int axis, bool reverse);
#define bt_cumprod(...) BTI_AT(bt_array *, bt_cumprod(__VA_ARGS__))
/* The greatest so far, of bool too; NaN stays. The gradient goes to the last of equals, as PyTorch's does. Otherwise as bt_cumsum. */
BT_API bt_array *bt_cummax(bt_array *x, int axis, bool reverse);
#define bt_cummax(...) BTI_AT(bt_array *, bt_cummax(__VA_ARGS__))
/* The smallest so far. Otherwise as bt_cummax. */
BT_API bt_array *bt_cummin(bt_array *x, int axis, bool reverse);
#define bt_cummin(...) BTI_AT(bt_array *, bt_cummin(__VA_ARGS__))

/* --- shape ----------------------------------------------------------------------------------------------------------- */

/* x in another shape: keeps the row-major order of the elements; one size may be -1 and is computed: `bt_reshape(x, 2, -1)`. */
BT_API bt_array *bt_reshape_to(bt_array *x, bt_shape shape);
#define bt_reshape(x, ...) BTI_AT(bt_array *, bt_reshape_to(x, BT_SHAPE(__VA_ARGS__)))
/* Joins all axes from `axis` on into one: [B, C, H, W] with axis 1 -> [B, C*H*W]. */
BT_API bt_array *bt_flatten(bt_array *x, int axis);
#define bt_flatten(...) BTI_AT(bt_array *, bt_flatten(__VA_ARGS__))
/* Axis i of the result is axis axes[i] of x: `bt_permute(x, 2, 0, 1)`. */
BT_API bt_array *bt_permute_axes(bt_array *x, bt_axes axes);
#define bt_permute(x, ...) BTI_AT(bt_array *, bt_permute_axes(x, BT_AXES(__VA_ARGS__)))
/* Swaps the last two axes; arrays of rank 0 and 1 are unchanged. */
BT_API bt_array *bt_transpose(bt_array *x);
#define bt_transpose(...) BTI_AT(bt_array *, bt_transpose(__VA_ARGS__))
/* Inserts an axis of size 1 at position `axis` of the result. */
BT_API bt_array *bt_expand_dims(bt_array *x, int axis);
#define bt_expand_dims(...) BTI_AT(bt_array *, bt_expand_dims(__VA_ARGS__))
/* Removes an axis of size 1. */
BT_API bt_array *bt_squeeze(bt_array *x, int axis);
#define bt_squeeze(...) BTI_AT(bt_array *, bt_squeeze(__VA_ARGS__))
/* Repeats x along axes of size 1 and along new leading axes: `bt_broadcast_to(x, 3, 4, 5)`. */
BT_API bt_array *bt_broadcast_shape(bt_array *x, bt_shape shape);
#define bt_broadcast_to(x, ...) BTI_AT(bt_array *, bt_broadcast_shape(x, BT_SHAPE(__VA_ARGS__)))
/* Python's slice on each axis; start, stop and step have one entry per axis (step NULL: all 1). Negative start and stop
 * count from the end; with a negative step a stop of -(n+1) includes the first element; values out of range are
 * clipped. An axis of unknown size (bt_input) can be taken whole (0, INT64_MAX, step 1), or from start >= 0 to stop >=
 * start with step > 0; anything else is UNIMPLEMENTED. */
BT_API bt_array *bt_slice(bt_array *x, const int64_t *start, const int64_t *stop, const int64_t *step);
#define bt_slice(...) BTI_AT(bt_array *, bt_slice(__VA_ARGS__))
/* bt_slice on one axis. stop INT64_MAX: to the end. */
BT_API bt_array *bt_slice_axis(bt_array *x, int axis, int64_t start, int64_t stop, int64_t step);
#define bt_slice_axis(...) BTI_AT(bt_array *, bt_slice_axis(__VA_ARGS__))
/* The elements in reverse order along the axes. */
BT_API bt_array *bt_flip(bt_array *x, bt_axes axes);
#define bt_flip(...) BTI_AT(bt_array *, bt_flip(__VA_ARGS__))
/* Adds low[i] elements of `value` before and high[i] after axis i; both arrays have one entry >= 0 per axis. */
BT_API bt_array *bt_pad(bt_array *x, const int64_t *low, const int64_t *high, double value);
#define bt_pad(...) BTI_AT(bt_array *, bt_pad(__VA_ARGS__))
/* Joins arrays along an axis; their other axes are equal. dtypes are promoted. */
BT_API bt_array *bt_concat(bt_array *const *arrays, int count, int axis);
#define bt_concat(...) BTI_AT(bt_array *, bt_concat(__VA_ARGS__))
/* The part that a text says, as Python writes it: `bt_at(x, "1:-1, :, 3")` has one axis less; slices with negative ends and steps, "..." for all axes that are not
 * named, "None" for a new one. INVALID_ARGUMENT: it cannot be read, or an index is out of range. Axes of unknown size can be taken whole. */
BT_API bt_array *bt_at(bt_array *x, const char *places);
#define bt_at(...) BTI_AT(bt_array *, bt_at(__VA_ARGS__))
/* x with the part that bt_at gives replaced by values, which are broadcast to its shape and cast to x's dtype as by bt_cast (9.7 in an integer x is 9). INVALID_ARGUMENT: complex values
 * in a real x. */
BT_API bt_array *bt_set_at(bt_array *x, const char *places, bt_array *values);
#define bt_set_at(x, places, values) BTI_AT(bt_array *, bt_set_at(x, places, BTI_OPERAND(values)))
/* One place of an axis, which goes; negative ones count from the end. OUT_OF_RANGE: there is no such place. */
BT_API bt_array *bt_index(bt_array *x, int axis, int64_t index);
#define bt_index(...) BTI_AT(bt_array *, bt_index(__VA_ARGS__))
/* Each element moved by `shift` places along the axis; those that leave it come in at the other end. UNIMPLEMENTED: the axis has an unknown size. */
BT_API bt_array *bt_roll(bt_array *x, int64_t shift, int axis);
#define bt_roll(...) BTI_AT(bt_array *, bt_roll(__VA_ARGS__))
/* Each element minus the one before along the axis, which is one shorter; of bool whether they differ. UNIMPLEMENTED: the axis has an unknown size. */
BT_API bt_array *bt_diff(bt_array *x, int axis);
#define bt_diff(...) BTI_AT(bt_array *, bt_diff(__VA_ARGS__))
/* Cuts x along an axis into `count` parts of sizes[i] elements, together all of them; sizes NULL: equal parts, of which count must make
 * the axis. The parts belong to the innermost scope; their gradients are put together at the cost of one array. Errors poison all parts:
 * INVALID_ARGUMENT; UNIMPLEMENTED for an axis of unknown size. */
BT_API bt_status bt_split_axis(bt_array *x, int axis, const int64_t *sizes, int count, bt_array **parts);
#define bt_split_axis(...) BTI_AT_STATUS(bt_split_axis(__VA_ARGS__))
/* x[.., 0, ..], x[.., 1, ..]...: the axis goes; count is its size. Otherwise as bt_split_axis; the reverse of bt_stack. */
BT_API bt_status bt_unstack(bt_array *x, int axis, int count, bt_array **parts);
#define bt_unstack(...) BTI_AT_STATUS(bt_unstack(__VA_ARGS__))
/* Joins arrays of equal shapes along a new axis. dtypes are promoted. */
BT_API bt_array *bt_stack(bt_array *const *arrays, int count, int axis);
#define bt_stack(...) BTI_AT(bt_array *, bt_stack(__VA_ARGS__))
/* grids[i]: arrays[i] [Ni] along axis i of [N0, N1...], repeated along the others; with `xy` the first two axes change places, as by NumPy's default. Nothing is
 * copied. Otherwise as bt_split_axis. */
BT_API bt_status bt_meshgrid(bt_array *const *arrays, int count, bool xy, bt_array **grids);
#define bt_meshgrid(...) BTI_AT_STATUS(bt_meshgrid(__VA_ARGS__))
/* Repeats x reps[i] times along axis i; if reps has more entries, x first gets leading axes of size 1. */
BT_API bt_array *bt_tile(bt_array *x, bt_shape reps);
#define bt_tile(...) BTI_AT(bt_array *, bt_tile(__VA_ARGS__))
/* [...] of integers -> [..., depth]: 1 at index x and 0 elsewhere; all 0 where x is outside [0, depth), -1 included. */
BT_API bt_array *bt_one_hot(bt_array *x, int64_t depth, bt_dtype dtype);
#define bt_one_hot(...) BTI_AT(bt_array *, bt_one_hot(__VA_ARGS__))

/* --- indexing -------------------------------------------------------------------------------------------------------- */

/* Slices of x along `axis`; the axes [I...] of `indices` (integers) replace that axis. Indices count from the end if
 * negative: of n, -1 is the last and -n the first. An index outside [-n, n) gives NaN (0 for integers, false for bool).
 * Class labels do not count from the end: see bt_cross_entropy and bt_one_hot. */
BT_API bt_array *bt_take(bt_array *x, bt_array *indices, int axis);
#define bt_take(x, indices, axis) BTI_AT(bt_array *, bt_take(x, BTI_OPERAND(indices), axis))
/* The slices of x where a mask is true, in their order: `mask` (bool) has the shape of axes axis, axis + 1... of x, in place of which the
 * result has one axis. NumPy's x[mask] is bt_boolean_mask(x, mask, 0), its compress that of a mask [N]. As the size depends on values, the
 * call waits for them, and is refused in functions, loops and branches (FAILED_PRECONDITION): there bt_where(mask, x, y) keeps the size. */
BT_API bt_array *bt_boolean_mask(bt_array *x, bt_array *mask, int axis);
#define bt_boolean_mask(...) BTI_AT(bt_array *, bt_boolean_mask(__VA_ARGS__))
/* The places of the elements that are not 0 (of bool, that are true): int64 [count, rank of x]. Waits, and is refused, as bt_boolean_mask. */
BT_API bt_array *bt_nonzero(bt_array *x);
#define bt_nonzero(...) BTI_AT(bt_array *, bt_nonzero(__VA_ARGS__))
/* x with `updates` added at `indices` [I] along `axis`; updates have the shape of x with I in place of the axis, or broadcast to it.
 * Negative indices count from the end; those out of range are ignored. Repeated indices add up; on the CPU one after the other, in
 * the order of the indices, each sum rounded to the dtype of x. */
BT_API bt_array *bt_scatter_add(bt_array *x, bt_array *indices, bt_array *updates, int axis);
#define bt_scatter_add(x, indices, updates, axis) \
    BTI_AT(bt_array *, bt_scatter_add(x, indices, BTI_OPERAND(updates), axis))
/* x with `updates` in the place of what is there; of equal indices the last one wins, always. x and updates may be bool. Gradients are JAX's:
 * of what is replaced 0, of an update that stays that of its place. Otherwise as bt_scatter_add. */
BT_API bt_array *bt_scatter_set(bt_array *x, bt_array *indices, bt_array *updates, int axis);
#define bt_scatter_set(x, indices, updates, axis) \
    BTI_AT(bt_array *, bt_scatter_set(x, indices, BTI_OPERAND(updates), axis))
/* x with the greatest of what is there and all updates of the place; NaN wins. Where several are the greatest, they share the gradient
 * equally. Otherwise as bt_scatter_set. */
BT_API bt_array *bt_scatter_max(bt_array *x, bt_array *indices, bt_array *updates, int axis);
#define bt_scatter_max(x, indices, updates, axis) \
    BTI_AT(bt_array *, bt_scatter_max(x, indices, BTI_OPERAND(updates), axis))
/* x with the smallest of them. Otherwise as bt_scatter_max. */
BT_API bt_array *bt_scatter_min(bt_array *x, bt_array *indices, bt_array *updates, int axis);
#define bt_scatter_min(x, indices, updates, axis) \
    BTI_AT(bt_array *, bt_scatter_min(x, indices, BTI_OPERAND(updates), axis))
/* A part of x that begins where an array says, which may be computed in a function: `start` has an integer for each axis, `size` the
 * part's sizes, at most x's. A start that is negative counts from the end; then it is moved so that the part is within x, as JAX's
 * dynamic_slice does. An axis of unknown size can be taken whole only (UNIMPLEMENTED). */
BT_API bt_array *bt_dynamic_slice(bt_array *x, bt_array *start, bt_shape size);
#define bt_dynamic_slice(x, start, size) BTI_AT(bt_array *, bt_dynamic_slice(x, BTI_OPERAND(start), size))
/* bt_dynamic_slice along one axis: start is one integer, the other axes are taken whole. */
BT_API bt_array *bt_dynamic_slice_axis(bt_array *x, bt_array *start, int64_t size, int axis);
#define bt_dynamic_slice_axis(x, start, size, axis) \
    BTI_AT(bt_array *, bt_dynamic_slice_axis(x, BTI_OPERAND(start), size, axis))
/* x with the part that bt_dynamic_slice gives replaced by `update`, which is as large as the part and takes x's
 * dtype (floats do not become integers). */
BT_API bt_array *bt_update_slice(bt_array *x, bt_array *update, bt_array *start);
#define bt_update_slice(x, update, start) BTI_AT(bt_array *, bt_update_slice(x, update, BTI_OPERAND(start)))
/* bt_update_slice along one axis: start is one integer; the update's other axes may have size 1 and are repeated. */
BT_API bt_array *bt_update_slice_axis(bt_array *x, bt_array *update, bt_array *start, int axis);
#define bt_update_slice_axis(x, update, start, axis) \
    BTI_AT(bt_array *, bt_update_slice_axis(x, update, BTI_OPERAND(start), axis))
/* NumPy's take_along_axis: x[.., indices[.., i, ..], ..]. `indices` (integers, negative from the end) has the rank of x
 * and its sizes except on the axis. */
BT_API bt_array *bt_take_along_axis(bt_array *x, bt_array *indices, int axis);
#define bt_take_along_axis(...) BTI_AT(bt_array *, bt_take_along_axis(__VA_ARGS__))
/* x with `updates` (the shape of indices) added at the positions of bt_take_along_axis, but those out of range. */
BT_API bt_array *bt_scatter_add_along_axis(bt_array *x, bt_array *indices, bt_array *updates, int axis);
#define bt_scatter_add_along_axis(x, indices, updates, axis) \
    BTI_AT(bt_array *, bt_scatter_add_along_axis(x, indices, BTI_OPERAND(updates), axis))
/* NumPy's put_along_axis: bt_scatter_add_along_axis, but updates take the place of what is there as by bt_scatter_set. */
BT_API bt_array *bt_scatter_set_along_axis(bt_array *x, bt_array *indices, bt_array *updates, int axis);
#define bt_scatter_set_along_axis(x, indices, updates, axis) \
    BTI_AT(bt_array *, bt_scatter_set_along_axis(x, indices, BTI_OPERAND(updates), axis))
/* bt_scatter_add_along_axis, but the greatest stays as by bt_scatter_max. */
BT_API bt_array *bt_scatter_max_along_axis(bt_array *x, bt_array *indices, bt_array *updates, int axis);
#define bt_scatter_max_along_axis(x, indices, updates, axis) \
    BTI_AT(bt_array *, bt_scatter_max_along_axis(x, indices, BTI_OPERAND(updates), axis))
/* bt_scatter_add_along_axis, but the smallest stays as by bt_scatter_min. */
BT_API bt_array *bt_scatter_min_along_axis(bt_array *x, bt_array *indices, bt_array *updates, int axis);
#define bt_scatter_min_along_axis(x, indices, updates, axis) \
    BTI_AT(bt_array *, bt_scatter_min_along_axis(x, indices, BTI_OPERAND(updates), axis))
/* Ascending order along an axis; stable, NaN last; -0 and 0 are equal, and both stay as they are. Complex numbers by the real parts, then by the imaginary ones. An array's values and indices, read together, are found by one sort. */
BT_API bt_array *bt_sort(bt_array *x, int axis);
#define bt_sort(...) BTI_AT(bt_array *, bt_sort(__VA_ARGS__))
/* int32: the indices that sort x, in the same order as bt_sort. */
BT_API bt_array *bt_argsort(bt_array *x, int axis);
#define bt_argsort(...) BTI_AT(bt_array *, bt_argsort(__VA_ARGS__))
/* The k largest elements of the last axis, largest first; of equals the first, NaN before all. Found by selection. */
BT_API bt_array *bt_top_k(bt_array *x, int64_t k);
#define bt_top_k(...) BTI_AT(bt_array *, bt_top_k(__VA_ARGS__))
/* int32: the indices of bt_top_k's elements along the last axis; read with them, they are found with them. */
BT_API bt_array *bt_top_k_indices(bt_array *x, int64_t k);
#define bt_top_k_indices(...) BTI_AT(bt_array *, bt_top_k_indices(__VA_ARGS__))
/* Where each of `values` would go into a sorted line [n], as int32 in the shape of values: how many of the line's elements are before it, those that are
 * below it or, if `right`, not above it. Both are promoted; NaN is the greatest, as in bt_sort, by whose order complex
 * numbers go too. */
BT_API bt_array *bt_searchsorted(bt_array *line, bt_array *values, bool right);
#define bt_searchsorted(line, values, right) BTI_AT(bt_array *, bt_searchsorted(line, BTI_OPERAND(values), right))
/* How often each of 0 to length - 1 is among the integers x: int32 [length]. Others are not counted. */
BT_API bt_array *bt_bincount(bt_array *x, int64_t length);
#define bt_bincount(...) BTI_AT(bt_array *, bt_bincount(__VA_ARGS__))
/* How many elements of x are in each of `bins` equal parts of low to high: int32 [bins]. A part has its lower end (of bt_linspace(low, high, bins + 1)), the
 * last one both ends. Integers are counted as float64, as by NumPy. NaN and what is outside are not counted. */
BT_API bt_array *bt_histogram(bt_array *x, int64_t bins, double low, double high);
#define bt_histogram(...) BTI_AT(bt_array *, bt_histogram(__VA_ARGS__))
/* The first `size` distinct elements of x in ascending order: [size]. Where there are fewer, the least one takes their place. All NaN are one element, the
 * greatest; so are -0 and 0. Complex numbers are in bt_sort's order, by which they are distinct. x has an element or more. */
BT_API bt_array *bt_unique(bt_array *x, int64_t size);
#define bt_unique(...) BTI_AT(bt_array *, bt_unique(__VA_ARGS__))

/* --- softmax, norms (floats) ----------------------------------------------------------------------------------------- */

/* exp(x - max) / sum(exp(x - max)) along axis. */
BT_API bt_array *bt_softmax(bt_array *x, int axis);
#define bt_softmax(...) BTI_AT(bt_array *, bt_softmax(__VA_ARGS__))
/* The logarithm of bt_softmax, accurate where that is near 0. */
BT_API bt_array *bt_log_softmax(bt_array *x, int axis);
#define bt_log_softmax(...) BTI_AT(bt_array *, bt_log_softmax(__VA_ARGS__))
/* (x - mean) / sqrt(var + eps) * scale + bias over the last axis; scale and bias [C] may be NULL. */
BT_API bt_array *bt_layer_norm(bt_array *x, bt_array *scale, bt_array *bias, double eps);
#define bt_layer_norm(...) BTI_AT(bt_array *, bt_layer_norm(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif

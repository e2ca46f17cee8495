/* In the order of ir/ops.def, written with public operations: so gradients have gradients. g is the gradient of the result
 * y, x[i] are the inputs. Elementwise inputs have y's shape. Corners are JAX's, but for abs at 0, which is 1. */
#include "ops/gradient.h"

#include <math.h>

#include "array/handle.h"
#include "array/move.h"

#define LN2 0.69314718055994531
#define LN10 2.3025850929940457
#define HALF_SQRT_PI 0.88622692545275801

#define UNARY(name, of_x)                            \
    static void rule_##name(bti_backward *b) {       \
        bt_array *g = b->g, *x = b->x[0], *y = b->y; \
        (void)g, (void)x, (void)y;                   \
        b->gx[0] = of_x;                             \
    }

#define BINARY(name, of_first, of_second)                            \
    static void rule_##name(bti_backward *b) {                       \
        bt_array *g = b->g, *x0 = b->x[0], *x1 = b->x[1], *y = b->y; \
        (void)g, (void)x0, (void)x1, (void)y;                        \
        if (b->wanted[0]) b->gx[0] = of_first;                       \
        if (b->wanted[1]) b->gx[1] = of_second;                      \
    }

#define rule_none NULL
static void rule_zero(bti_backward *b) { (void)b; }

/* --- elementwise, one input ----------------------------------------------------------------------------------------- */

static bt_array *one_minus_square(bt_array *x) { return bt_mul(bt_add(bt_num(1), x), bt_sub(bt_num(1), x)); }

UNARY(neg, bt_neg(g))
UNARY(abs, bt_where(bt_lt(x, bt_num(0)), bt_neg(g), g))
UNARY(exp, bt_mul(g, y))
UNARY(exp2, bt_mul(g, bt_mul(y, bt_num(LN2))))
UNARY(expm1, bt_mul(g, bt_exp(x))) /* y + 1 has no digits left far below 0 */
UNARY(log, bt_div(g, x))
UNARY(log2, bt_div(g, bt_mul(x, bt_num(LN2))))
UNARY(log10, bt_div(g, bt_mul(x, bt_num(LN10))))
UNARY(log1p, bt_div(g, bt_add(x, bt_num(1))))
UNARY(sqrt, bt_mul(g, bt_div(bt_num(0.5), y)))
UNARY(rsqrt, bt_mul(g, bt_mul(bt_num(-0.5), bt_div(y, x))))
UNARY(sin, bt_mul(g, bt_cos(x)))
UNARY(cos, bt_neg(bt_mul(g, bt_sin(x))))
UNARY(tan, bt_mul(g, bt_add(bt_num(1), bt_mul(y, y))))
UNARY(asin, bt_mul(g, bt_rsqrt(one_minus_square(x))))
UNARY(acos, bt_neg(bt_mul(g, bt_rsqrt(one_minus_square(x)))))
UNARY(atan, bt_div(g, bt_add(bt_num(1), bt_mul(x, x))))
UNARY(sinh, bt_mul(g, bt_cosh(x)))
UNARY(cosh, bt_mul(g, bt_sinh(x)))
UNARY(tanh, bt_mul(g, one_minus_square(y)))
UNARY(sigmoid, bt_mul(g, bt_mul(y, bt_sub(bt_num(1), y))))
UNARY(erf, bt_mul(g, bt_mul(bt_num(1 / HALF_SQRT_PI), bt_exp(bt_neg(bt_mul(x, x))))))
UNARY(erfc, bt_neg(bt_mul(g, bt_mul(bt_num(1 / HALF_SQRT_PI), bt_exp(bt_neg(bt_mul(x, x)))))))
UNARY(erfinv, bt_mul(g, bt_mul(bt_num(HALF_SQRT_PI), bt_exp(bt_mul(y, y)))))

/* --- elementwise, two inputs ---------------------------------------------------------------------------------------- */

/* x ** (p - 1) * p, where p is 0: 0, whatever x. */
static bt_array *pow_by_base(bt_array *x, bt_array *p) {
    bt_array *flat = bt_eq(p, bt_num(0));
    bt_array *less = bt_where(flat, bt_num(1), bt_sub(p, bt_num(1)));
    return bt_where(flat, bt_num(0), bt_mul(p, bt_pow(x, less)));
}

/* x ** p * log(x), where x is 0: 0. */
static bt_array *pow_by_exponent(bt_array *x, bt_array *y) {
    return bt_mul(y, bt_log(bt_where(bt_eq(x, bt_num(0)), bt_num(1), x)));
}

/* g where x was chosen as y, half of it where `other` is the same. */
static bt_array *chosen(bt_array *g, bt_array *x, bt_array *other, bt_array *y) {
    bt_array *share = bt_where(bt_eq(other, y), bt_mul(g, bt_num(0.5)), g);
    return bt_where(bt_eq(x, y), share, bt_num(0));
}

static bt_array *square_sum(bt_array *x, bt_array *y) { return bt_add(bt_mul(x, x), bt_mul(y, y)); }

BINARY(add, g, g)
BINARY(sub, g, bt_neg(g))
BINARY(mul, bt_mul(g, x1), bt_mul(g, x0))
BINARY(div, bt_div(g, x1), bt_neg(bt_mul(bt_div(g, x1), y)))
BINARY(mod, g, bt_neg(bt_mul(g, bt_stop_gradient(bt_floor_div(x0, x1)))))
BINARY(pow, bt_mul(g, pow_by_base(x0, x1)), bt_mul(g, pow_by_exponent(x0, y)))
BINARY(atan2, bt_mul(g, bt_div(x1, square_sum(x0, x1))), bt_neg(bt_mul(g, bt_div(x0, square_sum(x0, x1)))))
BINARY(maximum, chosen(g, x0, x1, y), chosen(g, x1, x0, y))
BINARY(minimum, chosen(g, x0, x1, y), chosen(g, x1, x0, y))

/* --- elementwise, the rest ------------------------------------------------------------------------------------------ */

static void rule_where(bti_backward *b) {
    if (b->wanted[1]) b->gx[1] = bt_where(b->x[0], b->g, bt_num(0));
    if (b->wanted[2]) b->gx[2] = bt_where(b->x[0], bt_num(0), b->g);
}

UNARY(cast, bt_cast(g, bt_dtype_of(x)))

/* --- reductions ----------------------------------------------------------------------------------------------------- */

static bt_axes axes_of(int64_t mask) {
    bt_axes axes = {0};
    for (int i = 0; i < BT_MAX_RANK; i++)
        if (mask >> i & 1) axes.axis[axes.count++] = i;
    return axes;
}

static void rule_sum(bti_backward *b) { b->gx[0] = bt_broadcast_shape(b->g, bt_shape_of(b->x[0])); }

/* x moved `by` places along the axis, ones moving in; a negative `by` moves it toward the beginning. */
static bt_array *shift(bt_array *x, int axis, int64_t by) {
    int64_t low[BT_MAX_RANK] = {0}, high[BT_MAX_RANK] = {0}, size = bt_size(x, axis);
    low[axis] = by > 0 ? by : 0;
    high[axis] = by < 0 ? -by : 0;
    return bt_pad(bt_slice_axis(x, axis, high[axis], size - low[axis], 1), low, high, 1);
}

/* Of each element, the product of the others of its row, without a division: zeros may be among them. */
static bt_array *product_of_others(bt_array *x, int axis) {
    int64_t size = bt_size(x, axis);
    if (size < 1) return size ? bt_div(bt_prod(x, axes_of(1 << axis), true), x) : x;
    bt_array *before = shift(x, axis, 1), *after = shift(x, axis, -1);
    for (int64_t by = 1; by < size; by *= 2) {
        before = bt_mul(before, shift(before, axis, by));
        after = bt_mul(after, shift(after, axis, -by));
    }
    return bt_mul(before, after);
}

/* Axis by axis: the gradient of the product over the other axes, times the others along this one. */
static bt_array *product_gradient(bt_array *g, bt_array *x, int64_t mask) {
    if (!mask) return g;
    int axis = __builtin_ctzll((unsigned long long)mask);
    bt_array *inner = bt_prod(x, axes_of(1 << axis), true);
    return bt_mul(product_gradient(g, inner, mask & (mask - 1)), product_of_others(x, axis));
}

static void rule_prod(bti_backward *b) { b->gx[0] = product_gradient(b->g, b->x[0], b->attr[0]); }

/* All that equal the greatest (or least) share alike. */
static void rule_max(bti_backward *b) {
    bt_array *hit = bt_cast(bt_eq(b->x[0], b->y), bt_dtype_of(b->g));
    b->gx[0] = bt_div(bt_mul(b->g, hit), bt_sum(hit, axes_of(b->attr[0]), true));
}
static void rule_min(bti_backward *b) { rule_max(b); }

static void rule_cumsum(bti_backward *b) { b->gx[0] = bt_cumsum(b->g, (int)b->attr[0], !b->attr[1]); }

/* --- movement ------------------------------------------------------------------------------------------------------- */

static void rule_reshape(bti_backward *b) { b->gx[0] = bt_reshape_to(b->g, bt_shape_of(b->x[0])); }

static void rule_permute(bti_backward *b) {
    bt_axes back = {.count = bt_rank(b->g)};
    for (int i = 0; i < back.count; i++) back.axis[b->attr[i]] = i;
    b->gx[0] = bt_permute_axes(b->g, back);
}

static bool is_known(int64_t size) { return !bti_size_is_symbolic(size); }

/* An axis that is as long as `size` says, or whose elements are repeats of one: [A, N, B] -> [A, size, B]. */
static bt_array *sum_repeats(bt_array *g, int axis, int64_t size) {
    bt_shape to = bt_shape_of(g);
    int64_t before = 1, after = 1, repeats = bti_size_repeats(size, to.size[axis]);
    for (int i = 0; i < axis; i++) before = bti_size_mul(before, to.size[i]);
    for (int i = axis + 1; i < to.rank; i++) after = bti_size_mul(after, to.size[i]);
    to.size[axis] = size;
    return bt_reshape_to(bt_sum(bt_reshape(g, before, repeats, size, after), BT_AXES(1), false), to);
}

static void rule_expand(bti_backward *b) {
    bt_shape from = bt_shape_of(b->x[0]), to = bt_shape_of(b->y);
    int64_t mask = 0;
    for (int i = 0; i < to.rank; i++)
        if (from.size[i] == 1 && to.size[i] != 1) mask |= 1 << i;
    bt_array *g = bt_sum(b->g, axes_of(mask), true);
    for (int i = 0; i < to.rank; i++)
        if (from.size[i] != 1 && from.size[i] != to.size[i]) g = sum_repeats(g, i, from.size[i]);
    b->gx[0] = g;
}

/* A size, known or not, as a scalar. */
static bt_array *size_array(int64_t size) { return bt_sum(bt_full_shape(1, BT_I64, BT_SHAPE(size)), BT_ALL, false); }

/* 0, 1, 2, ... below a size, known or not. */
static bt_array *count_to(int64_t size) {
    return bt_sub(bt_cumsum(bt_full_shape(1, BT_I64, BT_SHAPE(size)), 0, false), bt_i64(1));
}

/* `count` elements of an axis, from start; both known or not. */
static bt_array *part(bt_array *x, int axis, int64_t start, int64_t count) {
    if (start == 0 && count == bt_shape_of(x).size[axis]) return x;
    if (is_known(start) && is_known(count)) return bt_slice_axis(x, axis, start, start + count, 1);
    return bt_take(x, bt_add(count_to(count), size_array(start)), axis);
}

/* step - 1 zeros between the elements of an axis: [A, C, B] -> [A, (C - 1) * step + 1, B]. */
static bt_array *spread(bt_array *x, int axis, int64_t step) {
    bt_shape shape = bt_shape_of(x);
    int64_t before = 1, after = 1, count = shape.size[axis];
    for (int i = 0; i < axis; i++) before = bti_size_mul(before, shape.size[i]);
    for (int i = axis + 1; i < shape.rank; i++) after = bti_size_mul(after, shape.size[i]);
    x = bt_pad(bt_reshape(x, before, count, 1, after), (int64_t[4]){0}, (int64_t[]){0, 0, step - 1, 0}, 0);
    shape.size[axis] = (count - 1) * step + 1;
    return bt_reshape_to(part(bt_reshape(x, before, count * step, after), 1, 0, shape.size[axis]), shape);
}

/* Where the elements of one axis of a slice came from: there, zeros elsewhere. What can be done by padding is left to
 * low and high. */
static bt_array *unslice(bt_array *g, int axis, int64_t start, int64_t step, int64_t size, int64_t *low,
                         int64_t *high) {
    bt_shape shape = bt_shape_of(g);
    int64_t count = shape.size[axis];
    if (start == 0 && step == 1 && count == size) return g;
    if (!is_known(size)) {
        shape.size[axis] = size;
        bt_array *from = bt_add(bt_mul(count_to(count), bt_i64(step)), bt_i64(start));
        return bt_scatter_add(bt_full_shape(0, bt_dtype_of(g), shape), from, g, axis);
    }
    if (count <= 1) step = 1;
    if (count == 0) start = 0;
    if (step < 0) {
        g = bt_flip(g, axes_of(1 << axis));
        start += (count - 1) * step;
        step = -step;
    }
    if (step > 1) g = spread(g, axis, step);
    low[axis] = start;
    high[axis] = size - start - (count ? (count - 1) * step + 1 : 0);
    return g;
}

static void rule_slice(bti_backward *b) {
    bt_shape from = bt_shape_of(b->x[0]);
    int64_t low[BT_MAX_RANK] = {0}, high[BT_MAX_RANK] = {0};
    bt_array *g = b->g;
    for (int i = 0; i < from.rank; i++) g = unslice(g, i, b->attr[i], b->attr[from.rank + i], from.size[i], low, high);
    b->gx[0] = bt_pad(g, low, high, 0);
}

/* --- gathering ------------------------------------------------------------------------------------------------------ */

static void rule_pad(bti_backward *b) {
    bt_shape from = bt_shape_of(b->x[0]), to = bt_shape_of(b->y);
    if (b->wanted[0]) b->gx[0] = b->g;
    for (int i = 0; i < from.rank && b->wanted[0]; i++) b->gx[0] = part(b->gx[0], i, b->attr[i], from.size[i]);
    if (!b->wanted[1]) return;
    int64_t high[BT_MAX_RANK];
    for (int i = 0; i < from.rank; i++)
        high[i] = bti_size_add(to.size[i], bti_size_mul(bti_size_add(from.size[i], b->attr[i]), -1));
    bt_array *padding = bt_pad(bt_full_shape(0, BT_BOOL, from), b->attr, high, 1);
    b->gx[1] = bt_sum(bt_where(padding, b->g, bt_num(0)), BT_ALL, false);
}

static void rule_concat(bti_backward *b) {
    int axis = (int)b->attr[0];
    int64_t start = 0;
    for (int i = 0; i < b->count; i++) {
        int64_t size = bt_shape_of(b->x[i]).size[axis];
        if (b->wanted[i]) b->gx[i] = part(b->g, axis, start, size);
        start = bti_size_add(start, size);
    }
}

static void rule_take(bti_backward *b) {
    b->gx[0] = bt_scatter_add(bt_zeros_like(b->x[0]), b->x[1], b->g, (int)b->attr[0]);
}

/* What was dropped gets none. */
static void rule_scatter_add(bti_backward *b) {
    int axis = (int)b->attr[0];
    if (b->wanted[0]) b->gx[0] = b->g;
    if (!b->wanted[2]) return;
    bt_array *at = b->x[1], *size = size_array(bt_shape_of(b->x[0]).size[axis]);
    bt_array *within = bt_logical_and(bt_le(bt_neg(size), at), bt_lt(at, size));
    bt_shape line = {.rank = bt_rank(b->g)};
    for (int i = 0; i < line.rank; i++) line.size[i] = i == axis ? bt_shape_of(at).size[0] : 1;
    b->gx[2] = bt_where(bt_reshape_to(within, line), bt_take(b->g, at, axis), bt_num(0));
}

static void rule_gather_axis(bti_backward *b) {
    b->gx[0] = bt_scatter_add_along_axis(bt_zeros_like(b->x[0]), b->x[1], b->g, (int)b->attr[0]);
}

static void rule_scatter_axis(bti_backward *b) {
    if (b->wanted[0]) b->gx[0] = b->g;
    if (b->wanted[2]) b->gx[2] = bt_take_along_axis(b->g, b->x[1], (int)b->attr[0]);
}

/* --- heavy; devices and variables ----------------------------------------------------------------------------------- */

BINARY(matmul, bt_matmul_t(g, x1, false, true), bt_matmul_t(x0, g, true, false))
UNARY(copy, bti_move(g, bti_node_of(x)->device, false))

/* -------------------------------------------------------------------------------------------------------------------- */

static bti_gradient_rule *const rules[] = {
#define BTI_OP(name, class, arity, dtype_rule, gradient, ...) [BTI_OP_##name] = rule_##gradient,
#include "ir/ops.def"
#undef BTI_OP
};

bti_gradient_rule *bti_gradient_of(bti_op op) { return rules[op]; }

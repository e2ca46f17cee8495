/* The operations that random loops consist of. Elements stay small, so that noise stays noise. */
#include "random_programs/loops.h"

static bt_array *number(double x) { return bt_num(x); }

static bt_array *fused(const operands *o) { return bt_add(bt_mul(o->a, o->b), o->c); }
static bt_array *scaled_difference(const operands *o) { return bt_sub(o->a, bt_mul(o->b, number(o->by))); }
static bt_array *waves(const operands *o) { return bt_mul(bt_sin(o->a), bt_cos(o->b)); }
static bt_array *quotient(const operands *o) { return bt_div(o->a, bt_add(bt_square(o->b), number(1))); }
static bt_array *power(const operands *o) {
    return bt_pow(bt_add(bt_abs(o->a), number(0.5)), o->flag ? bt_tanh(o->b) : number(1.5));
}
static bt_array *chosen(const operands *o) { return bt_where(bt_gt(o->a, number(o->by)), o->b, bt_sin(o->c)); }
static bt_array *larger(const operands *o) { return o->flag ? bt_maximum(o->a, bt_neg(o->b)) : bt_minimum(o->a, o->b); }
static bt_array *exponential(const operands *o) { return bt_exp(bt_mul(o->a, number(o->by))); }
static bt_array *centred(const operands *o) { return bt_sub(o->a, bt_mean(o->b, BT_ALL, o->flag)); }
static bt_array *held(const operands *o) { return bt_mul(o->a, bt_stop_gradient(bt_sigmoid(o->b))); }
static bt_array *noise(const operands *o) {
    bt_array *key = bt_key((int64_t)(o->by * 100));
    return bt_add(o->a, bt_mul(o->b, bt_uniform_shape(key, -1, 1, bt_dtype_of(o->b), bt_shape_of(o->b))));
}
static bt_array *constant(const operands *o) {
    return bt_full_shape(o->by * 1.1, bt_dtype_of(o->a), bt_shape_of(o->a));
}

/* What would be equal but for rounding differs along the axis. */
static bt_array *apart(bt_array *x, int axis) {
    bt_shape shape = {.rank = bt_rank(x)};
    for (int i = 0; i < shape.rank; i++) shape.size[i] = i == axis ? bt_size(x, axis) : 1;
    bt_array *places = bt_arange(0, (double)bt_size(x, axis), 1, bt_dtype_of(x));
    return bt_add(x, bt_mul(bt_reshape_to(places, shape), number(0.037)));
}

static bt_array *along(const operands *o) {
    bt_array *sum =
        o->flag ? bt_logsumexp(o->b, BT_AXES(o->axis), true) : bt_max(apart(o->b, o->axis), BT_AXES(o->axis), true);
    return bt_mul(o->a, sum);
}
static bt_array *turned(const operands *o) { return bt_mul(bt_flip(o->a, BT_AXES(o->axis)), o->b); }
static bt_array *running(const operands *o) { return bt_cumsum(bt_mul(o->a, number(o->by)), o->axis, o->flag); }
static bt_array *softmax(const operands *o) { return bt_softmax(bt_add(o->a, o->b), o->axis); }
static bt_array *sorted(const operands *o) { return bt_sub(bt_sort(apart(o->a, o->axis), o->axis), o->b); }
static bt_array *normed(const operands *o) { return bt_layer_norm(o->a, NULL, NULL, 1e-1); }
static bt_array *joined(const operands *o) {
    bt_array *parts[2] = {bt_slice_axis(o->a, o->axis, 1, INT64_MAX, 1), bt_slice_axis(o->b, o->axis, 0, 1, 1)};
    return bt_concat(parts, 2, o->axis);
}

/* Along an axis; indices are computed from it. */
static bt_array *line_of(bt_array *x, int axis) {
    for (int i = bt_rank(x) - 1; i >= 0; i--)
        if (i != axis) x = bt_sum(x, BT_AXES(i), false);
    return apart(x, 0);
}
static bt_array *order_of(bt_array *x, int axis) { return bt_argsort(line_of(x, axis), 0); }
static bt_array *first_of(bt_array *x, int axis) { return bt_argmax(line_of(x, axis), 0); }
static bt_array *taken(const operands *o) { return bt_take(o->a, order_of(o->b, o->axis), o->axis); }
static bt_array *taken_along(const operands *o) {
    return bt_mul(bt_take_along_axis(o->a, bt_argsort(apart(o->b, o->axis), o->axis), o->axis), o->c);
}
static bt_array *replaced(const operands *o) {
    bt_array *part = bt_slice_axis(o->b, o->axis, 0, 1, 1);
    return bt_update_slice_axis(o->a, part, first_of(o->c, o->axis), o->axis);
}
static bt_array *part(const operands *o) {
    return bt_sub(o->a, bt_dynamic_slice_axis(o->b, first_of(o->c, o->axis), 1, o->axis));
}
static bt_array *added(const operands *o) {
    return bt_scatter_add(o->a, order_of(o->b, o->axis), bt_mul(o->c, number(o->by)), o->axis);
}

static bt_array *outer_product(const operands *o) { /* (a b^T) c, or its like with the last two axes of matrices */
    bt_array *a = o->a, *b = o->b, *c = o->c;
    if (bt_rank(a) == 1)
        return bt_tanh(bt_matmul(bt_matmul(bt_expand_dims(a, 1), bt_expand_dims(b, 0)), bt_mul(c, number(0.3))));
    bt_array *square = o->flag ? bt_matmul_t(b, c, true, false) : bt_matmul(bt_transpose(c), b);
    return bt_tanh(bt_matmul(a, square));
}
static bt_array *products_of_rows(const operands *o) {
    return bt_mul(bt_matmul(bt_softmax(bt_matmul_t(o->a, o->b, false, true), 1), o->c), number(o->by));
}

const plain_op plain_ops[] = {
    {"a * b + c", fused, 0},
    {"a - b * by", scaled_difference, 0},
    {"sin(a) * cos(b)", waves, 0},
    {"a / (b**2 + 1)", quotient, 0},
    {"(|a| + 1/2)**tanh(b) or **1.5", power, 0},
    {"a > by ? b : sin(c)", chosen, 0},
    {"larger of a, -b, or smaller of a, b", larger, 0},
    {"exp(a * by)", exponential, 0},
    {"a - mean(b)", centred, 0},
    {"a * stop_gradient(sigmoid(b))", held, 0},
    {"a + b * uniform", noise, 0},
    {"1.1 * by", constant, 0},
    {"a * logsumexp or max of b along the axis", along, 1},
    {"flip(a) * b", turned, 1},
    {"cumsum(a * by)", running, 1},
    {"softmax(a + b)", softmax, 1},
    {"sort(a) - b", sorted, 1},
    {"layer_norm(a)", normed, 1},
    {"concat(a[1:], b[:1])", joined, 1},
    {"take(a, argsort(b))", taken, 1},
    {"take_along_axis(a, argsort(b)) * c", taken_along, 1},
    {"update_slice(a, b[:1], argmax(c))", replaced, 1},
    {"a - dynamic_slice(b, argmax(c))", part, 1},
    {"scatter_add(a, argsort(b), c * by)", added, 1},
    {"tanh((a b^T) c) or tanh(a (b^T c))", outer_product, 1},
    {"softmax(a b^T) c * by", products_of_rows, 2},
};
const int plain_op_count = sizeof plain_ops / sizeof *plain_ops;

/* Running products and extremes along an axis. */
#include "ops/application.h"

static bt_array *record_running(bti_op op, bt_array *x, int axis, bool reverse) {
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) return poison;
    return bti_record_by_rules(op, &x, 1, &(bti_attr){.running = {axis, reverse}});
}

/* For complex numbers there is no primitive. The products up to odd places are those of pairs; between them lies one factor more. */
static bt_array *products_of_pairs(bt_array *x, int axis) {
    if (bti_array_error(x)) return x;
    int64_t n = bti_shape(x)[axis], half = n / 2, between = (n - 1) / 2, shape[BTI_MAX_RANK];
    if (n <= 1) return x;
    bt_array *odd = products_of_pairs(
        bti_binary(BTI_OP_mul, bti_slice_part(x, axis, 0, 2, half), bti_slice_part(x, axis, 1, 2, half)), axis);
    if (bti_array_error(odd)) return odd;
    bt_array *even[2] = {bti_slice_part(x, axis, 0, 1, 1), NULL}, *both[2];
    even[1] = bti_binary(BTI_OP_mul, bti_slice_part(odd, axis, 0, 1, between), bti_slice_part(x, axis, 2, 2, between));
    bt_array *all = bti_concat(even, 2, axis);
    if (bti_array_error(all)) return all;
    both[0] = bti_new_axis(bti_slice_part(all, axis, 0, 1, half), axis + 1), both[1] = bti_new_axis(odd, axis + 1);
    for (int i = 0; i < bti_rank(x); i++) shape[i] = i == axis ? 2 * half : bti_shape(x)[i];
    bt_array *pairs[2] = {bti_reshape(bti_concat(both, 2, axis + 1), bti_rank(x), shape), NULL};
    if (n % 2 == 0) return pairs[0];
    pairs[1] = bti_slice_part(all, axis, half, 1, 1);
    return bti_concat(pairs, 2, axis);
}

static bt_array *complex_products(bt_array *x, int axis, bool reverse) {
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) return poison;
    if (bti_size_is_symbolic(bti_shape(x)[axis]))
        return bti_poisonf(BT_UNIMPLEMENTED, "axis %d of complex numbers has no known size here", axis);
    bt_array *made = products_of_pairs(reverse ? bt_flip(x, BT_AXES(axis)) : x, axis);
    return reverse && !bti_array_error(made) ? bt_flip(made, BT_AXES(axis)) : made;
}

bt_array *bt_cumprod(bt_array *x, int axis, bool reverse) {
    BTI_PUBLIC("bt_cumprod");
    BTI_NEED(x);
    if (bti_is_complex(x)) BTI_RETURN(complex_products(x, axis, reverse));
    BTI_RETURN(record_running(BTI_OP_cumprod, x, axis, reverse));
}

bt_array *bt_cummax(bt_array *x, int axis, bool reverse) {
    BTI_PUBLIC("bt_cummax");
    BTI_NEED(x);
    BTI_RETURN(record_running(BTI_OP_cummax, x, axis, reverse));
}

bt_array *bt_cummin(bt_array *x, int axis, bool reverse) {
    BTI_PUBLIC("bt_cummin");
    BTI_NEED(x);
    BTI_RETURN(record_running(BTI_OP_cummin, x, axis, reverse));
}

/* --- products ------------------------------------------------------------------------------------------------------- */

/* A product changes by x[i] as the product itself divided by x[i], up to the first zero of the line; by that zero as the product without
 * it; behind it by nothing. */
typedef struct factors {
    bt_array *before, *first; /* bool: no zero up to here; the first zero */
    bt_array *divisor;        /* x before it, else 1 */
    bt_array *without;        /* products without the first zero */
} factors;

static factors factors_of(bt_array *x, const bti_attr *attr) {
    factors f;
    bt_array *zero = bt_eq(x, bt_num(0)),
             *zeros = bt_cumsum(bt_cast(zero, BT_I64), attr->running.axis, attr->running.reverse);
    f.before = bt_eq(zeros, bt_i64(0));
    f.first = bt_logical_and(zero, bt_eq(zeros, bt_i64(1)));
    f.divisor = bt_where(f.before, x, bt_num(1));
    f.without = bt_cumprod(bt_where(f.first, bt_num(1), x), attr->running.axis, attr->running.reverse);
    return f;
}

void bti_gradient_cumprod(bti_backward *b) {
    int axis = b->attr->running.axis;
    bool back = !b->attr->running.reverse;
    factors f = factors_of(b->x[0], b->attr);
    bt_array *of_first = bt_cumsum(bt_mul(b->g, f.without), axis, back);
    bt_array *of_others = bt_div(bt_cumsum(bt_mul(b->g, b->y), axis, back), f.divisor);
    b->gx[0] = bt_where(f.before, of_others, bt_where(f.first, of_first, bt_num(0)));
}

void bti_tangent_cumprod(bti_application *a) {
    const bti_attr *attr = a->node->attr;
    int axis = attr->running.axis;
    factors f = factors_of(a->x[0], attr);
    bt_array *of_others = bt_mul(a->y, bt_cumsum(bt_div(a->image[0], f.divisor), axis, attr->running.reverse));
    bt_array *change = bt_cumsum(bt_where(f.first, a->image[0], bt_num(0)), axis, attr->running.reverse);
    a->made[0] = bt_where(f.before, of_others, bt_mul(f.without, change));
}

/* --- extremes ------------------------------------------------------------------------------------------------------- */

/* Where each running extreme came from: the last place so far that equals it. */
static bt_array *places_of_extremes(bt_array *x, bt_array *y, const bti_attr *attr) {
    int axis = attr->running.axis, rank = bti_rank(x);
    bool reverse = attr->running.reverse;
    int64_t line[BTI_MAX_RANK];
    for (int i = 0; i < rank; i++) line[i] = i == axis ? bti_shape(x)[i] : 1;
    bt_array *place = bti_reshape(bti_iota(bti_shape(x)[axis], BT_I64), rank, line);
    bt_array *is_new = bt_logical_or(bt_eq(x, y), bt_ne(x, x));
    bt_array *places = bt_where(is_new, place, reverse ? bti_size_scalar(bti_shape(x)[axis], BT_I64) : bt_i64(0));
    return reverse ? bt_cummin(places, axis, true) : bt_cummax(places, axis, false);
}

void bti_gradient_running_extreme(bti_backward *b) {
    bt_array *places = places_of_extremes(b->x[0], b->y, b->attr);
    b->gx[0] = bt_scatter_add_along_axis(bt_zeros_like(b->x[0]), places, b->g, b->attr->running.axis);
}

void bti_tangent_running_extreme(bti_application *a) {
    bt_array *places = places_of_extremes(a->x[0], a->y, a->node->attr);
    a->made[0] = bt_take_along_axis(a->image[0], places, a->node->attr->running.axis);
}

/* Reductions, running folds, sorts and selections. */
#include <math.h>

#include "ir/dtype.h"
#include "render/stablehlo/writer.h"

static bool is_small(bt_dtype dtype) { return dtype == BT_F16 || dtype == BT_BF16; }

static const char *combining(bti_op op, bt_dtype dtype) {
    switch (op) {
    case BTI_OP_sum:
    case BTI_OP_cumsum: return "add";
    case BTI_OP_prod:
    case BTI_OP_cumprod: return "multiply";
    case BTI_OP_max:
    case BTI_OP_cummax: return dtype == BT_BOOL ? "or" : "maximum";
    default: return dtype == BT_BOOL ? "and" : "minimum";
    }
}

bti_hlo_value bti_hlo_start(bti_hlo *w, bti_op op, bt_dtype dtype) {
    bti_type type = bti_hlo_scalar(dtype);
    bool greatest = op == BTI_OP_max || op == BTI_OP_cummax;
    if (op == BTI_OP_sum || op == BTI_OP_cumsum) return bti_hlo_number(w, type, 0);
    if (op == BTI_OP_prod || op == BTI_OP_cumprod) return bti_hlo_number(w, type, 1);
    if (bti_dtype_is_float(dtype)) return bti_hlo_number(w, type, greatest ? -(double)INFINITY : (double)INFINITY);
    int bits = dtype == BT_BOOL ? 1 : 8 * (int)bt_dtype_size(dtype);
    uint64_t top = UINT64_MAX >> (64 - bits), sign = UINT64_C(1) << (bits - 1);
    if (bti_dtype_is_signed(dtype)) return bti_hlo_bits(w, type, greatest ? sign : top - sign);
    return bti_hlo_bits(w, type, greatest ? 0 : top);
}

/* Sums and products of small floats in float32. */
static bti_hlo_value widened(bti_hlo *w, bti_op op, bti_hlo_value x) {
    bool adds = op == BTI_OP_sum || op == BTI_OP_prod || op == BTI_OP_cumsum || op == BTI_OP_cumprod;
    return adds && is_small(x.type.dtype) ? bti_hlo_convert(w, x, BT_F32) : x;
}

bti_hlo_value bti_hlo_fold(bti_hlo *w, const bti_node *node, bti_hlo_value x) {
    bti_op op = (bti_op)node->op;
    x = widened(w, op, x);
    bt_dtype dtype = x.type.dtype;
    bti_hlo_value made = bti_hlo_reduce(w, combining(op, dtype), x, bti_hlo_start(w, op, dtype), node->attr->fold.axes);
    made = bti_hlo_reshape(w, made, node->rank, node->shape);
    return bti_hlo_convert(w, made, (bt_dtype)node->dtype);
}

/* A window as long as the axis, of which the part that lies before the array counts as nothing. */
bti_hlo_value bti_hlo_running(bti_hlo *w, const bti_node *node, bti_hlo_value x) {
    bti_op op = (bti_op)node->op;
    int axis = node->attr->running.axis;
    int64_t size = node->shape[axis], ones[BTI_MAX_RANK], window[BTI_MAX_RANK], pads[BTI_MAX_RANK][2] = {{0}};
    if (!bti_node_count(node)) return x;
    x = widened(w, op, x);
    bt_dtype dtype = x.type.dtype;
    bti_hlo_value inputs[2] = {x, bti_hlo_start(w, op, dtype)}, made = {.type = x.type};
    for (int i = 0; i < node->rank; i++) {
        ones[i] = 1;
        window[i] = i == axis ? size : 1;
    }
    pads[axis][node->attr->running.reverse] = size - 1;
    int id = bti_hlo_begin(w, "reduce_window", 1, 2, inputs);
    bti_hlo_combine(w, combining(op, dtype), dtype);
    bti_hlo_attribute_list(w, "window_dimensions", window, node->rank);
    bti_hlo_attribute_list(w, "window_strides", ones, node->rank);
    bti_hlo_attribute_list(w, "base_dilations", ones, node->rank);
    bti_hlo_attribute_list(w, "window_dilations", ones, node->rank);
    bti_hlo_attribute_pairs(w, "padding", pads, node->rank);
    bti_hlo_end(w, 2, inputs, 1, &made, id);
    return bti_hlo_convert(w, made, (bt_dtype)node->dtype);
}

/* --- orders ------------------------------------------------------------------------------------------------------------ */

/* Whether a comes before b: NaN is the greatest, equals stay. */
static bti_hlo_value comes_first(bti_hlo *w, bool descending, bti_hlo_value a, bti_hlo_value b) {
    bti_hlo_value first = bti_hlo_compare(w, descending ? "GT" : "LT", a, b);
    if (!bti_dtype_is_float(a.type.dtype)) return first;
    bti_hlo_value last = descending ? b : a, nan = descending ? a : b; /* the NaN decides over what is none */
    bti_hlo_value decides =
        bti_hlo_binary(w, "and", bti_hlo_compare(w, "NE", nan, nan), bti_hlo_compare(w, "EQ", last, last));
    return bti_hlo_binary(w, "or", first, decides);
}

static bti_hlo_value first_of(bti_hlo *w, bti_hlo_value x, int axis, int64_t count) {
    int64_t zero[BTI_MAX_RANK] = {0}, ones[BTI_MAX_RANK];
    bti_type type = x.type;
    type.shape[axis] = count;
    for (int i = 0; i < type.rank; i++) ones[i] = 1;
    return bti_hlo_slice(w, x, type, zero, type.shape, ones);
}

void bti_hlo_order(bti_hlo *w, const bti_node *node, bti_hlo_value x) {
    bool descending = node->op == BTI_OP_top_k;
    int axis = bti_attr_axis((bti_op)node->op, node->attr);
    bt_dtype dtypes[2] = {x.type.dtype, BT_I32};
    bti_hlo_value inputs[2] = {x, bti_hlo_iota(w, bti_hlo_like(&x.type, BT_I32), axis)}, arguments[4], made[2];
    int id = bti_hlo_begin(w, "sort", 2, 2, inputs);
    for (int i = 0; i < 4; i++) arguments[i].type = bti_hlo_scalar(dtypes[i / 2]);
    bti_hlo_region(w, 4, arguments);
    bti_hlo_value first = comes_first(w, descending, arguments[0], arguments[1]);
    bti_hlo_return(w, 1, &first);
    for (int i = 0; i < 2; i++) made[i].type = inputs[i].type;
    bti_str_addf(bti_hlo_attribute(w, "dimension"), "%d : i64", axis);
    bti_str_add(bti_hlo_attribute(w, "is_stable"), "true");
    bti_hlo_end(w, 2, inputs, 2, made, id);
    for (int i = 0; i < 2 && descending; i++) made[i] = first_of(w, made[i], axis, node->attr->top.k);
    bti_hlo_set(w, node, 2, made);
}

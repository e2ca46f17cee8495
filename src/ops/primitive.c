/* Primitives: elementwise operations and reductions. */
#include "ops/primitive.h"

#include "array/record.h"

/* --- dtypes --------------------------------------------------------------------------------------------------------- */

static bool is_float(bt_dtype dtype) { return dtype >= BT_F16; }

bt_dtype bti_float_of(bt_dtype dtype) {
    if (is_float(dtype)) return dtype;
    return dtype == BT_I64 || dtype == BT_U64 ? BT_F64 : BT_F32;
}

bt_dtype bti_meet(bt_array *const *arrays, int count, bool *weak) {
    bt_dtype met = BT_DTYPE_COUNT;
    bool weak_float = false;
    for (int i = 0; i < count; i++) {
        const bti_node *node = bti_node_of(arrays[i]);
        if (node->weak)
            weak_float = true;
        else
            met = met == BT_DTYPE_COUNT ? (bt_dtype)node->dtype : bt_promote(met, (bt_dtype)node->dtype);
    }
    *weak = met == BT_DTYPE_COUNT;
    if (*weak) return BT_F64;
    return weak_float && !is_float(met) ? BT_F64 : met;
}

/* What a row's rule makes of the dtype that the inputs meet at: what goes in, what comes out. */
static bt_array *apply_rule(bti_op op, bt_dtype met, bt_dtype *in, bt_dtype *out) {
    *in = *out = met;
    switch (bti_op_info(op)->dtype_rule) {
    case BTI_FLOAT: *in = *out = bti_float_of(met); break;
    case BTI_COMPARE: *out = BT_BOOL; break;
    case BTI_INDEX_OUT: *out = BT_I32; break;
    case BTI_NUMBER:
        if (met == BT_BOOL) return bti_poisonf(BT_INVALID_ARGUMENT, "takes numbers, not bool; bt_cast it first");
        break;
    case BTI_BITS:
        if (is_float(met))
            return bti_poisonf(BT_INVALID_ARGUMENT, "takes integers and bool, not %s", bt_dtype_name(met));
        break;
    default: break;
    }
    return NULL;
}

bt_array *bti_to_float(bt_array *x) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    return poison ? poison : bti_cast(x, bti_float_of((bt_dtype)bti_node_of(x)->dtype));
}

/* --- shapes --------------------------------------------------------------------------------------------------------- */

static bt_array *do_not_broadcast(bt_array *const *arrays, int count) {
    bti_str text = {0};
    for (int i = 0; i < count; i++) {
        if (i) bti_str_add(&text, i + 1 == count ? " and " : ", ");
        bti_shape_text(&text, bti_node_of(arrays[i])->rank, bti_node_of(arrays[i])->shape);
    }
    bt_array *poison =
        bti_poisonf(BT_INVALID_ARGUMENT, "shapes %s do not broadcast: aligned at the right, sizes must be equal or 1",
                    bti_str_text(&text));
    bti_str_free(&text);
    return poison;
}

static bt_array *broadcast_shape(bt_array *const *arrays, int count, int *rank, int64_t *shape) {
    *rank = 0;
    for (int i = 0; i < count; i++)
        if (bti_node_of(arrays[i])->rank > *rank) *rank = bti_node_of(arrays[i])->rank;
    for (int axis = 0; axis < *rank; axis++) {
        shape[axis] = 1;
        for (int i = 0; i < count; i++) {
            const bti_node *node = bti_node_of(arrays[i]);
            int own = axis - (*rank - node->rank);
            int64_t size = own < 0 ? 1 : node->shape[own];
            bool known = !bti_size_is_symbolic(size) && !bti_size_is_symbolic(shape[axis]);
            if (known && size != 1 && shape[axis] != 1 && size != shape[axis]) return do_not_broadcast(arrays, count);
            shape[axis] = bti_size_broadcast(shape[axis], size); /* unknown sizes are checked at the call */
        }
    }
    return NULL;
}

/* --- elementwise ---------------------------------------------------------------------------------------------------- */

bt_array *bti_cast(bt_array *x, bt_dtype dtype) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (!poison && (unsigned)dtype >= BT_DTYPE_COUNT)
        poison = bti_poisonf(BT_INVALID_ARGUMENT, "%d is not a dtype", (int)dtype);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    if (node->dtype == dtype && !node->weak) return x;
    return bti_record(BTI_OP_cast, dtype, false, node->rank, node->shape, &x, 1, NULL, 0);
}

bt_array *bti_bitcast(bt_array *x, bt_dtype dtype) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    if ((unsigned)dtype >= BT_DTYPE_COUNT || bt_dtype_size(dtype) != bt_dtype_size((bt_dtype)node->dtype) ||
        (dtype == BT_BOOL) != (node->dtype == BT_BOOL))
        return bti_poisonf(BT_INVALID_ARGUMENT,
                           "%s and %s have no bits in common: sizes must be equal, bool goes with bool",
                           bt_dtype_name((bt_dtype)node->dtype), bt_dtype_name(dtype));
    return node->dtype == dtype ? x : bti_record(BTI_OP_bitcast, dtype, false, node->rank, node->shape, &x, 1, NULL, 0);
}

bt_array *bti_unary(bti_op op, bt_array *x) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    bt_dtype in, out;
    if ((poison = apply_rule(op, (bt_dtype)node->dtype, &in, &out))) return poison;
    bool weak = node->weak && is_float(out);
    if (!weak) x = bti_cast(x, in);
    return bti_record(op, out, weak, node->rank, node->shape, &x, 1, NULL, 0);
}

/* The inputs cast and broadcast to one dtype and shape, then one node. */
static bt_array *record_aligned(bti_op op, bt_dtype in, bt_dtype out, bool weak, bt_array **inputs, int count,
                                const int64_t *attr, int attr_count) {
    int rank;
    int64_t shape[BTI_MAX_RANK];
    bt_array *poison = broadcast_shape(inputs, count, &rank, shape);
    if (poison) return poison;
    for (int i = 0; i < count; i++) {
        bool as_it_is = op == BTI_OP_where && i == 0;
        if (!as_it_is && !(weak && bti_node_of(inputs[i])->weak)) inputs[i] = bti_cast(inputs[i], in);
        inputs[i] = bti_expand(inputs[i], rank, shape);
    }
    return bti_record(op, out, weak, rank, shape, inputs, count, attr, attr_count);
}

bt_array *bti_binary(bti_op op, bt_array *x, bt_array *y) {
    bt_array *inputs[2] = {x, y};
    bt_array *poison = bti_poisoned_by(inputs, 2);
    if (poison) return poison;
    bool weak;
    bt_dtype in, out, met = bti_meet(inputs, 2, &weak);
    if ((poison = apply_rule(op, met, &in, &out))) return poison;
    return record_aligned(op, in, out, weak && is_float(out), inputs, 2, NULL, 0);
}

bt_array *bti_as_taken(bti_op op, bt_array *x, bt_array *y) {
    bt_array *inputs[2] = {x, y};
    bool weak;
    bt_dtype in, out, met = bti_meet(inputs, 2, &weak);
    bt_array *poison = apply_rule(op, met, &in, &out);
    return poison ? poison : weak && is_float(out) && bti_node_of(x)->weak ? x : bti_cast(x, in);
}

bt_array *bti_where(bt_array *condition, bt_array *x, bt_array *y) {
    bt_array *inputs[3] = {condition, x, y};
    bt_array *poison = bti_poisoned_by(inputs, 3);
    if (poison) return poison;
    bool weak;
    bt_dtype met = bti_meet(inputs + 1, 2, &weak);
    inputs[0] = bti_cast(condition, BT_BOOL);
    return record_aligned(BTI_OP_where, met, met, weak, inputs, 3, NULL, 0);
}

bt_array *bti_threefry(bt_array *k0, bt_array *k1, bt_array *c0, bt_array *c1, int word) {
    bt_array *inputs[4] = {k0, k1, c0, c1};
    bt_array *poison = bti_poisoned_by(inputs, 4);
    int64_t attr = word;
    return poison ? poison : record_aligned(BTI_OP_threefry, BT_U32, BT_U32, false, inputs, 4, &attr, 1);
}

bt_array *bti_random_words(bt_array *k0, bt_array *k1, bt_array *number, bt_array *count) {
    bt_array *inputs[4] = {k0, k1, number, count};
    bt_array *poison = bti_poisoned_by(inputs, 4);
    return poison ? poison : record_aligned(BTI_OP_random_word, BT_U32, BT_U32, false, inputs, 4, NULL, 0);
}

bt_array *bti_stop(bt_array *x) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    return bti_record(BTI_OP_stop, (bt_dtype)node->dtype, node->weak, node->rank, node->shape, &x, 1, NULL, 0);
}

/* --- axes ----------------------------------------------------------------------------------------------------------- */

bool bti_axis(bt_array *x, int64_t axis, int *normal, bt_array **poison) {
    int rank = bti_node_of(x)->rank;
    if (axis >= -rank && axis < rank) {
        *normal = (int)(axis < 0 ? axis + rank : axis);
        return true;
    }
    *poison = bti_poisonf(BT_INVALID_ARGUMENT, "axis %lld of an array of %d dimensions; it must be in [%d, %d)",
                          (long long)axis, rank, -rank, rank);
    return false;
}

bool bti_axes_mask(bt_array *x, bt_axes axes, uint32_t *mask, bt_array **poison) {
    int rank = bti_node_of(x)->rank;
    *mask = 0;
    if (axes.count == -1) {
        *mask = (1u << rank) - 1;
        return true;
    }
    for (int i = 0; i < axes.count || axes.count < 0; i++) {
        int axis;
        if (i >= BT_MAX_RANK || axes.count < 0) {
            *poison = bti_poisonf(BT_INVALID_ARGUMENT, "%d axes; an array has at most %d", axes.count, BT_MAX_RANK);
            return false;
        }
        if (!bti_axis(x, axes.axis[i], &axis, poison)) return false;
        if (*mask >> axis & 1) {
            *poison = bti_poisonf(BT_INVALID_ARGUMENT, "axis %lld is given twice", (long long)axes.axis[i]);
            return false;
        }
        *mask |= 1u << axis;
    }
    return true;
}

/* --- reductions ----------------------------------------------------------------------------------------------------- */

bt_array *bti_check_index(bt_array *x, int axis) {
    int64_t size = bti_node_of(x)->shape[axis];
    if (bti_size_is_symbolic(size) || size <= INT32_MAX) return NULL;
    return bti_poisonf(BT_INVALID_ARGUMENT, "axis %d has %lld elements; their indices are int32, so it can have %d",
                       axis, (long long)size, INT32_MAX);
}

bt_array *bti_reduce(bti_op op, bt_array *x, uint32_t mask) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    bt_dtype in, out;
    if ((poison = apply_rule(op, (bt_dtype)node->dtype, &in, &out))) return poison;
    bool needs_elements = op != BTI_OP_sum && op != BTI_OP_prod;
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i < node->rank; i++) {
        bool folded = mask >> i & 1;
        if (folded && bti_op_info(op)->dtype_rule == BTI_INDEX_OUT && (poison = bti_check_index(x, i))) return poison;
        if (folded && needs_elements && node->shape[i] == 0)
            return bti_poisonf(BT_INVALID_ARGUMENT, "no elements along axis %d to take the %s of", i,
                               bti_op_info(op)->name);
        shape[i] = folded ? 1 : node->shape[i];
    }
    if (mask == 0 && out == node->dtype) return x;
    int64_t attr = mask;
    return bti_record(op, out, node->weak && is_float(out), node->rank, shape, &x, 1, &attr, 1);
}

bt_array *bti_drop_axes(bt_array *x, uint32_t mask) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    int64_t shape[BTI_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < node->rank; i++)
        if (!(mask >> i & 1)) shape[rank++] = node->shape[i];
    return bti_reshape(x, rank, shape);
}

bt_array *bti_cumsum(bt_array *x, int axis, bool reverse) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    bt_dtype in, out;
    if ((poison = apply_rule(BTI_OP_cumsum, (bt_dtype)node->dtype, &in, &out))) return poison;
    int64_t attr[2] = {axis, reverse};
    return bti_record(BTI_OP_cumsum, out, node->weak, node->rank, node->shape, &x, 1, attr, 2);
}

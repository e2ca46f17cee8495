#include "ir/op_rules.h"

#include "ir/dtype.h"

/* --- dtypes --------------------------------------------------------------------------------------------------------- */

bt_dtype bti_float_of(bt_dtype dtype) {
    if (bti_dtype_is_float(dtype)) return dtype;
    return dtype == BT_I64 || dtype == BT_U64 ? BT_F64 : BT_F32;
}

bool bti_op_dtypes(bti_op op, bt_dtype met, bt_dtype *in, bt_dtype *out, bti_str *why) {
    *in = *out = met;
    switch (bti_op_info(op)->dtype_rule) {
    case BTI_FLOAT: *in = *out = bti_float_of(met); break;
    case BTI_COMPARE: *out = BT_BOOL; break;
    case BTI_NUMBER:
        if (met != BT_BOOL) break;
        bti_str_add(why, "takes numbers, not bool; bt_cast it first");
        return false;
    case BTI_BITS:
        if (!bti_dtype_is_float(met)) break;
        bti_str_addf(why, "takes integers and bool, not %s", bt_dtype_name(met));
        return false;
    default: break;
    }
    return true;
}

/* --- shapes --------------------------------------------------------------------------------------------------------- */

bool bti_shapes_may_equal(int rank_a, const int64_t *a, int rank_b, const int64_t *b) {
    if (rank_a != rank_b) return false;
    for (int i = 0; i < rank_a; i++)
        if (!bti_may_equal(a[i], b[i])) return false;
    return true;
}

/* What is asked about, and where the reason goes. */
typedef struct question {
    bti_op op;
    int count;
    bti_node *const *inputs;
    int rank;
    const int64_t *shape;
    const bti_attr *attr;
    bti_str *why; /* may be NULL */
} question;

/* "(2, 3) cannot be broadcast to (4,)" */
static bool refuse_shapes(bti_str *why, const bti_node *input, const char *what, int rank, const int64_t *shape) {
    if (!why) return false;
    bti_shape_text(why, input->rank, input->shape);
    bti_str_addf(why, " %s ", what);
    bti_shape_text(why, rank, shape);
    return false;
}

static bool elementwise_fits(const question *q) {
    for (int i = 0; i < q->count; i++)
        if (!bti_shapes_may_equal(q->inputs[i]->rank, q->inputs[i]->shape, q->rank, q->shape))
            return refuse_shapes(q->why, q->inputs[i], "is not the shape of the result,", q->rank, q->shape);
    return true;
}

static int64_t size_product(int rank, const int64_t *shape) {
    int64_t product = 1;
    for (int i = 0; i < rank; i++) {
        bool known = !bti_size_is_symbolic(product) && !bti_size_is_symbolic(shape[i]);
        if (!known || __builtin_mul_overflow(product, shape[i], &product)) product = bti_size_mul(product, shape[i]);
    }
    return product;
}

bool bti_reshape_fits(const bti_node *x, int rank, const int64_t *shape, bti_str *why) {
    return bti_may_equal(size_product(x->rank, x->shape), size_product(rank, shape)) ||
           refuse_shapes(why, x, "has another number of elements than", rank, shape);
}

/* Aligned at the right: a recorded node has the rank of its result, the array that it is made of may have less. */
bool bti_expand_fits(const bti_node *x, int rank, const int64_t *shape, bti_str *why) {
    int front = rank - x->rank;
    if (front < 0) return refuse_shapes(why, x, "cannot be broadcast to the smaller rank of", rank, shape);
    for (int i = front; i < rank; i++)
        if (x->shape[i - front] != 1 && !bti_may_equal(x->shape[i - front], shape[i]))
            return refuse_shapes(why, x, "cannot be broadcast to", rank, shape);
    return true;
}

/* Every element of the slice is one of x's. */
static bool slice_fits(const question *q) {
    const bti_node *x = q->inputs[0];
    for (int i = 0; i < q->rank; i++) {
        int64_t first = q->attr->slice.start[i];
        bool known =
            !bti_size_is_symbolic(q->shape[i]) && !bti_size_is_symbolic(x->shape[i]) && !bti_size_is_symbolic(first);
        if (!known || !q->shape[i]) continue;
        int64_t last = first + (q->shape[i] - 1) * q->attr->slice.step[i];
        if (first < 0 || first >= x->shape[i] || last < 0 || last >= x->shape[i])
            return refuse_shapes(q->why, x, "has no such part as the slice", q->rank, q->shape);
    }
    return true;
}

static bool concat_fits(const question *q) {
    const bti_node *first = q->inputs[0];
    for (int i = 1; i < q->count; i++) {
        const bti_node *input = q->inputs[i];
        bool fits = input->rank == first->rank;
        for (int d = 0; d < first->rank && fits; d++)
            fits = d == q->attr->axis.axis || bti_may_equal(input->shape[d], first->shape[d]);
        if (!fits)
            return refuse_shapes(q->why, input, "does not fit beside the first array,", first->rank, first->shape);
    }
    return true;
}

static bool matmul_fits(const question *q) {
    const bti_node *x = q->inputs[0], *y = q->inputs[1];
    int rank = x->rank;
    bool fits = rank >= 2 && y->rank == rank && bti_may_equal(x->shape[rank - 1], y->shape[rank - 2]);
    for (int i = 0; i < rank - 2 && fits; i++) fits = bti_may_equal(x->shape[i], y->shape[i]);
    return fits || refuse_shapes(q->why, x, "cannot be multiplied with", y->rank, y->shape);
}

/* An axis whose indices are int32 (bt_argmax) is no longer than that. */
bool bti_iota_fits(bt_dtype dtype, int64_t count, bti_str *why) {
    if (dtype != BT_I32 || bti_size_is_symbolic(count) || count <= INT32_MAX) return true;
    if (why)
        bti_str_addf(why, "%lld elements; their indices are int32, so it can have %d", (long long)count, INT32_MAX);
    return false;
}

/* Where nothing is, there is no greatest. */
static bool reduce_fits(const question *q) {
    const bti_node *x = q->inputs[0];
    bool needs_elements = q->op != BTI_OP_sum && q->op != BTI_OP_prod && !q->attr->fold.or_start;
    for (int i = 0; i < x->rank; i++) {
        int64_t size = x->shape[i];
        if (!(q->attr->fold.axes >> i & 1) || bti_size_is_symbolic(size)) continue;
        if (needs_elements && size == 0) {
            if (q->why)
                bti_str_addf(q->why, "no elements along axis %d to take the %s of", i, bti_op_info(q->op)->name);
            return false;
        }
    }
    return true;
}

static bool order_fits(const question *q) {
    int axis = bti_attr_axis(q->op, q->attr);
    int64_t size = q->inputs[0]->shape[axis];
    if (bti_size_is_symbolic(size)) return true;
    if (size > INT32_MAX) {
        if (q->why)
            bti_str_addf(q->why, "axis %d has %lld elements; their indices are int32, so it can have %d", axis,
                         (long long)size, INT32_MAX);
        return false;
    }
    if (q->op == BTI_OP_sort || q->attr->top.k <= size) return true;
    if (q->why) {
        bti_str_addf(q->why, "k is %d; axis %d of shape ", q->attr->top.k, axis);
        bti_shape_text(q->why, q->inputs[0]->rank, q->inputs[0]->shape);
        bti_str_addf(q->why, " allows 0 to %lld", (long long)size);
    }
    return false;
}

static bool all_alike(const question *q) {
    const bti_node *first = q->inputs[0];
    for (int i = 1; i < q->count; i++) {
        const bti_node *input = q->inputs[i];
        if (!bti_shapes_may_equal(input->rank, input->shape, first->rank, first->shape))
            return refuse_shapes(q->why, input, "is a part; it must have the shape of the first,", first->rank,
                                 first->shape);
    }
    return true;
}

/* Updates take x's shape, with as many rows along the axis as there are indices. */
static bool scatter_add_fits(const question *q) {
    const bti_node *x = q->inputs[0], *updates = q->inputs[2];
    int64_t wanted[BTI_MAX_RANK];
    for (int i = 0; i < x->rank; i++) wanted[i] = i == q->attr->axis.axis ? q->inputs[1]->shape[0] : x->shape[i];
    return bti_shapes_may_equal(updates->rank, updates->shape, x->rank, wanted) ||
           refuse_shapes(q->why, updates, "are the updates; their shape must be", x->rank, wanted);
}

/* Updates have x's shape, or fewer rows along the axis. */
static bool update_slice_fits(const question *q) {
    const bti_node *x = q->inputs[0], *updates = q->inputs[2];
    bool fits = updates->rank == x->rank;
    for (int d = 0; d < x->rank && fits; d++) {
        int64_t has = updates->shape[d], room = x->shape[d];
        bool known = !bti_size_is_symbolic(has) && !bti_size_is_symbolic(room);
        fits = d == q->attr->axis.axis ? !known || has <= room : bti_may_equal(has, room);
    }
    return fits || refuse_shapes(q->why, updates, "is the update; it does not fit into", x->rank, x->shape);
}

/* Shapes of x and indices agree but on the axis; updates have that of the indices. */
static bool along_axis_fits(const question *q) {
    const bti_node *x = q->inputs[0], *indices = q->inputs[1];
    bool fits = x->rank == indices->rank;
    for (int d = 0; d < x->rank && fits; d++)
        fits = d == q->attr->axis.axis || bti_may_equal(x->shape[d], indices->shape[d]);
    if (!fits)
        return refuse_shapes(q->why, indices, "are the indices; but for the axis they must have the shape of x,",
                             x->rank, x->shape);
    const bti_node *updates = q->count > 2 ? q->inputs[2] : indices;
    return bti_shapes_may_equal(updates->rank, updates->shape, indices->rank, indices->shape) ||
           refuse_shapes(q->why, updates, "are the updates; their shape must be the indices',", indices->rank,
                         indices->shape);
}

bool bti_op_shape_fits(bti_op op, int count, bti_node *const *inputs, int rank, const int64_t *shape,
                       const bti_attr *attr, bti_str *why) {
    const question q = {op, count, inputs, rank, shape, attr, why};
    switch (op) {
    case BTI_OP_reshape: return bti_reshape_fits(inputs[0], rank, shape, why);
    case BTI_OP_expand: return bti_expand_fits(inputs[0], rank, shape, why);
    case BTI_OP_slice: return slice_fits(&q);
    case BTI_OP_concat: return concat_fits(&q);
    case BTI_OP_matmul: return matmul_fits(&q);
    case BTI_OP_sort:
    case BTI_OP_top_k: return order_fits(&q);
    case BTI_OP_all_reduce: return all_alike(&q);
    case BTI_OP_scatter_add: return scatter_add_fits(&q);
    case BTI_OP_update_slice: return update_slice_fits(&q);
    case BTI_OP_gather_axis:
    case BTI_OP_scatter_axis: return along_axis_fits(&q);
    default: break;
    }
    if (bti_op_info(op)->class == BTI_ELEMENTWISE) return elementwise_fits(&q);
    return bti_op_info(op)->class != BTI_REDUCE || reduce_fits(&q);
}

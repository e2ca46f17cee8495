#include "ir/op_rules.h"

#include "ir/attention.h"
#include "ir/conv.h"
#include "ir/dtype.h"

/* --- dtypes --------------------------------------------------------------------------------------------------------- */

bt_dtype bti_float_of(bt_dtype dtype) {
    if (bti_dtype_is_float(dtype)) return dtype;
    return dtype == BT_I64 || dtype == BT_U64 ? BT_F64 : BT_F32;
}

/* Operations that move elements, whatever they are. */
static bool moves(bti_op op) {
    bti_class class = bti_op_info(op)->class;
    if (op == BTI_OP_scatter_add || op == BTI_OP_scatter_axis || op == BTI_OP_scatter_max || op == BTI_OP_scatter_min)
        return false;
    return class == BTI_MOVEMENT || class == BTI_GATHER || class == BTI_EFFECT || class == BTI_HOST;
}

bool bti_op_takes_complex(bti_op op) {
    bti_class class = bti_op_info(op)->class;
    bool part = op == BTI_OP_complex || op == BTI_OP_real || op == BTI_OP_imag;
    return part || moves(op) || op == BTI_OP_cast || op == BTI_OP_leaf || class == BTI_CONTROL;
}

void bti_complex_refusal(bti_str *why, bt_dtype dtype) {
    bti_str_addf(why, "takes no complex numbers (%s); bt_real, bt_imag, bt_abs and bt_angle give real ones",
                 bt_dtype_name(dtype));
}

bool bti_op_dtypes(bti_op op, bt_dtype met, bt_dtype *in, bt_dtype *out, bti_str *why) {
    *in = *out = met;
    if (met == BT_DTYPE_COUNT || (bti_dtype_is_storage(met) && !moves(op))) {
        bti_str_add(why, met == BT_DTYPE_COUNT
                             ? "an 8-bit float and another dtype do not meet; bt_cast it to a wider float first"
                             : "8-bit floats are storage, without arithmetic; bt_cast to a wider float first");
        return false;
    }
    if (bti_dtype_is_complex(met) && !bti_op_takes_complex(op)) {
        bti_complex_refusal(why, met);
        return false;
    }
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

/* What is asked about, where the result goes, and where the reason goes. */
typedef struct question {
    bti_op op;
    int count;
    bti_node *const *inputs;
    const bti_attr *attr;
    bti_type *result; /* as bti_op_shape has it */
    bti_str *why;     /* may be NULL */
} question;

static void take_shape(bti_type *result, const bti_node *from) {
    result->rank = from->rank;
    for (int i = 0; i < from->rank; i++) result->shape[i] = from->shape[i];
}

/* "(2, 3) cannot be broadcast to (4,)" */
static bool refuse_shapes(bti_str *why, const bti_node *input, const char *what, int rank, const int64_t *shape) {
    if (!why) return false;
    bti_shape_text(why, input->rank, input->shape);
    bti_str_addf(why, " %s ", what);
    bti_shape_text(why, rank, shape);
    return false;
}

/* --- the shape that the caller asks for */

static bool shape_given(const question *q) {
    (void)q;
    return true;
}

static bool shape_scalar(const question *q) {
    q->result->rank = 0;
    return true;
}

/* An axis whose indices are int32 (bt_argmax) is no longer than that. */
static bool shape_iota(const question *q) {
    int64_t count = q->result->shape[0];
    if (q->result->dtype != BT_I32 || bti_size_is_symbolic(count) || count <= INT32_MAX) return true;
    if (q->why)
        bti_str_addf(q->why, "%lld elements; their indices are int32, so it can have %d", (long long)count, INT32_MAX);
    return false;
}

static int64_t size_product(int rank, const int64_t *shape) {
    int64_t product = 1;
    for (int i = 0; i < rank; i++) {
        bool known = !bti_size_is_symbolic(product) && !bti_size_is_symbolic(shape[i]);
        if (!known || __builtin_mul_overflow(product, shape[i], &product)) product = bti_size_mul(product, shape[i]);
    }
    return product;
}

static bool shape_reshape(const question *q) {
    const bti_node *x = q->inputs[0];
    return bti_may_equal(size_product(x->rank, x->shape), size_product(q->result->rank, q->result->shape)) ||
           refuse_shapes(q->why, x, "has another number of elements than", q->result->rank, q->result->shape);
}

bool bti_expand_fits(const bti_node *x, int rank, const int64_t *shape, bti_str *why) {
    int front = rank - x->rank;
    if (front < 0) return refuse_shapes(why, x, "cannot be broadcast to the smaller rank of", rank, shape);
    for (int i = front; i < rank; i++)
        if (x->shape[i - front] != 1 && !bti_may_equal(x->shape[i - front], shape[i]))
            return refuse_shapes(why, x, "cannot be broadcast to", rank, shape);
    return true;
}

static bool shape_expand(const question *q) {
    return bti_expand_fits(q->inputs[0], q->result->rank, q->result->shape, q->why);
}

static bool are_known(int64_t a, int64_t b, int64_t c) {
    return !bti_size_is_symbolic(a) && !bti_size_is_symbolic(b) && !bti_size_is_symbolic(c);
}

/* Every element of the slice is one of x's. */
static bool shape_slice(const question *q) {
    const bti_node *x = q->inputs[0];
    const int64_t *shape = q->result->shape;
    for (int i = 0; i < x->rank; i++) {
        int64_t first = q->attr->slice.start[i];
        bool known = are_known(shape[i], x->shape[i], first);
        if (!known || !shape[i]) continue;
        int64_t last = first + (shape[i] - 1) * q->attr->slice.step[i];
        if (first < 0 || first >= x->shape[i] || last < 0 || last >= x->shape[i])
            return refuse_shapes(q->why, x, "has no such part as the slice", x->rank, shape);
    }
    return true;
}

/* All of x lies in the result. */
static bool shape_pad(const question *q) {
    const bti_node *x = q->inputs[0];
    const int64_t *shape = q->result->shape;
    for (int i = 0; i < x->rank; i++) {
        int64_t before = q->attr->pad.before[i];
        bool known = are_known(shape[i], x->shape[i], before);
        if (known && (before < 0 || bti_size_add(before, x->shape[i]) > shape[i]))
            return refuse_shapes(q->why, x, "does not fit with its padding into", x->rank, shape);
    }
    return true;
}

/* --- the shape that follows from the inputs */

/* That of all inputs. Of a size that is not known in one of them and known in another, the number. */
static bool shape_same(const question *q) {
    bti_type *result = q->result;
    take_shape(result, q->inputs[0]);
    for (int i = 1; i < q->count; i++) {
        const bti_node *input = q->inputs[i];
        bool fits = input->rank == result->rank;
        for (int d = 0; d < result->rank && fits; d++) {
            if (input->shape[d] == result->shape[d]) continue;
            fits = bti_may_equal(input->shape[d], result->shape[d]);
            if (fits && !bti_size_is_symbolic(input->shape[d])) result->shape[d] = input->shape[d];
        }
        if (!fits) return refuse_shapes(q->why, input, "is not the shape of the result,", result->rank, result->shape);
    }
    return true;
}

static bool shape_first(const question *q) {
    take_shape(q->result, q->inputs[0]);
    return true;
}

/* Where nothing is, there is no greatest. */
static bool shape_reduce(const question *q) {
    const bti_node *x = q->inputs[0];
    bool needs_elements = q->op != BTI_OP_sum && q->op != BTI_OP_prod && !q->attr->fold.or_start;
    take_shape(q->result, x);
    for (int i = 0; i < x->rank; i++) {
        if (!(q->attr->fold.axes >> i & 1)) continue;
        if (needs_elements && x->shape[i] == 0) {
            if (q->why)
                bti_str_addf(q->why, "no elements along axis %d to take the %s of", i, bti_op_info(q->op)->name);
            return false;
        }
        q->result->shape[i] = 1;
    }
    return true;
}

static bool shape_permute(const question *q) {
    const bti_node *x = q->inputs[0];
    q->result->rank = x->rank;
    for (int i = 0; i < x->rank; i++) q->result->shape[i] = x->shape[q->attr->permute.axis[i]];
    return true;
}

/* Equal but on the axis. */
static bool agree_beside(const bti_node *x, const bti_node *y, int axis) {
    bool agree = x->rank == y->rank;
    for (int d = 0; d < x->rank && agree; d++) agree = d == axis || bti_may_equal(x->shape[d], y->shape[d]);
    return agree;
}

static bool shape_concat(const question *q) {
    const bti_node *first = q->inputs[0];
    int axis = q->attr->axis.axis;
    take_shape(q->result, first);
    for (int i = 1; i < q->count; i++) {
        const bti_node *input = q->inputs[i];
        if (!agree_beside(input, first, axis))
            return refuse_shapes(q->why, input, "does not fit beside the first array,", first->rank, first->shape);
        q->result->shape[axis] = bti_size_add(q->result->shape[axis], input->shape[axis]);
    }
    return true;
}

/* Of x, with as many rows along the axis as there are indices. */
static bool shape_take(const question *q) {
    take_shape(q->result, q->inputs[0]);
    q->result->shape[q->attr->axis.axis] = q->inputs[1]->shape[0];
    return true;
}

/* x's; updates have that which rows taken at the indices would have. */
static bool shape_scatter_add(const question *q) {
    const bti_node *x = q->inputs[0], *updates = q->inputs[2];
    (void)shape_take(q);
    if (!bti_shapes_may_equal(updates->rank, updates->shape, x->rank, q->result->shape))
        return refuse_shapes(q->why, updates, "are the updates; their shape must be", x->rank, q->result->shape);
    return shape_first(q);
}

/* x's; updates have it too, or fewer rows along the axis. */
static bool shape_update_slice(const question *q) {
    const bti_node *x = q->inputs[0], *updates = q->inputs[2];
    int axis = q->attr->axis.axis;
    if (!agree_beside(updates, x, axis) ||
        (!bti_may_equal(updates->shape[axis], x->shape[axis]) && updates->shape[axis] > x->shape[axis]))
        return refuse_shapes(q->why, updates, "is the update; it does not fit into", x->rank, x->shape);
    return shape_first(q);
}

/* That of the indices, which x has too but for the axis. */
static bool shape_gather_axis(const question *q) {
    const bti_node *x = q->inputs[0], *indices = q->inputs[1];
    take_shape(q->result, indices);
    return agree_beside(x, indices, q->attr->axis.axis) ||
           refuse_shapes(q->why, indices, "are the indices; but for the axis they must have the shape of x,", x->rank,
                         x->shape);
}

static bool shape_scatter_axis(const question *q) {
    const bti_node *indices = q->inputs[1], *updates = q->inputs[2];
    if (!shape_gather_axis(q)) return false;
    if (!bti_shapes_may_equal(updates->rank, updates->shape, indices->rank, indices->shape))
        return refuse_shapes(q->why, updates, "are the updates; their shape must be the indices',", indices->rank,
                             indices->shape);
    return shape_first(q);
}

static bool refuse_count(bti_str *why, int k, const bti_node *x, int axis) {
    if (!why) return false;
    bti_str_addf(why, "k is %d; axis %d of shape ", k, axis);
    bti_shape_text(why, x->rank, x->shape);
    bti_str_addf(why, " allows 0 to %lld", (long long)x->shape[axis]);
    return false;
}

static bool shape_order(const question *q) {
    const bti_node *x = q->inputs[0];
    int axis = bti_attr_axis(q->op, q->attr);
    int64_t size = x->shape[axis];
    bool known = !bti_size_is_symbolic(size);
    take_shape(q->result, x);
    if (known && size > INT32_MAX) {
        if (q->why)
            bti_str_addf(q->why, "axis %d has %lld elements; their indices are int32, so it can have %d", axis,
                         (long long)size, INT32_MAX);
        return false;
    }
    if (q->op == BTI_OP_sort) return true;
    q->result->shape[axis] = q->attr->top.k;
    return !known || q->attr->top.k <= size || refuse_count(q->why, q->attr->top.k, x, axis);
}

static bool shape_matmul(const question *q) {
    const bti_node *x = q->inputs[0], *y = q->inputs[1];
    int rank = x->rank;
    bool fits = rank >= 2 && y->rank == rank && bti_may_equal(x->shape[rank - 1], y->shape[rank - 2]);
    for (int i = 0; i < rank - 2 && fits; i++) fits = bti_may_equal(x->shape[i], y->shape[i]);
    if (!fits) return refuse_shapes(q->why, x, "cannot be multiplied with", y->rank, y->shape);
    take_shape(q->result, x);
    q->result->shape[rank - 1] = y->shape[rank - 1];
    return true;
}

/* Any that the recorder says, if it is one of a convolution with the inputs. How many places y has follows from x, w and the elements behind x that count as
 * 0, which no attribute says: past the window's last place all of them are 0. */
static bool shape_conv(const question *q) {
    int rank = q->result->rank;
    int64_t groups = q->attr->window.groups;
    const int64_t *shape[BTI_CONV_ARRAYS];
    shape[bti_conv_made(q->op)] = q->result->shape;
    for (int i = 0; i < 2; i++) shape[bti_conv_input(q->op, i)] = q->inputs[i]->shape;
    const int64_t *x = shape[BTI_CONV_X], *w = shape[BTI_CONV_W], *y = shape[BTI_CONV_Y];
    bool fits = rank > 2 && rank <= 2 + BTI_CONV_AXES && q->inputs[0]->rank == rank && q->inputs[1]->rank == rank;
    fits = fits && bti_may_equal(x[0], y[0]) && bti_may_equal(w[0], y[1]) &&
           bti_may_equal(x[1], bti_size_mul(w[1], groups)) &&
           (!are_known(w[0], groups, 0) || !groups || w[0] % groups == 0);
    if (fits) return true;
    if (q->why) {
        bti_shape_text(q->why, q->inputs[0]->rank, q->inputs[0]->shape);
        bti_str_add(q->why, " and ");
    }
    return refuse_shapes(q->why, q->inputs[1], "are not of a convolution that has", rank, q->result->shape);
}

static bool are_equal(const bti_node *x, int axis, const bti_node *y, int other) {
    return bti_may_equal(x->shape[axis], y->shape[other]);
}

static bool heads_fit(int64_t heads, int64_t of_keys) {
    if (!are_known(heads, of_keys, 0)) return heads == of_keys;
    return of_keys ? heads % of_keys == 0 : heads == 0;
}

/* Optional inputs behind those that are always there. */
static bool options_fit(const question *q, int needed) {
    const bti_node *query = q->inputs[BTI_ATTENTION_Q], *key = q->inputs[BTI_ATTENTION_K];
    for (int i = needed; i < q->count; i++) {
        const bti_node *x = q->inputs[i];
        bool fits = x->rank == 1 && are_equal(x, 0, query, 0);
        if (x->dtype != BT_I32)
            fits = x->rank == 4 && are_equal(x, 0, query, 0) && are_equal(x, 1, query, 1) &&
                   are_equal(x, 2, query, 2) && are_equal(x, 3, key, 2);
        if (!fits) return refuse_shapes(q->why, query, "cannot be given a mask or lengths of", x->rank, x->shape);
    }
    return true;
}

static bool shape_attention(const question *q) {
    int needed = bti_attention_needed(q->op);
    const bti_node *query = q->inputs[BTI_ATTENTION_Q], *key = q->inputs[BTI_ATTENTION_K];
    const bti_node *value = q->inputs[BTI_ATTENTION_V];
    bool fits = query->rank == 4 && key->rank == 4 && value->rank == 4 && heads_fit(query->shape[1], key->shape[1]);
    fits = fits && are_equal(query, 0, key, 0) && are_equal(query, 3, key, 3);
    if (!fits) return refuse_shapes(q->why, query, "cannot read keys of", key->rank, key->shape);
    for (int i = 0; i < 3; i++) fits = fits && are_equal(key, i, value, i);
    if (!fits) return refuse_shapes(q->why, key, "cannot be keys of", value->rank, value->shape);
    take_shape(q->result, query);
    if (q->op == BTI_OP_attention) q->result->shape[3] = value->shape[3];
    return options_fit(q, needed);
}

bool bti_op_shape(bti_op op, int count, bti_node *const *inputs, const bti_attr *attr, bti_type *result, bti_str *why) {
    static bool (*const rules[])(const question *q) = {
#define BTI_OP(name, class, arity, attr, dtype_rule, shape_rule, ...) [BTI_OP_##name] = shape_##shape_rule,
#include "ir/ops.def"
#undef BTI_OP
    };
    return rules[op](&(question){op, count, inputs, attr, result, why});
}

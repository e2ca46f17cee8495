/* Matrix products, convolutions and attention. */
#include <math.h>

#include "ir/attention.h"
#include "ir/conv.h"
#include "ir/dtype.h"
#include "render/stablehlo/writer.h"

static void name_precision(bti_hlo *w, bt_dtype dtype) {
    const char *each = w->highest && dtype == BT_F32 ? "HIGHEST" : "DEFAULT";
    bti_str_addf(bti_hlo_attribute(w, "precision_config"), "[#stablehlo<precision %s>, #stablehlo<precision %s>]", each,
                 each);
}

/* [batch..., ...] with so many batch axes; the axes a and b are summed over. */
static bti_hlo_value contract(bti_hlo *w, bti_hlo_value x, bti_hlo_value y, int batch, int a, int b, bti_type type) {
    static const char *const names[2] = {"#stablehlo.dot<lhs_batching_dimensions", ", rhs_batching_dimensions"};
    bti_str *dimensions = bti_hlo_attribute(w, "dot_dimension_numbers");
    for (int side = 0; side < 2; side++) {
        bti_str_addf(dimensions, "%s = [", names[side]);
        for (int i = 0; i < batch; i++) bti_str_addf(dimensions, "%s%d", i ? ", " : "", i);
        bti_str_add(dimensions, "]");
    }
    bti_str_addf(dimensions, ", lhs_contracting_dimensions = [%d], rhs_contracting_dimensions = [%d]>", a, b);
    name_precision(w, x.type.dtype);
    return bti_hlo_line(w, "dot_general", type, 2, (bti_hlo_value[]){x, y});
}

/* Small floats are added up in float32; bytes of two kinds in int32. */
bti_hlo_value bti_hlo_product(bti_hlo *w, bti_hlo_value a, bti_hlo_value b, bti_type type) {
    bt_dtype sums = type.dtype == BT_F16 || type.dtype == BT_BF16 ? BT_F32 : type.dtype;
    if (!bti_dtype_is_float(type.dtype)) {
        a = bti_hlo_convert(w, a, type.dtype);
        b = bti_hlo_convert(w, b, type.dtype);
    }
    bti_hlo_value made = contract(w, a, b, type.rank - 2, type.rank - 1, type.rank - 2, bti_hlo_like(&type, sums));
    return bti_hlo_convert(w, made, type.dtype);
}

/* --- convolutions ------------------------------------------------------------------------------------------------------ */

/* One axis of a window: how the left array is spread and padded, the right one too, and the window's steps. */
typedef struct window_axis {
    int64_t stride, low, high, spread_left, spread_right;
} window_axis;

static bti_hlo_value convolve(bti_hlo *w, bti_hlo_value left, bti_hlo_value right, bti_type type,
                              const window_axis *axes, const char *layout[3], int64_t groups, int64_t batch_groups) {
    static const char *const before[3] = {"[", "x[", "->["};
    int count = type.rank - 2;
    int64_t strides[BTI_CONV_AXES], pads[BTI_CONV_AXES][2], spread_left[BTI_CONV_AXES], spread_right[BTI_CONV_AXES];
    for (int i = 0; i < count; i++) {
        strides[i] = axes[i].stride;
        pads[i][0] = axes[i].low;
        pads[i][1] = axes[i].high;
        spread_left[i] = axes[i].spread_left;
        spread_right[i] = axes[i].spread_right;
    }
    bti_str *dimensions = bti_hlo_attribute(w, "dimension_numbers");
    bti_str_add(dimensions, "#stablehlo.conv<");
    for (int k = 0; k < 3; k++) {
        bti_str_addf(dimensions, "%s%s", before[k], layout[k]);
        for (int i = 0; i < count; i++) bti_str_addf(dimensions, ", %d", i);
        bti_str_add(dimensions, "]");
    }
    bti_str_add(dimensions, ">");
    bti_str_addf(bti_hlo_attribute(w, "feature_group_count"), "%lld : i64", (long long)groups);
    bti_str_addf(bti_hlo_attribute(w, "batch_group_count"), "%lld : i64", (long long)batch_groups);
    bti_hlo_attribute_list(w, "window_strides", strides, count);
    bti_hlo_attribute_list(w, "lhs_dilation", spread_left, count);
    bti_hlo_attribute_list(w, "rhs_dilation", spread_right, count);
    bti_hlo_attribute_pairs(w, "padding", pads, count);
    name_precision(w, left.type.dtype);
    return bti_hlo_line(w, "convolution", type, 2, (bti_hlo_value[]){left, right});
}

/* w [O, C/groups, ...] turned around in its places, as [O/groups, C, ...]. */
static bti_hlo_value turned_kernel(bti_hlo *w, bti_hlo_value kernel, int64_t groups) {
    int rank = kernel.type.rank, axes[BTI_CONV_AXES + 3] = {1, 0};
    int64_t shape[BTI_CONV_AXES + 3] = {groups, kernel.type.shape[0] / groups};
    kernel = bti_hlo_reverse(w, kernel, ((UINT32_C(1) << rank) - 1) & ~UINT32_C(3));
    if (groups == 1) return kernel;
    for (int i = 1; i < rank; i++) {
        shape[i + 1] = kernel.type.shape[i];
        axes[i + 1] = i + 1;
    }
    kernel = bti_hlo_permute(w, bti_hlo_reshape(w, kernel, rank + 1, shape), axes);
    int64_t joined[BTI_CONV_AXES + 2] = {kernel.type.shape[0], groups * kernel.type.shape[2]};
    for (int i = 2; i < rank; i++) joined[i] = kernel.type.shape[i + 1];
    return bti_hlo_reshape(w, kernel, rank, joined);
}

/* ir/conv.h. What is padded behind follows from the sizes; it may be below 0. */
bti_hlo_value bti_hlo_conv(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    const bti_op op = (bti_op)node->op;
    bti_type type = bti_type_of(node);
    const bti_type *shapes[BTI_CONV_ARRAYS] = {NULL};
    window_axis axes[BTI_CONV_AXES];
    int64_t groups = node->attr->window.groups;
    if (!groups) return bti_hlo_number(w, type, 0);
    shapes[bti_conv_input(op, 0)] = &in[0].type;
    shapes[bti_conv_input(op, 1)] = &in[1].type;
    shapes[bti_conv_made(op)] = &type;
    for (int i = 0; i < type.rank - 2; i++) {
        int64_t x = shapes[BTI_CONV_X]->shape[i + 2], y = shapes[BTI_CONV_Y]->shape[i + 2],
                k = shapes[BTI_CONV_W]->shape[i + 2];
        int64_t stride = node->attr->window.stride[i], dilation = node->attr->window.dilation[i],
                before = node->attr->window.before[i];
        int64_t reach = (k - 1) * dilation, span = (y - 1) * stride;
        if (op == BTI_OP_conv_data)
            axes[i] = (window_axis){1, reach - before, x - 1 - span + before, stride, dilation};
        else
            axes[i] = (window_axis){op == BTI_OP_conv ? stride : dilation, before, span + reach + 1 - x - before, 1,
                                    op == BTI_OP_conv ? dilation : stride};
    }
    if (op == BTI_OP_conv)
        return convolve(w, in[0], in[1], type, axes, (const char *[]){"b, f", "o, i", "b, f"}, groups, 1);
    if (op == BTI_OP_conv_data)
        return convolve(w, in[0], turned_kernel(w, in[1], groups), type, axes, (const char *[]){"b, f", "i, o", "b, f"},
                        groups, 1);
    return convolve(w, in[0], in[1], type, axes, (const char *[]){"f, b", "i, o", "f, b"}, 1, groups);
}

/* --- attention --------------------------------------------------------------------------------------------------------- */

typedef struct attended {
    const bti_node *node;
    const bti_hlo_value *in;
    bti_hlo_value keys, values; /* of each head */
    bti_hlo_value score;        /* [N, H, L, S]; -inf: not read */
    bti_type square, row;       /* [N, H, L, S]; [N, H, L] */
} attended;

/* [N, H / g, S, D] -> [N, H, S, D] */
static bti_hlo_value repeat_heads(bti_hlo *w, bti_hlo_value x, int64_t heads) {
    int64_t shared = heads / x.type.shape[1];
    bti_type type = {.dtype = x.type.dtype,
                     .rank = 5,
                     .shape = {x.type.shape[0], x.type.shape[1], shared, x.type.shape[2], x.type.shape[3]}};
    if (shared == 1) return x;
    bti_hlo_value made = bti_hlo_broadcast(w, x, (int64_t[]){0, 1, 3, 4}, type);
    return bti_hlo_reshape(w, made, 4, (int64_t[]){type.shape[0], heads, type.shape[3], type.shape[4]});
}

/* The sum over the heads that share keys. */
static bti_hlo_value join_heads(bti_hlo *w, bti_hlo_value x, int64_t heads) {
    int64_t shared = x.type.shape[1] / heads;
    if (shared == 1) return x;
    x = bti_hlo_reshape(w, x, 5, (int64_t[]){x.type.shape[0], heads, shared, x.type.shape[2], x.type.shape[3]});
    return bti_hlo_reduce(w, "add", x, bti_hlo_number(w, bti_hlo_scalar(x.type.dtype), 0), 1 << 2);
}

static bti_hlo_value over_keys(bti_hlo *w, bti_hlo_value row, bti_type square) {
    return bti_hlo_broadcast(w, row, (int64_t[]){0, 1, 2}, square);
}

/* Whether a query reads a key: by its place, and by how many keys there are. */
static bti_hlo_value is_read(bti_hlo *w, const attended *a, const bti_hlo_value *lengths) {
    bti_type type = bti_hlo_like(&a->square, BT_I32);
    bti_hlo_value length = bti_hlo_number(w, type, (double)type.shape[3]), zero = bti_hlo_number(w, type, 0);
    if (lengths) {
        bti_hlo_value given = bti_hlo_broadcast(w, *lengths, (int64_t[]){0}, type);
        length = bti_hlo_binary(w, "maximum", zero, bti_hlo_binary(w, "minimum", given, length));
    }
    bti_hlo_value reach = length;
    int64_t reads = a->node->attr->attention.reads;
    if (reads != BTI_READS_ALL) {
        bti_hlo_value place = bti_hlo_binary(w, "add", bti_hlo_iota(w, type, 2), bti_hlo_number(w, type, 1));
        if (reads == BTI_READS_FROM_END)
            place = bti_hlo_binary(
                w, "add", place, bti_hlo_binary(w, "subtract", length, bti_hlo_number(w, type, (double)type.shape[2])));
        reach = bti_hlo_binary(w, "minimum", place, length);
    }
    return bti_hlo_compare(w, "LT", bti_hlo_iota(w, type, 3), reach);
}

static attended score_keys(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    const bti_type *q = &in[BTI_ATTENTION_Q].type, *k = &in[BTI_ATTENTION_K].type;
    attended a = {.node = node, .in = in};
    a.row = (bti_type){.dtype = q->dtype, .rank = 3, .shape = {q->shape[0], q->shape[1], q->shape[2]}};
    a.square = (bti_type){.dtype = q->dtype, .rank = 4, .shape = {q->shape[0], q->shape[1], q->shape[2], k->shape[2]}};
    a.keys = repeat_heads(w, in[BTI_ATTENTION_K], q->shape[1]);
    a.values = repeat_heads(w, in[BTI_ATTENTION_V], q->shape[1]);
    const bti_hlo_value *lengths = NULL, *mask = NULL;
    for (int i = bti_attention_needed((bti_op)node->op); i < node->input_count; i++)
        *(in[i].type.dtype == BT_I32 ? &lengths : &mask) = &in[i];
    a.score = contract(w, in[BTI_ATTENTION_Q], a.keys, 2, 3, 3, a.square);
    a.score = bti_hlo_binary(w, "multiply", a.score, bti_hlo_number(w, a.square, node->attr->attention.scale));
    if (mask && mask->type.dtype != BT_BOOL)
        a.score = bti_hlo_binary(w, "add", a.score, bti_hlo_convert(w, *mask, q->dtype));
    bti_hlo_value read = is_read(w, &a, lengths);
    if (mask && mask->type.dtype == BT_BOOL) read = bti_hlo_binary(w, "and", read, *mask);
    a.score = bti_hlo_select(w, read, a.score, bti_hlo_number(w, a.square, -(double)INFINITY));
    return a;
}

static void write_attention(bti_hlo *w, const attended *a) {
    bti_type scalar = bti_hlo_scalar(a->square.dtype);
    const bti_type *v = &a->values.type;
    bti_hlo_value least = bti_hlo_number(w, scalar, -(double)INFINITY), zero = bti_hlo_number(w, a->row, 0), made[2];
    bti_hlo_value top = bti_hlo_reduce(w, "maximum", a->score, least, 1 << 3);
    top = bti_hlo_select(w, bti_hlo_compare(w, "EQ", top, bti_hlo_number(w, a->row, -(double)INFINITY)), zero, top);
    bti_hlo_value weight =
        bti_hlo_unary(w, "exponential", bti_hlo_binary(w, "subtract", a->score, over_keys(w, top, a->square)));
    bti_hlo_value sum = bti_hlo_reduce(w, "add", weight, bti_hlo_number(w, scalar, 0), 1 << 3);
    bti_hlo_value nothing = bti_hlo_compare(w, "EQ", sum, zero);
    bti_type type = {
        .dtype = v->dtype, .rank = 4, .shape = {a->row.shape[0], a->row.shape[1], a->row.shape[2], v->shape[3]}};
    bti_hlo_value out = contract(w, weight, a->values, 2, 3, 2, type);
    out = bti_hlo_binary(w, "divide", out,
                         over_keys(w, bti_hlo_select(w, nothing, bti_hlo_number(w, a->row, 1), sum), type));
    made[0] = out;
    made[1] = bti_hlo_select(w, nothing, zero, bti_hlo_binary(w, "add", top, bti_hlo_unary(w, "log", sum)));
    bti_hlo_set(w, a->node, 2, made);
}

static void write_attention_gradient(bti_hlo *w, const attended *a) {
    const bti_hlo_value *in = a->in;
    bti_hlo_value slope = in[BTI_ATTENTION_SLOPE], made[3];
    bti_hlo_value weight = bti_hlo_binary(w, "subtract", a->score, over_keys(w, in[BTI_ATTENTION_LSE], a->square));
    weight = bti_hlo_unary(w, "exponential", weight);
    bti_hlo_value mean = bti_hlo_binary(w, "multiply", slope, in[BTI_ATTENTION_OUT]);
    mean = bti_hlo_reduce(w, "add", mean, bti_hlo_number(w, bti_hlo_scalar(a->row.dtype), 0), 1 << 3);
    bti_hlo_value of_weight = contract(w, slope, a->values, 2, 3, 3, a->square);
    bti_hlo_value of_score = bti_hlo_binary(w, "subtract", of_weight, over_keys(w, mean, a->square));
    of_score = bti_hlo_binary(w, "multiply", weight, of_score);
    of_score = bti_hlo_binary(w, "multiply", of_score, bti_hlo_number(w, a->square, a->node->attr->attention.scale));
    made[0] = contract(w, of_score, a->keys, 2, 3, 2, in[BTI_ATTENTION_Q].type);
    made[1] = join_heads(w, contract(w, of_score, in[BTI_ATTENTION_Q], 2, 2, 2, a->keys.type),
                         in[BTI_ATTENTION_K].type.shape[1]);
    made[2] = join_heads(w, contract(w, weight, slope, 2, 2, 2, a->values.type), in[BTI_ATTENTION_V].type.shape[1]);
    bti_hlo_set(w, a->node, 3, made);
}

void bti_hlo_attention(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    attended a = score_keys(w, node, in);
    if (node->op == BTI_OP_attention)
        write_attention(w, &a);
    else
        write_attention_gradient(w, &a);
}

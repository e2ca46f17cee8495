/* Operations that move elements: views, pads, rows by index, scatters. */
#include <math.h>

#include "ir/dtype.h"
#include "render/stablehlo/writer.h"

/* --- views ------------------------------------------------------------------------------------------------------------- */

/* Steps below 0: of the axis turned around. */
static bti_hlo_value write_slice(bti_hlo *w, const bti_node *node, bti_hlo_value x) {
    int64_t starts[BTI_MAX_RANK], ends[BTI_MAX_RANK], steps[BTI_MAX_RANK];
    uint32_t turned = 0;
    for (int i = 0; i < node->rank; i++) {
        int64_t step = node->attr->slice.step[i], start = node->attr->slice.start[i];
        bool back = step < 0;
        if (back) turned |= UINT32_C(1) << i;
        steps[i] = node->shape[i] < 2 ? 1 : back ? -step : step;
        starts[i] = !node->shape[i] ? 0 : back ? x.type.shape[i] - 1 - start : start;
        ends[i] = node->shape[i] ? starts[i] + (node->shape[i] - 1) * steps[i] + 1 : starts[i];
    }
    return bti_hlo_slice(w, bti_hlo_reverse(w, x, turned), bti_type_of(node), starts, ends, steps);
}

bti_hlo_value bti_hlo_move(bti_hlo *w, const bti_node *node, bti_hlo_value x) {
    int64_t dims[BTI_MAX_RANK];
    for (int i = 0; i < node->rank; i++) dims[i] = i;
    switch (node->op) {
    case BTI_OP_reshape: return bti_hlo_reshape(w, x, node->rank, node->shape);
    case BTI_OP_permute: return bti_hlo_permute(w, x, node->attr->permute.axis);
    case BTI_OP_expand: return bti_hlo_broadcast(w, x, dims, bti_type_of(node));
    default: return write_slice(w, node, x);
    }
}

static bti_hlo_value write_pad(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    int64_t after[BTI_MAX_RANK], none[BTI_MAX_RANK] = {0};
    bti_hlo_value inputs[2] = {in[0], in[1].type.rank ? bti_hlo_reshape(w, in[1], 0, NULL) : in[1]};
    for (int i = 0; i < node->rank; i++) after[i] = node->shape[i] - in[0].type.shape[i] - node->attr->pad.before[i];
    bti_hlo_attribute_list(w, "edge_padding_low", node->attr->pad.before, node->rank);
    bti_hlo_attribute_list(w, "edge_padding_high", after, node->rank);
    bti_hlo_attribute_list(w, "interior_padding", none, node->rank);
    return bti_hlo_line(w, "pad", bti_type_of(node), 2, inputs);
}

/* --- rows by index ----------------------------------------------------------------------------------------------------- */

/* Indices from the end become those from the beginning. */
static bti_hlo_value from_start(bti_hlo *w, bti_hlo_value index, int64_t size) {
    bti_hlo_value zero = bti_hlo_number(w, index.type, 0);
    bti_hlo_value behind = bti_hlo_binary(w, "add", index, bti_hlo_number(w, index.type, (double)size));
    return bti_hlo_select(w, bti_hlo_compare(w, "LT", index, zero), behind, index);
}

static bti_hlo_value is_inside(bti_hlo *w, bti_hlo_value index, int64_t size) {
    bti_hlo_value zero = bti_hlo_number(w, index.type, 0), end = bti_hlo_number(w, index.type, (double)size);
    return bti_hlo_binary(w, "and", bti_hlo_compare(w, "GE", index, zero), bti_hlo_compare(w, "LT", index, end));
}

/* What an index out of range reads. */
static bti_hlo_value missing(bti_hlo *w, bti_type type) {
    if (bti_dtype_is_complex(type.dtype)) {
        bti_type part = bti_hlo_like(&type, type.dtype == BT_C64 ? BT_F32 : BT_F64);
        bti_hlo_value nan = bti_hlo_number(w, part, (double)NAN);
        return bti_hlo_line(w, "complex", type, 2, (bti_hlo_value[]){nan, nan});
    }
    if (type.dtype == BT_F8E4M3) return bti_hlo_bits(w, type, 0x7F);
    if (type.dtype == BT_F8E5M2) return bti_hlo_bits(w, type, 0x7E);
    return bti_hlo_number(w, type, bti_dtype_is_float(type.dtype) ? (double)NAN : 0);
}

/* The axes but one. */
static int others(int rank, int axis, int64_t *axes) {
    int count = 0;
    for (int i = 0; i < rank; i++)
        if (i != axis) axes[count++] = i;
    return count;
}

/* [n] as [n, 1]: each row of it is an index. */
static bti_hlo_value as_rows(bti_hlo *w, bti_hlo_value index) {
    return bti_hlo_reshape(w, index, 2, (int64_t[]){index.type.shape[0], 1});
}

static void add_numbers(bti_str *text, const char *name, const int64_t *numbers, int count) {
    bti_str_addf(text, "%s = [", name);
    for (int i = 0; i < count; i++) bti_str_addf(text, "%s%lld", i ? ", " : "", (long long)numbers[i]);
    bti_str_add(text, "]");
}

/* Its dimension_numbers are there. */
static bti_hlo_value write_gather(bti_hlo *w, bti_type type, const bti_hlo_value *inputs, const int64_t *sizes) {
    bti_str_add(bti_hlo_attribute(w, "indices_are_sorted"), "false");
    bti_hlo_attribute_list(w, "slice_sizes", sizes, inputs[0].type.rank);
    return bti_hlo_line(w, "gather", type, 2, inputs);
}

static bti_hlo_value write_take(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    int axis = node->attr->axis.axis, rank = node->rank;
    int64_t kept[BTI_MAX_RANK], sizes[BTI_MAX_RANK], collapsed = axis, dims[1] = {axis};
    bti_type type = bti_type_of(node);
    if (!in[0].type.shape[axis]) return missing(w, type); /* of no rows */
    bti_hlo_value index = from_start(w, in[1], in[0].type.shape[axis]);
    bti_hlo_value inputs[2] = {in[0], as_rows(w, index)};
    for (int i = 0; i < rank; i++) sizes[i] = i == axis ? 1 : in[0].type.shape[i];
    bti_str *dimensions = bti_hlo_attribute(w, "dimension_numbers");
    bti_str_add(dimensions, "#stablehlo.gather<");
    add_numbers(dimensions, "offset_dims", kept, others(rank, axis, kept));
    add_numbers(dimensions, ", collapsed_slice_dims", &collapsed, 1);
    add_numbers(dimensions, ", start_index_map", dims, 1);
    bti_str_add(dimensions, ", index_vector_dim = 1>");
    bti_hlo_value rows = write_gather(w, type, inputs, sizes);
    bti_hlo_value inside =
        bti_hlo_broadcast(w, is_inside(w, index, in[0].type.shape[axis]), dims, bti_hlo_like(&type, BT_BOOL));
    return bti_hlo_select(w, inside, rows, missing(w, type));
}

static bti_hlo_value write_gather_axis(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    int axis = node->attr->axis.axis, rank = node->rank;
    int64_t rest[BTI_MAX_RANK], sizes[BTI_MAX_RANK], along = axis;
    bti_type type = bti_type_of(node);
    if (!in[0].type.shape[axis]) return missing(w, type);
    bti_hlo_value index = from_start(w, in[1], in[0].type.shape[axis]), inputs[2] = {in[0], index};
    int count = others(rank, axis, rest);
    for (int i = 0; i < rank; i++) sizes[i] = 1;
    bti_str *dimensions = bti_hlo_attribute(w, "dimension_numbers");
    bti_str_add(dimensions, "#stablehlo.gather<");
    add_numbers(dimensions, "collapsed_slice_dims", &along, 1);
    add_numbers(dimensions, ", operand_batching_dims", rest, count);
    add_numbers(dimensions, ", start_indices_batching_dims", rest, count);
    add_numbers(dimensions, ", start_index_map", &along, 1);
    bti_str_addf(dimensions, ", index_vector_dim = %d>", rank);
    bti_hlo_value made = write_gather(w, type, inputs, sizes);
    return bti_hlo_select(w, is_inside(w, index, in[0].type.shape[axis]), made, missing(w, type));
}

/* --- scatters ---------------------------------------------------------------------------------------------------------- */

static const char *scattering(bti_op op, bt_dtype dtype) {
    if (op == BTI_OP_scatter_set) return NULL;
    if (op == BTI_OP_scatter_max) return dtype == BT_BOOL ? "or" : "maximum";
    if (op == BTI_OP_scatter_min) return dtype == BT_BOOL ? "and" : "minimum";
    return dtype == BT_BOOL ? "or" : "add";
}

/* Updates out of range are dropped, as StableHLO says. */
static bti_hlo_value write_scatter(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    bti_op op = (bti_op)node->op;
    int axis = node->attr->axis.axis, rank = node->rank;
    int64_t rest[BTI_MAX_RANK], along = axis, none = 0;
    int count = others(rank, axis, rest);
    bool by_rows = op == BTI_OP_scatter_add;
    bti_hlo_value index = from_start(w, in[1], node->shape[axis]), made = {.type = bti_type_of(node)};
    bti_hlo_value inputs[3] = {in[0], by_rows ? as_rows(w, index) : index, in[2]};
    int id = bti_hlo_begin(w, "scatter", 1, 3, inputs);
    bti_hlo_combine(w, scattering(op, made.type.dtype), made.type.dtype);
    bti_str *dimensions = bti_hlo_attribute(w, "scatter_dimension_numbers");
    bti_str_add(dimensions, "#stablehlo.scatter<");
    add_numbers(dimensions, "update_window_dims", by_rows ? rest : &none, by_rows ? count : 0);
    add_numbers(dimensions, ", inserted_window_dims", &along, 1);
    if (!by_rows) {
        add_numbers(dimensions, ", input_batching_dims", rest, count);
        add_numbers(dimensions, ", scatter_indices_batching_dims", rest, count);
    }
    add_numbers(dimensions, ", scatter_dims_to_operand_dims", &along, 1);
    bti_str_addf(dimensions, ", index_vector_dim = %d>", by_rows ? 1 : rank);
    bti_str_add(bti_hlo_attribute(w, "indices_are_sorted"), "false");
    bti_str_add(bti_hlo_attribute(w, "unique_indices"), "false");
    bti_hlo_end(w, 3, inputs, 1, &made, id);
    return made;
}

/* The first row is moved so that all fit, which dynamic_update_slice does too. */
static bti_hlo_value write_update_slice(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    bti_hlo_value inputs[2 + BTI_MAX_RANK] = {in[0], in[2]}, start = bti_hlo_reshape(w, in[1], 0, NULL);
    bti_hlo_value zero = bti_hlo_number(w, start.type, 0);
    for (int i = 0; i < node->rank; i++) inputs[2 + i] = i == node->attr->axis.axis ? start : zero;
    return bti_hlo_line(w, "dynamic_update_slice", bti_type_of(node), 2 + node->rank, inputs);
}

bti_hlo_value bti_hlo_gather(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    switch (node->op) {
    case BTI_OP_pad: return write_pad(w, node, in);
    case BTI_OP_concat:
        bti_str_addf(bti_hlo_attribute(w, "dimension"), "%d : i64", node->attr->axis.axis);
        return bti_hlo_line(w, "concatenate", bti_type_of(node), node->input_count, in);
    case BTI_OP_take: return write_take(w, node, in);
    case BTI_OP_gather_axis: return write_gather_axis(w, node, in);
    case BTI_OP_update_slice: return write_update_slice(w, node, in);
    default: return write_scatter(w, node, in);
    }
}

/* Parts of arrays along one axis, and operations as they are. */
#include "ir/dtype.h"
#include "render/stablehlo/segment_writer.h"

bti_hlo_value bti_hlo_zero(bti_hlo *w, bt_dtype dtype) {
    bti_type scalar = bti_hlo_scalar(dtype);
    return bti_dtype_is_complex(dtype) ? bti_hlo_number(w, scalar, 0) : bti_hlo_bits(w, scalar, 0);
}

bti_hlo_value bti_hlo_i32(bti_hlo *w, int64_t number) {
    return bti_hlo_bits(w, bti_hlo_scalar(BT_I32), (uint64_t)number);
}

bti_hlo_value bti_hlo_splat(bti_hlo *w, bti_hlo_value x, bti_type type) {
    return bti_hlo_broadcast(w, x, NULL, bti_hlo_like(&type, x.type.dtype));
}

static bti_type with_extent(bti_type type, int axis, int64_t extent) {
    type.shape[axis] = extent;
    return type;
}

bti_hlo_value bti_hlo_fit(bti_hlo *w, bti_hlo_value x, int axis, int64_t extent) {
    bti_type type = with_extent(x.type, axis, extent);
    int64_t none[BTI_MAX_RANK] = {0}, more[BTI_MAX_RANK] = {0}, ones[BTI_MAX_RANK];
    int64_t there = x.type.shape[axis];
    if (there == extent) return x;
    for (int i = 0; i < type.rank; i++) ones[i] = 1;
    if (there > extent) return bti_hlo_slice(w, x, type, none, type.shape, ones);
    bti_hlo_value inputs[2] = {x, bti_hlo_zero(w, x.type.dtype)};
    more[axis] = extent - there;
    bti_hlo_attribute_list(w, "edge_padding_low", none, type.rank);
    bti_hlo_attribute_list(w, "edge_padding_high", more, type.rank);
    bti_hlo_attribute_list(w, "interior_padding", none, type.rank);
    return bti_hlo_line(w, "pad", type, 2, inputs);
}

static void add_starts(bti_hlo *w, int rank, int axis, bti_hlo_value start, bti_hlo_value *starts) {
    bti_hlo_value zero = rank > 1 ? bti_hlo_i32(w, 0) : start;
    for (int i = 0; i < rank; i++) starts[i] = i == axis ? start : zero;
}

bti_hlo_value bti_hlo_part(bti_hlo *w, bti_hlo_value x, int axis, bti_hlo_value start, int64_t extent) {
    bti_hlo_value inputs[1 + BTI_MAX_RANK] = {x};
    bti_type type = with_extent(x.type, axis, extent);
    add_starts(w, type.rank, axis, start, inputs + 1);
    bti_hlo_attribute_list(w, "slice_sizes", type.shape, type.rank);
    return bti_hlo_line(w, "dynamic_slice", type, 1 + type.rank, inputs);
}

bti_hlo_value bti_hlo_put(bti_hlo *w, bti_hlo_value x, bti_hlo_value y, int axis, bti_hlo_value start) {
    bti_hlo_value inputs[2 + BTI_MAX_RANK] = {x, y};
    add_starts(w, x.type.rank, axis, start, inputs + 2);
    return bti_hlo_line(w, "dynamic_update_slice", x.type, 2 + x.type.rank, inputs);
}

bti_hlo_value bti_hlo_pick(bti_hlo *w, bti_hlo_value x, int axis, bti_hlo_value index) {
    bti_type type = with_extent(x.type, axis, index.type.shape[0]);
    bti_hlo_value inputs[2] = {x, bti_hlo_reshape(w, index, 2, (int64_t[]){index.type.shape[0], 1})};
    bti_str *dimensions = bti_hlo_attribute(w, "dimension_numbers");
    bti_str_add(dimensions, "#stablehlo.gather<offset_dims = [");
    for (int i = 0, n = 0; i < type.rank; i++)
        if (i != axis) bti_str_addf(dimensions, "%s%d", n++ ? ", " : "", i);
    bti_str_addf(dimensions, "], collapsed_slice_dims = [%d], start_index_map = [%d], index_vector_dim = 1>", axis,
                 axis);
    bti_str_add(bti_hlo_attribute(w, "indices_are_sorted"), "false");
    bti_hlo_attribute_list(w, "slice_sizes", with_extent(x.type, axis, 1).shape, type.rank);
    return bti_hlo_line(w, "gather", type, 2, inputs);
}

bti_hlo_value bti_hlo_masked(bti_hlo *w, bti_hlo_value x, int axis, bti_hlo_value size, bti_hlo_value fill) {
    bti_type places = bti_hlo_like(&x.type, BT_I32);
    bti_hlo_value within = bti_hlo_compare(w, "LT", bti_hlo_iota(w, places, axis), bti_hlo_splat(w, size, places));
    return bti_hlo_select(w, within, x, bti_hlo_splat(w, fill, x.type));
}

/* --- operations ----------------------------------------------------------------------------------------------------------- */

void bti_hlo_padded_refuse(bti_hlo_padded *p) {
    bti_hlo_refuse(&p->s->w, p->step->node, "no rule for sizes that vary along such an axis");
}

bti_hlo_value bti_hlo_padded_plain(bti_hlo_padded *p) {
    bti_hlo *w = &p->s->w;
    bti_hlo_node(w, &p->node, p->in);
    int64_t at = bti_number_of(&w->numbers, &p->node);
    return w->status == BT_OK && at >= 0 ? w->values.items[at] : p->in[0];
}

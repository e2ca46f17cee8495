/* Views, pads, rows by index and scatters of arrays that are longer along some axes than their sizes say. */
#include "ir/dtype.h"
#include "render/stablehlo/segment_writer.h"

#define MOST_ELEMENTS INT32_MAX /* where elements are picked by index */

static const bti_value *value_of(const bti_hlo_padded *p, int operand) {
    return bti_plan_operand(p->s->plan, p->step, operand);
}
static bool varies(const bti_hlo_padded *p, int operand, int axis) {
    return bti_hlo_axes(p->s, p->step, operand) >> axis & 1;
}
static bti_hlo_value axis_size(const bti_hlo_padded *p, int operand, int axis) {
    return bti_hlo_size(p->s, p->step, operand, axis);
}

/* x where a place lies below the size along the axis, else y. */
static bti_hlo_value select_below(bti_hlo *w, bti_hlo_value x, bti_hlo_value y, int axis, bti_hlo_value size) {
    bti_type places = bti_hlo_like(&x.type, BT_I32);
    bti_hlo_value within = bti_hlo_compare(w, "LT", bti_hlo_iota(w, places, axis), bti_hlo_splat(w, size, places));
    return bti_hlo_select(w, within, x, y);
}

/* --- reshape ----------------------------------------------------------------------------------------------------------- */

/* Neighbouring axes of the input, and of the output, that have as many elements: each is the other in another shape. */
typedef struct group {
    int in, in_end, out, out_end; /* axes */
    int64_t held, made;           /* elements as they are padded */
} group;

static int find_groups(const bti_hlo_padded *p, group *groups) {
    const bti_value *x = value_of(p, 0), *y = value_of(p, 1);
    int count = 0, i = 0, o = 0;
    while (i < x->rank || o < y->rank) {
        group g = {.in = i, .out = o, .held = 1, .made = 1};
        int64_t of_in = 1, of_out = 1;
        do {
            bool from_in = i < x->rank && (of_in <= of_out || o == y->rank);
            if (from_in) {
                g.held *= p->in[0].type.shape[i];
                of_in *= x->shape[i++];
            } else {
                g.made *= p->node.shape[o];
                of_out *= y->shape[o++];
            }
        } while (of_in != of_out);
        g.in_end = i, g.out_end = o;
        groups[count++] = g;
    }
    return count;
}

/* Its elements lie in front: only the first axis is longer than its size. */
static bool lies_in_front(const bti_hlo_padded *p, int operand, int axis, int end) {
    while (axis < end && value_of(p, operand)->shape[axis] == 1) axis++;
    for (axis++; axis < end; axis++)
        if (varies(p, operand, axis)) return false;
    return true;
}

static bti_hlo_value times_size(bti_hlo *w, bti_hlo_value x, bti_hlo_value size) {
    return bti_hlo_binary(w, "multiply", x, bti_hlo_splat(w, size, x.type));
}

/* By element that is made, with what is beyond sizes: its number in row-major order of the true sizes. */
static bti_hlo_value number_elements(const bti_hlo_padded *p, const group *g) {
    bti_hlo *w = &p->s->w;
    bti_type type = {.dtype = BT_I32, .rank = g->out_end - g->out};
    for (int i = 0; i < type.rank; i++) type.shape[i] = p->node.shape[g->out + i];
    bti_hlo_value number = bti_hlo_iota(w, type, 0);
    for (int i = 1; i < type.rank; i++)
        number = bti_hlo_binary(w, "add", times_size(w, number, axis_size(p, 1, g->out + i)), bti_hlo_iota(w, type, i));
    return bti_hlo_reshape(w, number, 1, &g->made);
}

/* Where the elements of these numbers lie in the input. */
static bti_hlo_value find_elements(const bti_hlo_padded *p, const group *g, bti_hlo_value number) {
    bti_hlo *w = &p->s->w;
    bti_hlo_value place = bti_hlo_number(w, number.type, 0);
    int64_t stride = 1;
    for (int i = g->in_end - 1; i >= g->in; i--) {
        bti_hlo_value size = bti_hlo_splat(w, axis_size(p, 0, i), number.type);
        bti_hlo_value along = i > g->in ? bti_hlo_binary(w, "remainder", number, size) : number;
        if (i > g->in) number = bti_hlo_binary(w, "divide", number, size);
        place = bti_hlo_binary(w, "add", place, times_size(w, along, bti_hlo_i32(w, stride)));
        stride *= p->in[0].type.shape[i];
    }
    bti_hlo_value first = bti_hlo_number(w, number.type, 0), last = bti_hlo_number(w, number.type, (double)g->held - 1);
    return bti_hlo_binary(w, "minimum", bti_hlo_binary(w, "maximum", place, first), last);
}

static bti_hlo_value reshape(bti_hlo_padded *p) {
    bti_hlo *w = &p->s->w;
    group groups[2 * BTI_MAX_RANK];
    bti_hlo_value x = p->in[0];
    int count = find_groups(p, groups);
    for (int i = 0; i < count; i++) {
        const group *g = &groups[i];
        bool in_front = lies_in_front(p, 0, g->in, g->in_end) && lies_in_front(p, 1, g->out, g->out_end);
        if (in_front && g->held == g->made) continue;
        if (!in_front && (g->held > MOST_ELEMENTS || g->made > MOST_ELEMENTS)) {
            bti_hlo_padded_refuse(p);
            return x;
        }
        int64_t shape[3] = {1, g->held, 1}; /* groups that are made, this one, those that are left */
        for (int k = 0; k < i; k++) shape[0] *= groups[k].made;
        for (int k = i + 1; k < count; k++) shape[2] *= groups[k].held;
        x = bti_hlo_reshape(w, x, 3, shape);
        x = in_front ? bti_hlo_fit(w, x, 1, g->made)
                     : bti_hlo_pick(w, x, 1, find_elements(p, g, number_elements(p, g)));
    }
    return bti_hlo_reshape(w, x, p->node.rank, p->node.shape);
}

/* --- slice ------------------------------------------------------------------------------------------------------------- */

static bti_hlo_value fixed_part(bti_hlo *w, bti_hlo_value x, int axis, int64_t start, int64_t step, int64_t extent) {
    int64_t starts[BTI_MAX_RANK] = {0}, ends[BTI_MAX_RANK], steps[BTI_MAX_RANK];
    bti_type type = x.type;
    if (step < 0) {
        x = bti_hlo_reverse(w, x, UINT32_C(1) << axis);
        start = x.type.shape[axis] - 1 - start;
    }
    for (int i = 0; i < type.rank; i++) ends[i] = type.shape[i], steps[i] = 1;
    type.shape[axis] = extent;
    steps[axis] = extent < 2 ? 1 : step < 0 ? -step : step;
    starts[axis] = start;
    ends[axis] = start + (extent - 1) * steps[axis] + 1;
    return bti_hlo_slice(w, x, type, starts, ends, steps);
}

/* Of an axis turned around where the step is below 0. */
static bti_hlo_value slice_axis(const bti_hlo_padded *p, bti_hlo_value x, int axis) {
    bti_hlo *w = &p->s->w;
    int64_t start = p->attr.slice.start[axis], step = p->attr.slice.step[axis], extent = p->node.shape[axis];
    bool begins = p->begins >> axis & 1, made = varies(p, 1, axis);
    if (value_of(p, 1)->shape[axis] == 1 && !made) step = 1;
    if (!begins && !made && !varies(p, 0, axis)) {
        bool whole = !start && step == 1 && extent == x.type.shape[axis];
        return whole ? x : fixed_part(w, x, axis, start, step, extent);
    }
    if (step < 0) {
        x = bti_hlo_reverse(w, x, UINT32_C(1) << axis);
        start = x.type.shape[axis] - 1 - start;
        step = -step;
    }
    int64_t span = (extent - 1) * step + 1;
    if (begins) {
        if (made) x = bti_hlo_fit(w, x, axis, x.type.shape[axis] + span); /* so that no start is moved */
        x = bti_hlo_part(w, x, axis, bti_hlo_give(p->s, BT_I32, (uint64_t)start), span);
        start = 0;
    } else
        x = bti_hlo_fit(w, x, axis, start + span);
    return start || step > 1 ? fixed_part(w, x, axis, start, step, extent) : x;
}

/* --- pad, concat ------------------------------------------------------------------------------------------------------- */

static bti_hlo_value pad_fixed(bti_hlo *w, bti_hlo_value x, bti_hlo_value fill, int axis, int64_t before,
                               int64_t extent) {
    int64_t low[BTI_MAX_RANK] = {0}, high[BTI_MAX_RANK] = {0}, none[BTI_MAX_RANK] = {0};
    bti_type type = x.type;
    low[axis] = before;
    high[axis] = extent - before - type.shape[axis]; /* below 0: what is cut lies beyond the size */
    type.shape[axis] = extent;
    if (!low[axis] && !high[axis]) return x;
    bti_hlo_attribute_list(w, "edge_padding_low", low, type.rank);
    bti_hlo_attribute_list(w, "edge_padding_high", high, type.rank);
    bti_hlo_attribute_list(w, "interior_padding", none, type.rank);
    return bti_hlo_line(w, "pad", type, 2, (bti_hlo_value[]){x, fill});
}

static bti_hlo_value pad_axis(const bti_hlo_padded *p, bti_hlo_value x, bti_hlo_value fill, int axis) {
    bti_hlo *w = &p->s->w;
    const bti_value *from = value_of(p, 0), *to = value_of(p, 2);
    int64_t before = p->attr.pad.before[axis], extent = p->node.shape[axis];
    bool begins = p->begins >> axis & 1;
    if (!begins && from->shape[axis] == to->shape[axis] && x.type.shape[axis] == extent) return x;
    if (varies(p, 0, axis)) x = bti_hlo_masked(w, x, axis, axis_size(p, 0, axis), fill);
    if (!begins) return pad_fixed(w, x, fill, axis, before, extent);
    bti_type room = x.type;
    room.shape[axis] += extent;
    bti_hlo_value start = bti_hlo_give(p->s, BT_I32, (uint64_t)before);
    return bti_hlo_fit(w, bti_hlo_put(w, bti_hlo_splat(w, fill, room), x, axis, start), axis, extent);
}

static bti_hlo_value pad(bti_hlo_padded *p) {
    bti_hlo *w = &p->s->w;
    bti_hlo_value x = p->in[0], fill = p->in[1].type.rank ? bti_hlo_reshape(w, p->in[1], 0, NULL) : p->in[1];
    for (int a = 0; a < p->node.rank; a++) x = pad_axis(p, x, fill, a);
    return x;
}

/* Each is put behind those before it, over what lies beyond their sizes. */
static bti_hlo_value concat(bti_hlo_padded *p) {
    bti_hlo *w = &p->s->w;
    int axis = p->attr.axis.axis, count = p->step->input_count;
    int64_t extent = p->node.shape[axis], more = 0;
    uint32_t vary = 0;
    for (int i = 0; i < count; i++) {
        if (!varies(p, i, axis)) continue;
        vary = 1;
        if (i && p->in[i].type.shape[axis] > more) more = p->in[i].type.shape[axis];
    }
    if (!vary) return bti_hlo_padded_plain(p);
    bti_hlo_value all = bti_hlo_fit(w, p->in[0], axis, extent + more), start = axis_size(p, 0, axis);
    for (int i = 1; i < count; i++) {
        all = bti_hlo_put(w, all, p->in[i], axis, start);
        if (i + 1 < count) start = bti_hlo_binary(w, "add", start, axis_size(p, i, axis));
    }
    return bti_hlo_fit(w, all, axis, extent);
}

/* --- by index ---------------------------------------------------------------------------------------------------------- */

static bti_hlo_value beyond(bti_hlo *w, bt_dtype dtype, int64_t extent) {
    return bti_hlo_bits(w, bti_hlo_scalar(dtype), (uint64_t)extent);
}

/* Indices from the end become those from the beginning, and those out of range lie beyond what is padded. */
static void count_from_start(bti_hlo_padded *p, int axis) {
    bti_hlo *w = &p->s->w;
    bti_hlo_value index = p->in[1], zero = bti_hlo_number(w, index.type, 0);
    if (!varies(p, 0, axis)) return;
    bti_hlo_value size = bti_hlo_splat(w, bti_hlo_convert(w, axis_size(p, 0, axis), index.type.dtype), index.type);
    bti_hlo_value below = bti_hlo_compare(w, "LT", index, zero);
    index = bti_hlo_select(w, below, bti_hlo_binary(w, "add", index, size), index);
    bti_hlo_value inside =
        bti_hlo_binary(w, "and", bti_hlo_compare(w, "GE", index, zero), bti_hlo_compare(w, "LT", index, size));
    bti_hlo_value outside = bti_hlo_splat(w, beyond(w, index.type.dtype, p->in[0].type.shape[axis]), index.type);
    p->in[1] = bti_hlo_select(w, inside, index, outside);
}

static bti_hlo_value gather(bti_hlo_padded *p) {
    count_from_start(p, p->attr.axis.axis);
    return bti_hlo_padded_plain(p);
}

/* What lies beyond the indices goes nowhere. */
static bti_hlo_value scatter(bti_hlo_padded *p) {
    bti_hlo *w = &p->s->w;
    int axis = p->attr.axis.axis, along = p->node.op == BTI_OP_scatter_add ? 0 : axis;
    count_from_start(p, axis);
    if (varies(p, 1, along)) {
        bti_hlo_value nowhere = beyond(w, p->in[1].type.dtype, p->in[0].type.shape[axis]);
        p->in[1] = bti_hlo_masked(w, p->in[1], along, axis_size(p, 1, along), nowhere);
    }
    return bti_hlo_padded_plain(p);
}

static bti_hlo_value update_slice(bti_hlo_padded *p) {
    bti_hlo *w = &p->s->w;
    int axis = p->attr.axis.axis;
    bti_hlo_value x = p->in[0], rows = p->in[2];
    if (!varies(p, 0, axis) && !varies(p, 2, axis)) return bti_hlo_padded_plain(p);
    bti_hlo_value last = bti_hlo_binary(w, "subtract", axis_size(p, 0, axis), axis_size(p, 2, axis));
    bti_hlo_value start = bti_hlo_reshape(w, p->in[1], 0, NULL), zero = bti_hlo_number(w, start.type, 0);
    start = bti_hlo_binary(w, "minimum", start, bti_hlo_convert(w, last, start.type.dtype));
    start = bti_hlo_convert(w, bti_hlo_binary(w, "maximum", start, zero), BT_I32);
    if (!varies(p, 2, axis)) return bti_hlo_put(w, x, rows, axis, start);
    int64_t extent = x.type.shape[axis], count = rows.type.shape[axis];
    x = bti_hlo_fit(w, x, axis, extent + count);
    bti_hlo_value before = bti_hlo_part(w, x, axis, start, count);
    rows = select_below(w, rows, before, axis, axis_size(p, 2, axis));
    return bti_hlo_fit(w, bti_hlo_put(w, x, rows, axis, start), axis, extent);
}

/* An axis of one element is repeated. Another one has the size of the result's, though one of the two may vary alone: where once this axis was repeated, and once another. */
static bti_hlo_value expand(bti_hlo_padded *p) {
    for (int a = 0; a < p->node.rank; a++)
        if (p->in[0].type.shape[a] != 1) p->in[0] = bti_hlo_fit(&p->s->w, p->in[0], a, p->node.shape[a]);
    return bti_hlo_padded_plain(p);
}

bti_hlo_value bti_hlo_padded_move(bti_hlo_padded *p) {
    bti_hlo_value x = p->in[0];
    switch (p->node.op) {
    case BTI_OP_reshape: return reshape(p);
    case BTI_OP_slice:
        for (int a = 0; a < p->node.rank; a++) x = slice_axis(p, x, a);
        return x;
    case BTI_OP_pad: return pad(p);
    case BTI_OP_concat: return concat(p);
    case BTI_OP_take:
    case BTI_OP_gather_axis: return gather(p);
    case BTI_OP_update_slice: return update_slice(p);
    case BTI_OP_expand: return expand(p);
    case BTI_OP_permute: return bti_hlo_padded_plain(p);
    default: return scatter(p);
    }
}

/* Operations on arrays that are longer along some axes than their sizes say. What lies beyond a size is anything, and an operation that works element by element makes anything of it. One that combines elements
 * along such an axis is given there what changes nothing: 0 of sums and of both factors of products, as 0 times NaN is NaN. */
#include <math.h>

#include "ir/attention.h"
#include "ir/conv.h"
#include "ir/dtype.h"
#include "render/stablehlo/segment_writer.h"

static uint32_t axes_of(const bti_hlo_padded *p, int operand) { return bti_hlo_axes(p->s, p->step, operand); }

/* Beyond the sizes of these axes the operand is `fill`. */
static void mask(bti_hlo_padded *p, int operand, uint32_t axes, bti_hlo_value fill) {
    for (axes &= axes_of(p, operand); axes; axes &= axes - 1) {
        int axis = __builtin_ctz(axes);
        bti_hlo_value size = bti_hlo_size(p->s, p->step, operand, axis);
        p->in[operand] = bti_hlo_masked(&p->s->w, p->in[operand], axis, size, fill);
    }
}

static void mask_by_zero(bti_hlo_padded *p, int operand, int axis) {
    if (axes_of(p, operand) >> axis & 1)
        mask(p, operand, UINT32_C(1) << axis, bti_hlo_zero(&p->s->w, p->in[operand].type.dtype));
}

/* --- by kinds of operations --------------------------------------------------------------------------------------------- */

static bool is_as_long(const bti_hlo_padded *p) {
    for (int i = 0; i < p->step->input_count; i++)
        for (int a = 0; a < p->node.rank; a++)
            if (p->in[i].type.rank != p->node.rank || p->in[i].type.shape[a] != p->node.shape[a]) return false;
    return true;
}

static bti_hlo_value write_elementwise(bti_hlo_padded *p) {
    if (!is_as_long(p)) bti_hlo_padded_refuse(p);
    return bti_hlo_padded_plain(p);
}

static bti_hlo_value write_fold(bti_hlo_padded *p) {
    bool runs = bti_op_info((bti_op)p->node.op)->class == BTI_SCAN;
    uint32_t axes = runs ? UINT32_C(1) << p->attr.running.axis : p->attr.fold.axes;
    if (axes & axes_of(p, 0)) mask(p, 0, axes, bti_hlo_start(&p->s->w, (bti_op)p->node.op, p->in[0].type.dtype));
    return bti_hlo_padded_plain(p);
}

static bti_hlo_value write_product(bti_hlo_padded *p) {
    mask_by_zero(p, 0, p->in[0].type.rank - 1);
    mask_by_zero(p, 1, p->in[1].type.rank - 2);
    return bti_hlo_padded_plain(p);
}

/* Only the number of images may vary. */
static bti_hlo_value write_conv(bti_hlo_padded *p) {
    const bti_op op = (bti_op)p->node.op;
    for (int o = 0; o < 3; o++) {
        bti_conv_array array = o < 2 ? bti_conv_input(op, o) : bti_conv_made(op);
        if (axes_of(p, o) & (array == BTI_CONV_W ? UINT32_MAX : ~UINT32_C(1))) bti_hlo_padded_refuse(p);
    }
    for (int i = 0; i < 2 && op == BTI_OP_conv_weights; i++) mask_by_zero(p, i, 0);
    return bti_hlo_padded_plain(p);
}

static bti_hlo_value write_source(bti_hlo_padded *p) {
    if (p->node.op != BTI_OP_size) return bti_hlo_padded_plain(p);
    return bti_hlo_give(p->s, (bt_dtype)p->node.dtype, (uint64_t)p->attr.size.size);
}

/* What is beyond the size comes last, behind equal elements within. */
static void write_order(bti_hlo_padded *p) {
    bti_hlo *w = &p->s->w;
    bool descending = p->node.op == BTI_OP_top_k;
    int axis = bti_attr_axis((bti_op)p->node.op, &p->attr);
    bt_dtype dtype = p->in[0].type.dtype;
    if (axes_of(p, 0) >> axis & 1) {
        if (descending && axes_of(p, 1) >> axis & 1) bti_hlo_padded_refuse(p);
        bti_hlo_value last = !descending && bti_dtype_is_float(dtype)
                                 ? bti_hlo_number(w, bti_hlo_scalar(dtype), (double)NAN)
                                 : bti_hlo_start(w, descending ? BTI_OP_max : BTI_OP_min, dtype);
        mask(p, 0, UINT32_C(1) << axis, last);
    }
    bti_hlo_node(w, &p->node, p->in);
}

/* --- attention ---------------------------------------------------------------------------------------------------------- */

/* How many keys there are becomes the lengths, or bounds those that are given. */
static void bound_keys(bti_hlo_padded *p) {
    bti_hlo *w = &p->s->w;
    int count = p->step->input_count, at = count;
    for (int i = bti_attention_needed((bti_op)p->node.op); i < count; i++)
        if (p->in[i].type.dtype == BT_I32) at = i;
    bti_type type = {.dtype = BT_I32, .rank = 1, .shape = {p->in[BTI_ATTENTION_Q].type.shape[0]}};
    bti_hlo_value keys = bti_hlo_splat(w, bti_hlo_size(p->s, p->step, BTI_ATTENTION_K, 2), type);
    p->in[at] = at < count ? bti_hlo_binary(w, "minimum", p->in[at], keys) : keys;
    if (at == count) atomic_store(&p->node.input_count, count + 1);
}

/* A place that is counted from the last key is one from the first where there are as many keys as queries. */
static void count_from_first(bti_hlo_padded *p) {
    const bti_value *q = bti_plan_operand(p->s->plan, p->step, BTI_ATTENTION_Q),
                    *k = bti_plan_operand(p->s->plan, p->step, BTI_ATTENTION_K);
    bool has_lengths = false;
    for (int i = bti_attention_needed((bti_op)p->node.op); i < p->step->input_count; i++)
        has_lengths |= p->in[i].type.dtype == BT_I32;
    if (p->attr.attention.reads != BTI_READS_FROM_END) return;
    if (has_lengths || q->shape[2] != k->shape[2]) bti_hlo_padded_refuse(p);
    p->attr.attention.reads = BTI_READS_FROM_START;
}

static void write_attention(bti_hlo_padded *p) {
    const bool is_gradient = p->node.op == BTI_OP_attention_gradient;
    const int needed = bti_attention_needed((bti_op)p->node.op);
    const uint32_t heads_and_width = 1u << 1 | 1u << 3;
    uint32_t vary = 0;
    for (int i = 0; i < needed; i++) vary |= axes_of(p, i);
    if (vary & heads_and_width) bti_hlo_padded_refuse(p);
    if (axes_of(p, BTI_ATTENTION_Q) >> 2 & 1) count_from_first(p);
    mask_by_zero(p, BTI_ATTENTION_V, 2);
    for (int i = 0; i < p->step->input_count && is_gradient; i++) {
        bool adds = i >= needed && p->in[i].type.rank == 4 && p->in[i].type.dtype != BT_BOOL;
        if (i < needed || adds) mask_by_zero(p, i, 2);
    }
    if (axes_of(p, BTI_ATTENTION_K) >> 2 & 1) bound_keys(p);
    bti_hlo_node(&p->s->w, &p->node, p->in);
}

/* --- loops ---------------------------------------------------------------------------------------------------------------- */

/* Of rows whose number varies; what is carried, or read whole, has the same sizes each time, and so has all within. */
static void write_scan(bti_hlo_padded *p) {
    const int carried = p->attr.scan.carried, rows = carried + p->attr.scan.by_row, inputs = p->step->input_count;
    for (int o = 0; o < inputs + p->step->output_count; o++) {
        bool by_row = o < inputs ? o >= carried && o < rows : o - inputs >= carried;
        if (axes_of(p, o) & ~(uint32_t)by_row) bti_hlo_padded_refuse(p);
    }
    bti_hlo_value steps = bti_hlo_give(p->s, BT_I64, (uint64_t)p->attr.scan.length);
    const bti_value count = {.rank = 1, .shape = {p->attr.scan.length}};
    p->attr.scan.length = bti_hlo_padded_type(&count, 1).shape[0];
    p->s->w.steps = &steps;
    bti_hlo_node(&p->s->w, &p->node, p->in);
}

/* --- steps ---------------------------------------------------------------------------------------------------------------- */

static void write_values(bti_hlo_padded *p) {
    bti_hlo *w = &p->s->w;
    int64_t at = bti_number_of(&w->numbers, &p->node);
    for (int o = 0; o < p->step->output_count && at >= 0 && w->status == BT_OK; o++)
        bti_hlo_made_of(p->s, p->step, p->step->input_count + o)->value = w->values.items[at + o];
}

static bti_hlo_value write_value(bti_hlo_padded *p) {
    switch (bti_op_info((bti_op)p->node.op)->class) {
    case BTI_SOURCE: return write_source(p);
    case BTI_ELEMENTWISE: return write_elementwise(p);
    case BTI_EFFECT: return bti_hlo_padded_plain(p);
    case BTI_REDUCE:
    case BTI_SCAN: return write_fold(p);
    case BTI_MOVEMENT:
    case BTI_GATHER: return bti_hlo_padded_move(p);
    case BTI_HEAVY: return bti_op_is_conv((bti_op)p->node.op) ? write_conv(p) : write_product(p);
    default: bti_hlo_padded_refuse(p); return (bti_hlo_value){.type = bti_type_of(&p->node)};
    }
}

/* An output has the sizes of its first input of as many axes, where these are equal. */
static void inherit_sizes(const bti_hlo_padded *p, int output) {
    int o = p->step->input_count + output;
    const bti_value *to = bti_plan_operand(p->s->plan, p->step, o);
    for (int i = 0; i < p->step->input_count; i++) {
        const bti_value *from = bti_plan_operand(p->s->plan, p->step, i);
        for (int a = 0; a < to->rank && from->rank == to->rank; a++) {
            int *size = &bti_hlo_made_of(p->s, p->step, o)->sizes[a];
            if (!*size && from->shape[a] == to->shape[a] && (axes_of(p, i) & axes_of(p, o)) >> a & 1)
                *size = bti_hlo_made_of(p->s, p->step, i)->sizes[a];
        }
    }
}

void bti_hlo_padded_step(bti_hlo_segment *s, const bti_step *step, uint32_t begins, bti_hlo_value *in) {
    bti_hlo_padded p = {.s = s, .step = step, .begins = begins, .in = in};
    const bti_node *of = step->node;
    const bti_type type = bti_hlo_operand_type(s, step, step->input_count);
    p.node = (bti_node){.op = of->op,
                        .dtype = of->dtype,
                        .rank = (uint8_t)type.rank,
                        .place = of->place,
                        .tuple = of->tuple,
                        .host = of->host,
                        .inputs = of->inputs,
                        .attr = &p.attr};
    atomic_init(&p.node.input_count, step->input_count);
    memcpy(p.node.shape, type.shape, sizeof p.node.shape);
    if (of->attr) memcpy(&p.attr, of->attr, bti_attr_bytes((bti_op)of->op));
    if (bti_op_info((bti_op)of->op)->class == BTI_ORDER)
        write_order(&p);
    else if (bti_op_is_attention((bti_op)of->op))
        write_attention(&p);
    else if (of->op == BTI_OP_scan && begins)
        write_scan(&p);
    else {
        bti_hlo_value made = write_value(&p);
        bti_hlo_set(&s->w, &p.node, 1, &made);
    }
    write_values(&p);
    for (int o = 0; o < step->output_count; o++) inherit_sizes(&p, o);
}

/* The public call of attention, and recording. Arrays of any rank become [N, heads, L, depth]. */
#include "ops/attention.h"

#include <berth/attention.h>
#include <math.h>

#include "base/sized.h"

/* --- recording ------------------------------------------------------------------------------------------------------- */

bti_attention_inputs bti_attention_inputs_of(bti_op op, bt_array *const *inputs, int count) {
    bti_attention_inputs given = {.count = count, .mask_number = -1};
    for (int i = 0; i < count; i++) {
        given.all[i] = inputs[i];
        if (i < bti_attention_needed(op)) continue;
        if (bti_dtype(inputs[i]) == BT_I32)
            given.lengths = inputs[i];
        else
            given.mask = inputs[i], given.mask_number = i;
    }
    return given;
}

void bti_record_attention(bti_op op, const bti_attention_inputs *inputs, const bti_attr *attr,
                          bt_array *results[BTI_ATTENTION_RESULTS]) {
    int count = op == BTI_OP_attention ? 2 : 3;
    bt_array *poison = bti_poisoned_by(inputs->all, inputs->count);
    bti_type types[BTI_ATTENTION_RESULTS] = {{0}};
    bti_node *nodes[BTI_ATTENTION_INPUTS];
    bti_str why = {0};
    for (int i = 0; i < inputs->count && !poison; i++) nodes[i] = bti_node_of(inputs->all[i]);
    if (!poison) {
        types[0].dtype = bti_dtype(inputs->all[0]);
        if (!bti_op_shape(op, inputs->count, nodes, attr, &types[0], &why)) poison = bti_poison_why(&why);
    }
    for (int i = 0; i < count && poison; i++) results[i] = bti_poisoned_by(&poison, 1);
    if (poison) return;
    for (int i = 1; i < count; i++) types[i] = op == BTI_OP_attention ? types[0] : bti_type_of(nodes[i]);
    if (op == BTI_OP_attention) types[1].rank = 3;
    (void)bti_record_tuple(op, inputs->all, inputs->count, attr, types, count, NULL, 0,
                           results); /* else they are poisoned */
}

/* --- arguments ------------------------------------------------------------------------------------------------------- */

typedef struct call {
    bt_array *q, *k, *v;
    bt_attention_options options;
    int rank;
    int64_t batch, heads; /* batch: of all axes before the heads */
} call;

#define MEMBER(name) BTI_MEMBER(bt_attention_options, name)
static const bti_member attention_members[] = {MEMBER(size),  MEMBER(by_name), MEMBER(causal), MEMBER(from_end),
                                               MEMBER(scale), MEMBER(mask),    MEMBER(lengths)};
#undef MEMBER
static const bti_sized_type attention_layout =
    BTI_SIZED_TYPE(bt_attention_options, "options", "BT_ATTENTION(.causal = true)", attention_members, NULL);

static bt_array *refuse_attention(const call *c, const char *why) {
    return bti_poisonf(BT_INVALID_ARGUMENT, "q %s, k %s, v %s: %s", bti_shape_string(c->q).text,
                       bti_shape_string(c->k).text, bti_shape_string(c->v).text, why);
}

static const char *why_not_together(const call *c) {
    const int64_t *q = bti_shape(c->q), *k = bti_shape(c->k), *v = bti_shape(c->v);
    int rank = c->rank;
    if (rank < 2 || bti_rank(c->k) != rank || bti_rank(c->v) != rank)
        return "they need as many axes, two or more: [batch..., heads, length, depth]";
    for (int i = 0; i < rank - 3; i++)
        if (!bti_may_equal(q[i], k[i]) || !bti_may_equal(k[i], v[i])) return "the axes of the batch must be equal";
    if (!bti_may_equal(q[rank - 1], k[rank - 1])) return "q and k must have the same depth (the last axis)";
    if (!bti_may_equal(k[rank - 2], v[rank - 2])) return "k and v must have as many keys (the axis before the last)";
    if (bti_size_is_symbolic(q[rank - 1]) || bti_size_is_symbolic(v[rank - 1])) return "the last axes need known sizes";
    if (q[rank - 1] < 1) return "the depth must be 1 or more";
    if (rank == 2) return NULL;
    int64_t heads = q[rank - 3], shared = k[rank - 3];
    if (!bti_may_equal(shared, v[rank - 3])) return "k and v must have as many heads";
    if (heads == shared) return NULL;
    if (bti_size_is_symbolic(heads) || bti_size_is_symbolic(shared)) return "heads that share keys need known numbers";
    return shared && heads % shared == 0 ? NULL : "the heads of q must be a multiple of those of k and v";
}

/* Only scale times the scores is read of them. */
static const char *why_no_options(const call *c) {
    const bt_attention_options *o = &c->options;
    if (!isfinite(o->scale)) return "scale must be a finite number";
    if (o->from_end && !o->causal) return "from_end says where causal counts from; it needs causal";
    if (o->lengths && !bti_dtype_is_int(bti_dtype(o->lengths))) return "lengths must be integers";
    if (o->mask && bti_dtype(o->mask) != BT_BOOL && !bti_dtype_is_float(bti_dtype(o->mask)))
        return "the mask must be bool (true where a key is read) or floats (added to the scores)";
    if (o->mask && bti_rank(o->mask) > c->rank) return "the mask has more axes than [..., heads, L, keys]";
    if (o->lengths && bti_rank(o->lengths) > (c->rank > 3 ? c->rank - 3 : 0))
        return "lengths has more axes than the batch";
    return NULL;
}

/* [batch..., heads, L, D] -> [N, heads, L, D]. */
static bt_array *with_four_axes(const call *c, bt_array *x) {
    const int64_t *shape = bti_shape(x);
    int64_t heads = c->rank > 2 ? shape[c->rank - 3] : 1;
    return bti_reshape(x, 4, (int64_t[]){c->batch, heads, shape[c->rank - 2], shape[c->rank - 1]});
}

static bt_array *mask_of(const call *c, bt_dtype dtype) {
    int64_t shape[BTI_MAX_RANK];
    bt_array *mask = c->options.mask;
    if (bti_dtype(mask) != BT_BOOL) mask = bti_cast(mask, dtype);
    for (int i = 0; i < c->rank; i++) shape[i] = bti_shape(c->q)[i];
    shape[c->rank - 1] = bti_shape(c->k)[c->rank - 2];
    mask = bti_expand(mask, c->rank, shape);
    return bti_array_error(mask) ? mask : with_four_axes(c, mask);
}

static bt_array *lengths_of(const call *c) {
    bt_array *lengths =
        bti_expand(bti_cast(c->options.lengths, BT_I32), c->rank > 3 ? c->rank - 3 : 0, bti_shape(c->q));
    return bti_array_error(lengths) ? lengths : bti_reshape(lengths, 1, &c->batch);
}

static bt_array *attend(call *c) {
    bool weak;
    bt_dtype dtype = bti_meet((bt_array *[]){c->q, c->k, c->v}, 3, &weak);
    bt_array **given[] = {&c->q, &c->k, &c->v}, *results[BTI_ATTENTION_RESULTS];
    if (!bti_dtype_is_float(dtype)) return refuse_attention(c, "they must be floats");
    bti_attention_inputs inputs = {.count = 3, .mask_number = -1};
    c->batch = 1, c->rank = bti_rank(c->q);
    for (int i = 0; i < c->rank - 3; i++) c->batch = bti_size_mul(c->batch, bti_shape(c->q)[i]);
    for (int i = 0; i < 3; i++) {
        *given[i] = bti_widen(bti_cast(*given[i], dtype));
        if (bti_array_error(*given[i])) return *given[i];
    }
    for (int i = 0; i < 3; i++) inputs.all[i] = with_four_axes(c, *given[i]);
    if (c->options.lengths) inputs.all[inputs.count++] = lengths_of(c);
    if (c->options.mask) inputs.all[inputs.count++] = mask_of(c, bti_dtype(c->q));
    const bt_attention_options *o = &c->options;
    bti_attr attr = {.attention = {o->scale != 0 ? o->scale : 1 / sqrt((double)bti_shape(c->q)[c->rank - 1]),
                                   o->from_end ? BTI_READS_FROM_END
                                   : o->causal ? BTI_READS_FROM_START
                                               : BTI_READS_ALL}};
    bti_record_attention(BTI_OP_attention, &inputs, &attr, results);
    if (bti_array_error(results[0])) return results[0];
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i < c->rank; i++) shape[i] = bti_shape(c->q)[i];
    shape[c->rank - 1] = bti_shape(c->v)[c->rank - 1];
    bt_array *out = bti_reshape(results[0], c->rank, shape);
    return bti_array_error(out) ? out : bti_narrow(out, dtype);
}

bt_array *bt_attention(bt_array *q, bt_array *k, bt_array *v, const bt_attention_options *options) {
    BTI_PUBLIC("bt_attention");
    BTI_NEED(q, k, v);
    call c = {.q = q, .k = k, .v = v, .rank = bti_rank(q)};
    if (options && bti_options_take(&attention_layout, "bt_attention", options, &c.options) != BT_OK)
        BTI_RETURN(bti_poison(bti_error_last()));
    if (c.options.mask) BTI_NEED(c.options.mask);
    if (c.options.lengths) BTI_NEED(c.options.lengths);
    const char *why = why_not_together(&c);
    if (!why) why = why_no_options(&c);
    BTI_RETURN(why ? refuse_attention(&c, why) : attend(&c));
}

/* Gradients, tangents and batches of attention. The gradient is an operation of its own; what is derived from that, tangents and gradients of masks are composed of
 * products, with the weights of all queries and keys in memory. There heads that share keys are rows of one matrix: [N, H, L, D] is [N, H / g, g L, D]. */
#include <math.h>

#include "ops/application.h"
#include "ops/attention.h"

/* --- composed: the weights and what is made of them ------------------------------------------------------------------ */

/* One operation, its inputs and weights as matrices. */
typedef struct composed {
    bt_array *q, *k, *v, *slope; /* [N, H / g, rows, D]; slope: of out, NULL of `attention` */
    bt_array *weights;           /* [N, H / g, g L, S] */
    int64_t rows;                /* g L */
    double scale;
    bti_attention_inputs given;
} composed;

static bt_array *add(bt_array *x, bt_array *y) {
    if (!x || !y) return x ? x : y;
    return bti_binary(BTI_OP_add, x, y);
}
static bt_array *sub(bt_array *x, bt_array *y) { return bti_binary(BTI_OP_sub, x, y); }
static bt_array *mul(bt_array *x, bt_array *y) { return bti_binary(BTI_OP_mul, x, y); }
static bt_array *times(bt_array *x, bt_array *y) { return bt_matmul(x, y); }
static bt_array *times_t(bt_array *x, bt_array *y) { return bt_matmul_t(x, y, false, true); }
static bt_array *t_times(bt_array *x, bt_array *y) { return bt_matmul_t(x, y, true, false); }
static bt_array *scaled(const composed *c, bt_array *x) { return mul(x, bti_scalar(c->scale, bti_dtype(x))); }
/* Along the last axis, which stays. */
static bt_array *row_sum(bt_array *x) { return bti_reduce(BTI_OP_sum, x, UINT32_C(1) << 3); }

/* [N, H, L, E] -> [N, H / g, g L, E]; NULL stays. */
static bt_array *as_rows(const composed *c, bt_array *x) {
    if (!x || bti_array_error(x)) return x;
    const int64_t *shape = bti_shape(x), *key = bti_shape(c->given.all[BTI_ATTENTION_K]);
    return bti_reshape(x, 4, (int64_t[]){shape[0], key[1], c->rows, shape[3]});
}
/* The other way round. */
static bt_array *as_heads(const composed *c, bt_array *x) {
    const int64_t *query = bti_shape(c->given.all[BTI_ATTENTION_Q]);
    if (!x || bti_array_error(x)) return x;
    return bti_reshape(x, 4, (int64_t[]){query[0], query[1], query[2], bti_shape(x)[3]});
}

/* Which keys are read, as far as places say: bool, to be broadcast to [N, H, L, S]; NULL: all. */
static bt_array *reached(const composed *c, const bti_attr *attr) {
    bt_array *lengths = c->given.lengths, *zero = bti_scalar_bits(0, BT_I64);
    int64_t rows = bti_shape(c->given.all[BTI_ATTENTION_Q])[2], keys = bti_shape(c->given.all[BTI_ATTENTION_K])[2];
    if (!lengths && attr->attention.reads == BTI_READS_ALL) return NULL;
    bt_array *place = bti_iota(keys, BT_I64), *count = bti_size_scalar(keys, BT_I64), *query = bti_iota(rows, BT_I64);
    if (lengths) {
        count = bti_binary(BTI_OP_minimum, bti_cast(lengths, BT_I64), count);
        count = bti_binary(BTI_OP_maximum, count, zero);
        for (int i = 1; i < 4 && !bti_array_error(count); i++) count = bti_new_axis(count, i);
    }
    if (bti_array_error(query)) return query;
    query = bti_new_axis(query, 1);
    bt_array *inside = bti_binary(BTI_OP_lt, place, count);
    if (attr->attention.reads == BTI_READS_ALL) return inside;
    if (attr->attention.reads == BTI_READS_FROM_END) query = add(query, sub(count, bti_size_scalar(rows, BT_I64)));
    return bti_binary(BTI_OP_and, inside, bti_binary(BTI_OP_le, place, query));
}

/* Softmax of the scores; of a row that reads nothing, zeros. */
static bt_array *weights_of(const composed *c, const bti_attr *attr) {
    bt_array *scores = as_heads(c, scaled(c, times_t(c->q, c->k))), *inside = reached(c, attr);
    if (bti_array_error(scores)) return scores;
    bt_dtype dtype = bti_dtype(scores);
    bt_array *nothing = bti_scalar(-INFINITY, dtype), *zero = bti_scalar(0, dtype), *mask = c->given.mask;
    if (mask && bti_dtype(mask) != BT_BOOL) scores = add(scores, mask);
    if (mask && bti_dtype(mask) == BT_BOOL) scores = bti_where(mask, scores, nothing);
    if (inside) scores = bti_where(inside, scores, nothing);
    bt_array *top = bti_stop(bti_reduce_or_start(BTI_OP_max, scores, UINT32_C(1) << 3));
    top = bti_where(bti_binary(BTI_OP_eq, top, nothing), zero, top);
    bt_array *e = bti_unary(BTI_OP_exp, sub(scores, top)), *sum = row_sum(e);
    sum = bti_where(bti_binary(BTI_OP_eq, sum, zero), bti_scalar(1, dtype), sum);
    return as_rows(c, bti_binary(BTI_OP_div, e, sum));
}

static composed compose(bti_op op, bt_array *const *inputs, int count, const bti_attr *attr) {
    composed c = {.scale = attr->attention.scale, .given = bti_attention_inputs_of(op, inputs, count)};
    const int64_t *query = bti_shape(inputs[BTI_ATTENTION_Q]), *key = bti_shape(inputs[BTI_ATTENTION_K]);
    int64_t shared = query[1] == key[1] || !key[1] ? 1 : query[1] / key[1];
    c.rows = bti_size_mul(shared, query[2]);
    c.q = as_rows(&c, inputs[BTI_ATTENTION_Q]);
    c.k = inputs[BTI_ATTENTION_K], c.v = inputs[BTI_ATTENTION_V];
    if (op == BTI_OP_attention_gradient) c.slope = as_rows(&c, inputs[BTI_ATTENTION_SLOPE]);
    c.weights = weights_of(&c, attr);
    return c;
}

/* What softmax makes of a change of the scores: weights * (x - the row's mean of x by the weights). */
static bt_array *through_softmax(const composed *c, bt_array *x) {
    return mul(c->weights, sub(x, row_sum(mul(c->weights, x))));
}

/* What scores change by, for changes of q, k and the mask; NULL: by nothing. */
static bt_array *change_of_scores(const composed *c, bt_array *q, bt_array *k, bt_array *mask) {
    bt_array *products = q ? times_t(as_rows(c, q), c->k) : NULL;
    if (k) products = add(products, times_t(c->q, k));
    return add(products ? scaled(c, products) : NULL, as_rows(c, mask));
}

/* --- gradients ------------------------------------------------------------------------------------------------------- */

static bt_array *mask_gradient(bti_backward *b, bt_array *slope) {
    composed c = compose(BTI_OP_attention, b->x, b->count, b->attr);
    return as_heads(&c, through_softmax(&c, times_t(as_rows(&c, slope), c.v)));
}

/* Of the logarithms nothing is ever asked. */
void bti_gradient_attention(bti_backward *b) {
    bti_attention_inputs given = bti_attention_inputs_of(BTI_OP_attention, b->x, b->count), of = {.count = 6};
    bt_array *made[BTI_ATTENTION_RESULTS], *slope = b->results[0];
    if (!slope) return;
    if (given.mask && b->wanted[given.mask_number]) b->gx[given.mask_number] = mask_gradient(b, slope);
    if (!b->wanted[0] && !b->wanted[1] && !b->wanted[2]) return;
    bti_record_attention(BTI_OP_attention, &given, b->attr, made);
    for (int i = 0; i < 3; i++) of.all[i] = b->x[i];
    of.all[BTI_ATTENTION_OUT] = made[0], of.all[BTI_ATTENTION_LSE] = made[1], of.all[BTI_ATTENTION_SLOPE] = slope;
    for (int i = 3; i < b->count; i++) of.all[of.count++] = b->x[i];
    bti_record_attention(BTI_OP_attention_gradient, &of, b->attr, made);
    for (int i = 0; i < 3; i++)
        if (b->wanted[i]) b->gx[i] = made[i];
}

/* With weights P, slope g of out, and of the results the gradients a, b and c, what is differentiated is
 *     <P (p - <P, p>), w> + <P, u>   with p = g v^T, w = scale (a k^T + q b^T), u = g c^T
 * as a function of q, k, v, the mask and g. What attention made is made of these: nothing flows into it. */
void bti_gradient_attention_gradient(bti_backward *b) {
    composed c = compose(BTI_OP_attention_gradient, b->x, b->count, b->attr);
    bt_array *of_q = as_rows(&c, b->results[0]), *of_k = b->results[1], *of_v = b->results[2];
    bt_array *w = change_of_scores(&c, b->results[0], of_k, NULL), *through = w ? through_softmax(&c, w) : NULL;
    bt_array *p = times_t(c.slope, c.v), *by_weight = of_v ? times_t(c.slope, of_v) : NULL;
    if (w) {
        bt_array *below = sub(p, row_sum(mul(c.weights, p)));
        by_weight = add(by_weight, sub(mul(w, below), mul(p, row_sum(mul(c.weights, w)))));
    }
    if (!by_weight) return;
    bt_array *score = through_softmax(&c, by_weight), *direct = w ? through_softmax(&c, p) : NULL;
    bt_array *q = times(score, c.k), *k = t_times(score, c.q), *slope = NULL;
    if (of_k) q = add(q, times(direct, of_k));
    if (of_q) k = add(k, t_times(direct, of_q));
    if (through) slope = times(through, c.v);
    if (of_v) slope = add(slope, times(c.weights, of_v));
    b->gx[BTI_ATTENTION_Q] = as_heads(&c, scaled(&c, q));
    b->gx[BTI_ATTENTION_K] = scaled(&c, k);
    if (through) b->gx[BTI_ATTENTION_V] = t_times(through, c.slope);
    b->gx[BTI_ATTENTION_SLOPE] = as_heads(&c, slope);
    if (c.given.mask && b->wanted[c.given.mask_number]) b->gx[c.given.mask_number] = as_heads(&c, score);
}

/* --- tangents -------------------------------------------------------------------------------------------------------- */

static bt_array *mask_image(const bti_application *a, const composed *c) {
    return c->given.mask ? a->image[c->given.mask_number] : NULL;
}

/* The logarithm's is the mean of the scores' by the weights. */
void bti_tangent_attention(bti_application *a) {
    composed c = compose(BTI_OP_attention, a->x, a->count, a->node->attr);
    bt_array *const *t = a->image;
    bt_array *scores = change_of_scores(&c, t[0], t[1], mask_image(a, &c)), *out = NULL;
    if (scores) out = times(through_softmax(&c, scores), c.v);
    if (t[2]) out = add(out, times(c.weights, t[2]));
    if (a->known[0]) a->made[0] = as_heads(&c, out);
    if (a->known[1] && scores)
        a->made[1] = bti_drop_axes(as_heads(&c, row_sum(mul(c.weights, scores))), UINT32_C(1) << 3);
}

/* Of weights P and p = slope v^T: of v it is P^T slope, of the scores d = P (p - <P, p>), of q scale d k, of k scale d^T q. */
void bti_tangent_attention_gradient(bti_application *a) {
    composed c = compose(BTI_OP_attention_gradient, a->x, a->count, a->node->attr);
    bt_array *const *t = a->image, *of_slope = as_rows(&c, t[BTI_ATTENTION_SLOPE]);
    bt_array *scores = change_of_scores(&c, t[0], t[1], mask_image(a, &c)), *p = times_t(c.slope, c.v);
    bt_array *weights = scores ? through_softmax(&c, scores) : NULL, *of_p = of_slope ? times_t(of_slope, c.v) : NULL;
    if (t[2]) of_p = add(of_p, times_t(c.slope, t[2]));
    bt_array *d = through_softmax(&c, p), *change = NULL;
    if (weights) {
        bt_array *mean = row_sum(mul(c.weights, p));
        change = sub(mul(weights, sub(p, mean)), mul(c.weights, row_sum(mul(weights, p))));
    }
    if (of_p) change = add(change, through_softmax(&c, of_p));
    bt_array *q = change ? times(change, c.k) : NULL, *k = change ? t_times(change, c.q) : NULL;
    if (t[1]) q = add(q, times(d, t[1]));
    if (t[0]) k = add(k, t_times(d, as_rows(&c, t[0])));
    bt_array *v = weights ? t_times(weights, c.slope) : NULL;
    if (of_slope) v = add(v, t_times(c.weights, of_slope));
    if (a->known[0] && q) a->made[0] = as_heads(&c, scaled(&c, q));
    if (a->known[1] && k) a->made[1] = scaled(&c, k);
    if (a->known[2]) a->made[2] = v;
}

/* --- batches --------------------------------------------------------------------------------------------------------- */

/* [B, N, ...] -> [B N, ...] */
static bt_array *joined(bt_array *stack) {
    int64_t shape[BTI_MAX_RANK];
    if (bti_array_error(stack)) return stack;
    int rank = bti_rank(stack) - 1;
    for (int i = 0; i < rank; i++) shape[i] = bti_shape(stack)[i + 1];
    shape[0] = bti_size_mul(bti_shape(stack)[0], shape[0]);
    return bti_reshape(stack, rank, shape);
}

/* The other way round. */
static bt_array *parted(bt_array *joint, int64_t size, int64_t batch) {
    int64_t shape[BTI_MAX_RANK] = {size, batch};
    if (bti_array_error(joint)) return joint;
    int rank = bti_rank(joint);
    for (int i = 1; i < rank; i++) shape[i + 1] = bti_shape(joint)[i];
    return bti_reshape(joint, rank + 1, shape);
}

void bti_batch_attention(bti_application *a) {
    bti_op op = (bti_op)a->node->op;
    bt_array *stacks[BTI_ATTENTION_INPUTS], *made[BTI_ATTENTION_RESULTS];
    for (int i = 0; i < a->count; i++) stacks[i] = joined(bti_batched(a, i));
    bt_array *poison = bti_poisoned_by(stacks, a->count);
    bti_attention_inputs given = {.count = a->count};
    if (!poison) given = bti_attention_inputs_of(op, stacks, a->count);
    if (!poison) bti_record_attention(op, &given, a->node->attr, made);
    for (int i = 0; i < a->results; i++)
        if (a->known[i])
            a->made[i] = poison ? bti_poisoned_by(&poison, 1) : parted(made[i], a->size, bti_shape(a->x[0])[0]);
}

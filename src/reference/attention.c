#include "reference/attention.h"

#include <math.h>

#include "base/alloc.h"
#include "reference/classes.h"

bti_attention bti_attention_of(const bti_work *work) {
    int needed = bti_attention_needed(work->op);
    const bti_operand *q = &work->inputs[BTI_ATTENTION_Q], *k = &work->inputs[BTI_ATTENTION_K],
                      *v = &work->inputs[BTI_ATTENTION_V];
    bti_attention a = {.is_gradient = work->op == BTI_OP_attention_gradient,
                       .batch = q->shape[0],
                       .heads = q->shape[1],
                       .shared = k->shape[1] ? q->shape[1] / k->shape[1] : 1,
                       .rows = q->shape[2],
                       .keys = k->shape[2],
                       .depth = q->shape[3],
                       .value_depth = v->shape[3],
                       .scale = work->attr->attention.scale,
                       .reads = work->attr->attention.reads};
    for (int i = 0; i < needed; i++) a.in[i] = work->inputs[i];
    for (int i = needed; i < work->input_count; i++) {
        bool is_mask = work->inputs[i].dtype != BT_I32;
        *(is_mask ? &a.mask : &a.lengths) = work->inputs[i];
        *(is_mask ? &a.has_mask : &a.has_lengths) = true;
    }
    a.made[0] = work->output;
    for (int i = 0; i < work->other_count; i++) a.made[i + 1] = work->others[i];
    return a;
}

/* --- elements -------------------------------------------------------------------------------------------------------- */

static char *element(const bti_operand *x, int64_t n, int64_t h, int64_t i, int64_t d) {
    int64_t at = n * x->stride[0] + h * x->stride[1] + i * x->stride[2] + (x->rank > 3 ? d * x->stride[3] : 0);
    return bti_address(x) + at * (int64_t)bt_dtype_size(x->dtype);
}

static double real_at(const bti_operand *x, int64_t n, int64_t h, int64_t i, int64_t d) {
    const void *at = element(x, n, h, i, d);
    return x->dtype == BT_F32 ? (double)*(const float *)at : *(const double *)at;
}

static void store(const bti_operand *x, int64_t n, int64_t h, int64_t i, int64_t d, double value) {
    void *at = element(x, n, h, i, d);
    if (x->dtype == BT_F32)
        *(float *)at = (float)value;
    else
        *(double *)at = value;
}

/* A query: what it reads, and how much of it. */
typedef struct query {
    const bti_attention *a;
    int64_t n, h, of_key, i, reach;
} query;

static double product(const query *s, int x, int y, int64_t j, int64_t depth) {
    double sum = 0;
    for (int64_t d = 0; d < depth; d++)
        sum += real_at(&s->a->in[x], s->n, s->h, s->i, d) * real_at(&s->a->in[y], s->n, s->of_key, j, d);
    return sum;
}

/* -inf: it is not read. */
static double score(const query *s, int64_t j) {
    const bti_attention *a = s->a;
    double of = a->scale * product(s, BTI_ATTENTION_Q, BTI_ATTENTION_K, j, a->depth);
    if (!a->has_mask) return of;
    if (a->mask.dtype == BT_BOOL) return *element(&a->mask, s->n, s->h, s->i, j) ? of : -INFINITY;
    return of + real_at(&a->mask, s->n, s->h, s->i, j);
}

/* --- the two operations ---------------------------------------------------------------------------------------------- */

static void attend(const query *s, double *weights) {
    const bti_attention *a = s->a;
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < s->reach; j++) {
        weights[j] = score(s, j);
        if (weights[j] > top) top = weights[j];
    }
    if (top == -INFINITY) top = 0;
    for (int64_t j = 0; j < s->reach; j++) sum += weights[j] = exp(weights[j] - top);
    if (bti_operand_count(&a->made[1])) store(&a->made[1], s->n, s->h, s->i, 0, sum == 0 ? 0 : top + log(sum));
    for (int64_t d = 0; d < a->value_depth && bti_operand_count(&a->made[0]); d++) {
        double out = 0;
        for (int64_t j = 0; j < s->reach; j++)
            out += weights[j] * real_at(&a->in[BTI_ATTENTION_V], s->n, s->of_key, j, d);
        store(&a->made[0], s->n, s->h, s->i, d, sum == 0 ? 0 : out / sum);
    }
}

/* sums: [depth] of q, then [keys][depth] of k, then [keys][value_depth] of v. */
static void differentiate(const query *s, double *sums) {
    const bti_attention *a = s->a;
    double *of_k = sums + a->depth, *of_v = of_k + a->keys * a->depth, mean = 0;
    double lse = real_at(&a->in[BTI_ATTENTION_LSE], s->n, s->h, s->i, 0);
    for (int64_t d = 0; d < a->depth; d++) sums[d] = 0;
    for (int64_t d = 0; d < a->value_depth; d++)
        mean += real_at(&a->in[BTI_ATTENTION_SLOPE], s->n, s->h, s->i, d) *
                real_at(&a->in[BTI_ATTENTION_OUT], s->n, s->h, s->i, d);
    for (int64_t j = 0; j < s->reach; j++) {
        double weight = exp(score(s, j) - lse);
        double of_score = weight * (product(s, BTI_ATTENTION_SLOPE, BTI_ATTENTION_V, j, a->value_depth) - mean);
        for (int64_t d = 0; d < a->depth; d++) {
            sums[d] += a->scale * of_score * real_at(&a->in[BTI_ATTENTION_K], s->n, s->of_key, j, d);
            of_k[j * a->depth + d] += a->scale * of_score * real_at(&a->in[BTI_ATTENTION_Q], s->n, s->h, s->i, d);
        }
        for (int64_t d = 0; d < a->value_depth; d++)
            of_v[j * a->value_depth + d] += weight * real_at(&a->in[BTI_ATTENTION_SLOPE], s->n, s->h, s->i, d);
    }
    for (int64_t d = 0; d < a->depth && bti_operand_count(&a->made[0]); d++)
        store(&a->made[0], s->n, s->h, s->i, d, sums[d]);
}

/* The heads that share keys. */
static void visit_heads(const bti_attention *a, int64_t n, int64_t of_key, double *room) {
    int64_t length = bti_attention_length(a, n);
    for (int64_t j = 0; j < a->keys * (a->depth + a->value_depth) && a->is_gradient; j++) room[a->depth + j] = 0;
    for (int64_t h = of_key * a->shared; h < (of_key + 1) * a->shared; h++)
        for (int64_t i = 0; i < a->rows; i++) {
            query s = {a, n, h, of_key, i, bti_attention_reach(a, length, i)};
            a->is_gradient ? differentiate(&s, room) : attend(&s, room);
        }
    const double *of_k = room + a->depth, *of_v = of_k + a->keys * a->depth;
    for (int64_t j = 0; j < a->keys && a->is_gradient; j++) {
        for (int64_t d = 0; d < a->depth && bti_operand_count(&a->made[1]); d++)
            store(&a->made[1], n, of_key, j, d, of_k[j * a->depth + d]);
        for (int64_t d = 0; d < a->value_depth && bti_operand_count(&a->made[2]); d++)
            store(&a->made[2], n, of_key, j, d, of_v[j * a->value_depth + d]);
    }
}

bt_status bti_interpret_attention(const bti_work *work) {
    bti_attention a = bti_attention_of(work);
    int64_t room = a.is_gradient ? a.depth + a.keys * (a.depth + a.value_depth) : a.keys;
    double *sums = bti_alloc((size_t)(room + 1) * sizeof *sums);
    if (!sums) return bti_no_memory();
    for (int64_t n = 0; n < a.batch; n++)
        for (int64_t h = 0; h < a.in[BTI_ATTENTION_K].shape[1]; h++) visit_heads(&a, n, h, sums);
    bti_free(sums);
    return BT_OK;
}

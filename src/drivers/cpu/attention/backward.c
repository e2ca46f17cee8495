/* The gradients of q, k and v: for the heads that share keys, block of keys by block of keys, and of each all blocks of queries in their order. The weights are made again of
 * the scores and lse. A head's sums are all added by one thread. */
#include <math.h>

#include "base/compare.h"
#include "base/cores.h"
#include "drivers/cpu/attention/block.h"

enum { OF_Q, OF_K, OF_V };

/* A block of keys, and one of queries. */
typedef struct part {
    bti_attention_thread *t;
    int64_t n, h, of_key, length;
    int64_t from, rows, j, keys;
    double *lse, *mean;   /* by row of the block: mean: of what each key's value gives, by the weights */
    bool wants[3], begun; /* begun: there are sums of k and v */
} part;

static bti_matrix rows_at(const part *p, int input) {
    bool of_key = input == BTI_ATTENTION_K || input == BTI_ATTENTION_V;
    return bti_attention_rows(p->t->run, &p->t->run->a.in[input], p->n, of_key ? p->of_key : p->h,
                              of_key ? p->j : p->from);
}
static bti_matrix made_at(const part *p, int result) {
    return bti_attention_rows(p->t->run, &p->t->run->a.made[result], p->n, result == OF_Q ? p->h : p->of_key,
                              result == OF_Q ? p->from : p->j);
}

static void read_stats(const part *p) {
    const bti_attention_run *run = p->t->run;
    const bti_operand *lse = &run->a.in[BTI_ATTENTION_LSE];
    bti_matrix out = rows_at(p, BTI_ATTENTION_OUT), slope = rows_at(p, BTI_ATTENTION_SLOPE);
    for (int64_t i = 0; i < p->rows; i++) {
        const void *at = bti_address(lse) +
                         (p->n * lse->stride[0] + p->h * lse->stride[1] + (p->from + i) * lse->stride[2]) * run->size;
        p->lse[i] = run->dtype == BT_F32 ? (double)*(const float *)at : *(const double *)at;
        p->mean[i] = run->loops->dot(out.at + i * out.row, slope.at + i * slope.row, run->a.value_depth);
    }
}

/* Keys of the block that row i reads. */
static int64_t count_of(const part *p, int64_t i) {
    int64_t count = bti_attention_reach(&p->t->run->a, p->length, p->from + i) - p->j;
    return bti_smaller_of(bti_larger_of(count, 0), p->keys);
}

/* Scores become weights. */
static void weigh(const part *p) {
    const bti_attention_run *run = p->t->run;
    for (int64_t i = 0; i < p->rows; i++) {
        char *row = p->t->scores + i * run->line * run->size;
        int64_t count = count_of(p, i);
        double scale = bti_attention_mask_row(run, row, p->n, p->h, p->from + i, p->j, count);
        (void)run->loops->weigh(row, count, scale, p->lse[i]);
        memset(row + count * run->size, 0, (size_t)((p->keys - count) * run->size));
    }
}

/* What values give becomes the gradient of the products of q and k. */
static void slope_of_scores(const part *p) {
    const bti_attention_run *run = p->t->run;
    for (int64_t i = 0; i < p->rows; i++) {
        char *row = p->t->slopes + i * run->line * run->size, *weights = p->t->scores + i * run->line * run->size;
        int64_t count = count_of(p, i);
        run->loops->slope(row, weights, count, p->mean[i], run->a.scale);
        memset(row + count * run->size, 0, (size_t)((p->keys - count) * run->size));
    }
}

static void visit_queries(part *p) {
    bti_attention_thread *t = p->t;
    const bti_attention *a = &t->run->a;
    bti_matrix scores = bti_attention_scores(t->run, t->scores), slopes = bti_attention_scores(t->run, t->slopes);
    bti_matrix q = rows_at(p, BTI_ATTENTION_Q), k = rows_at(p, BTI_ATTENTION_K), v = rows_at(p, BTI_ATTENTION_V),
               slope = rows_at(p, BTI_ATTENTION_SLOPE);
    bti_attention_multiply(t, p->rows, p->keys, a->depth, q, bti_attention_turned(k), scores, false);
    weigh(p);
    if (p->wants[OF_V])
        bti_attention_multiply(t, p->keys, a->value_depth, p->rows, bti_attention_turned(scores), slope,
                               made_at(p, OF_V), p->begun);
    if (p->wants[OF_Q] || p->wants[OF_K]) {
        bti_attention_multiply(t, p->rows, p->keys, a->value_depth, slope, bti_attention_turned(v), slopes, false);
        slope_of_scores(p);
    }
    if (p->wants[OF_K])
        bti_attention_multiply(t, p->keys, a->depth, p->rows, bti_attention_turned(slopes), q, made_at(p, OF_K),
                               p->begun);
    if (p->wants[OF_Q]) bti_attention_multiply(t, p->rows, a->depth, p->keys, slopes, k, made_at(p, OF_Q), p->j > 0);
    p->begun = true;
}

/* A block of keys, for all queries of the heads that read it. */
static void visit_keys(part *p) {
    const bti_attention_run *run = p->t->run;
    const bti_attention *a = &run->a;
    p->begun = false;
    for (p->h = p->of_key * a->shared; p->h < (p->of_key + 1) * a->shared; p->h++)
        for (p->from = 0; p->from < a->rows; p->from += run->block_rows) {
            p->rows = bti_smaller_of(a->rows - p->from, run->block_rows);
            int64_t place = (p->h - p->of_key * a->shared) * a->rows + p->from;
            p->lse = p->t->stats + 2 * place, p->mean = p->lse + p->rows;
            int64_t reach = bti_attention_reach(a, p->length, p->from + p->rows - 1);
            if (p->j == 0) read_stats(p);
            if (p->j < reach)
                visit_queries(p);
            else if (p->j == 0 && p->wants[OF_Q])
                bti_attention_clear(run, &a->made[OF_Q], p->n, p->h, p->from, p->rows);
        }
    for (int result = OF_K; result <= OF_V && !p->begun; result++)
        if (p->wants[result]) bti_attention_clear(run, &a->made[result], p->n, p->of_key, p->j, p->keys);
}

static void differentiate_heads(void *context, int64_t begin, int64_t end) {
    bti_attention_run *run = context;
    const bti_attention *a = &run->a;
    int64_t heads = a->heads / a->shared;
    bti_attention_thread t;
    if (!bti_attention_begin(&t, run, 2 * a->rows * a->shared)) return;
    for (int64_t head = begin; head < end; head++) {
        part p = {.t = &t, .n = head / heads, .of_key = head % heads};
        p.length = bti_attention_length(a, p.n);
        for (int i = 0; i < 3; i++) p.wants[i] = bti_operand_count(&a->made[i]) > 0;
        do { /* once where there are no keys, for the zeros of q */
            p.keys = bti_smaller_of((p.j < p.length ? p.length : a->keys) - p.j, run->block_keys);
            visit_keys(&p);
        } while ((p.j += p.keys) < a->keys);
    }
    bti_attention_end(&t);
}

bt_status bti_attention_backward(bti_attention_run *run) {
    const bti_attention *a = &run->a;
    int64_t heads = a->shared ? a->heads / a->shared : 0;
    bti_parallel(a->batch * heads, bti_attention_grain(run, a->rows * a->shared), differentiate_heads, run);
    return (bt_status)atomic_load(&run->status);
}

/* out and lse: a block of queries goes through the keys in blocks. Of each row its greatest score so far, and the sum of the exponentials of what lies below that, are
 * known; where a block has a greater one, what was added up so far is made smaller. */
#include <math.h>

#include "base/compare.h"
#include "base/cores.h"
#include "drivers/cpu/attention/block.h"

/* A block of queries. */
typedef struct part {
    bti_attention_thread *t;
    int64_t n, h, from, rows, length;
    double *top, *sum; /* by row */
    bool wants_out;
} part;

static char *row_of(bti_matrix rows, int64_t i) { return rows.at + i * rows.row; }

/* exp(from - to), by the loop that all exponentials are computed with. */
static double exp_between(const bti_attention_run *run, double from, double to) {
    float f32 = (float)from;
    return run->dtype == BT_F32 ? run->loops->weigh(&f32, 1, 1, to) : run->loops->weigh(&from, 1, 1, to);
}

static double logarithm_of(const bti_attention_run *run, double x) {
    bool is_f32 = run->dtype == BT_F32;
    float f32 = (float)x;
    void *at = is_f32 ? (void *)&f32 : (void *)&x;
    bti_vector_code_of(run->target)
        ->elementwise[BTI_OP_log][is_f32 ? BTI_PLAIN_F32 : BTI_PLAIN_F64](1, 0, at, at, at, at, at);
    return is_f32 ? (double)f32 : x;
}

/* What the row's exponentials lie below; -inf: it reads nothing. */
static double top_of(const bti_attention_run *run, const char *row, int64_t count, double scale) {
    double top = run->loops->greatest(row, count);
    if (top == -INFINITY && run->loops->dot(row, row, count) != INFINITY && count)
        return 0; /* NaN: the sum will be, too */
    top *= scale;
    return run->dtype == BT_F32 ? (double)(float)top : top;
}

/* One row of a block of keys from j on, of which it reads `count`: scores become weights, the rest zeros. */
static void weigh_row(const part *p, int64_t i, int64_t j, int64_t count, int64_t keys, bti_matrix out) {
    const bti_attention_run *run = p->t->run;
    char *row = p->t->scores + i * run->line * run->size;
    double scale = bti_attention_mask_row(run, row, p->n, p->h, p->from + i, j, count);
    double top = top_of(run, row, count, scale);
    if (top < p->top[i]) top = p->top[i];
    if (top == -INFINITY) count = 0;
    double sum = count ? run->loops->weigh(row, count, scale, top) : 0;
    memset(row + count * run->size, 0, (size_t)((keys - count) * run->size));
    if (top > p->top[i] && p->sum[i] != 0) {
        double less = exp_between(run, p->top[i], top);
        p->sum[i] *= less;
        if (p->wants_out) run->loops->scale(row_of(out, i), run->a.value_depth, less);
    }
    p->sum[i] += sum;
    p->top[i] = top;
}

static void end_rows(const part *p, bti_matrix out) {
    const bti_attention_run *run = p->t->run;
    const bti_operand *lse = &run->a.made[1];
    for (int64_t i = 0; i < p->rows; i++) {
        double sum = p->sum[i], logarithm = sum == 0 ? 0 : p->top[i] + logarithm_of(run, sum);
        if (p->wants_out && sum == 0) bti_attention_clear(run, &run->a.made[0], p->n, p->h, p->from + i, 1);
        if (p->wants_out && sum != 0) run->loops->scale(row_of(out, i), run->a.value_depth, 1 / sum);
        if (!bti_operand_count(lse)) continue;
        char *at = bti_address(lse) +
                   (p->n * lse->stride[0] + p->h * lse->stride[1] + (p->from + i) * lse->stride[2]) * run->size;
        if (run->dtype == BT_F32)
            *(float *)(void *)at = (float)logarithm;
        else
            *(double *)(void *)at = logarithm;
    }
}

static void attend(part *p) {
    bti_attention_run *run = p->t->run;
    const bti_attention *a = &run->a;
    int64_t reach = bti_attention_reach(a, p->length, p->from + p->rows - 1), of_key = p->h / a->shared;
    bti_matrix q = bti_attention_rows(run, &a->in[BTI_ATTENTION_Q], p->n, p->h, p->from),
               scores = bti_attention_scores(run, p->t->scores), out = {0};
    if (p->wants_out) out = bti_attention_rows(run, &a->made[0], p->n, p->h, p->from);
    for (int64_t i = 0; i < p->rows; i++) p->top[i] = -INFINITY, p->sum[i] = 0;
    for (int64_t j = 0; j < reach; j += run->block_keys) {
        int64_t keys = bti_smaller_of(reach - j, run->block_keys);
        bti_matrix k = bti_attention_rows(run, &a->in[BTI_ATTENTION_K], p->n, of_key, j),
                   v = bti_attention_rows(run, &a->in[BTI_ATTENTION_V], p->n, of_key, j);
        bti_attention_multiply(p->t, p->rows, keys, a->depth, q, bti_attention_turned(k), scores, false);
        for (int64_t i = 0; i < p->rows; i++) {
            int64_t count = bti_attention_reach(a, p->length, p->from + i) - j;
            weigh_row(p, i, j, bti_smaller_of(bti_larger_of(count, 0), keys), keys, out);
        }
        if (p->wants_out) bti_attention_multiply(p->t, p->rows, a->value_depth, keys, scores, v, out, j > 0);
    }
    end_rows(p, out);
}

static void attend_blocks(void *context, int64_t begin, int64_t end) {
    bti_attention_run *run = context;
    const bti_attention *a = &run->a;
    int64_t blocks = (a->rows + run->block_rows - 1) / run->block_rows;
    bti_attention_thread t;
    if (!bti_attention_begin(&t, run, 2 * run->block_rows)) return;
    for (int64_t b = begin; b < end; b++) {
        int64_t head = b / blocks, from = (blocks - 1 - b % blocks) * run->block_rows; /* causal: the longest first */
        part p = {.t = &t, .n = head / a->heads, .h = head % a->heads, .from = from};
        p.rows = bti_smaller_of(a->rows - from, run->block_rows);
        p.length = bti_attention_length(a, p.n);
        p.top = t.stats, p.sum = t.stats + run->block_rows;
        p.wants_out = bti_operand_count(&a->made[0]) > 0;
        attend(&p);
    }
    bti_attention_end(&t);
}

bt_status bti_attention_forward(bti_attention_run *run) {
    const bti_attention *a = &run->a;
    int64_t blocks = a->rows ? (a->rows + run->block_rows - 1) / run->block_rows : 0;
    bti_parallel(a->batch * a->heads * blocks, bti_attention_grain(run, run->block_rows), attend_blocks, run);
    return (bt_status)atomic_load(&run->status);
}

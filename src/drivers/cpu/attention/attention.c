#include "drivers/cpu/attention/attention.h"

#include "base/alloc.h"
#include "drivers/cpu/attention/block.h"
#include "drivers/cpu/copy.h"
#include "ir/dtype.h"

enum { MADE = 3, READ = BTI_ATTENTION_SLOPE + 1 };

/* A single query's heads that share keys are rows of one matrix: keys are read once. */
static void join_heads(bti_operand *x, int64_t shared) {
    if (x->rank < 3 || !bti_operand_count(x)) return;
    x->shape[2] = shared, x->shape[1] /= shared;
    x->stride[2] = x->stride[1], x->stride[1] *= shared;
}

static void join_single_queries(bti_attention *a) {
    static const int of_queries[] = {BTI_ATTENTION_Q, BTI_ATTENTION_OUT, BTI_ATTENTION_LSE, BTI_ATTENTION_SLOPE};
    int64_t shared = a->shared;
    if (a->rows != 1 || shared == 1 || a->reads == BTI_READS_FROM_START) return;
    for (int i = 0; i < (a->is_gradient ? 4 : 1); i++) join_heads(&a->in[of_queries[i]], shared);
    join_heads(&a->made[0], shared);
    if (!a->is_gradient) join_heads(&a->made[1], shared);
    if (a->has_mask) join_heads(&a->mask, shared);
    a->heads /= shared, a->rows = shared, a->shared = 1, a->reads = BTI_READS_ALL;
}

/* Rows of contiguous elements that do not overlap; else a dense copy. */
static bt_status make_readable(bti_operand *x, bool keep, void **scratch) {
    bti_operand given = *x;
    if (x->rank != 4 || !bti_operand_count(x)) return BT_OK;
    if (x->shape[3] == 1) x->stride[3] = 1;
    if (x->stride[3] == 1 && (x->shape[2] == 1 || x->stride[2] >= x->shape[3])) return BT_OK;
    bti_operand_make_dense(x);
    *scratch = bti_alloc_aligned(64, (size_t)bti_operand_count(x) * bt_dtype_size(x->dtype));
    if (!*scratch) return bti_no_memory();
    x->address = (uint64_t)(uintptr_t)*scratch;
    if (keep) bti_cpu_copy(x, &given);
    return BT_OK;
}

bt_status bti_cpu_attention(const bti_work *work) {
    bti_attention_run run = {.a = bti_attention_of(work), .target = bti_cpu_target()};
    bti_attention *a = &run.a;
    join_single_queries(a);
    const bti_operand made[MADE] = {a->made[0], a->made[1], a->made[2]};
    void *scratch[READ + MADE] = {NULL};
    bt_status status = BT_OK;
    run.dtype = a->in[BTI_ATTENTION_Q].dtype, run.size = (int64_t)bt_dtype_size(run.dtype);
    run.loops = &bti_vector_code_of(run.target)->rows[run.dtype == BT_F64];
    for (int i = 0; i < READ && status == BT_OK; i++) status = make_readable(&a->in[i], true, &scratch[i]);
    for (int i = 0; i < MADE && status == BT_OK; i++) status = make_readable(&a->made[i], false, &scratch[READ + i]);
    bti_attention_cut(&run);
    if (status == BT_OK) status = a->is_gradient ? bti_attention_backward(&run) : bti_attention_forward(&run);
    if (status == BT_RESOURCE_EXHAUSTED) status = bti_fail(status, "attention: no memory for scratch");
    for (int i = 0; i < MADE && status == BT_OK; i++)
        if (scratch[READ + i]) bti_cpu_copy(&made[i], &a->made[i]);
    for (int i = 0; i < READ + MADE; i++) bti_free(scratch[i]);
    return status;
}

/* What work of attention (ir/attention.h) is about. */
#ifndef BTI_REFERENCE_ATTENTION_H
#define BTI_REFERENCE_ATTENTION_H

#include "ir/attention.h"
#include "reference/operand.h"

typedef struct bti_attention {
    bool is_gradient;
    int64_t batch, heads, shared, rows, keys, depth, value_depth; /* shared: heads that read the same keys */
    double scale;
    int64_t reads; /* bti_attr.attention */
    bti_operand in[BTI_ATTENTION_SLOPE + 1], lengths, mask;
    bool has_lengths, has_mask;
    bti_operand made[3]; /* out, lse; or the gradients of q, k, v. Without elements: nobody reads it */
} bti_attention;

bti_attention bti_attention_of(const bti_work *work);

/* How many keys are there for a batch. */
static inline int64_t bti_attention_length(const bti_attention *a, int64_t batch) {
    if (!a->has_lengths) return a->keys;
    int64_t length = ((const int32_t *)(const void *)bti_address(&a->lengths))[batch * a->lengths.stride[0]];
    return length < 0 ? 0 : length < a->keys ? length : a->keys;
}
/* How many of them query i reads: from the first on. */
static inline int64_t bti_attention_reach(const bti_attention *a, int64_t length, int64_t i) {
    int64_t reach = length;
    if (a->reads == BTI_READS_FROM_START) reach = i + 1;
    if (a->reads == BTI_READS_FROM_END) reach = length - a->rows + i + 1;
    return reach < 0 ? 0 : reach < length ? reach : length;
}

#endif

/* Attention: each query reads what keys that are like it hold.
 *
 *     out[n, h, i] = sum over j of exp(score[n, h, i, j] - lse[n, h, i]) * v[n, h / g, j]
 *     score[n, h, i, j] = scale * (q[n, h, i] . k[n, h / g, j]) + mask[n, h, i, j]
 *
 * q [N, H, L, D], k [N, H / g, S, D], v [N, H / g, S, Dv]; g heads share keys. lse [N, H, L] is the logarithm of the sum of the exponentials of all scores of a
 * query; 0 where it reads nothing, and out is 0 there. Query i reads the keys below bti_attention_reach (reference/attention.h). The operation `attention` makes
 * out and lse of q, k, v and what else is given; `attention_gradient` makes the gradients of q, k and v, of these, out, lse and the gradient of out.
 * Optional inputs come last, and are told apart by dtype: lengths (int32 [N]: so many keys are there), then mask (bool: whether to read; else added; [N, H, L, S]). */
#ifndef BTI_IR_ATTENTION_H
#define BTI_IR_ATTENTION_H

#include "ir/op.h"

enum { BTI_ATTENTION_Q, BTI_ATTENTION_K, BTI_ATTENTION_V, BTI_ATTENTION_OUT, BTI_ATTENTION_LSE, BTI_ATTENTION_SLOPE };
enum { BTI_ATTENTION_INPUTS = 8 }; /* at most */
enum { BTI_READS_ALL, BTI_READS_FROM_START, BTI_READS_FROM_END };

static inline bool bti_op_is_attention(bti_op op) { return op == BTI_OP_attention || op == BTI_OP_attention_gradient; }
/* Steps of several results, of which those that nobody reads have no elements: the first input tells how much there is to do. */
static inline bool bti_op_makes_several(bti_op op) {
    return bti_op_info(op)->class == BTI_ORDER || bti_op_is_attention(op);
}
/* How many inputs are always there. */
static inline int bti_attention_needed(bti_op op) { return op == BTI_OP_attention ? 3 : 6; }

#endif

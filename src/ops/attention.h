/* Attention (ir/attention.h): recording, and what its rules are made of. */
#ifndef BTI_OPS_ATTENTION_H
#define BTI_OPS_ATTENTION_H

#include "ir/attention.h"
#include "ops/primitive.h"

/* Inputs of a recorded operation. */
typedef struct bti_attention_inputs {
    bt_array *all[BTI_ATTENTION_INPUTS];
    int count;
    bt_array *lengths, *mask; /* of all; NULL: there are none */
    int mask_number;          /* -1: there is none */
} bti_attention_inputs;

bti_attention_inputs bti_attention_inputs_of(bti_op op, bt_array *const *inputs, int count);
/* Results of the operation; all are poisoned where one of the inputs is, or they do not fit. */
enum { BTI_ATTENTION_RESULTS = 3 };
void bti_record_attention(bti_op op, const bti_attention_inputs *inputs, const bti_attr *attr,
                          bt_array *results[BTI_ATTENTION_RESULTS]);

#endif

/* Recording again: the operations between some arrays and what was made of them are recorded once more, in the order of recording, each as
 * the rule of a transformation says. */
#ifndef BTI_TRANSFORM_RETRACE_H
#define BTI_TRANSFORM_RETRACE_H

#include "ops/application.h"

typedef struct bti_retrace {
    bt_array *const *leaves;
    bt_array *const *
        images; /* what stands for each of them; those of equal leaves, and of a leaf that is made of others, are added */
    int leaf_count;
    int64_t size;     /* given to the rules */
    bool of_gradient; /* what is recorded is logged as a gradient's */
    bool
        beside; /* what is recorded belongs to the checkpoint blocks of what it is recorded for; else to blocks of its own, which are alike */
    bool (*passes)(const bti_node *node);   /* else its history does not matter */
    bt_status (*apply)(bti_application *a); /* runs the rule */
    bti_transformer *transform;             /* given to the rules */
    bool forgot; /* out: an operation on the way, which does not pass, has forgotten how it was made */
} bti_retrace;

/* What stands for ys[i], as made[i], of the innermost scope; NULL where it does not depend on the leaves. Fails with what a rule
 * failed with: then nothing is made. */
bt_status bti_retrace_all(bti_retrace *retrace, bt_array *const *ys, int count, bt_array **made);

#endif

/* The body of a function, recorded with what a call puts in place of its inputs, its variables and its unknown sizes. */
#ifndef BTI_FUNCTION_BODY_H
#define BTI_FUNCTION_BODY_H

#include "function/function.h"
#include "base/vec.h"
#include "exec/exec.h"

/* One call that is recorded: what each node of the function stands for in it. */
typedef struct bti_body_call {
    const bt_function *function;
    BTI_VEC(int64_t) symbols;
    BTI_VEC(int64_t) sizes;
    BTI_VEC(bti_checkpoint *) blocks; /* of the body, borrowed, each followed by that of this call, retained */
    bti_node **stand_ins;             /* of inputs, then of the body; retained */
    size_t known;
    uint64_t sequence;  /* not 0: the node made for body[i] has this number + 2 * i ... */
    bti_node **results; /* ... and results[o], where not NULL, stands for the node of output o afterwards */
    bti_node **made;    /* which is noted here */
} bti_body_call;

/* In this order; each BT_OK or the caller's error. Whatever comes of it, end. */
bt_status bti_call_begin_recording(bti_body_call *call);
bt_status bti_call_bind(bti_body_call *call, int index, bti_node *argument);
void bti_call_set_values(bti_body_call *call, bti_node *const *values); /* of `read`, retained by the call */
bt_status bti_call_body(bti_body_call *call);
void bti_call_end_recording(bti_body_call *call);
/* The node's place in the body; -1: it is not there. */
int bti_body_place(const bt_function *function, const bti_node *node);
/* What stands for a node of the function: borrowed. */
bti_node *bti_call_stand_in(const bti_body_call *call, bti_node *node);
/* The argument as input `index` takes it: strong, and where the input is committed to. Maybe poisoned. */
bt_array *bti_call_argument(const bt_function *function, int index, bt_array *argument);

#endif

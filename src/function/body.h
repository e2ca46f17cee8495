/* What a function is inside, and how its calls are recorded and run: function.c makes it, call.c records it, prepared_plan.c and
 * prepared_call.c run what was planned before, origin.c records such a call after all. */
#ifndef BTI_FUNCTION_BODY_H
#define BTI_FUNCTION_BODY_H

#include <pthread.h>

#include "function/function.h"
#include "base/vec.h"
#include "exec/exec.h"

typedef struct bti_ready_call bti_ready_call;

struct bt_function {
    bti_owned head;
    int input_count, output_count, update_count;
    bti_node **inputs, **outputs; /* retained */
    bti_node **updates;           /* retained */
    bt_shared **updated;          /* retained; the variable of each update */
    BTI_VEC(bti_node *) body;     /* what each call records anew, inputs before users; retained */
    BTI_VEC(bti_node *) patterns; /* the same operations, in nodes that nobody computes, so that they forget nothing */
    BTI_VEC(bt_shared *) read;    /* variables that the body reads; retained */
    BTI_VEC(int) replicas;        /* which of theirs */
    BTI_VEC(int) places;          /* by output: where in the body it is made; -1: not there */
    pthread_mutex_t lock;         /* the list of ready calls */
    pthread_mutex_t making;       /* one is made ready at a time */
    bti_ready_call *ready;        /* the last used first */
};

/* One call that is recorded: what each node of the function stands for in it. */
typedef struct bti_call {
    const bt_function *function;
    BTI_VEC(int64_t) symbols;
    BTI_VEC(int64_t) sizes;
    bti_node **stand_ins; /* of inputs, then of the body; retained */
    size_t known;
    uint64_t sequence;  /* not 0: the node made for body[i] has this number + 2 * i ... */
    bti_node **results; /* ... and results[o], where not NULL, stands for the node of output o afterwards */
    bti_node **made;    /* which is noted here */
} bti_call;

/* In this order; each BT_OK or the caller's error. Whatever comes of it, end. */
bt_status bti_call_begin_recording(bti_call *call);
bt_status bti_call_bind(bti_call *call, int index, bti_node *argument);
void bti_call_set_values(bti_call *call, bti_node *const *values); /* of `read`, retained by the call */
bt_status bti_call_body(bti_call *call);
void bti_call_end_recording(bti_call *call);
/* What stands for a node of the function: borrowed. */
bti_node *bti_call_stand_in(const bti_call *call, bti_node *node);
/* The argument as input `index` takes it: strong, and where the input is committed to. Maybe poisoned. */
bt_array *bti_call_argument(const bt_function *function, int index, bt_array *argument);

/* What two nodes share that stand for the same thing: device, placement, place in the source. */
void bti_copy_marks(bti_node *to, const bti_node *from);

/* Calls with updates read the variables and set them as one: two at a time would lose one's updates. */
void bti_updates_lock(void);
void bti_updates_unlock(void);

/* --- prepared calls --- */

/* Runs the call by a plan made before, or made ready now. False: it must be recorded. */
bool bti_call_prepared(bt_function *function, bt_array *const *arguments, bt_array **outputs, bt_status *status);
/* Lets go of all ready calls. */
void bti_ready_calls_free(bt_function *function);

#endif

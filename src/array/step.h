/* Steps: shared variables that are set together succeed or fail together, with every later step whose values were computed from
 * theirs. A step is a gate: what is computed from a value of an unsettled step can be read once that step has succeeded. */
#ifndef BTI_ARRAY_STEP_H
#define BTI_ARRAY_STEP_H

#include "ir/node.h"

/* The lock over all steps, and over the versions of shared variables that they set. */
void bti_versions_lock(void);
void bti_versions_unlock(void);

/* Why a step failed after the call that set it had returned; shared by the steps that failed with it. */
typedef struct bti_set_failure {
    atomic_uint refs;
    bool logged, told; /* by a log line; by the status of a later set. Under the versions lock */
    bti_error *cause;
} bti_set_failure;
bti_set_failure *bti_set_failure_new(bti_error *cause); /* retains the cause; NULL when memory is short */
bti_set_failure *bti_set_failure_retain(bti_set_failure *failure);
void bti_set_failure_release(bti_set_failure *failure); /* NULL is fine */

/* What is set, until it is known to have succeeded: a node that may be pending, or the buffer of one that is done. */
typedef struct bti_set_member {
    bti_node *node;     /* retained */
    bti_buffer *buffer; /* retained */
} bti_set_member;

/* A step; or, without members, several steps that one result depends on. */
typedef struct bti_set_step {
    bti_gate gate;
    size_t bytes;
    bool all_planned;               /* no member's node is pending any more */
    int count, room;                /* of members */
    int good;                       /* so many of the first have succeeded and are released */
    int parent_count;               /* a step has at most one: a step, or several in one */
    bti_set_failure *failure;       /* when it failed behind the caller */
    uint64_t mark;                  /* from here on: scratch of one walk */
    int next;                       /* parent to look at */
    struct bti_set_step *back;      /* the step that the walk came from; while being freed: the next */
    struct bti_set_step *parents[]; /* retained; then the members */
} bti_set_step;

/* A step with room for `count` members and one parent; NULL when memory is short. */
bti_set_step *bti_set_step_alloc(int count);
bti_set_member *bti_set_step_members(bti_set_step *step);
/* It depends on the gate (NULL: nothing more); before any member is published. False when memory is short. */
bool bti_set_step_depend(bti_set_step *step, bti_gate *gate);
/* Whether it succeeded, as far as known now; NULL: BTI_GOOD. Under the versions lock. */
bti_outcome bti_set_step_outcome(bti_set_step *step);

/* Resolves it as far as known now. False when it depends on nothing that is not known; else a member to wait for, which the caller
 * drops. Under no lock. */
bool bti_set_step_open_member(bti_set_step *step, bti_set_member *member);
void bti_set_member_drop(bti_set_member *member);

#endif

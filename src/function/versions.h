/* Shared variables inside, and their values. Each replica has a stack of versions: the top is its value; older ones stay until a newer one
 * is known to have succeeded, so that a failed step can be taken back (array/step.h). */
#ifndef BTI_FUNCTION_VERSIONS_H
#define BTI_FUNCTION_VERSIONS_H

#include <berth/function.h>

#include "array/handle.h"
#include "array/step.h"
#include "base/vec.h"

typedef struct bti_version {
    bti_node *node;     /* retained */
    bti_node *value;    /* of op `value`, made when asked for; retained */
    bti_set_step *step; /* NULL: the first version */
} bti_version;

typedef struct bti_shared_replica {
    BTI_VEC(bti_version) versions;
    int device;
    bool committed;
} bti_shared_replica;

struct bt_shared {
    bti_owned head;
    bt_shared *previous, *next; /* all that live */
    int64_t number;             /* 0: not among them, a poisoned one */
    char *name;
    bti_place made;           /* by which call */
    bti_set_failure *failure; /* why a step was taken back, until the next set tells; retained */
    bt_dtype dtype;
    int rank;
    int64_t shape[BTI_MAX_RANK];
    atomic_bool frozen; /* optimisers pass it over */
    uint64_t updating;  /* a bit for each replica that a call is setting now (updating.h) */
    int replica_count;
    bti_shared_replica replicas[];
};

void bti_version_drop(bti_version *version); /* under the versions lock */
/* A node of the variable's own that stands for `node`, forgets it once done, and leaves it what it was to others; NULL when
 * memory is short. */
bti_node *bti_shared_alias(const bt_shared *shared, int index, bti_node *node, bti_op op, const bti_attr *attr);

/* --- values and sets ---------------------------------------------------------------------------------------------- */

/* The node of op `value` for a replica's value now (retained); NULL when memory is short. Under its own lock. */
bti_node *bti_shared_value(bt_shared *shared, int replica);
/* Those of several at one moment: a step that set some of them counts in all or in none. False when memory is short (what
 * there is of values[] is retained all the same, the rest NULL). */
bool bti_shared_values(bt_shared *const *shared, const int *replicas, size_t count, bti_node **values);
/* Sets replica replicas[i] of shared[i] to values[i] (which fits and is on its device): all or none, in one step. */
bt_status bti_shared_commit(bt_shared *const *shared, bti_node *const *values, const int *replicas, int count);
/* The same for results whose work is submitted already. new: NULL when memory is short. add: the value of replica replicas[i] of
 * shared[i], in the order in which commit lists them. commit takes the step over. throttle comes first: it reports a set that failed
 * (then nothing may be set), starts pending sets, and waits while unsettled versions have too many bytes (flag ahead_bytes). */
bti_set_step *bti_set_step_new(int count, bti_gate *gate); /* which counts only with that gate; borrowed, may be NULL */
bool bti_set_step_add(bti_set_step *step, const bt_shared *shared, int replica, bti_buffer *buffer,
                      const bti_layout *layout);
void bti_set_step_drop(bti_set_step *step);
bt_status bti_set_step_commit(bti_set_step *step, bt_shared *const *shared, const int *replicas);
bt_status bti_shared_throttle(bt_shared *const *shared, const int *replicas, int count);
/* Forgets the versions of the replica that a newer one is known to replace. Under the versions lock. */
void bti_shared_forget_replaced(bt_shared *shared, int replica);

#endif

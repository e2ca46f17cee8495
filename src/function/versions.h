/* What a shared variable is inside. Each replica has a stack of versions: the top is its value; older ones stay until a newer one
 * is known to have succeeded, so that a failed step can be taken back (array/step.h). */
#ifndef BTI_FUNCTION_VERSIONS_H
#define BTI_FUNCTION_VERSIONS_H

#include "function/shared.h"
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
    bti_place made; /* by which call */
    bti_loss *lost; /* why a step was taken back, until the next set tells; retained */
    bt_dtype dtype;
    int rank;
    int64_t shape[BTI_MAX_RANK];
    int replica_count;
    bti_shared_replica replicas[];
};

void bti_version_drop(bti_version *version); /* under the versions lock */
/* A node of the variable's own that stands for `node`, forgets it once done, and leaves it what it was to others; NULL when
 * memory is short. */
bti_node *bti_shared_alias(const bt_shared *shared, int index, bti_node *node, bti_op op, const int64_t *attr,
                           int attr_count);

#endif

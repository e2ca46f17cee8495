/* The walk from a result back to what it was made of. */
#ifndef BTI_GRAD_WALK_H
#define BTI_GRAD_WALK_H

#include "array/handle.h"

/* What a gradient is wanted of: a node, or every `value` node of a shared variable's replica. Equal targets have one entry. */
typedef struct bti_gradient_target {
    uint64_t id, replica; /* a node's address and 0; a variable's number and replica + 1 */
    uint64_t sequence;    /* what it depends on has smaller ones; 0: unknown */
    bt_array **onto;      /* as of bti_differentiator, of this one; NULL: there is none */
    bt_array *gradient;   /* out: one reference of the caller's (bt_release); NULL: zero */
    bool reached;         /* out */
    bti_node *cut; /* out, where it was not reached: what forgot how it was made and may depend on it; retained */
} bti_gradient_target;

/* The target of an array; of the variable that an array of op `value` reads. */
bti_gradient_target bti_target_of(const bti_node *node, bool shared);
int bti_compare_targets(const void *a, const void *b);

/* Gradients end at integers, at variables, at retained arrays (computed yet or not) and where told to stop. */
bool bti_passes_gradient(const bti_node *node);
/* Finds out which targets y depends on: fills in `reached` and `cut`. */
bt_status bti_find_targets(bt_array *y, bti_gradient_target *targets, int count);

/* Records the gradients of the ys (not poisoned) by the targets (sorted, no two equal), given the ones that flow into them, of their shapes and
 * dtypes. Errors: an operation without a gradient on the way; RESOURCE_EXHAUSTED. */
bt_status bti_walk_back(bt_array *const *ys, bt_array *const *cotangents, int y_count, bti_gradient_target *targets,
                        int count);

#endif

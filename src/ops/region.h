/* Cutting a region out of the recorded graph. */
#ifndef BTI_OPS_REGION_H
#define BTI_OPS_REGION_H

#include "array/handle.h"
#include "base/vec.h"
#include "ir/region.h"

/* The regions of a tuple as they are now: retained. What this thread records from then on has greater numbers than their nodes. */
void bti_regions_of(const bti_node *tuple, bti_region **regions);
/* A number that is smaller than those of all their nodes. */
uint64_t bti_regions_since(bti_region *const *regions, int count);

typedef BTI_VEC(bti_node *) bti_node_vec; /* retained */
void bti_node_vec_release(bti_node_vec *nodes);

/* What is to be cut out: the way from `given` to `outputs`. */
typedef struct bti_cutting {
    bti_node *const *given; /* no two equal */
    int given_count;
    bti_node *const *outputs;
    int output_count;
    uint64_t since; /* what has this number in the order of recording, or a smaller one, is outside */
    bool untold;    /* callbacks are not called in it: it computes again */
    bool whole; /* all that was recorded since is made inside; else what does not depend on what is given is captured */
} bti_cutting;

/* Adds what the outputs are made of beside what is given, from outside. Constants, views of such values, and what was made of a body's constants since, are made inside; so are
 * prints. */
bt_status bti_region_captures(const bti_cutting *cutting, bti_node_vec *captures);
/* The region, on a device. Its inputs stand for what is given, which includes all captures. */
bt_status bti_region_cut(const bti_cutting *cutting, int device, bti_region **region);
/* What outputs of a loop's body are as its results: the first `carried` as they are, the others as rows, of `length` steps. INVALID_ARGUMENT: one has no room for that
 * axis. */
bt_status bti_region_results(bti_node *const *outputs, int count, int carried, int64_t length, bti_type *types);
/* Records what the region does, of arrays in the place of its inputs; untold: without its callbacks. outputs[] are arrays of the innermost scope. */
bt_status bti_region_inline(const bti_region *region, bool untold, bt_array *const *inputs, bt_array **outputs);

#endif

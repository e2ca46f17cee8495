/* A micro-batch is recorded as a whole, loss and gradients, and cut into units afterwards. A stage is what the forward pass computes between two moves to another device,
 * and a unit is one stage of one micro-batch, forward or backward. A unit is evaluated by itself, in its turn, so what it leaves for others is freed with the
 * last unit that reads it. The last stage goes forward and backward in one unit. */
#ifndef BTI_DIST_PIPELINE_UNITS_H
#define BTI_DIST_PIPELINE_UNITS_H

#include "array/handle.h"
#include "base/vec.h"

typedef BTI_VEC(bti_node *) bti_unit; /* what it computes for others; retained */

/* The units of a micro-batch: its stages forward, and backward. */
typedef struct bti_micro_units {
    int stages;      /* there are 2 * stages - 1 units */
    bti_unit *units; /* NULL: not recorded yet */
} bti_micro_units;

/* What was recorded of a micro-batch. */
typedef struct bti_micro_batch {
    bti_recorded begun, turned; /* before the forward pass, before the backward pass */
    const bti_node *input;      /* its rows of x */
    bt_array *const *results;   /* what is wanted of it */
    int result_count;
} bti_micro_batch;

/* Cuts it into so many stages, 0: into as many as there are. What the units leave forgets how it was made. */
bt_status bti_units_cut(const bti_micro_batch *recorded, int stages, bti_micro_units *units);
void bti_units_free(bti_micro_units *units);

#endif

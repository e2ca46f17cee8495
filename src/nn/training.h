/* What a training step says to the layers whose forward pass it records, and what they hand to it. All of it is of the thread. */
#ifndef BTI_NN_TRAINING_H
#define BTI_NN_TRAINING_H

#include "base/vec.h"
#include "nn/layer.h"

/* States that were set, instead of being set: each once, with its last value. {0}: none yet. */
typedef struct bti_states {
    BTI_VEC(bt_shared *) shared; /* retained */
    BTI_VEC(bti_node *) values;  /* retained, each of its variable's dtype and shape */
    bti_error
        *error; /* retained; of the first that could not be set, whether or not the layer looked; NULL: all were */
} bti_states;
/* Sets of states go there from now on; NULL: they are set. Returns what held before. */
bti_states *bti_states_collect(bti_states *states);
bool bti_states_are_collected(void);
void bti_states_free(bti_states *states);

/* Means over a batch that is computed in parts, which other parts than this one go into: where the forward pass of a part needs one, an input stands for it. */
typedef struct bti_means {
    BTI_VEC(bti_node *) own;    /* retained; of this part, times its weight, in the order of calls */
    BTI_VEC(bti_node *) inputs; /* retained; the inputs that stand for the sums over all parts */
} bti_means;
void bti_means_free(bti_means *means);

/* The part of a batch whose forward pass this thread records. */
typedef struct bti_batch_part {
    int64_t first_row, rows, all_rows;
    bti_means *means; /* NULL: the part is the whole batch */
} bti_batch_part;
/* NULL: none. Returns the one before. */
const bti_batch_part *bti_part_set(const bti_batch_part *part);
const bti_batch_part *bti_part_now(void);

#endif

/* A training step while it is recorded, and the shards of its batch. */
#ifndef BTI_DIST_BATCH_H
#define BTI_DIST_BATCH_H

#include "dist/strategy.h"
#include "nn/training.h"

/* A part of the batch. Its arrays belong to the step's scope. */
typedef struct bti_batch_shard {
    int replica;
    int64_t first_row, rows;
    bt_array *loss; /* weighted */
    bti_states states;
    bti_means means;
    BTI_VEC(bt_array *) cotangents;     /* inputs that stand for the gradients of the whole loss by each mean */
    BTI_VEC(bt_array *) own_cotangents; /* this part's of these */
} bti_batch_shard;

typedef struct bti_train {
    bt_strategy *strategy; /* NULL: one device */
    bt_layer *model;
    bt_optimizer *optimizer;
    bt_model_loss *loss;
    void *data;
    bt_shared **parameters;
    int parameter_count;
    int shard_count; /* number of parts of the batch that have rows */
    bti_batch_shard *shards;
    int shard_room;   /* shards that there is room for */
    int64_t rows;     /* of the batch */
    bt_array **grads; /* [parameter][shard], weighted */
    bool hooks;       /* layers look at gradients */
    bool *flows;      /* by parameter; NULL: the optimiser's gradients have been looked at */
} bti_train;

/* sums.c */
bt_status bti_check_arrays(bt_array *const *arrays, int count);
const char *bti_replica_name(const bti_train *s, int replica);
/* The sum of the shards' parts, on the first replica; on each of them. */
bt_array *bti_sum_parts(const bti_train *s, bt_array **parts);
void bti_sum_everywhere(const bti_train *s, bt_array **parts, bt_array **sums);

/* part.c: the loss of a part's rows, scaled by their share of the batch; the part's states and means are filled in. The device of the model's output, given x.
 * Rows of a batch, where it lies. */
bt_array *bti_record_loss(bti_train *s, bti_batch_shard *own, bt_array *x, bt_array *y, double weight);
int bti_output_device(const bti_train *s, bti_layer_ends ends, bt_array *x);
bt_array *bti_rows_of(bt_array *batch, int64_t first, int64_t count);

/* states.c: the value that was set, borrowed; NULL: none was. The error of a state that only some parts set. */
bti_node *bti_states_find(const bti_states *states, const bt_shared *state);
bt_status bti_fail_unset_state(const bt_shared *state);
/* Sets what the layers set, combined over the shards, on all replicas; the sets are waiting to be committed with the step's. */
bt_status bti_set_states(const bti_train *s);
/* means.c: grads[] gets the gradients of the loss (the shard's, scaled) by the parameters, and by its means, which are kept; flows
 * (or NULL): as of bti_grad_both. */
bt_status bti_grad_through_means(const bti_train *s, bti_batch_shard *shard, bt_array *loss, bt_array **grads,
                                 bool *flows);
/* Records again what depends on means over all shards, with the means in place. */
bt_status bti_put_means_in_place(bti_train *s);

#endif

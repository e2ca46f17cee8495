/* A batch in parts while a step is recorded: which rows each has, what was recorded for it. */
#ifndef BTI_DIST_BATCH_H
#define BTI_DIST_BATCH_H

#include "dist/strategy.h"
#include "nn/training.h"

/* A part of the batch. Its arrays belong to the step's scope. */
typedef struct bti_batch_shard {
    bt_part part;
    bti_states states;
    bti_means means;
    /* Of each mean and each call of bt_part_gradients: an input that stands for the gradient of the whole loss by the mean, and this part's of these. */
    BTI_VEC(bti_node *) cotangents;     /* retained */
    BTI_VEC(bti_node *) own_cotangents; /* retained */
    BTI_VEC(int) cotangent_means;       /* the number of the mean */
} bti_batch_shard;

/* Its share of the whole batch. */
static inline double bti_part_weight(const bt_part *part) { return (double)part->rows / (double)part->all_rows; }

struct bt_parts {
    bti_owned head;        /* of those that are handed out */
    const char *call;      /* the public function, for errors */
    bt_strategy *strategy; /* NULL: one part, one device */
    int shard_count;       /* number of parts that have rows */
    bti_batch_shard *shards;
    int64_t rows;
    bt_array **values; /* [output][shard] */
    int outputs;
    bool has_set_states; /* an update has */
};

/* Records what fn makes of each part of the inputs' rows, in training; means over the whole batch are in place afterwards. With strategy NULL the one part
 * has all rows, as they are. To be ended in any case. */
bt_status bti_parts_run(bt_parts *parts, bt_part_fn *fn, void *data, bt_array *const *inputs, int input_count);
void bti_parts_end(bt_parts *parts);
/* What an output is of the whole batch: lazy, on the first replica. */
bt_array *bti_parts_reduce(const bt_parts *parts, int output, bt_reduction how);

/* Outputs first_output... are gradients by the parameters: one update with their sums, the states that layers set beside it, all or nothing. hooked: the model whose
 * layers look at gradients; NULL: none do. */
bt_status bti_parts_update(bt_parts *parts, bt_optimizer *optimizer, bt_shared *const *parameters, int count,
                           int first_output, bt_layer *hooked);

/* sums.c */
bt_status bti_check_arrays(bt_array *const *arrays, int count);
const char *bti_replica_name(const bt_parts *parts, int replica);
/* The sum of the shards' parts, on a replica; on each of them. */
bt_array *bti_sum_parts(const bt_parts *b, bt_array *const *parts, int replica);
void bti_sum_everywhere(const bt_parts *b, bt_array *const *parts, bt_array **sums);
/* The sums of several outputs from `first` on. owners[i]: the replica where sum i is wanted, written to sums[i]; NULL: all of them, sums[i * replicas + replica]. */
bt_status bti_sum_outputs(const bt_parts *parts, int first, int count, const int *owners, bt_array **sums);

/* parts.c: calls fn for a part, given its rows; what it makes is in values[]. */
bt_status bti_parts_call(bt_parts *parts, int number, bt_part_fn *fn, void *data, bt_array *const *inputs);
/* Room for the shards of a batch, and for what is made of them; with strategy NULL one that has all rows. */
bt_status bti_parts_begin(bt_parts *parts, int64_t rows);
/* bt_part_gradients; flows (or NULL): as of bti_grad_both. */
bt_status bti_part_gradients(bt_array *loss, bt_shared *const *parameters, int count, bt_array **grads, bool *flows);
/* Rows of a batch, where it lies. */
bt_array *bti_rows_of(bt_array *batch, int64_t first, int64_t count);

/* states.c: the value that was set, borrowed; NULL: none was. The error of a state that only some parts set. */
bti_node *bti_states_find(const bti_states *states, const bt_shared *state);
bt_status bti_fail_unset_state(const bt_parts *parts, const bt_shared *state);
/* Sets what the layers set, combined over the shards, on all replicas; the sets are waiting to be committed with the step's. */
bt_status bti_set_states(const bt_parts *parts);
/* means.c: grads[] gets the gradients of the loss (the shard's, weighted) by the parameters; those by its means are kept. flows (or NULL): as of bti_grad_both. */
bt_status bti_grad_through_means(bti_batch_shard *shard, bt_array *loss, bt_shared *const *parameters, int count,
                                 bt_array **grads, bool *flows);
/* Records again what depends on means over all shards, with the means in place. */
bt_status bti_put_means_in_place(bt_parts *parts);

#endif

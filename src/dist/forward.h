/* A training step while it is recorded: what it trains, and the forward pass. */
#ifndef BTI_DIST_FORWARD_H
#define BTI_DIST_FORWARD_H

#include "dist/batch.h"

typedef struct bti_train {
    bt_layer *model;
    bt_optimizer *optimizer;
    bt_model_loss *loss;
    void *data;
    bt_shared **parameters; /* that the step updates */
    int parameter_count;
    bool *flows; /* by parameter; NULL: the optimiser's gradients have been looked at */
} bti_train;

/* The device of the model's output, given x. */
int bti_output_device(const bti_train *s, bti_layer_ends ends, bt_array *x);
/* The mean loss of a part's rows, in its block. Never NULL. */
bt_array *bti_record_loss(const bti_train *s, bt_array *x, bt_array *y);

#endif

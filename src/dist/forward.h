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
/* In a part's block: the mean loss of its rows, never NULL; the gradients of its share of the whole one, of which the first part looks whether they come to all
 * parameters. */
bt_array *bti_record_loss(const bti_train *s, bt_array *x, bt_array *y);
bt_status bti_record_gradients(const bti_train *s, const bt_part *part, bt_array *loss, bt_array **grads);

#endif

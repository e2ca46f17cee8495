/* Training steps whose completion is known, whatever device fails: a count and the sum of losses, in the host's memory, are set with the parameters. */
#ifndef BTI_DIST_COUNTED_H
#define BTI_DIST_COUNTED_H

#include <berth/dist.h>

typedef struct bti_counted {
    bt_shared *count, *sum; /* retained; NULL before the first step */
} bti_counted;

typedef struct bti_counted_call {
    bt_strategy *strategy;
    bt_layer *model;
    bt_optimizer *optimizer;
    bt_model_loss *loss;
    void *data;
    bt_array *x, *y;
    int64_t number; /* of the step, from 1 */
} bti_counted_call;

/* One step; its work is submitted with that of *sum. *loss: as bt_train_step gives it. *sum (retained; NULL: 0) becomes *sum + rows of x * *loss, in the host's memory. */
bt_status bti_counted_step(bti_counted *counted, const bti_counted_call *call, bt_array **loss, bt_array **sum);
/* Waits for the steps that were recorded. *done: the number of the last one that completed with all before it (0: none), *sum (retained): the sum then. What failed is not reported. */
bt_status bti_counted_settle(bti_counted *counted, int64_t *done, bt_array **sum);
void bti_counted_end(bti_counted *counted);

#endif

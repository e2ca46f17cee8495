/* berth/train.h: the training loop. */
#ifndef BERTH_TRAIN_H
#define BERTH_TRAIN_H

#include <berth/dist.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What bt_fit does; zero means the default in brackets. Made by `BT_FIT_OPTIONS(.epochs = 5)`, or in a variable:
 * `bt_fit_options options = {BT_FIT_INIT, .epochs = 5};`. */
typedef struct bt_fit_options {
    size_t size BTI_INITIALLY(sizeof(bt_fit_options)); /* set by the macros */
    int epochs BTI_INITIALLY(0);                       /* [1] */
    int64_t batch BTI_INITIALLY(0);                    /* rows per step [32]; the last one of an epoch may be smaller */
    bt_strategy *strategy BTI_INITIALLY(NULL);         /* [one device] */
    bt_model_loss *loss BTI_INITIALLY(NULL);           /* [bt_cross_entropy of the logits] */
    void *loss_data BTI_INITIALLY(NULL);
    uint64_t seed BTI_INITIALLY(0); /* rows are shuffled each epoch by key(seed) folded with the
                                                          epoch, unless in_order */
    bool in_order BTI_INITIALLY(false);
    bool quiet BTI_INITIALLY(false); /* no progress bar; there is none either when standard error is not a terminal */
} bt_fit_options;
#define BT_FIT_INIT .size = sizeof(bt_fit_options)
#define BT_FIT_OPTIONS(...) \
    BTI_ADDRESS(bt_fit_options, BTI_OVERRIDING(BTI_LITERAL(bt_fit_options){BTI_SIZE_OF(bt_fit_options) __VA_ARGS__}))

typedef struct bt_fit_report {
    int64_t steps;
    double first_loss, last_loss; /* means over the first and the last epoch */
    double seconds;
} bt_fit_report;

/* Trains on rows of x [N, ...] and y [N, ...], where the model is: each batch is taken where x and y are and moved to it, as
 * bt_train_step does. The progress bar (steps, loss, rate, time left) goes to standard error. Blocks until done. `options`
 * NULL: the defaults. `report` may be NULL. */
BT_API BT_MUST_USE bt_status bt_fit(bt_layer *model, bt_optimizer *optimizer, bt_array *x, bt_array *y,
                                    const bt_fit_options *options, bt_fit_report *report);
#define bt_fit(...) BTI_AT_MUST(bt_fit(__VA_ARGS__))

/* The part of rows whose greatest logit is at the class y [N] (integers), worked out where the model is. Blocks; NaN with the cause in the error record. */
BT_API double bt_accuracy(bt_layer *model, bt_array *x, bt_array *y);
#define bt_accuracy(...) BTI_AT_DOUBLE(bt_accuracy(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif

/* berth/train.h: the training loop. */
#ifndef BERTH_TRAIN_H
#define BERTH_TRAIN_H

#include <berth/data.h>
#include <berth/dist.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Options of bt_fit; 0 or NULL means the default in brackets. Made by `BT_FIT_OPTIONS(.epochs = 5)`, or in a variable:
 * `bt_fit_options options = {BT_FIT_INIT, .epochs = 5};`. */
typedef struct bt_fit_options {
    size_t size BTI_INITIALLY(sizeof(bt_fit_options)); /* set by the macros */
    int epochs BTI_INITIALLY(0);                       /* [1] */
    int64_t batch BTI_INITIALLY(0);                    /* rows per step [32]; the last one of an epoch may be smaller */
    bt_strategy *strategy BTI_INITIALLY(NULL);         /* [one device] */
    bt_model_loss *loss BTI_INITIALLY(NULL);           /* [bt_cross_entropy of the logits] */
    void *loss_data BTI_INITIALLY(NULL);
    uint64_t
        seed BTI_INITIALLY(0); /* each epoch shuffles the rows with bt_fold_in(bt_key(seed), epoch), unless in_order */
    bool in_order BTI_INITIALLY(false);
    bool quiet BTI_INITIALLY(false); /* no progress bar; also when standard error is no terminal */
} bt_fit_options;
#define BT_FIT_INIT .size = sizeof(bt_fit_options)
#define BT_FIT_OPTIONS(...) \
    BTI_ADDRESS(bt_fit_options, BTI_OVERRIDING(BTI_LITERAL(bt_fit_options){BTI_SIZE_OF(bt_fit_options) __VA_ARGS__}))

typedef struct bt_fit_report {
    int64_t steps;
    double first_loss, last_loss; /* means over the first and the last epoch */
    double seconds;
} bt_fit_report;

/* Trains on the rows of x [N, ...] and y [N, ...], on the devices of the model: each batch is cut where x and y are and
 * moved to the model, as bt_train_step does. A progress bar (steps, loss, rate, time left) is written to standard
 * error. Blocks until training is done. `options` may be NULL (the defaults), `report` may be NULL. */
BT_API BT_MUST_USE bt_status bt_fit(bt_layer *model, bt_optimizer *optimizer, bt_array *x, bt_array *y,
                                    const bt_fit_options *options, bt_fit_report *report);
#define bt_fit(...) BTI_AT_MUST(bt_fit(__VA_ARGS__))

/* The same on the batches of a loader of two columns, x and y: in its order, from where it is. A loader that stands within an epoch, after
 * bt_loader_restore, goes through the rest of it as the first of `epochs`. options: batch, seed and in_order are the loader's and must be 0
 * (INVALID_ARGUMENT). Returns the error of the loader when its epoch ends early. */
BT_API BT_MUST_USE bt_status bt_fit_loader(bt_layer *model, bt_optimizer *optimizer, bt_loader *loader,
                                           const bt_fit_options *options, bt_fit_report *report);
#define bt_fit_loader(...) BTI_AT_MUST(bt_fit_loader(__VA_ARGS__))

/* The fraction of rows whose largest logit is at the class in y [N] (integers), computed where the model is. Blocks. On
 * errors NaN, with the cause in the error record. */
BT_API double bt_accuracy(bt_layer *model, bt_array *x, bt_array *y);
#define bt_accuracy(...) BTI_AT_DOUBLE(bt_accuracy(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif

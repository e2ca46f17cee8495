/* berth/train.h: the training loop. */
#ifndef BERTH_TRAIN_H
#define BERTH_TRAIN_H

#include <berth/data.h>
#include <berth/dist.h>
#include <berth/metrics.h>
#include <berth/optimizers.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a run tells its callback. Valid during the call. */
typedef enum bt_fit_event_kind { BT_FIT_STEP, BT_FIT_EPOCH } bt_fit_event_kind;
typedef struct bt_fit_event {
    size_t size;
    bt_fit_event_kind kind;
    int64_t epoch; /* that the step is of, or that is complete; from 0 */
    int64_t steps; /* in all, those before a resume too */
    double
        loss; /* of an epoch: the mean over its rows. Of a step: that of some steps before, which is known already, or NaN */
    double validation_loss; /* of an epoch; NaN: not asked for */
    const double *metrics;  /* of an epoch, in the order of the options; NULL for a step */
    int metric_count;
    double seconds; /* since the run began, those before a resume too */
    bool stop;      /* the callback sets it: the run ends here, as after the last epoch */
    double
        joules; /* of an epoch: what the devices used for it whose energy is known (device.h), as a whole; NaN: of none, and for a step */
} bt_fit_event;
/* Returns BT_OK; any other status ends the run with it. It may do anything with the model between two steps; what it changes of the optimiser's groups and
 * schedule, and of what is frozen, counts from the next epoch on. */
typedef bt_status bt_fit_callback(bt_fit_event *event, void *data);

/* Options of bt_fit; 0 or NULL means the default in brackets. Made by `BT_FIT_OPTIONS(.epochs = 5)`, or in a variable:
 * `bt_fit_options options = {BT_FIT_INIT, .epochs = 5};`. */
typedef struct bt_fit_options {
    size_t size BTI_INITIALLY(sizeof(bt_fit_options)); /* set by the macros */
    int epochs BTI_INITIALLY(0);                       /* [1]; of a run that resumes: in all */
    int64_t batch BTI_INITIALLY(0);                    /* rows per step [32]; the last one of an epoch may be smaller */
    bt_strategy *strategy BTI_INITIALLY(NULL);         /* [one device]; see bt_fit on devices that fail */
    bt_model_loss *loss BTI_INITIALLY(NULL);           /* [bt_cross_entropy of the logits] */
    void *loss_data BTI_INITIALLY(NULL);
    uint64_t
        seed BTI_INITIALLY(0); /* each epoch shuffles the rows with bt_fold_in(bt_key(seed), epoch), unless in_order */
    bool in_order BTI_INITIALLY(false);
    bool quiet BTI_INITIALLY(false); /* no progress on standard error */
    /* On one device the loss is called once for each shape of a batch, and the step is run as a function (bt_function_new): what the loss reads of the program
     * is as it was then. With record_each it is called in each step, as it is with a strategy, with hooks on layers, and if it reads values. */
    bool record_each BTI_INITIALLY(false);

    /* A parameter that is not frozen and that no gradient comes to keeps its value: the first step writes a line about it to the log. With all_gradients it fails
     * (FAILED_PRECONDITION). If no gradient comes to any, the loss cannot fall, and the first step fails either way. */
    bool all_gradients BTI_INITIALLY(false);

    /* Validation, after each epoch: rows [M, ...], or a loader whose next epoch it is; the loss and the metrics for inference. */
    bt_array *validation_x BTI_INITIALLY(NULL), *validation_y BTI_INITIALLY(NULL);
    bt_loader *validation BTI_INITIALLY(NULL);
    const bt_metric *metrics BTI_INITIALLY(NULL); /* judged by the validation rows */
    int metric_count BTI_INITIALLY(0);            /* up to 32 */

    /* Early stop: the value that is watched, "loss" (of the validation where there is one) or a metric's name ["loss"], and how many epochs without a gain
     * of more than least_gain end the run [0: none]. */
    const char *watch BTI_INITIALLY(NULL);
    int patience BTI_INITIALLY(0);
    double least_gain BTI_INITIALLY(0);
    bool keep_best BTI_INITIALLY(false); /* at the end the model has the parameters and states of the best epoch */

    /* Checkpoints: a folder, which is made if it is not there. A run whose folder has checkpoints goes on from the newest: the losses, and all else, are
     * the same bits as without the interruption, wherever it was killed: what is frozen and the rate are those of the checkpoint; groups, schedules and hooks that a callback
     * changes are not in it. A checkpoint is whole or absent; it is written while training goes on. */
    const char *checkpoints BTI_INITIALLY(NULL);
    int64_t checkpoint_steps BTI_INITIALLY(0); /* one after so many steps; or */
    double checkpoint_seconds BTI_INITIALLY(
        0); /* after so many seconds [neither: after each epoch]; one is written at the end of the run, too */
    int checkpoint_keep
        BTI_INITIALLY(0);            /* how many are kept [3]; the best model is kept beside them: best.safetensors */
    bool fresh BTI_INITIALLY(false); /* does not go on from what is there */

    bt_fit_callback *callback BTI_INITIALLY(NULL); /* after each epoch */
    void *callback_data BTI_INITIALLY(NULL);
    bool each_step BTI_INITIALLY(false); /* the callback is called after each step too */
    /* A file: an HTML page with curves, confusion matrix (with metrics, of classes), model, memory, time and energy, which needs no other file; its numbers stand beside it as CSV ("run.html", "run.csv"). Written at
     * the end, also of a run that fails; that it can be is checked at the beginning. */
    const char *report BTI_INITIALLY(NULL);
} bt_fit_options;
#define BT_FIT_INIT .size = sizeof(bt_fit_options)
#define BT_FIT_OPTIONS(...) BTI_OPTIONS(bt_fit_options, __VA_ARGS__)

typedef struct bt_fit_report {
    int64_t
        steps; /* begun, those before a resume too; after an error the last few were begun behind the one that failed, and changed nothing */
    double first_loss, last_loss; /* means over the first and the last epoch */
    double seconds;               /* of this call */
    double
        joules; /* of this call: what the CPUs and the cards that trained used, as whole devices, where that is known (bt_device_energy); NaN: of none */
    int devices_lost; /* of a strategy, that failed in this call */
} bt_fit_report;

/* Trains on the rows of x [N, ...] and y [N, ...], on the devices of the model: each batch is cut where x and y are and
 * moved to the model, as bt_train_step does. Progress is written to standard error: one line on a terminal (steps, loss, metrics, rate, time left), else a line for each epoch.
 * Blocks until training is done. A label or an index that is out of range makes the loss NaN (bt_cross_entropy, bt_take): within 32 steps, or at the end of the
 * epoch, that ends the run with OUT_OF_RANGE, which names the label, its row, the batch and the line; any other loss that is NaN writes a line to the log, and the flag
 * check_nan names the operation. This costs a read of a number every 16 steps. A step that failed is always reported, the last one too: the variables are as after the step before it. `options` may be NULL (the
 * defaults), `report` may be NULL.
 *
 * With a strategy over several devices the run goes on when one of them fails, or is late (flag `device_seconds`): a log line and the report say which, in which step and why; the strategy has it no more, nor have the model and the optimiser
 * (bt_strategy_drop). Steps that had not completed are made again on the rest; if sharded states were lost, the run goes on from its newest checkpoint, and callbacks see its steps once more. It ends with an error that names the device if none is left, if exact mode does not know the number that is left, or if there is no
 * such checkpoint. A step that fails while all devices work is made again once. x and y are taken to the host if they are on a device of the strategy; the losses' sum is kept there. The thread's default device is one that is left until the call returns. Batches of a loader that are on such a device are copied
 * to the host, too. */
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

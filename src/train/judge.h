/* Judging a model: its loss and its metrics over many batches. */
#ifndef BTI_TRAIN_JUDGE_H
#define BTI_TRAIN_JUDGE_H

#include <berth/data.h>
#include <berth/dist.h>
#include <berth/metrics.h>

#include "base/vec.h"

#define BTI_METRICS_MOST 32

typedef struct bti_tally {
    BTI_VEC(double) list;
} bti_tally;

typedef struct bti_judge {
    bt_layer *model;
    bt_model_loss *loss; /* NULL: not asked for */
    void *loss_data;
    const bt_metric *metrics;
    int count;
    bool confuses; /* adds up the confusion matrix, where outputs are of classes */

    double rows, loss_sum;
    bti_tally
        sums[BTI_METRICS_MOST + 1]; /* the last: the confusion matrix, row-major; empty: outputs are not of classes */
} bti_judge;

/* INVALID_ARGUMENT: a metric that lacks something, too many of them. */
bt_status bti_metrics_check(const bt_metric *metrics, int count);
/* Adds the rows of an epoch of a loader of two columns. Blocks. */
bt_status bti_judge_add(bti_judge *judge, bt_loader *loader);
double bti_judge_loss(const bti_judge *judge);              /* NaN: there is none */
double bti_judge_value(const bti_judge *judge, int metric); /* NaN before any row */
void bti_judge_clear(bti_judge *judge);

#endif

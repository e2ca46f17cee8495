/* The report of a training run: one HTML page that needs nothing else, and its numbers as CSV beside it. */
#ifndef BTI_TRAIN_REPORT_H
#define BTI_TRAIN_REPORT_H

#include <berth/nn.h>
#include <berth/optimizers.h>

#include "train/energy.h"
#include "train/history.h"

typedef enum bti_phase {
    BTI_PHASE_DATA,
    BTI_PHASE_STEPS,
    BTI_PHASE_VALIDATION,
    BTI_PHASE_CHECKPOINTS,
    BTI_PHASES
} bti_phase;

typedef struct bti_report {
    const bt_layer *model;
    const bt_optimizer *optimizer;
    const bti_history *history;
    const double *confusion; /* [classes * classes], is by guess; NULL: none */
    int64_t classes;
    int64_t rows, steps; /* of an epoch; of all */
    double seconds[BTI_PHASES];
    const bti_meters *meters;
    int64_t best_epoch; /* from 0; -1: none */
    const char *story;  /* lines on devices that failed; "": none did */
} bti_report;

/* "DIR/run.html" and "DIR/run.csv"; both are written whole or not at all. */
bt_status bti_report_write(const bti_report *report, const char *path);
/* Whether a report can be written there, before a run begins: writes nothing. */
bt_status bti_report_check(const char *path);

#endif

/* The progress of bt_fit on standard error: one line on a terminal, as wide as that is at most, else a line for each epoch. */
#ifndef BTI_TRAIN_PROGRESS_H
#define BTI_TRAIN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct bti_progress {
    bool quiet, terminal;
    double start, drawn; /* seconds of the monotonic clock */
    int epochs;
    int64_t steps_per_epoch, first; /* the step that the run begins with */
    char judged[160];               /* of the last epoch: "  validation loss 0.12  accuracy 0.97" */
} bti_progress;

void bti_progress_begin(bti_progress *progress, int epochs, int64_t steps_per_epoch, int64_t first, bool quiet);
/* After step `step` (from 0) of all; loss may be NaN: not known yet. Draws a few times a second at most. */
void bti_progress_step(bti_progress *progress, int64_t step, double loss);
/* After an epoch (from 0). judged: how the validation judges it; may be "". */
void bti_progress_epoch(bti_progress *progress, int64_t epoch, double loss, const char *judged);
void bti_progress_end(bti_progress *progress);

#endif

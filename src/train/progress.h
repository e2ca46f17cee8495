/* The progress line of bt_fit on a terminal. */
#ifndef BTI_TRAIN_PROGRESS_H
#define BTI_TRAIN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct bti_progress {
    bool shown;
    double start, drawn; /* seconds of the monotonic clock */
    int epochs;
    int64_t steps_per_epoch;
} bti_progress;

/* Shows nothing when quiet, or when standard error is not a terminal. */
void bti_progress_begin(bti_progress *progress, int epochs, int64_t steps_per_epoch, bool quiet);
/* After step `step` (from 0) of all; loss may be NaN: not known yet. Draws a few times a second at most. */
void bti_progress_step(bti_progress *progress, int64_t step, double loss);
void bti_progress_end(bti_progress *progress);

#endif

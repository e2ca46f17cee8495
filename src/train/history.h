/* What a training run was like, epoch by epoch. */
#ifndef BTI_TRAIN_HISTORY_H
#define BTI_TRAIN_HISTORY_H

#include <berth/metrics.h>

#include "base/str.h"
#include "base/vec.h"

enum {
    BTI_EPOCH,
    BTI_STEPS,
    BTI_SECONDS,
    BTI_RATE,
    BTI_JOULES,
    BTI_LOSS,
    BTI_VALIDATION_LOSS,
    BTI_COLUMNS
}; /* then the metrics */

/* The name of one of the columns before the metrics: "validation loss". */
static inline const char *bti_history_column(int column) {
    static const char *const names[BTI_COLUMNS] = {"epoch",  "steps", "seconds",        "rate",
                                                   "joules", "loss",  "validation loss"};
    return names[column];
}

typedef struct bti_history {
    const bt_metric *metrics;
    int count;             /* of metrics */
    BTI_VEC(double) cells; /* rows of BTI_COLUMNS + count; NaN: not known */
} bti_history;

static inline int bti_history_width(const bti_history *h) { return BTI_COLUMNS + h->count; }
static inline int64_t bti_history_rows(const bti_history *h) { return (int64_t)h->cells.count / bti_history_width(h); }
static inline double bti_history_at(const bti_history *h, int64_t row, int column) {
    return h->cells.items[row * bti_history_width(h) + column];
}
const char *bti_history_name(const bti_history *h, int column); /* "validation loss", a metric's name */
bt_status bti_history_add(bti_history *h, const double *row);
/* As CSV: a line of names, then the epochs; numbers are read back as they are, unknown ones are empty. */
void bti_history_csv(const bti_history *h, bti_str *text);
void bti_history_free(bti_history *h);

#endif

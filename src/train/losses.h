/* The losses of an epoch while it runs: their sum, what is shown of it, and what is done when it is no number. */
#ifndef BTI_TRAIN_LOSSES_H
#define BTI_TRAIN_LOSSES_H

#include <berth/data.h>

#include "train/step.h"

typedef struct bti_losses {
    const char *name;      /* of the public function */
    const char *what, *of; /* "the loss", ""; "the validation loss", "validation " */
    bt_loader *loader;
    bti_steps *steps;
    bt_array *sum;       /* retained; of the epoch's losses, times their rows */
    bt_array *late_loss; /* retained; the next to be shown */
    bt_array *late_sum;  /* retained; the sum of that time, NULL: of another epoch */
    char *late_state;    /* of the loader, of that time */
    char *known_state;   /* where the last sum that is known to be a number was taken; NULL: none is, from then on */
    double shown;
} bti_losses;

/* A sum of losses after so many steps, and the state of the loader when it was taken, which this takes over. The first sum that is NaN: the batches since the last one that was a number are
 * looked at. An error if they have an index or a label that there is not; else a line in the log, which says where a batch itself has a NaN. */
bt_status bti_losses_check(bti_losses *l, double sum, char *state, int64_t steps);
/* Shows the loss that was given the last time, which is complete by now, and keeps this one for the next. */
bt_status bti_losses_show_late(bti_losses *l, bt_array *loss, int64_t steps);
void bti_losses_drop_late(bti_losses *l);
/* Drops all that is retained. */
void bti_losses_end(bti_losses *l);

#endif

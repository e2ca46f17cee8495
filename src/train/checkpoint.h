/* Checkpoints: what a training run goes on from. A checkpoint is a safetensors file, FOLDER/step-0000001200.safetensors, which is whole or absent (file.h):
 *
 *     model.NAME, optimizer.NAME    parameters and states
 *     fit.sum                       the sum of losses of the epoch so far, when it has begun
 *     fit.numbers                   float64, the numbers of bti_checkpoint
 *     fit.history                   float64 [epochs, columns]
 *     metadata                      the loaders' states, the optimiser's rule and rate, the metrics' names, the names of what is frozen
 *
 * Beside it stands best.safetensors, the model of the best epoch (bt_save_model). */
#ifndef BTI_TRAIN_CHECKPOINT_H
#define BTI_TRAIN_CHECKPOINT_H

#include <berth/data.h>
#include <berth/optimizers.h>

#include "train/history.h"

typedef struct bti_checkpoint_numbers {
    double epoch, steps;     /* epochs that are complete, steps in all */
    double rows;             /* that the epoch's sum of losses is of */
    double seconds;          /* of training */
    double best, best_epoch; /* the best value that is watched, NaN before there is one, and its epoch */
    double stale;            /* epochs since */
    double joules;           /* of the epoch so far */
} bti_checkpoint_numbers;

typedef struct bti_checkpoints bti_checkpoints;

/* What is saved, beside numbers. */
typedef struct bti_checkpoint_subject {
    bt_layer *model;
    bt_optimizer *optimizer;
    bt_loader *loader, *validation; /* validation: may be NULL */
} bti_checkpoint_subject;

/* Writes into the folder, which is made if it is not there, on a thread of its own, one file after the other; keeps the last `keep`. NULL with the cause
 * in the error record. */
bti_checkpoints *bti_checkpoints_new(const char *folder, int keep, const bti_checkpoint_subject *of);
/* Begins to save what they have now. `sum`: may be NULL. Waits for the file before. The error of that, or of this. */
bt_status bti_checkpoints_save(bti_checkpoints *c, const bti_checkpoint_numbers *numbers, bt_array *sum,
                               const bti_history *history);
/* Whether the folder has one. */
bool bti_checkpoints_any(const bti_checkpoints *c);
/* Waits for the last file. Its error. */
bt_status bti_checkpoints_wait(bti_checkpoints *c);
/* Saves the model as the best so far. Blocks. */
bt_status bti_checkpoints_save_best(bti_checkpoints *c);
bt_status bti_checkpoints_load_best(bti_checkpoints *c);
/* Loads the newest checkpoint: all or nothing. *found: false when there is none. The loaders go where they were, that of the validation unless it is of other rows now; *sum: retained, or
 * NULL. A file that does not fit says in what, and nothing is changed. */
bt_status bti_checkpoints_load(bti_checkpoints *c, bti_checkpoint_numbers *numbers, bt_array **sum,
                               bti_history *history, bool *found);
/* Waits too. */
bt_status bti_checkpoints_end(bti_checkpoints *c);

#endif

/* What rows of training steps share: a step of SGD as one function, its losses compared with other libraries'. */
#ifndef BTI_CLI_BENCH_TRAINING_H
#define BTI_CLI_BENCH_TRAINING_H

#include "cli/bench_row.h"

typedef struct bench_trained {
    int parameters;
    bt_array *(*initial)(int number); /* of a parameter */
    bt_array *(*loss)(bt_array *const *parameters, bt_array *const *inputs);
    double rate;
} bench_trained;

/* The step of the row's inputs, which end with NULL; the forward pass is recorded in a BT_AUTOCAST(dtype) block. */
bool bench_prepare_training(bench_work *work, const bench_trained *model, bt_dtype dtype);
/* One step; waits for the variables too. */
bt_array *bench_train(bench_work *work);
/* The losses of the first five steps. */
bt_array *bench_first_losses(bench_work *work, const bench_trained *model);

#endif

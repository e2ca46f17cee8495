/* Rows of `berth bench`: training steps of a small convolutional network and of a variational autoencoder. */
#ifndef BTI_CLI_BENCH_MODELS_H
#define BTI_CLI_BENCH_MODELS_H

#include "cli/bench_row.h"

enum { BENCH_MODEL_ROWS = 2 };
extern const bench_row bench_model_rows[BENCH_MODEL_ROWS];

#endif

/* Rows of `berth bench`: attention, its gradients, and one token after another by a cache of keys. */
#ifndef BTI_CLI_BENCH_ATTENTION_H
#define BTI_CLI_BENCH_ATTENTION_H

#include "cli/bench_row.h"

enum { BENCH_ATTENTION_ROWS = 4 };
extern const bench_row bench_attention_rows[BENCH_ATTENTION_ROWS];

#endif

/* Rows of `berth bench`: GPT-2 reads. */
#ifndef BTI_CLI_BENCH_GPT2_H
#define BTI_CLI_BENCH_GPT2_H

#include "cli/bench_row.h"

enum { BENCH_GPT2_ROWS = 2 };
extern const bench_row bench_gpt2_rows[BENCH_GPT2_ROWS];

#endif

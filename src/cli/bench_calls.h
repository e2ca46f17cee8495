/* Calls of a row's function that has several results. */
#ifndef BTI_CLI_BENCH_CALLS_H
#define BTI_CLI_BENCH_CALLS_H

#include "cli/bench_row.h"

enum { BENCH_RESULTS = 6 };

/* Calls it with so many of the row's inputs; computes all results. The last one, or the first that failed. */
bt_array *bench_call(bench_work *work, int inputs, bt_array **results, int count);
/* All results, flattened and joined. */
bt_array *bench_call_joined(bench_work *work, int inputs, int count);

#endif

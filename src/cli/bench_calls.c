#include "cli/bench_calls.h"

bt_array *bench_call(bench_work *work, int inputs, bt_array **results, int count) {
    if (bt_call(work->function, work->inputs, inputs, results, count) != BT_OK) return results[0];
    for (int i = 0; i < count - 1; i++)
        if (bt_block(results[i]) != BT_OK) return results[i];
    return results[count - 1];
}

bt_array *bench_call_joined(bench_work *work, int inputs, int count) {
    bt_array *results[BENCH_RESULTS], *last = bench_call(work, inputs, results, count);
    if (bt_block(last) != BT_OK) return last;
    for (int i = 0; i < count; i++) results[i] = bt_flatten(results[i], 0);
    return bt_concat(results, count, 0);
}

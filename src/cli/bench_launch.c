/* Rows about what a launch costs: kernels so small that nothing else takes time. */
#include "cli/bench.h"

enum { CALLS = 1000, KERNELS = 100, GRAPH_CALLS = 20 };

/* Of x [4]: `kernels` additions of 1. */
static bool prepare(bench_work *work, int kernels) {
    bt_array *x = bt_input(BT_F32, 4), *y = x;
    for (int i = 0; i < kernels; i++) y = bt_add(y, bt_num(1));
    work->function = bt_function_new(&x, 1, &y, 1, NULL, 0);
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(4));
    return work->function;
}

static bool prepare_one(bench_work *work) { return prepare(work, 1); }
static bool prepare_many(bench_work *work) { return prepare(work, KERNELS); }

/* Called that often, one result let go after the other; the last is waited for. */
static bt_array *call(bench_work *work, int calls) {
    bt_array *last = NULL;
    for (int i = 0; i < calls; i++) {
        BT_SCOPE {
            bt_array *result = bt_call1(work->function, work->inputs, 1);
            if (bt_eval(result) != BT_OK || i + 1 == calls) last = bt_keep(result);
        }
        if (last) break;
    }
    return last;
}

static bt_array *run_one(bench_work *work) { return call(work, CALLS); }

/* Unfused, or it would be one kernel. */
static bt_array *run_many(bench_work *work, const char *graphs) {
    static const char *const names[] = {"fuse", "graphs"};
    char before[2][32];
    for (int i = 0; i < 2; i++)
        if (bt_get_flag(names[i], before[i], sizeof before[i]) != BT_OK ||
            bt_set_flag(names[i], i ? graphs : "off") != BT_OK)
            return NULL;
    bt_array *last = call(work, GRAPH_CALLS);
    bool computed = bt_block(last) == BT_OK; /* if not, who waits for it is told */
    for (int i = 0; i < 2; i++)
        if (bt_set_flag(names[i], before[i]) != BT_OK && computed) return NULL;
    return last;
}

static bt_array *run_single(bench_work *work) { return run_many(work, "off"); }
static bt_array *run_graph(bench_work *work) { return run_many(work, "on"); }

const bench_row bench_launch_rows[] = {
    {"launch", "a call of a function of one small kernel", prepare_one, run_one, .steps = CALLS},
    {"launch_100", "one of 100 small kernels, launched one by one", prepare_many, run_single, .steps = GRAPH_CALLS},
    {"launch_graph", "the same, launched as a graph", prepare_many, run_graph, .steps = GRAPH_CALLS},
};
const int bench_launch_count = sizeof bench_launch_rows / sizeof *bench_launch_rows;

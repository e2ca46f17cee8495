/* The rows; those of training steps and of starting stand in bench_steps.c and bench_start.c. */
#include "cli/bench.h"

#include <stdlib.h>
#include <string.h>

enum { MILLION = 1000000, ADDS = 1000 };

/* --- elementwise ---------------------------------------------------------------------------------------------------- */

static bt_array *root_minus_log(bt_array *x) { return bt_sub(bt_pow(x, bt_num(0.5)), bt_log(bt_abs(x))); }

static bool prepare_elementwise(bench_work *work) {
    work->inputs[0] = bench_floats(1, 0.5f, 100, BT_SHAPE(10 * MILLION));
    return true;
}

static bt_array *run_elementwise(bench_work *work) { return root_minus_log(work->inputs[0]); }

static bool prepare_elementwise_compiled(bench_work *work) {
    bt_array *x = bt_input(BT_F32, -1), *y = root_minus_log(x);
    work->function = bt_function_new(&x, 1, &y, 1, NULL, 0);
    return work->function && prepare_elementwise(work);
}

static bt_array *run_elementwise_compiled(bench_work *work) { return bt_call1(work->function, work->inputs, 1); }

static bt_array *run_linspace(bench_work *work) {
    return root_minus_log(bt_linspace(0, 100, 10 * MILLION + work->repetition, BT_F32));
}

/* uniform, **2 - 0.5, **3 - 0.2; the middle on a device of its own. */
static bt_array *random_powers(const char *outer, const char *middle) {
    bt_array *x, *y, *z;
    BT_ON(outer) x = bt_uniform(bt_key(0), BT_F32, 100 * MILLION);
    BT_ON(middle) y = bt_sub(bt_pow(x, bt_num(2)), bt_num(0.5));
    BT_ON(outer) z = bt_sub(bt_pow(y, bt_num(3)), bt_num(0.2));
    return z;
}

static bt_array *run_random100m(bench_work *work) { return random_powers(work->target->device, work->target->device); }

static bt_array *run_random100m_mixed(bench_work *work) {
    return random_powers(work->target->mixed[0], work->target->mixed[1]);
}

static bool prepare_transpose_add(bench_work *work) {
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(4096, 4096));
    return true;
}

static bt_array *run_transpose_add(bench_work *work) { return bt_add(work->inputs[0], bt_transpose(work->inputs[0])); }

static bool prepare_broadcast(bench_work *work) {
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(8192, 1024));
    work->inputs[1] = bench_floats(2, -1, 1, BT_SHAPE(1024));
    work->inputs[2] = bench_floats(3, -1, 1, BT_SHAPE(8192, 1));
    return true;
}

static bt_array *run_broadcast(bench_work *work) {
    return bt_add(bt_mul(work->inputs[0], work->inputs[1]), work->inputs[2]);
}

static bool prepare_gather(bench_work *work) {
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(100000, 64));
    work->inputs[1] = bench_integers(2, 100000, BT_SHAPE(MILLION));
    return true;
}

static bt_array *run_gather(bench_work *work) { return bt_take(work->inputs[0], work->inputs[1], 0); }

static bool prepare_dependent_adds(bench_work *work) {
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(4));
    work->inputs[1] = bench_floats(2, -1, 1, BT_SHAPE(4));
    return true;
}

/* Read at the end. */
static bt_array *run_dependent_adds(bench_work *work) {
    float sum[4];
    bt_array *x = work->inputs[0];
    for (int i = 0; i < ADDS; i++) x = bt_add(x, work->inputs[1]);
    (void)!bt_read(x, sum, sizeof sum); /* what failed is told when it is waited for */
    return x;
}

/* --- products, softmax, reductions ---------------------------------------------------------------------------------- */

static bool prepare_products(bench_work *work, bt_shape shape) {
    work->inputs[0] = bench_floats(1, -1, 1, shape);
    work->inputs[1] = bench_floats(2, -1, 1, shape);
    return true;
}

static bool prepare_1024(bench_work *work) { return prepare_products(work, BT_SHAPE(1024, 1024)); }
static bool prepare_2048(bench_work *work) { return prepare_products(work, BT_SHAPE(2048, 2048)); }
static bool prepare_4096(bench_work *work) { return prepare_products(work, BT_SHAPE(4096, 4096)); }
static bool prepare_16(bench_work *work) { return prepare_products(work, BT_SHAPE(1000, 16, 16)); }
static bt_array *run_matmul(bench_work *work) { return bt_matmul(work->inputs[0], work->inputs[1]); }

static bool prepare_rows(bench_work *work) {
    work->inputs[0] = bench_floats(1, -4, 4, BT_SHAPE(8192, 1024));
    work->inputs[1] = bench_floats(2, 0.5f, 1.5f, BT_SHAPE(1024));
    work->inputs[2] = bench_floats(3, -1, 1, BT_SHAPE(1024));
    return true;
}

static bt_array *run_softmax(bench_work *work) { return bt_softmax(work->inputs[0], -1); }

static bt_array *run_layer_norm(bench_work *work) {
    return bt_layer_norm(work->inputs[0], work->inputs[1], work->inputs[2], 1e-5);
}

static bool prepare_sum(bench_work *work) {
    work->inputs[0] = bench_floats(1, 0, 1, BT_SHAPE(10 * MILLION));
    return true;
}

static bool prepare_sum_axis(bench_work *work) {
    work->inputs[0] = bench_floats(1, 0, 1, BT_SHAPE(4096, 4096));
    return true;
}

static bt_array *run_sum(bench_work *work) { return bt_sum(work->inputs[0], BT_ALL, false); }
static bt_array *run_sum_axis0(bench_work *work) { return bt_sum(work->inputs[0], BT_AXES(0), false); }
static bt_array *run_sum_axis1(bench_work *work) { return bt_sum(work->inputs[0], BT_AXES(1), false); }

/* --- the table ------------------------------------------------------------------------------------------------------ */

#define CUBE(n) ((double)(n) * (n) * (n))
#define F32S(count) (4.0 * (count)) /* bytes */

static const bench_row rows[] = {
    {"elementwise", "x**0.5 - log(abs(x)), 10M", prepare_elementwise, run_elementwise, .bytes = F32S(20e6)},
    {"elementwise_compiled", "the same as a function, called", prepare_elementwise_compiled, run_elementwise_compiled,
     .bytes = F32S(20e6)},
    {"linspace", "the same of linspace(0, 100, n), n new each time", NULL, run_linspace, .bytes = F32S(10e6)},
    {"random100m", "100M uniform, **2 - 0.5, **3 - 0.2", NULL, run_random100m, .bytes = F32S(100e6)},
    {"random100m_mixed", "the same, the middle on a second device", NULL, run_random100m_mixed, .steps = 1},
    {"matmul1024", "product of 1024 x 1024", prepare_1024, run_matmul, .flops = 2 * CUBE(1024)},
    {"matmul2048", "product of 2048 x 2048", prepare_2048, run_matmul, .flops = 2 * CUBE(2048)},
    {"matmul4096", "product of 4096 x 4096", prepare_4096, run_matmul, .flops = 2 * CUBE(4096)},
    {"matmul_small", "one product of 1,000 pairs of 16 x 16", prepare_16, run_matmul, .flops = 2000 * CUBE(16)},
    {"softmax", "over the last axis of 8192 x 1024", prepare_rows, run_softmax, .bytes = F32S(2.0 * 8192 * 1024)},
    {"layer_norm", "over the last axis of 8192 x 1024", prepare_rows, run_layer_norm, .bytes = F32S(2.0 * 8192 * 1024)},
    {"sum", "of 10M", prepare_sum, run_sum, .bytes = F32S(10e6)},
    {"sum_axis0", "of 4096 x 4096, down", prepare_sum_axis, run_sum_axis0, .bytes = F32S(4096.0 * 4096)},
    {"sum_axis1", "of 4096 x 4096, across", prepare_sum_axis, run_sum_axis1, .bytes = F32S(4096.0 * 4096)},
    {"transpose_add", "x + x.T, 4096 x 4096", prepare_transpose_add, run_transpose_add,
     .bytes = F32S(2.0 * 4096 * 4096)},
    {"broadcast", "x * row + column, 8192 x 1024", prepare_broadcast, run_broadcast, .bytes = F32S(2.0 * 8192 * 1024)},
    {"gather", "1M random rows of 100000 x 64", prepare_gather, run_gather, .bytes = F32S(2 * 64e6 + 1e6)},
    {"dependent_adds", "1,000 dependent adds of 4, then read", prepare_dependent_adds, run_dependent_adds, .steps = 1},
    {"compile", "a new kernel of five operations, 262,144 elements", bench_prepare_compile, bench_run_compile,
     .steps = 1},
    {"startup", "a process that adds two arrays", NULL, bench_run_startup, .steps = 1},
    {"step_small", "training step 64-128-10, batch 32", bench_prepare_small, bench_run_small, bench_check_small,
     .flops = 2.0 * 32 * (2 * 64 * 128 + 3 * 128 * 10), .steps = BENCH_SMALL_STEPS},
    {"step_medium", "training step 784-512-512-10, batch 128", bench_prepare_medium, bench_run_medium,
     bench_check_medium, .flops = 2.0 * 128 * (2 * 784 * 512 + 3 * (512 * 512 + 512 * 10)),
     .steps = BENCH_MEDIUM_STEPS},
    {"step_large", "training step 1024-4096-4096-1024, batch 256", bench_prepare_large, bench_run_large,
     bench_check_large, .flops = 2.0 * 256 * (2 * 1024 * 4096 + 3 * (4096 * 4096 + 4096 * 1024))},
};
enum { COMMON = sizeof rows / sizeof *rows, MOST_ROWS = 64 };

int bench_row_common(void) { return COMMON; }
int bench_row_count(void) { return COMMON + bench_large_count + bench_launch_count; }

const bench_row *bench_row_at(int index) {
    if (index < COMMON) return &rows[index];
    index -= COMMON;
    return index < bench_large_count ? &bench_large_rows[index] : &bench_launch_rows[index - bench_large_count];
}

static double shrunk(double figure, const bench_row *row, const bench_target *target) {
    for (int i = 0; i < row->shrinks; i++) figure /= target->shrink;
    return figure;
}

double bench_bytes(const bench_row *row, const bench_target *target) { return shrunk(row->bytes, row, target); }
double bench_flops(const bench_row *row, const bench_target *target) { return shrunk(row->flops, row, target); }

const bench_row *bench_row_find(char **argv, const char *name) {
    const char *names[MOST_ROWS];
    int count = bench_row_count();
    for (int i = 0; i < count; i++) {
        names[i] = bench_row_at(i)->name;
        if (!strcmp(names[i], name)) return bench_row_at(i);
    }
    const char *nearest = cli_nearest(name, names, count);
    if (nearest)
        fprintf(stderr, "%s: unknown row \"%s\"; did you mean \"%s\"?\n", argv[0], name, nearest);
    else
        fprintf(stderr, "%s: unknown row \"%s\"; \"%s --help\" lists them\n", argv[0], name, argv[0]);
    return NULL;
}

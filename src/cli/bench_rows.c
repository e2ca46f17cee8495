/* The rows of `berth bench`: those of the CPU, large ones for GPUs, and those of launches. Training steps are in bench_steps.c; a new kernel
 * and a new process in bench_start.c; what goes along an axis or by index in bench_lines.c; batches of functions in bench_transforms.c; loops in
 * bench_loops.c; copies from and to the host in bench_copies.c; linear algebra of several sizes in bench_linalg.c. */
#include "cli/bench_rows.h"

#include <stdio.h>
#include <string.h>

#include "cli/bench_copies.h"
#include "cli/bench_attention.h"
#include "cli/bench_convs.h"
#include "cli/bench_gpt.h"
#include "cli/bench_gpt2.h"
#include "cli/bench_gradients.h"
#include "cli/bench_inputs.h"
#include "cli/bench_linalg.h"
#include "cli/bench_lines.h"
#include "cli/bench_loops.h"
#include "cli/bench_models.h"
#include "cli/bench_start.h"
#include "cli/bench_steps.h"
#include "cli/bench_transforms.h"
#include "cli/cli.h"

enum { MILLION = 1000000, ADDS = 1000, THIN_PRODUCTS = 100, FFT_POINTS = 1 << 20, FFT_LINES = 256 };

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

/* uniform, **2 - 0.5, **3 - 0.2; the middle one on the second device. */
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

static bt_array *run_permutation(bench_work *work) { return (void)work, bt_permutation(bt_key(0), MILLION); }
static bt_array *run_normal(bench_work *work) { return (void)work, bt_normal(bt_key(0), BT_F32, 10 * MILLION); }

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
    (void)!bt_read(x, sum, sizeof sum); /* the caller waits for x and gets its error */
    return x;
}

/* --- matrix products, softmax, reductions ---------------------------------------------------------------------------------- */

static bool prepare_factors(bench_work *work, bt_shape shape) {
    work->inputs[0] = bench_floats(1, -1, 1, shape);
    work->inputs[1] = bench_floats(2, -1, 1, shape);
    return true;
}

static bool prepare_1024(bench_work *work) { return prepare_factors(work, BT_SHAPE(1024, 1024)); }
static bool prepare_2048(bench_work *work) { return prepare_factors(work, BT_SHAPE(2048, 2048)); }
static bool prepare_4096(bench_work *work) { return prepare_factors(work, BT_SHAPE(4096, 4096)); }
static bool prepare_16(bench_work *work) { return prepare_factors(work, BT_SHAPE(1000, 16, 16)); }

static bool prepare_thin(bench_work *work) {
    work->inputs[0] = bench_floats(1, -0.15f, 0.15f, BT_SHAPE(128, 128));
    work->inputs[1] = bench_floats(2, -1, 1, BT_SHAPE(128, 1));
    return true;
}
static bt_array *run_thin_products(bench_work *work) {
    bt_array *x = work->inputs[1];
    for (int i = 0; i < THIN_PRODUCTS; i++) x = bt_matmul(work->inputs[0], x);
    return x;
}

static bool prepare_numbers(bench_work *work, bt_shape shape) {
    work->inputs[0] = bt_complex(bench_floats(1, -1, 1, shape), bench_floats(2, -1, 1, shape));
    return bt_block(work->inputs[0]) == BT_OK;
}
static bool prepare_fft(bench_work *work) { return prepare_numbers(work, BT_SHAPE(FFT_POINTS)); }
static bool prepare_fft_lines(bench_work *work) {
    return prepare_numbers(work, BT_SHAPE(FFT_LINES, FFT_POINTS / FFT_LINES));
}
static bt_array *run_fft(bench_work *work) { return bt_fft(work->inputs[0]); }

/* Symmetric, with a diagonal that makes it positive definite. */
static bool prepare_cholesky(bench_work *work) {
    bt_array *x = bench_floats(1, -1, 1, BT_SHAPE(1024, 1024));
    bt_array *diagonal = bt_mul(bt_diag(bt_ones(BT_F32, 1024), 0), bt_num(32));
    work->inputs[0] = bt_add(bt_mul(bt_add(x, bt_transpose(x)), bt_num(0.5)), diagonal);
    return bt_block(work->inputs[0]) == BT_OK;
}
static bt_array *run_cholesky(bench_work *work) { return bt_cholesky(work->inputs[0]); }

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

/* --- rows that are large enough for a GPU: 256 MiB and more, products up to 16384 x 16384 -------------------------- */

enum { LARGE_ELEMENTS = 64 << 20, LARGE_COLUMNS = 1024, LARGE_GATHERED = 64, LARGE_SIDE = 8192 };

static bool prepare_large_elements(bench_work *work, float low, float high) {
    work->inputs[0] = bench_repeated_floats(1, low, high, BT_SHAPE(LARGE_ELEMENTS / work->target->shrink));
    return true;
}

static bool prepare_large_elementwise(bench_work *work) { return prepare_large_elements(work, 0.5f, 100); }
static bool prepare_large_sum(bench_work *work) { return prepare_large_elements(work, 0, 1); }

static bool prepare_large_rows(bench_work *work) {
    int64_t rows = LARGE_ELEMENTS / LARGE_COLUMNS / work->target->shrink;
    work->inputs[0] = bench_repeated_floats(1, -4, 4, BT_SHAPE(rows, LARGE_COLUMNS));
    work->inputs[1] = bench_floats(2, 0.5f, 1.5f, BT_SHAPE(LARGE_COLUMNS));
    work->inputs[2] = bench_floats(3, -1, 1, BT_SHAPE(LARGE_COLUMNS));
    return true;
}

static bool prepare_large_square(bench_work *work) {
    int64_t side = LARGE_SIDE / work->target->shrink;
    work->inputs[0] = bench_repeated_floats(1, -1, 1, BT_SHAPE(side, side));
    return true;
}

static bool prepare_large_gather(bench_work *work) {
    int rows = LARGE_ELEMENTS / LARGE_GATHERED / work->target->shrink;
    work->inputs[0] = bench_repeated_floats(1, -1, 1, BT_SHAPE(rows, LARGE_GATHERED));
    work->inputs[1] = bench_integers(2, (uint32_t)rows, BT_SHAPE(rows));
    return true;
}

static bool prepare_square_factors(bench_work *work, int64_t side, bt_dtype dtype) {
    side /= work->target->shrink;
    for (uint32_t i = 0; i < 2; i++) {
        bt_array *x = bench_repeated_floats(i + 1, -1, 1, BT_SHAPE(side, side));
        work->inputs[i] = dtype == BT_F32 ? x : bt_cast(x, dtype);
        if (bt_block(work->inputs[i]) != BT_OK) return false;
    }
    return true;
}

static bt_array *run_at_precision(bench_work *work, const char *precision) {
    char before[32];
    bt_array *product = run_matmul(work);
    if (bt_get_flag("matmul_precision", before, sizeof before) != BT_OK ||
        bt_set_flag("matmul_precision", precision) != BT_OK)
        return NULL;
    bool computed = bt_block(product) == BT_OK; /* on errors the caller waits for it, and gets them */
    return bt_set_flag("matmul_precision", before) == BT_OK || !computed ? product : NULL;
}

static bt_array *run_tf32(bench_work *work) { return run_at_precision(work, "tf32"); }
static bt_array *run_fast_bf16(bench_work *work) { return run_at_precision(work, "bf16"); }
static bt_array *check_bf16_product(bench_work *work) { return bt_cast(run_matmul(work), BT_F32); }

#define SIDES(X) X(1024) X(2048) X(4096) X(8192) X(16384)
#define PREPARE(n)                                                                                    \
    static bool prepare_f32_##n(bench_work *work) { return prepare_square_factors(work, n, BT_F32); } \
    static bool prepare_bf16_##n(bench_work *work) { return prepare_square_factors(work, n, BT_BF16); }
SIDES(PREPARE)

/* --- launches of kernels that are so small that nothing else takes time --------------------------------------------- */

enum { CALLS = 1000, KERNELS = 100, GRAPH_CALLS = 20 };

/* A function that adds 1 to x [4] `kernels` times. */
static bool prepare_increments(bench_work *work, int kernels) {
    bt_array *x = bt_input(BT_F32, 4), *y = x;
    for (int i = 0; i < kernels; i++) y = bt_add(y, bt_num(1));
    work->function = bt_function_new(&x, 1, &y, 1, NULL, 0);
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(4));
    return work->function;
}

static bool prepare_one_kernel(bench_work *work) { return prepare_increments(work, 1); }
static bool prepare_many_kernels(bench_work *work) { return prepare_increments(work, KERNELS); }

/* Calls the function `calls` times, by bt_eval or bt_block, and releases each result except the last, which is returned. */
static bt_array *call_repeatedly(bench_work *work, int calls, bool waits) {
    bt_array *last = NULL;
    for (int i = 0; i < calls; i++) {
        BT_SCOPE {
            bt_array *result = bt_call1(work->function, work->inputs, 1);
            bt_status status = waits ? bt_block(result) : bt_eval(result);
            if (status != BT_OK || i + 1 == calls) last = bt_keep(result);
        }
        if (last) break;
    }
    return last;
}

static bt_array *run_launch(bench_work *work) { return call_repeatedly(work, CALLS, false); }
static bt_array *run_launch_wait(bench_work *work) { return call_repeatedly(work, CALLS, true); }

/* Without fusion, which would make one kernel of them. */
static bt_array *run_launch_many(bench_work *work, const char *graphs) {
    static const char *const names[] = {"fuse", "graphs"};
    char before[2][32];
    for (int i = 0; i < 2; i++)
        if (bt_get_flag(names[i], before[i], sizeof before[i]) != BT_OK ||
            bt_set_flag(names[i], i ? graphs : "off") != BT_OK)
            return NULL;
    bt_array *last = call_repeatedly(work, GRAPH_CALLS, false);
    bool computed = bt_block(last) == BT_OK; /* on errors the caller waits for it, and gets them */
    for (int i = 0; i < 2; i++)
        if (bt_set_flag(names[i], before[i]) != BT_OK && computed) return NULL;
    return last;
}

static bt_array *run_launch_single(bench_work *work) { return run_launch_many(work, "off"); }
static bt_array *run_launch_graph(bench_work *work) { return run_launch_many(work, "on"); }

/* --- the tables ----------------------------------------------------------------------------------------------------- */

#define CUBE(n) ((double)(n) * (n) * (n))
#define F32S(count) (4.0 * (count)) /* bytes */

static const bench_row common_rows[] = {
    {"elementwise", "x**0.5 - log(abs(x)), 10M", prepare_elementwise, run_elementwise, .bytes = F32S(20e6)},
    {"elementwise_compiled", "the same as a function, called", prepare_elementwise_compiled, run_elementwise_compiled,
     .bytes = F32S(20e6)},
    {"linspace", "the same of linspace(0, 100, n), n new each time", NULL, run_linspace, .bytes = F32S(10e6)},
    {"random100m", "100M uniform, **2 - 0.5, **3 - 0.2", NULL, run_random100m, .bytes = F32S(100e6)},
    {"random100m_mixed", "the same, the middle on a second device", NULL, run_random100m_mixed, .steps = 1},
    {"permutation", "0 to 1M in random order", NULL, run_permutation, .bytes = F32S(1e6)},
    {"normal", "10M normal float32", NULL, run_normal, .bytes = F32S(10e6)},
    {"matmul1024", "product of 1024 x 1024", prepare_1024, run_matmul, .flops = 2 * CUBE(1024)},
    {"matmul2048", "product of 2048 x 2048", prepare_2048, run_matmul, .flops = 2 * CUBE(2048)},
    {"matmul4096", "product of 4096 x 4096", prepare_4096, run_matmul, .flops = 2 * CUBE(4096)},
    {"matmul_small", "one product of 1,000 pairs of 16 x 16", prepare_16, run_matmul, .flops = 2000 * CUBE(16)},
    {"thin_product", "100 dependent products of 128 x 128 and a column", prepare_thin, run_thin_products,
     .flops = 2.0 * THIN_PRODUCTS * 128 * 128},
    {"fft", "of 1,048,576 complex64", prepare_fft, run_fft, .flops = 5.0 * 20 * FFT_POINTS},
    {"fft_lines", "along the last axis of 256 x 4096 complex64", prepare_fft_lines, run_fft,
     .flops = 5.0 * 12 * FFT_POINTS},
    {"cholesky", "of a matrix of 1024 x 1024", prepare_cholesky, run_cholesky, .flops = CUBE(1024) / 3},
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
};

#define PRODUCT_ROW(kind, n, text, make, call, compared)                                                               \
    {"matmul_" kind "_" #n, "product of " #n " x " #n ", " text, make, call, compared, .flops = 2.0 * (n) * (n) * (n), \
     .shrinks = 3},
#define F32(n) PRODUCT_ROW("f32", n, "float32", prepare_f32_##n, run_matmul, NULL)
#define TF32(n) PRODUCT_ROW("tf32", n, "matmul_precision=tf32", prepare_f32_##n, run_tf32, NULL)
#define FAST_BF16(n) PRODUCT_ROW("fast_bf16", n, "matmul_precision=bf16", prepare_f32_##n, run_fast_bf16, NULL)
#define BF16(n) PRODUCT_ROW("bf16", n, "bfloat16", prepare_bf16_##n, run_matmul, check_bf16_product)
static const bench_row large_rows[] = {
    {"large_elementwise", "x**0.5 - log(abs(x)), 256 MiB", prepare_large_elementwise, run_elementwise,
     .bytes = F32S(2.0 * LARGE_ELEMENTS), .shrinks = 1},
    {"large_sum", "of 256 MiB", prepare_large_sum, run_sum, .bytes = F32S(LARGE_ELEMENTS), .shrinks = 1},
    {"large_softmax", "over the last axis of 65536 x 1024", prepare_large_rows, run_softmax,
     .bytes = F32S(2.0 * LARGE_ELEMENTS), .shrinks = 1},
    {"large_layer_norm", "over the last axis of 65536 x 1024", prepare_large_rows, run_layer_norm,
     .bytes = F32S(2.0 * LARGE_ELEMENTS), .shrinks = 1},
    {"large_transpose_add", "x + x.T, 8192 x 8192", prepare_large_square, run_transpose_add,
     .bytes = F32S(2.0 * LARGE_SIDE * LARGE_SIDE), .shrinks = 2},
    {"large_gather", "1M random rows of 1M x 64", prepare_large_gather, run_gather,
     .bytes = F32S(2.0 * LARGE_ELEMENTS + LARGE_ELEMENTS / LARGE_GATHERED), .shrinks = 1},
    SIDES(F32) SIDES(TF32) SIDES(FAST_BF16) SIDES(BF16)};

static const bench_row launch_rows[] = {
    {"launch", "a call of a function of one small kernel", prepare_one_kernel, run_launch, .steps = CALLS},
    {"launch_wait", "the same, each waited for", prepare_one_kernel, run_launch_wait, .steps = CALLS},
    {"launch_100", "one of 100 small kernels, launched one by one", prepare_many_kernels, run_launch_single,
     .steps = GRAPH_CALLS},
    {"launch_graph", "the same, launched as a graph", prepare_many_kernels, run_launch_graph, .steps = GRAPH_CALLS},
};

/* --- all rows ------------------------------------------------------------------------------------------------------- */

#define COUNT(rows) ((int)(sizeof(rows) / sizeof *(rows)))
enum {
    COMMON = COUNT(common_rows) + BENCH_LINE_ROWS + BENCH_GRADIENT_ROWS + BENCH_CONV_ROWS + BENCH_ATTENTION_ROWS +
             BENCH_TRANSFORM_ROWS + BENCH_START_ROWS + BENCH_STEP_ROWS + BENCH_MODEL_ROWS + BENCH_GPT_ROWS +
             BENCH_GPT2_ROWS + BENCH_LOOP_ROWS,
    ALL = COMMON + COUNT(large_rows) + BENCH_LINALG_ROWS + BENCH_COPY_ROWS + COUNT(launch_rows)
};
_Static_assert((int)ALL <= (int)BENCH_MOST_ROWS, "rows do not fit");

/* In the order of the output; those from large_rows on are run only with --device. */
static const struct {
    const bench_row *rows;
    int count;
} tables[] = {{common_rows, COUNT(common_rows)},
              {bench_line_rows, BENCH_LINE_ROWS},
              {bench_gradient_rows, BENCH_GRADIENT_ROWS},
              {bench_conv_rows, BENCH_CONV_ROWS},
              {bench_attention_rows, BENCH_ATTENTION_ROWS},
              {bench_transform_rows, BENCH_TRANSFORM_ROWS},
              {bench_start_rows, BENCH_START_ROWS},
              {bench_step_rows, BENCH_STEP_ROWS},
              {bench_model_rows, BENCH_MODEL_ROWS},
              {bench_gpt_rows, BENCH_GPT_ROWS},
              {bench_gpt2_rows, BENCH_GPT2_ROWS},
              {bench_loop_rows, BENCH_LOOP_ROWS},
              {large_rows, COUNT(large_rows)},
              {bench_linalg_rows, BENCH_LINALG_ROWS},
              {bench_copy_rows, BENCH_COPY_ROWS},
              {launch_rows, COUNT(launch_rows)}};

int bench_common_row_count(void) { return COMMON; }
int bench_row_count(void) { return ALL; }

const bench_row *bench_row_at(int index) {
    int table = 0;
    while (index >= tables[table].count) index -= tables[table++].count;
    return &tables[table].rows[index];
}

static double divided_by_shrink(double figure, const bench_row *row, const bench_target *target) {
    for (int i = 0; i < row->shrinks; i++) figure /= target->shrink;
    return figure;
}

double bench_row_bytes(const bench_row *row, const bench_target *target) {
    return divided_by_shrink(row->bytes, row, target);
}
double bench_row_flops(const bench_row *row, const bench_target *target) {
    return divided_by_shrink(row->flops, row, target);
}

const bench_row *bench_find_row(char **argv, const char *name) {
    const char *names[BENCH_MOST_ROWS];
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

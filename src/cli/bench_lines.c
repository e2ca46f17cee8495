/* Rows of `berth bench`: operations along an axis and by index. */
#include "cli/bench_lines.h"

#include "cli/bench_inputs.h"

enum { MILLION = 1000000, TABLE = 100000, WIDTH = 64, NARROW = 16, SIDE = 4096, SORTED_SIDE = 2048 };
enum { VECTORS = 2 * MILLION, BODIES = 1500 };
enum { WORDS = 50000, FEATURES = 128, TOKENS = 32768 }; /* of an embedding */

/* --- along an axis -------------------------------------------------------------------------------------------------- */

static bool prepare_line(bench_work *work) {
    work->inputs[0] = bench_floats(1, 0, 1, BT_SHAPE(10 * MILLION));
    return true;
}

static bool prepare_short_lines(bench_work *work) {
    work->inputs[0] = bench_floats(1, 0, 1, BT_SHAPE(MILLION, 10));
    return true;
}

static bool prepare_square(bench_work *work) {
    work->inputs[0] = bench_floats(1, 0, 1, BT_SHAPE(SIDE, SIDE));
    return true;
}

static bool prepare_million(bench_work *work) {
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(MILLION));
    return true;
}

static bool prepare_sorted_square(bench_work *work) {
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(SORTED_SIDE, SORTED_SIDE));
    return true;
}

static bool prepare_sorted_line(bench_work *work) {
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE((int64_t)SORTED_SIDE * SORTED_SIDE));
    return true;
}

static bool prepare_sorted_lines(bench_work *work) {
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(4000, 250));
    return true;
}

static bool prepare_vectors(bench_work *work) {
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(VECTORS, 3));
    return true;
}

static bool prepare_bodies(bench_work *work) {
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(BODIES, 3));
    return true;
}

/* Vectors of length 1. */
static bt_array *run_short_rows(bench_work *work) {
    bt_array *x = work->inputs[0];
    return bt_div(x, bt_sqrt(bt_sum(bt_square(x), .axes = BT_AXES(1), .keep = true)));
}

static bt_array *run_narrow_sums(bench_work *work) { return bt_sum(work->inputs[0], .axes = BT_AXES(0)); }

/* The acceleration of each body by all of them, softened. */
static bt_array *run_nbody(bench_work *work) {
    bt_array *x = work->inputs[0];
    bt_array *apart = bt_sub(bt_reshape(x, 1, BODIES, 3), bt_reshape(x, BODIES, 1, 3));
    bt_array *square = bt_add(bt_sum(bt_square(apart), .axes = BT_AXES(2), .keep = true), 0.01);
    return bt_sum(bt_div(apart, bt_mul(square, bt_sqrt(square))), .axes = BT_AXES(1));
}

static bt_array *run_cumsum(bench_work *work) { return bt_cumsum(work->inputs[0], -1, false); }
static bt_array *run_cumsum_axis0(bench_work *work) { return bt_cumsum(work->inputs[0], 0, false); }
static bt_array *run_sort(bench_work *work) { return bt_sort(work->inputs[0], -1); }
static bt_array *run_argsort(bench_work *work) { return bt_argsort(work->inputs[0], -1); }
static bt_array *run_top_k(bench_work *work) { return bt_top_k(work->inputs[0], 5); }
static bt_array *run_argmax(bench_work *work) { return bt_argmax(work->inputs[0], -1); }

/* --- by index ------------------------------------------------------------------------------------------------------- */

/* A table, indices into its first `rows` rows, and a row for each index. */
static bool prepare_rows(bench_work *work, uint32_t rows, int64_t indices) {
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(TABLE, WIDTH));
    work->inputs[1] = bench_integers(2, rows, BT_SHAPE(indices));
    work->inputs[2] = bench_floats(3, -1, 1, BT_SHAPE(indices, WIDTH));
    return true;
}

static bool prepare_scatter(bench_work *work) { return prepare_rows(work, TABLE, MILLION / 4); }
static bool prepare_one_row(bench_work *work) { return prepare_rows(work, 1, MILLION / 4); }
static bool prepare_take(bench_work *work) { return prepare_rows(work, TABLE, MILLION / 100); }

static bt_array *run_scatter_add(bench_work *work) {
    return bt_scatter_add(work->inputs[0], work->inputs[1], work->inputs[2], 0);
}

/* The gradient of the table whose taken rows are multiplied by the third input. */
static bt_array *run_take_gradient(bench_work *work) {
    bt_array *slope = NULL, *taken = bt_take(work->inputs[0], work->inputs[1], 0);
    bt_array *loss = bt_sum(bt_mul(taken, work->inputs[2]), BT_ALL, false);
    return bt_grad(loss, &work->inputs[0], 1, &slope) == BT_OK ? slope : NULL;
}

static bool prepare_scatter_rows(bench_work *work) {
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(TABLE, NARROW));
    work->inputs[1] = bench_integers(2, TABLE, BT_SHAPE(TABLE));
    work->inputs[2] = bench_floats(3, -1, 1, BT_SHAPE(TABLE, NARROW));
    return true;
}

static bool prepare_embedding(bench_work *work) {
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(WORDS, FEATURES));
    work->inputs[1] = bench_integers(2, WORDS, BT_SHAPE(TOKENS));
    work->inputs[2] = bench_floats(3, -1, 1, BT_SHAPE(TOKENS, FEATURES));
    return true;
}

static bool prepare_scatter_axis(bench_work *work) {
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(TABLE));
    work->inputs[1] = bench_integers(2, TABLE, BT_SHAPE(MILLION));
    work->inputs[2] = bench_floats(3, -1, 1, BT_SHAPE(MILLION));
    return true;
}

static bt_array *run_scatter_axis(bench_work *work) {
    return bt_scatter_add_along_axis(work->inputs[0], work->inputs[1], work->inputs[2], 0);
}

#define F32S(count) (4.0 * (count)) /* bytes */

const bench_row bench_line_rows[BENCH_LINE_ROWS] = {
    {"short_rows", "2M vectors of 3, divided by their lengths", prepare_vectors, run_short_rows,
     .bytes = F32S(6.0 * VECTORS)},
    {"narrow_sums", "down 1M x 10", prepare_short_lines, run_narrow_sums, .bytes = F32S(10e6)},
    {"nbody", "accelerations of 1,500 bodies, over [n, n, 3]", prepare_bodies, run_nbody,
     .flops = 17.0 * BODIES * BODIES},
    {"cumsum", "of 10M", prepare_line, run_cumsum, .bytes = F32S(20e6)},
    {"cumsum_short", "along the rows of 1M x 10", prepare_short_lines, run_cumsum, .bytes = F32S(20e6)},
    {"cumsum_axis0", "of 4096 x 4096, down", prepare_square, run_cumsum_axis0, .bytes = F32S(2.0 * SIDE * SIDE)},
    {"sort", "1M float32", prepare_million, run_sort, .bytes = F32S(2e6)},
    {"sort_short", "along the rows of 4000 x 250", prepare_sorted_lines, run_sort, .bytes = F32S(2e6)},
    {"sort4m", "2048 * 2048 float32", prepare_sorted_line, run_sort, .bytes = F32S(2.0 * SORTED_SIDE * SORTED_SIDE)},
    {"sort_rows", "along the rows of 2048 x 2048", prepare_sorted_square, run_sort,
     .bytes = F32S(2.0 * SORTED_SIDE * SORTED_SIDE)},
    {"sort_indices", "the order of 1M float32", prepare_million, run_argsort, .bytes = F32S(2e6)},
    {"topk", "the 5 greatest of each row of 4096 x 4096", prepare_square, run_top_k,
     .bytes = F32S(1.0 * SIDE * SIDE + 5.0 * SIDE)},
    {"argmax", "of 10M", prepare_line, run_argmax, .bytes = F32S(10e6)},
    {"scatter_add", "250k rows of 64 added to random ones of 100k", prepare_scatter, run_scatter_add,
     .bytes = F32S(2 * 6.4e6 + 16.25e6)},
    {"scatter_add_one", "250k rows of 64 added to one row of 100k", prepare_one_row, run_scatter_add,
     .bytes = F32S(2 * 6.4e6 + 16.25e6)},
    {"scatter_rows", "100k rows of 16 added to random ones of 100k", prepare_scatter_rows, run_scatter_add,
     .bytes = F32S(3 * 1.6e6 + 0.1e6)},
    {"embedding_grad", "of a table of 50k x 128, 32,768 random rows taken", prepare_embedding, run_take_gradient,
     .bytes = F32S(6.4e6 + 4.2e6)},
    {"scatter_axis", "1M numbers added to random ones of 100k", prepare_scatter_axis, run_scatter_axis,
     .bytes = F32S(2.2e6)},
    {"take_gradient", "of a table of 100k x 64, 10k random rows taken", prepare_take, run_take_gradient,
     .bytes = F32S(6.4e6 + 0.65e6)},
};

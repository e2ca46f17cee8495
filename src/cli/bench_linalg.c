#include "cli/bench_linalg.h"

#include <berth/linalg.h>

#include "cli/bench_inputs.h"

enum { RIGHT_SIDES = 64, MANY = 10000, SMALL = 8 };

static bt_array *add_diagonal(bt_array *x, int64_t n, double by) {
    return bt_add(x, bt_mul(bt_diag(bt_ones(BT_F32, n), 0), bt_num(by)));
}

/* Symmetric, with a diagonal that makes it positive definite; right sides. */
static bool prepare_matrix(bench_work *work, int64_t n) {
    bt_array *x = bench_floats(1, -1, 1, BT_SHAPE(n, n));
    work->inputs[0] = add_diagonal(bt_mul(bt_add(x, bt_transpose(x)), bt_num(0.5)), n, 64);
    work->inputs[1] = bench_floats(2, -1, 1, BT_SHAPE(n, RIGHT_SIDES));
    return bt_block(work->inputs[0]) == BT_OK && bt_block(work->inputs[1]) == BT_OK;
}
static bool prepare_512(bench_work *work) { return prepare_matrix(work, 512); }
static bool prepare_1024(bench_work *work) { return prepare_matrix(work, 1024); }
static bool prepare_2048(bench_work *work) { return prepare_matrix(work, 2048); }
static bool prepare_many(bench_work *work) {
    work->inputs[0] = add_diagonal(bench_floats(1, -1, 1, BT_SHAPE(MANY, SMALL, SMALL)), SMALL, SMALL);
    return bt_block(work->inputs[0]) == BT_OK;
}

static bt_array *run_cholesky(bench_work *work) { return bt_cholesky(work->inputs[0]); }
static bt_array *run_solve(bench_work *work) { return bt_solve(work->inputs[0], work->inputs[1]); }
static bt_array *run_inv(bench_work *work) { return bt_inv(work->inputs[0]); }

/* Of factors, whose signs are free, what can be compared. */
static bt_array *run_qr(bench_work *work) {
    bt_array *parts[2];
    (void)!bt_qr(work->inputs[0], parts);
    return bt_abs(parts[1]);
}
static bt_array *run_eigh(bench_work *work) {
    bt_array *parts[2];
    (void)!bt_eigh(work->inputs[0], parts);
    return parts[0];
}
static bt_array *run_svd(bench_work *work) {
    bt_array *parts[3];
    (void)!bt_svd(work->inputs[0], parts);
    return parts[1];
}

/* Operations of LAPACK's methods, by n**3; those of eigenvalues are no fixed number. */
#define ROW(name, n, text, times) \
    { #name "_" #n, text " of " #n " x " #n, prepare_##n, run_##name, .flops = (times) * (double)(n) * (n) * (n) }
#define ROWS(n)                                                                                                 \
    ROW(cholesky, n, "Cholesky's factor", 1.0 / 3), ROW(solve, n, "the solution with 64 right sides", 2.0 / 3), \
        ROW(inv, n, "the inverse", 2.0), ROW(qr, n, "QR, and its q", 8.0 / 3),                                  \
        ROW(eigh, n, "eigenvalues and vectors", 0), ROW(svd, n, "singular values and vectors", 0)
const bench_row bench_linalg_rows[BENCH_LINALG_ROWS] = {
    ROWS(512),
    ROWS(1024),
    ROWS(2048),
    {"inv_many", "inverses of 10,000 of 8 x 8", prepare_many, run_inv, .flops = 2.0 * MANY * SMALL * SMALL * SMALL}};

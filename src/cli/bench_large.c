/* Rows that are large enough for a GPU: 256 MiB and more, products up to 16384 x 16384. */
#include "cli/bench.h"

enum { ELEMENTS = 64 << 20, COLUMNS = 1024, GATHERED = 64, SIDE = 8192 };

static bool prepare_elements(bench_work *work, float low, float high) {
    work->inputs[0] = bench_repeated_floats(1, low, high, BT_SHAPE(ELEMENTS / work->target->shrink));
    return true;
}

static bool prepare_elementwise(bench_work *work) { return prepare_elements(work, 0.5f, 100); }
static bool prepare_sum(bench_work *work) { return prepare_elements(work, 0, 1); }

static bool prepare_rows(bench_work *work) {
    int64_t rows = ELEMENTS / COLUMNS / work->target->shrink;
    work->inputs[0] = bench_repeated_floats(1, -4, 4, BT_SHAPE(rows, COLUMNS));
    work->inputs[1] = bench_floats(2, 0.5f, 1.5f, BT_SHAPE(COLUMNS));
    work->inputs[2] = bench_floats(3, -1, 1, BT_SHAPE(COLUMNS));
    return true;
}

static bool prepare_square(bench_work *work) {
    int64_t side = SIDE / work->target->shrink;
    work->inputs[0] = bench_repeated_floats(1, -1, 1, BT_SHAPE(side, side));
    return true;
}

static bool prepare_gather(bench_work *work) {
    int rows = ELEMENTS / GATHERED / work->target->shrink;
    work->inputs[0] = bench_repeated_floats(1, -1, 1, BT_SHAPE(rows, GATHERED));
    work->inputs[1] = bench_integers(2, (uint32_t)rows, BT_SHAPE(rows));
    return true;
}

static bt_array *run_elementwise(bench_work *work) {
    return bt_sub(bt_pow(work->inputs[0], bt_num(0.5)), bt_log(bt_abs(work->inputs[0])));
}

static bt_array *run_sum(bench_work *work) { return bt_sum(work->inputs[0], BT_ALL, false); }
static bt_array *run_softmax(bench_work *work) { return bt_softmax(work->inputs[0], -1); }

static bt_array *run_layer_norm(bench_work *work) {
    return bt_layer_norm(work->inputs[0], work->inputs[1], work->inputs[2], 1e-5);
}

static bt_array *run_transpose_add(bench_work *work) { return bt_add(work->inputs[0], bt_transpose(work->inputs[0])); }
static bt_array *run_gather(bench_work *work) { return bt_take(work->inputs[0], work->inputs[1], 0); }

/* --- products ------------------------------------------------------------------------------------------------------- */

static bool prepare_product(bench_work *work, int64_t side, bt_dtype dtype) {
    side /= work->target->shrink;
    for (uint32_t i = 0; i < 2; i++) {
        bt_array *x = bench_repeated_floats(i + 1, -1, 1, BT_SHAPE(side, side));
        work->inputs[i] = dtype == BT_F32 ? x : bt_cast(x, dtype);
        if (bt_block(work->inputs[i]) != BT_OK) return false;
    }
    return true;
}

static bt_array *run_product(bench_work *work) { return bt_matmul(work->inputs[0], work->inputs[1]); }

static bt_array *run_rounded(bench_work *work, const char *precision) {
    char before[32];
    bt_array *product = run_product(work);
    if (bt_get_flag("matmul_precision", before, sizeof before) != BT_OK ||
        bt_set_flag("matmul_precision", precision) != BT_OK)
        return NULL;
    bool computed = bt_block(product) == BT_OK; /* if not, who waits for it is told */
    return bt_set_flag("matmul_precision", before) == BT_OK || !computed ? product : NULL;
}

static bt_array *run_tf32(bench_work *work) { return run_rounded(work, "tf32"); }
static bt_array *run_fast_bf16(bench_work *work) { return run_rounded(work, "bf16"); }
static bt_array *check_bf16(bench_work *work) { return bt_cast(run_product(work), BT_F32); }

#define SIDES(X) X(1024) X(2048) X(4096) X(8192) X(16384)
#define PREPARE(n)                                                                             \
    static bool prepare_f32_##n(bench_work *work) { return prepare_product(work, n, BT_F32); } \
    static bool prepare_bf16_##n(bench_work *work) { return prepare_product(work, n, BT_BF16); }
SIDES(PREPARE)

/* --- the table ------------------------------------------------------------------------------------------------------ */

#define PRODUCT(kind, n, text, make, call, compared)                                                                   \
    {"matmul_" kind "_" #n, "product of " #n " x " #n ", " text, make, call, compared, .flops = 2.0 * (n) * (n) * (n), \
     .shrinks = 3},
#define F32(n) PRODUCT("f32", n, "float32", prepare_f32_##n, run_product, NULL)
#define TF32(n) PRODUCT("tf32", n, "matmul_precision=tf32", prepare_f32_##n, run_tf32, NULL)
#define FAST_BF16(n) PRODUCT("fast_bf16", n, "matmul_precision=bf16", prepare_f32_##n, run_fast_bf16, NULL)
#define BF16(n) PRODUCT("bf16", n, "bfloat16", prepare_bf16_##n, run_product, check_bf16)
#define F32S(count) (4.0 * (count)) /* bytes */

const bench_row bench_large_rows[] = {
    {"large_elementwise", "x**0.5 - log(abs(x)), 256 MiB", prepare_elementwise, run_elementwise,
     .bytes = F32S(2.0 * ELEMENTS), .shrinks = 1},
    {"large_sum", "of 256 MiB", prepare_sum, run_sum, .bytes = F32S(ELEMENTS), .shrinks = 1},
    {"large_softmax", "over the last axis of 65536 x 1024", prepare_rows, run_softmax, .bytes = F32S(2.0 * ELEMENTS),
     .shrinks = 1},
    {"large_layer_norm", "over the last axis of 65536 x 1024", prepare_rows, run_layer_norm,
     .bytes = F32S(2.0 * ELEMENTS), .shrinks = 1},
    {"large_transpose_add", "x + x.T, 8192 x 8192", prepare_square, run_transpose_add, .bytes = F32S(2.0 * SIDE * SIDE),
     .shrinks = 2},
    {"large_gather", "1M random rows of 1M x 64", prepare_gather, run_gather,
     .bytes = F32S(2.0 * ELEMENTS + ELEMENTS / GATHERED), .shrinks = 1},
    SIDES(F32) SIDES(TF32) SIDES(FAST_BF16) SIDES(BF16)};
const int bench_large_count = sizeof bench_large_rows / sizeof *bench_large_rows;

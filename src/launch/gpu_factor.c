/* Linear algebra by the driver's library, whose matrices lie by columns: a row-major matrix is its transpose there. Kernels of ours store what it made, turned where that is needed, and NaN where
 * there is no result, as drivers/cpu/product/lapack.c does. */
#include "base/alloc.h"
#include "ir/dtype.h"
#include "launch/gpu_engine.h"
#include "reference/operand.h"

struct bti_gpu_factor {
    bti_factor of;
    void *factor; /* the driver's */
    bool by_pointers;
};

/* The functions of render/c/factor.h. */
enum { CHECK, STORE, DETERMINANT, POINTERS };
enum { THREADS = 256, WHOLE = 0, LOWER = 1, UPPER = 2 };

bt_status bti_gpu_factor_new(bti_gpu *gpu, const bti_factor *of, bti_gpu_factor **made) {
    if (!gpu->driver->factor_new) return bti_fail(BT_UNIMPLEMENTED, "%s has no library of linear algebra", gpu->name);
    bti_gpu_factor *new = bti_calloc(1, sizeof *new);
    if (!new) return bti_no_memory();
    new->of = *of;
    bti_lock_take(&gpu->lock);
    bt_status status = gpu->driver->factor_new(gpu->device, of, &new->factor, &new->by_pointers);
    bti_lock_give(&gpu->lock);
    if (status == BT_OK)
        *made = new;
    else
        bti_free(new);
    return status;
}

void bti_gpu_factor_free(bti_gpu *gpu, bti_gpu_factor *factor) {
    gpu->driver->factor_free(gpu->device, factor->factor);
    bti_free(factor);
}

/* --- launches around it ------------------------------------------------------------------------------------------------ */

typedef struct factor_run {
    bti_gpu *gpu;
    const bti_gpu_factor *factor;
    bti_gpu_work *work;
    bti_gpu_module *module;
    const bti_matrices *of;
    const uint64_t *at;           /* of the operands */
    int64_t k;                    /* the smaller side */
    int64_t parts;                /* numbers of an element */
    bti_gpu_factor_arrays arrays; /* what the library gets */
} factor_run;

static bt_status launch_entry(factor_run *r, int number, const char *name, int64_t units, int addresses, int words,
                              const uint64_t *word) {
    bti_words all = {0};
    bti_gpu_grid grid = {.number = number, .name = name, .units = units, .at_once = THREADS, .threads = THREADS};
    for (int i = 0; i < words; i++) {
        if (i < addresses)
            bti_words_add_address(&all, word[i]);
        else
            bti_words_add(&all, word[i]);
    }
    return bti_gpu_module_launch(r->gpu, r->module, &grid, &all);
}
#define LAUNCH(r, number, name, units, addresses, ...)                                                                 \
    launch_entry(r, number, name, units, addresses, (int)(sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)), \
                 (const uint64_t[]){__VA_ARGS__})

/* Elements [rows, columns] of each matrix, by their steps. */
typedef struct layout {
    int64_t rows, columns, row_step, column_step, matrix_step;
} layout;

static layout by_rows(int64_t rows, int64_t columns) { return (layout){rows, columns, columns, 1, rows * columns}; }
/* Of what lies by columns, `height` numbers from one column to the next. */
static layout by_columns(int64_t rows, int64_t columns, int64_t height, int64_t matrix_step) {
    return (layout){rows, columns, 1, height, matrix_step};
}

/* Stores dense row-major elements. nan: of matrices without a result, else zeros. */
static bt_status store(factor_run *r, layout from, uint64_t x, uint64_t y, int64_t parts, int half, bool nan,
                       bool conjugated) {
    int64_t units = r->of->batch * from.rows * from.columns;
    return LAUNCH(r, STORE, "bti_factor_store", units, 3, y, x, r->arrays.flags, (uint64_t)units,
                  (uint64_t)r->of->batch, (uint64_t)from.rows, (uint64_t)from.columns, (uint64_t)from.row_step,
                  (uint64_t)from.column_step, (uint64_t)from.matrix_step, (uint64_t)parts, (uint64_t)half, nan,
                  conjugated);
}

/* Marks matrices of which one of `count` numbers, `step` apart, is NaN, or infinite if they must be finite. */
static bt_status check(factor_run *r, uint64_t x, int64_t count, int64_t step, int64_t matrix, bool finite) {
    int64_t units = r->of->batch * count;
    return LAUNCH(r, CHECK, "bti_factor_check", units, 2, r->arrays.flags, x, (uint64_t)units, (uint64_t)r->of->batch,
                  (uint64_t)count, (uint64_t)step, (uint64_t)matrix, finite);
}

/* Addresses of all matrices a, and of right sides. */
static bt_status make_pointers(factor_run *r) {
    int64_t batch = r->of->batch, bytes = (int64_t)bt_dtype_size(r->of->dtype);
    bti_gpu_factor_arrays *at = &r->arrays;
    BTI_TRY(bti_gpu_scratch(r->gpu, BTI_GPU_ORDERS, (size_t)(2 * batch) * sizeof(uint64_t), &at->a_pointers));
    at->b_pointers = at->a_pointers + (uint64_t)batch * sizeof(uint64_t);
    return LAUNCH(r, POINTERS, "bti_factor_pointers", batch, 3, at->a_pointers, at->a, at->b, (uint64_t)batch,
                  (uint64_t)(r->of->n * r->of->n * bytes), (uint64_t)(r->of->n * r->of->m * bytes));
}

static bt_status call_library(factor_run *r, bool second) {
    if (r->factor->by_pointers) BTI_TRY(make_pointers(r));
    return r->gpu->driver->factor(r->gpu->device, r->factor->factor, &r->arrays, second);
}

static bt_status find_room(factor_run *r, int slot, int64_t elements, uint64_t *address) {
    return bti_gpu_scratch(r->gpu, slot, (size_t)(r->of->batch * elements) * bt_dtype_size(r->of->dtype), address);
}

/* [rows, columns] of each matrix; `turned`: y lies by columns, or x does. */
static bt_status copy(factor_run *r, uint64_t x, uint64_t y, int64_t rows, int64_t columns, bool turned) {
    bti_operand from = {.dtype = r->of->dtype, .rank = 3, .address = x, .shape = {r->of->batch, rows, columns}};
    bti_operand_make_dense(&from);
    bti_operand to = from;
    to.address = y;
    if (turned) to.stride[1] = 1, to.stride[2] = rows;
    return bti_gpu_work_copy(r->gpu, r->work, &from, &to);
}

/* Two flags of each matrix, which are 0, and one that nobody reads. */
static bt_status make_flags(factor_run *r) {
    const bti_attr zero = {.constant = {0}};
    bool done;
    int64_t count = 2 * r->of->batch + 1;
    BTI_TRY(bti_gpu_scratch(r->gpu, BTI_GPU_COUNTS, (size_t)count * sizeof(int32_t), &r->arrays.flags));
    bti_operand flags = {.dtype = BT_I32, .rank = 1, .address = r->arrays.flags, .shape = {count}};
    bti_operand_make_dense(&flags);
    const bti_work fill = {.op = BTI_OP_const, .output = flags, .attr = &zero};
    return bti_gpu_work_as_kernels(r->gpu, r->work, &fill, &done);
}

/* --- operations -------------------------------------------------------------------------------------------------------- */

static bt_status run_cholesky(factor_run *r) {
    int64_t n = r->of->n;
    BTI_TRY(make_flags(r));
    r->arrays.a = r->at[1];
    BTI_TRY(copy(r, r->at[0], r->at[1], n, n, false));
    BTI_TRY(call_library(r, false));
    BTI_TRY(check(r, r->at[1], n, (n + 1) * r->parts, n * n * r->parts, false));
    return store(r, by_rows(n, n), r->at[1], r->at[1], r->parts, LOWER, true, false);
}

static bt_status find_pivots(factor_run *r) {
    return bti_gpu_scratch(r->gpu, BTI_GPU_KEYS, (size_t)(r->of->batch * r->of->n) * sizeof(int64_t),
                           &r->arrays.pivots);
}

/* One column lies as it does by rows. */
static bt_status run_solve(factor_run *r) {
    int64_t n = r->of->n, m = r->of->m;
    bool turned = m > 1 && n > 1;
    BTI_TRY(make_flags(r));
    BTI_TRY(find_pivots(r));
    BTI_TRY(find_room(r, BTI_GPU_INPUT, n * n, &r->arrays.a));
    r->arrays.b = r->at[2];
    if (turned) BTI_TRY(find_room(r, BTI_GPU_INPUT + 1, n * m, &r->arrays.b));
    BTI_TRY(copy(r, r->at[0], r->arrays.a, n, n, false));
    BTI_TRY(copy(r, r->at[1], r->arrays.b, n, m, turned));
    BTI_TRY(call_library(r, false));
    return turned ? copy(r, r->arrays.b, r->at[2], m, n, true) : BT_OK;
}

static bt_status run_triangle(factor_run *r) {
    r->arrays.a = r->at[0], r->arrays.b = r->at[2];
    BTI_TRY(copy(r, r->at[1], r->at[2], r->of->n, r->of->m, false));
    return call_library(r, false);
}

static bt_status run_determinant(factor_run *r) {
    int64_t n = r->of->n;
    bool logarithm = r->factor->of.kind == BTI_FACTOR_LOG_DETERMINANT;
    BTI_TRY(make_flags(r));
    BTI_TRY(find_pivots(r));
    BTI_TRY(find_room(r, BTI_GPU_INPUT, n * n, &r->arrays.a));
    BTI_TRY(copy(r, r->at[0], r->arrays.a, n, n, false));
    BTI_TRY(call_library(r, false));
    return LAUNCH(r, DETERMINANT, "bti_factor_determinant", r->of->batch, 4, r->at[1], r->at[logarithm ? 2 : 1],
                  r->arrays.a, r->arrays.pivots, (uint64_t)r->of->batch, (uint64_t)n, (uint64_t)r->parts, logarithm,
                  r->factor->by_pointers);
}

static bt_status run_qr(factor_run *r) {
    int64_t m = r->of->m, n = r->of->n, k = r->k;
    BTI_TRY(make_flags(r));
    BTI_TRY(find_room(r, BTI_GPU_INPUT, m * n, &r->arrays.a));
    BTI_TRY(find_room(r, BTI_GPU_KEYS, k, &r->arrays.values));
    BTI_TRY(copy(r, r->at[0], r->arrays.a, m, n, true));
    BTI_TRY(call_library(r, false));
    BTI_TRY(store(r, by_columns(k, n, m, m * n), r->arrays.a, r->at[2], r->parts, UPPER, true, false));
    BTI_TRY(call_library(r, true));
    return store(r, by_columns(m, k, m, m * n), r->arrays.a, r->at[1], r->parts, WHOLE, true, false);
}

/* The numbers of a, all of which must be finite. */
static bt_status check_all(factor_run *r) {
    int64_t count = r->of->m * r->of->n * r->parts;
    BTI_TRY(make_flags(r));
    return check(r, r->at[0], count, 1, count, true);
}

static bt_status store_values(factor_run *r, uint64_t at) {
    return store(r, by_rows(1, r->k), at, at, 1, WHOLE, true, false);
}

/* What lies by columns is the conjugate of a, and so are its vectors. */
static bt_status run_eigh(factor_run *r) {
    int64_t n = r->of->n;
    BTI_TRY(check_all(r));
    BTI_TRY(find_room(r, BTI_GPU_INPUT, n * n, &r->arrays.a));
    r->arrays.values = r->at[1];
    BTI_TRY(store(r, by_rows(n, n), r->at[0], r->arrays.a, r->parts, WHOLE, false, false));
    BTI_TRY(call_library(r, false));
    BTI_TRY(store(r, by_columns(n, n, n, n * n), r->arrays.a, r->at[2], r->parts, WHOLE, true, r->parts == 2));
    return store_values(r, r->at[1]);
}

/* Of a wide a, by columns a^T = v^T s u^T is as long as the library wants it, and its factors are the results. A tall one is turned, and so are they. */
static bt_status run_svd(factor_run *r) {
    int64_t m = r->of->m, n = r->of->n, k = r->k;
    bool tall = m > n;
    BTI_TRY(check_all(r));
    BTI_TRY(find_room(r, BTI_GPU_INPUT, m * n, &r->arrays.a));
    r->arrays.u = r->at[3], r->arrays.v = r->at[1], r->arrays.values = r->at[2];
    if (tall) {
        BTI_TRY(find_room(r, BTI_GPU_INPUT + 1, m * k, &r->arrays.u));
        BTI_TRY(find_room(r, BTI_GPU_INPUT + 2, k * k, &r->arrays.v));
    }
    BTI_TRY(store(r, tall ? by_columns(n, m, n, m * n) : by_rows(m, n), r->at[0], r->arrays.a, r->parts, WHOLE, false,
                  false));
    BTI_TRY(call_library(r, false));
    layout u = tall ? by_columns(m, k, m, m * k) : by_rows(m, k), v = tall ? by_columns(k, n, k, k * n) : by_rows(k, n);
    BTI_TRY(store(r, u, tall ? r->arrays.u : r->at[1], r->at[1], r->parts, WHOLE, true, false));
    BTI_TRY(store(r, v, tall ? r->arrays.v : r->at[3], r->at[3], r->parts, WHOLE, true, false));
    return store_values(r, r->at[2]);
}

/* The text first: a launch that lacks it is repeated. */
bt_status bti_gpu_factor_launch(bti_gpu *gpu, const bti_gpu_factor *factor, bti_gpu_work *work,
                                const uint64_t *addresses) {
    static bt_status (*const runs[BTI_FACTOR_KINDS])(factor_run *) = {[BTI_FACTOR_CHOLESKY] = run_cholesky,
                                                                      [BTI_FACTOR_SOLVE] = run_solve,
                                                                      [BTI_FACTOR_TRIANGLE] = run_triangle,
                                                                      [BTI_FACTOR_DETERMINANT] = run_determinant,
                                                                      [BTI_FACTOR_LOG_DETERMINANT] = run_determinant,
                                                                      [BTI_FACTOR_QR] = run_qr,
                                                                      [BTI_FACTOR_EIGH] = run_eigh,
                                                                      [BTI_FACTOR_SVD] = run_svd};
    factor_run r = {.gpu = gpu,
                    .factor = factor,
                    .work = work,
                    .of = &factor->of.of,
                    .at = addresses,
                    .k = bti_matrices_smaller_side(&factor->of.of),
                    .parts = bti_dtype_is_complex(factor->of.of.dtype) ? 2 : 1};
    bool needs_text =
        factor->by_pointers || (factor->of.kind != BTI_FACTOR_SOLVE && factor->of.kind != BTI_FACTOR_TRIANGLE);
    if (needs_text) BTI_TRY(bti_gpu_work_module(gpu, work, 0, &r.module));
    return runs[factor->of.kind](&r);
}

#include "drivers/cpu/product/product.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "base/error.h"
#include "base/cores.h"
#include "drivers/cpu/copy.h"
#include "drivers/cpu/product/line.h"
#include "drivers/cpu/product/onednn.h"
#include "drivers/cpu/product/openblas.h"
#include "drivers/cpu/product/tile.h"
#include "ir/dtype.h"
#include "reference/operand.h"

/* Multiplications: below SMALL our own loops are faster than a library; PIECE of them are worth a core of their own, of a matrix with
 * vectors LINE_PIECE. */
enum { SMALL = 16384, PIECE = 1 << 20, LINE_PIECE = 1 << 18 };
/* Vectors that a matrix is read for by lines, of float32 and float64 and of others, and the least length of its lines. */
enum { FEW = 4, FEW_ALONE = 8, LINE_DEPTH = 64 };
enum { WIDEN_DEPTH = 1024 }; /* of k: float16 and bfloat16 are widened to float32 in runs of it */
enum {
    MOST_OF_BYTES = 1 << 16
}; /* of k: so many products of bytes do not leave int32 in any order, whatever a library adds to them */

typedef struct product product;
/* One tile: a of m x k, b of k x n. */
typedef bt_status tile_function(const product *p, int64_t m, int64_t n, bti_matrix a, bti_matrix b, bti_matrix out);

struct product {
    bt_dtype dtype, left, right; /* of out, a, b: they differ in products of bytes, whose dtype is int32 */
    bti_target target;
    tile_function *multiply;
    int64_t m, n, k, size, in_size; /* of an element of out, and of a and b, in bytes */
    bti_matrix a, b, out;
    bool a_transposed, b_transposed; /* for libraries: which axis has unit stride */
    bti_walk batches;                /* of out, a, b */
    int64_t batch_count;
    int64_t tile_rows, tile_columns, tiles_across, tiles; /* of a batch */
    atomic_int status;
};

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* --- one tile, by a library or by our own loops ------------------------------------------------------------------- */

static bti_blas_matrix blas_matrix(const bti_matrix *matrix, bool transposed, int64_t size) {
    return (bti_blas_matrix){matrix->at, transposed, (transposed ? matrix->column : matrix->row) / size};
}

static bt_status own_tile(const product *p, int64_t m, int64_t n, bti_matrix a, bti_matrix b, bti_matrix out) {
    _Alignas(64) char few[16384];
    size_t bytes = bti_tile_scratch(p->dtype, m, n, p->k);
    char *scratch = bytes <= sizeof few ? few : bti_alloc_aligned(64, bytes);
    if (!scratch) return BT_RESOURCE_EXHAUSTED;
    bti_tile_multiply(p->target, p->dtype, m, n, p->k, a, b, out, scratch);
    if (scratch != few) bti_free(scratch);
    return BT_OK;
}

/* By whichever of the two has fewer vectors: the columns of b, or the rows of a. */
static bti_line_task line_task(const product *p, int64_t m, int64_t n, bti_matrix a, bti_matrix b, bti_matrix out) {
    bti_line_task t = {.target = p->target, .dtype = p->dtype, .vectors = n, .count = m, .depth = p->k};
    t.matrix = a, t.x = (bti_matrix){b.at, b.column, b.row}, t.out = (bti_matrix){out.at, out.column, out.row};
    if (p->n <= p->m) return t;
    t.vectors = m, t.count = n, t.matrix = t.x, t.x = a, t.out = out;
    return t;
}

static bt_status line_tile(const product *p, int64_t m, int64_t n, bti_matrix a, bti_matrix b, bti_matrix out) {
    bti_line_task task = line_task(p, m, n, a, b, out);
    return bti_line_multiply(&task);
}

static bool is_of_bytes(const product *p) { return p->left != p->dtype; }

/* A tile that was cut for a library. */
static bt_status own_tiles(const product *p, int64_t m, int64_t n, bti_matrix a, bti_matrix b, bti_matrix out) {
    bt_status status = BT_OK;
    for (int64_t i = 0; i < m; i += BTI_TILE_ROWS)
        for (int64_t j = 0; j < n && status == BT_OK; j += BTI_TILE_COLUMNS)
            status = own_tile(p, bti_smaller_of(m - i, BTI_TILE_ROWS), bti_smaller_of(n - j, BTI_TILE_COLUMNS),
                              bti_matrix_part(&a, i, 0), bti_matrix_part(&b, 0, j), bti_matrix_part(&out, i, j));
    return status;
}

/* The lines of a matrix of bytes as int32, one after the other. */
static bti_matrix widen_bytes(const product *p, bt_dtype dtype, const bti_matrix *from, int64_t rows, int64_t columns,
                              char *to) {
    for (int64_t i = 0; i < rows; i++)
        bti_tile_read(p->target, dtype, to + i * columns * 4, 4, from->at + i * from->row, from->column, columns);
    return (bti_matrix){to, columns * 4, 4};
}

static bt_status widened_bytes(const product *p, int64_t m, int64_t n, bti_matrix a, bti_matrix b, bti_matrix out) {
    char *scratch = bti_alloc_aligned(64, (size_t)((m + n) * p->k) * 4);
    if (!scratch) return BT_RESOURCE_EXHAUSTED;
    bt_status status = own_tiles(p, m, n, widen_bytes(p, p->left, &a, m, p->k, scratch),
                                 widen_bytes(p, p->right, &b, p->k, n, scratch + m * p->k * 4), out);
    bti_free(scratch);
    return status;
}

static bt_status bytes_tile(const product *p, int64_t m, int64_t n, bti_matrix a, bti_matrix b, bti_matrix out) {
    bti_blas_matrix left = blas_matrix(&a, p->a_transposed, 1), right = blas_matrix(&b, p->b_transposed, 1),
                    to = blas_matrix(&out, 0, 4);
    return bti_onednn_bytes_gemm(p->left == BT_U8, m, n, p->k, &left, &right, &to);
}

/* On AVX2 oneDNN (measured: 2.6.3) multiplies tiles of few rows or columns without packing its operands first. If it goes through one with a stride of a
 * multiple of 2 KiB, all that it reads falls into a few sets of the first cache, and it takes twice as long. */
enum { CONFLICT = 2048, LINES_APART = 16, WORTH_A_COPY = 32, MOST_APART = 8 << 20 };

static bool is_read_in_place(const product *p, int64_t m, int64_t n) {
    return p->target == BTI_LLVM_AVX2 && m >= WORTH_A_COPY && n >= WORTH_A_COPY &&
           1.0 / (double)m + 1.0 / (double)n >= 0.0038;
}

/* Of an operand whose rows in memory are those of k, `length` elements each: how many floats it takes where its strides conflict. */
static int64_t room_apart(const product *p, bool in_place, const bti_blas_matrix *x, int64_t length) {
    int64_t room = p->k * (length + LINES_APART);
    return in_place && x->leading * 4 % CONFLICT == 0 && room <= MOST_APART ? room : 0;
}

static void move_apart(const product *p, bti_blas_matrix *x, int64_t length, char *to) {
    for (int64_t i = 0; i < p->k; i++)
        memcpy(to + i * (length + LINES_APART) * 4, x->at + i * x->leading * 4, (size_t)length * 4);
    x->at = to;
    x->leading = length + LINES_APART;
}

static bt_status f32_tile(const product *p, int64_t m, int64_t n, bti_matrix a, bti_matrix b, bti_matrix out) {
    bti_blas_matrix left = blas_matrix(&a, p->a_transposed, 4), right = blas_matrix(&b, p->b_transposed, 4),
                    to = blas_matrix(&out, 0, 4);
    bool in_place = is_read_in_place(p, m, n);
    int64_t left_room = room_apart(p, in_place && p->a_transposed, &left, m),
            right_room = room_apart(p, in_place && !p->b_transposed, &right, n);
    char *scratch = left_room + right_room ? bti_alloc_aligned(64, (size_t)(left_room + right_room) * 4) : NULL;
    if (scratch && left_room) move_apart(p, &left, m, scratch); /* without memory it takes longer */
    if (scratch && right_room) move_apart(p, &right, n, scratch + left_room * 4);
    bt_status status = bti_onednn_sgemm(m, n, p->k, &left, &right, &to, false);
    bti_free(scratch);
    return status;
}

static bt_status f64_tile(const product *p, int64_t m, int64_t n, bti_matrix a, bti_matrix b, bti_matrix out) {
    bti_blas_matrix left = blas_matrix(&a, p->a_transposed, 8), right = blas_matrix(&b, p->b_transposed, 8),
                    to = blas_matrix(&out, 0, 8);
    return bti_openblas_dgemm(m, n, p->k, &left, &right, &to);
}

static bt_status bf16_tile(const product *p, int64_t m, int64_t n, bti_matrix a, bti_matrix b, bti_matrix out) {
    bti_blas_matrix left = blas_matrix(&a, p->a_transposed, 2), right = blas_matrix(&b, p->b_transposed, 2),
                    to = blas_matrix(&out, 0, 2);
    return bti_onednn_bf16_gemm(m, n, p->k, &left, &right, &to);
}

/* Widens float16 or bfloat16 to float32; the contiguous axis stays the contiguous one. */
static bti_blas_matrix widen_matrix(const product *p, const bti_matrix *from, bool transposed, int64_t rows,
                                    int64_t columns, char *to) {
    int64_t lines = transposed ? columns : rows, length = transposed ? rows : columns;
    int64_t line_step = transposed ? from->column : from->row;
    for (int64_t i = 0; i < lines; i++)
        bti_tile_read(p->target, p->dtype, to + i * length * 4, 4, from->at + i * line_step, 2, length);
    return (bti_blas_matrix){to, transposed, length};
}

static bt_status widened_tile(const product *p, int64_t m, int64_t n, bti_matrix a, bti_matrix b, bti_matrix out) {
    int64_t depth = bti_smaller_of(p->k, WIDEN_DEPTH);
    char *scratch = bti_alloc_aligned(64, (size_t)(m * depth + depth * n + m * n) * 4);
    if (!scratch) return BT_RESOURCE_EXHAUSTED;
    char *b_scratch = scratch + m * depth * 4, *sums = b_scratch + depth * n * 4;
    bti_blas_matrix to = {sums, false, n};
    bt_status status = BT_OK;
    for (int64_t k = 0; k < p->k && status == BT_OK; k += depth) {
        int64_t run = bti_smaller_of(p->k - k, depth);
        bti_matrix left = bti_matrix_part(&a, 0, k), right = bti_matrix_part(&b, k, 0);
        bti_blas_matrix wide_a = widen_matrix(p, &left, p->a_transposed, m, run, scratch);
        bti_blas_matrix wide_b = widen_matrix(p, &right, p->b_transposed, run, n, b_scratch);
        status = bti_onednn_sgemm(m, n, run, &wide_a, &wide_b, &to, k > 0);
    }
    for (int64_t i = 0; i < m && status == BT_OK; i++)
        bti_tile_write(p->dtype, out.at + i * out.row, out.column, sums + i * n * 4, n);
    bti_free(scratch);
    return status;
}

static bool fits_int(const product *p) {
    const bti_matrix *all[] = {&p->a, &p->b, &p->out};
    for (int i = 0; i < 3; i++)
        if (all[i]->row / p->size > INT32_MAX || all[i]->column / p->size > INT32_MAX) return false;
    return p->m <= INT32_MAX && p->n <= INT32_MAX && p->k <= INT32_MAX;
}

/* m * n cannot overflow: the output has so many elements. */
static bool is_small(const product *p) { return p->m * p->n <= SMALL && p->m * p->n * p->k <= SMALL; }

/* By lines go products with one vector, if they are small or of a type without a library, and those with a few vectors that read whole
 * lines of the matrix along k. Measured with 2 cores, 1024 x 1024 of float32: with one vector as fast as a library, with 2 three times, with 4 twice; of
 * bfloat16 with 8 vectors 1.7 times. */
static bool is_by_lines(const product *p) {
    int64_t vectors = bti_smaller_of(p->m, p->n);
    if (!p->k || !bti_line_has(p->dtype)) return false;
    bool library = p->dtype == BT_F32 || p->dtype == BT_F64;
    if (vectors == 1 && (!library || is_small(p))) return true;
    if (vectors > (library ? FEW : FEW_ALONE) || is_small(p) || p->k < LINE_DEPTH) return false;
    bti_line_task task = line_task(p, p->m, p->n, p->a, p->b, p->out);
    return task.matrix.column == p->size;
}

static tile_function *choose_function(const product *p) {
    if (is_of_bytes(p) && p->k) {
        bool library = !is_small(p) && p->k <= MOST_OF_BYTES && p->right == BT_I8;
        return library && bti_onednn_has_bytes() ? bytes_tile : widened_bytes;
    }
    if (is_by_lines(p)) return line_tile;
    if (is_small(p) || p->k == 0 || !bti_dtype_is_float(p->dtype)) return own_tile;
    if (p->dtype == BT_F64) return bti_openblas_available() && fits_int(p) ? f64_tile : own_tile;
    if (!bti_dnnl_open()) return own_tile;
    if (p->dtype == BT_F32) return f32_tile;
    return p->dtype == BT_BF16 && bti_onednn_has_bf16() ? bf16_tile : widened_tile;
}

/* --- tiles -------------------------------------------------------------------------------------------------------- */

/* Halves the longer side until there are enough tiles for the cores, or they get too small: the library packs its operands once per
 * tile. Sides are multiples of 16, that is of vectors and of the libraries' own blocks. */
static void choose_tile(int64_t m, int64_t n, int64_t k, int64_t *tile_rows, int64_t *tile_columns) {
    int64_t rows = m, columns = n;
    double work = (double)rows * (double)columns * (double)k;
    int64_t goal = work < 32.0 * PIECE ? 2 : work < 2048.0 * PIECE ? 4 : 8;
    while ((ceil_div(m, rows) * ceil_div(n, columns) < goal && work >= 2.0 * PIECE) || rows * columns > 1 << 20) {
        if (rows <= 64 && columns <= 128) break;
        if (rows > 64 && (rows > columns || columns <= 128))
            rows = ceil_div(ceil_div(rows, 2), 16) * 16;
        else
            columns = ceil_div(ceil_div(columns, 2), 16) * 16;
        work = (double)rows * (double)columns * (double)k;
    }
    *tile_rows = rows, *tile_columns = columns;
}

static void cut_for_lines(product *p) {
    bti_line_task task = line_task(p, p->m, p->n, p->a, p->b, p->out);
    int64_t tile = bti_line_tile(&task);
    p->tile_rows = p->n <= p->m ? tile : p->m, p->tile_columns = p->n <= p->m ? p->n : tile;
}

static void cut_into_tiles(product *p) {
    if (p->multiply == line_tile)
        cut_for_lines(p);
    else if (p->multiply == own_tile)
        p->tile_rows = bti_smaller_of(p->m, BTI_TILE_ROWS), p->tile_columns = bti_smaller_of(p->n, BTI_TILE_COLUMNS);
    else
        choose_tile(p->m, p->n, p->k, &p->tile_rows, &p->tile_columns);
    p->tiles_across = ceil_div(p->n, p->tile_columns);
    p->tiles = ceil_div(p->m, p->tile_rows) * p->tiles_across;
}

static bt_status run_tile(const product *p, tile_function *multiply, int64_t number) {
    int64_t batch = number / p->tiles, tile = number % p->tiles;
    int64_t row = tile / p->tiles_across * p->tile_rows, column = tile % p->tiles_across * p->tile_columns;
    const bti_walk *walk = &p->batches;
    bti_matrix out = p->out, a = p->a, b = p->b;
    int64_t i = batch % walk->length;
    out.at += i * walk->step[0], a.at += i * walk->step[1], b.at += i * walk->step[2];
    batch /= walk->length;
    for (int axis = walk->axes - 1; axis >= 0; axis--, batch /= walk->shape[axis + 1]) {
        i = batch % walk->shape[axis];
        out.at += i * walk->stride[0][axis], a.at += i * walk->stride[1][axis], b.at += i * walk->stride[2][axis];
    }
    return multiply(p, bti_smaller_of(p->m - row, p->tile_rows), bti_smaller_of(p->n - column, p->tile_columns),
                    bti_matrix_part(&a, row, 0), bti_matrix_part(&b, 0, column), bti_matrix_part(&out, row, column));
}

static void run_range_of_tiles(product *p, tile_function *multiply, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
        bt_status status = run_tile(p, multiply, i);
        if (status != BT_OK) atomic_store(&p->status, (int)status);
    }
}

static void run_tiles(void *context, int64_t begin, int64_t end) {
    static bti_library_calls calls[BT_DTYPE_COUNT];
    product *p = context;
    bti_guest guest;
    if (p->multiply == own_tile || p->multiply == line_tile || p->multiply == widened_bytes) {
        run_range_of_tiles(p, p->multiply, begin, end);
    } else if (!bti_library_visit(&calls[p->dtype], &guest)) {
        run_range_of_tiles(p, is_of_bytes(p) ? widened_bytes : own_tiles, begin, end);
    } else {
        run_range_of_tiles(p, p->multiply, begin, end);
        bti_library_part(&guest);
    }
}

/* --- operands ----------------------------------------------------------------------------------------------------- */

/* Whether a library can read the matrix in place; sets which axis is contiguous. Steps along an axis of one element are set to those
 * of a dense matrix. */
static bool is_blas_matrix(bti_matrix *matrix, int64_t rows, int64_t columns, int64_t size, bool *transposed) {
    if (columns == 1 && rows == 1) matrix->row = matrix->column = size;
    *transposed = columns > 1 && matrix->column != size;
    int64_t *unit = *transposed ? &matrix->row : &matrix->column,
            *leading = *transposed ? &matrix->column : &matrix->row;
    int64_t length = *transposed ? rows : columns, lines = *transposed ? columns : rows;
    if (length == 1) *unit = size;
    if (lines == 1) *leading = length * size;
    return *unit == size && *leading % size == 0 && *leading / size >= length;
}

/* Replaces the operand by a dense copy in scratch memory; repeated batch axes stay repeated. */
static bt_status make_dense(bti_operand *operand, bool keep, void **scratch) {
    bti_operand from = *operand, to = *operand;
    int64_t count = 1;
    size_t bytes;
    for (int axis = operand->rank - 1; axis >= 0; axis--) {
        bool repeats = axis < operand->rank - 2 && operand->stride[axis] == 0;
        if (repeats) from.shape[axis] = to.shape[axis] = 1;
        operand->stride[axis] = to.stride[axis] = repeats ? 0 : count;
        if (!repeats) count *= operand->shape[axis];
    }
    if (!bti_mul_size((size_t)count, bt_dtype_size(operand->dtype), &bytes) ||
        !(*scratch = bti_alloc_aligned(64, bytes)))
        return bti_no_memory();
    operand->address = to.address = (uint64_t)(uintptr_t)*scratch;
    if (keep) bti_cpu_copy(&to, &from);
    return BT_OK;
}

static bti_matrix last_two_axes(const bti_operand *operand) {
    return (bti_matrix){bti_address(operand), bti_axis_step(operand, operand->rank - 2),
                        bti_axis_step(operand, operand->rank - 1)};
}

typedef struct operands {
    bti_operand out, a, b;
    void *scratch[3];
} operands;

/* A batch of products by one matrix is one product, if the rows of all matrices follow one another. */
static void join_batches(product *p) {
    const bti_walk *walk = &p->batches;
    if (walk->axes || walk->length == 1 || walk->step[2] != 0) return;
    if (walk->step[1] != p->m * p->a.row || walk->step[0] != p->m * p->out.row) return;
    p->m *= walk->length;
    p->batch_count = 1;
    p->batches.length = 1;
}

static void read_operands(product *p, const operands *o) {
    int rank = o->out.rank;
    p->a = last_two_axes(&o->a), p->b = last_two_axes(&o->b), p->out = last_two_axes(&o->out);
    p->m = o->out.shape[rank - 2], p->n = o->out.shape[rank - 1], p->k = o->a.shape[rank - 1];
    bti_walk_start(&p->batches, rank - 2, o->out.shape, 3, (const bti_operand *[]){&o->out, &o->a, &o->b});
    p->batch_count = p->batches.length;
    for (int axis = 0; axis < p->batches.axes; axis++) p->batch_count *= p->batches.shape[axis];
    join_batches(p);
}

static bt_status prepare_product(product *p, operands *o) {
    bool a_good, b_good, out_good, transposed;
    read_operands(p, o);
    p->multiply = choose_function(p);
    if (p->multiply == own_tile || p->multiply == widened_bytes) return BT_OK;
    if (p->multiply == line_tile) {
        bti_line_task task = line_task(p, p->m, p->n, p->a, p->b, p->out);
        if (bti_line_is_readable(&task)) return BT_OK;
        BTI_TRY(make_dense(p->n <= p->m ? &o->a : &o->b, true, &o->scratch[0]));
        return prepare_product(p, o);
    }
    a_good = is_blas_matrix(&p->a, p->m, p->k, p->in_size, &p->a_transposed);
    b_good = is_blas_matrix(&p->b, p->k, p->n, p->in_size, &p->b_transposed);
    out_good = is_blas_matrix(&p->out, p->m, p->n, p->size, &transposed) && !transposed;
    if (a_good && b_good && out_good) return BT_OK;
    if (!a_good) BTI_TRY(make_dense(&o->a, true, &o->scratch[0]));
    if (!b_good) BTI_TRY(make_dense(&o->b, true, &o->scratch[1]));
    if (!out_good) BTI_TRY(make_dense(&o->out, false, &o->scratch[2]));
    return prepare_product(p, o);
}

bt_status bti_product(const bti_work *work) {
    operands o = {work->output, work->inputs[0], work->inputs[1], {NULL}};
    product p = {.dtype = o.out.dtype,
                 .left = o.a.dtype,
                 .right = o.b.dtype,
                 .target = bti_cpu_target(),
                 .size = (int64_t)bt_dtype_size(o.out.dtype),
                 .in_size = (int64_t)bt_dtype_size(o.a.dtype)};
    for (int axis = 0; axis < o.out.rank; axis++)
        if (o.out.shape[axis] == 0) return BT_OK;
    bt_status status = prepare_product(&p, &o);
    if (status == BT_OK) {
        cut_into_tiles(&p);
        double each = (double)p.tile_rows * (double)p.tile_columns * (double)(p.k + 1);
        double piece = p.multiply == line_tile ? LINE_PIECE : PIECE;
        int64_t grain = each < piece ? (int64_t)(piece / each) : 1;
        bti_parallel(p.batch_count * p.tiles, grain, run_tiles, &p);
        status = (bt_status)atomic_load(&p.status);
        if (status != BT_OK)
            status =
                bti_fail(status, "a product of %lld x %lld x %lld: %s", (long long)p.m, (long long)p.k, (long long)p.n,
                         status == BT_RESOURCE_EXHAUSTED ? "no memory for scratch" : "oneDNN fails");
        else if (o.scratch[2])
            bti_cpu_copy(&work->output, &o.out);
    }
    for (int i = 0; i < 3; i++) bti_free(o.scratch[i]);
    return status;
}

void bti_product_look(bti_product_state *state, bool attempt) {
    if (attempt) (void)bti_dnnl_open(), (void)bti_openblas_available();
    bti_dnnl_state(&state->onednn, &state->primitives);
    bti_openblas_state(&state->openblas);
}

void bti_product_use(const char *const *onednn, const char *const *openblas) {
    bti_dnnl_use(onednn);
    bti_openblas_use(openblas);
}

#include "drivers/cpu/attention/block.h"

#include <math.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "drivers/cpu/product/openblas.h"
#include "reference/classes.h"

/* Of causal blocks the keys up to those of the last row are computed for all rows. Rows of a line of keys are a little apart: at 2 KiB, or a multiple, oneDNN reads them at half the speed (product/product.c). */
enum { BLOCK_ROWS = 128, CAUSAL_ROWS = 64, BLOCK_KEYS = 1024, APART = 16, FEW_ROWS = 4, ALIGN = 64 };
/* Multiplications of a product that is worth a library; of a piece of work that is worth a core. */
enum { WORTH_LIBRARY = 1 << 15, WORTH_CORE = 1 << 17 };

void bti_attention_cut(bti_attention_run *run) {
    const bti_attention *a = &run->a;
    int64_t wide = bti_larger_of(a->depth, a->value_depth);
    run->block_rows = bti_smaller_of(a->rows, a->reads == BTI_READS_ALL ? BLOCK_ROWS : CAUSAL_ROWS);
    run->block_keys = bti_smaller_of(a->keys, BLOCK_KEYS);
    run->line = (run->block_keys + APART - 1) / APART * APART + APART;
    int64_t longest = bti_larger_of(run->block_rows, run->block_keys);
    run->spare = bti_larger_of(run->line, longest * wide) * run->size +
                 (int64_t)bti_tile_scratch(run->dtype, longest, longest, bti_larger_of(wide, longest));
}

int64_t bti_attention_grain(const bti_attention_run *run, int64_t rows) {
    double each = (double)rows * (double)run->a.keys * (double)(run->a.depth + run->a.value_depth + 1);
    return each < WORTH_CORE ? (int64_t)(WORTH_CORE / (each + 1)) + 1 : 1;
}

/* --- threads --------------------------------------------------------------------------------------------------------- */

static int64_t aligned(int64_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

bool bti_attention_begin(bti_attention_thread *t, bti_attention_run *run, int64_t stats) {
    static bti_library_calls calls[2];
    int64_t scores = aligned(run->block_rows * run->line * run->size), slopes = run->a.is_gradient ? scores : 0;
    *t = (bti_attention_thread){.run = run};
    t->memory =
        bti_alloc_aligned(ALIGN, (size_t)(scores + slopes + aligned(run->spare) + stats * (int64_t)sizeof(double)));
    if (!t->memory) {
        atomic_store(&run->status, BT_RESOURCE_EXHAUSTED);
        return false;
    }
    t->scores = t->memory, t->slopes = t->memory + scores, t->spare = t->slopes + slopes;
    t->stats = (double *)(void *)(t->spare + aligned(run->spare));
    bool worth = run->block_rows * run->block_keys * run->a.depth >= WORTH_LIBRARY && run->block_rows > FEW_ROWS;
    bool available = run->dtype == BT_F32 ? bti_dnnl_open() : bti_openblas_available();
    t->by_library = worth && available && bti_library_visit(&calls[run->dtype == BT_F64], &t->guest);
    return true;
}

void bti_attention_end(bti_attention_thread *t) {
    if (t->by_library) bti_library_part(&t->guest);
    bti_free(t->memory);
}

/* --- products -------------------------------------------------------------------------------------------------------- */

bti_matrix bti_attention_rows(const bti_attention_run *run, const bti_operand *x, int64_t n, int64_t h, int64_t i) {
    int64_t at = n * x->stride[0] + h * x->stride[1] + i * x->stride[2];
    return (bti_matrix){bti_address(x) + at * run->size, x->stride[2] * run->size, run->size};
}

static void add_rows(const bti_attention_run *run, int64_t m, int64_t n, bti_matrix c, const char *from) {
    for (int64_t i = 0; i < m; i++)
        bti_add_line(run->dtype, c.at + i * c.row, run->size, from + i * n * run->size, run->size, n);
}

/* One after the other, each with the whole of b. */
static void multiply_rows(const bti_attention_thread *t, int64_t m, int64_t n, int64_t k, bti_matrix a, bti_matrix b,
                          bti_matrix c, bool add) {
    const bti_attention_run *run = t->run;
    const bti_line_loops *loops = &bti_vector_code_of(run->target)->lines[run->dtype];
    bool along = b.row == run->size;
    bti_line_product p = {.matrix = b.at, .line = along ? b.column : b.row, .count = n, .depth = k};
    for (int64_t i = 0; i < m; i++) {
        p.x = a.at + i * a.row, p.out = add ? t->spare : c.at + i * c.row;
        (along ? loops->along : loops->across)(&p);
        if (add) bti_add_line(run->dtype, c.at + i * c.row, run->size, t->spare, run->size, n);
    }
}

static void multiply_tiles(const bti_attention_thread *t, int64_t m, int64_t n, int64_t k, bti_matrix a, bti_matrix b,
                           bti_matrix c, char *scratch) {
    for (int64_t i = 0; i < m; i += BTI_TILE_ROWS)
        for (int64_t j = 0; j < n; j += BTI_TILE_COLUMNS)
            bti_tile_multiply(t->run->target, t->run->dtype, bti_smaller_of(m - i, BTI_TILE_ROWS),
                              bti_smaller_of(n - j, BTI_TILE_COLUMNS), k, bti_matrix_part(&a, i, 0),
                              bti_matrix_part(&b, 0, j), bti_matrix_part(&c, i, j), scratch);
}

/* Of one row (or column) any distance to the next will do. */
static bti_blas_matrix blas_matrix(const bti_attention_run *run, bti_matrix x, int64_t rows, int64_t columns) {
    bool transposed = x.column != run->size;
    int64_t length = transposed ? rows : columns, leading = (transposed ? x.column : x.row) / run->size;
    return (bti_blas_matrix){x.at, transposed, bti_larger_of(leading, length)};
}

void bti_attention_multiply(bti_attention_thread *t, int64_t m, int64_t n, int64_t k, bti_matrix a, bti_matrix b,
                            bti_matrix c, bool add) {
    bti_attention_run *run = t->run;
    bt_status status = BT_OK;
    if (!m || !n || !k) return;
    if (m <= FEW_ROWS && a.column == run->size) {
        multiply_rows(t, m, n, k, a, b, c, add);
        return;
    }
    bti_blas_matrix x = blas_matrix(run, a, m, k), y = blas_matrix(run, b, k, n), z = blas_matrix(run, c, m, n);
    if (t->by_library && run->dtype == BT_F32) {
        status = bti_onednn_sgemm(m, n, k, &x, &y, &z, add);
    } else {
        char *sum = t->spare, *scratch = t->spare + (add ? m * n * run->size : 0);
        bti_matrix to = add ? (bti_matrix){sum, n * run->size, run->size} : c;
        bti_blas_matrix made = blas_matrix(run, to, m, n);
        if (t->by_library)
            status = bti_openblas_dgemm(m, n, k, &x, &y, &made);
        else
            multiply_tiles(t, m, n, k, a, b, to, scratch);
        if (add) add_rows(run, m, n, c, sum);
    }
    if (status != BT_OK) atomic_store(&run->status, (int)status);
}

/* --- rows ------------------------------------------------------------------------------------------------------------ */

double bti_attention_mask_row(const bti_attention_run *run, char *row, int64_t n, int64_t h, int64_t i, int64_t j,
                              int64_t count) {
    const bti_attention *a = &run->a;
    const bti_operand *m = &a->mask;
    if (!a->has_mask && a->scale >= 0) return a->scale;
    run->loops->scale(row, count, a->scale);
    if (!a->has_mask) return 1;
    int64_t step = m->stride[3], at = n * m->stride[0] + h * m->stride[1] + i * m->stride[2] + j * step;
    const void *mask = bti_address(m) + at * (int64_t)bt_dtype_size(m->dtype);
    float *f32 = (float *)(void *)row;
    double *f64 = (double *)(void *)row;
    bool is_f32 = run->dtype == BT_F32;
    if (m->dtype == BT_BOOL && is_f32)
        for (int64_t c = 0; c < count; c++) f32[c] = ((const uint8_t *)mask)[c * step] ? f32[c] : -INFINITY;
    else if (m->dtype == BT_BOOL)
        for (int64_t c = 0; c < count; c++) f64[c] = ((const uint8_t *)mask)[c * step] ? f64[c] : -INFINITY;
    else if (is_f32)
        for (int64_t c = 0; c < count; c++) f32[c] += ((const float *)mask)[c * step];
    else
        for (int64_t c = 0; c < count; c++) f64[c] += ((const double *)mask)[c * step];
    return 1;
}

void bti_attention_clear(const bti_attention_run *run, const bti_operand *x, int64_t n, int64_t h, int64_t from,
                         int64_t count) {
    bti_matrix rows = bti_attention_rows(run, x, n, h, from);
    for (int64_t i = 0; i < count; i++) memset(rows.at + i * rows.row, 0, (size_t)(x->shape[3] * run->size));
}

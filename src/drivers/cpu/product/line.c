#include "drivers/cpu/product/line.h"

#include "base/alloc.h"
#include "base/compare.h"
#include "drivers/cpu/target.h"
#include "drivers/cpu/vector/vector.h"

/* Multiplications of a tile; elements of a tile at least, where lines of the matrix lie along k, and where they lie across; bytes of the matrix that
 * all vectors are multiplied with before the next. */
enum { TILE = 1 << 18, ALONG_LEAST = 16, ACROSS_LEAST = 512, BLOCK = 64 << 10 };

static int64_t real_size(bt_dtype dtype) { return bt_dtype_size(dtype) == 8 ? 8 : 4; }
static bool is_real(bt_dtype dtype) { return (int64_t)bt_dtype_size(dtype) == real_size(dtype); }

bool bti_line_has(bt_dtype dtype) { return bti_vector_base.lines[dtype].along != NULL; }

static bool is_along(const bti_line_task *t) {
    return t->depth == 1 || t->matrix.column == (int64_t)bt_dtype_size(t->dtype);
}

bool bti_line_is_readable(const bti_line_task *t) {
    return is_along(t) || t->count == 1 || t->matrix.row == (int64_t)bt_dtype_size(t->dtype);
}

int64_t bti_line_tile(const bti_line_task *t) {
    int64_t least = is_along(t) ? ALONG_LEAST : ACROSS_LEAST;
    return bti_smaller_of(t->count, bti_larger_of(TILE / (t->depth * t->vectors), least));
}

/* Elements of the vectors and of the result that need room, to be contiguous and of the type that is computed in. */
static int64_t x_room(const bti_line_task *t) {
    bool in_place = is_real(t->dtype) && (t->depth == 1 || t->x.column == real_size(t->dtype));
    return in_place ? 0 : t->vectors * t->depth;
}
static int64_t out_room(const bti_line_task *t) {
    bool in_place = is_real(t->dtype) && (t->count == 1 || t->out.column == real_size(t->dtype));
    return in_place ? 0 : t->count;
}

static void multiply_block(const bti_line_task *t, bti_line_product *p, int64_t from, int64_t count) {
    const bti_line_loops *loops = &bti_vector_code_of(t->target)->lines[t->dtype];
    p->matrix = t->matrix.at + from * t->matrix.row;
    p->line = is_along(t) ? t->matrix.row : t->matrix.column;
    p->count = count;
    (is_along(t) ? loops->along : loops->across)(p);
}

static void multiply(const bti_line_task *t, char *x, char *out) {
    int64_t size = real_size(t->dtype), row = t->depth * (int64_t)bt_dtype_size(t->dtype);
    int64_t block = t->vectors == 1 ? t->count : bti_larger_of(BLOCK / row, ALONG_LEAST);
    for (int64_t v = 0; v < t->vectors && x; v++)
        bti_tile_read(t->target, t->dtype, x + v * t->depth * size, size, t->x.at + v * t->x.row, t->x.column,
                      t->depth);
    for (int64_t from = 0; from < t->count; from += block)
        for (int64_t v = 0; v < t->vectors; v++) {
            int64_t count = bti_smaller_of(t->count - from, block);
            char *to = t->out.at + v * t->out.row + from * t->out.column;
            bti_line_product p = {
                .depth = t->depth, .x = x ? x + v * t->depth * size : t->x.at + v * t->x.row, .out = out ? out : to};
            multiply_block(t, &p, from, count);
            if (out) bti_tile_write(t->dtype, to, t->out.column, out, count);
        }
}

bt_status bti_line_multiply(const bti_line_task *t) {
    _Alignas(64) char few[16384];
    int64_t size = real_size(t->dtype), x_bytes = (x_room(t) * size + 63) / 64 * 64, out_bytes = out_room(t) * size;
    char *scratch = few;
    if (x_bytes + out_bytes > (int64_t)sizeof few) scratch = bti_alloc_aligned(64, (size_t)(x_bytes + out_bytes));
    if (!scratch) return BT_RESOURCE_EXHAUSTED;
    multiply(t, x_bytes ? scratch : NULL, out_bytes ? scratch + x_bytes : NULL);
    if (scratch != few) bti_free(scratch);
    return BT_OK;
}

/* Our own products, of small matrices and of integers. Each element of the result is a sum over k in ascending order (in runs of
 * BTI_TILE_DEPTH, whose sums are added in order); products and sums are rounded separately, without FMA. So all targets give the
 * same bits, however the result is cut into tiles. */
#ifndef BTI_DRIVERS_CPU_PRODUCT_TILE_H
#define BTI_DRIVERS_CPU_PRODUCT_TILE_H

#include "drivers/cpu/target.h"
#include "ir/work.h"

#define BTI_TILE_ROWS 64
#define BTI_TILE_COLUMNS 256
#define BTI_TILE_DEPTH 256

/* Element [i, j] lies at `at` + i * row + j * column, in bytes. */
typedef struct bti_matrix {
    char *at;
    int64_t row, column;
} bti_matrix;

static inline bti_matrix bti_matrix_part(const bti_matrix *matrix, int64_t row, int64_t column) {
    bti_matrix part = *matrix;
    part.at += row * part.row + column * part.column;
    return part;
}

/* The type that products of a dtype are computed in: float32 for float16 and bfloat16, 32-bit unsigned integers for the narrower
 * integers. */
typedef enum bti_tile_type { BTI_TILE_F32, BTI_TILE_F64, BTI_TILE_U32, BTI_TILE_U64 } bti_tile_type;
/* Converts a line of `count` elements to and from that type. Steps are in bytes and may be any. */
void bti_tile_read(bti_target target, bt_dtype dtype, char *to, int64_t to_step, const char *from, int64_t from_step,
                   int64_t count);
void bti_tile_write(bt_dtype dtype, char *to, int64_t to_step, const char *from, int64_t count);

/* Bytes of scratch for a tile. */
size_t bti_tile_scratch(bt_dtype dtype, int64_t rows, int64_t columns, int64_t depth);
/* out = a x b of one dtype: at most BTI_TILE_ROWS x BTI_TILE_COLUMNS; k may be any, 0 gives zeros. */
void bti_tile_multiply(bti_target target, bt_dtype dtype, int64_t rows, int64_t columns, int64_t k, bti_matrix a,
                       bti_matrix b, bti_matrix out, char *scratch);

#endif

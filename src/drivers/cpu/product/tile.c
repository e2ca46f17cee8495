#include "drivers/cpu/product/tile.h"

#include <string.h>

#include "base/compare.h"
#include "ir/dtype.h"
#include "ir/half.h"

static bti_tile_type tile_type_of(bt_dtype dtype) {
    if (bti_dtype_is_float(dtype)) return dtype == BT_F64 ? BTI_TILE_F64 : BTI_TILE_F32;
    return bti_dtype_bits(dtype) == 64 ? BTI_TILE_U64 : BTI_TILE_U32;
}

static int64_t tile_element_size(bti_tile_type type) { return type == BTI_TILE_F32 || type == BTI_TILE_U32 ? 4 : 8; }
/* Elements that need no conversion. */
static bool is_tile_type(bt_dtype dtype) {
    return (int64_t)bt_dtype_size(dtype) == tile_element_size(tile_type_of(dtype));
}

/* --- elements ----------------------------------------------------------------------------------------------------- */

/* Without branches, so that loops of it are vectorized. Scaling gives infinities and NaN a wrong exponent; it is set afterwards. */
static inline float widen_f16(uint16_t half) {
    uint32_t rest = (uint32_t)(half & 0x7FFF) << 13, sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t bits = bti_f32_bits(bti_f32_of_bits(rest) * 0x1p112f);
    bits |= (half & 0x7C00) == 0x7C00 ? 0x7F800000 : 0;
    return bti_f32_of_bits(bits | sign);
}

#define READ_LINE(from_type, to_type, expression)                                   \
    if (to_step == sizeof(to_type) && from_step == sizeof(from_type))               \
        for (int64_t i = 0; i < count; i++) {                                       \
            from_type x = ((const from_type *)(const void *)from)[i];               \
            ((to_type *)(void *)to)[i] = expression;                                \
        }                                                                           \
    else                                                                            \
        for (int64_t i = 0; i < count; i++) {                                       \
            from_type x = *(const from_type *)(const void *)(from + i * from_step); \
            *(to_type *)(void *)(to + i * to_step) = expression;                    \
        }                                                                           \
    break

static inline __attribute__((always_inline)) void convert_line(bt_dtype dtype, char *restrict to, int64_t to_step,
                                                               const char *restrict from, int64_t from_step,
                                                               int64_t count) {
    switch (dtype) {
    case BT_F16: READ_LINE(uint16_t, float, widen_f16(x));
    case BT_BF16: READ_LINE(uint16_t, float, bti_f32_from_bf16(x));
    case BT_I8: READ_LINE(int8_t, uint32_t, (uint32_t)x);
    case BT_U8: READ_LINE(uint8_t, uint32_t, x);
    case BT_U16:
    case BT_I16: READ_LINE(uint16_t, uint32_t, x); /* the upper bits are dropped at the end */
    case BT_F64:
    case BT_I64:
    case BT_U64: READ_LINE(uint64_t, uint64_t, x);
    default: READ_LINE(uint32_t, uint32_t, x);
    }
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void convert_line_avx2(bt_dtype dtype, char *to, int64_t to_step,
                                                              const char *from, int64_t from_step, int64_t count) {
    convert_line(dtype, to, to_step, from, from_step, count);
}
#endif

void bti_tile_read(bti_target target, bt_dtype dtype, char *to, int64_t to_step, const char *from, int64_t from_step,
                   int64_t count) {
#ifdef __x86_64__
    if (target == BTI_LLVM_AVX2 || target == BTI_LLVM_AVX512)
        return convert_line_avx2(dtype, to, to_step, from, from_step, count);
#endif
    (void)target;
    convert_line(dtype, to, to_step, from, from_step, count);
}

#define WRITE_LINE(from_type, to_type, expression)                      \
    for (int64_t i = 0; i < count; i++) {                               \
        from_type x = ((const from_type *)(const void *)from)[i];       \
        *(to_type *)(void *)(to + i * to_step) = (to_type)(expression); \
    }                                                                   \
    break

void bti_tile_write(bt_dtype dtype, char *to, int64_t to_step, const char *from, int64_t count) {
    switch (dtype) {
    case BT_F16: WRITE_LINE(float, uint16_t, bti_f16_from_f32(x));
    case BT_BF16: WRITE_LINE(float, uint16_t, bti_bf16_from_f32(x));
    case BT_U8:
    case BT_I8: WRITE_LINE(uint32_t, uint8_t, x);
    case BT_U16:
    case BT_I16: WRITE_LINE(uint32_t, uint16_t, x);
    case BT_F64:
    case BT_I64:
    case BT_U64: WRITE_LINE(uint64_t, uint64_t, x);
    default: WRITE_LINE(uint32_t, uint32_t, x);
    }
}

/* --- the innermost loops, for each type and target ---------------------------------------------------------------- */

/* Computes `rows` (at most .rows) x `columns` (at most the panel's width) of the result, summed over `depth`. Element [i, k] of a is at
 * a + i * a_row + k * a_column; row k of b, of the panel's full width, at b + k * b_row. `add`: adds to the values at to + i *
 * to_row. All steps are in bytes. */
typedef struct panel {
    int64_t depth;
    const char *a, *b;
    int64_t a_row, a_column, b_row;
    char *to;
    int64_t to_row;
    int rows, columns;
    bool add;
} panel;

typedef struct panel_kernel {
    void (*narrow)(const panel *panel); /* a vector wide */
    void (*wide)(const panel *panel);   /* two */
    int rows, vector;                   /* rows of a panel; elements of a vector */
} panel_kernel;

/* Sums stay in registers while k runs. Rows past the last repeat the last one and are not stored. */
#define PANEL(name, type, bytes, row_count, vectors, attribute)                                       \
    attribute static void name(const panel *p) {                                                      \
        typedef type vector __attribute__((vector_size(bytes), aligned(1)));                          \
        enum { LANES = bytes / sizeof(type) };                                                        \
        vector sum[row_count][vectors] = {0};                                                         \
        const char *a[row_count], *b = p->b;                                                          \
        for (int i = 0; i < row_count; i++) a[i] = p->a + (i < p->rows ? i : p->rows - 1) * p->a_row; \
        for (int64_t k = 0, offset = 0; k < p->depth; k++, b += p->b_row, offset += p->a_column) {    \
            vector x[vectors];                                                                        \
            memcpy(x, b, sizeof x);                                                                   \
            _Pragma("GCC unroll 8") for (int i = 0; i < row_count; i++) {                             \
                type y = *(const type *)(const void *)(a[i] + offset);                                \
                _Pragma("GCC unroll 2") for (int j = 0; j < vectors; j++) sum[i][j] += x[j] * y;      \
            }                                                                                         \
        }                                                                                             \
        _Pragma("GCC unroll 8") for (int i = 0; i < row_count; i++) {                                 \
            if (i >= p->rows) break;                                                                  \
            _Pragma("GCC unroll 2") for (int j = 0; j < vectors; j++) {                               \
                type *to = (type *)(void *)(p->to + i * p->to_row) + j * (int)LANES;                  \
                vector all = sum[i][j];                                                               \
                int columns = p->columns - j * (int)LANES;                                            \
                if (columns >= (int)LANES) {                                                          \
                    if (p->add) all += *(const vector *)(const void *)to;                             \
                    memcpy(to, &all, sizeof all);                                                     \
                } else {                                                                              \
                    for (int l = 0; l < columns; l++) to[l] = p->add ? to[l] + all[l] : all[l];       \
                }                                                                                     \
            }                                                                                         \
        }                                                                                             \
    }

#define PANELS(target, bytes, rows, attribute)                               \
    PANEL(target##_f32, float, bytes, rows, 1, attribute)                    \
    PANEL(target##_f32_wide, float, bytes, rows, 2, attribute)               \
    PANEL(target##_f64, double, bytes, rows, 1, attribute)                   \
    PANEL(target##_f64_wide, double, bytes, rows, 2, attribute)              \
    PANEL(target##_u32, uint32_t, bytes, rows, 1, attribute)                 \
    PANEL(target##_u32_wide, uint32_t, bytes, rows, 2, attribute)            \
    PANEL(target##_u64, uint64_t, bytes, rows, 1, attribute)                 \
    PANEL(target##_u64_wide, uint64_t, bytes, rows, 2, attribute)            \
    static const panel_kernel target[] = {                                   \
        [BTI_TILE_F32] = {target##_f32, target##_f32_wide, rows, bytes / 4}, \
        [BTI_TILE_F64] = {target##_f64, target##_f64_wide, rows, bytes / 8}, \
        [BTI_TILE_U32] = {target##_u32, target##_u32_wide, rows, bytes / 4}, \
        [BTI_TILE_U64] = {target##_u64, target##_u64_wide, rows, bytes / 8}, \
    };

PANELS(plain, 16, 4, )
#ifdef __x86_64__
PANELS(avx2, 32, 4, __attribute__((target("avx2"))))
#ifdef __clang__
#define WIDE "" /* clang takes the width from the vector type */
#else
#define WIDE ",prefer-vector-width=512"
#endif
PANELS(avx512, 64, 8, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl" WIDE))))
#endif

static const panel_kernel *panel_kernel_of(bti_target target, bti_tile_type type) {
#ifdef __x86_64__
    if (target == BTI_LLVM_AVX512) return &avx512[type];
    if (target == BTI_LLVM_AVX2) return &avx2[type];
#endif
    (void)target;
    return &plain[type];
}

/* --- a tile ------------------------------------------------------------------------------------------------------- */

typedef struct tile_plan {
    bti_target target;
    bt_dtype dtype;
    const panel_kernel *kernel;
    int64_t rows, columns, size; /* of an element in scratch */
    char *a, *b, *to;            /* scratch */
} tile_plan;

static int64_t round_to_vector(int64_t bytes) { return (bytes + 63) / 64 * 64; }
static int64_t a_bytes(bt_dtype dtype, int64_t rows, int64_t depth, int64_t size) {
    return is_tile_type(dtype) ? 0 : round_to_vector(rows * depth * size);
}
/* A row is padded by up to two vectors of 64 bytes. */
static int64_t b_bytes(int64_t columns, int64_t depth, int64_t size) {
    return depth * (round_to_vector(columns * size) + 64);
}

size_t bti_tile_scratch(bt_dtype dtype, int64_t rows, int64_t columns, int64_t depth) {
    int64_t size = tile_element_size(tile_type_of(dtype)), run = bti_smaller_of(depth, BTI_TILE_DEPTH);
    rows = bti_smaller_of(rows, BTI_TILE_ROWS), columns = bti_smaller_of(columns, BTI_TILE_COLUMNS);
    return (size_t)(a_bytes(dtype, rows, run, size) + b_bytes(columns, run, size) +
                    round_to_vector(rows * columns * size));
}

/* Packs columns of b as a panel reads them; columns past the last are 0. */
static void pack_panel(const tile_plan *t, char *to, const bti_matrix *b, int64_t depth, int64_t columns,
                       int64_t width) {
    int64_t row = width * t->size;
    if (columns < width) memset(to, 0, (size_t)(depth * row));
    bool unit = b->column == (int64_t)bt_dtype_size(t->dtype);
    if (unit && is_tile_type(t->dtype))
        for (int64_t k = 0; k < depth; k++) memcpy(to + k * row, b->at + k * b->row, (size_t)(columns * t->size));
    else if (unit)
        for (int64_t k = 0; k < depth; k++)
            bti_tile_read(t->target, t->dtype, to + k * row, t->size, b->at + k * b->row, b->column, columns);
    else
        for (int64_t j = 0; j < columns; j++)
            bti_tile_read(t->target, t->dtype, to + j * t->size, row, b->at + j * b->column, b->row, depth);
}

static void multiply_panel(const tile_plan *t, panel *p, void (*kernel)(const panel *), const bti_matrix *a, char *to) {
    for (int64_t i = 0; i < t->rows; i += t->kernel->rows) {
        p->rows = (int)bti_smaller_of(t->rows - i, t->kernel->rows);
        p->a = a->at + i * a->row;
        p->to = to + i * p->to_row;
        kernel(p);
    }
}

/* A range of k, added to the sums of the ranges before. */
static void multiply_run(const tile_plan *t, int64_t depth, const bti_matrix *a, const bti_matrix *b, char *to,
                         int64_t to_row, bool add) {
    int64_t vector = t->kernel->vector, left = t->columns;
    char *packed = t->b;
    for (int64_t j = 0; j < t->columns; j += 2 * vector, left -= 2 * vector) {
        int64_t width = left > vector ? 2 * vector : vector, columns = bti_smaller_of(left, width);
        bti_matrix part = bti_matrix_part(b, 0, j);
        panel p = {.depth = depth,
                   .a_row = a->row,
                   .a_column = a->column,
                   .to_row = to_row,
                   .columns = (int)columns,
                   .add = add};
        bool in_place =
            columns == width && is_tile_type(t->dtype) && b->column == t->size && t->rows <= BTI_TILE_ROWS / 2;
        if (in_place) {
            p.b = part.at, p.b_row = b->row;
        } else {
            pack_panel(t, packed, &part, depth, columns, width);
            p.b = packed, p.b_row = width * t->size;
            packed += depth * width * t->size;
        }
        multiply_panel(t, &p, width == vector ? t->kernel->narrow : t->kernel->wide, a, to + j * t->size);
    }
}

void bti_tile_multiply(bti_target target, bt_dtype dtype, int64_t rows, int64_t columns, int64_t k, bti_matrix a,
                       bti_matrix b, bti_matrix out, char *scratch) {
    bti_tile_type type = tile_type_of(dtype);
    int64_t size = tile_element_size(type), run = bti_smaller_of(k, BTI_TILE_DEPTH);
    tile_plan t = {.target = target,
                   .dtype = dtype,
                   .kernel = panel_kernel_of(target, type),
                   .rows = rows,
                   .columns = columns,
                   .size = size,
                   .a = scratch};
    t.b = t.a + a_bytes(dtype, rows, run, size);
    t.to = t.b + b_bytes(columns, run, size);
    bool straight = is_tile_type(dtype) && out.column == size; /* sums are accumulated in the result itself */
    char *to = straight ? out.at : t.to;
    int64_t to_row = straight ? out.row : columns * size, from = 0;
    do {
        int64_t depth = bti_smaller_of(k - from, BTI_TILE_DEPTH);
        bti_matrix left = bti_matrix_part(&a, 0, from), right = bti_matrix_part(&b, from, 0);
        if (!is_tile_type(dtype)) {
            for (int64_t i = 0; i < rows; i++)
                bti_tile_read(target, dtype, t.a + i * depth * size, size, left.at + i * left.row, left.column, depth);
            left = (bti_matrix){t.a, depth * size, size};
        }
        multiply_run(&t, depth, &left, &right, to, to_row, from > 0);
        from += depth;
    } while (from < k);
    for (int64_t i = 0; i < rows && !straight; i++)
        bti_tile_write(dtype, out.at + i * out.row, out.column, t.to + i * to_row, columns);
}

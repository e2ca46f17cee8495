#include "drivers/cpu/product/panel.h"

#include <string.h>

/* Sums are held in registers while k goes by. Rows past the last are the last again, and stored nowhere. */
#define PANEL(name, type, bytes, row_count, vectors, attribute)                                       \
    attribute static void name(const bti_panel *p) {                                                  \
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
    static const bti_panel_kernel target[] = {                               \
        [BTI_TILE_F32] = {target##_f32, target##_f32_wide, rows, bytes / 4}, \
        [BTI_TILE_F64] = {target##_f64, target##_f64_wide, rows, bytes / 8}, \
        [BTI_TILE_U32] = {target##_u32, target##_u32_wide, rows, bytes / 4}, \
        [BTI_TILE_U64] = {target##_u64, target##_u64_wide, rows, bytes / 8}, \
    };

PANELS(plain, 16, 4, )
#ifdef __x86_64__
PANELS(avx2, 32, 4, __attribute__((target("avx2"))))
#ifdef __clang__
#define WIDE "" /* it takes the width from the vectors */
#else
#define WIDE ",prefer-vector-width=512"
#endif
PANELS(avx512, 64, 8, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl" WIDE))))
#endif

const bti_panel_kernel *bti_panel_kernel_of(bti_target target, bti_tile_type type) {
#ifdef __x86_64__
    if (target == BTI_LLVM_AVX512) return &avx512[type];
    if (target == BTI_LLVM_AVX2) return &avx2[type];
#endif
    (void)target;
    return &plain[type];
}

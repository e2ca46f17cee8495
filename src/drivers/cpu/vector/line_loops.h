/* Loops of a matrix times a vector for one target (drivers/cpu/product/line.h). An element of the result is the sum of 8 partial sums, of which sum r
 * holds the products of each k with k % 8 == r, in ascending order; they are added in a tree. Products and sums are rounded separately. Both loops,
 * for either contiguous axis of the matrix, and all targets give the same bits. */

enum { PARTIAL_SUMS = 8 };

#if defined(__AVX2__)
#define LINE_BYTES 32
#else
#define LINE_BYTES 16
#endif
typedef float lanes_float __attribute__((vector_size(LINE_BYTES), aligned(4)));
typedef double lanes_double __attribute__((vector_size(LINE_BYTES), aligned(8)));
typedef uint32_t lanes_uint32_t __attribute__((vector_size(LINE_BYTES), aligned(4)));
typedef uint64_t lanes_uint64_t __attribute__((vector_size(LINE_BYTES), aligned(8)));
typedef uint16_t lanes_half __attribute__((vector_size(LINE_BYTES / 2), aligned(2)));

/* --- elements as they are computed with --------------------------------------------------------------------------- */

#define ELEMENT_OF_OWN_TYPE(name, type, real)                                                  \
    static inline __attribute__((always_inline)) real one_##name(const type *x) { return *x; } \
    static inline __attribute__((always_inline)) lanes_##real line_##name(const type *x) {     \
        return *(const lanes_##real *)(const void *)x;                                         \
    }
ELEMENT_OF_OWN_TYPE(f32, float, float)
ELEMENT_OF_OWN_TYPE(f64, double, double)
ELEMENT_OF_OWN_TYPE(u32, uint32_t, uint32_t)
ELEMENT_OF_OWN_TYPE(u64, uint64_t, uint64_t)

static inline __attribute__((always_inline)) float one_bf16(const uint16_t *x) { return bti_f32_from_bf16(*x); }
static inline __attribute__((always_inline)) lanes_float line_bf16(const uint16_t *x) {
    lanes_half half = *(const lanes_half *)(const void *)x;
    return (lanes_float)(__builtin_convertvector(half, lanes_uint32_t) << 16);
}
#if defined(__F16C__)
static inline __attribute__((always_inline)) float one_f16(const uint16_t *x) { return _cvtsh_ss(*x); }
static inline __attribute__((always_inline)) lanes_float line_f16(const uint16_t *x) {
    return (lanes_float)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(const void *)x));
}
#else
static inline __attribute__((always_inline)) float one_f16(const uint16_t *x) { return bti_f32_from_f16(*x); }
static inline __attribute__((always_inline)) lanes_float line_f16(const uint16_t *x) {
    lanes_float line = {0};
    for (int i = 0; i < (int)(sizeof line / sizeof(float)); i++) line[i] = bti_f32_from_f16(x[i]);
    return line;
}
#endif

/* --- along the contiguous axis ------------------------------------------------------------------------------------ */

typedef float four_float __attribute__((vector_size(16), aligned(4)));
typedef double four_double __attribute__((vector_size(32), aligned(8)));
typedef uint32_t four_uint32_t __attribute__((vector_size(16), aligned(4)));
typedef uint64_t four_uint64_t __attribute__((vector_size(32), aligned(8)));

/* The partial sums of 4 rows, added in a tree. */
#define TREE(real)                                                                                               \
    static inline __attribute__((always_inline)) void tree_##real(real *to, const real s[4][PARTIAL_SUMS]) {     \
        four_##real x[4], y[4];                                                                                  \
        for (int r = 0; r < 4; r++) memcpy(&x[r], s[r], sizeof x[r]), memcpy(&y[r], s[r] + 4, sizeof y[r]);      \
        for (int r = 0; r < 4; r++) x[r] += y[r];                                                                \
        four_##real a = __builtin_shufflevector(x[0], x[1], 0, 1, 4, 5) +                                        \
                        __builtin_shufflevector(x[0], x[1], 2, 3, 6, 7),                                         \
                    b = __builtin_shufflevector(x[2], x[3], 0, 1, 4, 5) +                                        \
                        __builtin_shufflevector(x[2], x[3], 2, 3, 6, 7),                                         \
                    all = __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7); \
        memcpy(to, &all, sizeof all);                                                                            \
    }
TREE(float)
TREE(double)
TREE(uint32_t)
TREE(uint64_t)

/* `rows` is 4, or 1 with the other sums 0. */
#define ALONG(name, type, real, rows)                                                                               \
    static inline __attribute__((always_inline)) void along_##name##_##rows(const bti_line_product *p, int64_t i) { \
        enum { LANES = LINE_BYTES / sizeof(real), LINES = PARTIAL_SUMS / LANES };                                   \
        lanes_##real sum[rows][LINES] = {0};                                                                        \
        real s[4][PARTIAL_SUMS] = {0}, all[4];                                                                      \
        const type *row[rows];                                                                                      \
        const real *x = p->x;                                                                                       \
        int64_t k = 0;                                                                                              \
        for (int r = 0; r < rows; r++) row[r] = (const type *)(const void *)(p->matrix + (i + r) * p->line);        \
        for (; k + PARTIAL_SUMS <= p->depth; k += PARTIAL_SUMS)                                                     \
            _Pragma("GCC unroll 4") for (int l = 0; l < LINES; l++) {                                               \
                lanes_##real y = *(const lanes_##real *)(const void *)(x + k + l * LANES);                          \
                _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) sum[r][l] +=                                 \
                    line_##name(row[r] + k + l * LANES) * y;                                                        \
            }                                                                                                       \
        _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) memcpy(s[r], sum[r], sizeof s[r]);                   \
        for (int64_t j = k; j < p->depth; j++)                                                                      \
            for (int r = 0; r < rows; r++) s[r][j - k] += one_##name(row[r] + j) * x[j];                            \
        tree_##real(all, (const real(*)[PARTIAL_SUMS])s);                                                           \
        memcpy((real *)p->out + i, all, rows * sizeof(real));                                                       \
    }

/* Rows shorter than the partial sums. */
#define ALONG_SHORT(name, type, real)                                                                                  \
    static inline __attribute__((always_inline)) void along_short_##name(const bti_line_product *p, const int depth) { \
        const char *at = p->matrix;                                                                                    \
        const real *x = p->x;                                                                                          \
        for (int64_t i = 0; i < p->count; i++, at += p->line) {                                                        \
            const type *row = (const type *)(const void *)at;                                                          \
            real s[PARTIAL_SUMS] = {0};                                                                                \
            _Pragma("GCC unroll 8") for (int k = 0; k < depth; k++) s[k] += one_##name(row + k) * x[k];                \
            ((real *)p->out)[i] = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));                   \
        }                                                                                                              \
    }

/* --- across it ---------------------------------------------------------------------------------------------------- */

enum { STRIP = 2048 }; /* bytes of a partial sum of all columns that are computed at once */

#define ACROSS(name, type, real)                                                                                      \
    static void across_strip_##name(const bti_line_product *p, int64_t i, int64_t columns) {                          \
        enum { LANES = LINE_BYTES / sizeof(real), MOST = STRIP / sizeof(real) };                                      \
        _Alignas(64) real sum[PARTIAL_SUMS][MOST];                                                                    \
        const real *x = p->x;                                                                                         \
        for (int r = 0; r < PARTIAL_SUMS; r++) memset(sum[r], 0, (size_t)columns * sizeof(real));                     \
        int64_t k = 0, whole = columns / LANES * LANES;                                                               \
        for (; k + PARTIAL_SUMS <= p->depth; k += PARTIAL_SUMS) {                                                     \
            const type *row[PARTIAL_SUMS];                                                                            \
            lanes_##real y[PARTIAL_SUMS];                                                                             \
            _Pragma("GCC unroll 8") for (int r = 0; r < PARTIAL_SUMS; r++) y[r] = x[k + r] - (lanes_##real){0};       \
            _Pragma("GCC unroll 8") for (int r = 0; r < PARTIAL_SUMS; r++) row[r] =                                   \
                (const type *)(const void *)(p->matrix + (k + r) * p->line) + i;                                      \
            for (int64_t j = 0; j < whole; j += LANES)                                                                \
                _Pragma("GCC unroll 8") for (int r = 0; r < PARTIAL_SUMS; r++) *                                      \
                    (lanes_##real *)(void *)(sum[r] + j) += line_##name(row[r] + j) * y[r];                           \
            for (int64_t j = whole; j < columns; j++)                                                                 \
                for (int r = 0; r < PARTIAL_SUMS; r++) sum[r][j] += one_##name(row[r] + j) * x[k + r];                \
        }                                                                                                             \
        for (int64_t rest = k; rest < p->depth; rest++) {                                                             \
            const type *row = (const type *)(const void *)(p->matrix + rest * p->line) + i;                           \
            real *to = sum[rest - k];                                                                                 \
            for (int64_t j = 0; j < whole; j += LANES)                                                                \
                *(lanes_##real *)(void *)(to + j) += line_##name(row + j) * x[rest];                                  \
            for (int64_t j = whole; j < columns; j++) to[j] += one_##name(row + j) * x[rest];                         \
        }                                                                                                             \
        for (int w = PARTIAL_SUMS / 2; w; w /= 2)                                                                     \
            for (int r = 0; r < w; r++) INDEPENDENT for (int64_t j = 0; j < columns; j++) sum[r][j] += sum[r + w][j]; \
        memcpy((real *)p->out + i, sum[0], (size_t)columns * sizeof(real));                                           \
    }

/* With the partial sums in registers: a few columns at a time, from all rows. */
#define ACROSS_SHORT(name, type, real)                                                                 \
    static inline __attribute__((always_inline)) void across_short_##name(const bti_line_product *p) { \
        enum { LANES = LINE_BYTES / sizeof(real) };                                                    \
        const real *x = p->x;                                                                          \
        real *out = p->out;                                                                            \
        int64_t i = 0;                                                                                 \
        for (; i + LANES <= p->count; i += LANES) {                                                    \
            lanes_##real s[PARTIAL_SUMS] = {0};                                                        \
            SUM_ROWS(line_##name, type)                                                                \
            *(lanes_##real *)(void *)(out + i) = s[0];                                                 \
        }                                                                                              \
        for (; i < p->count; i++) {                                                                    \
            real s[PARTIAL_SUMS] = {0};                                                                \
            SUM_ROWS(one_##name, type)                                                                 \
            out[i] = s[0];                                                                             \
        }                                                                                              \
    }
#define SUM_ROWS(read, type)                                                                         \
    const char *at = p->matrix + i * (int64_t)sizeof(type);                                          \
    int64_t k = 0;                                                                                   \
    for (; k + PARTIAL_SUMS <= p->depth; k += PARTIAL_SUMS, at += PARTIAL_SUMS * p->line)            \
        _Pragma("GCC unroll 8") for (int r = 0; r < PARTIAL_SUMS; r++) s[r] +=                       \
            read((const type *)(const void *)(at + r * p->line)) * x[k + r];                         \
    _Pragma("GCC unroll 8") for (int r = 0; r < PARTIAL_SUMS - 1; r++) if (k + r < p->depth) s[r] += \
        read((const type *)(const void *)(at + r * p->line)) * x[k + r];                             \
    _Pragma("GCC unroll 4") for (int r = 0; r < 4; r++) s[r] += s[r + 4];                            \
    s[0] += s[2], s[1] += s[3], s[0] += s[1];
enum { SHORT_DEPTH = 32, SHORT_PRODUCT = 4096 };

#define LINE_PRODUCTS(name, type, real)                                           \
    ALONG(name, type, real, 1)                                                    \
    ALONG(name, type, real, 4)                                                    \
    ALONG_SHORT(name, type, real)                                                 \
    ACROSS(name, type, real)                                                      \
    ACROSS_SHORT(name, type, real)                                                \
    static void along_##name(const bti_line_product *p) {                         \
        int64_t i = 0;                                                            \
        switch (p->depth) {                                                       \
        case 1: along_short_##name(p, 1); return;                                 \
        case 2: along_short_##name(p, 2); return;                                 \
        case 3: along_short_##name(p, 3); return;                                 \
        case 4: along_short_##name(p, 4); return;                                 \
        case 5: along_short_##name(p, 5); return;                                 \
        case 6: along_short_##name(p, 6); return;                                 \
        case 7: along_short_##name(p, 7); return;                                 \
        default: break;                                                           \
        }                                                                         \
        for (; i + 4 <= p->count; i += 4) along_##name##_4(p, i);                 \
        for (; i < p->count; i++) along_##name##_1(p, i);                         \
    }                                                                             \
    static void across_##name(const bti_line_product *p) {                        \
        enum { MOST = STRIP / sizeof(real) };                                     \
        if (p->depth <= SHORT_DEPTH || p->count * p->depth <= SHORT_PRODUCT) {    \
            across_short_##name(p);                                               \
            return;                                                               \
        }                                                                         \
        for (int64_t i = 0; i < p->count; i += MOST)                              \
            across_strip_##name(p, i, p->count - i < MOST ? p->count - i : MOST); \
    }
LINE_PRODUCTS(f32, float, float)
LINE_PRODUCTS(f64, double, double)
LINE_PRODUCTS(u32, uint32_t, uint32_t)
LINE_PRODUCTS(u64, uint64_t, uint64_t)
LINE_PRODUCTS(bf16, uint16_t, float)
LINE_PRODUCTS(f16, uint16_t, float)

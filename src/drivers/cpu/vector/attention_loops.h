/* Loops over rows of scores for one target (drivers/cpu/attention/). Sums are of BTI_ROW_SUMS partial ones, by place, added in a tree: all targets give the
 * same bits. */

/* Vectors of any alignment. */
#if LANES_F32 > 1
typedef float loose_f32 __attribute__((vector_size(LANES_F32 * sizeof(float)), aligned(4)));
typedef double loose_f64 __attribute__((vector_size(LANES_F64 * sizeof(double)), aligned(8)));
#else
typedef float loose_f32;
typedef double loose_f64;
#endif

/* Exponentials of scores: 2**x of what is at most a little above 0, within 2 units in the last place, and 0 below the normal numbers; products and sums are rounded one by
 * one. In float64 e**x. UNIT: what factors are multiplied with before. */
#define UNIT_f32 1.4426950408889634
#define UNIT_f64 1.0
static inline __attribute__((always_inline)) vector_f32 weight_f32(vector_f32 x) {
    const float shift = 12582912.0f; /* 1.5 * 2**23: adding it rounds to whole numbers */
    mask_f32 below = x<-126.0f, above = x> 127.0f;
    vector_f32 zero = {0}, low = zero - 126.0f, high = zero + 127.0f;
    x = CHOSEN(f32, below, low, x);
    x = CHOSEN(f32, above, high, x);
    vector_f32 t = x + shift, r = x - (t - shift), p = r * 1.535336188e-4f + 1.339887440e-3f;
    p = p * r + 9.618437357e-3f, p = p * r + 5.550332471e-2f, p = p * r + 2.402264791e-1f;
    p = (p * r + 6.931472028e-1f) * r + 1.0f;
    p = p * OF_BITS_F32((BITS_F32(t) - 0x4b400000 + 127) << 23);
    return CHOSEN(f32, below, zero, p);
}
static inline __attribute__((always_inline)) vector_f64 weight_f64(vector_f64 x) { return exp_f64(x); }

#define ROW_LOOPS(type, real, LANES)                                                                             \
    enum { ROW_VECTORS_##type = BTI_ROW_SUMS / LANES };                                                          \
    static inline real tree_of_row_##type(const vector_##type *vectors) {                                        \
        real sums[BTI_ROW_SUMS];                                                                                 \
        memcpy(sums, vectors, sizeof sums);                                                                      \
        for (int w = BTI_ROW_SUMS / 2; w; w /= 2)                                                                \
            for (int k = 0; k < w; k++) sums[k] += sums[k + w];                                                  \
        return sums[0];                                                                                          \
    }                                                                                                            \
    static double row_greatest_##type(const void *row, int64_t count) {                                          \
        const real *x = row;                                                                                     \
        real most[BTI_ROW_SUMS];                                                                                 \
        int64_t i = 0;                                                                                           \
        for (int k = 0; k < BTI_ROW_SUMS; k++) most[k] = (real)-INFINITY;                                        \
        for (; i + BTI_ROW_SUMS <= count; i += BTI_ROW_SUMS)                                                     \
            for (int k = 0; k < BTI_ROW_SUMS; k++) most[k] = x[i + k] > most[k] ? x[i + k] : most[k];            \
        for (int k = 0; i + k < count; k++) most[k] = x[i + k] > most[k] ? x[i + k] : most[k];                   \
        for (int k = 1; k < BTI_ROW_SUMS; k++) most[0] = most[k] > most[0] ? most[k] : most[0];                  \
        return (double)most[0];                                                                                  \
    }                                                                                                            \
    static double row_weigh_##type(void *row, int64_t count, double scale, double top) {                         \
        real *x = row, rest[BTI_ROW_SUMS] = {0}, factor = (real)(scale * UNIT_##type),                           \
             below = (real)(top * UNIT_##type);                                                                  \
        vector_##type sums[ROW_VECTORS_##type];                                                                  \
        int64_t i = 0;                                                                                           \
        memset(sums, 0, sizeof sums);                                                                            \
        for (; i + BTI_ROW_SUMS <= count; i += BTI_ROW_SUMS)                                                     \
            _Pragma("GCC unroll 16") for (int r = 0; r < ROW_VECTORS_##type; r++) {                              \
                loose_##type *at = (loose_##type *)(void *)(x + i + r * LANES);                                  \
                vector_##type value = weight_##type((vector_##type) * at * factor - below);                      \
                *at = value, sums[r] += value;                                                                   \
            }                                                                                                    \
        if (i < count) {                                                                                         \
            size_t left = (size_t)(count - i);                                                                   \
            memcpy(rest, x + i, left * sizeof *x);                                                               \
            for (int r = 0; r < ROW_VECTORS_##type; r++) {                                                       \
                loose_##type *at = (loose_##type *)(void *)(rest + r * LANES);                                   \
                *at = weight_##type((vector_##type) * at * factor - below);                                      \
            }                                                                                                    \
            memcpy(x + i, rest, left * sizeof *x);                                                               \
            memset(rest + left, 0, sizeof rest - left * sizeof *x);                                              \
            for (int r = 0; r < ROW_VECTORS_##type; r++) sums[r] += *(loose_##type *)(void *)(rest + r * LANES); \
        }                                                                                                        \
        return (double)tree_of_row_##type(sums);                                                                 \
    }                                                                                                            \
    static double row_dot_##type(const void *a, const void *b, int64_t count) {                                  \
        const real *x = a, *y = b;                                                                               \
        real sums[BTI_ROW_SUMS] = {0};                                                                           \
        int64_t i = 0;                                                                                           \
        for (; i + BTI_ROW_SUMS <= count; i += BTI_ROW_SUMS)                                                     \
            for (int k = 0; k < BTI_ROW_SUMS; k++) sums[k] += x[i + k] * y[i + k];                               \
        for (int k = 0; i + k < count; k++) sums[k] += x[i + k] * y[i + k];                                      \
        for (int w = BTI_ROW_SUMS / 2; w; w /= 2)                                                                \
            for (int k = 0; k < w; k++) sums[k] += sums[k + w];                                                  \
        return (double)sums[0];                                                                                  \
    }                                                                                                            \
    static void row_scale_##type(void *row, int64_t count, double by) {                                          \
        real *x = row, factor = (real)by;                                                                        \
        INDEPENDENT for (int64_t i = 0; i < count; i++) x[i] *= factor;                                          \
    }                                                                                                            \
    static void row_slope_##type(void *row, const void *weights, int64_t count, double mean, double scale) {     \
        real *x = row, below = (real)mean, factor = (real)scale;                                                 \
        const real *w = weights;                                                                                 \
        INDEPENDENT for (int64_t i = 0; i < count; i++) x[i] = (x[i] - below) * w[i] * factor;                   \
    }
ROW_LOOPS(f32, float, LANES_F32)
ROW_LOOPS(f64, double, LANES_F64)

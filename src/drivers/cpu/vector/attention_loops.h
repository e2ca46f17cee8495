/* Loops over rows of scores for one target (drivers/cpu/attention/). Sums are of BTI_ROW_SUMS partial ones, by place, added in a tree: all targets give the
 * same bits. */

#define ROW_LOOPS(type, real, LANES)                                                                         \
    enum { ROW_VECTORS_##type = BTI_ROW_SUMS / LANES };                                                      \
    static inline real tree_of_row_##type(const vector_##type *vectors) {                                    \
        real sums[BTI_ROW_SUMS];                                                                             \
        memcpy(sums, vectors, sizeof sums);                                                                  \
        for (int w = BTI_ROW_SUMS / 2; w; w /= 2)                                                            \
            for (int k = 0; k < w; k++) sums[k] += sums[k + w];                                              \
        return sums[0];                                                                                      \
    }                                                                                                        \
    static double row_greatest_##type(const void *row, int64_t count) {                                      \
        const real *x = row;                                                                                 \
        real most[BTI_ROW_SUMS];                                                                             \
        int64_t i = 0;                                                                                       \
        for (int k = 0; k < BTI_ROW_SUMS; k++) most[k] = (real)-INFINITY;                                    \
        for (; i + BTI_ROW_SUMS <= count; i += BTI_ROW_SUMS)                                                 \
            for (int k = 0; k < BTI_ROW_SUMS; k++) most[k] = x[i + k] > most[k] ? x[i + k] : most[k];        \
        for (int k = 0; i + k < count; k++) most[k] = x[i + k] > most[k] ? x[i + k] : most[k];               \
        for (int k = 1; k < BTI_ROW_SUMS; k++) most[0] = most[k] > most[0] ? most[k] : most[0];              \
        return (double)most[0];                                                                              \
    }                                                                                                        \
    static inline void weigh_vectors_##type(real *x, real scale, real top, vector_##type *values) {          \
        for (int r = 0; r < ROW_VECTORS_##type; r++) {                                                       \
            vector_##type v;                                                                                 \
            memcpy(&v, x + r * LANES, sizeof v);                                                             \
            values[r] = exp_##type(v * scale - top);                                                         \
            memcpy(x + r * LANES, &values[r], sizeof v);                                                     \
        }                                                                                                    \
    }                                                                                                        \
    static double row_weigh_##type(void *row, int64_t count, double scale, double top) {                     \
        real *x = row, rest[BTI_ROW_SUMS] = {0};                                                             \
        vector_##type sums[ROW_VECTORS_##type], values[ROW_VECTORS_##type];                                  \
        int64_t i = 0;                                                                                       \
        memset(sums, 0, sizeof sums);                                                                        \
        for (; i + BTI_ROW_SUMS <= count; i += BTI_ROW_SUMS) {                                               \
            weigh_vectors_##type(x + i, (real)scale, (real)top, values);                                     \
            for (int r = 0; r < ROW_VECTORS_##type; r++) sums[r] += values[r];                               \
        }                                                                                                    \
        if (i < count) {                                                                                     \
            size_t left = (size_t)(count - i);                                                               \
            memcpy(rest, x + i, left * sizeof *x);                                                           \
            weigh_vectors_##type(rest, (real)scale, (real)top, values);                                      \
            memcpy(x + i, rest, left * sizeof *x);                                                           \
            memset(rest + left, 0, sizeof rest - left * sizeof *x);                                          \
            memcpy(values, rest, sizeof rest);                                                               \
            for (int r = 0; r < ROW_VECTORS_##type; r++) sums[r] += values[r];                               \
        }                                                                                                    \
        return (double)tree_of_row_##type(sums);                                                             \
    }                                                                                                        \
    static double row_dot_##type(const void *a, const void *b, int64_t count) {                              \
        const real *x = a, *y = b;                                                                           \
        real sums[BTI_ROW_SUMS] = {0};                                                                       \
        int64_t i = 0;                                                                                       \
        for (; i + BTI_ROW_SUMS <= count; i += BTI_ROW_SUMS)                                                 \
            for (int k = 0; k < BTI_ROW_SUMS; k++) sums[k] += x[i + k] * y[i + k];                           \
        for (int k = 0; i + k < count; k++) sums[k] += x[i + k] * y[i + k];                                  \
        for (int w = BTI_ROW_SUMS / 2; w; w /= 2)                                                            \
            for (int k = 0; k < w; k++) sums[k] += sums[k + w];                                              \
        return (double)sums[0];                                                                              \
    }                                                                                                        \
    static void row_scale_##type(void *row, int64_t count, double by) {                                      \
        real *x = row, factor = (real)by;                                                                    \
        INDEPENDENT for (int64_t i = 0; i < count; i++) x[i] *= factor;                                      \
    }                                                                                                        \
    static void row_slope_##type(void *row, const void *weights, int64_t count, double mean, double scale) { \
        real *x = row, below = (real)mean, factor = (real)scale;                                             \
        const real *w = weights;                                                                             \
        INDEPENDENT for (int64_t i = 0; i < count; i++) x[i] = (x[i] - below) * w[i] * factor;               \
    }
ROW_LOOPS(f32, float, LANES_F32)
ROW_LOOPS(f64, double, LANES_F64)

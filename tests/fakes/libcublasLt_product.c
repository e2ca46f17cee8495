/* The products of the fake cuBLASLt. Operands are rounded to what the compute type multiplies, products are added in f32 (or f64) by fused
 * multiply-adds, in an order that BERTH_FAKE_SEED and the shape draw: some chunks of the inner axis, some accumulators in each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/libcublasLt.h"
#include "fakes/libcuda.h"
#include "fakes/memory.h"
#include "fakes/ptx/lanes.h"
#include "fakes/stream.h"

#define POISON 0xa5
#define PANEL 64 /* columns of the result at once */
#define MOST_ACCUMULATORS 8

/* --- elements --------------------------------------------------------------------------------------------------------- */

static double load(int type, const unsigned char *from) {
    uint16_t half;
    switch (type) {
    case CUDA_R_64F: return *(const double *)(const void *)from;
    case CUDA_R_32F: return (double)*(const float *)(const void *)from;
    case CUDA_R_32I: return *(const int32_t *)(const void *)from;
    case CUDA_R_8I: return (signed char)*from;
    default: memcpy(&half, from, 2); return type == CUDA_R_16F ? (double)ptx_f16(half) : (double)ptx_bf16(half);
    }
}
static void store(int type, unsigned char *to, double value) {
    uint16_t half;
    float single = (float)value;
    uint32_t whole = type == CUDA_R_32I ? (uint32_t)(int64_t)value : 0;
    switch (type) {
    case CUDA_R_32I: memcpy(to, &whole, 4); return;
    case CUDA_R_64F: memcpy(to, &value, 8); return;
    case CUDA_R_32F: memcpy(to, &single, 4); return;
    default:
        half = type == CUDA_R_16F ? ptx_round_f16(value, PTX_RN) : ptx_round_bf16(value, PTX_RN);
        memcpy(to, &half, 2);
    }
}
/* What the compute type makes of a float before it multiplies: TF32 has 10 digits of the fraction. */
static double rounded(int compute, double value) {
    uint32_t bits = ptx_f32_bits((float)value);
    switch (compute) {
    case CUBLAS_COMPUTE_32F_FAST_16BF: return ptx_bf16(ptx_round_bf16(value, PTX_RN));
    case CUBLAS_COMPUTE_32F_FAST_TF32:
        if (value - value != 0) return value;
        return ptx_f32((bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000);
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_64F: return value;
    default: return ptx_f16(ptx_round_f16(value, PTX_RN));
    }
}

/* One matrix of a batch, [rows of the product, inner] or [inner, columns], as doubles; false after a finding. */
static bool gather(const fake_product *p, uint64_t base, const struct cublasLtMatrixLayoutOpaque *l, int transposed,
                   int batch, double *to) {
    uint64_t size = fake_element_bytes(l->type), start = base + (uint64_t)batch * (uint64_t)l->step * size;
    uint64_t row_step = transposed ? 1 : l->columns, column_step = transposed ? l->rows : 1;
    bool whole = l->leading == (int64_t)l->rows;
    const unsigned char *from = whole ? fake_read_memory(start, l->rows * l->columns * size) : NULL;
    for (uint64_t column = 0; column < l->columns; column++) {
        if (!whole) from = fake_read_memory(start + column * (uint64_t)l->leading * size, l->rows * size);
        if (!from) return false;
        for (uint64_t row = 0; row < l->rows; row++)
            to[row * row_step + column * column_step] =
                rounded(p->product.compute, load(l->type, from + (whole ? column * l->rows + row : row) * size));
    }
    return true;
}

/* --- sums --------------------------------------------------------------------------------------------------------------- */

typedef struct order {
    uint64_t chunk;   /* of the inner axis; each chunk is summed by itself */
    int accumulators; /* that take the numbers of a chunk in turn */
    bool last_first;  /* chunks are added from the last on */
} order;

static order draw_order(const fake_product *p) {
    uint64_t x = fake_seed();
    const uint64_t numbers[] = {p->m, p->n, p->k, (uint64_t)p->product.compute, (uint64_t)p->d_layout.type};
    for (int i = 0; i < 5; i++) x = (x ^ numbers[i]) * UINT64_C(0x9fb21c651e98df25), x ^= x >> 32;
    uint64_t chunks = 1 + x % 4;
    return (order){(p->k + chunks - 1) / chunks, 1 << (x >> 8) % 4, x >> 16 & 1};
}

/* name_panel copies columns of b [inner, n] into a panel [inner, PANEL] with zeros beside; name sums one row a [inner] times the panel. */
#define DEFINE_SUM(name, real, fused, target)                                                             \
    target static void name(const order *o, uint64_t k, const double *a, const void *panel, double *to) { \
        const real *b = panel;                                                                            \
        real total[PANEL] = {0}, part[MOST_ACCUMULATORS][PANEL];                                          \
        uint64_t chunks = (k + o->chunk - 1) / o->chunk;                                                  \
        for (uint64_t number = 0; number < chunks; number++) {                                            \
            uint64_t first = (o->last_first ? chunks - 1 - number : number) * o->chunk;                   \
            uint64_t end = first + o->chunk < k ? first + o->chunk : k;                                   \
            memset(part, 0, sizeof part);                                                                 \
            for (uint64_t i = first; i < end; i++) {                                                      \
                real *restrict sum = part[i % (uint64_t)o->accumulators], x = (real)a[i];                 \
                for (int j = 0; j < PANEL; j++) sum[j] = fused(x, b[i * PANEL + (uint64_t)j], sum[j]);    \
            }                                                                                             \
            for (int half = o->accumulators / 2; half; half /= 2)                                         \
                for (int which = 0; which < half; which++)                                                \
                    for (int j = 0; j < PANEL; j++) part[which][j] += part[which + half][j];              \
            for (int j = 0; j < PANEL; j++) total[j] += part[0][j];                                       \
        }                                                                                                 \
        for (int j = 0; j < PANEL; j++) to[j] = (double)total[j];                                         \
    }
#define DEFINE_PANEL(name, real)                                                                              \
    static void name(const fake_product *p, const double *b, uint64_t first, uint64_t columns, void *panel) { \
        real *to = panel;                                                                                     \
        memset(to, 0, p->k *PANEL * sizeof *to);                                                              \
        for (uint64_t i = 0; i < p->k; i++)                                                                   \
            for (uint64_t j = 0; j < columns; j++) to[i * PANEL + j] = (real)b[i * p->n + first + j];         \
    }
DEFINE_PANEL(fill_panel_f32, float)
DEFINE_PANEL(fill_panel_f64, double)
DEFINE_SUM(sum_f32, float, fmaf, )
DEFINE_SUM(sum_f64, double, fma, )
DEFINE_SUM(sum_f32_inline, float, fmaf, PTX_WITH_FMA)
DEFINE_SUM(sum_f64_inline, double, fma, PTX_WITH_FMA)

typedef void sum_function(const order *o, uint64_t k, const double *a, const void *panel, double *to);
static sum_function *sum_of(bool is_double) {
    if (PTX_HAS_FMA) return is_double ? sum_f64_inline : sum_f32_inline;
    return is_double ? sum_f64 : sum_f32;
}

/* --- products ------------------------------------------------------------------------------------------------------------ */

/* The product's column `column` of matrix `batch`, of which `sum` holds one number a row. */
static bool store_column(const fake_product *p, int batch, uint64_t column, const double *sum, uint64_t sum_step) {
    const struct cublasLtMatrixLayoutOpaque *d = &p->d_layout, *c = &p->c_layout;
    uint64_t size = fake_element_bytes(d->type);
    uint64_t at = ((uint64_t)batch * (uint64_t)d->step + column * (uint64_t)d->leading) * size;
    uint64_t c_at = ((uint64_t)batch * (uint64_t)c->step + column * (uint64_t)c->leading) * size;
    const unsigned char *before = p->beta != 0 ? fake_read_memory(p->c + c_at, p->m * size) : NULL;
    if (p->beta != 0 && !before) return false;
    unsigned char *to = fake_write_memory(p->d + at, p->m * size);
    for (uint64_t row = 0; row < p->m && to; row++) {
        double value = p->alpha * sum[row * sum_step];
        if (before) value += p->beta * load(c->type, before + row * size);
        if (d->type != CUDA_R_64F && d->type != CUDA_R_32I) value = (double)(float)value;
        store(d->type, to + row * size, value);
    }
    return to;
}

static bool multiply_matrices(const fake_product *p, const order *o, int batch, const double *a, const double *b,
                              void *panel, double *sums) {
    bool is_double = p->d_layout.type == CUDA_R_64F || p->d_layout.type == CUDA_R_32I; /* exact, of bytes */
    sum_function *sum = sum_of(is_double);
    for (uint64_t first = 0; first < p->n; first += PANEL) {
        uint64_t columns = p->n - first < PANEL ? p->n - first : PANEL;
        (is_double ? fill_panel_f64 : fill_panel_f32)(p, b, first, columns, panel);
        for (uint64_t row = 0; row < p->m; row++) sum(o, p->k, a + row * p->k, panel, sums + row * PANEL);
        for (uint64_t column = 0; column < columns; column++)
            if (!store_column(p, batch, first + column, sums + column, PANEL)) return false;
    }
    return true;
}

static const char *name_of(const fake_product *p) {
    switch (p->d_layout.type) {
    case CUDA_R_64F: return "f64";
    case CUDA_R_16F: return "f16";
    case CUDA_R_16BF: return "bf16";
    case CUDA_R_32I: return "i8";
    default: break;
    }
    return p->product.compute == CUBLAS_COMPUTE_32F_FAST_TF32   ? "tf32"
           : p->product.compute == CUBLAS_COMPUTE_32F_FAST_16BF ? "fast_bf16"
                                                                : "f32";
}

static void note_product(const fake_product *p) {
    uint64_t bytes = fake_layout_bytes(&p->a_layout) + fake_layout_bytes(&p->b_layout) +
                     fake_layout_bytes(&p->d_layout) * (p->beta != 0 ? 2 : 1);
    fake_note_product((uint64_t)p->d_layout.batch * p->m * p->n * p->k, bytes, name_of(p));
}

void fake_run_product(void *data) {
    const fake_product *p = data;
    note_product(p);
    if (fake_sample_of(UINT64_MAX)) { /* a sample of the results is wanted, for its counts */
        (void)fake_write_memory(p->d, fake_layout_bytes(&p->d_layout));
        return;
    }
    const order o = draw_order(p);
    double *a = malloc(p->m * p->k * sizeof *a), *b = malloc(p->k * p->n * sizeof *b);
    double *panel = malloc(p->k * PANEL * sizeof *panel), *sums = malloc(p->m * PANEL * sizeof *sums);
    if (!a || !b || !panel || !sums) abort();
    void *workspace = p->workspace_bytes ? fake_write_memory(p->workspace, p->workspace_bytes) : NULL;
    if (workspace) memset(workspace, POISON, p->workspace_bytes);
    bool ok = workspace || !p->workspace_bytes;
    for (int batch = 0; batch < p->d_layout.batch && ok; batch++)
        ok = (batch && !p->a_layout.step ? true : gather(p, p->a, &p->a_layout, p->product.a, batch, a)) &&
             (batch && !p->b_layout.step ? true : gather(p, p->b, &p->b_layout, p->product.b, batch, b)) &&
             multiply_matrices(p, &o, batch, a, b, panel, sums);
    free(a), free(b), free(panel), free(sums);
    fake_log("product");
}

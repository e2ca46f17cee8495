/* The convolutions of the fake cuDNN. Operands are rounded to what the kind of products multiplies; products are added in f32 (or f64) by fused multiply-adds,
 * in an order that BERTH_FAKE_SEED and the shape draw. Algorithms that do not add up the sum's own products are coarse here, and one that
 * is not deterministic gives each run another error: nobody who asks for neither may get them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/libcuda.h"
#include "fakes/libcudnn.h"
#include "fakes/memory.h"
#include "fakes/ptx/lanes.h"

#define POISON 0xa5
#define MOST_ACCUMULATORS 8
#define ERROR 0x1p-9 /* relative, of what is not deterministic */

static uint64_t element_bytes(const fake_conv *c) { return c->type == CUDNN_DATA_DOUBLE ? 8 : 4; }

int64_t fake_conv_count(const fake_conv *c, int array) {
    int64_t count = 1;
    for (int i = 0; i < 2 + FAKE_DNN_AXES; i++) count *= c->shape[array][i];
    return count;
}

/* --- elements --------------------------------------------------------------------------------------------------------- */

static double rounded(const fake_conv *c, double value) {
    if (c->coarse) return ptx_bf16(ptx_round_bf16(value, PTX_RN));
    if (c->type == CUDNN_DATA_DOUBLE || c->math == CUDNN_FMA_MATH || value - value != 0) return value;
    if (c->math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) return ptx_f16(ptx_round_f16(value, PTX_RN));
    uint32_t bits = ptx_f32_bits((float)value); /* TF32 has 10 digits of the fraction */
    return ptx_f32((bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000);
}

static double element_at(const fake_conv *c, const void *memory, int64_t i) {
    return c->type == CUDNN_DATA_DOUBLE ? ((const double *)memory)[i] : (double)((const float *)memory)[i];
}

/* All elements of an array as they are multiplied; NULL after a finding. */
static double *gather(const fake_conv *c, int array) {
    int64_t count = fake_conv_count(c, array);
    const void *from = fake_read_memory(c->address[array], (uint64_t)count * element_bytes(c));
    double *to = from ? malloc((size_t)count * sizeof *to) : NULL;
    if (from && !to) abort();
    for (int64_t i = 0; i < count && to; i++) to[i] = rounded(c, element_at(c, from, i));
    return to;
}

/* --- sums --------------------------------------------------------------------------------------------------------------- */

typedef struct sum {
    const fake_conv *conv;
    const double *from[FAKE_ARRAYS];
    int accumulators; /* that take the products in turn */
    bool last_first;  /* the outer loop runs backwards */
    int64_t added;
    double part[MOST_ACCUMULATORS];
} sum;

static void add(sum *s, double x, double y) {
    double *part = &s->part[s->added++ % s->accumulators];
    *part = s->conv->type == CUDNN_DATA_DOUBLE ? fma(x, y, *part) : (double)fmaf((float)x, (float)y, (float)*part);
}

static double total(const sum *s) {
    double all = 0;
    for (int i = 0; i < s->accumulators; i++)
        all = s->conv->type == CUDNN_DATA_DOUBLE ? all + s->part[i] : (double)((float)all + (float)s->part[i]);
    return all;
}

static int64_t place_in(const int64_t *shape, int64_t first, int64_t second, const int64_t *places) {
    int64_t at = first * shape[1] + second;
    for (int i = 0; i < FAKE_DNN_AXES; i++) at = at * shape[2 + i] + places[i];
    return at;
}

/* The place after this one; false: it was the last. */
static bool next(int64_t *place, const int64_t *places) {
    for (int i = FAKE_DNN_AXES - 1; i >= 0; i--) {
        if (++place[i] < places[i]) return true;
        place[i] = 0;
    }
    return false;
}

/* Where element k of the kernel meets x at place p of y. */
static bool meets(const fake_conv *c, const int64_t *p, const int64_t *k, int64_t *x) {
    bool inside = true;
    for (int i = 0; i < FAKE_DNN_AXES; i++) {
        x[i] = p[i] * c->stride[i] - c->pad[i] + k[i] * c->dilation[i];
        inside = inside && x[i] >= 0 && x[i] < c->shape[FAKE_X][2 + i];
    }
    return inside;
}
/* The place of y at which element k of the kernel meets x. */
static bool is_met(const fake_conv *c, const int64_t *x, const int64_t *k, int64_t *p) {
    bool inside = true;
    for (int i = 0; i < FAKE_DNN_AXES; i++) {
        int64_t at = x[i] + c->pad[i] - k[i] * c->dilation[i];
        p[i] = at / c->stride[i];
        inside = inside && at >= 0 && at % c->stride[i] == 0 && p[i] < c->shape[FAKE_Y][2 + i];
    }
    return inside;
}

/* The products of one element of what is made, at first, second and place, of number `i` of what its outer loop goes over. */
static void add_products(sum *s, int64_t first, int64_t second, const int64_t *place, int64_t i) {
    const fake_conv *c = s->conv;
    const int64_t *x = c->shape[FAKE_X], *w = c->shape[FAKE_W], *y = c->shape[FAKE_Y];
    int64_t outputs = w[0] / c->groups, inner[FAKE_DNN_AXES] = {0}, other[FAKE_DNN_AXES];
    const double *from_x = s->from[FAKE_X], *from_w = s->from[FAKE_W], *from_y = s->from[FAKE_Y];
    if (c->made == FAKE_Y) /* i: a channel of the group */
        do
            if (meets(c, place, inner, other))
                add(s, from_x[place_in(x, first, second / outputs * w[1] + i, other)],
                    from_w[place_in(w, second, i, inner)]);
        while (next(inner, w + 2));
    else if (c->made == FAKE_X) /* i: an output of the group */
        do
            if (is_met(c, place, inner, other))
                add(s, from_y[place_in(y, first, second / w[1] * outputs + i, other)],
                    from_w[place_in(w, second / w[1] * outputs + i, second % w[1], inner)]);
        while (next(inner, w + 2));
    else /* i: an image */
        do
            if (meets(c, inner, place, other))
                add(s, from_x[place_in(x, i, first / outputs * w[1] + second, other)],
                    from_y[place_in(y, i, first, inner)]);
        while (next(inner, y + 2));
}

static double sum_at(sum *s, int64_t first, int64_t second, const int64_t *place) {
    const fake_conv *c = s->conv;
    int64_t outer = c->made == FAKE_Y   ? c->shape[FAKE_W][1]
                    : c->made == FAKE_X ? c->shape[FAKE_W][0] / c->groups
                                        : c->shape[FAKE_X][0];
    s->added = 0;
    memset(s->part, 0, sizeof s->part);
    for (int64_t i = 0; i < outer; i++) add_products(s, first, second, place, s->last_first ? outer - 1 - i : i);
    double error = c->deterministic ? 0 : ERROR * (double)(fake_random() % 3);
    return total(s) * (1 + error);
}

/* --- convolutions ------------------------------------------------------------------------------------------------------- */

static void make_elements(sum *s) {
    const fake_conv *c = s->conv;
    const int64_t *shape = c->shape[c->made];
    uint64_t bytes = (uint64_t)fake_conv_count(c, c->made) * element_bytes(c);
    const void *before = c->beta != 0 ? fake_read_memory(c->address[c->made], bytes) : NULL;
    if (c->beta != 0 && !before) return;
    void *to = fake_write_memory(c->address[c->made], bytes);
    int64_t at = 0;
    for (int64_t first = 0; first < shape[0] && to; first++)
        for (int64_t second = 0; second < shape[1]; second++) {
            int64_t place[FAKE_DNN_AXES] = {0};
            do {
                double value = c->alpha * sum_at(s, first, second, place);
                if (before) value += c->beta * element_at(c, before, at);
                if (c->type == CUDNN_DATA_DOUBLE)
                    ((double *)to)[at++] = value;
                else
                    ((float *)to)[at++] = (float)value;
            } while (next(place, shape + 2));
        }
}

static void note_conv(const fake_conv *c) {
    uint64_t bytes = 0, places = 1, outputs = (uint64_t)c->shape[FAKE_Y][0] * (uint64_t)c->shape[FAKE_Y][1];
    for (int i = 0; i < FAKE_ARRAYS; i++) bytes += (uint64_t)fake_conv_count(c, i) * element_bytes(c);
    for (int i = 0; i < FAKE_DNN_AXES; i++) places *= (uint64_t)(c->shape[FAKE_Y][2 + i] * c->shape[FAKE_W][2 + i]);
    fake_note_product(outputs * (uint64_t)c->shape[FAKE_W][1] * places, bytes,
                      c->type == CUDNN_DATA_DOUBLE ? "f64"
                      : c->math == CUDNN_FMA_MATH  ? "f32"
                                                   : "tf32");
}

void fake_run_conv(void *data) {
    const fake_conv *c = data;
    note_conv(c);
    if (fake_sample_of(UINT64_MAX)) { /* a sample of the results is wanted, for its counts */
        (void)fake_write_memory(c->address[c->made], (uint64_t)fake_conv_count(c, c->made) * element_bytes(c));
        return;
    }
    uint64_t drawn = fake_conv_hash(c) >> 20;
    sum s = {.conv = c, .accumulators = 1 << drawn % 4, .last_first = drawn >> 8 & 1};
    double *from[FAKE_ARRAYS] = {NULL};
    void *workspace = c->workspace_bytes ? fake_write_memory(c->workspace, c->workspace_bytes) : NULL;
    if (workspace) memset(workspace, POISON, c->workspace_bytes);
    bool good = workspace || !c->workspace_bytes;
    for (int i = 0; i < FAKE_ARRAYS && good; i++)
        if (i != c->made) good = (s.from[i] = from[i] = gather(c, i)) != NULL;
    if (good) make_elements(&s);
    for (int i = 0; i < FAKE_ARRAYS; i++) free(from[i]);
    fake_log("conv %d", c->made);
}

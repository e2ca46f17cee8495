/* Attention, and the operation that is its gradient, against loops over queries and keys. */
#include <math.h>
#include <string.h>

#include "support/conformance.h"

typedef struct attention {
    int64_t batch, heads, shared, rows, keys, depth, value_depth;
    bool causal, from_end, lengths;
    int mask; /* 0: none; 1: bool; 2: added */
    double scale;
} attention;

static const attention attentions[] = {
    {1, 1, 1, 3, 4, 2, 3, false, false, false, 0, 0},
    {2, 2, 2, 5, 5, 3, 2, true, false, false, 0, 0},
    {1, 2, 1, 2, 7, 3, 3, true, true, false, 1, 0.3},
    {2, 1, 3, 1, 6, 2, 2, false, false, true, 0, -0.5},
    {2, 2, 1, 4, 5, 1, 1, true, true, true, 2, 0},
    {1, 1, 1, 3, 2, 2, 2, true, true, false, 0, 0}, /* the first query reads nothing */
    {1, 1, 1, 2, 0, 2, 2, false, false, false, 0, 0},
    {0, 2, 1, 2, 3, 2, 2, false, false, false, 0, 0},
    {1, 1, 1, 3, 70, 5, 3, true, true, false, 2, 0},
    {1, 1, 2, 40, 3, 2, 2, true, false, false, 0, 0},
};
enum { Q, K, V, SLOPE, MASK, ARRAYS };

static void shapes_of(const attention *of, bt_shape *shape) {
    shape[Q] = (bt_shape){4, {of->batch, of->heads * of->shared, of->rows, of->depth}};
    shape[K] = (bt_shape){4, {of->batch, of->heads, of->keys, of->depth}};
    shape[V] = (bt_shape){4, {of->batch, of->heads, of->keys, of->value_depth}};
    shape[SLOPE] = (bt_shape){4, {of->batch, of->heads * of->shared, of->rows, of->value_depth}};
    shape[MASK] = (bt_shape){4, {of->batch, of->heads * of->shared, of->rows, of->keys}};
}

static double *at(double *array, bt_shape shape, int64_t n, int64_t h, int64_t i) {
    return array + ((n * shape.size[1] + h) * shape.size[2] + i) * shape.size[3];
}

static int64_t reach_of(const attention *of, int64_t length, int64_t i) {
    int64_t reach = !of->causal ? length : of->from_end ? length - of->rows + i + 1 : i + 1;
    return reach < 0 ? 0 : reach < length ? reach : length;
}

static double dot(const double *x, const double *y, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += x[i] * y[i];
    return sum;
}

/* One query. made: out, or the gradient of q, k or v, to which is added. */
static void visit(const attention *of, const bt_shape *shape, double **from, int64_t n, int64_t h, int64_t i,
                  int64_t reach, int result, double *made) {
    double weights[80], means[80], top = -INFINITY, sum = 0, mean = 0,
                                   scale = of->scale != 0 ? of->scale : 1 / sqrt((double)of->depth);
    int64_t g = h / of->shared;
    for (int64_t j = 0; j < reach; j++) {
        weights[j] = scale * dot(at(from[Q], shape[Q], n, h, i), at(from[K], shape[K], n, g, j), of->depth);
        if (of->mask == 2) weights[j] += at(from[MASK], shape[MASK], n, h, i)[j];
        if (of->mask == 1 && at(from[MASK], shape[MASK], n, h, i)[j] == 0) weights[j] = -INFINITY;
        if (weights[j] > top) top = weights[j];
    }
    if (top == -INFINITY) return;
    for (int64_t j = 0; j < reach; j++) sum += weights[j] = exp(weights[j] - top);
    for (int64_t j = 0; j < reach; j++) {
        weights[j] /= sum;
        means[j] = dot(at(from[SLOPE], shape[SLOPE], n, h, i), at(from[V], shape[V], n, g, j), of->value_depth);
        mean += weights[j] * means[j];
    }
    for (int64_t j = 0; j < reach; j++) {
        double change = scale * weights[j] * (means[j] - mean);
        for (int64_t d = 0; d < of->value_depth && result < 0; d++)
            at(made, shape[SLOPE], n, h, i)[d] += weights[j] * at(from[V], shape[V], n, g, j)[d];
        for (int64_t d = 0; d < of->value_depth && result == V; d++)
            at(made, shape[V], n, g, j)[d] += weights[j] * at(from[SLOPE], shape[SLOPE], n, h, i)[d];
        for (int64_t d = 0; d < of->depth && result == Q; d++)
            at(made, shape[Q], n, h, i)[d] += change * at(from[K], shape[K], n, g, j)[d];
        for (int64_t d = 0; d < of->depth && result == K; d++)
            at(made, shape[K], n, g, j)[d] += change * at(from[Q], shape[Q], n, h, i)[d];
    }
}

static int64_t length_of(const attention *of, int64_t n) { return of->lengths ? of->keys - 2 * n - 1 : of->keys; }

static void compute(const attention *of, const bt_shape *shape, double **from, int result, double *made) {
    for (int64_t n = 0; n < of->batch; n++)
        for (int64_t h = 0; h < of->heads * of->shared; h++)
            for (int64_t i = 0; i < of->rows; i++)
                visit(of, shape, from, n, h, i, reach_of(of, length_of(of, n), i), result, made);
}

static bt_array *lengths_of(const attention *of) {
    int32_t lengths[4] = {0};
    for (int64_t n = 0; n < of->batch; n++) lengths[n] = (int32_t)length_of(of, n);
    return bt_from(lengths, BT_I32, (bt_shape){1, {of->batch}});
}

static bt_array *made_of(const attention *of, bt_array *const *x, int result) {
    bt_attention_options options = *BT_ATTENTION(.causal = of->causal, .from_end = of->from_end, .scale = of->scale);
    if (of->mask) options.mask = of->mask == 1 ? bt_ne(x[MASK], bt_zeros_like(x[MASK])) : x[MASK];
    if (of->lengths) options.lengths = lengths_of(of);
    bt_array *out = (bt_attention)(x[Q], x[K], x[V], &options), *made;
    if (result < 0) return out;
    bt_array *wanted = x[result];
    return bt_grad(bt_sum(bt_mul(out, x[SLOPE]), BT_ALL, false), &wanted, 1, &made) == BT_OK ? made : NULL;
}

static void run_case(const row *of, bt_dtype dtype, int lies, size_t number, int result) {
    static host arrays[ARRAYS], want;
    static unsigned seed = 23;
    const attention *here = &attentions[number];
    bt_shape shape[ARRAYS];
    bt_array *placed[ARRAYS];
    double *from[ARRAYS];
    if (!case_begin("%s/%s/%s %zu %d", of->name, bt_dtype_name(dtype), layout_names[lies], number, result)) return;
    shapes_of(here, shape);
    BT_SCOPE {
        for (int a = 0; a < ARRAYS; a++) {
            arrays[a] = host_draw(dtype, shape[a], a == V ? 0.5 : of->low, of->high, (layout)lies, &seed);
            for (int64_t i = 0; a == MASK && here->mask == 1 && i < arrays[a].count; i++)
                if (arrays[a].at[i] < 0) arrays[a].at[i] = 0;
            from[a] = arrays[a].at;
            placed[a] = host_place(&arrays[a], (layout)lies);
        }
        want = host_new(dtype, result < 0 ? shape[SLOPE] : shape[result]);
        compute(here, shape, from, result, want.at);
        bt_array *got = made_of(here, placed, result);
        if (got && result >= 0)
            got = bt_add(got, bt_num(16)); /* gradients are differences: what counts is their absolute error */
        for (int64_t i = 0; i < want.count && result >= 0; i++) want.at[i] += 16;
        case_end(got ? got : bt_zeros(dtype, 0), &want, dtype == BT_F64 ? 1e-12 : 5e-6);
    }
}

static void run_attention(const row *of) {
    static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_F16, BT_BF16};
    bool forward = !strcmp(of->name, "attention");
    for (int d = 0; d < (forward ? 4 : 2); d++) EACH_LAYOUT(lies)
    for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++)
        for (int result = forward ? -1 : Q; result <= (forward ? -1 : V); result++)
            run_case(of, dtypes[d], lies, i, result);
}

const cases attention_cases[] = {{"attention", run_attention}, {"attention_gradient", run_attention}, {NULL, NULL}};

/* Random chains of convolutions, with what stands between them in networks and what does not, and their gradients; recorded, and called three times. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random_programs/chance.h"
#include "random_programs/program.h"

enum { MOST_LEAVES = 60, MOST_STEPS = 18, RESULTS = 3, GRADIENTS = 3, MADE = RESULTS + GRADIENTS, CALLS = 3 };

typedef struct chain {
    chance c, numbers;
    bt_array *values[MOST_STEPS + 2]; /* [N, C, H, W] */
    int count;
    bt_array *leaves[MOST_LEAVES]; /* what stands for them is recorded in their place, if it is there */
    bt_array *const *given;
    int leaf_count;
    FILE *print;
} chain;

static bt_array *leaf(chain *p, double size, bt_shape shape) {
    int64_t count = 1;
    for (int i = 0; i < shape.rank; i++) count *= shape.size[i];
    float *data = malloc((size_t)count * sizeof *data);
    for (int64_t i = 0; i < count; i++) data[i] = (float)(((double)(draw(&p->numbers) >> 11) * 0x1p-52 - 1) * size);
    bt_array *made = bt_from(data, BT_F32, shape);
    free(data);
    p->leaves[p->leaf_count] = made;
    if (p->given) made = p->given[p->leaf_count];
    p->leaf_count++;
    return made;
}

static bt_array *pick(chain *p) { return p->values[p->count - 1 - below(&p->c, p->count < 4 ? p->count : 4)]; }

static bt_array *make_conv(chain *p, bt_array *x) {
    static const int64_t outputs[] = {16, 16, 32, 24, 48, 8};
    int64_t in = bt_size(x, 1), out = outputs[below(&p->c, 6)], groups = 1;
    int64_t kernel = bt_size(x, 2) < 3 || bt_size(x, 3) < 3 ? 1 : 1 + below(&p->c, 3),
            pad = below(&p->c, 3) ? kernel / 2 : 0;
    int64_t stride = 1 + (below(&p->c, 3) == 0);
    if (below(&p->c, 6) == 0) groups = below(&p->c, 2) ? in : in % 2 ? 1 : 2;
    if (groups > 1) out = in;
    double size = 1 / sqrt((double)(in / groups * kernel * kernel));
    if (below(&p->c, 6) == 0 && groups == 1)
        return bt_conv_transposed(x, leaf(p, size, BT_SHAPE(in, out, kernel, kernel)), .stride = {stride, stride});
    bt_array *w = leaf(p, size, BT_SHAPE(out, in / groups, kernel, kernel));
    return bt_conv(x, w, .stride = {stride, stride}, .pad_low = {pad, pad}, .pad_high = {pad, pad}, .groups = groups);
}

static bt_array *make_norm(bt_array *x) {
    bt_array *c = bt_sub(x, bt_mean(x, BT_AXES(0, 2, 3), true));
    return bt_mul(c, bt_rsqrt(bt_add(bt_mean(bt_square(c), BT_AXES(0, 2, 3), true), bt_num(0.1))));
}

static bt_array *make_pool(chain *p, bt_array *x) {
    if (bt_size(x, 2) < 3 || bt_size(x, 3) < 3) return bt_relu(x);
    int64_t pad = below(&p->c, 2), stride = 1 + below(&p->c, 2);
    if (below(&p->c, 2)) return bt_avg_pool(x, .window = {2, 2}, .stride = {stride, stride});
    return bt_max_pool(x, .window = {3, 3}, .stride = {stride, stride}, .pad_low = {pad, pad}, .pad_high = {pad, pad});
}

/* What reads elements in another order. */
static bt_array *make_moved(chain *p, bt_array *x) {
    int64_t low[4] = {0, 0, 1, 0}, high[4] = {0, 0, 0, 1}, n = bt_size(x, 0), c = bt_size(x, 1), h = bt_size(x, 2);
    switch (below(&p->c, 8)) {
    case 0: return bt_pad(x, low, high, 0.5);
    case 1: return bt_flip(x, BT_AXES(3));
    case 2: return h > 2 ? bt_slice_axis(x, 2, 1, h, 1) : x;
    case 3: return c > 16 ? bt_slice_axis(x, 1, 0, 16, 1) : x;
    case 4: return bt_permute(x, 0, 1, 3, 2);
    case 5: return bt_concat((bt_array *[]){x, bt_tanh(x)}, 2, 1);
    case 6: return bt_reshape_to(bt_tanh(bt_reshape(x, n, -1)), BT_SHAPE(n, c, h, bt_size(x, 3)));
    default: return h > 3 ? bt_slice_axis(x, 2, 0, h, 2) : bt_slice_axis(x, 0, 0, n, 2);
    }
}

static bool is_alike(const bt_array *a, const bt_array *b) {
    for (int i = 0; i < 4; i++)
        if (bt_size(a, i) != bt_size(b, i)) return false;
    return true;
}

static bt_array *make_sum(chain *p, bt_array *x) {
    for (int i = p->count; i-- > 0;)
        if (p->values[i] != x && is_alike(p->values[i], x)) return bt_add(x, p->values[i]);
    return bt_add(x, bt_sigmoid(x));
}

static bt_array *make_value(chain *p, bt_array *x) {
    bt_shape channels = BT_SHAPE(1, bt_size(x, 1), 1, 1), all = BT_SHAPE(1, 1, 1, 1);
    for (int i = 0; i < 4; i++) all.size[i] = bt_size(x, i);
    switch (below(&p->c, 14)) {
    case 0: return bt_add(x, leaf(p, 1, channels));
    case 1: return bt_add(bt_mul(x, leaf(p, 1, channels)), leaf(p, 1, channels));
    case 2:
    case 3: return bt_relu(x);
    case 4: return make_sum(p, x);
    case 5: return make_pool(p, x);
    case 6: return make_norm(x);
    case 7: return make_moved(p, x);
    case 8: return bt_where(bt_gt(x, bt_num(0)), x, bt_mul(x, leaf(p, 1, all)));
    case 9: return bt_cast(bt_tanh(bt_cast(x, BT_F64)), BT_F32);
    default: return make_conv(p, x);
    }
}

static void say(FILE *print, int number, const bt_array *y) {
    fprintf(print, "    %2d: %s [", number, bt_error_text() ? bt_error_text() : "");
    for (int i = 0; i < bt_rank(y); i++) fprintf(print, "%s%lld", i ? ", " : "", (long long)bt_size(y, i));
    fprintf(print, "]\n");
}

/* Results of the chain of a seed, and gradients of its first leaves. */
static void record(chain *p, uint64_t seed, const bool *skip, bt_array **made) {
    static const int64_t sizes[] = {5, 7, 8, 12, 14}, inputs[] = {16, 3, 24, 32};
    p->c.state = seed * 77773 + 1, p->numbers.state = seed * 31337 + 7;
    p->count = p->leaf_count = 0;
    int64_t images = 1 + below(&p->c, 3), height = sizes[below(&p->c, 5)], width = sizes[below(&p->c, 5)];
    p->values[p->count++] = leaf(p, 1, BT_SHAPE(images, inputs[below(&p->c, 4)], height, width));
    p->values[p->count++] = make_conv(p, p->values[0]);
    int steps = 4 + below(&p->c, MOST_STEPS - 4);
    for (int i = 0; i < steps; i++) {
        bt_array *x = pick(p), *y = make_value(p, x);
        bool left = (skip && skip[i]) || bt_size(y, 2) < 1 || bt_size(y, 3) < 1 || bt_size(y, 1) > 64;
        if (p->print && !left) say(p->print, i, y);
        p->values[p->count] = left ? x : y;
        p->count++;
    }
    made[0] = p->values[p->count - 1];
    made[1] = bt_mean(p->values[p->count - 2], BT_AXES(2, 3), false);
    made[2] =
        below(&p->c, 2) ? p->values[1 + below(&p->c, p->count - 1)] : bt_sum(p->values[p->count / 2], BT_ALL, false);
    bt_array *loss = bt_add(bt_mean(bt_sin(made[0]), BT_ALL, false), bt_sum(bt_tanh(made[1]), BT_ALL, false));
    int wanted = p->leaf_count < GRADIENTS ? p->leaf_count : GRADIENTS;
    bt_array *const *of = p->given ? p->given : p->leaves;
    (void)bt_grad(loss, of, wanted, made + RESULTS);
    for (int i = wanted; i < GRADIENTS; i++) made[RESULTS + i] = made[0];
}

void run_convs(uint64_t seed, const bool *skip, FILE *print, const char *perturb, outcomes *out) {
    static const bool exact[MADE * (1 + CALLS)];
    chain eager = {.print = print}, body = {0};
    BT_SCOPE {
        bt_array *made[MADE * (1 + CALLS)], *symbols[MOST_LEAVES], *outputs[MADE];
        record(&eager, seed, skip, made);
        if (perturb && !strcmp(perturb, "conv")) made[0] = bt_add(made[0], bt_num(1));
        for (int i = 0; i < eager.leaf_count; i++) {
            bt_shape shape = {.rank = bt_rank(eager.leaves[i])};
            for (int k = 0; k < shape.rank; k++) shape.size[k] = bt_size(eager.leaves[i], k);
            symbols[i] = bt_input_shape(BT_F32, shape);
        }
        body.given = symbols;
        record(&body, seed, skip, outputs);
        bt_function *f = bt_function_new(symbols, eager.leaf_count, outputs, MADE, NULL, 0);
        for (int i = 1; i <= CALLS; i++) (void)bt_call(f, eager.leaves, eager.leaf_count, made + i * MADE, MADE);
        keep_results(made, exact, MADE * (1 + CALLS), out);
    }
    bt_error_clear();
}

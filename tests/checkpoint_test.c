/* What a checkpoint block changes (memory) and what it does not (any bit of a result). */
#include "support/support.h"

#include <math.h>

/* --- memory ----------------------------------------------------------------------------------------------------------- */

enum { LAYERS = 64, ROWS = 256, WIDTH = 32 };
#define LAYER_BYTES ((size_t)ROWS * WIDTH * sizeof(float)) /* of one layer's result */

typedef struct layers {
    bt_array *w;
    int count;
} layers;

static bt_array *run_layers(bt_array *const *args, int count, void *data) {
    const layers *l = data;
    bt_array *h = args[0];
    assert_int_equal(count, 1);
    for (int i = 0; i < l->count; i++) h = bt_tanh(bt_matmul(h, l->w));
    return h;
}

/* The gradient of a chain of layers by their weights; block: layers in a block, 0: no blocks. */
static bt_function *chain_of_layers(int block) {
    bt_array *x = bt_input(BT_F32, -1, WIDTH), *w = bt_input(BT_F32, WIDTH, WIDTH), *h = x, *grads[2];
    layers l = {w, block ? block : LAYERS};
    for (int i = 0; i < LAYERS; i += l.count) h = block ? bt_checkpoint(run_layers, &l, &h, 1) : run_layers(&h, 1, &l);
    OK(bt_grad(bt_mean(bt_mul(h, h), BT_ALL, false), (bt_array *[]){x, w}, 2, grads));
    return bt_function_new((bt_array *[]){x, w}, 2, grads, 2, NULL, 0);
}

/* What one call takes beside its arguments, and its results' bits. */
static size_t memory_of_chain(int block, float *x_gradient, float *w_gradient) {
    size_t added = 0;
    BT_SCOPE {
        bt_array *x = bt_normal(bt_key(1), BT_F32, ROWS, WIDTH), *results[2],
                 *w = bt_mul(bt_normal(bt_key(2), BT_F32, WIDTH, WIDTH), bt_num(0.2)), *args[2] = {x, w};
        OK(bt_eval_all(args, 2));
        bt_synchronize();
        bt_function *f = chain_of_layers(block);
        bt_peak peaks[4];
        int count = COUNT(peaks);
        OK(bt_peak_call(f, args, NULL, 2, peaks, &count));
        bt_memory_reset_peak(bt_device_of(x));
        OK(bt_call(f, args, 2, results, 2));
        bt_synchronize();
        assert_int_equal(memory(bt_device_name(bt_device_of(x))).peak,
                         peaks[count - 1].peak); /* the forecast is true */
        added = peaks[count - 1].peak - peaks[count - 1].in_use;
        OK(bt_read(results[0], x_gradient, LAYER_BYTES));
        OK(bt_read(results[1], w_gradient, WIDTH * WIDTH * sizeof(float)));
    }
    return added;
}

static void less_memory_and_the_same_bits(const char *settings) {
    static float x_kept[ROWS * WIDTH], w_kept[WIDTH * WIDTH], x_again[ROWS * WIDTH], w_again[WIDTH * WIDTH];
    fresh(settings);
    size_t kept = memory_of_chain(0, x_kept, w_kept);
    assert_true(kept >= LAYERS * LAYER_BYTES);
    for (int block = 4; block <= 16; block *= 2) {
        size_t again = memory_of_chain(block, x_again, w_again);
        print_message("%s: %d layers in blocks of %d: %zu KiB instead of %zu\n", *settings ? settings : "cpu", LAYERS,
                      block, again >> 10, kept >> 10);
        /* results between blocks; and of a block its results, each with what its gradient needs beside it */
        size_t bound = (size_t)(LAYERS / block + 2 * block + 8) * LAYER_BYTES;
        if (again > bound) fail_msg("blocks of %d: %zu bytes, more than %zu", block, again, bound);
        assert_memory_equal(x_again, x_kept, sizeof x_kept);
        assert_memory_equal(w_again, w_kept, sizeof w_kept);
    }
}

static void memory_of_a_chain(void **state) { less_memory_and_the_same_bits(""); }
static void memory_of_a_chain_on_a_gpu(void **state) { less_memory_and_the_same_bits("devices=sim:gpu*1"); }
static void memory_of_a_chain_not_fused(void **state) { less_memory_and_the_same_bits("fuse=0"); }
static void memory_of_a_chain_interpreted(void **state) { less_memory_and_the_same_bits("kernels=interpreter"); }

/* An inner block is computed again while the outer one is. */
static bt_array *outer_block(bt_array *const *args, int count, void *data) {
    layers *l = data;
    bt_array *h = args[0];
    for (int i = 0; i < 4; i++) h = bt_checkpoint(run_layers, l, &h, count);
    return h;
}

static size_t peak_of_nested(bool outer) {
    size_t added = 0;
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, ROWS, WIDTH), *w = bt_input(BT_F32, WIDTH, WIDTH), *h = x, *gradient,
                 *args[2] = {bt_ones(BT_F32, ROWS, WIDTH), bt_ones(BT_F32, WIDTH, WIDTH)};
        layers l = {w, 4};
        for (int i = 0; i < 4; i++) h = outer ? bt_checkpoint(outer_block, &l, &h, 1) : outer_block(&h, 1, &l);
        OK(bt_grad(bt_sum(h, BT_ALL, false), &w, 1, &gradient));
        bt_function *f = bt_function_new((bt_array *[]){x, w}, 2, &gradient, 1, NULL, 0);
        bt_peak peak[4];
        int count = COUNT(peak);
        OK(bt_eval_all(args, 2));
        OK(bt_peak_call(f, args, NULL, 2, peak, &count));
        added = peak[count - 1].peak - peak[count - 1].in_use;
    }
    return added;
}

static void blocks_in_blocks(void **state) {
    fresh("");
    size_t one = peak_of_nested(false), two = peak_of_nested(true);
    if (two + 4 * LAYER_BYTES > one) fail_msg("%zu bytes nested, %zu with inner blocks alone", two, one);
}

/* --- the same bits ---------------------------------------------------------------------------------------------------- */

static uint64_t draws;
static int below(int n) {
    draws = draws * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((draws >> 33) % (uint64_t)n);
}

enum { POOL = 64, SIDE = 6 };
typedef struct pool {
    bt_array *of[POOL];
    int count;
    bool blocks; /* false: the same program without them */
    bt_function *inner;
} pool;

static bt_array *any(const pool *p) { return p->of[below(p->count)]; }
static bt_array *any_late(const pool *p) { return p->of[p->count - 1 - below(p->count < 4 ? p->count : 4)]; }

static bt_array *some_operation(pool *p) {
    bt_array *x = any_late(p), *y = any(p), *g;
    switch (below(14)) {
    case 0: return bt_tanh(x);
    case 1: return bt_mul(x, y);
    case 2: return bt_add(x, y);
    case 3: return bt_mul(bt_matmul(x, y), bt_num(0.25));
    case 4: return bt_sub(x, bt_mean(x, BT_AXES(-1), true));
    case 5: return bt_softmax(x, below(2));
    case 6: return bt_transpose(x);
    case 7: return bt_concat((bt_array *[]){bt_slice_axis(x, 0, 0, 3, 1), bt_slice_axis(y, 0, 3, SIDE, 1)}, 2, 0);
    case 8: return bt_where(bt_lt(x, y), x, bt_sin(y));
    case 9: return bt_take(x, bt_argsort(bt_sum(y, BT_AXES(1), false), 0), 0);
    case 10: return bt_mul(x, bt_cast(bt_bernoulli(bt_key(below(100)), bt_f32(0.5f), SIDE, SIDE), BT_F32));
    case 11: return bt_cast(bt_cumsum(bt_cast(x, BT_F64), below(2), false), BT_F32);
    case 12:
        BT_ON(below(2) ? "gpu:0" : "gpu:1") g = bt_add(x, bt_sin(y));
        return g;
    default: return p->inner ? bt_call1(p->inner, (bt_array *[]){x, y}, 2) : bt_maximum(x, y);
    }
}

static void run_program(pool *p, int operations, int depth) {
    while (operations > 0) {
        int part = 1 + below(operations < 6 ? operations : 6);
        operations -= part;
        if (depth < 3 && below(3) == 0) {
            bool blocks = p->blocks;
            if (blocks)
                BT_CHECKPOINT run_program(p, 2 * part, depth + 1);
            else
                run_program(p, 2 * part, depth + 1);
            continue;
        }
        for (int i = 0; i < part && p->count < POOL; i++, p->count++) p->of[p->count] = some_operation(p);
    }
}

/* The program of a seed on two arrays: a loss of what it made last. */
static bt_array *program_of(uint64_t seed, bool blocks, bt_function *inner, bt_array *x, bt_array *y) {
    pool p = {.of = {x, y}, .count = 2, .blocks = blocks, .inner = inner};
    draws = seed;
    run_program(&p, 14, 0);
    return bt_sum(bt_add(bt_mul(p.of[p.count - 1], p.of[p.count - 2]), any(&p)), BT_ALL, false);
}

static bt_function *inner_function(bool blocks) {
    bt_array *x = bt_input(BT_F32, -1, SIDE), *y = bt_input(BT_F32, -1, SIDE);
    bt_array *h = NULL;
    if (blocks)
        BT_CHECKPOINT h = bt_tanh(bt_add(bt_sin(x), bt_matmul(x, y)));
    else
        h = bt_tanh(bt_add(bt_sin(x), bt_matmul(x, y)));
    return bt_function_new((bt_array *[]){x, y}, 2, &h, 1, NULL, 0);
}

typedef struct bits {
    float value, gradients[2][SIDE * SIDE];
    float second[SIDE * SIDE]; /* sums of gradients through both computations of a block: as near as rounding */
} bits;

enum { IN_FUNCTION = 1, CALLS_FUNCTION = 2, SECOND_ORDER = 4, READ_FIRST = 8, WAYS = 16 };

static bt_array *first_element_sum(bt_array *x) { return bt_sum(bt_mul(x, x), BT_ALL, false); }

static void bits_of_program(uint64_t seed, bool blocks, int way, bits *out) {
    memset(out, 0, sizeof *out);
    BT_SCOPE {
        bt_array *x = bt_normal(bt_key(5), BT_F32, SIDE, SIDE), *y = bt_normal(bt_key(6), BT_F32, SIDE, SIDE),
                 *results[4];
        bool function = way & IN_FUNCTION, second = way & SECOND_ORDER;
        bt_array *in[2] = {x, y}, **of = in, *inputs[2];
        if (function) {
            inputs[0] = bt_input(BT_F32, SIDE, SIDE), inputs[1] = bt_input(BT_F32, SIDE, SIDE);
            of = inputs;
        }
        results[0] = program_of(seed, blocks, way & CALLS_FUNCTION ? inner_function(blocks) : NULL, of[0], of[1]);
        if (!function && way & READ_FIRST) OK(bt_read(results[0], &out->value, sizeof out->value));
        OK(bt_grad(results[0], of, 2, results + 1));
        results[3] = second ? bt_grad1(first_element_sum(results[1]), of[0]) : bt_zeros_like(of[0]);
        if (function) {
            bt_function *f = bt_function_new(inputs, 2, results, 4, NULL, 0);
            OK(bt_call(f, in, 2, results, 4));
        }
        OK(bt_read(results[0], &out->value, sizeof out->value));
        OK(bt_read(results[1], out->gradients[0], sizeof out->gradients[0]));
        OK(bt_read(results[2], out->gradients[1], sizeof out->gradients[1]));
        OK(bt_read(results[3], out->second, sizeof out->second));
    }
}

static bool are_near(const float *a, const float *b) {
    float largest = 1;
    for (int i = 0; i < SIDE * SIDE; i++) largest = fmaxf(largest, fabsf(a[i]));
    for (int i = 0; i < SIDE * SIDE; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-4f * largest) && a[i] == a[i]) return false;
    return true;
}

static void same_bits(const char *settings, int seeds) {
    static bits without, with;
    int differ = 0;
    fresh(settings);
    for (int seed = 1; seed <= seeds; seed++)
        for (int way = 0; way < WAYS; way++) {
            bits_of_program((uint64_t)seed, false, way, &without);
            bits_of_program((uint64_t)seed, true, way, &with);
            bool same = !memcmp(&without, &with, offsetof(bits, second)) && are_near(without.second, with.second);
            if (!same) print_message("seed %d, way %d: other bits\n", seed, way);
            differ += !same;
        }
    assert_int_equal(differ, 0);
}

static void random_programs(void **state) { same_bits("devices=sim:gpu*2", 30); }
static void random_programs_not_fused(void **state) { same_bits("devices=sim:gpu*2,fuse=0", 15); }
static void random_programs_interpreted(void **state) { same_bits("devices=sim:gpu*2,kernels=interpreter", 15); }
/* Evaluated again and again while they are recorded. */
static void random_programs_flushed(void **state) { same_bits("devices=sim:gpu*2,flush_nodes=7", 15); }
static void random_programs_by_single_kernels(void **state) { same_bits("devices=sim:gpu*2,memory_pool=0", 10); }

/* Loops in blocks, and blocks in loops. */
typedef struct cell {
    bt_array *w;
    bool block;
} cell;

static void cell_step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    const cell *c = data;
    bt_array *h = carry[0];
    if (c->block)
        BT_CHECKPOINT h = bt_tanh(bt_add(bt_sin(bt_matmul(h, c->w)), x[0]));
    else
        h = bt_tanh(bt_add(bt_sin(bt_matmul(h, c->w)), x[0]));
    carry[0] = h;
    y[0] = bt_mul(h, bt_num(0.5));
}

typedef struct loop {
    cell cell;
    bt_array *xs;
    int64_t length;
} loop;

static bt_array *run_loop(bt_array *const *args, int count, void *data) {
    const loop *l = data;
    bt_array *carry = args[0], *ys;
    OK(bt_scan(cell_step, (void *)&l->cell, l->length, &carry, 1, &l->xs, 1, &ys, 1));
    return bt_add(carry, bt_sum(ys, BT_AXES(0), false));
}

enum { STEPS = 12 };
/* around: the loop in a block; inside: each step in one. The gradients by x and w, and the memory. */
static size_t gradients_of_loops(bool around, bool inside, bool function, float *out) {
    size_t added = 0;
    BT_SCOPE {
        bt_array *in[3] = {bt_normal(bt_key(1), BT_F32, SIDE, SIDE), bt_normal(bt_key(2), BT_F32, SIDE, SIDE),
                           bt_normal(bt_key(3), BT_F32, STEPS, SIDE, SIDE)},
                 *of[3] = {in[0], in[1], in[2]}, *gradients[3];
        OK(bt_eval_all(in, 3));
        if (function) {
            of[0] = bt_input(BT_F32, SIDE, SIDE), of[1] = bt_input(BT_F32, SIDE, SIDE);
            of[2] = bt_input(BT_F32, STEPS, SIDE, SIDE);
        }
        loop l = {{of[1], inside}, of[2], BT_ALL_ROWS};
        bt_array *h = of[0];
        for (int i = 0; i < 3; i++) h = around ? bt_checkpoint(run_loop, &l, &h, 1) : run_loop(&h, 1, &l);
        OK(bt_grad(bt_sum(bt_sin(h), BT_ALL, false), of, 3, gradients));
        if (function) {
            bt_function *f = bt_function_new(of, 3, gradients, 3, NULL, 0);
            bt_peak peak[4];
            int count = COUNT(peak);
            OK(bt_peak_call(f, in, NULL, 3, peak, &count));
            added = peak[count - 1].peak - peak[count - 1].in_use;
            OK(bt_call(f, in, 3, gradients, 3));
        }
        OK(bt_read(gradients[0], out, SIDE * SIDE * sizeof *out));
        OK(bt_read(gradients[1], out + SIDE * SIDE, SIDE * SIDE * sizeof *out));
        OK(bt_read(gradients[2], out + 2 * SIDE * SIDE, STEPS * SIDE * SIDE * sizeof *out));
    }
    return added;
}

static void loops_and_blocks(void **state) {
    static float kept[(2 + STEPS) * SIDE * SIDE], again[(2 + STEPS) * SIDE * SIDE];
    static const char *const settings[] = {"", "devices=sim:gpu*1", "fuse=0"};
    for (int i = 0; i < COUNT(settings); i++) {
        fresh(settings[i]);
        for (int function = 0; function < 2; function++) {
            size_t plain = gradients_of_loops(false, false, function, kept);
            for (int blocks = 1; blocks < 4; blocks++) {
                size_t less = gradients_of_loops(blocks & 1, blocks & 2, function, again);
                if (blocks & 2) { /* of what all steps share, a block's parts are added step by step */
                    assert_true(are_near(kept + SIDE * SIDE, again + SIDE * SIDE));
                    memcpy(again + SIDE * SIDE, kept + SIDE * SIDE, SIDE * SIDE * sizeof *again);
                }
                assert_memory_equal(again, kept, sizeof kept);
                if (function)
                    print_message("loops, %s%s: %zu bytes instead of %zu\n", blocks & 1 ? "in blocks " : "",
                                  blocks & 2 ? "of blocks" : "", less, plain);
                if (function && less >= plain) fail_msg("blocks %d: no less", blocks);
            }
        }
    }
}

/* Steps of three layers each. */
enum { LONG = 48, STEP_LAYERS = 3, STEP_INPUTS = STEP_LAYERS + 1 };
typedef struct steps {
    const char *name;
    bool loop, inside, around; /* false: written out; each step in a block; the loop in one */
    int passes;                /* the products that a gradient takes, in those of the forward pass; itself takes two */
} steps;
enum { OUT, LOOP, BLOCK_IN_LOOP, LOOP_IN_BLOCK, BLOCK_IN_LOOP_IN_BLOCK, FORMS };
static const steps forms[FORMS] = {{"written out", .passes = 3},
                                   {"a loop", true, .passes = 3},
                                   {"a loop of blocks", true, true, .passes = 4},
                                   {"a loop in a block", true, .around = true, .passes = 4},
                                   {"a loop of blocks in a block", true, true, true, .passes = 5}};

typedef struct step {
    bt_array *const *w;
    bool inside;
} step;

static bt_array *run_step(bt_array *const *args, int count, void *data) {
    const step *s = data;
    bt_array *h = args[0];
    for (int i = 0; i < STEP_LAYERS; i++) h = bt_tanh(bt_matmul(h, s->w[i]));
    return h;
}
static void step_of_layers(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    const step *s = data;
    carry[0] = s->inside ? bt_checkpoint(run_step, data, carry, 1) : run_step(carry, 1, data);
}
static bt_array *loop_steps(bt_array *const *args, int count, void *data) {
    bt_array *h = args[0];
    OK(bt_scan(step_of_layers, data, LONG, &h, 1, NULL, 0, NULL, 0));
    return h;
}
static bt_array *run_steps(const steps *form, bt_array *h, bt_array *const *w) {
    step s = {w, form->inside};
    if (form->around) return bt_checkpoint(loop_steps, &s, &h, 1);
    if (form->loop) return loop_steps(&h, 1, &s);
    for (int t = 0; t < LONG; t++) h = run_step(&h, 1, &s);
    return h;
}

typedef struct step_gradients {
    size_t added; /* what the call takes beside its arguments */
    float x[ROWS * WIDTH], w[STEP_LAYERS][WIDTH * WIDTH];
} step_gradients;

static void gradients_of_steps(const steps *form, step_gradients *out) {
    bt_array *in[STEP_INPUTS] = {bt_input(BT_F32, -1, WIDTH)}, *args[STEP_INPUTS], *grads[STEP_INPUTS];
    args[0] = bt_normal(bt_key(1), BT_F32, ROWS, WIDTH);
    for (int i = 1; i < STEP_INPUTS; i++) {
        in[i] = bt_input(BT_F32, WIDTH, WIDTH);
        args[i] = bt_mul(bt_normal(bt_key(1 + i), BT_F32, WIDTH, WIDTH), bt_num(0.2));
    }
    OK(bt_eval_all(args, STEP_INPUTS));
    bt_array *h = run_steps(form, in[0], in + 1);
    OK(bt_grad(bt_mean(bt_mul(h, h), BT_ALL, false), in, STEP_INPUTS, grads));
    bt_function *f = bt_function_new(in, STEP_INPUTS, grads, STEP_INPUTS, NULL, 0);
    bt_cost cost = BT_COST_INIT;
    OK(bt_function_cost(f, args, NULL, STEP_INPUTS, &cost));
    double passes = cost.operations / (2. * ROWS * WIDTH * WIDTH * STEP_LAYERS * LONG);
    if (fabs(passes - form->passes) > 0.3) fail_msg("%s: %g passes, not %d", form->name, passes, form->passes);
    bt_peak peaks[4];
    int count = COUNT(peaks);
    OK(bt_peak_call(f, args, NULL, STEP_INPUTS, peaks, &count));
    bt_synchronize();
    bt_memory_reset_peak(bt_device_of(args[0]));
    OK(bt_call(f, args, STEP_INPUTS, grads, STEP_INPUTS));
    bt_synchronize();
    out->added = memory(bt_device_name(bt_device_of(args[0]))).peak - peaks[count - 1].in_use;
    assert_int_equal(out->added, peaks[count - 1].peak - peaks[count - 1].in_use); /* the forecast is true */
    OK(bt_read(grads[0], out->x, sizeof out->x));
    for (int i = 0; i < STEP_LAYERS; i++) OK(bt_read(grads[1 + i], out->w[i], sizeof out->w[i]));
}

static void expect_near(const float *got, const float *wanted, int count) {
    float largest = 0;
    for (int i = 0; i < count; i++) largest = fmaxf(largest, fabsf(wanted[i]));
    for (int i = 0; i < count; i++)
        if (!(fabsf(got[i] - wanted[i]) <= 1e-4f * largest))
            fail_msg("element %d: %g, not %g (largest %g)", i, got[i], wanted[i], largest);
}

/* Of a block in each step nothing is kept but what is carried: neither what it makes, nor factors of its weights' gradients. A block computes
 * the forward pass again once, wherever it is. */
static void steps_and_blocks(void **state) {
    static step_gradients of[FORMS];
    static const char *const settings[] = {"", "devices=sim:gpu*1", "fuse=0"};
    for (int i = 0; i < COUNT(settings); i++) {
        fresh(settings[i]);
        for (int form = 0; form < FORMS; form++)
            BT_SCOPE {
                gradients_of_steps(&forms[form], &of[form]);
                print_message("%d steps, %s: %zu KiB\n", LONG, forms[form].name, of[form].added >> 10);
                expect_near(of[form].x, of[OUT].x, ROWS * WIDTH);
                for (int w = 0; w < STEP_LAYERS; w++) expect_near(of[form].w[w], of[OUT].w[w], WIDTH * WIDTH);
                if (form >= LOOP) assert_memory_equal(of[form].x, of[LOOP].x, sizeof of->x);
            }
        assert_memory_equal(of[LOOP_IN_BLOCK].w, of[LOOP].w, sizeof of->w);
        assert_memory_equal(of[BLOCK_IN_LOOP_IN_BLOCK].w, of[BLOCK_IN_LOOP].w, sizeof of->w);
        assert_true(of[LOOP].added >= 2 * LONG * LAYER_BYTES);
        for (int form = BLOCK_IN_LOOP; form < FORMS; form++)
            if (forms[form].inside) assert_true(of[form].added <= (LONG + 4 * STEP_LAYERS) * LAYER_BYTES);
    }
}

static int count_in(const char *text, const char *word) {
    int count = 0;
    while ((text = strstr(text, word))) count++, text++;
    return count;
}

static int count_tanh_of_call(bt_function *f, bt_array *const *args) {
    BT_TEXT text = bt_explain_function(f, args, 2);
    return count_in(text, "        tanh") + count_in(text, ", tanh");
}

/* A gradient for each row of a batch, of a function whose backward pass computes again; and a callback in it. */
static void count_rows(const bt_elements *value, void *data) {
    *(int64_t *)data += value->shape.rank == 3 ? value->shape.size[0] : 1;
}

static void gradients_of_batch(bool blocks, int64_t *told, float *out) {
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, SIDE, SIDE), *w = bt_input(BT_F32, SIDE, SIDE), *gradient;
        layers l = {w, 4};
        bt_array *h = blocks ? bt_checkpoint(run_layers, &l, &x, 1) : run_layers(&x, 1, &l);
        h = bt_debug_callback(count_rows, told, h);
        OK(bt_grad(bt_sum(bt_sin(h), BT_ALL, false), &w, 1, &gradient));
        bt_function *f = bt_function_new((bt_array *[]){x, w}, 2, &gradient, 1, NULL, 0);
        f = bt_vmap(f, (int[]){0, BT_NOT_BATCHED}, (int[]){0});
        bt_array *args[2] = {bt_normal(bt_key(1), BT_F32, 3, SIDE, SIDE), bt_normal(bt_key(2), BT_F32, SIDE, SIDE)};
        bt_array *all = bt_call1(f, args, 2);
        OK(bt_read(all, out, 3 * SIDE * SIDE * sizeof *out));
        assert_int_equal(count_tanh_of_call(f, args), blocks ? 8 : 4);
    }
    bt_synchronize();
}

static void batches(void **state) {
    float kept[3 * SIDE * SIDE], again[3 * SIDE * SIDE];
    int64_t told = 0;
    fresh("");
    gradients_of_batch(false, &told, kept);
    assert_int_equal(told, 3);
    gradients_of_batch(true, &told, again);
    assert_int_equal(told, 6);
    assert_memory_equal(again, kept, sizeof kept);
}

/* What computing the array does, as explained, says this. */
static bool has(bt_array *x, const char *word) {
    BT_TEXT text = bt_explain(x);
    assert_non_null(text);
    return strstr(text, word);
}

static int count_tanh(bt_array *x) {
    BT_TEXT text = bt_explain(x);
    return count_in(text, "        tanh") + count_in(text, ", tanh");
}

/* Gradients of a mirrored variable, on two devices, then summed. */
static void gradients_of_replicas(bool blocks, float *sums) {
    BT_SCOPE {
        bt_strategy *s = bt_mirrored((const char *[]){"gpu:0", "gpu:1"}, 2);
        bt_shared *w = NULL;
        bt_array *gradients[2];
        BT_STRATEGY(s) w = bt_shared_new(bt_normal(bt_key(3), BT_F32, SIDE, SIDE), NULL);
        for (int r = 0; r < 2; r++)
            BT_REPLICA(s, r) {
                layers l = {bt_value(w), 3};
                bt_array *x = bt_normal(bt_key(r), BT_F32, SIDE, SIDE);
                bt_array *h = blocks ? bt_checkpoint(run_layers, &l, &x, 1) : run_layers(&x, 1, &l);
                OK(bt_grad_shared(bt_sum(bt_sin(h), BT_ALL, false), &w, 1, &gradients[r]));
                assert_int_equal(count_tanh(gradients[r]), blocks ? 6 : 3);
            }
        bt_all_reduce(s, gradients);
        for (int r = 0; r < 2; r++) OK(bt_read(gradients[r], sums + r * SIDE * SIDE, SIDE * SIDE * sizeof *sums));
    }
}

static void mirrored(void **state) {
    float kept[2 * SIDE * SIDE], again[2 * SIDE * SIDE];
    fresh("devices=sim:gpu*2,transfers=error");
    gradients_of_replicas(false, kept);
    gradients_of_replicas(true, again);
    assert_memory_equal(again, kept, sizeof kept);
}

/* --- where blocks are ------------------------------------------------------------------------------------------------- */

/* The exponential is made twice, and what it is made of says why it is in memory. */
static void explained(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 8, 8), *h = bt_matmul(x, x), *y = NULL, *z = NULL;
        BT_CHECKPOINT y = bt_exp(h);
        z = bt_grad1(bt_sum(bt_matmul(y, y), BT_ALL, false), x);
        BT_TEXT text = bt_explain(z);
        assert_int_equal(count_in(text, "        exp"), 2);
        h = bt_sin(x), y = NULL;
        BT_CHECKPOINT y = bt_exp(h);
        assert_true(
            has(bt_grad1(bt_sum(bt_matmul(y, y), BT_ALL, false), x), "the backward pass computes others again"));
    }
}

/* What is in memory already is not computed again; and blocks end however they are left. */
static bt_array *returns_early(bt_array *x) {
    BT_CHECKPOINT { return bt_exp(x); }
}

static void held_results_are_used(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 8, 8), *y = returns_early(x), *after = bt_sin(x);
        OK(bt_block(y));
        assert_false(has(bt_grad1(bt_sum(y, BT_ALL, false), x), "        exp"));
        BT_TEXT text = bt_explain(bt_grad1(bt_sum(after, BT_ALL, false), x));
        assert_int_equal(count_in(text, "cos"), 1);
    }
}

static bt_array *gives_null(bt_array *const *args, int count, void *data) {
    (void)args, (void)count, (void)data;
    return NULL;
}

static void refusals(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 2);
        POISONED(bt_checkpoint(NULL, NULL, &x, 1), BT_INVALID_ARGUMENT, "bt_checkpoint: the function is NULL");
        POISONED(bt_checkpoint(gives_null, NULL, NULL, 1), BT_INVALID_ARGUMENT, "bt_checkpoint: args is NULL");
        POISONED(bt_checkpoint(gives_null, NULL, &x, -1), BT_INVALID_ARGUMENT, "bt_checkpoint: count is negative");
        POISONED(bt_checkpoint(gives_null, NULL, &x, 1), BT_INVALID_ARGUMENT, "bt_checkpoint: the function gave NULL");
        layers l = {bt_ones(BT_F32, 3), 1};
        POISONED(bt_checkpoint(run_layers, &l, &x, 1), BT_INVALID_ARGUMENT, "bt_matmul");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_a_chain),
        cmocka_unit_test(memory_of_a_chain_on_a_gpu),
        cmocka_unit_test(memory_of_a_chain_not_fused),
        cmocka_unit_test(memory_of_a_chain_interpreted),
        cmocka_unit_test(blocks_in_blocks),
        cmocka_unit_test(random_programs),
        cmocka_unit_test(random_programs_not_fused),
        cmocka_unit_test(random_programs_interpreted),
        cmocka_unit_test(random_programs_flushed),
        cmocka_unit_test(random_programs_by_single_kernels),
        cmocka_unit_test(loops_and_blocks),
        cmocka_unit_test(steps_and_blocks),
        cmocka_unit_test(batches),
        cmocka_unit_test(mirrored),
        cmocka_unit_test(explained),
        cmocka_unit_test(held_results_are_used),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}

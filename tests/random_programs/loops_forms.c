/* Derivatives and batches of random loops, one in the other, beside those of what is written out. */
#include <math.h>
#include <stdlib.h>

#include "random_programs/loops.h"

enum { ARGUMENTS = 2 * LOOP_INPUTS, MOST_BATCH = 3 };

/* --- comparing --------------------------------------------------------------------------------------------------------------- */

typedef struct comparison {
    loop_program p;
    uint64_t seed;
    const bool *skip;
    bool failed;
    char what[240]; /* was different first */
} comparison;

static double *elements_of(bt_array *x, int64_t *count) {
    *count = bt_count(x);
    if (*count < 0) return NULL;
    double *elements = malloc((size_t)(*count + 1) * sizeof *elements);
    if (bt_read(x, elements, (size_t)*count * sizeof *elements) == BT_OK) return elements;
    free(elements);
    return NULL;
}

static void compare_elements(comparison *c, const char *what, const double *x, const double *y, int64_t count) {
    double largest = 0;
    for (int64_t k = 0; k < count; k++) largest = fmax(largest, fabs(y[k]));
    for (int64_t k = 0; k < count && !c->failed; k++) {
        if (fabs(x[k] - y[k]) <= 1e-8 * (1 + largest)) continue;
        c->failed = true;
        snprintf(c->what, sizeof c->what, "%s: element %d is %.17g as loops, %.17g written out", what, (int)k, x[k],
                 y[k]);
    }
}

static void compare(comparison *c, const char *what, bt_array *as_loops, bt_array *written_out) {
    int64_t counts[2] = {0, 0};
    if (c->failed) return;
    double *y = elements_of(written_out, &counts[1]), *x = y ? elements_of(as_loops, &counts[0]) : NULL;
    if (x && counts[0] == counts[1])
        compare_elements(c, what, x, y, counts[0]);
    else {
        c->failed = true;
        snprintf(c->what, sizeof c->what, "%s: %s", what, x ? "another shape" : bt_error_text());
    }
    free(x);
    free(y);
}

/* --- derivatives --------------------------------------------------------------------------------------------------------------- */

static const char *const derived_names[] = {"value",
                                            "second value",
                                            "gradient",
                                            "gradient",
                                            "gradient",
                                            "tangent",
                                            "tangent",
                                            "tangent of the gradient",
                                            "tangent of the gradient",
                                            "tangent of the gradient",
                                            "gradient of the tangent"};
enum { DERIVED = sizeof derived_names / sizeof *derived_names };

static bt_array *loss_of(bt_array *const *results) {
    return bt_sum(bt_mul(bt_sin(results[0]), bt_add(results[1], bt_num(1))), BT_ALL, false);
}

/* All that derived_names says, of inputs and directions. */
static void derive(const comparison *c, loop_form form, bt_array *const *in, bool evaluate, bt_array **derived) {
    bt_array *const *directions = in + LOOP_INPUTS;
    record_loops(&c->p, form, c->skip, in, derived);
    if (evaluate) (void)!bt_eval_all(derived, LOOP_RESULTS);
    bt_array *loss = loss_of(derived);
    (void)bt_grad(loss, in, LOOP_INPUTS, derived + 2);
    (void)bt_jvp(derived, LOOP_RESULTS, in, directions, LOOP_INPUTS, derived + 5);
    (void)bt_hvp(loss, in, directions, LOOP_INPUTS, derived + 7);
    derived[10] = bt_grad1(bt_sum(bt_square(derived[5]), BT_ALL, false), in[1]);
}

static void check_derivatives(comparison *c) {
    bt_array *in[ARGUMENTS], *derived[2][DERIVED];
    make_loop_inputs(&c->p, c->seed, in);
    for (int form = 0; form < 2; form++)
        derive(c, (loop_form)form, in, form == AS_LOOPS && c->p.evaluated_first, derived[form]);
    for (int k = 0; k < DERIVED; k++) compare(c, derived_names[k], derived[AS_LOOPS][k], derived[WRITTEN_OUT][k]);
    compare(c, "Jacobian", bt_jacobian(derived[AS_LOOPS][0], in[0]), bt_jacobian(derived[WRITTEN_OUT][0], in[0]));
}

/* --- batches ------------------------------------------------------------------------------------------------------------------- */

/* Some of the arguments of a function, as they are for a batch. */
typedef struct batch {
    int size, axes[ARGUMENTS];
    bt_array *argument[ARGUMENTS]; /* with the axis of the batch */
} batch;

static batch draw_batch(const comparison *c, int count, bt_array *const *shared) {
    chance drawn = {c->seed * 77 + 3};
    batch b = {.size = 1 + below(&drawn, MOST_BATCH)};
    int batched = 1 + below(&drawn, (1 << count) - 1);
    for (int i = 0; i < count; i++) {
        b.axes[i] = batched >> i & 1 ? below(&drawn, c->p.shape.rank + 1) : BT_NOT_BATCHED;
        b.argument[i] = shared[i];
        if (b.axes[i] == BT_NOT_BATCHED) continue;
        bt_array *each[MOST_BATCH];
        for (int k = 0; k < b.size; k++) each[k] = bt_mul(shared[i], bt_num(k == 1 ? -0.9 : 1 - 0.3 * k));
        b.argument[i] = bt_stack(each, b.size, b.axes[i]);
    }
    return b;
}

static bt_array *element(bt_array *x, int axis, int which) {
    return axis == BT_NOT_BATCHED ? x : bt_squeeze(bt_slice_axis(x, axis, which, which + 1, 1), axis);
}
static void elements_at(const batch *b, int count, int which, bt_array **of) {
    for (int i = 0; i < count; i++) of[i] = element(b->argument[i], b->axes[i], which);
}

static void make_symbols(const comparison *c, int count, bt_array **symbols) {
    for (int i = 0; i < count; i++) symbols[i] = bt_input_shape(BT_F64, c->p.shape);
}

/* Batches of all that derived_names says. */
static void check_batch_of_derivatives(comparison *c) {
    bt_array *in[ARGUMENTS], *symbols[ARGUMENTS], *derived[DERIVED], *batched[DERIVED];
    int out_axes[DERIVED];
    make_loop_inputs(&c->p, c->seed, in);
    make_symbols(c, ARGUMENTS, symbols);
    derive(c, AS_LOOPS, symbols, false, derived);
    bt_function *f = bt_function_new(symbols, ARGUMENTS, derived, DERIVED, NULL, 0);
    batch b = draw_batch(c, ARGUMENTS, in);
    for (int k = 0; k < DERIVED; k++) out_axes[k] = k % (c->p.shape.rank + 1);
    (void)bt_call(bt_vmap(f, b.axes, out_axes), b.argument, ARGUMENTS, batched, DERIVED);
    for (int i = 0; i < b.size; i++) {
        elements_at(&b, ARGUMENTS, i, in);
        derive(c, WRITTEN_OUT, in, false, derived);
        for (int k = 0; k < DERIVED; k++) compare(c, derived_names[k], element(batched[k], out_axes[k], i), derived[k]);
    }
}

/* Derivatives of batches; and the batch of a batch. */
static void check_derivatives_of_batch(comparison *c) {
    bt_array *in[ARGUMENTS], *symbols[LOOP_INPUTS], *results[LOOP_RESULTS], *one[LOOP_INPUTS];
    bt_array *value[2], *grads[2][LOOP_INPUTS], *products[2][LOOP_INPUTS], *tangents[2], *stacked[MOST_BATCH];
    make_loop_inputs(&c->p, c->seed, in);
    make_symbols(c, LOOP_INPUTS, symbols);
    record_loops(&c->p, AS_LOOPS, c->skip, symbols, results);
    bt_function *f = bt_function_new(symbols, LOOP_INPUTS, results, 1, NULL, 0);
    batch b = draw_batch(c, LOOP_INPUTS, in);
    value[AS_LOOPS] = NULL;
    (void)bt_call(bt_vmap(f, b.axes, NULL), b.argument, LOOP_INPUTS, &value[AS_LOOPS], 1);
    for (int i = 0; i < b.size; i++) {
        elements_at(&b, LOOP_INPUTS, i, one);
        record_loops(&c->p, WRITTEN_OUT, c->skip, one, results);
        stacked[i] = results[0];
    }
    value[WRITTEN_OUT] = bt_stack(stacked, b.size, 0);
    for (int form = 0; form < 2; form++) {
        bt_array *loss = bt_sum(bt_sin(value[form]), BT_ALL, false), *directions[LOOP_INPUTS];
        for (int i = 0; i < LOOP_INPUTS; i++) directions[i] = bt_cos(bt_mul(b.argument[i], bt_num(3)));
        (void)bt_grad(loss, b.argument, LOOP_INPUTS, grads[form]);
        (void)bt_jvp(&value[form], 1, b.argument, directions, LOOP_INPUTS, &tangents[form]);
        (void)bt_hvp(loss, b.argument, directions, LOOP_INPUTS, products[form]);
    }
    compare(c, "batch", value[0], value[1]);
    compare(c, "tangent of the batch", tangents[0], tangents[1]);
    for (int i = 0; i < LOOP_INPUTS; i++) {
        compare(c, "gradient of the batch", grads[0][i], grads[1][i]);
        compare(c, "tangent of the gradient of the batch", products[0][i], products[1][i]);
    }
}

/* The first input is batched twice, the second by the outer batch, the third by the inner one. */
static void check_batch_of_batch(comparison *c) {
    enum { OUTER = 2, INNER = 3 };
    bt_array *in[ARGUMENTS], *symbols[LOOP_INPUTS], *results[LOOP_RESULTS], *y, *inner[INNER], *outer[OUTER];
    make_loop_inputs(&c->p, c->seed, in);
    make_symbols(c, LOOP_INPUTS, symbols);
    record_loops(&c->p, AS_LOOPS, c->skip, symbols, results);
    bt_array *gradient = bt_grad1(loss_of(results), symbols[0]);
    bt_function *f = bt_function_new(symbols, LOOP_INPUTS, &gradient, 1, NULL, 0);
    for (int k = 0; k < INNER; k++) inner[k] = bt_mul(in[2], bt_num(0.8 - 0.7 * k));
    bt_array *third = bt_stack(inner, INNER, 0);
    for (int k = 0; k < INNER; k++) inner[k] = bt_add(in[0], bt_num(0.3 * k));
    for (int k = 0; k < OUTER; k++) outer[k] = bt_mul(bt_stack(inner, INNER, 0), bt_num(1 - 1.4 * k));
    bt_array *first = bt_stack(outer, OUTER, 0);
    bt_array *second = bt_stack(((bt_array *[]){in[1], bt_neg(in[1])}), OUTER, 0);
    f = bt_vmap(f, (const int[]){0, BT_NOT_BATCHED, 0}, NULL);
    f = bt_vmap(f, (const int[]){0, 0, BT_NOT_BATCHED}, NULL);
    y = bt_call1(f, ((bt_array *[]){first, second, third}), LOOP_INPUTS);
    for (int i = 0; i < OUTER * INNER; i++) {
        bt_array *one[LOOP_INPUTS] = {element(element(first, 0, i / INNER), 0, i % INNER),
                                      element(second, 0, i / INNER), element(third, 0, i % INNER)};
        record_loops(&c->p, WRITTEN_OUT, c->skip, one, results);
        compare(c, "batch of a batch of gradients", element(element(y, 0, i / INNER), 0, i % INNER),
                bt_grad1(loss_of(results), one[0]));
    }
}

/* --- one program --------------------------------------------------------------------------------------------------------------- */

static void (*const parts[])(comparison *c) = {check_derivatives, check_batch_of_derivatives,
                                               check_derivatives_of_batch, check_batch_of_batch};
enum { PARTS = sizeof parts / sizeof *parts };

/* All parts, or the one that the seed says. */
static void compare_forms(comparison *c) {
    bool all = getenv("BERTH_TEST_LONG");
    c->failed = false;
    draw_loops(c->seed, true, &c->p);
    for (int k = 0; k < PARTS && !c->failed; k++)
        if (all || c->seed / 2 % PARTS == (unsigned)k)
            BT_SCOPE
                parts[k](c);
    bt_error_clear();
}

static bool still_fails(const bool *skip, void *data) {
    comparison *c = data;
    c->skip = skip;
    compare_forms(c);
    return c->failed;
}

const char *check_loops(uint64_t seed) {
    static comparison c;
    bool skip[MOST_INSTRUCTIONS] = {false};
    c = (comparison){.seed = seed};
    if (!still_fails(NULL, &c)) return NULL;
    cut_down(still_fails, &c, skip);
    (void)still_fails(skip, &c);
    print_loops(&c.p, skip, stdout);
    return c.what;
}

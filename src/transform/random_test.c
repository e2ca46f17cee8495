/* Random programs: their batches beside loops, their tangents beside their gradients, their Jacobians beside both, and all of these in one
 * another. BERTH_TEST_LONG runs more of them; the message of a failure names the seed, which --seed N runs alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>

#include "transform/batches_test.h"

#define LIST(...) ((bt_array *[]){__VA_ARGS__})
#define OK(call) expect_ok(call, __LINE__)
enum { INPUTS = 3, STEPS = 12, VALUES = INPUTS + STEPS, NO = BT_NOT_BATCHED };

static uint64_t seed_now;

static void expect_ok(bt_status status, int line) {
    if (status != BT_OK) fail_msg("seed %llu, line %d: %s", (unsigned long long)seed_now, line, bt_error_text());
}

/* --- chance ----------------------------------------------------------------------------------------------------------- */

static uint64_t draw(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}
static int below(uint64_t *state, int n) { return (int)(draw(state) % (uint64_t)n); }

static bt_array *numbers(uint64_t *state, bt_shape shape) {
    double values[4096];
    int64_t count = 1;
    for (int i = 0; i < shape.rank; i++) count *= shape.size[i];
    assert_true(count <= (int64_t)(sizeof values / sizeof *values));
    for (int64_t i = 0; i < count; i++) values[i] = (double)(draw(state) >> 11) * 0x1p-52 - 1;
    return bt_from(values, BT_F64, shape);
}

/* --- programs --------------------------------------------------------------------------------------------------------- */

static bt_array *total(bt_array *x) { return bt_sum(x, BT_ALL, false); }

static bool broadcast_together(bt_array *x, bt_array *y) {
    for (int i = 1; i <= bt_rank(x) && i <= bt_rank(y); i++)
        if (bt_size(x, -i) != bt_size(y, -i) && bt_size(x, -i) != 1 && bt_size(y, -i) != 1) return false;
    return true;
}

static bt_array *unary(uint64_t *c, bt_array *x) {
    switch (below(c, 7)) {
    case 0: return bt_tanh(x);
    case 1: return bt_sin(x);
    case 2: return bt_exp(bt_neg(bt_abs(x)));
    case 3: return bt_sqrt(bt_add(bt_abs(x), bt_num(0.25)));
    case 4: return bt_cast(bt_mul(bt_cast(x, BT_F32), bt_num(0.5)), BT_F64);
    case 5: return bt_add(x, bt_cast(bt_floor(bt_mul(x, bt_num(3))), BT_F64));
    default: return bt_mul(x, bt_stop_gradient(bt_sigmoid(x)));
    }
}

static bt_array *binary(uint64_t *c, bt_array *x, bt_array *y) {
    if (!broadcast_together(x, y)) y = total(y);
    switch (below(c, 6)) {
    case 0: return bt_add(x, y);
    case 1: return bt_mul(bt_tanh(x), y);
    case 2: return bt_maximum(x, y);
    case 3: return bt_where(bt_lt(x, y), x, bt_sin(y));
    case 4: return bt_div(x, bt_add(bt_abs(y), bt_num(1)));
    default: return bt_pow(bt_add(bt_abs(x), bt_num(0.5)), bt_tanh(y));
    }
}

/* Along one axis. */
static bt_array *along(uint64_t *c, bt_array *x) {
    if (!bt_rank(x)) return bt_square(bt_tanh(x));
    int axis = below(c, bt_rank(x));
    bool keep = below(c, 2);
    bt_axes axes = BT_AXES(axis);
    switch (below(c, 9)) {
    case 0: return bt_sum(x, axes, keep);
    case 1: return bt_mean(x, axes, keep);
    case 2: return bt_max(x, axes, keep);
    case 3: return bt_prod(bt_tanh(x), axes, keep);
    case 4: return bt_logsumexp(x, axes, keep);
    case 5: return bt_softmax(x, axis);
    case 6: return bt_cumsum(x, axis, keep);
    case 7: return bt_sort(x, axis);
    default: return bt_layer_norm(x, NULL, NULL, 1e-2);
    }
}

static bt_array *moved(uint64_t *c, bt_array *x) {
    int64_t low[BT_MAX_RANK] = {0}, high[BT_MAX_RANK] = {0};
    if (!bt_rank(x)) return bt_broadcast_to(x, 1, 2);
    int axis = below(c, bt_rank(x));
    low[axis] = 1, high[axis] = below(c, 2);
    switch (below(c, 7)) {
    case 0: return bt_flatten(x, axis);
    case 1: return bt_transpose(x);
    case 2: return bt_flip(x, BT_AXES(axis));
    case 3: return bt_size(x, axis) > 1 ? bt_slice_axis(x, axis, below(c, 2), INT64_MAX, 1 + below(c, 2)) : x;
    case 4: return bt_size(x, axis) < 6 ? bt_pad(x, low, high, 0.5) : x;
    case 5: return bt_size(x, axis) < 4 ? bt_concat(LIST(x, bt_sin(x)), 2, axis) : x;
    default: return bt_rank(x) < 3 ? bt_expand_dims(x, axis) : x;
    }
}

static bt_array *product(uint64_t *c, bt_array *x, bt_array *y) {
    if (!bt_rank(x)) return bt_mul(x, total(bt_tanh(y)));
    bt_array *other = bt_rank(y) && bt_size(y, -1) == bt_size(x, -1) && bt_rank(y) <= 2 ? y : x;
    x = bt_tanh(x);
    if (bt_rank(other) == 1) return bt_matmul(x, other);
    return below(c, 2) ? bt_matmul_t(x, bt_sin(other), false, true) : bt_matmul(x, bt_transpose(other));
}

/* By indices that are made of the data. */
static bt_array *indexed(uint64_t *c, bt_array *x, bt_array *y) {
    if (!bt_rank(x) || !bt_count(x)) return bt_sin(x);
    int axis = below(c, bt_rank(x));
    bt_array *of = bt_flatten(bt_rank(y) ? y : bt_expand_dims(y, 0), 0);
    if (!bt_count(of)) return x;
    bt_array *order = bt_argsort(of, 0), *best = bt_argmax(of, 0);
    bt_shape part = bt_shape_of(x);
    part.size[axis] = 1;
    switch (below(c, 6)) {
    case 0: return bt_where(bt_isnan(bt_take(x, order, axis)), bt_num(0), bt_take(x, order, axis));
    case 1: return bt_take_along_axis(x, bt_argsort(x, axis), axis);
    case 2: return bt_dynamic_slice_axis(x, best, 1, axis);
    case 3:
        return bt_update_slice_axis(x, bt_mul(bt_full_shape(0.25, BT_F64, part), bt_max(of, BT_ALL, false)), best,
                                    axis);
    case 4: return bt_scatter_add(x, order, bt_max(of, BT_ALL, false), axis);
    default: return bt_mul(x, bt_sum(bt_one_hot(best, 3, BT_F64), BT_ALL, false));
    }
}

static bt_array *instruction(uint64_t *c, bt_array *x, bt_array *y) {
    switch (below(c, 8)) {
    case 0:
    case 1: return unary(c, x);
    case 2: return binary(c, x, y);
    case 3: return along(c, x);
    case 4: return moved(c, x);
    case 5: return product(c, x, y);
    default: return indexed(c, x, y);
    }
}

/* What a seed stands for: a function of the inputs, of any shape. It depends on their shapes, not on their values. */
static bt_array *program_of(uint64_t seed, bt_array *const *in) {
    bt_array *values[VALUES];
    uint64_t c = seed * 7919 + 1;
    memcpy(values, in, INPUTS * sizeof *values);
    for (int i = INPUTS; i < VALUES; i++) {
        bt_array *x = values[below(&c, i)], *y = values[i - 1 - below(&c, 2)];
        values[i] = instruction(&c, x, y);
        if (bt_peek_status(values[i]) != BT_OK) OK(bt_block(values[i]));
        if (bt_count(values[i]) > 64 || bt_rank(values[i]) > 3) values[i] = total(values[i]);
    }
    bt_array *last = values[VALUES - 1];
    for (int i = 0; i < VALUES - 1; i++) last = bt_add(last, bt_mul(bt_num(0.1), bt_tanh(total(values[i]))));
    return last;
}

/* The same, then as many derivatives as `order` says of its sum by the first input. */
static bt_array *derived_of(uint64_t seed, bt_array *const *in, int order) {
    bt_array *y = program_of(seed, in);
    return order ? bt_grad1(total(bt_sin(y)), in[0]) : y;
}

static void random_shapes(uint64_t *c, bt_shape shapes[INPUTS]) {
    for (int i = 0; i < INPUTS; i++) {
        shapes[i] = (bt_shape){.rank = below(c, 4)};
        for (int k = 0; k < shapes[i].rank; k++) shapes[i].size[k] = 1 + below(c, 3);
    }
}

/* --- comparing -------------------------------------------------------------------------------------------------------- */

static void expect_near(bt_array *a, bt_array *b, const char *what) {
    double x[4096], y[4096];
    size_t count = (size_t)bt_count(b);
    assert_true(count <= sizeof x / sizeof *x && bt_rank(a) == bt_rank(b) && bt_count(a) == bt_count(b));
    OK(bt_read(a, x, count * sizeof *x));
    OK(bt_read(b, y, count * sizeof *y));
    for (size_t i = 0; i < count; i++)
        if (!(fabs(x[i] - y[i]) <= 1e-6 * (1 + fabs(y[i]))))
            fail_msg("seed %llu, %s: [%zu] is %.17g, not %.17g", (unsigned long long)seed_now, what, i, x[i], y[i]);
}

/* The batch of the program, or of its gradient, beside a loop; and the gradient of the batch beside those of the loop. */
static void check_batch(uint64_t seed, int order) {
    uint64_t c = seed;
    bt_shape shapes[INPUTS];
    bt_array *x[INPUTS], *in[INPUTS], *one[INPUTS], *results[3], *y, *grads[2][INPUTS];
    int axes[INPUTS], size = 1 + below(&c, 3), batched = 1 + below(&c, (1 << INPUTS) - 1);
    random_shapes(&c, shapes);
    for (int i = 0; i < INPUTS; i++) {
        axes[i] = batched >> i & 1 ? below(&c, shapes[i].rank + 1) : NO;
        in[i] = bt_input_shape(BT_F64, shapes[i]);
        x[i] = numbers(&c, axes[i] == NO ? shapes[i] : with_axis(shapes[i], axes[i], size));
    }
    bt_function *f = bt_function_new(in, INPUTS, LIST(derived_of(seed, in, order)), 1, NULL, 0);
    OK(bt_call(bt_vmap(f, axes, NULL), x, INPUTS, &y, 1));
    for (int b = 0; b < size; b++) {
        for (int i = 0; i < INPUTS; i++) one[i] = axes[i] == NO ? x[i] : element(x[i], axes[i], b);
        results[b] = derived_of(seed, one, order);
    }
    bt_array *want = bt_stack(results, size, 0);
    expect_near(y, want, order ? "batch of gradients" : "batch");
    OK(bt_grad(total(bt_sin(y)), x, INPUTS, grads[0]));
    OK(bt_grad(total(bt_sin(want)), x, INPUTS, grads[1]));
    for (int i = 0; i < INPUTS; i++) expect_near(grads[0][i], grads[1][i], "gradient of the batch");
}

/* <v, J u> = <J' v, u>, and J u by the Jacobian. */
static void check_tangent(uint64_t seed, int order) {
    uint64_t c = seed;
    bt_shape shapes[INPUTS];
    bt_array *x[INPUTS], *u[INPUTS], *grads[INPUTS], *tangent;
    random_shapes(&c, shapes);
    for (int i = 0; i < INPUTS; i++) x[i] = numbers(&c, shapes[i]), u[i] = numbers(&c, shapes[i]);
    bt_array *y = derived_of(seed, x, order), *v = numbers(&c, bt_shape_of(y)), *backward = bt_f64(0);
    OK(bt_jvp(&y, 1, x, u, INPUTS, &tangent));
    OK(bt_vjp(y, v, x, INPUTS, grads));
    for (int i = 0; i < INPUTS; i++) backward = bt_add(backward, total(bt_mul(grads[i], u[i])));
    expect_near(total(bt_mul(tangent, v)), backward, order ? "tangent of the gradient" : "tangent");
    if (bt_rank(y) + bt_rank(x[0]) > BT_MAX_RANK) return;
    OK(bt_jvp(&y, 1, x, u, 1, &tangent));
    bt_array *jacobian = bt_reshape(bt_jacobian(y, x[0]), bt_count(y), bt_count(x[0]));
    expect_near(bt_reshape(bt_matmul(jacobian, bt_flatten(u[0], 0)), bt_count(y)), bt_reshape(tangent, bt_count(y)),
                "Jacobian");
}

static uint64_t only;

static void each_program(void (*check)(uint64_t seed, int order)) {
    uint64_t last = getenv("BERTH_TEST_LONG") ? 5000 : 150;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    last = 20;
#endif
    for (uint64_t seed = only ? only : 1; seed <= (only ? only : last); seed++)
        for (int order = 0; order < 2; order++)
            BT_SCOPE {
                seed_now = seed;
                check(seed, order);
            }
}

static void batches(void **state) { each_program(check_batch); }
static void tangents(void **state) { each_program(check_tangent); }

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(batches), cmocka_unit_test(tangents)};
    if (argc == 3 && !strcmp(argv[1], "--seed")) only = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

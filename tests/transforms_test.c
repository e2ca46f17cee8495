/* Batches, tangents, Jacobians and Hessian-vector products of programs, beside what JAX gives for them (tests/transforms/cases.safetensors,
 * which tools/transform_cases.py writes; the programs have the names that they have there). */
#include <berth.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LIST(...) ((bt_array *[]){__VA_ARGS__})
#define AXES(...) ((const int[]){__VA_ARGS__})
#define SIZES(...) ((const int64_t[]){__VA_ARGS__})
#define OK(call) expect_ok(call, __LINE__)
enum { NO = BT_NOT_BATCHED, MOST = 8 };

static void expect_ok(bt_status status, int line) {
    if (status != BT_OK) fail_msg("line %d: %s", line, bt_error_text());
}

/* --- programs --------------------------------------------------------------------------------------------------------- */

static bt_array *sum(bt_array *x) { return bt_sum(x, BT_ALL, false); }

static bt_array *mlp_loss(bt_array **in) {
    bt_array *hidden = bt_tanh(bt_add(bt_matmul(in[4], in[0]), in[1]));
    return sum(bt_square(bt_sub(bt_add(bt_matmul(hidden, in[2]), in[3]), in[5])));
}

static bt_array *attention(bt_array *q, bt_array *k, bt_array *v) {
    return bt_matmul(bt_softmax(bt_div(bt_matmul_t(q, k, false, true), bt_num(2)), -1), v);
}

static bt_array *wave(bt_array *x) {
    return bt_add(bt_mul(bt_sin(x), sum(bt_mul(x, x))), bt_cumsum(bt_exp(bt_neg(x)), 0, false));
}

static bt_array *kernel(bt_array *x, bt_array *y) { return bt_exp(bt_neg(sum(bt_abs(bt_sub(x, y))))); }

static bt_array *convolution(bt_array *x, bt_array *w) {
    return bt_conv2d(x, w, SIZES(2, 1), SIZES(1, 1), SIZES(0, 2), 1);
}

static bt_array *row_loss(bt_array *table, bt_array *indices, bt_array *target) {
    bt_array *logits = bt_sum(bt_take(table, indices, 0), BT_AXES(0), false);
    return bt_sub(bt_logsumexp(logits, BT_ALL, false), bt_take(logits, target, 0));
}

static bt_array *ordered(bt_array *x) {
    bt_array *places = bt_cast(bt_arange(0, (double)bt_size(x, 0), 1, BT_I64), BT_F64);
    return bt_add(bt_mul(bt_sort(x, 0), places), bt_mul(bt_max(x, BT_ALL, false), bt_prod(x, BT_ALL, false)));
}

static bt_array *tangent1(bt_array *y, bt_array *x, bt_array *v) {
    bt_array *tangent;
    OK(bt_jvp(&y, 1, &x, &v, 1, &tangent));
    return tangent;
}

static bt_array *gradient1(bt_array *y, bt_array *x) { return bt_grad1(y, x); }

/* An input like an argument, without the axis of the batch. */
static bt_array *input_for(bt_array *argument, int axis) {
    bt_shape shape = bt_shape_of(argument), without = {.rank = 0};
    for (int i = 0; i < shape.rank; i++)
        if (axis == NO || i != axis) without.size[without.rank++] = shape.size[i];
    return bt_input_shape(bt_dtype_of(argument), without);
}

/* --- cases ------------------------------------------------------------------------------------------------------------ */

/* out[] of in[]; the functions of batches are made and called here. */
typedef void case_fn(bt_array **in, bt_array **out);

static void call_batched(bt_array **x, bt_array **y, bt_array **in, int in_count, bt_array **out, int out_count,
                         const int *in_axes, const int *out_axes) {
    bt_function *f = bt_vmap(bt_function_new(x, in_count, y, out_count, NULL, 0), in_axes, out_axes);
    OK(bt_call(f, in, in_count, out, out_count));
}

static void per_example_gradients(bt_array **in, bt_array **out) {
    static const int axes[] = {NO, NO, NO, NO, 0, 0};
    bt_array *x[6], *g[4];
    for (int i = 0; i < 6; i++) x[i] = input_for(in[i], axes[i]);
    OK(bt_grad(mlp_loss(x), x, 4, g));
    call_batched(x, g, in, 6, out, 4, axes, NULL);
}

static void mlp_hvp(bt_array **in, bt_array **out) {
    OK(bt_hvp(mlp_loss(in), LIST(in[0], in[2]), LIST(in[6], in[7]), 2, out));
}

static void attention_jvp(bt_array **in, bt_array **out) {
    OK(bt_jvp(LIST(attention(in[0], in[1], in[2])), 1, in, in + 3, 3, out));
}

static void attention_vmap(bt_array **in, bt_array **out) {
    bt_array *x[3] = {input_for(in[0], 0), input_for(in[1], 2), input_for(in[2], NO)};
    call_batched(x, LIST(attention(x[0], x[1], x[2])), in, 3, out, 1, AXES(0, -1, NO), AXES(1));
}

static void attention_jacobian(bt_array **in, bt_array **out) {
    out[0] = bt_jacobian(attention(in[0], in[1], in[2]), in[1]);
}

static void wave_jacobian(bt_array **in, bt_array **out) { out[0] = bt_jacobian(wave(in[0]), in[0]); }
static void wave_hessian(bt_array **in, bt_array **out) { out[0] = bt_hessian(sum(bt_square(wave(in[0]))), in[0]); }
static void wave_third(bt_array **in, bt_array **out) {
    out[0] = bt_jacobian(gradient1(sum(tangent1(wave(in[0]), in[0], in[1])), in[0]), in[0]);
}

static void wave_batched_jacobian(bt_array **in, bt_array **out) {
    bt_array *x = input_for(in[0], 0);
    call_batched(&x, LIST(bt_jacobian(wave(x), x)), in, 1, out, 1, NULL, NULL);
}

static void kernel_table(bt_array **in, bt_array **out) {
    bt_array *x[2] = {input_for(in[0], 0), input_for(in[1], 0)};
    bt_function *f = bt_function_new(x, 2, LIST(kernel(x[0], x[1])), 1, NULL, 0);
    OK(bt_call(bt_vmap(bt_vmap(f, AXES(NO, 0), NULL), AXES(0, NO), NULL), in, 2, out, 1));
}

static void layer_norm_jvp(bt_array **in, bt_array **out) {
    OK(bt_jvp(LIST(bt_layer_norm(in[0], in[1], in[2], 1e-5)), 1, in, in + 3, 2, out));
}

static void convolution_vmap(bt_array **in, bt_array **out) {
    bt_array *x[2] = {input_for(in[0], 0), input_for(in[1], 0)};
    call_batched(x, LIST(convolution(x[0], x[1])), in, 2, out, 1, NULL, NULL);
}

static void convolution_shared(bt_array **in, bt_array **out) {
    bt_array *x[2] = {input_for(in[0], NO), input_for(in[1], 4)};
    call_batched(x, LIST(convolution(x[0], x[1])), in, 2, out, 1, AXES(NO, 4), AXES(0));
}

static void convolution_jvp(bt_array **in, bt_array **out) {
    OK(bt_jvp(LIST(convolution(in[0], in[1])), 1, in, in + 2, 2, out));
}

static void row_gradients_along(bt_array **in, bt_array **out, int table_axis) {
    bt_array *x[3] = {input_for(in[0], table_axis), input_for(in[1], 0), input_for(in[2], 0)};
    call_batched(x, LIST(gradient1(row_loss(x[0], x[1], x[2]), x[0])), in, 3, out, 1, AXES(table_axis, 0, 0), NULL);
}
static void row_gradients(bt_array **in, bt_array **out) { row_gradients_along(in, out, NO); }
static void row_gradients_of_each(bt_array **in, bt_array **out) { row_gradients_along(in, out, 0); }

static void columns_taken(bt_array **in, bt_array **out) {
    bt_array *x[2] = {input_for(in[0], 0), input_for(in[1], 0)};
    call_batched(x, LIST(bt_take(x[0], x[1], 1)), in, 2, out, 1, NULL, NULL);
}

static void parts_replaced(bt_array **in, bt_array **out) {
    bt_array *x[3] = {input_for(in[0], 0), input_for(in[1], 0), input_for(in[2], 0)};
    call_batched(x, LIST(bt_update_slice_axis(x[0], x[1], x[2], 0)), in, 3, out, 1, NULL, NULL);
}

static void parts_taken(bt_array **in, bt_array **out) {
    bt_array *x[2] = {input_for(in[0], NO), input_for(in[1], 0)};
    call_batched(x, LIST(bt_dynamic_slice_axis(x[0], x[1], 3, 0)), in, 2, out, 1, AXES(NO, 0), NULL);
}

static void ordered_jvp(bt_array **in, bt_array **out) { out[0] = tangent1(ordered(in[0]), in[0], in[1]); }
static void ordered_jacobian(bt_array **in, bt_array **out) { out[0] = bt_jacobian(ordered(in[0]), in[0]); }

static void ordered_vmap(bt_array **in, bt_array **out) {
    bt_array *x = input_for(in[0], 1);
    call_batched(&x, LIST(ordered(x)), in, 1, out, 1, AXES(1), AXES(-1));
}

static void order_vmap(bt_array **in, bt_array **out) {
    bt_array *x = input_for(in[0], 0);
    call_batched(&x, LIST(bt_argsort(x, 0), bt_argmax(x, 0)), in, 1, out, 2, NULL, NULL);
}

static void uniform_of_keys(bt_array **in, bt_array **out) {
    bt_array *key = input_for(in[0], 0);
    call_batched(&key, LIST(bt_uniform(key, BT_F32, 5)), in, 1, out, 1, NULL, NULL);
}

static const struct {
    const char *name;
    case_fn *run;
} cases[] = {
    {"per_example_gradients", per_example_gradients},
    {"per_example_gradients_f32", per_example_gradients},
    {"mlp_hvp", mlp_hvp},
    {"attention_jvp", attention_jvp},
    {"attention_vmap", attention_vmap},
    {"attention_jacobian", attention_jacobian},
    {"wave_jacobian", wave_jacobian},
    {"wave_hessian", wave_hessian},
    {"wave_third", wave_third},
    {"wave_batched_jacobian", wave_batched_jacobian},
    {"kernel_table", kernel_table},
    {"layer_norm_jvp", layer_norm_jvp},
    {"layer_norm_jvp_f32", layer_norm_jvp},
    {"convolution_vmap", convolution_vmap},
    {"convolution_shared", convolution_shared},
    {"convolution_jvp", convolution_jvp},
    {"row_gradients", row_gradients},
    {"row_gradients_of_each", row_gradients_of_each},
    {"columns_taken", columns_taken},
    {"parts_replaced", parts_replaced},
    {"parts_taken", parts_taken},
    {"ordered_jvp", ordered_jvp},
    {"ordered_vmap", ordered_vmap},
    {"ordered_jacobian", ordered_jacobian},
    {"order_vmap", order_vmap},
    {"uniform_of_keys", uniform_of_keys},
};
enum { CASES = sizeof cases / sizeof *cases };

/* --- comparing -------------------------------------------------------------------------------------------------------- */

static void expect_same(const char *name, int result, bt_array *ours, bt_array *theirs) {
    bt_shape a = bt_shape_of(ours), b = bt_shape_of(theirs);
    double x[1024], y[1024], room = bt_dtype_of(ours) == BT_F64 ? 1e-12 : bt_dtype_of(ours) == BT_F32 ? 2e-5 : 0;
    size_t count = (size_t)bt_count(theirs);
    if (bt_block(ours) != BT_OK) fail_msg("%s: %s", name, bt_error_text());
    assert_int_equal(bt_dtype_of(ours), bt_dtype_of(theirs));
    if (a.rank != b.rank || memcmp(a.size, b.size, (size_t)a.rank * sizeof *a.size))
        fail_msg("%s: result %d has another shape", name, result);
    assert_true(count > 0 && count <= sizeof x / sizeof *x);
    OK(bt_read(bt_cast(ours, BT_F64), x, count * sizeof *x));
    OK(bt_read(bt_cast(theirs, BT_F64), y, count * sizeof *y));
    for (size_t i = 0; i < count; i++)
        if (!(fabs(x[i] - y[i]) <= room * (1 + fabs(y[i]))) && !(isnan(x[i]) && isnan(y[i])))
            fail_msg("%s: result %d [%zu] is %.17g, JAX has %.17g", name, result, i, x[i], y[i]);
}

static bt_array *tensor(bt_tensors *file, const char *name, const char *kind, int index) {
    char key[96];
    snprintf(key, sizeof key, "%s.%s.%d", name, kind, index);
    for (int i = 0; i < bt_tensors_count(file); i++)
        if (!strcmp(bt_tensors_name(file, i), key)) return bt_tensors_get(file, key);
    return NULL;
}

static int run_case(bt_tensors *file, int c) {
    int in_count = 0, out_count = 0;
    BT_SCOPE {
        bt_array *in[MOST], *theirs[MOST], *ours[MOST];
        while (in_count < MOST && (in[in_count] = tensor(file, cases[c].name, "in", in_count))) in_count++;
        while (out_count < MOST && (theirs[out_count] = tensor(file, cases[c].name, "out", out_count))) out_count++;
        if (!in_count || !out_count) fail_msg("the file has no case %s", cases[c].name);
        cases[c].run(in, ours);
        for (int i = 0; i < out_count; i++) expect_same(cases[c].name, i, ours[i], theirs[i]);
    }
    return in_count + out_count;
}

static void as_jax(void **state) {
    bt_tensors *file;
    int tensors = 0;
    OK(bt_tensors_open(BERTH_SOURCE_DIR "/tests/transforms/cases.safetensors", &file));
    for (int c = 0; c < CASES; c++) tensors += run_case(file, c);
    assert_int_equal(tensors, bt_tensors_count(file)); /* no case of the file is left out */
    bt_tensors_close(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_jax)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Batches, tangents, Jacobians and Hessian-vector products of programs, beside what JAX gives for them (tests/transforms/cases.safetensors,
 * which tools/transform_cases.py writes; the programs have the names that they have there). */
#include "transforms/cases.h"

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

static bt_array *gradient1(bt_array *y, bt_array *x) { return bt_grad1(y, x); }

/* --- cases ------------------------------------------------------------------------------------------------------------ */

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

static const transform_case cases[] = {
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

static void as_jax(void **state) { run_cases(BERTH_SOURCE_DIR "/tests/transforms/cases.safetensors", cases, CASES); }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_jax)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

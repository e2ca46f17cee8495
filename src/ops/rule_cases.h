/* A case for each row of ir/ops.def that has derivatives: what tests of their rules go over. */
#ifndef BTI_OPS_RULE_CASES_H
#define BTI_OPS_RULE_CASES_H

#include <berth/attention.h>

#include "ops/complex.h"
#include "ops/over_devices.h"
#include "ops/primitive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))
#define SIZES(...) ((const int64_t[]){__VA_ARGS__})

typedef struct rule_case {
    bti_op op;                       /* of the result */
    bt_array *(*call)(bt_array **x); /* of the operation alone */
    int count;
    bt_shape shape[3];
    double grain; /* 0: any numbers; else multiples of this, and differences of one */
} rule_case;

static bt_array *same(bt_array *x) { return bti_iota(bt_size(x, 0), BT_I64); }

#define CALL(name, expression) \
    static bt_array *call_##name(bt_array **x) { return expression; }

CALL(where, bti_where(bt_lt(bt_full(0.0, BT_F64, 3), bt_sub(same(x[0]), bt_num(0.5))), x[0], x[1]))
CALL(cast, bti_cast(x[0], BT_F32))
CALL(cast_f16, bti_cast(x[0], BT_F16))
CALL(complex, bti_complex((bti_parts){x[0], x[1]}, false))
CALL(real, bti_parts_of(call_complex(x), BT_F64).re)
CALL(imag, bti_parts_of(call_complex(x), BT_F64).im)
CALL(sum_rows, bti_reduce(BTI_OP_sum, x[0], 1))
CALL(sum_all, bti_reduce(BTI_OP_sum, x[0], 7))
CALL(prod_row, bti_reduce(BTI_OP_prod, x[0], 2))
CALL(prod_all, bti_reduce(BTI_OP_prod, x[0], 7))
CALL(max, bti_reduce(BTI_OP_max, x[0], 5))
CALL(min, bti_reduce(BTI_OP_min, x[0], 2))
CALL(cumsum, bti_cumsum(x[0], 1, false))
CALL(cumsum_back, bti_cumsum(x[0], 0, true))
CALL(cumprod, bt_cumprod(x[0], 1, false))
CALL(cumprod_back, bt_cumprod(x[0], 0, true))
CALL(cummax, bt_cummax(x[0], 1, false))
CALL(cummin, bt_cummin(x[0], 0, true))
CALL(reshape, bti_reshape(x[0], 2, SIZES(3, 4)))
CALL(permute, bti_permute(x[0], (const int[]){2, 0, 1}))
CALL(expand, bti_expand(x[0], 3, SIZES(2, 3, 4)))
CALL(expand_none, bti_expand(x[0], 2, SIZES(3, 0)))
CALL(slice, bti_slice(x[0], SIZES(1, 1), SIZES(1, 1), SIZES(2, 3)))
CALL(slice_steps, bti_slice(x[0], SIZES(1, 0), SIZES(2, 3), SIZES(2, 2)))
CALL(slice_back, bti_slice(x[0], SIZES(4, 5), SIZES(-1, -2), SIZES(5, 3)))
CALL(slice_part_back, bti_slice(x[0], SIZES(3, 4), SIZES(-2, -3), SIZES(2, 2)))
CALL(slice_one, bti_slice(x[0], SIZES(2, 5), SIZES(7, -9), SIZES(1, 1)))
CALL(slice_none, bti_slice(x[0], SIZES(2, 0), SIZES(3, 1), SIZES(0, 6)))
CALL(slice_deep,
     bti_slice(x[0], SIZES(0, 0, 0, 0, 0, 0, 0, 3), SIZES(1, 1, 1, 2, 1, 1, 1, -3), SIZES(1, 1, 1, 2, 1, 1, 1, 2)))
CALL(pad, bti_pad(x[0], SIZES(1, 0), SIZES(0, 2), x[1]))
CALL(concat, bti_concat((bt_array *[]){x[0], x[1], x[0], x[2]}, 4, 1))
CALL(take, bti_take(x[0], BT_ARRAY(int32_t, (5), 0, 2, -1, 2, -3), 0))
CALL(scatter_add, bti_scatter_add(x[0], BT_ARRAY(int32_t, (5), 0, -1, 5, 0, -4), x[1], 1))
CALL(update_slice, bti_update_slice(x[0], BT_ARRAY(int32_t, (1), 1), x[1], 1))
CALL(sort, bt_sort(x[0], 0))
CALL(top_k, bt_top_k(x[0], 2))
CALL(gather_axis, bti_gather_axis(x[0], BT_ARRAY(int32_t, (2, 2), 2, 2, 0, 1), 1))
CALL(scatter_axis, bti_scatter_axis(x[0], BT_ARRAY(int32_t, (2, 2), 2, 2, 0, 1), x[1], 1))
CALL(scatter_set, bti_record_scatter(BTI_OP_scatter_set, x[0], BT_ARRAY(int32_t, (2, 3), 2, 2, 9, 0, -3, 1), x[1], 1))
CALL(scatter_max, bti_record_scatter(BTI_OP_scatter_max, x[0], BT_ARRAY(int32_t, (2, 3), 2, 2, 9, 0, -3, 1), x[1], 1))
CALL(scatter_min, bti_record_scatter(BTI_OP_scatter_min, x[0], BT_ARRAY(int32_t, (2, 2), 2, 2, 0, 1), x[1], 1))
CALL(matmul, bti_record_matmul(x[0], x[1]))
/* Strides that leave places of x out, pads, gaps in the kernel, groups; of each the two gradients, which are operations too. */
static const bt_conv_options *conv_options(int number) {
    static bt_conv_options options[3];
    options[0] = *BT_CONV(.stride = {2}, .pad_low = {1}, .pad_high = {2});
    options[1] = *BT_CONV(.dilation = {1, 2}, .groups = 2, .pad_high = {0, 1});
    options[2] = *BT_CONV(.stride = {2, 1}, .pad_low = {1, 0}, .output_pad = {1, 0});
    return &options[number];
}
/* Of what is linear in w: its gradient, given the array that flows into it. */
static bt_array *conv_weights(bt_array *x, bt_array *y, int number, bt_shape of_w) {
    bt_array *w = bt_full_shape(0, BT_F64, of_w), *made[1];
    bt_array *loss = bt_sum(bt_mul((bt_conv)(x, w, conv_options(number)), y), BT_ALL, false);
    return bt_grad(loss, &w, 1, made) == BT_OK ? made[0] : bti_poison(bti_error_last());
}
CALL(conv, (bt_conv)(x[0], x[1], conv_options(0)))
CALL(conv_groups, (bt_conv)(x[0], x[1], conv_options(1)))
CALL(conv_data, (bt_conv_transposed)(x[0], x[1], conv_options(2)))
CALL(conv_weights, conv_weights(x[0], x[1], 0, ((bt_shape){3, {2, 2, 3}})))
CALL(conv_weights_groups, conv_weights(x[0], x[1], 1, ((bt_shape){4, {2, 1, 2, 2}})))
/* Masks, lengths and shared heads; the gradient's cases are the gradients of a sum of squares. */
static bt_array *attention(bt_array *q, bt_array *k, bt_array *v) {
    return bt_attention(q, k, v, .causal = true, .scale = 0.7);
}
static bt_array *attention_masked(bt_array *q, bt_array *k, bt_array *mask) {
    return bt_attention(q, k, k, .mask = mask, .lengths = BT_ARRAY(int32_t, (2), 2, 3));
}
static bt_array *attention_gradient(bt_array *out, bt_array *x) {
    return bt_grad1(bt_sum(bt_square(out), BT_ALL, false), x);
}
CALL(attention, attention(x[0], x[1], x[2]))
CALL(attention_masked, attention_masked(x[0], x[1], x[2]))
CALL(attention_gradient_q, attention_gradient(attention(x[0], x[1], x[2]), x[0]))
CALL(attention_gradient_k, attention_gradient(attention(x[0], x[1], x[2]), x[1]))
CALL(attention_gradient_v, attention_gradient(attention(x[0], x[1], x[2]), x[2]))
CALL(attention_gradient_masked, attention_gradient(attention_masked(x[0], x[1], x[2]), x[0]))
static void told(const bt_elements *value, void *data) { (void)value, (void)data; }
CALL(barrier, bti_record_by_rules(BTI_OP_barrier, x, 2, NULL))
CALL(callback, bt_debug_callback(told, NULL, x[0]))
/* x * y, with rules that are right for it. */
static bt_status multiply(const bt_elements *in, int count, const bt_elements *out, const bt_custom_args *args) {
    (void)count, (void)args;
    const double *x = in[0].data, *y = in[1].data;
    double *product = out->data;
    for (int64_t i = 0; i < out->shape.size[0]; i++) product[i] = x[i] * y[i];
    return BT_OK;
}
static bt_status like_the_first(const bt_elements *in, int count, bt_elements *out, const bt_custom_args *args) {
    (void)in, (void)count, (void)out, (void)args;
    return BT_OK;
}
static bt_array *custom_product(bt_array *const *x);
static void multiply_back(bt_array *const *x, int count, bt_array *const *y, bt_array *const *g, bt_array **grads,
                          const bt_custom_args *args) {
    (void)count, (void)y, (void)args;
    grads[0] = custom_product((bt_array *[]){g[0], x[1]});
    grads[1] = bt_mul(g[0], x[0]);
}
static void multiply_forward(bt_array *const *x, int count, bt_array *const *y, bt_array *const *t, bt_array **made,
                             const bt_custom_args *args) {
    (void)count, (void)y, (void)args;
    bt_array *first = t[0] ? custom_product((bt_array *[]){t[0], x[1]}) : NULL,
             *second = t[1] ? bt_mul(t[1], x[0]) : NULL;
    made[0] = first && second ? bt_add(first, second) : first ? first : second;
}
static bt_array *custom_product(bt_array *const *x) {
    bt_custom *op = bt_custom_new(BT_CUSTOM(.name = "product", .run = multiply, .shape = like_the_first,
                                            .gradient = multiply_back, .tangent = multiply_forward));
    return bt_custom_call(op, x, 2, NULL, 0);
}
CALL(custom, custom_product(x))
CALL(copy, bt_to(x[0], "gpu:1"))
CALL(call, bti_record_shaped(BTI_OP_call, BT_F64, false, 2, SIZES(2, 2), x, 1, NULL))
CALL(all_reduce, over_devices(x))

static const rule_case cases[] = {
    {BTI_OP_where, call_where, 2, {{1, {3}}, {1, {3}}}, 0},
    {BTI_OP_complex, call_complex, 2, {{2, {2, 3}}, {2, {2, 3}}}, 0},
    {BTI_OP_real, call_real, 2, {{1, {3}}, {1, {3}}}, 0},
    {BTI_OP_imag, call_imag, 2, {{1, {3}}, {1, {3}}}, 0},
    {BTI_OP_cast, call_cast, 1, {{1, {3}}}, 0x1p-6},
    {BTI_OP_cast, call_cast_f16, 1, {{1, {3}}}, 0x1p-6},
    {BTI_OP_sum, call_sum_rows, 1, {{2, {3, 2}}}, 0},
    {BTI_OP_sum, call_sum_all, 1, {{3, {2, 1, 3}}}, 0},
    {BTI_OP_prod, call_prod_row, 1, {{3, {2, 5, 2}}}, 0},
    {BTI_OP_prod, call_prod_all, 1, {{3, {2, 3, 2}}}, 0},
    {BTI_OP_max, call_max, 1, {{3, {3, 2, 2}}}, 0},
    {BTI_OP_min, call_min, 1, {{2, {2, 4}}}, 0},
    {BTI_OP_cumsum, call_cumsum, 1, {{2, {2, 4}}}, 0},
    {BTI_OP_cumsum, call_cumsum_back, 1, {{2, {3, 2}}}, 0},
    {BTI_OP_cumprod, call_cumprod, 1, {{2, {2, 4}}}, 0},
    {BTI_OP_cumprod, call_cumprod_back, 1, {{2, {3, 2}}}, 0},
    {BTI_OP_cummax, call_cummax, 1, {{2, {2, 4}}}, 0},
    {BTI_OP_cummin, call_cummin, 1, {{2, {4, 2}}}, 0},
    {BTI_OP_reshape, call_reshape, 1, {{3, {2, 3, 2}}}, 0},
    {BTI_OP_permute, call_permute, 1, {{3, {2, 3, 2}}}, 0},
    {BTI_OP_expand, call_expand, 1, {{3, {2, 1, 1}}}, 0},
    {BTI_OP_expand, call_expand_none, 1, {{2, {3, 1}}}, 0},
    {BTI_OP_slice, call_slice, 1, {{2, {3, 5}}}, 0},
    {BTI_OP_slice, call_slice_steps, 1, {{2, {5, 5}}}, 0},
    {BTI_OP_slice, call_slice_back, 1, {{2, {5, 6}}}, 0},
    {BTI_OP_slice, call_slice_part_back, 1, {{2, {5, 6}}}, 0},
    {BTI_OP_slice, call_slice_one, 1, {{2, {5, 6}}}, 0},
    {BTI_OP_slice, call_slice_none, 1, {{2, {5, 6}}}, 0},
    {BTI_OP_slice, call_slice_deep, 1, {{8, {1, 1, 1, 3, 1, 1, 1, 4}}}, 0},
    {BTI_OP_pad, call_pad, 2, {{2, {2, 3}}, {0, {0}}}, 0},
    {BTI_OP_concat, call_concat, 3, {{2, {2, 1}}, {2, {2, 3}}, {2, {2, 0}}}, 0},
    {BTI_OP_take, call_take, 1, {{2, {3, 2}}}, 0},
    {BTI_OP_scatter_add, call_scatter_add, 2, {{2, {2, 3}}, {2, {2, 5}}}, 0},
    {BTI_OP_update_slice, call_update_slice, 2, {{2, {2, 4}}, {2, {2, 2}}}, 0},
    {BTI_OP_sort, call_sort, 1, {{2, {3, 2}}}, 0},
    {BTI_OP_top_k, call_top_k, 1, {{2, {2, 4}}}, 0},
    {BTI_OP_gather_axis, call_gather_axis, 1, {{2, {2, 3}}}, 0},
    {BTI_OP_scatter_axis, call_scatter_axis, 2, {{2, {2, 3}}, {2, {2, 2}}}, 0},
    {BTI_OP_scatter_set, call_scatter_set, 2, {{2, {2, 3}}, {2, {2, 3}}}, 0},
    {BTI_OP_scatter_max, call_scatter_max, 2, {{2, {2, 3}}, {2, {2, 3}}}, 0},
    {BTI_OP_scatter_min, call_scatter_min, 2, {{2, {2, 3}}, {2, {2, 2}}}, 0},
    {BTI_OP_matmul, call_matmul, 2, {{2, {2, 3}}, {2, {3, 4}}}, 0},
    {BTI_OP_matmul, call_matmul, 2, {{3, {2, 1, 3}}, {3, {2, 3, 2}}}, 0},
    {BTI_OP_conv, call_conv, 2, {{3, {2, 2, 5}}, {3, {2, 2, 3}}}, 0},
    {BTI_OP_conv, call_conv_groups, 2, {{4, {1, 4, 3, 4}}, {4, {2, 2, 2, 2}}}, 0},
    {BTI_OP_conv_data, call_conv_data, 2, {{4, {1, 2, 2, 3}}, {4, {2, 1, 3, 2}}}, 0},
    {BTI_OP_conv_weights, call_conv_weights, 2, {{3, {2, 2, 5}}, {3, {2, 2, 3}}}, 0},
    {BTI_OP_conv_weights, call_conv_weights_groups, 2, {{4, {1, 2, 3, 3}}, {4, {1, 2, 2, 2}}}, 0},
    {BTI_OP_attention, call_attention, 3, {{4, {1, 2, 3, 2}}, {4, {1, 1, 4, 2}}, {4, {1, 1, 4, 1}}}, 0},
    {BTI_OP_attention, call_attention_masked, 3, {{4, {2, 1, 2, 2}}, {4, {2, 1, 3, 2}}, {2, {2, 3}}}, 0},
    {BTI_OP_attention_gradient,
     call_attention_gradient_q,
     3,
     {{4, {1, 2, 2, 2}}, {4, {1, 1, 3, 2}}, {4, {1, 1, 3, 1}}},
     0},
    {BTI_OP_attention_gradient,
     call_attention_gradient_k,
     3,
     {{4, {1, 2, 2, 2}}, {4, {1, 1, 3, 2}}, {4, {1, 1, 3, 1}}},
     0},
    {BTI_OP_attention_gradient,
     call_attention_gradient_v,
     3,
     {{4, {1, 2, 2, 2}}, {4, {1, 1, 3, 2}}, {4, {1, 1, 3, 1}}},
     0},
    {BTI_OP_attention_gradient,
     call_attention_gradient_masked,
     3,
     {{4, {2, 1, 2, 1}}, {4, {2, 1, 3, 1}}, {2, {2, 3}}},
     0},
    {BTI_OP_barrier, call_barrier, 2, {{2, {2, 2}}, {0, {0}}}, 0},
    {BTI_OP_callback, call_callback, 1, {{2, {2, 2}}}, 0},
    {BTI_OP_custom, call_custom, 2, {{1, {3}}, {1, {3}}}, 0},
    {BTI_OP_copy, call_copy, 1, {{2, {2, 2}}}, 0},
    {BTI_OP_call, call_call, 1, {{2, {2, 2}}}, 0},
    {BTI_OP_all_reduce, call_all_reduce, 2, {{2, {2, 3}}, {2, {2, 3}}}, 0},
};

/* A case, or for an elementwise row of one or two inputs the row itself. */
static inline bt_array *call(const rule_case *c, bt_array *const *x) {
    if (c->call) return c->call((bt_array **)(uintptr_t)x);
    return c->count == 1 ? bti_unary(c->op, x[0]) : bti_binary(c->op, x[0], x[1]);
}

/* Calls fn with each case of the row; false: it has none. */
static inline bool each_case_of(int op, void (*fn)(const rule_case *c)) {
    const bti_op_row *row = bti_op_info((bti_op)op);
    bool found = false;
    for (int i = 0; i < COUNT(cases); i++) {
        if ((int)cases[i].op != op) continue;
        fn(&cases[i]);
        found = true;
    }
    if (!found && row->class == BTI_ELEMENTWISE && row->arity <= 2) {
        bt_shape shape = {2, {2, 3}};
        fn(&(rule_case){(bti_op)op, NULL, row->arity, {shape, shape}, 0});
        found = true;
    }
    return found;
}

/* --- numbers -------------------------------------------------------------------------------------------------------- */

static uint64_t state_of_chance;
static double chance(void) { /* in [0, 1) */
    state_of_chance = state_of_chance * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (double)(state_of_chance >> 11) * 0x1p-53;
}

static bt_array *draw(bt_shape shape, double low, double high, double grain) {
    double numbers[64];
    int64_t count = 1;
    for (int i = 0; i < shape.rank; i++) count *= shape.size[i];
    if (count > COUNT(numbers)) abort();
    for (int64_t i = 0; i < count; i++) {
        numbers[i] = low + (high - low) * chance();
        if (grain > 0) numbers[i] = round(numbers[i] / grain) * grain;
    }
    return bt_from(numbers, BT_F64, shape);
}

#endif

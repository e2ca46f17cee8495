// env: BERTH_FLAGS=devices=sim:gpu*2,default_device=cpu
/* Every batching rule against a loop: for each row of ir/ops.def, each choice of batched inputs, batches of 0, 1 and 3. Then what bt_vmap
 * promises besides. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>

#include "ops/complex.h"
#include "ops/ops_test.h"
#include "ops/over_devices.h"
#include "ops/primitive.h"
#include "transform/batches_test.h"

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))
#define OK(call) expect_ok(call, __LINE__)

static void expect_ok(bt_status status, int line) {
    if (status != BT_OK) fail_msg("line %d: %s", line, bt_error_text());
}

/* --- one case for each row, or more ---------------------------------------------------------------------------------- */

enum { MOST = 4 };

typedef struct operand {
    bt_dtype dtype;
    bt_shape shape;
    double low, high; /* both 0: the row's */
} operand;

typedef struct batch_case {
    bti_op op;                       /* of the result */
    bt_array *(*call)(bt_array **x); /* of the operation alone */
    int count;
    operand x[MOST];
    bool sizes_are_known; /* it cannot be recorded for unknown ones */
} batch_case;

#define CALL(name, expression) \
    static bt_array *call_##name(bt_array **x) { return expression; }

CALL(where, bti_where(x[0], x[1], x[2]))
CALL(cast, bti_cast(x[0], BT_I32))
CALL(bitcast, bti_bitcast(x[0], BT_I32))
CALL(threefry, bti_record_aligned(BTI_OP_threefry, BT_U32, BT_U32, false, ALL(x[0], x[1], x[2], x[3]), 4,
                                  &(bti_attr){.word = {1}}))
CALL(complex, bti_complex((bti_parts){x[0], x[1]}, false))
CALL(real, bti_parts_of(call_complex(x), BT_F32).re)
CALL(imag, bti_parts_of(call_complex(x), BT_F32).im)
CALL(random_word, bti_record_aligned(BTI_OP_random_word, BT_U32, BT_U32, false, ALL(x[0], x[1], x[2], x[3]), 4, NULL))
CALL(sum, bti_reduce(BTI_OP_sum, x[0], 1))
CALL(sum_all, bti_reduce(BTI_OP_sum, x[0], 7))
CALL(prod, bti_reduce(BTI_OP_prod, x[0], 2))
CALL(max, bti_reduce(BTI_OP_max, x[0], 5))
CALL(min, bti_reduce(BTI_OP_min, x[0], 2))
CALL(cumsum, bti_cumsum(x[0], 1, false))
CALL(cumsum_back, bti_cumsum(x[0], 0, true))
CALL(cumprod, bt_cumprod(x[0], 1, false))
CALL(cummax, bt_cummax(x[0], 0, true))
CALL(cummin, bt_cummin(x[0], 1, false))
CALL(reshape, bti_reshape(x[0], 2, SIZES(3, 4)))
CALL(permute, bti_permute(x[0], (const int[]){2, 0, 1}))
CALL(expand, bti_expand(x[0], 3, SIZES(2, 3, 4)))
CALL(slice, bti_slice(x[0], SIZES(1, 4), SIZES(1, -2), SIZES(2, 3)))
CALL(pad, bti_pad(x[0], SIZES(1, 0), SIZES(0, 2), x[1]))
CALL(concat, bti_concat(ALL(x[0], x[1], x[0], x[2]), 4, 1))
CALL(take_rows, bti_take(x[0], x[1], 0))
CALL(take_columns, bti_take(x[0], x[1], 1))
CALL(scatter_rows, bti_scatter_add(x[0], x[1], x[2], 0))
CALL(scatter_columns, bti_scatter_add(x[0], x[1], x[2], 1))
CALL(update_rows, bti_update_slice(x[0], x[1], x[2], 0))
CALL(update_columns, bti_update_slice(x[0], x[1], x[2], 1))
CALL(sort, bt_sort(x[0], 1))
CALL(argsort, bti_argsort(x[0], 1))
CALL(top_k, bt_top_k(x[0], 2))
CALL(top_k_indices, bt_top_k_indices(x[0], 3))
CALL(gather_axis, bti_gather_axis(x[0], x[1], 1))
CALL(scatter_axis, bti_scatter_axis(x[0], x[1], x[2], 0))
CALL(scatter_set, bti_record_scatter(BTI_OP_scatter_set, x[0], x[1], x[2], 0))
CALL(scatter_max, bti_record_scatter(BTI_OP_scatter_max, x[0], x[1], x[2], 0))
CALL(scatter_min, bti_record_scatter(BTI_OP_scatter_min, x[0], x[1], x[2], 1))
CALL(matmul, bti_record_matmul(x[0], x[1]))
/* The gradient of w, which is 0: y flows into it. */
static bt_array *conv_weights(bt_array *x, bt_array *y, bt_shape of_w, int64_t groups) {
    bt_array *w = bt_full_shape(0, BT_F32, of_w), *made[1];
    const bt_conv_options *options = BT_CONV(.stride = {2}, .pad_low = {1}, .groups = groups);
    bt_array *loss = bt_sum(bt_mul((bt_conv)(x, w, options), y), BT_ALL, false);
    return bt_grad(loss, &w, 1, made) == BT_OK ? made[0] : bti_poison(bti_error_last());
}
/* Of a sum of what is made, so that the gradient that flows into it is none of x. */
static bt_array *attention_gradient(bt_array **x, int of) {
    bt_array *made, *out = bt_attention(x[0], x[1], x[2], .causal = true);
    bt_status status = bt_grad(bt_sum(bt_square(out), BT_ALL, false), &x[of], 1, &made);
    return status == BT_OK ? made : bti_poison(bti_error_last());
}
CALL(attention, bt_attention(x[0], x[1], x[2], .causal = true))
CALL(attention_masked, bt_attention(x[0], x[1], x[1], .mask = x[2], .lengths = x[3]))
CALL(attention_gradient_q, attention_gradient(x, 0))
CALL(attention_gradient_k, attention_gradient(x, 1))
CALL(attention_gradient_v, attention_gradient(x, 2))
CALL(conv, bt_conv(x[0], x[1], .stride = {2}, .pad_low = {1}))
CALL(conv_groups, bt_conv(x[0], x[1], .stride = {2}, .pad_low = {1}, .groups = 2))
CALL(conv_data, bt_conv_transposed(x[0], x[1], .stride = {2}, .pad_low = {1}))
CALL(conv_data_groups, bt_conv_transposed(x[0], x[1], .stride = {2}, .groups = 2))
CALL(conv_weights, conv_weights(x[0], x[1], (bt_shape){3, {3, 2, 2}}, 1))
CALL(conv_weights_groups, conv_weights(x[0], x[1], (bt_shape){3, {4, 1, 2}}, 2))
CALL(barrier, bti_record_by_rules(BTI_OP_barrier, x, 2, NULL))
static void told(const bt_elements *value, void *data) { (void)value, (void)data; }
CALL(callback, bt_debug_callback(told, NULL, x[0]))
/* The sum of x [n], times y [m]. */
static bt_status sum_times(const bt_elements *in, int count, const bt_elements *out, const bt_custom_args *args) {
    const float *x = in[0].data, *y = in[1].data;
    float sum = 0, *made = out->data;
    for (int64_t i = 0; i < in[0].shape.size[0]; i++) sum += x[i];
    for (int64_t i = 0; i < out->shape.size[0]; i++) made[i] = sum * y[i];
    return count == 2 && args->attribute_count == 1 && args->attributes[0] == INT64_MIN ? BT_OK : BT_INTERNAL;
}
static bt_status like_the_second(const bt_elements *in, int count, bt_elements *out, const bt_custom_args *args) {
    out->shape = in[1].shape;
    return count == 2 && args->attribute_count == 1 && args->attributes[0] == INT64_MIN ? BT_OK : BT_INTERNAL;
}
static void batch_of_sums(bt_array *const *x, const bool *batched, int count, bt_array **made,
                          const bt_custom_args *args) {
    (void)count, (void)args;
    bt_array *sums = bt_sum(x[0], BT_AXES(-1), true);
    made[0] = bt_mul(sums, batched[1] || !batched[0] ? x[1] : bt_expand_dims(x[1], 0));
}
static bt_array *sums(bt_array **x, bt_custom_batch_fn *batch) {
    bt_custom *op =
        bt_custom_new(BT_CUSTOM(.name = "sums", .run = sum_times, .shape = like_the_second, .batch = batch));
    return bt_custom_call(op, x, 2, &(int64_t){INT64_MIN}, 1);
}
CALL(custom_by_row, sums(x, NULL))
CALL(custom_rule, sums(x, batch_of_sums))
CALL(copy, bt_to(x[0], "gpu:1"))
CALL(call, bti_record_shaped(BTI_OP_call, BT_F32, false, bti_rank(x[0]), bti_shape(x[0]), x, 1, NULL))
CALL(all_reduce, over_devices(x))
CALL(stop, bti_stop(x[0]))

#define F(...) \
    { BT_F32, {__VA_ARGS__}, 0, 0 }
#define N(low, high, ...) \
    { BT_I32, {__VA_ARGS__}, low, high }
#define WORD \
    { BT_U32, {1, {2}}, 0, 1e6 }

static const batch_case cases[] = {
    {BTI_OP_where, call_where, 3, {{BT_BOOL, {1, {3}}, 0, 2}, F(1, {3}), F(1, {3})}, false},
    {BTI_OP_cast, call_cast, 1, {F(1, {3})}, false},
    {BTI_OP_bitcast, call_bitcast, 1, {F(1, {3})}, false},
    {BTI_OP_threefry, call_threefry, 4, {WORD, WORD, WORD, WORD}, false},
    {BTI_OP_random_word, call_random_word, 4, {WORD, WORD, {BT_U32, {1, {2}}, 0, 5}, {BT_U32, {1, {2}}, 6, 9}}, false},
    {BTI_OP_complex, call_complex, 2, {F(2, {2, 3}), F(2, {2, 3})}, false},
    {BTI_OP_real, call_real, 2, {F(1, {3}), F(1, {3})}, false},
    {BTI_OP_imag, call_imag, 2, {F(1, {3}), F(1, {3})}, false},
    {BTI_OP_sum, call_sum, 1, {F(2, {3, 2})}, false},
    {BTI_OP_sum, call_sum_all, 1, {F(3, {2, 1, 3})}, false},
    {BTI_OP_prod, call_prod, 1, {F(3, {2, 5, 2})}, false},
    {BTI_OP_max, call_max, 1, {F(3, {3, 2, 2})}, false},
    {BTI_OP_min, call_min, 1, {F(2, {2, 4})}, false},
    {BTI_OP_cumsum, call_cumsum, 1, {F(2, {2, 4})}, false},
    {BTI_OP_cumsum, call_cumsum_back, 1, {N(-9, 9, 2, {3, 2})}, false},
    {BTI_OP_cumprod, call_cumprod, 1, {F(2, {2, 4})}, false},
    {BTI_OP_cummax, call_cummax, 1, {F(2, {3, 2})}, false},
    {BTI_OP_cummin, call_cummin, 1, {N(-9, 9, 2, {2, 4})}, false},
    {BTI_OP_reshape, call_reshape, 1, {F(3, {2, 3, 2})}, false},
    {BTI_OP_permute, call_permute, 1, {F(3, {2, 3, 2})}, false},
    {BTI_OP_expand, call_expand, 1, {F(3, {2, 1, 1})}, false},
    {BTI_OP_slice, call_slice, 1, {F(2, {3, 5})}, false},
    {BTI_OP_pad, call_pad, 2, {F(2, {2, 3}), F(0, {0})}, false},
    {BTI_OP_concat, call_concat, 3, {F(2, {2, 1}), F(2, {2, 3}), F(2, {2, 0})}, false},
    {BTI_OP_take, call_take_rows, 2, {F(2, {3, 2}), N(-5, 5, 1, {4})}, false},
    {BTI_OP_take, call_take_rows, 2, {F(1, {3}), N(-5, 5, 1, {1})}, false},
    {BTI_OP_take, call_take_columns, 2, {F(3, {2, 3, 2}), N(-5, 5, 1, {4})}, false},
    {BTI_OP_take, call_take_rows, 2, {{BT_I8, {2, {3, 2}}, -9, 9}, {BT_I64, {1, {4}}, -5, 5}}, false},
    {BTI_OP_scatter_add, call_scatter_rows, 3, {F(2, {3, 2}), N(-5, 5, 1, {5}), F(2, {5, 2})}, false},
    {BTI_OP_scatter_add, call_scatter_columns, 3, {F(2, {2, 3}), N(-5, 5, 1, {5}), F(2, {2, 5})}, false},
    {BTI_OP_update_slice, call_update_rows, 3, {F(2, {5, 2}), N(-3, 9, 1, {1}), F(2, {3, 2})}, false},
    {BTI_OP_update_slice, call_update_columns, 3, {F(2, {2, 5}), N(0, 5, 1, {1}), F(2, {2, 1})}, false},
    {BTI_OP_update_slice, call_update_columns, 3, {N(0, 9, 2, {2, 5}), N(0, 5, 1, {1}), N(0, 9, 2, {2, 0})}, true},
    {BTI_OP_sort, call_sort, 1, {F(2, {2, 5})}, false},
    {BTI_OP_sort, call_argsort, 1, {F(2, {2, 5})}, false},
    {BTI_OP_top_k, call_top_k, 1, {F(2, {2, 5})}, false},
    {BTI_OP_top_k, call_top_k_indices, 1, {N(0, 3, 1, {5})}, false},
    {BTI_OP_gather_axis, call_gather_axis, 2, {F(2, {2, 3}), N(0, 3, 2, {2, 4})}, false},
    {BTI_OP_scatter_axis, call_scatter_axis, 3, {F(2, {3, 2}), N(0, 3, 2, {4, 2}), F(2, {4, 2})}, false},
    {BTI_OP_scatter_set, call_scatter_set, 3, {F(2, {3, 2}), N(0, 3, 2, {4, 2}), F(2, {4, 2})}, false},
    {BTI_OP_scatter_max, call_scatter_max, 3, {F(2, {3, 2}), N(-4, 4, 2, {4, 2}), F(2, {4, 2})}, false},
    {BTI_OP_scatter_min, call_scatter_min, 3, {N(-9, 9, 2, {3, 2}), N(0, 2, 2, {3, 4}), N(-9, 9, 2, {3, 4})}, false},
    {BTI_OP_matmul, call_matmul, 2, {F(2, {2, 3}), F(2, {3, 4})}, false},
    {BTI_OP_matmul, call_matmul, 2, {F(2, {2, 3}), F(2, {3, 1})}, false},
    {BTI_OP_matmul, call_matmul, 2, {F(2, {1, 3}), F(2, {3, 4})}, false},
    {BTI_OP_matmul, call_matmul, 2, {F(2, {3, 1}), F(2, {1, 4})}, false},
    {BTI_OP_matmul, call_matmul, 2, {F(2, {1, 5}), F(2, {5, 1})}, false},
    {BTI_OP_matmul, call_matmul, 2, {F(2, {2, 0}), F(2, {0, 3})}, false},
    {BTI_OP_matmul, call_matmul, 2, {F(3, {2, 2, 3}), F(3, {2, 3, 2})}, false},
    {BTI_OP_conv, call_conv, 2, {F(3, {2, 2, 5}), F(3, {3, 2, 2})}, true},
    {BTI_OP_conv, call_conv_groups, 2, {F(3, {2, 2, 5}), F(3, {4, 1, 2})}, true},
    {BTI_OP_conv_data, call_conv_data, 2, {F(3, {2, 3, 3}), F(3, {3, 2, 2})}, true},
    {BTI_OP_conv_data, call_conv_data_groups, 2, {F(3, {2, 4, 3}), F(3, {4, 1, 2})}, true},
    {BTI_OP_conv_weights, call_conv_weights, 2, {F(3, {2, 2, 5}), F(3, {2, 3, 3})}, true},
    {BTI_OP_conv_weights, call_conv_weights_groups, 2, {F(3, {2, 2, 5}), F(3, {2, 4, 3})}, true},
    {BTI_OP_attention, call_attention, 3, {F(4, {1, 2, 3, 2}), F(4, {1, 1, 4, 2}), F(4, {1, 1, 4, 3})}, true},
    {BTI_OP_attention,
     call_attention_masked,
     4,
     {F(4, {2, 1, 3, 2}), F(4, {2, 1, 4, 2}), F(2, {3, 4}), N(0, 5, 1, {2})},
     true},
    {BTI_OP_attention_gradient,
     call_attention_gradient_q,
     3,
     {F(4, {1, 2, 3, 2}), F(4, {1, 1, 4, 2}), F(4, {1, 1, 4, 3})},
     true},
    {BTI_OP_attention_gradient,
     call_attention_gradient_k,
     3,
     {F(4, {1, 2, 3, 2}), F(4, {1, 1, 4, 2}), F(4, {1, 1, 4, 3})},
     true},
    {BTI_OP_attention_gradient,
     call_attention_gradient_v,
     3,
     {F(4, {1, 2, 3, 2}), F(4, {1, 1, 4, 2}), F(4, {1, 1, 4, 3})},
     true},
    {BTI_OP_barrier, call_barrier, 2, {F(2, {2, 2}), F(1, {3})}, false},
    {BTI_OP_callback, call_callback, 1, {F(2, {2, 2})}, false},
    {BTI_OP_custom, call_custom_by_row, 2, {F(1, {3}), F(1, {2})}, false},
    {BTI_OP_custom, call_custom_rule, 2, {F(1, {3}), F(1, {2})}, false},
    {BTI_OP_copy, call_copy, 1, {F(2, {2, 2})}, false},
    {BTI_OP_call, call_call, 1, {F(2, {2, 2})}, false},
    {BTI_OP_all_reduce, call_all_reduce, 2, {F(2, {2, 3}), F(2, {2, 3})}, false},
    {BTI_OP_stop, call_stop, 1, {F(2, {2, 2})}, false},
};

/* --- checking a case ------------------------------------------------------------------------------------------------- */

static uint64_t state_of_chance;
static double chance(void) { /* in [0, 1) */
    state_of_chance = state_of_chance * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (double)(state_of_chance >> 11) * 0x1p-53;
}

static bt_array *draw(const batch_case *c, int input, bt_shape shape) {
    double numbers[256];
    const bti_op_row *row = bti_op_info(c->op);
    bool own = c->x[input].low != 0 || c->x[input].high != 0;
    double low = own ? c->x[input].low : row->low, high = own ? c->x[input].high : row->high;
    int64_t count = 1;
    for (int i = 0; i < shape.rank; i++) count *= shape.size[i];
    assert_true(count <= COUNT(numbers));
    for (int64_t i = 0; i < count; i++) numbers[i] = low + (high - low) * chance();
    if (bti_dtype_is_int(c->x[input].dtype) || c->x[input].dtype == BT_BOOL)
        for (int64_t i = 0; i < count; i++) numbers[i] = floor(numbers[i]);
    return bt_cast(bt_from(numbers, BT_F64, shape), c->x[input].dtype);
}

static bt_array *call(const batch_case *c, bt_array **x) {
    if (c->call) return c->call(x);
    return c->count == 1 ? bti_unary(c->op, x[0]) : bti_binary(c->op, x[0], x[1]);
}

/* What a loop over the batch gives. */
static bt_array *by_loop(const batch_case *c, bt_array **x, const int *axes, int64_t size, int out_axis) {
    bt_array *results[8], *one[MOST];
    for (int64_t b = 0; b < size; b++) {
        for (int i = 0; i < c->count; i++) one[i] = axes[i] == BT_NOT_BATCHED ? x[i] : element(x[i], axes[i], b);
        results[b] = bt_to(call(c, one), "cpu");
    }
    return bt_stack(results, (int)size, out_axis);
}

static void expect_near(bt_array *got, bt_array *want, const batch_case *c, unsigned batched) {
    const char *name = bti_op_info(c->op)->name;
    float ours[256], theirs[256];
    size_t count = (size_t)bt_count(want);
    char *shape = bt_to_text(got);
    if (!shape) fail_msg("%s, batched %u: %s", name, batched, bt_error_text());
    bt_free(shape);
    assert_int_equal(bt_dtype_of(got), bt_dtype_of(want));
    assert_true(bti_shape_equal(bti_rank(got), bti_shape(got), bti_rank(want), bti_shape(want)));
    OK(bt_read(bt_cast(got, BT_F32), ours, count * sizeof *ours));
    OK(bt_read(bt_cast(want, BT_F32), theirs, count * sizeof *theirs));
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(ours[i] - theirs[i]) <= 1e-5f * (1 + fabsf(theirs[i]))) && !(isnan(ours[i]) && isnan(theirs[i])) &&
            ours[i] != theirs[i])
            fail_msg("%s, batched %u: [%zu] is %g, by a loop %g", name, batched, i, (double)ours[i], (double)theirs[i]);
}

static bt_function *function_of(const batch_case *c, bool known) {
    bt_array *inputs[MOST], *output;
    for (int i = 0; i < c->count; i++) {
        bt_shape shape = c->x[i].shape;
        for (int k = 0; k < shape.rank && !known; k++) shape.size[k] = -1;
        inputs[i] = bt_input_shape(c->x[i].dtype, shape);
    }
    output = call(c, inputs);
    assert_int_equal(bt_peek_status(output), BT_OK);
    const bti_node *made = bti_node_of(output);
    assert_int_equal(made->op == BTI_OP_result ? made->inputs[0]->op : made->op, c->op);
    return bt_function_new(inputs, c->count, &output, 1, NULL, 0);
}

static void check_batched(const batch_case *c, bool known, unsigned batched, int64_t size) {
    bt_array *x[MOST], *got, *one[MOST];
    int axes[MOST], counted[MOST], out_axis;
    for (int i = 0; i < c->count; i++) {
        bool is = batched >> i & 1;
        int rank = c->x[i].shape.rank;
        axes[i] = is ? (int)(chance() * (rank + 1)) : BT_NOT_BATCHED;
        counted[i] = is && chance() < 0.5 ? axes[i] - rank - 1 : axes[i];
        x[i] = draw(c, i, is ? with_axis(c->x[i].shape, axes[i], size) : c->x[i].shape);
        one[i] = draw(c, i, c->x[i].shape);
    }
    bt_array *like = call(c, one);
    out_axis = (int)(chance() * (bt_rank(like) + 1));
    bt_function *f = bt_vmap(function_of(c, known), counted, &out_axis);
    if (bt_function_status(f) != BT_OK || bt_call(f, x, c->count, &got, 1) != BT_OK)
        fail_msg("%s, batched %u: %s", bti_op_info(c->op)->name, batched, bt_error_text());
    bt_shape shape = with_axis(bt_shape_of(like), out_axis, size);
    expect_near(got, size ? by_loop(c, x, axes, size, out_axis) : bt_full_shape(0, bt_dtype_of(like), shape), c,
                batched);
}

static void check(const batch_case *c) {
    for (unsigned batched = 1; batched < 1u << c->count; batched++)
        for (int64_t size = 0; size <= 3; size += size + 1)
            for (int known = c->sizes_are_known; known < 2; known++)
                BT_SCOPE
                    check_batched(c, known, batched, size);
}

static void every_row(void **state) {
    for (int op = 0; op < BTI_OP_COUNT; op++) {
        const bti_op_row *row = bti_op_info((bti_op)op);
        bool checked = false;
        if (row->class == BTI_CONTROL || op == BTI_OP_result) continue;
        for (int i = 0; i < COUNT(cases); i++) {
            if ((int)cases[i].op != op) continue;
            check(&cases[i]);
            checked = true;
        }
        if (!checked && row->class == BTI_ELEMENTWISE && row->arity <= 2) {
            operand x = {row->dtype_rule == BTI_BITS ? BT_I32 : BT_F32, {2, {2, 3}}, 0, 0};
            check(&(batch_case){(bti_op)op, NULL, row->arity, {x, x}, false});
            checked = true;
        }
        if (!checked && row->class != BTI_SOURCE && op != BTI_OP_value)
            fail_msg("the row %s of ops.def has the batching rule %s, but no case here", row->name, row->batch);
        if (checked != (strcmp(row->batch, "none") != 0))
            fail_msg("the row %s of ops.def has no batching rule", row->name);
    }
}

/* --- bt_vmap ---------------------------------------------------------------------------------------------------------- */

static void expect_text(bt_array *x, const char *text, int line) {
    char *got = bt_to_text(x);
    if (!got) fail_msg("line %d: %s", line, bt_error_text());
    if (strcmp(got, text)) fail_msg("line %d: %s; expected %s", line, got, text);
    bt_free(got);
}
#define GIVES(x, text) expect_text(x, text, __LINE__)

static bt_function *function1(bt_array *x, bt_array *y) { return bt_function_new(&x, 1, &y, 1, NULL, 0); }
static bt_array *call1(bt_function *f, bt_array *x) { return bt_call1(f, &x, 1); }

static void nests(void **state) {
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32), *y = bt_input(BT_F32);
        bt_function *f = bt_function_new(ALL(x, y), 2, ALL(bt_add(bt_mul(x, bt_num(10)), y)), 1, NULL, 0);
        bt_function *rows = bt_vmap(f, (const int[]){BT_NOT_BATCHED, 0}, NULL);
        bt_function *table = bt_vmap(rows, (const int[]){0, BT_NOT_BATCHED}, NULL);
        GIVES(bt_call1(table, ALL(F32((2), 1, 2), F32((3), 3, 4, 5)), 2), "[[13. 14. 15.]\n [23. 24. 25.]]");
        bt_function *turned = bt_vmap(rows, (const int[]){0, BT_NOT_BATCHED}, (const int[]){-1});
        GIVES(bt_call1(turned, ALL(F32((2), 1, 2), F32((3), 3, 4, 5)), 2), "[[13. 23.]\n [14. 24.]\n [15. 25.]]");
    }
}

/* Gradients of each element of the batch; the gradient of a batch; a tangent in a batch; a batch in a Jacobian. */
static void nests_with_derivatives(void **state) {
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, -1), *loss = bt_sum(bt_mul(x, bt_mul(x, x)), BT_ALL, false);
        bt_array *batch = F32((2, 2), 1, 2, 3, 4), *tangent, *one = bt_ones_like(x);
        GIVES(call1(bt_vmap(function1(x, bt_grad1(loss, x)), NULL, NULL), batch), "[[ 3. 12.]\n [27. 48.]]");
        GIVES(call1(bt_vmap(function1(x, bt_hessian(loss, x)), NULL, NULL), batch),
              "[[[ 6.  0.]\n  [ 0. 12.]]\n\n [[18.  0.]\n  [ 0. 24.]]]");
        OK(bt_jvp(&loss, 1, &x, &one, 1, &tangent));
        bt_function *f = bt_vmap(function1(x, tangent), NULL, NULL);
        GIVES(call1(f, batch), "[15. 75.]");
        GIVES(bt_grad1(bt_sum(call1(f, batch), BT_ALL, false), batch), "[[ 6. 12.]\n [18. 24.]]");
        GIVES(bt_jacobian(call1(f, batch), batch), "[[[ 6. 12.]\n  [ 0.  0.]]\n\n [[ 0.  0.]\n  [18. 24.]]]");
    }
}

static void variables_and_constants_are_shared(void **state) {
    BT_SCOPE {
        bt_shared *w = bt_shared_new(F32((2), 1, 2), NULL);
        bt_array *x = bt_input(BT_F32, 2), *outputs[3];
        bt_array *ys[3] = {bt_mul(bt_mul(x, bt_value(w)), F32((2), 3, 5)), bt_exp(bt_mul(bt_value(w), bt_num(0))),
                           bt_value(w)};
        bt_function *f = bt_vmap(bt_function_new(&x, 1, ys, 3, NULL, 0), NULL, (const int[]){0, 1, BT_NOT_BATCHED});
        bt_array *batch = F32((3, 2), 1, 1, 2, 2, 3, 3);
        for (int time = 0; time < 2; time++) {
            OK(bt_call(f, &batch, 1, outputs, 3));
            GIVES(outputs[0], time ? "[[ 0. 10.]\n [ 0. 20.]\n [ 0. 30.]]" : "[[ 3. 10.]\n [ 6. 20.]\n [ 9. 30.]]");
            GIVES(outputs[1], "[[1. 1. 1.]\n [1. 1. 1.]]");
            GIVES(outputs[2], time ? "[0. 2.]" : "[1. 2.]");
            OK(bt_set(w, F32((2), 0, 2)));
        }
    }
}

static void random_numbers_follow_their_key(void **state) {
    BT_SCOPE {
        bt_array *key = bt_input(BT_U32, 2), *numbers = bt_uniform(key, BT_F32, 3);
        bt_function *f = function1(key, numbers), *v = bt_vmap(f, NULL, NULL);
        bt_array *a = bt_key(1), *b = bt_key(2);
        bt_array *want = bt_stack(ALL(call1(f, a), call1(f, b)), 2, 0), *got = call1(v, bt_stack(ALL(a, b), 2, 0));
        GIVES(bt_all(bt_eq(got, want), BT_ALL, false), "True");
        GIVES(bt_all(bt_ne(element(got, 0, 0), element(got, 0, 1)), BT_ALL, false), "True");
    }
}

static void lives_without_its_function(void **state) {
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, -1), *batch = F32((2, 3), 1, 2, 3, 4, 5, 6);
        bt_function *f = bt_function_retain(function1(x, bt_div(x, bt_sum(x, BT_ALL, true)))),
                    *v = bt_vmap(f, NULL, NULL);
        bt_function_release(f);
        bt_function_release(f);
        GIVES(bt_sum(call1(v, batch), BT_AXES(1), false), "[1. 1.]");
        GIVES(bt_shape_of(call1(v, bt_zeros(BT_F32, 0, 3))).size[0] ? NULL : call1(v, bt_zeros(BT_F32, 0, 3)), "[]");
    }
}

/* A call inside of another function keeps the sizes that are unknown there too. */
static void constants_as_large_as_unknown_sizes(void **state) {
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, -1, -1), *z = bt_input(BT_F32, -1, -1);
        bt_function *inner = function1(x, bt_sub(bt_broadcast_shape(bt_num(1), bt_shape_of(x)), x));
        bt_function *outer = function1(z, call1(inner, bt_mul(z, bt_num(2))));
        GIVES(call1(outer, F32((1, 2), 1, 2)), "[[-1. -3.]]");
        GIVES(call1(bt_vmap(outer, NULL, NULL), F32((2, 1, 1), 1, 2)), "[[[-1.]]\n\n [[-3.]]]");
    }
}

static void expect_bad(bt_function *f, bt_status status, const char *part, int line) {
    if (bt_function_status(f) != status || !strstr(bt_error_text(), part) ||
        !strstr(bt_error_text(), "batches_test.c:"))
        fail_msg("line %d: %s, \"%s\"", line, bt_status_name(bt_function_status(f)), bt_error_text());
}
#define BAD_VMAP(f, status, part) expect_bad(f, status, part, __LINE__)

static void refuses(void **state) {
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 2), *y = bt_input(BT_F32, 2),
                 *high = bt_input_shape(BT_F32, BT_SHAPE(1, 1, 1, 1, 1, 1, 1, 1));
        bt_function *f = bt_function_new(ALL(x, y), 2, ALL(bt_add(x, y), bt_exp(y)), 2, NULL, 0);
        bt_array *outputs[2], *three = bt_zeros(BT_F32, 3, 2), *four = bt_zeros(BT_F32, 4, 2);
        enum { NO = BT_NOT_BATCHED };
        BAD_VMAP(bt_vmap(f, (const int[]){0, 2}, NULL), BT_INVALID_ARGUMENT,
                 "the batch axis of input 1 is 2; the array has 2 axes with it, so it must be in [-2, 1]");
        BAD_VMAP(bt_vmap(f, (const int[]){-3, 0}, NULL), BT_INVALID_ARGUMENT, "the batch axis of input 0 is -3");
        BAD_VMAP(bt_vmap(f, NULL, (const int[]){0, 5}), BT_INVALID_ARGUMENT, "the batch axis of output 1 is 5");
        BAD_VMAP(bt_vmap(f, (const int[]){NO, NO}, NULL), BT_INVALID_ARGUMENT, "none of the 2 inputs is batched");
        BAD_VMAP(bt_vmap(f, NULL, (const int[]){0, NO}), BT_INVALID_ARGUMENT, "output 1 depends on a batched input");
        BAD_VMAP(bt_vmap(NULL, NULL, NULL), BT_INVALID_ARGUMENT, "NULL");
        BAD_VMAP(bt_vmap(function1(high, bt_neg(high)), NULL, NULL), BT_INVALID_ARGUMENT, "input 0 has 8 axes already");
        BAD_VMAP(bt_vmap(function1(x, bt_sum(bt_broadcast_to(x, 1, 1, 1, 1, 1, 1, 3, 2), BT_ALL, false)), NULL, NULL),
                 BT_INVALID_ARGUMENT, "has no room for the axis of a batch");
        bt_shared *w = bt_shared_new(F32((2), 1, 2), NULL);
        bt_update update = {w, bt_add(bt_value(w), x)};
        BAD_VMAP(bt_vmap(bt_function_new(&x, 1, NULL, 0, &update, 1), NULL, NULL), BT_FAILED_PRECONDITION,
                 "the function updates shared variables");
        bt_function *released = bt_vmap(f, NULL, NULL);
        bt_function_release(released);
        assert_int_equal(bt_call(released, ALL(three, three), 2, outputs, 2), BT_INVALID_ARGUMENT);
        bt_function *v = bt_vmap(f, NULL, NULL);
        assert_int_equal(bt_call(v, ALL(three, four), 2, outputs, 2), BT_INVALID_ARGUMENT);
        assert_non_null(
            strstr(bt_error_text(), "argument 2 has 4 elements along axis 0 and argument 1 has 3 along axis 0"));
        assert_int_equal(bt_call(v, ALL(three, bt_zeros(BT_F32, 3, 3)), 2, outputs, 2), BT_INVALID_ARGUMENT);
        OK(bt_call(v, ALL(three, three), 2, outputs, 2));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row),
        cmocka_unit_test(nests),
        cmocka_unit_test(nests_with_derivatives),
        cmocka_unit_test(variables_and_constants_are_shared),
        cmocka_unit_test(random_numbers_follow_their_key),
        cmocka_unit_test(lives_without_its_function),
        cmocka_unit_test(constants_as_large_as_unknown_sizes),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

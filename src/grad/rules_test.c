// env: BERTH_FLAGS=devices=sim:gpu*2,default_device=cpu
/* Every gradient rule against difference quotients, row by row of ir/ops.def; gradients of gradients likewise; corners. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>

#include "ops/primitive.h"

#define F64(shape, ...) BT_ARRAY(double, shape, __VA_ARGS__)
#define SIZES(...) ((const int64_t[]){__VA_ARGS__})
#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

/* --- one case for each row, or more ---------------------------------------------------------------------------------- */

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
CALL(sum_rows, bti_reduce(BTI_OP_sum, x[0], 1))
CALL(sum_all, bti_reduce(BTI_OP_sum, x[0], 7))
CALL(prod_row, bti_reduce(BTI_OP_prod, x[0], 2))
CALL(prod_all, bti_reduce(BTI_OP_prod, x[0], 7))
CALL(max, bti_reduce(BTI_OP_max, x[0], 5))
CALL(min, bti_reduce(BTI_OP_min, x[0], 2))
CALL(cumsum, bti_cumsum(x[0], 1, false))
CALL(cumsum_back, bti_cumsum(x[0], 0, true))
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
CALL(gather_axis, bti_gather_axis(x[0], BT_ARRAY(int32_t, (2, 2), 2, 2, 0, 1), 1))
CALL(scatter_axis, bti_scatter_axis(x[0], BT_ARRAY(int32_t, (2, 2), 2, 2, 0, 1), x[1], 1))
CALL(matmul, bti_record_matmul(x[0], x[1]))
CALL(copy, bt_to(x[0], "gpu:1"))

static const rule_case cases[] = {
    {BTI_OP_where, call_where, 2, {{1, {3}}, {1, {3}}}, 0},
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
    {BTI_OP_gather_axis, call_gather_axis, 1, {{2, {2, 3}}}, 0},
    {BTI_OP_scatter_axis, call_scatter_axis, 2, {{2, {2, 3}}, {2, {2, 2}}}, 0},
    {BTI_OP_matmul, call_matmul, 2, {{2, {2, 3}}, {2, {3, 4}}}, 0},
    {BTI_OP_matmul, call_matmul, 2, {{3, {2, 1, 3}}, {3, {2, 3, 2}}}, 0},
    {BTI_OP_copy, call_copy, 1, {{2, {2, 2}}}, 0},
};

/* --- checking a case ------------------------------------------------------------------------------------------------- */

/* A case, or for an elementwise row of one or two inputs the row itself. */
static bt_array *call(const rule_case *c, bt_array *const *x) {
    if (c->call) return c->call((bt_array **)(uintptr_t)x);
    return c->count == 1 ? bti_unary(c->op, x[0]) : bti_binary(c->op, x[0], x[1]);
}

/* Different numbers that only the shape decides: 1/4, 2/4, ... up to 2, then again. */
static bt_array *weights(bt_array *like) {
    int64_t count = bt_count(like);
    bt_array *numbers = bt_div(bt_add(bt_mod(bt_arange(0, (double)count, 1, BT_F64), bt_f64(8)), bt_f64(1)), bt_f64(4));
    return bt_reshape_to(numbers, bt_shape_of(like));
}

static bt_array *weighed(bt_array *y) { return bt_sum(bt_mul(bt_cast(y, BT_F64), weights(y)), BT_ALL, false); }

static bt_array *first_order(bt_array *const *x, int count, void *data) {
    (void)count;
    return weighed(call(data, x));
}

/* A scalar made of the gradients, not linear in them alone: its gradients hold those of the rules. */
static bt_array *second_order(bt_array *const *x, int count, void *data) {
    bt_array *grads[3], *sum = bt_f64(0);
    (void)bt_grad(first_order(x, count, data), x, count, grads);
    for (int i = 0; i < count; i++) sum = bt_add(sum, bt_add(weighed(grads[i]), weighed(bt_square(grads[i]))));
    return sum;
}

static uint64_t state_of_chance;
static double chance(void) { /* in [0, 1) */
    state_of_chance = state_of_chance * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (double)(state_of_chance >> 11) * 0x1p-53;
}

static bt_array *draw(bt_shape shape, double low, double high, double grain) {
    double numbers[64];
    int64_t count = 1;
    for (int i = 0; i < shape.rank; i++) count *= shape.size[i];
    assert_true(count <= 64);
    for (int64_t i = 0; i < count; i++) {
        numbers[i] = low + (high - low) * chance();
        if (grain > 0) numbers[i] = round(numbers[i] / grain) * grain;
    }
    return bt_from(numbers, BT_F64, shape);
}

static void check_case(const rule_case *c, bt_loss_fn *loss, const char *what) {
    const bti_op_row *row = bti_op_info(c->op);
    BT_SCOPE {
        bt_array *x[3];
        double worst = NAN;
        for (int i = 0; i < c->count; i++) x[i] = draw(c->shape[i], row->low, row->high, c->grain);
        assert_int_equal(bti_node_of(call(c, x))->op, c->op);
        bt_status status = bt_check_grad(loss, (void *)(uintptr_t)c, x, c->count, c->grain, &worst);
        if (status != BT_OK) fail_msg("%s, %s: %s", row->name, what, bt_error_text());
        if (!(worst < 1e-5)) fail_msg("%s, %s: off by %g", row->name, what, worst);
    }
}

static void check(const rule_case *c) {
    for (int i = 0; i < 3; i++) {
        check_case(c, first_order, "gradient");
        check_case(c, second_order, "gradient of the gradient");
    }
}

static void every_row(void **state) {
    (void)state;
    for (int op = 0; op < BTI_OP_COUNT; op++) {
        const bti_op_row *row = bti_op_info((bti_op)op);
        if (!strcmp(row->gradient, "none") || row->class == BTI_CONTROL) continue; /* ops/control_test.c */
        bool checked = false;
        for (int i = 0; i < COUNT(cases); i++) {
            if ((int)cases[i].op != op) continue;
            check(&cases[i]);
            checked = true;
        }
        if (!checked && row->class == BTI_ELEMENTWISE && row->arity <= 2) {
            bt_shape shape = {2, {2, 3}};
            check(&(rule_case){(bti_op)op, NULL, row->arity, {shape, shape}, 0});
            checked = true;
        }
        if (!checked)
            fail_msg("the row %s of ops.def has the gradient rule %s, but no case here", row->name, row->gradient);
    }
}

/* --- corners --------------------------------------------------------------------------------------------------------- */

#define GRADIENT(x, y, ...)                              \
    expect_gradient(x, y, (const double[]){__VA_ARGS__}, \
                    (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)), __LINE__)
static void expect_gradient(bt_array *x, bt_array *y, const double *expected, int count, int line) {
    double got[64];
    bt_array *gradient = bt_grad1(bt_sum(y, BT_ALL, false), x);
    if (bt_read(bt_cast(gradient, BT_F64), got, (size_t)count * sizeof *got) != BT_OK)
        fail_msg("line %d: %s", line, bt_error_text());
    assert_int_equal(bt_dtype_of(gradient), bt_dtype_of(x));
    for (int i = 0; i < count; i++)
        if (got[i] != expected[i] && !(isnan(got[i]) && isnan(expected[i])))
            fail_msg("line %d: gradient %d is %.17g, not %.17g", line, i, got[i], expected[i]);
}

static void corners_of_one_input(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = F64((4), -2, -0.0, 0, 3);
        GRADIENT(x, bt_abs(x), -1, 1, 1, 1);
        GRADIENT(x, bt_sign(x), 0, 0, 0, 0);
        GRADIENT(x, bt_relu(x), 0, 0, 0, 1);
        GRADIENT(x, bt_clamp(x, -2, 3), 0.5, 1, 1, 0.5);
        GRADIENT(x, bt_clamp(x, 0, 1), 0, 0.5, 0.5, 0);
        GRADIENT(x, bt_sqrt(bt_abs(bt_sub(x, bt_num(1)))), -1 / (2 * sqrt(3)), -0.5, -0.5, 1 / (2 * sqrt(2)));
        GRADIENT(x, bt_square(bt_stop_gradient(x)), 0, 0, 0, 0);
        GRADIENT(x, bt_mul(x, bt_stop_gradient(x)), -2, -0.0, 0, 3);
        GRADIENT(x, bt_where(bt_lt(x, bt_num(0)), bt_num(1), bt_sqrt(bt_where(bt_lt(x, bt_num(1)), bt_num(1), x))), 0,
                 0, 0, 1 / (2 * sqrt(3)));
    }
}

static void ties_share(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = F64((4), 1, 5, 5, -1), *y = F64((4), 1, 4, 6, -1);
        GRADIENT(x, bt_max(x, BT_ALL, false), 0, 0.5, 0.5, 0);
        GRADIENT(x, bt_min(bt_neg(x), BT_ALL, false), 0, -0.5, -0.5, 0);
        GRADIENT(x, bt_maximum(x, y), 0.5, 1, 0, 0.5);
        GRADIENT(y, bt_maximum(x, y), 0.5, 0, 1, 0.5);
        GRADIENT(x, bt_minimum(x, y), 0.5, 0, 1, 0.5);
        GRADIENT(x, bt_maximum(x, x), 1, 1, 1, 1);
        GRADIENT(x, bt_max(bt_zeros_like(x), BT_ALL, false), 0, 0, 0, 0);
    }
}

static bt_array *product(bt_array *const *x, int count, void *data) {
    (void)count, (void)data;
    return bt_prod(x[0], BT_ALL, false);
}
static bt_array *gradient_of_product(bt_array *const *x, int count, void *data) {
    return weighed(bt_grad1(product(x, count, data), x[0]));
}

static void products_survive_zeros(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *none = F64((3), 2, 3, 4), *one = F64((3), 2, 0, 4), *two = F64((2, 2), 0, 3, 0, 4),
                 *alone = F64((1), 0);
        GRADIENT(none, bt_prod(none, BT_ALL, false), 12, 8, 6);
        GRADIENT(one, bt_prod(one, BT_ALL, false), 0, 8, 0);
        GRADIENT(two, bt_prod(two, BT_ALL, false), 0, 0, 0, 0);
        GRADIENT(two, bt_prod(two, BT_AXES(1), false), 3, 0, 4, 0);
        GRADIENT(alone, bt_prod(alone, BT_ALL, false), 1);
        double worst = NAN;
        bt_array *x[4] = {none, one, two, F64((5), 0, 2, 0, 3, 1)};
        for (int i = 0; i < 4; i++) {
            assert_int_equal(bt_check_grad(product, NULL, &x[i], 1, 0, &worst), BT_OK);
            assert_true(worst < 1e-6);
            assert_int_equal(bt_check_grad(gradient_of_product, NULL, &x[i], 1, 0, &worst), BT_OK);
            assert_true(worst < 1e-6);
        }
    }
}

static void powers_have_no_nan(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = F64((4), 0, 0, 0, 2), *p = F64((4), 0, 1, 2, 3);
        GRADIENT(p, bt_pow(x, p), 0, 0, 0, 8 * log(2));
        GRADIENT(x, bt_pow(x, p), 0, 1, 0, 12);
        GRADIENT(x, bt_pow(x, bt_num(2)), 0, 0, 0, 4);
    }
}

static void indices(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = F64((4), 3, 1, 4, 2), *w = F64((4), 10, 20, 30, 40);
        GRADIENT(x, bt_mul(bt_sort(x, 0), w), 30, 10, 40, 20);
        GRADIENT(x, bt_mul(bt_top_k(x, 2), F64((2), 10, 20)), 20, 0, 10, 0);
        GRADIENT(x, bt_take(x, BT_ARRAY(int32_t, (2, 2), 1, 1, -1, 0), 0), 1, 2, 0, 1);
        bt_array *beyond = BT_ARRAY(int32_t, (3), 1, 4, -5);
        GRADIENT(x, bt_where(bt_isnan(bt_take(x, beyond, 0)), bt_num(0), bt_take(x, beyond, 0)), 0, 1, 0, 0);
        bt_array *updates = F64((3), 1, 2, 3);
        GRADIENT(updates, bt_mul(bt_scatter_add(x, beyond, updates, 0), w), 20, 0, 0);
        GRADIENT(x, bt_take_along_axis(x, BT_ARRAY(int32_t, (3), 2, 2, 9), 0), 0, 0, 2, 0);
    }
}

/* A gradient has its target's dtype, whatever it met on the way. */
static void dtypes(void **state) {
    (void)state;
    static const bt_dtype floats[] = {BT_F16, BT_BF16, BT_F32, BT_F64};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++)
            BT_SCOPE {
                bt_array *x = bt_full(3, floats[i], 2), *y = bt_full(2, floats[k], 2);
                GRADIENT(x, bt_mul(bt_mul(x, y), bt_num(0.5)), 1, 1);
                GRADIENT(y, bt_cast(bt_mul(x, y), BT_F64), 3, 3);
            }
    BT_SCOPE {
        bt_array *weak = bt_num(3);
        GRADIENT(weak, bt_mul(weak, bt_num(2)), 2);
        GRADIENT(weak, bt_mul(weak, bt_f32(2)), 2);
        bt_array *x = bt_f32(2), *whole = bt_cast(x, BT_I32);
        GRADIENT(x, bt_mul(x, bt_cast(whole, BT_F32)), 2);
        GRADIENT(whole, bt_mul(x, bt_cast(whole, BT_F32)), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row),
        cmocka_unit_test(corners_of_one_input),
        cmocka_unit_test(ties_share),
        cmocka_unit_test(products_survive_zeros),
        cmocka_unit_test(powers_have_no_nan),
        cmocka_unit_test(indices),
        cmocka_unit_test(dtypes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

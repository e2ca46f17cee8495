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

#include "ops/rule_cases.h"

#define F64(shape, ...) BT_ARRAY(double, shape, __VA_ARGS__)

/* --- checking a case ------------------------------------------------------------------------------------------------- */

/* Different numbers that only the shape decides: 1/4, 2/4, ... up to 2, then again. */
static bt_array *weights(bt_array *like) {
    int64_t count = bt_count(like);
    bt_array *numbers = bt_div(bt_add(bt_mod(bt_arange(0, (double)count, 1, BT_F64), bt_f64(8)), bt_f64(1)), bt_f64(4));
    return bt_reshape_to(numbers, bt_shape_of(like));
}

static bt_array *weighed(bt_array *y) {
    if (bti_is_complex(y)) y = bt_add(bt_real(y), bt_mul(bt_imag(y), bt_f64(3)));
    return bt_sum(bt_mul(bt_cast(y, BT_F64), weights(y)), BT_ALL, false);
}

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

static void check_case(const rule_case *c, bt_loss_fn *loss, const char *what) {
    const bti_op_row *row = bti_op_info(c->op);
    BT_SCOPE {
        bt_array *x[3];
        double worst = NAN;
        for (int i = 0; i < c->count; i++) x[i] = draw(c->shape[i], row->low, row->high, c->grain);
        const bti_node *made = bti_node_of(call(c, x));
        assert_int_equal(made->op == BTI_OP_result ? made->inputs[0]->op : made->op, c->op);
        bt_status status = bt_check_grad(loss, (void *)(uintptr_t)c, x, c->count, c->grain, &worst);
        if (status != BT_OK) fail_msg("%s, %s: %s", row->name, what, bt_error_text());
        if (!(worst < 1e-5)) fail_msg("%s, %s: off by %g", row->name, what, worst);
    }
}

static bool lacks_a_device(bti_op op) {
    return (op == BTI_OP_copy || op == BTI_OP_all_reduce) && bt_device_count(BT_GPU) < 2;
}

static void check(const rule_case *c) {
    if (lacks_a_device(c->op)) return;
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
        if (!each_case_of(op, check))
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

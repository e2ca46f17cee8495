// env: BERTH_FLAGS=devices=sim:gpu*2,default_device=cpu
/* Every tangent rule against the gradient rule of the row, at the first and the second order: <v, J u> = <J' v, u>. Then what jvp promises
 * besides. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>

#include "ops/ops_test.h"
#include "ops/rule_cases.h"

#define F64(shape, ...) BT_ARRAY(double, shape, __VA_ARGS__)
#define OK(call) expect_ok(call, __LINE__)

static void expect_ok(bt_status status, int line) {
    if (status != BT_OK) fail_msg("line %d: %s", line, bt_error_text());
}

/* --- rows ------------------------------------------------------------------------------------------------------------ */

static bt_array *numbers_like(bt_array *x) { return bt_cast(draw(bt_shape_of(x), -2, 2, 0), bt_dtype_of(x)); }

static double inner_product(bt_array *x, bt_array *y) {
    double value = NAN;
    OK(bt_read(bt_sum(bt_mul(bt_cast(x, BT_F64), bt_cast(y, BT_F64)), BT_ALL, false), &value, sizeof value));
    return value;
}

/* That the tangents of y along u agree with its gradients along v; returns the tangent. */
static bt_array *check_consistent(const rule_case *c, bt_array *y, bt_array **x, const char *what) {
    const char *name = bti_op_info(c->op)->name;
    bt_array *u[3], *v = numbers_like(y), *grads[3], *tangent;
    for (int i = 0; i < c->count; i++) u[i] = numbers_like(x[i]);
    if (bt_jvp(&y, 1, x, u, c->count, &tangent) != BT_OK) fail_msg("%s, %s: %s", name, what, bt_error_text());
    OK(bt_vjp(y, v, x, c->count, grads));
    assert_int_equal(bt_dtype_of(tangent), bt_dtype_of(y));
    double forward = inner_product(v, tangent), backward = 0, room = bt_dtype_of(y) == BT_F64 ? 1e-11 : 1e-2;
    for (int i = 0; i < c->count; i++) backward += inner_product(grads[i], u[i]);
    if (!(fabs(forward - backward) <= room * (1 + fabs(forward))))
        fail_msg("%s, %s: %.17g forward, %.17g backward", name, what, forward, backward);
    return tangent;
}

static void check(const rule_case *c) {
    const bti_op_row *row = bti_op_info(c->op);
    for (int time = 0; time < 3; time++)
        BT_SCOPE {
            bt_array *x[3];
            for (int i = 0; i < c->count; i++) x[i] = draw(c->shape[i], row->low, row->high, c->grain);
            bt_array *y = call(c, x);
            bt_array *tangent = check_consistent(c, y, x, "tangent");
            (void)check_consistent(c, tangent, x, "tangent of the tangent");
            bt_array *gradient;
            OK(bt_vjp(y, numbers_like(y), x, 1, &gradient));
            (void)check_consistent(c, gradient, x, "tangent of the gradient");
        }
}

static void every_row(void **state) {
    for (int op = 0; op < BTI_OP_COUNT; op++) {
        const bti_op_row *row = bti_op_info((bti_op)op);
        if (row->class == BTI_CONTROL) continue;
        if (strcmp(row->gradient, "none") && !strcmp(row->tangent, "none"))
            fail_msg("the row %s of ops.def has a gradient rule and no tangent rule", row->name);
        if (strcmp(row->tangent, "none") && !each_case_of(op, check))
            fail_msg("the row %s of ops.def has the tangent rule %s, but no case here", row->name, row->tangent);
    }
}

/* --- jvp ------------------------------------------------------------------------------------------------------------- */

#define GIVES(x, text) expect_text(x, text, __LINE__)
static void expect_text(bt_array *x, const char *text, int line) {
    char *got = bt_to_text(x);
    if (!got) fail_msg("line %d: %s", line, bt_error_text());
    if (strcmp(got, text)) fail_msg("line %d: %s; expected %s", line, got, text);
    bt_free(got);
}

static bt_array *tangent_of(bt_array *y, bt_array *x, bt_array *u) {
    bt_array *tangent;
    (void)bt_jvp(&y, 1, &x, &u, 1, &tangent);
    return tangent;
}

static void several_results_share_their_program(void **state) {
    BT_SCOPE {
        bt_array *x = F64((2), 1, 2), *w = F64((2), 3, 5), *shared = bt_mul(x, w), *t[3];
        bt_array *ys[3] = {shared, bt_square(shared), bt_add(w, bt_num(1))};
        OK(bt_jvp(ys, 3, ALL(x, w), ALL(F64((2), 1, 0), F64((2), 0, 1)), 2, t));
        GIVES(t[0], "[3. 2.]");
        GIVES(t[1], "[18. 40.]");
        GIVES(t[2], "[0. 1.]");
        OK(bt_jvp(ys, 0, ALL(x), ALL(x), 1, NULL));
        OK(bt_jvp(ys, 1, NULL, NULL, 0, t));
        GIVES(t[0], "[0. 0.]");
    }
}

/* The array itself is a result; it is given twice; one is made of the other. */
static void arrays_that_meet(void **state) {
    BT_SCOPE {
        bt_array *x = F64((1), 3), *u = F64((1), 1), *y = bt_mul(x, x), *t[2];
        GIVES(tangent_of(x, x, u), "[1.]");
        OK(bt_jvp(&y, 1, ALL(x, x), ALL(u, F64((1), 10)), 2, t));
        GIVES(t[0], "[66.]");
        bt_array *z = bt_mul(y, bt_num(2));
        OK(bt_jvp(ALL(z, y), 2, ALL(x, y), ALL(u, F64((1), 100)), 2, t));
        GIVES(t[0], "[212.]");
        GIVES(t[1], "[106.]");
    }
}

static void ends_where_gradients_end(void **state) {
    BT_SCOPE {
        bt_array *x = F64((2), 1.5, 2), *u = F64((2), 1, 10);
        GIVES(tangent_of(bt_mul(x, bt_stop_gradient(x)), x, u), "[ 1.5 20. ]");
        GIVES(tangent_of(bt_mul(x, bt_cast(bt_cast(x, BT_I32), BT_F64)), x, u), "[ 1. 20.]");
        GIVES(tangent_of(bt_floor(x), x, u), "[0. 0.]");
        GIVES(tangent_of(bt_to(bt_mul(x, x), "gpu:1"), x, u), "[ 3. 40.]");
    }
}

static void prepared_calls_are_recorded(void **state) {
    BT_SCOPE {
        bt_array *in = bt_input(BT_F64, -1), *out = bt_mul(in, bt_sin(in));
        bt_function *f = bt_function_new(&in, 1, &out, 1, NULL, 0);
        bt_array *x = F64((2), 0, 1), *y = bt_call1(f, &x, 1);
        y = bt_call1(f, &x, 1);
        double got[2];
        OK(bt_read(tangent_of(bt_mul(y, bt_num(2)), x, F64((2), 1, 1)), got, sizeof got));
        assert_true(got[0] == 0 && fabs(got[1] - 2 * (sin(1) + cos(1))) < 1e-14);
    }
}

static void refuses(void **state) {
    BT_SCOPE {
        bt_array *x = F64((2), 1, 2), *y = bt_mul(x, x), *t, *whole = I32((2), 1, 2), *kept = bt_retain(bt_exp(x));
        BAD(jvp, tangent_of(y, x, F64((3), 1, 2, 3)), "tangents[0] has shape (3,); it must have that of xs[0], (2,)");
        BAD(jvp, tangent_of(y, x, whole), "tangents[0] is int32; only floats have derivatives");
        BAD(jvp, tangent_of(y, whole, x), "xs[0] is int32");
        BAD(jvp, tangent_of(whole, x, x), "ys[0] is int32");
        BAD(jvp, tangent_of(NULL, x, x), "ys[0] is NULL");
        BAD(jvp, tangent_of(y, x, NULL), "tangents[0] is NULL");
        BAD(jvp, tangent_of(kept, x, x), "derivatives end at retained arrays, and ys[0] is one (bt_retain at");
        BAD(jvp, tangent_of(bt_mul(kept, kept), x, x), "the derivative of ys[0] is cut off at");
        GIVES(tangent_of(bt_mul(kept, bt_f64(0)), kept, bt_ones_like(kept)), "[0. 0.]");
        bt_array *poison = bt_reshape(x, 7), *steep = bt_floor_div(x, bt_num(2));
        assert_int_equal(bt_jvp(&poison, 1, &x, &x, 1, &t), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_jvp(&y, 1, &poison, &x, 1, &t), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_jvp(&y, 1, &x, &poison, 1, &t), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_peek_status(t), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_jvp(&steep, 1, &x, &x, 1, &t), BT_UNIMPLEMENTED);
        assert_non_null(strstr(bt_error_text(), "the operation floor_div has no derivative"));
        assert_int_equal(bt_jvp(NULL, 1, &x, &x, 1, &t), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_jvp(&y, 1, NULL, &x, 1, &t), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_jvp(&y, 1, &x, &x, -1, &t), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_jvp(&y, 1, &x, &x, 1, NULL), BT_INVALID_ARGUMENT);
        bt_release(kept);
    }
}

/* --- Jacobians and second derivatives --------------------------------------------------------------------------------- */

static void jacobians(void **state) {
    BT_SCOPE {
        bt_array *x = F64((2, 2), 1, 2, 3, 4), *v = F64((2), 5, 6);
        GIVES(bt_jacobian(bt_matmul(x, v), v), "[[1. 2.]\n [3. 4.]]");
        GIVES(bt_jacobian(bt_matmul(x, v), x), "[[[5. 6.]\n  [0. 0.]]\n\n [[0. 0.]\n  [5. 6.]]]");
        GIVES(bt_jacobian(bt_sum(bt_mul(x, x), BT_ALL, false), x), "[[2. 4.]\n [6. 8.]]");
        GIVES(bt_jacobian(v, bt_f64(1)), "[0. 0.]");
        GIVES(bt_jacobian(x, bt_zeros(BT_F64, 0)), "[]");
        GIVES(bt_jacobian(bt_f64(2), v), "[0. 0.]");
        GIVES(bt_jacobian(v, v), "[[1. 0.]\n [0. 1.]]");
        GIVES(bt_jacobian(bt_concat(ALL(v, v, v), 3, 0), v),
              "[[1. 0.]\n [0. 1.]\n [1. 0.]\n [0. 1.]\n [1. 0.]\n [0. 1.]]");
        GIVES(bt_jacobian(bt_cumsum(bt_reshape(x, 4), 0, false), x),
              "[[[1. 0.]\n  [0. 0.]]\n\n [[1. 1.]\n  [0. 0.]]\n\n [[1. 1.]\n  [1. 0.]]\n\n [[1. 1.]\n  [1. 1.]]]");
        GIVES(bt_jacobian(bt_cast(v, BT_F32), v), "[[1. 0.]\n [0. 1.]]");
        BAD(jacobian, bt_jacobian(deep(), v), "their Jacobian has 9 axes; the most are 8");
        BAD(floor_div, bt_jacobian(bt_floor_div(v, bt_num(2)), v), "the operation floor_div has no derivative");
        BAD(floor_div, bt_jacobian(bt_sum(bt_floor_div(v, bt_num(2)), BT_ALL, false), v),
            "the operation floor_div has no gradient");
        BAD(jacobian, bt_jacobian(I32((2), 1, 2), v), "y is int32");
        BAD(jacobian, bt_jacobian(v, NULL), "x is NULL");
    }
}

static void second_derivatives(void **state) {
    BT_SCOPE {
        bt_array *x = F64((3), 1, 2, 3), *w = F64((1), 2),
                 *loss = bt_mul(bt_prod(x, BT_ALL, false), bt_sum(w, BT_ALL, false)), *products[2];
        GIVES(bt_hessian(loss, x), "[[0. 6. 4.]\n [6. 0. 2.]\n [4. 2. 0.]]");
        OK(bt_hvp(loss, ALL(x, w), ALL(F64((3), 1, 0, 0), F64((1), 10)), 2, products));
        GIVES(products[0], "[60. 36. 24.]");
        GIVES(products[1], "[6.]");
        GIVES(bt_jacobian(bt_hessian(loss, x), w),
              "[[[0.]\n  [3.]\n  [2.]]\n\n [[3.]\n  [0.]\n  [1.]]\n\n [[2.]\n  [1.]\n  [0.]]]");
        assert_int_equal(bt_hvp(x, &x, &x, 1, products), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_hvp(loss, &x, NULL, 1, products), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_hvp(loss, &x, &w, 1, products), BT_INVALID_ARGUMENT);
        assert_non_null(strstr(bt_error_text(), "vectors[0] has shape (1,); it must have that of wrt[0], (3,)"));
        assert_int_equal(bt_peek_status(products[0]), BT_INVALID_ARGUMENT);
        BAD(hessian, bt_hessian(x, x), "must be a floating scalar");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row),
        cmocka_unit_test(several_results_share_their_program),
        cmocka_unit_test(arrays_that_meet),
        cmocka_unit_test(ends_where_gradients_end),
        cmocka_unit_test(prepared_calls_are_recorded),
        cmocka_unit_test(refuses),
        cmocka_unit_test(jacobians),
        cmocka_unit_test(second_derivatives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

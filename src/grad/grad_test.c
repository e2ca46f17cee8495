// env: BERTH_FLAGS=devices=sim:gpu*4,default_device=cpu
// labels: valgrind
/* The walk back: where gradients go and where they end, what they leave behind, what is refused. Rules: rules_test.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>

#include "array/handle.h"

#define F32(shape, ...) BT_ARRAY(float, shape, __VA_ARGS__)
#define LIST(...) ((bt_array *[]){__VA_ARGS__})

static bt_array *total(bt_array *x) { return bt_sum(x, BT_ALL, false); }

#define READS(x, ...)                                                                                                \
    expect_elements(x, (const double[]){__VA_ARGS__}, (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)), \
                    __LINE__)
static void expect_elements(bt_array *x, const double *expected, int count, int line) {
    double got[64];
    if (bt_count(x) != count) fail_msg("line %d: %lld elements, not %d", line, (long long)bt_count(x), count);
    if (bt_read(bt_cast(x, BT_F64), got, (size_t)count * sizeof *got) != BT_OK)
        fail_msg("line %d: %s", line, bt_error_text());
    for (int i = 0; i < count; i++)
        if (!(fabs(got[i] - expected[i]) <= 1e-6 * fmax(1, fabs(expected[i]))))
            fail_msg("line %d: element %d is %.9g, not %.9g", line, i, got[i], expected[i]);
}

/* --- what depends on what -------------------------------------------------------------------------------------------- */

static void several_at_once(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = F32((2), 2, 3), *y = F32((2), 5, 7), *z = F32((3), 1, 1, 1), *grads[5];
        bt_array *product = bt_mul(x, y), *loss = total(bt_mul(product, x));
        assert_int_equal(bt_grad(loss, LIST(x, product, z, x, loss), 5, grads), BT_OK);
        READS(grads[0], 2 * 2 * 5, 2 * 3 * 7); /* d/dx of x*x*y */
        READS(grads[1], 2, 3);
        READS(grads[2], 0, 0, 0);
        READS(grads[3], 2 * 2 * 5, 2 * 3 * 7);
        READS(grads[4], 1);
        assert_int_equal(bt_grad(loss, NULL, 0, NULL), BT_OK);
    }
}

static void after_it_was_read(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = F32((2), 2, 3), *y = bt_exp(x), *loss = total(bt_mul(y, y));
        READS(loss, exp(4) + exp(6));
        READS(y, exp(2), exp(3));
        READS(bt_grad1(loss, x), 2 * exp(4), 2 * exp(6));
    }
}

static void to_third_order(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = bt_f64(2), *y = bt_pow(x, bt_num(4));
        bt_array *first = bt_grad1(y, x), *second = bt_grad1(first, x), *third = bt_grad1(second, x);
        READS(first, 32);
        READS(second, 48);
        READS(third, 48);
        READS(bt_grad1(bt_grad1(third, x), x), 0);
    }
}

static void it_ends_at_retained_arrays(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = F32((1), 3), *kept = NULL;
        bt_assign(&kept, bt_mul(x, x));
        bt_array *loss = total(bt_mul(kept, x));
        READS(loss, 27);
        READS(bt_grad1(loss, x), 9);
        READS(bt_grad1(loss, kept), 3);
        bt_assign(&kept, NULL);
    }
}

static void vector_jacobian_products(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = F32((2), 2, 3), *gradient, *y = bt_mul(x, x);
        assert_int_equal(bt_vjp(y, F32((2), 10, 100), &x, 1, &gradient), BT_OK);
        READS(gradient, 40, 600);
        assert_int_equal(bt_vjp(y, BT_ARRAY(int32_t, (2), 1, 0), &x, 1, &gradient), BT_OK);
        READS(gradient, 4, 0);
        assert_int_equal(bt_dtype_of(gradient), BT_F32);
        assert_int_equal(bt_vjp(y, F32((1), 1), &x, 1, &gradient), BT_INVALID_ARGUMENT);
        assert_non_null(strstr(bt_error_text(), "the cotangent has shape (1,); it must have that of y, (2,)"));
        assert_int_equal(bt_peek_status(gradient), BT_INVALID_ARGUMENT);
    }
}

static char marker;
static bt_array *quotient(bt_array *const *args, int count, void *data) {
    assert_int_equal(count, 2);
    assert_ptr_equal(data, &marker);
    return total(bt_div(args[0], args[1]));
}

static bt_array *floors(bt_array *const *args, int count, void *data) { return total(bt_floor_div(args[0], args[1])); }
static bt_array *null(bt_array *const *args, int count, void *data) { return NULL; }

static void value_and_gradient(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *args[2] = {F32((2), 1, 2), F32((2), 2, 4)}, *grads[2];
        uint64_t before = bt_live_arrays();
        bt_array *value = bt_value_and_grad(quotient, &marker, args, 2, grads);
        assert_true(bt_live_arrays() <= before + 3);
        READS(value, 1);
        READS(grads[0], 0.5, 0.25);
        READS(grads[1], -0.25, -0.125);
        assert_int_equal(bt_peek_status(bt_value_and_grad(NULL, NULL, args, 2, grads)), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_peek_status(grads[1]), BT_INVALID_ARGUMENT);
        bt_array *refused[] = {bt_value_and_grad(quotient, NULL, args, -1, grads),
                               bt_value_and_grad(quotient, NULL, args, 2, NULL),
                               bt_value_and_grad(quotient, NULL, NULL, 2, grads)};
        for (int i = 0; i < 3; i++) assert_int_equal(bt_peek_status(refused[i]), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_peek_status(grads[0]), BT_INVALID_ARGUMENT);
        bt_error_clear();
        assert_int_equal(bt_eval(bt_add(refused[0], bt_num(1))), BT_INVALID_ARGUMENT);
        assert_non_null(strstr(bt_error_text(), "bt_value_and_grad: count is -1"));
        READS(bt_value_and_grad(floors, NULL, args, 2, grads), 0);
        assert_int_equal(bt_peek_status(grads[0]), BT_UNIMPLEMENTED);
        assert_int_equal(bt_peek_status(bt_value_and_grad(null, NULL, args, 2, grads)), BT_INVALID_ARGUMENT);
        double worst = NAN;
        bt_array *fine[2] = {bt_f64(3), bt_f64(2)};
        assert_int_equal(bt_check_grad(floors, NULL, fine, 2, 0, &worst), BT_UNIMPLEMENTED);
        assert_int_equal(bt_check_grad(null, NULL, fine, 2, 0, &worst), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_check_grad(quotient, &marker, fine, 2, 0, &worst), BT_OK);
        assert_true(worst < 1e-8);
        assert_int_equal(bt_check_grad(quotient, &marker, args, 2, 0, &worst), BT_INVALID_ARGUMENT);
        assert_non_null(strstr(bt_error_text(), "float32"));
    }
}

/* A hundred thousand operations in a row, and a graph with 2^40 ways through it. */
static void long_and_tangled(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = bt_f64(1), *y = x;
        BT_SCOPE {
            for (int i = 0; i < 100000; i++) y = bt_add(y, bt_f64(1e-5));
            bt_keep(y);
        }
        READS(bt_grad1(y, x), 1);
        bt_array *z = x;
        for (int i = 0; i < 40; i++) z = bt_add(z, z);
        READS(bt_grad1(z, x), 0x1p40);
    }
}

/* --- shared variables ------------------------------------------------------------------------------------------------ */

static void variables(void **state) {
    (void)state;
    BT_SCOPE {
        bt_shared *w = bt_shared_new(F32((2), 2, 3), NULL), *other = bt_shared_new(bt_f32(1), NULL);
        bt_array *grads[2], *before = bt_mul(bt_value(w), bt_value(w));
        assert_int_equal(bt_set(w, F32((2), 10, 20)), BT_OK);
        bt_array *loss = total(bt_add(before, bt_value(w)));
        assert_int_equal(bt_grad_shared(loss, (bt_shared *[]){w, other}, 2, grads), BT_OK);
        READS(grads[0], 2 * 2 + 1, 2 * 3 + 1); /* by every value that it had */
        READS(grads[1], 0);
        READS(bt_grad1(loss, bt_value(w)), 1, 1); /* by this one */
        assert_int_equal(bt_grad_shared(loss, (bt_shared *[]){w, NULL}, 2, grads), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_peek_status(grads[0]), BT_INVALID_ARGUMENT);
    }
}

static void descent(void **state) {
    (void)state;
    BT_SCOPE {
        bt_shared *w = bt_shared_new(bt_f32(5), NULL);
        for (int i = 0; i < 50; i++)
            BT_SCOPE {
                bt_array *loss = bt_square(bt_sub(bt_value(w), bt_num(3)));
                assert_int_equal(bt_set(w, bt_sub(bt_value(w), bt_mul(bt_num(0.25), bt_grad1(loss, w)))), BT_OK);
            }
        READS(bt_value(w), 3);
    }
}

/* --- where ------------------------------------------------------------------------------------------------------------ */

static void they_run_where_forward_ran(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x, *y, *grads[2];
        BT_ON("gpu:1") x = F32((2), 1, 2);
        BT_ON("gpu:2") y = F32((2), 3, 4);
        bt_array *z, *loss;
        BT_ON("gpu:3") z = bt_mul(x, y);
        loss = bt_sum(bt_to(bt_mul(bt_to(z, "gpu:0"), bt_num(2)), "cpu"), BT_ALL, false);
        BT_ON("gpu:2") /* the block does not matter */
            assert_int_equal(bt_grad(loss, LIST(x, y), 2, grads), BT_OK);
        READS(grads[0], 6, 8);
        READS(grads[1], 2, 4);
        assert_string_equal(bt_device_name(bt_device_of(loss)), "CPU:0");
        assert_string_equal(bt_device_name(bt_device_of(bt_grad1(loss, z))), "GPU:3");
        char *plan = bt_explain_all(grads, 2);
        assert_non_null(plan);
        bt_free(plan);
        bt_array *far = bt_grad1(bt_f32(1), x);
        READS(far, 0, 0);
        assert_string_equal(bt_device_name(bt_device_of(far)), "GPU:1");
    }
}

/* --- parts of one array ---------------------------------------------------------------------------------------------- */

/* A part of x [4, 6]: start, stop and step along both axes. */
static bt_array *part(bt_array *x, const int64_t range[6]) {
    return bt_slice(x, (const int64_t[]){range[0], range[3]}, (const int64_t[]){range[1], range[4]},
                    (const int64_t[]){range[2], range[5]});
}

/* The gradient of the sum of squares of parts, each weighted, beside that of parts one by one. */
static void expect_parts(const int64_t (*ranges)[6], int count, int line) {
    BT_SCOPE {
        bt_array *x = bt_reshape(bt_arange(1, 25, 1, BT_F32), 4, 6), *loss = bt_num(0), *one_by_one = bt_zeros_like(x);
        for (int i = 0; i < count; i++) {
            bt_array *term = bt_mul(total(bt_square(part(x, ranges[i]))), bt_num(i + 1));
            loss = bt_add(loss, term);
            one_by_one = bt_add(one_by_one, bt_grad1(term, x));
        }
        bool same = false;
        bt_array *all = bt_all(bt_eq(bt_grad1(loss, x), one_by_one), BT_ALL, false);
        if (bt_read(all, &same, sizeof same) != BT_OK || !same) fail_msg("line %d: %s", line, bt_error_text());
    }
}
#define PARTS_AGREE(...)                            \
    expect_parts((const int64_t[][6]){__VA_ARGS__}, \
                 (int)(sizeof((const int64_t[][6]){__VA_ARGS__}) / sizeof(int64_t[6])), __LINE__)
#define ALONG(low, high) \
    { 0, 4, 1, low, high, 1 }

static void of_parts(void **state) {
    (void)state;
    PARTS_AGREE(ALONG(0, 2), ALONG(2, 3), ALONG(3, 6));              /* all of it */
    PARTS_AGREE(ALONG(3, 4), ALONG(0, 1), ALONG(5, 6));              /* gaps, not in order */
    PARTS_AGREE(ALONG(0, 3), ALONG(1, 4), ALONG(2, 5), ALONG(3, 6)); /* windows */
    PARTS_AGREE(ALONG(1, 3), ALONG(1, 3), ALONG(1, 1), ALONG(3, 5)); /* one twice, one empty */
    PARTS_AGREE(ALONG(1, 1), ALONG(3, 3));                           /* nothing */
    PARTS_AGREE({0, 2, 1, 0, 3, 1}, {0, 2, 1, 3, 6, 1}, {2, 4, 1, 0, 3, 1}, {2, 4, 1, 3, 6, 1});     /* tiles */
    PARTS_AGREE({1, 2, 1, 1, 3, 1}, {1, 2, 1, 4, 5, 1}, {3, 4, 1, 2, 6, 1});                         /* within */
    PARTS_AGREE({0, 4, 2, 0, 6, 1}, {1, 4, 2, 0, 6, 1}, {3, -5, -1, 5, -7, -2}, {0, 1, 1, 0, 6, 3}); /* with steps */
    PARTS_AGREE({0, 4, 1, 0, 6, 3}, {0, 4, 1, 1, 6, 3}, {0, 4, 1, 2, 6, 3});                         /* all columns */
    PARTS_AGREE({0, 4, 1, 0, 6, 4}, {0, 4, 1, 3, 6, 4}, {0, 4, 1, 1, 6, 4});                     /* not all, nor full */
    PARTS_AGREE({0, 4, 1, 4, 6, 2}, {0, 4, 1, 0, 3, 2}, {0, 4, 1, 0, 6, 2}, {0, 4, 1, 1, 6, 2}); /* some twice */
    PARTS_AGREE({0, 4, 2, 0, 6, 2}, {1, 4, 2, 0, 6, 2}, {0, 4, 2, 1, 6, 2}, {1, 4, 2, 1, 6, 2}); /* along both axes */
    PARTS_AGREE({0, 4, 1, 0, 6, 2}, {0, 4, 1, 0, 6, 3}, {3, -5, -3, 0, 6, 1}, {0, 4, 1, 5, -7, -2}); /* of many steps */
    BT_SCOPE { /* of as many axes as an array may have */
        bt_array *x = bt_reshape(bt_arange(1, 9, 1, BT_F32), 1, 2, 1, 1, 1, 1, 1, 4), *loss = bt_num(0);
        for (int i = 0; i < 3; i++)
            loss = bt_add(loss, bt_mul(total(bt_square(bt_slice_axis(x, 7, i, 4, 2))), bt_num(i + 1)));
        READS(bt_grad1(loss, x), 2, 8, 24, 16, 10, 24, 56, 32);
    }
    BT_SCOPE { /* rows by index, along both axes, beside a part and the whole */
        bt_array *x = bt_reshape(bt_arange(1, 7, 1, BT_F32), 2, 3), *loss = bt_num(0);
        for (int i = 0; i < 3; i++) loss = bt_add(loss, bt_mul(total(bt_take(x, bt_i32(i - 1), 1)), bt_num(i + 1)));
        loss = bt_add(loss, total(bt_take(x, BT_ARRAY(int64_t, (2), 1, 1), 0)));
        loss = bt_add(loss, bt_add(total(bt_slice_axis(x, 1, 0, 1, 1)), total(x)));
        READS(bt_grad1(loss, x), 4, 4, 2, 6, 6, 4);
    }
}

/* Steps of a recurrent net: many parts cost as much as the array. */
static void of_many_parts(void **state) {
    (void)state;
    enum { COUNT = 200 };
    BT_SCOPE {
        bt_array *x = bt_arange(0, COUNT * 2, 1, BT_F32), *rows[COUNT], *loss = bt_num(0);
        x = bt_reshape(x, COUNT, 2);
        assert_int_equal(bt_unstack(x, 0, COUNT, rows), BT_OK);
        for (int i = 0; i < COUNT; i++) loss = bt_add(loss, total(bt_square(rows[i])));
        bt_array *grad = bt_grad1(loss, x);
        char *plan = bt_explain(grad);
        assert_non_null(plan);
        assert_null(strstr(plan, "Pad"));
        int joins = 0;
        for (const char *at = plan; (at = strstr(at, "concat")) != NULL; at++) joins++;
        assert_int_equal(joins, 1);
        bt_free(plan);
        bool same = false;
        bt_array *all = bt_all(bt_eq(grad, bt_mul(x, bt_num(2))), BT_ALL, false);
        assert_int_equal(bt_read(all, &same, sizeof same), BT_OK);
        assert_true(same);
    }
}

/* Windows along the diagonal, which overlap: each is added where the array is. */
static void of_windows(void **state) {
    (void)state;
    enum { SIDE = 256 };
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, SIDE, SIDE), *loss = bt_num(0);
        for (int i = 0; i + 2 <= SIDE; i++)
            loss =
                bt_add(loss, bt_mul(total(bt_slice(x, (const int64_t[]){i, i}, (const int64_t[]){i + 2, i + 2}, NULL)),
                                    bt_num(i)));
        bt_array *grad = bt_grad1(loss, x), *given = bt_zeros(BT_F32, SIDE, SIDE), *got;
        bt_function *f = bt_function_new(&x, 1, &grad, 1, NULL, 0);
        bt_cost cost = BT_COST_INIT;
        assert_int_equal(bt_function_cost(f, &given, NULL, 1, &cost), BT_OK);
        assert_true(cost.bytes_written < 8 * SIDE * SIDE * 4);
        assert_int_equal(bt_call(f, &given, 1, &got, 1), BT_OK);
        READS(bt_slice(got, (const int64_t[]){100, 99}, (const int64_t[]){101, 102}, NULL), 99, 199, 100);
    }
}

/* Of slices that interleave too: columns of the array cut into steps. */
static void of_many_steps(void **state) {
    (void)state;
    enum { COUNT = 200 };
    BT_SCOPE {
        bt_array *x = bt_arange(0, COUNT * 3 + 1, 1, BT_F32), *loss = bt_num(0);
        for (int i = 0; i < COUNT; i++) loss = bt_add(loss, total(bt_square(bt_slice_axis(x, 0, i, COUNT * 3, COUNT))));
        bt_array *grad = bt_grad1(loss, x);
        char *plan = bt_explain(grad);
        assert_non_null(plan);
        int joins = 0;
        for (const char *at = plan; (at = strstr(at, "concat")) != NULL; at++) joins++;
        assert_int_equal(joins, 1);
        bt_free(plan);
        bt_array *expected = bt_mul(x, bt_where(bt_lt(x, bt_num(COUNT * 3)), bt_num(2), bt_num(0)));
        bool same = false;
        assert_int_equal(bt_read(bt_all(bt_eq(grad, expected), BT_ALL, false), &same, sizeof same), BT_OK);
        assert_true(same);
    }
}

/* --- functions of symbolic inputs ------------------------------------------------------------------------------------- */

static void check_function(bt_array *body(bt_array *x), bt_array *x, int line) {
    BT_SCOPE {
        bt_array *input = bt_input_shape(bt_dtype_of(x), BT_SHAPE(-1, bt_size(x, 1)));
        bt_array *symbolic = bt_grad1(total(bt_square(body(input))), input);
        bt_function *function = bt_function_new(&input, 1, &symbolic, 1, NULL, 0);
        if (bt_function_status(function) != BT_OK) fail_msg("line %d: %s", line, bt_error_text());
        bt_array *got = bt_call1(function, &x, 1), *expected = bt_grad1(total(bt_square(body(x))), x);
        bt_array *same = bt_all(bt_eq(got, expected), BT_ALL, false);
        bool is_same = false;
        if (bt_read(same, &is_same, sizeof is_same) != BT_OK) fail_msg("line %d: %s", line, bt_error_text());
        if (!is_same) fail_msg("line %d: not as with known sizes", line);
        assert_int_equal(bt_size(got, 0), bt_size(x, 0));
    }
}

static bt_array *body_mean(bt_array *x) { return bt_mean(x, BT_AXES(0), false); }
static bt_array *body_products(bt_array *x) { return bt_matmul(bt_tanh(x), bt_transpose(x)); }
static bt_array *body_first_rows(bt_array *x) { return bt_slice_axis(x, 0, 0, 2, 1); }
static bt_array *body_concat(bt_array *x) { return bt_concat(LIST(x, bt_neg(x), bt_mul(x, x)), 3, 0); }
static bt_array *body_pad(bt_array *x) { return bt_pad(x, (int64_t[]){1, 2}, (int64_t[]){2, 0}, 1); }
static bt_array *body_flip(bt_array *x) { return bt_mul(bt_flip(x, BT_AXES(0)), bt_cumsum(x, 0, false)); }
static bt_array *body_flatten(bt_array *x) { return bt_flatten(bt_permute(x, 1, 0), 0); }
static bt_array *body_maximum(bt_array *x) { return bt_sub(bt_max(x, BT_AXES(0), true), x); }
static bt_array *body_softmax(bt_array *x) { return bt_softmax(x, 0); }
static bt_array *body_take(bt_array *x) { return bt_take(x, BT_ARRAY(int32_t, (3), 0, -1, 0), 0); }
static bt_array *body_sort(bt_array *x) { return bt_sort(x, 0); }
static bt_array *body_product(bt_array *x) { return bt_prod(x, BT_AXES(0), false); }
static bt_array *body_windows(bt_array *x) {
    bt_array *first = bt_slice_axis(x, 1, 0, 2, 1), *last = bt_slice_axis(x, 1, 1, 3, 1);
    return bt_mul(bt_mul(first, last), bt_slice_axis(bt_slice_axis(x, 0, 0, 1, 1), 1, 1, 2, 1));
}
static bt_array *body_layer_norm(bt_array *x) { return bt_layer_norm(x, NULL, NULL, 1e-5); }

static void of_symbolic_inputs(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = BT_ARRAY(double, (4, 3), 1, 2, 3, 4, 5, 6, 7, 8, 9, 3, 1, 2);
        static bt_array *(*const bodies[])(bt_array *) = {
            body_mean,    body_products, body_first_rows, body_concat, body_pad,     body_flip,       body_flatten,
            body_maximum, body_softmax,  body_take,       body_sort,   body_product, body_layer_norm, body_windows};
        for (int i = 0; i < (int)(sizeof bodies / sizeof *bodies); i++) check_function(bodies[i], x, i);
    }
}

/* --- what is refused, and what is left behind -------------------------------------------------------------------------- */

#define REFUSES(loss, x, status, ...) \
    expect_refusal(loss, x, status, (const char *const[]){__VA_ARGS__, NULL}, __LINE__)
static void expect_refusal(bt_array *loss, bt_array *x, bt_status status, const char *const *parts, int line) {
    bt_array *grads[2];
    bt_status got = bt_grad(loss, LIST(x, x), 2, grads);
    if (got != status) fail_msg("line %d: %s: %s", line, bt_status_name(got), bt_error_text());
    for (; *parts; parts++)
        if (!strstr(bt_error_text(), *parts))
            fail_msg("line %d: \"%s\" does not say \"%s\"", line, bt_error_text(), *parts);
    for (int i = 0; i < 2; i++) assert_int_equal(bt_peek_status(grads[i]), status);
}

static void refusals(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = F32((2), 1, 2);
        REFUSES(NULL, x, BT_INVALID_ARGUMENT, "bt_grad: the loss is NULL");
        REFUSES(total(x), NULL, BT_INVALID_ARGUMENT, "wrt[0] is NULL");
        REFUSES(bt_mul(x, x), x, BT_INVALID_ARGUMENT, "float32 (2,)", "must be a floating scalar");
        REFUSES(total(bt_cast(x, BT_I32)), x, BT_INVALID_ARGUMENT, "int64 ()");
        REFUSES(total(bt_reshape(x, 3)), x, BT_INVALID_ARGUMENT, "bt_reshape", "(2,)"); /* the first cause */
        char here[64];
        snprintf(here, sizeof here, "grad_test.c:%d: bt_floor_div: ", __LINE__ + 1);
        bt_array *floors = bt_floor_div(x, bt_num(2));
        REFUSES(total(floors), x, BT_UNIMPLEMENTED, here, "floor_div has no gradient");
        READS(bt_grad1(total(bt_mul(bt_stop_gradient(floors), x)), x), 0, 1);
        assert_int_equal(bt_grad(total(x), NULL, 1, LIST(x)), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_grad(total(x), &x, 1, NULL), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_grad(total(x), &x, -1, LIST(x)), BT_INVALID_ARGUMENT);
    }
}

static void nothing_is_left_behind(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = F32((2, 2), 1, 2, 3, 4), *loss = total(bt_softmax(bt_matmul(x, bt_tanh(x)), -1));
        uint64_t before = bt_live_arrays();
        bt_array *gradient = bt_grad1(loss, x);
        assert_int_equal(bt_live_arrays(), before + 1);
        assert_int_equal(bt_block(gradient), BT_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_at_once),
        cmocka_unit_test(after_it_was_read),
        cmocka_unit_test(to_third_order),
        cmocka_unit_test(it_ends_at_retained_arrays),
        cmocka_unit_test(vector_jacobian_products),
        cmocka_unit_test(value_and_gradient),
        cmocka_unit_test(long_and_tangled),
        cmocka_unit_test(variables),
        cmocka_unit_test(descent),
        cmocka_unit_test(they_run_where_forward_ran),
        cmocka_unit_test(of_parts),
        cmocka_unit_test(of_many_parts),
        cmocka_unit_test(of_windows),
        cmocka_unit_test(of_many_steps),
        cmocka_unit_test(of_symbolic_inputs),
        cmocka_unit_test(refusals),
        cmocka_unit_test(nothing_is_left_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

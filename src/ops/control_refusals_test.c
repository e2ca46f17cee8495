// labels: valgrind
/* What loops and branches say to what does not fit, and to what goes wrong in their bodies. */
#include <stdlib.h>

#include "ops/ops_test.h"

/* --- bodies that do one thing wrong ----------------------------------------------------------------------------------- */

static void keeps(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {}
static void sums(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    carry[0] = bt_sum(carry[0], BT_ALL, false);
}
static void casts(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    carry[0] = bt_cast(carry[0], BT_I32);
}
static void forgets(bt_array **carry, bt_array *const *x, bt_array **y, void *data) { carry[0] = NULL; }
static void deepens(bt_array **carry, bt_array *const *x, bt_array **y, void *data) { y[0] = deep(); }
static void fails(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    carry[0] = bt_reshape(carry[0], 7, 7);
}
static void moves(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    BT_ON("gpu:1") carry[0] = bt_add(carry[0], bt_num(1));
}
static void reads(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    float values[3];
    assert_int_equal(bt_read(carry[0], values, sizeof values), BT_FAILED_PRECONDITION);
    assert_non_null(strstr(bt_error_text(), "on what a loop or a branch is given"));
}
static void sets(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    assert_int_equal(bt_set(data, carry[0]), BT_FAILED_PRECONDITION);
    assert_non_null(strstr(bt_error_text(), "on what a loop or a branch is given"));
}
static void releases(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    bt_array *gone = bt_retain(carry[0]);
    bt_release(gone);
    bt_release(gone);
    carry[0] = gone;
}
/* What a step was given is used after it. */
static void leaks(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    *(bt_array **)data = bt_retain(carry[0]);
}

/* What a loop leaves of a vector. */
static bt_array *scanned(bt_scan_fn *body, int64_t length) {
    bt_array *carry = vector();
    assert_int_not_equal(bt_scan(body, NULL, length, &carry, 1, NULL, 0, NULL, 0), BT_OK);
    return carry;
}
static bt_array *scanned_rows(bt_scan_fn *body, bt_array *first, bt_array *second, int64_t length) {
    bt_array *xs[] = {first, second}, *y = NULL;
    assert_int_not_equal(bt_scan(body, NULL, length, NULL, 0, xs, second ? 2 : 1, &y, 1), BT_OK);
    return y;
}

static void squares(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    carry[0] = bt_mul(bt_sin(carry[0]), carry[0]);
}
static void squares_on(bt_array **carry, void *data) { squares(carry, NULL, NULL, data); }
static bt_array *sums_below(bt_array *const *carry, void *data) {
    return bt_lt(bt_sum(carry[0], BT_ALL, false), bt_num(100));
}

/* What their derivatives keep of each step has no room for the axis of steps. */
static void refuses_derivatives_with_too_many_axes(void **state) {
    BT_SCOPE {
        bt_array *x = deep(), *carry = x, *looped = x, *with, *vector_product;
        assert_int_equal(bt_scan(squares, NULL, 3, &carry, 1, NULL, 0, NULL, 0), BT_OK);
        assert_int_equal(bt_while(sums_below, squares_on, NULL, 3, &looped, 1), BT_OK);
        BAD(scan, bt_grad1(bt_sum(carry, BT_ALL, false), x), "an array of 8 axes for each step");
        BAD(while, bt_grad1(bt_sum(looped, BT_ALL, false), x), "an array of 8 axes for each step");
        assert_int_equal(bt_jvp(&carry, 1, &x, &x, 1, &with), BT_OK); /* it keeps nothing */
        assert_int_equal(bt_eval(with), BT_OK);
        assert_int_equal(bt_hvp(bt_sum(carry, BT_ALL, false), &x, &x, 1, &vector_product), BT_INVALID_ARGUMENT);
    }
    BT_SCOPE { /* seven, and the axis of a batch */
        bt_array *x = bt_input(BT_F32, 1, 1, 1, 1, 1, 1, 2), *y, *carry = x;
        assert_int_equal(bt_scan(squares, NULL, 3, &carry, 1, NULL, 0, NULL, 0), BT_OK);
        bt_array *gradient = bt_grad1(bt_sum(carry, BT_ALL, false), x);
        bt_function *f = bt_function_new(&x, 1, &gradient, 1, NULL, 0), *batch = bt_vmap(f, NULL, NULL);
        bt_array *many = bt_ones(BT_F32, 2, 1, 1, 1, 1, 1, 1, 2);
        if (bt_call(batch, &many, 1, &y, 1) == BT_OK) assert_int_equal(bt_eval(y), BT_OK); /* or it is refused */
    }
}

/* --- scans ------------------------------------------------------------------------------------------------------------ */

static void refuses_scans(void **state) {
    BAD(scan, scanned(NULL, 3), "the body is NULL");
    BAD(scan, scanned(keeps, BT_ALL_ROWS), "the number of steps must be given");
    BAD(scan, scanned(keeps, -7), "-7 steps");
    BAD(scan, scanned_rows(keeps, matrix(), vector(), BT_ALL_ROWS), "xs[1] has 3 rows, but the scan has 2 steps");
    BAD(scan, scanned_rows(keeps, matrix(), NULL, 3), "xs[0] has 2 rows, but the scan has 3 steps");
    BAD(scan, scanned_rows(keeps, bt_f32(1), NULL, BT_ALL_ROWS), "xs[0] is a scalar");
    BAD(scan, scanned_rows(keeps, matrix(), NULL, BT_ALL_ROWS), "did not fill in y[0]");
    BAD(scan, scanned_rows(deepens, matrix(), NULL, BT_ALL_ROWS), "y[0] has 8 axes");
    BAD(add, scanned_rows(keeps, bt_add(vector(), NULL), NULL, BT_ALL_ROWS), "argument 2 is NULL");
    BT_SCOPE {
        bt_array *carry = vector(), *null = NULL;
        assert_int_equal(bt_scan(keeps, NULL, 3, NULL, 2, NULL, 0, NULL, 0), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_scan(keeps, NULL, 3, &carry, -2, NULL, 0, NULL, 0), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_scan(keeps, NULL, 3, NULL, 0, NULL, -1, NULL, 0), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_scan(keeps, NULL, 3, NULL, 0, NULL, 0, NULL, 1), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_scan(keeps, NULL, 3, NULL, 0, NULL, 0, NULL, INT32_MIN), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_scan(keeps, NULL, BT_ALL_ROWS, NULL, 0, &null, 1, NULL, 0), BT_INVALID_ARGUMENT);
        assert_non_null(strstr(bt_error_text(), "xs[0] is NULL"));
        assert_int_equal(bt_scan(keeps, NULL, 3, NULL, 0, NULL, 0, NULL, 0), BT_OK); /* nothing */
    }
}

static void makes_row(bt_array **carry, bt_array *const *x, bt_array **y, void *data) { y[0] = vector(); }

/* Rows that no memory holds: more than 63 bits of bytes at once, and more than there is when it runs. */
static void refuses_too_many_rows(void **state) {
    BT_SCOPE {
        bt_array *rows = NULL;
        assert_int_equal(bt_scan(makes_row, NULL, INT64_MAX, NULL, 0, NULL, 0, &rows, 1), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_block(rows), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_scan(makes_row, NULL, INT64_C(1) << 40, NULL, 0, NULL, 0, &rows, 1), BT_OK);
        assert_int_equal(bt_block(rows), BT_RESOURCE_EXHAUSTED);
        assert_int_equal(bt_scan(makes_row, NULL, 2, NULL, 0, NULL, 0, &rows, 1), BT_OK);
        assert_int_equal(bt_block(rows), BT_OK);
    }
}

static void refuses_bodies_of_scans(void **state) {
    BAD(scan, scanned(sums, 3), "the body hands back carry[0] as float32 (), but it was given float32 (3,)");
    BAD(scan, scanned(casts, 3), "carry[0] as int32 (3,), but it was given float32 (3,)");
    BAD(scan, scanned(forgets, 3), "did not fill in carry[0]");
    BAD(scan, scanned(releases, 3), "was released");
    BAD(reshape, scanned(fails, 3), "(3,) has another number of elements than (7, 7)");
}

/* Inside, a read and a set are errors of theirs; the loop goes on. */
static void refuses_reads_and_sets_inside(void **state) {
    BT_SCOPE {
        bt_array *carry = vector();
        assert_int_equal(bt_scan(reads, NULL, 3, &carry, 1, NULL, 0, NULL, 0), BT_OK);
        assert_int_equal(bt_block(carry), BT_OK);
        bt_shared *variable = bt_shared_new(vector(), NULL);
        assert_int_equal(bt_scan(sets, variable, 3, &carry, 1, NULL, 0, NULL, 0), BT_OK);
        assert_int_equal(bt_block(carry), BT_OK);
    }
}

/* A set whose value does not depend on what the body is given happens when it is recorded. */
static void sets_once(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    assert_int_equal(bt_set(data, bt_add(bt_value(data), bt_num(1))), BT_OK);
    carry[0] = bt_add(carry[0], bt_num(1));
}
static void sets_outside_once(void **state) {
    BT_SCOPE {
        bt_array *carry = vector();
        bt_shared *variable = bt_shared_new(bt_f32(1), NULL);
        assert_int_equal(bt_scan(sets_once, variable, 3, &carry, 1, NULL, 0, NULL, 0), BT_OK);
        assert_int_equal(bt_block(carry), BT_OK);
        assert_true(bt_item(bt_value(variable)) == 2);
    }
}

/* A function in a body that reads what the body is given, but not as an input of its own. */
static void closes_over(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    bt_array *input = bt_input(BT_F32, 3), *output = bt_mul(input, carry[0]);
    bt_function *f = bt_function_new(&input, 1, &output, 1, NULL, 0);
    assert_int_equal(bt_function_status(f), BT_INVALID_ARGUMENT);
    carry[0] = bt_call1(f, &carry[0], 1);
}
static void refuses_functions_over_what_a_step_is_given(void **state) {
    BAD(function_new, scanned(closes_over, 3), "read what a body is given (what bt_scan at ");
}

static void refuses_what_a_step_was_given_outside(void **state) {
    BT_SCOPE {
        bt_array *carry = vector(), *inside = NULL;
        float values[3];
        assert_int_equal(bt_scan(leaks, &inside, 3, &carry, 1, NULL, 0, NULL, 0), BT_OK);
        assert_int_equal(bt_read(inside, values, sizeof values), BT_FAILED_PRECONDITION);
        assert_int_equal(bt_block(bt_add(inside, inside)), BT_FAILED_PRECONDITION);
        bt_release(inside);
        assert_int_equal(bt_block(carry), BT_OK);
    }
}

/* --- loops with a test -------------------------------------------------------------------------------------------------- */

static bt_array *is_small(bt_array *const *carry, void *data) { return bt_lt(carry[0], bt_num(5)); }
static bt_array *is_number(bt_array *const *carry, void *data) { return carry[0]; }
static bt_array *is_vector(bt_array *const *carry, void *data) { return bt_lt(vector(), carry[0]); }
static bt_array *is_null(bt_array *const *carry, void *data) { return NULL; }
static bt_array *is_wrong(bt_array *const *carry, void *data) { return bt_lt(vector(), F32((2), 1, 2)); }
static void counts(bt_array **carry, void *data) { carry[0] = bt_add(carry[0], bt_num(1)); }
static void widens(bt_array **carry, void *data) { carry[0] = bt_add(carry[0], vector()); }

static bt_array *looped(bt_while_test_fn *test, bt_while_body_fn *body, int64_t most) {
    bt_array *carry = bt_f32(0);
    assert_int_not_equal(bt_while(test, body, NULL, most, &carry, 1), BT_OK);
    return carry;
}

static bt_array *gradient_of_unbounded(void) {
    bt_array *start = bt_f32(0), *end = start, *gradient;
    assert_int_equal(bt_while(is_small, counts, NULL, 0, &end, 1), BT_OK);
    assert_int_equal(bt_grad(end, &start, 1, &gradient), BT_FAILED_PRECONDITION);
    return gradient;
}

static void refuses_whiles(void **state) {
    BAD(while, looped(NULL, counts, 0), "the test or the body is NULL");
    BAD(while, looped(is_small, NULL, 0), "the test or the body is NULL");
    BAD(while, looped(is_small, counts, -1), "at most -1 steps");
    BAD(while, looped(is_number, counts, 0), "the test hands back result[0] as float32 (), but a test is bool ()");
    BAD(while, looped(is_vector, counts, 0), "result[0] as bool (3,), but a test is bool ()");
    BAD(while, looped(is_null, counts, 0), "the test did not fill in result[0]");
    BAD(lt, looped(is_wrong, counts, 0), "(3,) and (2,)");
    BAD(while, looped(is_small, widens, 0), "carry[0] as float32 (3,), but it was given float32 ()");
    BAD(while, gradient_of_unbounded(), "give most_steps, or use bt_scan");
    BT_SCOPE {
        bt_array *carry = bt_f32(0);
        assert_int_equal(bt_while(is_small, counts, NULL, 0, &carry, 0), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_while(is_small, counts, NULL, 0, &carry, -1), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_while(is_small, counts, NULL, 0, NULL, 1), BT_INVALID_ARGUMENT);
    }
}

/* --- branches ----------------------------------------------------------------------------------------------------------- */

static void same(bt_array *const *args, bt_array **results, void *data) { results[0] = args[0]; }
static void summed(bt_array *const *args, bt_array **results, void *data) {
    results[0] = bt_sum(args[0], BT_ALL, false);
}
static void nothing(bt_array *const *args, bt_array **results, void *data) {}

static bt_array *branched(bt_array *predicate, bt_branch_fn *yes, bt_branch_fn *no) {
    bt_array *x = vector(), *result = NULL;
    assert_int_not_equal(bt_cond(predicate, yes, no, NULL, &x, 1, &result, 1), BT_OK);
    return result;
}
static bt_array *truth(void) { return bt_lt(bt_f32(1), bt_f32(2)); }

static void refuses_branches(void **state) {
    BAD(cond, branched(NULL, same, same), "predicate[0] is NULL");
    BAD(cond, branched(bt_f32(1), same, same), "the predicate is float32 with 0 axes");
    BAD(cond, branched(truths(), same, same), "the predicate is bool with 1 axes");
    BAD(cond, branched(truth(), same, NULL), "a branch is NULL");
    BAD(cond, branched(truth(), nothing, same), "the first branch did not fill in results[0]");
    BAD(cond, branched(truth(), same, nothing), "the second branch did not fill in results[0]");
    BAD(cond, branched(truth(), same, summed),
        "the second branch hands back results[0] as float32 (), but that of the first is float32 (3,)");
    BAD(add, branched(bt_add(truth(), NULL), same, same), "argument 2 is NULL");
    BT_SCOPE {
        bt_array *x = vector(), *result = NULL;
        assert_int_equal(bt_cond(truth(), same, same, NULL, NULL, 1, &result, 1), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_cond(truth(), same, same, NULL, &x, -1, &result, 1), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_cond(truth(), same, same, NULL, &x, 1, NULL, 1), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_cond(truth(), same, same, NULL, &x, 1, &result, -1), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_cond(truth(), nothing, nothing, NULL, NULL, 0, NULL, 0), BT_OK);
    }
}

/* --- devices -------------------------------------------------------------------------------------------------------------- */

static void refuses_another_device_inside(void **state) {
    BT_SCOPE
        expect_refusal(scanned(moves, 3), " bt_add: ", "a body runs on one device", "control_refusals_test.c",
                       __LINE__);
}

/* Nothing that was refused stays. */
static int leaves_nothing(void **state) {
    assert_int_equal(bt_live_arrays(), 0);
    return 0;
}

int main(void) {
    setenv("BERTH_FLAGS", "devices=sim:gpu*2@64M", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_scans),
        cmocka_unit_test(refuses_too_many_rows),
        cmocka_unit_test(refuses_bodies_of_scans),
        cmocka_unit_test(refuses_reads_and_sets_inside),
        cmocka_unit_test(sets_outside_once),
        cmocka_unit_test(refuses_functions_over_what_a_step_is_given),
        cmocka_unit_test(refuses_what_a_step_was_given_outside),
        cmocka_unit_test(refuses_whiles),
        cmocka_unit_test(refuses_derivatives_with_too_many_axes),
        cmocka_unit_test(refuses_branches),
        cmocka_unit_test(refuses_another_device_inside),
    };
    return cmocka_run_group_tests(tests, NULL, leaves_nothing);
}

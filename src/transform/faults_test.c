// labels: valgrind
/* Transformations while the nth allocation of the host fails: an error that says so, or the right result; nothing is left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <berth.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/test_depth.h"

#define LIST(...) ((bt_array *[]){__VA_ARGS__})

static bt_status expect_sum(bt_array *x, float expected) {
    float sum;
    BTI_TRY(bt_read(bt_sum(bt_cast(x, BT_F32), BT_ALL, false), &sum, sizeof sum));
    if (sum != expected) fail_msg("%g, not %g", (double)sum, (double)expected);
    return BT_OK;
}

/* Products, parts by index and their gradients, for each element of a batch. */
static bt_status batches(void) {
    bt_array *x = bt_input(BT_F32, 2, 3), *i = bt_input(BT_I32, 2), *w = bt_input(BT_F32, 3), *y, *g, *out[2];
    y = bt_sum(bt_mul(bt_take(bt_matmul(x, w), i, 0), bt_dynamic_slice_axis(w, bt_argmax(i, 0), 2, 0)), BT_ALL, false);
    y = bt_add(y, bt_sum(bt_update_slice_axis(x, bt_ones(BT_F32, 2, 1), bt_argmax(i, 0), 1), BT_ALL, false));
    BTI_TRY(bt_grad(y, &x, 1, &g));
    bt_function *f = bt_function_new(LIST(x, i, w), 3, LIST(y, g), 2, NULL, 0);
    BTI_TRY(bt_function_status(f));
    bt_function *batch = bt_vmap(f, (const int[]){0, 0, BT_NOT_BATCHED}, (const int[]){0, -1});
    BTI_TRY(bt_function_status(batch));
    bt_array *in[3] = {bt_ones(BT_F32, 2, 2, 3), BT_ARRAY(int32_t, (2, 2), 0, 1, 1, 0), BT_ARRAY(float, (3), 1, 2, 3)};
    BTI_TRY(bt_call(batch, in, 3, out, 2));
    BTI_TRY(expect_sum(out[0], 60));
    return expect_sum(out[1], 56);
}

static bt_status derivatives(void) {
    bt_array *x = BT_ARRAY(float, (3), 1, 2, 3), *u = BT_ARRAY(float, (3), 1, 0, -1), *loss, *t;
    loss = bt_sum(bt_mul(bt_cumsum(x, 0, false), bt_mul(x, x)), BT_ALL, false);
    BTI_TRY(bt_jvp(&loss, 1, &x, &u, 1, &t));
    BTI_TRY(expect_sum(t, -29));
    BTI_TRY(bt_hvp(loss, &x, &u, 1, &t));
    BTI_TRY(expect_sum(t, -20));
    BTI_TRY(expect_sum(bt_jacobian(bt_mul(x, x), x), 12));
    return expect_sum(bt_hessian(loss, x), 76);
}

static void add_row(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)data;
    carry[0] = bt_add(bt_mul(carry[0], x[0]), bt_num(1));
    y[0] = carry[0];
}
static bt_array *is_small(bt_array *const *carry, void *data) {
    (void)data;
    return bt_lt(bt_sum(carry[0], BT_ALL, false), bt_num(20));
}
static void twice(bt_array **carry, void *data) {
    (void)data;
    carry[0] = bt_mul(carry[0], bt_num(2));
}
static void same_way(bt_array *const *args, bt_array **results, void *data) {
    (void)data;
    results[0] = args[0];
}
static void other_way(bt_array *const *args, bt_array **results, void *data) {
    (void)data;
    results[0] = bt_square(args[0]);
}

/* Loops and branches, in a batch and forward. */
static bt_status control(void) {
    bt_array *x = bt_input(BT_F32, 2), *h = bt_sum(x, BT_ALL, false), *ys, *t, *g, *one = bt_ones_like(x), *out[3];
    bt_array *predicate = bt_lt(h, bt_num(4));
    BTI_TRY(bt_scan(add_row, NULL, BT_ALL_ROWS, &h, 1, &x, 1, &ys, 1));
    BTI_TRY(bt_while(is_small, twice, NULL, 5, &h, 1));
    BTI_TRY(bt_cond(predicate, same_way, other_way, NULL, &h, 1, &h, 1));
    h = bt_add(h, bt_sum(ys, BT_ALL, false));
    BTI_TRY(bt_jvp(&h, 1, &x, &one, 1, &t));
    BTI_TRY(bt_grad(h, &x, 1, &g));
    bt_function *batch = bt_vmap(bt_function_new(&x, 1, LIST(h, t, g), 3, NULL, 0), NULL, NULL);
    BTI_TRY(bt_function_status(batch));
    bt_array *in = BT_ARRAY(float, (2, 2), 1, 2, 2, 3);
    BTI_TRY(bt_call(batch, &in, 1, out, 3));
    BTI_TRY(expect_sum(out[0], 1250));
    BTI_TRY(expect_sum(out[1], 2706));
    return expect_sum(out[2], 2706);
}

/* A table that is carried and not changed, of which each step reads parts, also of views; rows that are one number. */
static void read_parts(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)y, (void)data;
    bt_array *row = bt_slice_axis(carry[1], 0, 1, 2, 1), *column = bt_slice_axis(bt_transpose(carry[1]), 1, 3, 4, 1);
    bt_array *read = bt_add(bt_sum(row, BT_ALL, false), bt_sum(column, BT_ALL, false));
    carry[0] = bt_add(carry[0], bt_mul(x[0], read));
}
static bt_status parts(void) {
    bt_array *table = bt_input(BT_F32, 4, 2), *carry[2] = {bt_f32(0), table}, *g, *out[2];
    bt_array *xs = bt_broadcast_to(bt_reshape(bt_sum(table, BT_ALL, false), 1), 3);
    BTI_TRY(bt_scan(read_parts, NULL, BT_ALL_ROWS, carry, 2, &xs, 1, NULL, 0));
    bt_array *loss = bt_add(carry[0], bt_sum(carry[1], BT_ALL, false));
    BTI_TRY(bt_grad(loss, &table, 1, &g));
    bt_function *f = bt_function_new(&table, 1, LIST(loss, g), 2, NULL, 0);
    BTI_TRY(bt_function_status(f));
    bt_array *in = bt_ones(BT_F32, 4, 2);
    BTI_TRY(bt_call(f, &in, 1, out, 2));
    BTI_TRY(expect_sum(out[0], 104));
    return expect_sum(out[1], 200);
}

/* Attention: gradients, those of gradients, tangents and a batch. All scores are alike, so two of the three keys count by a half each. */
static bt_status attentions(void) {
    bt_array *q = bt_input(BT_F32, 2, 2, 2), *v = bt_input(BT_F32, 1, 3, 2), *lengths = bt_input(BT_I32), *t, *g, *h;
    bt_array *mask = bt_lt(bt_arange(0, 3, 1, BT_F32), bt_f32(5)), *one = bt_ones_like(v), *out[4];
    bt_array *made = bt_attention(q, bt_ones(BT_F32, 1, 3, 2), v, .mask = mask, .lengths = lengths);
    bt_array *loss = bt_sum(bt_square(made), BT_ALL, false);
    BTI_TRY(bt_grad(loss, &v, 1, &g));
    BTI_TRY(bt_jvp(&loss, 1, &v, &one, 1, &t));
    BTI_TRY(bt_hvp(loss, &v, &one, 1, &h));
    bt_function *f = bt_function_new(LIST(q, v, lengths), 3, LIST(made, g, t, h), 4, NULL, 0);
    BTI_TRY(bt_function_status(f));
    bt_function *batch = bt_vmap(f, (const int[]){0, BT_NOT_BATCHED, BT_NOT_BATCHED}, NULL);
    BTI_TRY(bt_function_status(batch));
    bt_array *in[3] = {bt_ones(BT_F32, 2, 2, 2, 2), BT_ARRAY(float, (1, 3, 2), 1, 2, 3, 4, 5, 6), bt_i32(2)};
    BTI_TRY(bt_call(batch, in, 3, out, 4));
    BTI_TRY(expect_sum(out[0], 40));
    BTI_TRY(expect_sum(bt_round(bt_sum(out[1], BT_ALL, false)), 80)); /* by a logarithm */
    BTI_TRY(expect_sum(out[2], 80));
    return expect_sum(out[3], 32);
}

static void check(bt_status (*work)(void), uint64_t n, bool and_after) {
    uint64_t arrays = bt_live_arrays();
    bti_alloc_fail_at(n, and_after);
    bt_status status = BT_OK;
    BT_SCOPE
        status = work();
    bti_alloc_fail_at(0, false);
    if (status != BT_OK && status != BT_RESOURCE_EXHAUSTED)
        fail_msg("allocation %llu: %s", (unsigned long long)n, bt_error_text());
    assert_int_equal(bt_live_arrays(), arrays);
}

static void each_allocation_fails(bt_status (*work)(void)) {
    for (int time = 0; time < 2; time++) {
        bti_alloc_fail_at(0, false);
        BT_SCOPE
            if (work() != BT_OK) fail_msg("%s", bt_error_text());
    }
    uint64_t count = bti_alloc_count(), step = test_is_short() ? 1 + count / 40 : 1;
    for (uint64_t n = 1; n <= count; n += step) check(work, n, false);
    for (uint64_t n = 1; n <= count; n += 1 + count / 40) check(work, n, true);
}

static void attentions_survive(void **state) {
    (void)state;
    each_allocation_fails(attentions);
}
static void batches_survive(void **state) {
    (void)state;
    each_allocation_fails(batches);
}
static void derivatives_survive(void **state) {
    (void)state;
    each_allocation_fails(derivatives);
}

static void control_survives(void **state) {
    (void)state;
    each_allocation_fails(control);
}

static void parts_survive(void **state) {
    (void)state;
    each_allocation_fails(parts);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(attentions_survive), cmocka_unit_test(batches_survive),
                                       cmocka_unit_test(derivatives_survive), cmocka_unit_test(control_survives),
                                       cmocka_unit_test(parts_survive)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Sorts and selections as parts of programs: values and indices of one input are one step, of which nothing is computed that nobody reads; in functions of
 * unknown sizes, in loops, in gradients, batches and derivatives; on the CPU and on a simulated GPU. */
#include <math.h>

#include "support/support.h"

static const char *const settings[] = {"", "devices=sim:gpu*1", "devices=sim:gpu*1,graphs=false,fuse=off"};

/* How often a text holds another. */
static int occurrences(const char *text, const char *part) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)); at++) count++;
    return count;
}

static int steps_of(const char *operation, bt_array *const *arrays, int count) {
    char name[32], *text = bt_explain_all(arrays, count);
    assert_non_null(text);
    snprintf(name, sizeof name, "%-11s ", operation);
    int steps = occurrences(text, name);
    bt_free(text);
    return steps;
}

static bt_array *line(void) { return BT_ARRAY(float, (6), 3, -1, NAN, 2, -1, 7); }

static void values_and_indices_are_one_step(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = line(), *pair[2] = {bt_sort(x, 0), bt_argsort(x, 0)};
        assert_int_equal(steps_of("sort", pair, 2), 1);
        bt_array *others[2] = {bt_sort(x, 0), bt_sort(bt_neg(x), 0)};
        assert_int_equal(steps_of("sort", others, 2), 2);
        bt_array *best[3] = {bt_top_k(x, 2), bt_top_k_indices(x, 2), bt_top_k(x, 3)};
        assert_int_equal(steps_of("top_k", best, 3), 2);
        READS(bt_add(pair[0], bt_num(0)), -1, -1, 2, 3, 7, NAN);
        READS(pair[1], 1, 4, 3, 0, 5, 2);
        READS(best[1], 2, 5);
        READS(best[0], NAN, 7);
    }
}

static void what_nobody_reads_is_not_computed(void **state) {
    fresh("");
    BT_SCOPE {
        char *values = bt_explain(bt_sort(line(), 0)), *indices = bt_explain(bt_argsort(line(), 0));
        SAYS(values, "float32 (6,)");
        assert_null(strstr(values, "int32"));
        SAYS(indices, "int32 (6,)");
        assert_int_equal(occurrences(indices, "float32"), 0);
        bt_free(values);
        bt_free(indices);
    }
}

static void a_gradient_uses_the_same_step(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = BT_ARRAY(double, (4), 3, 1, 4, 2), *w = BT_ARRAY(double, (4), 10, 20, 30, 40);
        bt_array *loss = bt_sum(bt_mul(bt_sort(x, 0), w), BT_ALL, false), *both[2] = {loss, bt_grad1(loss, x)};
        assert_int_equal(steps_of("sort", both, 2), 1);
        READS(both[1], 30, 10, 40, 20);
        READS(loss, 300);
        bt_array *best = bt_top_k(x, 2); /* computed before its gradient is taken */
        READS(best, 4, 3);
        READS(bt_grad1(bt_sum(bt_mul(best, BT_ARRAY(double, (2), 1, 2)), BT_ALL, false), x), 2, 0, 1, 0);
    }
}

/* --- programs --------------------------------------------------------------------------------------------------------- */

enum { ROWS = 3, LENGTH = 7 };

static bt_array *table(void) {
    return BT_ARRAY(float, (ROWS, LENGTH), 1, 5, 2, 5, -3, 0, 4, 9, 9, 9, -1, 8, 2, 2, -7, 3, NAN, 3, 1, INFINITY, 0);
}

/* One array of what all orders of a line give. */
static bt_array *all_of(bt_array *x) {
    bt_array *parts[] = {bt_sort(x, -1), bt_cast(bt_argsort(x, -1), BT_F32), bt_top_k(x, 3),
                         bt_cast(bt_top_k_indices(x, 3), BT_F32)};
    return bt_concat(parts, 4, -1);
}

static void all_of_a_row(bt_array **carry, bt_array *const *x, bt_array **y, void *data) { y[0] = all_of(x[0]); }

static bt_function *function_of_lines(int rank) {
    bt_array *x = rank == 2 ? bt_input(BT_F32, -1, -1) : bt_input(BT_F32, -1), *y = all_of(x);
    return bt_function_new(&x, 1, &y, 1, NULL, 0);
}

static void expect_equal(bt_array *got, bt_array *want) {
    float a[ROWS * (2 * LENGTH + 6)], b[ROWS * (2 * LENGTH + 6)];
    OK(bt_read(got, a, sizeof a));
    OK(bt_read(want, b, sizeof b));
    assert_memory_equal(a, b, sizeof a);
}

static void in_loops_functions_and_batches(void **state) {
    for (int s = 0; s < COUNT(settings); s++) {
        fresh(settings[s]);
        BT_SCOPE {
            bt_array *x = table(), *want = all_of(x), *rows, *called, *batched;
            OK(bt_scan(all_of_a_row, NULL, BT_ALL_ROWS, NULL, 0, &x, 1, &rows, 1));
            expect_equal(rows, want);
            bt_function *whole = function_of_lines(2), *one = function_of_lines(1), *each;
            OK(bt_call(whole, &x, 1, &called, 1));
            expect_equal(called, want);
            each = bt_vmap(one, (const int[]){0}, (const int[]){0});
            OK(bt_call(each, &x, 1, &batched, 1));
            expect_equal(batched, want);
            bt_array *down = bt_transpose(x); /* views, backwards too */
            READS(bt_slice_axis(bt_argsort(down, 0), 1, 0, 1, 1), 4, 5, 0, 2, 6, 1, 3);
            READS(bt_slice_axis(bt_argsort(bt_flip(x, BT_AXES(1)), 1), 0, 0, 1, 1), 2, 1, 6, 4, 0, 3, 5);
            bt_array *few = bt_zeros(BT_F32, 2, 2);
            FAILS(bt_call(whole, &few, 1, &called, 1), BT_INVALID_ARGUMENT);
            bt_function_release(whole), bt_function_release(one), bt_function_release(each);
        }
    }
}

static void derivatives_go_both_ways(void **state) {
    for (int s = 0; s < COUNT(settings); s++) {
        fresh(settings[s]);
        BT_SCOPE {
            bt_array *x = BT_ARRAY(float, (2, 3), 3, 1, 2, 5, 6, 4), *dx = BT_ARRAY(float, (2, 3), 1, 2, 3, 4, 5, 6);
            bt_array *y[2] = {bt_sort(x, 1), bt_top_k(x, 2)}, *dy[2];
            OK(bt_jvp(y, 2, &x, &dx, 1, dy));
            READS(y[0], 1, 2, 3, 4, 5, 6);
            READS(dy[0], 2, 3, 1, 6, 4, 5);
            READS(y[1], 3, 2, 6, 5);
            READS(dy[1], 1, 3, 5, 4);
        }
    }
}

/* --- sizes -------------------------------------------------------------------------------------------------------------- */

static void of_nothing_and_of_one(void **state) {
    for (int s = 0; s < COUNT(settings); s++) {
        fresh(settings[s]);
        BT_SCOPE {
            bt_array *none = bt_zeros(BT_F32, 3, 0), *one = BT_ARRAY(float, (2, 1), 5, -1);
            assert_int_equal(bt_size(bt_sort(none, 1), 1), 0);
            OK(bt_block(bt_sort(none, 1)));
            OK(bt_block(bt_argsort(none, 0)));
            OK(bt_block(bt_top_k(none, 0)));
            OK(bt_block(bt_top_k_indices(one, 0)));
            READS(bt_argsort(one, 1), 0, 0);
            READS(bt_sort(one, 0), -1, 5);
            READS(bt_top_k(one, 1), 5, -1);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_indices_are_one_step), cmocka_unit_test(what_nobody_reads_is_not_computed),
        cmocka_unit_test(a_gradient_uses_the_same_step),   cmocka_unit_test(in_loops_functions_and_batches),
        cmocka_unit_test(derivatives_go_both_ways),        cmocka_unit_test(of_nothing_and_of_one)};
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}

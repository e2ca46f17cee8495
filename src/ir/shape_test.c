// labels: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "ir/shape.h"

#define SHAPE(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

static void counts(void **state) {
    int64_t n = -1;
    assert_true(bti_shape_count(SHAPE(2, 3, 4), &n) && n == 24);
    assert_true(bti_shape_count(0, NULL, &n) && n == 1);
    assert_true(bti_shape_count(SHAPE(INT64_MAX, 0, INT64_MAX), &n) && n == 0);
    assert_false(bti_shape_count(SHAPE(INT64_MAX, 2), &n));
    assert_false(bti_shape_count(SHAPE(2, -1), &n));
    assert_false(bti_shape_count(SHAPE(bti_symbol_new()), &n));
    assert_true(bti_shape_equal(SHAPE(2, 3), SHAPE(2, 3)));
    assert_false(bti_shape_equal(SHAPE(2, 3), SHAPE(2, 3, 1)));
    assert_false(bti_shape_equal(SHAPE(2, 3), SHAPE(2, 4)));
}

static void assert_text(int rank, const int64_t *shape, const char *expected) {
    bti_str text = {0};
    bti_shape_text(&text, rank, shape);
    assert_string_equal(bti_str_text(&text), expected);
    bti_str_free(&text);
}

static void texts(void **state) {
    assert_text(0, NULL, "()");
    assert_text(SHAPE(3), "(3,)");
    assert_text(SHAPE(2, 0, 4), "(2, 0, 4)");
}

static void dense_layouts(void **state) {
    bti_layout layout;
    bti_layout_dense(SHAPE(2, 3, 4), &layout);
    assert_true(layout.offset == 0 && layout.stride[0] == 12 && layout.stride[1] == 4 && layout.stride[2] == 1);
    assert_true(bti_layout_is_dense(SHAPE(2, 3, 4), &layout));
    layout.offset = 5;
    assert_true(bti_layout_is_dense(SHAPE(2, 3, 4), &layout));
    layout.stride[0] = 99;
    assert_false(bti_layout_is_dense(SHAPE(2, 3, 4), &layout));
    assert_true(bti_layout_is_dense(SHAPE(1, 3, 4), &layout));
    assert_true(bti_layout_is_dense(SHAPE(2, 0, 4), &layout));
}

/* Where the elements lie, in row-major order. */
static void what_fits(void **state) {
    assert_true(bti_shape_fits(0, NULL, 8));
    assert_true(bti_shape_fits(SHAPE(INT64_MAX / 8), 8));
    assert_false(bti_shape_fits(SHAPE(INT64_MAX / 8 + 1), 8));
    assert_true(bti_shape_fits(SHAPE(INT64_MAX - 1, 0), 1));
    assert_false(bti_shape_fits(SHAPE(INT64_MAX, 0), 1));            /* what overflows is that */
    assert_false(bti_shape_fits(SHAPE(INT64_C(1) << 62, 16, 0), 1)); /* some of its axes overflow */
    assert_false(bti_shape_fits(SHAPE(0, INT64_MAX, 2), 1));
    assert_false(bti_shape_fits(SHAPE(2, -1), 1));
    assert_true(bti_shape_fits(SHAPE(bti_symbol_new(), 7), 8));
}

static void places(int rank, const int64_t *shape, const bti_layout *layout, int64_t count, int64_t *place) {
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i;
        place[i] = layout->offset;
        for (int axis = rank - 1; axis >= 0; axis--) {
            place[i] += rest % shape[axis] * layout->stride[axis];
            rest /= shape[axis];
        }
    }
}

static void assert_reshapes(int rank, const int64_t *shape, bti_layout layout, int new_rank, const int64_t *new_shape) {
    int64_t count, before[256], after[256];
    bti_layout out;
    assert_true(bti_shape_count(rank, shape, &count));
    assert_true(bti_layout_reshape(rank, shape, &layout, new_rank, new_shape, &out));
    places(rank, shape, &layout, count, before);
    places(new_rank, new_shape, &out, count, after);
    assert_memory_equal(before, after, (size_t)count * sizeof *before);
}

static void reshapes_without_moving(void **state) {
    bti_layout dense, out;
    bti_layout_dense(SHAPE(4, 6, 5), &dense);
    assert_reshapes(SHAPE(4, 6, 5), dense, SHAPE(8, 15));
    assert_reshapes(SHAPE(4, 6, 5), dense, SHAPE(120));
    assert_reshapes(SHAPE(4, 6, 5), dense, SHAPE(2, 1, 2, 3, 2, 5, 1));
    assert_reshapes(SHAPE(1, 1), dense, 0, NULL);
    assert_reshapes(0, NULL, dense, SHAPE(1, 1));
    assert_reshapes(SHAPE(4, 6), (bti_layout){7, {-20, 2}}, SHAPE(2, 2, 3, 2)); /* each axis splits on its own */
    assert_reshapes(SHAPE(4, 6), (bti_layout){23, {-6, -1}}, SHAPE(24));        /* backwards throughout */
    assert_reshapes(SHAPE(4, 6), (bti_layout){3, {0, 0}}, SHAPE(3, 8));         /* one element everywhere */
    assert_reshapes(SHAPE(4, 1, 6), (bti_layout){0, {6, 77, 1}}, SHAPE(24));
    assert_false(bti_layout_reshape(SHAPE(4, 6), &(bti_layout){0, {1, 4}}, SHAPE(24), &out)); /* a transposed one */
    assert_false(bti_layout_reshape(SHAPE(4, 6), &(bti_layout){0, {0, 1}}, SHAPE(24), &out)); /* a repeated row */
    assert_false(bti_layout_reshape(SHAPE(4, 6), &dense, SHAPE(5, 5), &out));
    assert_true(bti_layout_reshape(SHAPE(0, 3), &dense, SHAPE(5, 0), &out));
}

/* --- symbolic sizes ----------------------------------------------------------------------------------------------- */

static int64_t value(int64_t size, int64_t a, int64_t of_a, int64_t b, int64_t of_b) {
    int64_t out = -1, symbols[] = {a, b}, values[] = {of_a, of_b};
    bool bound = bti_size_bind(size, &(bti_binding){symbols, values, 2}, &out);
    return bound ? out : -99;
}

static void equal_expressions_have_one_name(void **state) {
    int64_t a = bti_symbol_new(), b = bti_symbol_new();
    assert_true(bti_size_is_symbolic(a) && bti_size_is_symbolic(b) && a != b);
    assert_true(!bti_size_is_symbolic(0) && !bti_size_is_symbolic(-1) && !bti_size_is_symbolic(INT64_MAX));
    assert_true(bti_size_mul(a, b) == bti_size_mul(b, a));
    assert_true(bti_size_mul(bti_size_mul(a, 2), b) == bti_size_mul(bti_size_mul(b, a), 2));
    assert_true(bti_size_mul(bti_size_add(a, 1), 2) == bti_size_add(bti_size_mul(2, a), 2));
    assert_true(bti_size_add(bti_size_add(a, b), a) == bti_size_add(b, bti_size_mul(a, 2)));
    assert_true(bti_size_mul(bti_size_add(a, 1), bti_size_add(a, -1)) == bti_size_add(bti_size_mul(a, a), -1));
    assert_true(bti_size_add(bti_size_add(a, 3), -3) == a);
    assert_true(bti_size_mul(a, 0) == 0 && bti_size_mul(a, 1) == a && bti_size_add(a, 0) == a);
    assert_true(bti_size_add(a, bti_size_mul(a, -1)) == 0);
    assert_true(bti_size_ceil_div(bti_size_add(a, 1), 2) == bti_size_ceil_div(bti_size_add(1, a), 2));
    assert_true(bti_size_add(2, 3) == 5 && bti_size_mul(2, 3) == 6 && bti_size_ceil_div(7, 2) == 4);
}

static void exact_division_cancels(void **state) {
    int64_t a = bti_symbol_new(), b = bti_symbol_new(), wide = bti_size_mul(bti_size_add(a, 2), b);
    assert_true(bti_size_exact_div(bti_size_mul(bti_size_mul(a, b), 6), bti_size_mul(b, 3)) == bti_size_mul(a, 2));
    assert_true(bti_size_exact_div(wide, b) == bti_size_add(a, 2));
    assert_true(bti_size_exact_div(wide, bti_size_add(a, 2)) == b);
    assert_true(bti_size_exact_div(wide, wide) == 1);
    assert_true(bti_size_exact_div(12, 4) == 3 && bti_size_exact_div(a, 0) == 0);
    int64_t kept = bti_size_exact_div(a, 4);
    assert_true(bti_size_is_symbolic(kept));
    assert_int_equal(value(kept, a, 12, b, 0), 3);
    assert_int_equal(value(kept, a, 13, b, 0), -99);
    assert_true(bti_size_ceil_div(bti_size_mul(a, 4), 2) == bti_size_mul(a, 2));
}

static void bound_to_numbers(void **state) {
    int64_t a = bti_symbol_new(), b = bti_symbol_new(), out;
    assert_int_equal(value(7, a, 1, b, 1), 7);
    assert_int_equal(value(bti_size_add(bti_size_mul(bti_size_mul(a, a), b), 5), a, 3, b, 4), 41);
    assert_int_equal(value(bti_size_ceil_div(bti_size_add(a, b), 4), a, 3, b, 6), 3);
    assert_int_equal(value(bti_size_mul(a, b), a, INT64_MAX / 2, b, 3), -99);
    assert_false(bti_size_bind(bti_size_add(a, b), &(bti_binding){&a, &(int64_t){2}, 1}, &out));
}

static void limits_are_met_with_grace(void **state) {
    int64_t a = bti_symbol_new(), power = a, sum = 0;
    for (int i = 1; i < 30; i++) power = bti_size_mul(power, a);
    assert_int_equal(value(power, a, 2, 0, 0), INT64_C(1) << 30);
    int64_t symbols[100], values[100], out;
    for (int i = 0; i < 100; i++) sum = bti_size_add(sum, symbols[i] = bti_symbol_new()), values[i] = i;
    assert_true(bti_size_bind(sum, &(bti_binding){symbols, values, 100}, &out) && out == 4950);
    assert_true(bti_size_mul(INT64_MAX / 2, 3) == INT64_MAX);
}

static void expressions_print(void **state) {
    int64_t a = bti_symbol_new(), shape[] = {bti_size_mul(a, 2), 3, bti_size_add(a, 1), bti_size_ceil_div(a, 2)};
    bti_str name = {0}, expected = {0};
    bti_size_text(&name, a);
    assert_true(bti_str_text(&name)[0] == '?');
    const char *x = bti_str_text(&name);
    bti_str_addf(&expected, "(%s * 2, 3, %s + 1, ceil_div(%s, 2))", x, x, x);
    assert_text(4, shape, bti_str_text(&expected));
    bti_str_free(&name);
    bti_str_free(&expected);
}

static void short_memory_gives_zero(void **state) {
    int64_t symbol = 0;
    for (int n = 1; n < 3; n++) {
        bti_alloc_fail_at((uint64_t)n, true);
        int made = 0;
        while (made < 2000 && (symbol = bti_symbol_new())) made++;
        bti_alloc_fail_at(0, false);
        assert_true(symbol == 0);
        assert_true(bti_size_is_symbolic(bti_symbol_new()));
    }
}

static int64_t shared[2];
static void *multiply(void *out) {
    for (int i = 0; i < 300; i++) *(int64_t *)out = bti_size_mul(bti_size_add(shared[0], i), shared[1]);
    return NULL;
}

static void threads_agree(void **state) {
    pthread_t threads[4];
    int64_t results[4];
    shared[0] = bti_symbol_new(), shared[1] = bti_symbol_new();
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, multiply, &results[i]), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 1; i < 4; i++) assert_true(results[i] == results[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test(what_fits),
        cmocka_unit_test(texts),
        cmocka_unit_test(dense_layouts),
        cmocka_unit_test(reshapes_without_moving),
        cmocka_unit_test(equal_expressions_have_one_name),
        cmocka_unit_test(exact_division_cancels),
        cmocka_unit_test(bound_to_numbers),
        cmocka_unit_test(limits_are_met_with_grace),
        cmocka_unit_test(expressions_print),
        cmocka_unit_test(short_memory_gives_zero),
        cmocka_unit_test(threads_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

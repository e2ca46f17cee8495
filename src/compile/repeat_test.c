/* Maps that are computed for reductions along each axis. */
#include "compile/compile_test.h"

enum { ROWS = 1000, COLUMNS = 300 };
#define ALL SHAPE(ROWS, COLUMNS)

static void plan_fused(bti_node *const *wanted, int count) {
    fusing = BTI_FUSED;
    make_plan(wanted, count);
}
#define FUSE(...) plan_fused((bti_node *[]){__VA_ARGS__}, COUNT(((bti_node *[]){__VA_ARGS__})))

/* bti_attr's fold of an axis. */
static bti_node *sum_along(int axis, bti_node *x) {
    return axis ? OP(sum, 0, SHAPE(ROWS, 1), ATTR(1 << 1), x) : OP(sum, 0, SHAPE(1, COLUMNS), ATTR(1 << 0), x);
}

static int64_t bytes_moved(void) {
    bti_traffic traffic = bti_plan_traffic(&plan);
    return traffic.read + traffic.written;
}

/* All arrays of one shape that are read or written, about. */
static int arrays_moved(void) { return (int)((bytes_moved() + ROWS * COLUMNS * 2) / (ROWS * COLUMNS * 4)); }

static int operations_named(void) {
    int count = 0;
    for (size_t s = 0; s < plan.steps.count; s++) count += plan.steps.items[s].member_count;
    return count;
}

static void sums_along_both_axes(void **state) {
    bti_node *x = leaf(0, ALL), *y = OP(mul, 0, ALL, NO_ATTR, x, x);
    FUSE(sum_along(1, y), sum_along(0, y));
    assert_int_equal(plan.steps.count, 2);
    assert_int_equal(arrays_moved(), 2); /* x by each */
    assert_int_equal(operations_named(), 3);
    FUSE(sum_along(0, y), sum_along(1, y)); /* in either order */
    assert_int_equal(arrays_moved(), 2);
    assert_int_equal(operations_named(), 3);
}

/* The gradients of rows that are normalised: sums along rows, and along columns of what is made of them. */
static void rows_that_are_normalised(void **state) {
    bti_node *x = leaf(0, ALL), *d = leaf(0, ALL);
    bti_node *mean = OP(neg, 0, SHAPE(ROWS, 1), NO_ATTR, sum_along(1, x));
    bti_node *centred = OP(add, 0, ALL, NO_ATTR, x, OP(expand, 0, ALL, NO_ATTR, mean));
    bti_node *square = sum_along(1, OP(mul, 0, ALL, NO_ATTR, centred, centred));
    bti_node *product = OP(mul, 0, ALL, NO_ATTR, d, centred);
    bti_node *dots = sum_along(1, product);
    bti_node *dx = OP(add, 0, ALL, NO_ATTR, d, OP(expand, 0, ALL, NO_ATTR, dots));
    FUSE(square, dx, sum_along(0, product));
    assert_int_equal(plan.steps.count, 2);
    assert_int_equal(arrays_moved(), 5);     /* x and d by each, dx */
    assert_int_equal(operations_named(), 9); /* all but expansions, each once */
}

static void what_is_in_memory_is_read(void **state) {
    bti_node *x = leaf(0, ALL), *y = OP(mul, 0, ALL, NO_ATTR, x, x);
    FUSE(y, sum_along(1, y), sum_along(0, y));
    assert_int_equal(arrays_moved(), 3); /* x, y, and y again */
    bti_node *w = leaf(0, SHAPE(COLUMNS, 4)), *product = OP(matmul, 0, SHAPE(ROWS, 4), NO_ATTR, y, w);
    FUSE(product, sum_along(1, y), sum_along(0, y));
    assert_int_equal(operations_named(), 3);
    bti_node *turned = OP(permute, 0, SHAPE(COLUMNS, ROWS), ATTR(1, 0), y);
    FUSE(OP(neg, 0, SHAPE(COLUMNS, ROWS), NO_ATTR, turned), sum_along(1, y), sum_along(0, y));
    for (size_t s = 0; s < plan.steps.count; s++) assert_false(plan.steps.items[s].repeated);
    assert_int_equal(operations_named(), 4);
}

static bti_node *sum_of(bti_node *const *x, int count) {
    bti_node *sum = x[0];
    for (int i = 1; i < count; i++) sum = OP(add, 0, ALL, NO_ATTR, sum, x[i]);
    return sum;
}

/* Reading what it is made of must be less than writing and reading it. */
static void of_too_many_arrays(void **state) {
    bti_node *x[3] = {leaf(0, ALL), leaf(0, ALL), leaf(0, ALL)};
    for (int count = 1; count <= 3; count++) {
        bti_node *sum = OP(neg, 0, ALL, NO_ATTR, sum_of(x, count));
        FUSE(sum_along(1, sum), sum_along(0, sum));
        assert_int_equal(arrays_moved(), count < 2 ? 2 * count : count + 2);
    }
}

static void what_takes_long_is_passed_on(void **state) {
    bti_node *x = leaf(0, ALL), *y = OP(sqrt, 0, ALL, NO_ATTR, x), *z = OP(sin, 0, ALL, NO_ATTR, x);
    FUSE(sum_along(1, y), sum_along(0, y));
    assert_int_equal(arrays_moved(), 2);
    FUSE(sum_along(1, z), sum_along(0, z));
    assert_int_equal(arrays_moved(), 3); /* x, z, and z again */
    facts.bandwidth = 4;                 /* by the device */
    FUSE(sum_along(1, z), sum_along(0, z));
    assert_int_equal(arrays_moved(), 2);
    facts.bandwidth = 400;
    FUSE(sum_along(1, y), sum_along(0, y));
    assert_int_equal(arrays_moved(), 3);
    facts.bandwidth = 40;
}

static bti_node *wide(bti_node *node) {
    node->dtype = BT_F64;
    return node;
}

static void float64_takes_longer(void **state) {
    bti_node *x = wide(leaf(0, ALL)), *y = wide(OP(sqrt, 0, ALL, NO_ATTR, x));
    bti_node *sums[] = {wide(sum_along(1, y)), wide(sum_along(0, y))};
    for (int slow = 0; slow < 2; slow++) {
        facts.f64_slowdown = slow ? 64 : 2;
        plan_fused(sums, 2);
        assert_int_equal(bytes_moved() / (ROWS * COLUMNS * 8), slow ? 3 : 2);
    }
    facts.f64_slowdown = 2;
}

/* Axes that lie side by side are one, so these fold the same: one kernel. */
static void axes_under_other_shapes(void **state) {
    bti_node *x = leaf(0, ALL), *y = OP(mul, 0, ALL, NO_ATTR, x, x);
    bti_node *cut = OP(reshape, 0, SHAPE(10, 100, COLUMNS), NO_ATTR, y);
    FUSE(sum_along(1, y), OP(sum, 0, SHAPE(10, 100, 1), ATTR(1 << 2), cut));
    assert_int_equal(plan.steps.count, 1);
    FUSE(sum_along(1, y),
         OP(sum, 0, SHAPE(1, 1, COLUMNS), ATTR(3), cut)); /* along both of the first, seen from another shape */
    assert_int_equal(plan.steps.count, 2);
    assert_int_equal(arrays_moved(), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(sums_along_both_axes, end),
                                       cmocka_unit_test_teardown(rows_that_are_normalised, end),
                                       cmocka_unit_test_teardown(what_is_in_memory_is_read, end),
                                       cmocka_unit_test_teardown(of_too_many_arrays, end),
                                       cmocka_unit_test_teardown(what_takes_long_is_passed_on, end),
                                       cmocka_unit_test_teardown(float64_takes_longer, end),
                                       cmocka_unit_test_teardown(axes_under_other_shapes, end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Which result takes the memory of something given. */
#include "compile/compile_test.h"

/* Plans, then donates what the leaf is in; the storage that takes it, -1: none, -2: the plan notes nothing. */
static int32_t taker_of(const bti_node *given) {
    for (size_t s = 0; s < plan.storages.count; s++)
        if (plan.storages.items[s].external == given->buffer) assert_true(bti_plan_donate(&plan, (int32_t)s));
    return plan.donations.count ? plan.donations.items[plan.donations.count - 1].output : -2;
}

static bti_node *x;
static int begin(void **state) {
    (void)state;
    fusing = BTI_FUSED;
    x = leaf(0, SHAPE(4, 6));
    return 0;
}
static bti_node *negated(bti_node *of) { return OP(neg, 0, SHAPE(4, 6), NO_ATTR, of); }

static void a_map_writes_over_it(void **state) {
    (void)state;
    bti_node *y = OP(add, 0, SHAPE(4, 6), NO_ATTR, negated(x), x);
    PLAN(y);
    assert_int_equal(plan.steps.count, 1);
    assert_int_equal(taker_of(x), value_of(y)->storage);
}

static void an_update_writes_over_it(void **state) {
    (void)state;
    bti_node *index = leaf(0, SCALAR), *part = leaf(0, SHAPE(1, 6));
    index->dtype = BT_I32;
    bti_node *y = OP(update_slice, 0, SHAPE(4, 6), ATTR(0), x, index, part);
    PLAN(y);
    assert_int_equal(taker_of(x), value_of(y)->storage);
    bti_node *own = OP(slice, 0, SHAPE(1, 6), ATTR(2, 0, 1, 1), x);
    PLAN(OP(update_slice, 0, SHAPE(4, 6), ATTR(0), x, index, own));
    assert_int_equal(taker_of(x), -1); /* it is read elsewhere, too */
}

/* Each element is read where another one is written. */
static void a_map_of_another_order_does_not(void **state) {
    (void)state;
    bti_node *square = leaf(0, SHAPE(5, 5)), *turned = OP(permute, 0, SHAPE(5, 5), ATTR(1, 0), square);
    bti_node *turned_alone = OP(neg, 0, SHAPE(5, 5), NO_ATTR, turned);
    PLAN(turned_alone);
    assert_int_equal(plan.steps.count, 1);
    assert_int_equal(taker_of(square), -1);
    bti_node *both = OP(add, 0, SHAPE(5, 5), NO_ATTR, square, turned);
    PLAN(both);
    assert_int_equal(plan.steps.count, 1);
    assert_int_equal(taker_of(square), -1);
}

static void a_later_result_takes_it(void **state) {
    (void)state;
    fusing = BTI_SINGLE;
    bti_node *y =
        OP(exp, 0, SHAPE(4, 6), NO_ATTR, OP(expand, 0, SHAPE(4, 6), NO_ATTR, OP(sum, 0, SHAPE(4, 1), ATTR(2), x)));
    PLAN(y);
    assert_true(plan.steps.count > 1);
    assert_int_equal(taker_of(x), value_of(y)->storage);
}

static void sizes_and_devices_differ(void **state) {
    (void)state;
    bti_node *sum = OP(sum, 0, SHAPE(4, 1), ATTR(2), x), *there = OP(copy, 1, SHAPE(4, 6), NO_ATTR, x);
    PLAN(sum);
    assert_int_equal(taker_of(x), -1);
    PLAN(there);
    assert_int_equal(taker_of(x), -2); /* the copy runs beside what comes later */
}

/* A result lies in it; another one that would fit does not take it. */
static void a_view_of_it_is_a_result(void **state) {
    (void)state;
    bti_node *view = OP(permute, 0, SHAPE(6, 4), ATTR(1, 0), x), *y = negated(x);
    PLAN(view, y);
    assert_int_equal(taker_of(x), -2);
}

static void each_result_takes_one(void **state) {
    (void)state;
    bti_node *other = leaf(0, SHAPE(4, 6)), *sum = OP(add, 0, SHAPE(4, 6), NO_ATTR, x, other);
    PLAN(sum);
    assert_int_equal(taker_of(x), value_of(sum)->storage);
    assert_int_equal(taker_of(other), -1);
    assert_int_equal(plan.donations.count, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_map_writes_over_it, begin, end),
        cmocka_unit_test_setup_teardown(an_update_writes_over_it, begin, end),
        cmocka_unit_test_setup_teardown(a_map_of_another_order_does_not, begin, end),
        cmocka_unit_test_setup_teardown(a_later_result_takes_it, begin, end),
        cmocka_unit_test_setup_teardown(sizes_and_devices_differ, begin, end),
        cmocka_unit_test_setup_teardown(a_view_of_it_is_a_result, begin, end),
        cmocka_unit_test_setup_teardown(each_result_takes_one, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

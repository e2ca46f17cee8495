/* What varies among segments that differ in sizes alone, and their texts. */
#include "exec/varying.h"

#include "compile/compile_test.h"
#include "render/stablehlo.h"

static bti_varying varying;

static const bti_step *segment(void) {
    assert_int_equal(plan.steps.count, 1);
    assert_int_equal(plan.steps.items[0].kind, BTI_STEP_SEGMENT);
    return &plan.steps.items[0];
}

/* The axes of the segment's operand that vary. */
static uint32_t axes_of(int operand) {
    return varying.axes ? varying.axes[plan.operands.items[segment()->first_operand + operand]] : 0;
}

static void see(void) {
    bti_varying_free(&varying);
    assert_int_equal(bti_varying_see(&plan, segment(), &varying), BT_OK);
}

static int forget(void **state) {
    bti_varying_free(&varying);
    return end(state);
}

/* x [n, k] * y [n, k], summed over the first axis. */
static void plan_sum(int64_t n, int64_t k) {
    bti_node *x = leaf(1, SHAPE(n, k)), *y = leaf(1, SHAPE(n, k));
    PLAN(OP(sum, 1, SHAPE(1, k), ATTR(1), OP(mul, 1, SHAPE(n, k), NO_ATTR, x, y)));
    see();
}

static void sizes_vary_once_they_differ(void **state) {
    (void)state;
    plan_sum(5, 3);
    assert_null(varying.axes);
    plan_sum(5, 3);
    assert_null(varying.axes);
    plan_sum(6, 3);
    for (int o = 0; o < 2; o++) assert_int_equal(axes_of(o), 1);
    assert_int_equal(axes_of(2), 0);
    plan_sum(6, 3); /* from now on */
    assert_int_equal(axes_of(0), 1);
    plan_sum(6, 4);
    assert_int_equal(axes_of(0), 3);
    assert_int_equal(axes_of(2), 2);
    plan_sum(0, 4); /* has no memory */
    assert_null(varying.axes);
    plan_sum((INT64_C(1) << 30) + 1, 4);
    assert_null(varying.axes);
}

static void other_operations_are_others(void **state) {
    (void)state;
    for (int64_t n = 7; n < 10; n++) {
        bti_node *x = leaf(1, SHAPE(n, 3));
        PLAN(n == 7   ? OP(sqrt, 1, SHAPE(n, 3), NO_ATTR, x)
             : n == 8 ? OP(exp, 1, SHAPE(n, 3), NO_ATTR, x)
                      : OP(sum, 1, SHAPE(n, 1), ATTR(2), x));
        see();
        assert_null(varying.axes);
    }
}

/* The last row of [n, 2], times 1 / n. */
static void plan_last(int64_t n) {
    union {
        double number;
        int64_t bits;
    } part = {.number = 1 / (double)n};
    bti_node *row = OP(slice, 1, SHAPE(1, 2), ATTR(n - 1, 0, 1, 1), leaf(1, SHAPE(n, 2)));
    bti_node *scale = OP(expand, 1, SHAPE(1, 2), NO_ATTR, OP(reshape, 1, SHAPE(1, 1), NO_ATTR, constant(1, part.bits)));
    PLAN(OP(mul, 1, SHAPE(1, 2), NO_ATTR, row, scale));
    see();
}

static int inner_of(bti_op o) {
    for (int i = 0; i < segment()->inner_count; i++)
        if (plan.inner.items[segment()->first_inner + i].op == o) return i;
    fail_msg("no such step");
    return 0;
}

static void numbers_vary(void **state) {
    (void)state;
    plan_last(3);
    plan_last(5);
    assert_int_equal(axes_of(0), 1);
    assert_int_equal(varying.numbers[inner_of(BTI_OP_const)], 1);
    assert_int_equal(varying.numbers[inner_of(BTI_OP_slice)], 1); /* not along the other axis */
}

static void what_is_given_up_stays_so(void **state) {
    (void)state;
    for (int64_t n = 2; n < 5; n++) {
        PLAN(OP(tanh, 1, SHAPE(n), NO_ATTR, leaf(1, SHAPE(n))));
        see();
        assert_int_equal(axes_of(0), n == 3);
        if (n == 3) bti_varying_give_up(&varying);
    }
}

/* --- texts --------------------------------------------------------------------------------------------------------------- */

static char *text_of(bti_hlo_numbers *numbers) {
    static const int none[] = {-1, -1, -1, -1};
    const bti_hlo_varying given = {varying.axes, varying.numbers};
    bti_str text = {0};
    numbers->count = 0;
    assert_non_null(varying.axes);
    assert_int_equal(bti_stablehlo_segment(&plan, segment(), none, true, &given, numbers, &text), BT_OK);
    char *copy = strdup(bti_str_text(&text));
    bti_str_free(&text);
    return copy;
}

static void a_text_serves_sizes_up_to_a_power_of_two(void **state) {
    (void)state;
    bti_hlo_numbers numbers = {0};
    char *texts[18] = {NULL};
    for (int64_t n = 1; n < 18; n++) {
        PLAN(OP(max, 1, SHAPE(1, 2), ATTR(1),
                OP(mul, 1, SHAPE(n, 2), NO_ATTR, leaf(1, SHAPE(n, 2)), leaf(1, SHAPE(n, 2)))));
        see();
        if (n == 1) continue;
        texts[n] = text_of(&numbers);
        assert_int_equal(numbers.count, 2); /* of each argument */
        assert_int_equal(numbers.items[0], n);
    }
    for (int n = 3; n < 18; n++) {
        bool grows = n == 3 || n == 5 || n == 9 || n == 17;
        if ((strcmp(texts[n], texts[n - 1]) != 0) != grows) fail_msg("sizes %d and %d:\n%s", n - 1, n, texts[n]);
    }
    const char *const parts[] = {
        "@main(%0: tensor<8x2xf32>, %1: tensor<8x2xf32>, %2: tensor<2xui64>) -> (tensor<1x2xf32>)",
        "\"stablehlo.iota\"() {iota_dimension = 0 : i64} : () -> tensor<8x2xi32>", "\"stablehlo.select\"("};
    for (int i = 0; i < COUNT(parts); i++)
        if (!strstr(texts[7], parts[i])) fail_msg("no %s in\n%s", parts[i], texts[7]);
    for (int n = 2; n < 18; n++) free(texts[n]);
    bti_vec_free(&numbers);
}

static void an_operation_without_a_rule_is_named(void **state) {
    (void)state;
    static const int none[] = {-1, -1};
    bti_hlo_numbers numbers = {0};
    bti_str text = {0};
    for (int64_t n = 6; n < 8; n++) {
        bti_node *x = leaf(1, SHAPE(1, 1, n)), *w = leaf(1, SHAPE(1, 1, 3));
        PLAN(OP(conv, 1, SHAPE(1, 1, n - 2), ATTR(1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0), x, w));
        see();
    }
    const bti_hlo_varying given = {varying.axes, varying.numbers};
    assert_int_equal(bti_stablehlo_segment(&plan, segment(), none, true, &given, &numbers, &text), BT_UNIMPLEMENTED);
    assert_non_null(strstr(bt_error_text(), "conv cannot be written as StableHLO: no rule for sizes that vary"));
    bti_str_free(&text);
    bti_vec_free(&numbers);
}

static int use_graphs(void **state) {
    (void)state;
    graph_devices = 2;
    fusing = BTI_FUSED;
    return 0;
}

#define VARYING_TEST(name) cmocka_unit_test_teardown(name, forget)

int main(void) {
    const struct CMUnitTest tests[] = {
        VARYING_TEST(sizes_vary_once_they_differ),
        VARYING_TEST(other_operations_are_others),
        VARYING_TEST(numbers_vary),
        VARYING_TEST(what_is_given_up_stays_so),
        VARYING_TEST(a_text_serves_sizes_up_to_a_power_of_two),
        VARYING_TEST(an_operation_without_a_rule_is_named),
    };
    return cmocka_run_group_tests(tests, use_graphs, NULL);
}

/* The texts of segments. */
#include "compile/compile_test.h"
#include "render/stablehlo.h"

static void expect_segment(size_t s, const int *aliases, const char *expected) {
    bti_str text = {0};
    assert_int_equal(plan.steps.items[s].kind, BTI_STEP_SEGMENT);
    assert_int_equal(bti_stablehlo_segment(&plan, &plan.steps.items[s], aliases, true, NULL, NULL, &text), BT_OK);
    assert_string_equal(bti_str_text(&text), expected);
    bti_str_free(&text);
}

#define NONE ((const int[]){-1, -1, -1, -1})

static void a_text_has_its_operations(void **state) {
    bti_node *x = leaf(1, SHAPE(2, 3)), *b = leaf(1, SHAPE(1, 3));
    bti_node *wide = OP(expand, 1, SHAPE(2, 3), NO_ATTR, b);
    PLAN(OP(add, 1, SHAPE(2, 3), NO_ATTR, OP(sqrt, 1, SHAPE(2, 3), NO_ATTR, x), wide));
    expect_segment(
        0, (const int[]){-1, 0},
        "module @berth {\n"
        "  func.func public @main(%0: tensor<1x3xf32>, %1: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}) -> "
        "(tensor<2x3xf32>) {\n"
        "    %2 = \"stablehlo.broadcast_in_dim\"(%0) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<1x3xf32>) -> "
        "tensor<2x3xf32>\n"
        "    %3 = \"stablehlo.sqrt\"(%1) : (tensor<2x3xf32>) -> tensor<2x3xf32>\n"
        "    %4 = \"stablehlo.add\"(%3, %2) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>\n"
        "    \"func.return\"(%4) : (tensor<2x3xf32>) -> ()\n"
        "  }\n"
        "}\n");
}

/* Numbers are written; what another segment reads is a result. */
static void results_are_what_others_read(void **state) {
    bti_node *one = constant(1, 0x3ff0000000000000), *x = leaf(1, SCALAR);
    bti_node *there = OP(add, 1, SCALAR, NO_ATTR, x, one), *away = OP(sqrt, 0, SCALAR, NO_ATTR, there);
    PLAN(OP(add, 1, SCALAR, NO_ATTR, away, OP(mul, 1, SCALAR, NO_ATTR, there, there)));
    assert_int_equal(plan.steps.count, 5);
    expect_segment(0, NONE,
                   "module @berth {\n"
                   "  func.func public @main(%0: tensor<f32>) -> (tensor<f32>, tensor<f32>) {\n"
                   "    %1 = \"stablehlo.constant\"() {value = dense<0x3F800000> : tensor<f32>} : () -> tensor<f32>\n"
                   "    %2 = \"stablehlo.add\"(%0, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
                   "    %3 = \"stablehlo.multiply\"(%2, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
                   "    \"func.return\"(%2, %3) : (tensor<f32>, tensor<f32>) -> ()\n"
                   "  }\n"
                   "}\n");
    expect_segment(4, NONE,
                   "module @berth {\n"
                   "  func.func public @main(%0: tensor<f32>, %1: tensor<f32>) -> (tensor<f32>) {\n"
                   "    %2 = \"stablehlo.add\"(%0, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
                   "    \"func.return\"(%2) : (tensor<f32>) -> ()\n"
                   "  }\n"
                   "}\n");
}

/* They have no memory, so they are no arguments. */
static void what_has_no_elements_is_written(void **state) {
    bti_node *nothing = leaf(1, SHAPE(0, 2));
    PLAN(OP(sum, 1, SHAPE(1, 2), ATTR(1), nothing));
    bti_str text = {0};
    assert_int_equal(bti_stablehlo_segment(&plan, &plan.steps.items[0], NONE, true, NULL, NULL, &text), BT_OK);
    assert_non_null(strstr(bti_str_text(&text), "@main() -> (tensor<1x2xf32>)"));
    assert_non_null(strstr(bti_str_text(&text), "tensor<0x2xf32>"));
    bti_str_free(&text);
}

/* 3 and the start of the rows are in the argument behind the inputs, in the order of the steps; 1 is in the text, and so is what is taken of a computed array. */
static void numbers_are_left_open(void **state) {
    bti_node *x = leaf(1, SHAPE(6, 2)), *three = constant(1, 0x4008000000000000),
             *one = constant(1, 0x3ff0000000000000);
    bti_node *rows = OP(slice, 1, SHAPE(2, 2), ATTR(3, 0, 1, 1), x);
    bti_node *row = OP(slice, 1, SHAPE(1, 2), ATTR(1, 0, 1, 1), OP(sqrt, 1, SHAPE(2, 2), NO_ATTR, rows));
    bti_node *last = OP(reshape, 1, SCALAR, NO_ATTR, OP(slice, 1, SHAPE(1, 1), ATTR(0, 1, 1, 1), row));
    PLAN(OP(sub, 1, SCALAR, NO_ATTR, OP(add, 1, SCALAR, NO_ATTR, last, three), one));
    bti_hlo_numbers numbers = {0};
    bti_str text = {0};
    assert_int_equal(bti_stablehlo_segment(&plan, &plan.steps.items[0], NONE, true, NULL, &numbers, &text), BT_OK);
    const char *const parts[] = {
        "@main(%0: tensor<6x2xf32>, %1: tensor<2xui64>) -> (tensor<f32>)",
        "\"stablehlo.slice\"(%1) {start_indices = array<i64: 0>, limit_indices = array<i64: 1>",
        "\"stablehlo.dynamic_slice\"(%0, %4, %5) {slice_sizes = array<i64: 2, 2>}",
        "\"stablehlo.slice\"(%7) {start_indices = array<i64: 1, 0>",
        "\"stablehlo.slice\"(%1) {start_indices = array<i64: 1>, limit_indices = array<i64: 2>",
        "(tensor<ui64>) -> tensor<ui32>",
        "\"stablehlo.bitcast_convert\"(%13) : (tensor<ui32>) -> tensor<f32>",
        "value = dense<0x3F800000> : tensor<f32>",
    };
    for (int i = 0; i < COUNT(parts); i++)
        if (!strstr(bti_str_text(&text), parts[i])) fail_msg("no %s in\n%s", parts[i], bti_str_text(&text));
    assert_int_equal(numbers.count, 2);
    assert_int_equal(numbers.items[0], 3);
    assert_int_equal(numbers.items[1], 0x40400000);
    bti_vec_free(&numbers);
    bti_str_free(&text);
}

static int use_graphs(void **state) {
    graph_devices = 2;
    fusing = BTI_FUSED;
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_text_has_its_operations),
        TEST(results_are_what_others_read),
        TEST(what_has_no_elements_is_written),
        TEST(numbers_are_left_open),
    };
    return cmocka_run_group_tests(tests, use_graphs, NULL);
}

/* The texts of segments. */
#include "compile/compile_test.h"
#include "render/stablehlo.h"

static void expect_segment(size_t s, const int *aliases, const char *expected) {
    bti_str text = {0};
    assert_int_equal(plan.steps.items[s].kind, BTI_STEP_SEGMENT);
    assert_int_equal(bti_stablehlo_segment(&plan, &plan.steps.items[s], aliases, true, NULL, &text), BT_OK);
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
    assert_int_equal(bti_stablehlo_segment(&plan, &plan.steps.items[0], NONE, true, NULL, &text), BT_OK);
    assert_non_null(strstr(bti_str_text(&text), "@main() -> (tensor<1x2xf32>)"));
    assert_non_null(strstr(bti_str_text(&text), "tensor<0x2xf32>"));
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
    };
    return cmocka_run_group_tests(tests, use_graphs, NULL);
}

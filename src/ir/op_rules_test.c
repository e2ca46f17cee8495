/* The rules of the table of operations: which dtypes and shapes go in, for known and unknown sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/op_rules.h"
#include "support/attr.h"

#define SIZES(...) ((const int64_t[]){__VA_ARGS__})

/* A node that has nothing but a shape. */
static bti_node shaped(int rank, const int64_t *shape) {
    bti_node node = {.rank = (uint8_t)rank};
    for (int i = 0; i < rank; i++) node.shape[i] = shape[i];
    return node;
}

static void expect_fit(bti_op op, int count, bti_node *const *inputs, int rank, const int64_t *shape,
                       const int64_t *numbers, const char *why, int line) {
    bool folds = bti_op_info(op)->attr == BTI_ATTR_fold;
    int number_count = !numbers ? 0 : op == BTI_OP_slice ? 2 * rank : folds ? 2 : 1;
    bti_attr attr = attr_of(op, number_count, numbers);
    bti_str text = {0};
    bool fits = bti_op_shape_fits(op, count, inputs, rank, shape, &attr, &text);
    if (fits != !why || (why && strcmp(bti_str_text(&text), why)))
        fail_msg("line %d: \"%s\", not \"%s\"", line, bti_str_text(&text), why ? why : "");
    bti_str_free(&text);
    assert_int_equal(bti_op_shape_fits(op, count, inputs, rank, shape, &attr, NULL), fits);
}
#define FITS(op, inputs, rank, shape, attr, why) \
    expect_fit(BTI_OP_##op, (int)(sizeof(inputs) / sizeof *(inputs)), inputs, rank, shape, attr, why, __LINE__)

static void known_sizes(void **state) {
    (void)state;
    bti_node a = shaped(2, SIZES(2, 3)), b = shaped(2, SIZES(3, 4)), c = shaped(2, SIZES(5, 3)),
             none = shaped(2, SIZES(0, 3)), line = shaped(1, SIZES(3));
    FITS(neg, ((bti_node *[]){&a}), 2, SIZES(2, 3), NULL, NULL);
    FITS(add, ((bti_node *[]){&a, &c}), 2, SIZES(2, 3), NULL, "(5, 3) is not the shape of the result, (2, 3)");
    FITS(reshape, ((bti_node *[]){&a}), 1, SIZES(6), NULL, NULL);
    FITS(reshape, ((bti_node *[]){&a}), 1, SIZES(7), NULL, "(2, 3) has another number of elements than (7,)");
    FITS(expand, ((bti_node *[]){&line}), 2, SIZES(4, 3), NULL, NULL);
    FITS(expand, ((bti_node *[]){&a}), 2, SIZES(4, 3), NULL, "(2, 3) cannot be broadcast to (4, 3)");
    FITS(expand, ((bti_node *[]){&a}), 1, SIZES(3), NULL, "(2, 3) cannot be broadcast to the smaller rank of (3,)");
    FITS(concat, ((bti_node *[]){&a, &c}), 2, SIZES(7, 3), SIZES(0), NULL);
    FITS(concat, ((bti_node *[]){&a, &b}), 2, SIZES(5, 3), SIZES(0),
         "(3, 4) does not fit beside the first array, (2, 3)");
    FITS(matmul, ((bti_node *[]){&a, &b}), 2, SIZES(2, 4), NULL, NULL);
    FITS(matmul, ((bti_node *[]){&b, &a}), 2, SIZES(3, 3), NULL, "(3, 4) cannot be multiplied with (2, 3)");
    FITS(slice, ((bti_node *[]){&c}), 2, SIZES(3, 3), SIZES(4, 0, -2, 1), NULL);
    FITS(slice, ((bti_node *[]){&c}), 2, SIZES(3, 3), SIZES(3, 0, -2, 1),
         "(5, 3) has no such part as the slice (3, 3)");
    FITS(sum, ((bti_node *[]){&none}), 2, SIZES(1, 3), SIZES(1, 0), NULL);
    FITS(max, ((bti_node *[]){&none}), 2, SIZES(1, 3), SIZES(1, 0), "no elements along axis 0 to take the max of");
    FITS(max, ((bti_node *[]){&none}), 2, SIZES(1, 3), SIZES(1, 1), NULL);
    FITS(max, ((bti_node *[]){&none}), 2, SIZES(0, 1), SIZES(2, 0), NULL);
    bti_str why = {0};
    assert_true(bti_iota_fits(BT_I32, INT32_MAX, &why) && bti_iota_fits(BT_I64, INT64_C(1) << 32, &why));
    assert_false(bti_iota_fits(BT_I32, INT64_C(1) << 31, &why));
    assert_string_equal(bti_str_text(&why), "2147483648 elements; their indices are int32, so it can have 2147483647");
    bti_str_free(&why);
    FITS(scatter_add, ((bti_node *[]){&c, &line, &a}), 2, SIZES(5, 3), SIZES(0),
         "(2, 3) are the updates; their shape must be (3, 3)");
    FITS(gather_axis, ((bti_node *[]){&c, &a}), 2, SIZES(2, 3), SIZES(0), NULL);
    FITS(gather_axis, ((bti_node *[]){&c, &b}), 2, SIZES(3, 4), SIZES(0),
         "(3, 4) are the indices; but for the axis they must have the shape of x, (5, 3)");
}

/* What is not known may fit; what is known must. */
static void unknown_sizes(void **state) {
    (void)state;
    int64_t n = bti_symbol_new();
    bti_symbol_hold(n);
    bti_node a = shaped(2, SIZES(n, 3)), b = shaped(2, SIZES(4, 3)), c = shaped(2, SIZES(3, 5));
    FITS(add, ((bti_node *[]){&a, &b}), 2, SIZES(4, 3), NULL, NULL);
    FITS(reshape, ((bti_node *[]){&a}), 1, SIZES(12), NULL, NULL);
    FITS(expand, ((bti_node *[]){&b}), 2, SIZES(n, 3), NULL, NULL);
    FITS(slice, ((bti_node *[]){&a}), 2, SIZES(9, 3), SIZES(0, 0, 1, 1), NULL);
    FITS(max, ((bti_node *[]){&a}), 2, SIZES(1, 3), SIZES(1, 0), NULL);
    FITS(matmul, ((bti_node *[]){&a, &c}), 2, SIZES(n, 5), NULL, NULL);
    bti_str text = {0};
    bti_node *both[] = {&a, &b};
    assert_false(bti_op_shape_fits(BTI_OP_matmul, 2, both, 2, SIZES(n, 3), NULL, &text));
    bti_str_free(&text);
    bti_symbol_let_go(n);
}

static void dtypes(void **state) {
    (void)state;
    bt_dtype in, out;
    bti_str why = {0};
    assert_true(bti_op_dtypes(BTI_OP_exp, BT_I64, &in, &out, &why));
    assert_true(in == BT_F64 && out == BT_F64);
    assert_true(bti_op_dtypes(BTI_OP_lt, BT_F16, &in, &out, &why));
    assert_true(in == BT_F16 && out == BT_BOOL);
    assert_false(bti_op_dtypes(BTI_OP_sub, BT_BOOL, &in, &out, &why));
    assert_string_equal(bti_str_text(&why), "takes numbers, not bool; bt_cast it first");
    bti_str_free(&why);
    assert_false(bti_op_dtypes(BTI_OP_and, BT_F32, &in, &out, &why));
    assert_string_equal(bti_str_text(&why), "takes integers and bool, not float32");
    bti_str_free(&why);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_sizes), cmocka_unit_test(unknown_sizes),
                                       cmocka_unit_test(dtypes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

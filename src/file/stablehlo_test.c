// labels: valgrind
/* Functions as StableHLO modules: a text as it is stored, what cannot be said, misuse. What JAX makes of them: ./go part export. */
#include "file_cases.h"

#include "support/golden_texts.h"

static char *text_of(const char *name) {
    char *text = whole_file(path_of(name));
    assert_non_null(text);
    return text;
}

/* A step of a linear model: gradients, a variable that may keep its memory, a constant of the function. */
static void a_step_is_written(void **state) {
    (void)state;
    BT_SCOPE {
        bt_shared *w = bt_shared_new(bt_zeros(BT_F32, 3, 1), NULL), *calls = bt_shared_new(bt_zeros(BT_I32), NULL);
        bt_shared_set_name(w, "weight");
        bt_shared_set_name(calls, "calls");
        bt_array *inputs[] = {bt_input(BT_F32, 2, 3), bt_input(BT_F32, 2, 1)}, *grads[1];
        bt_array *scale = bt_from((float[]){1, 2, 3}, BT_F32, BT_SHAPE(3));
        bt_array *loss = bt_mse(bt_matmul(bt_mul(inputs[0], scale), bt_value(w)), inputs[1]);
        OK(bt_grad_shared(loss, &w, 1, grads));
        bt_update updates[] = {{w, bt_sub(bt_value(w), bt_mul(grads[0], 0.1))}, {calls, bt_add(bt_value(calls), 1)}};
        bt_function *step = bt_function_new(inputs, 2, &loss, 1, updates, 2);
        OK(bt_function_export(step, path_of("step.mlir")));
        bt_shared_set_name(calls, "calls\n\"x\"");
        OK(bt_function_export(step, path_of("step.mlir"))); /* over the first */
        char *text = text_of("step.mlir");
        bti_str all = {0};
        bti_str_add(&all, text);
        assert_non_null(strstr(text, "// argument 3: variable \"calls?\"x\"\", int32 ()\n"));
        assert_stored("stablehlo", "step.mlir", &all);
        bti_str_free(&all);
        bti_free(text);
        expect_files(1);
    }
}

static bt_array *grow(bt_array *x) { return bt_mul(x, 2); }
static bt_array *is_small(bt_array *const *carry, void *data) {
    (void)data;
    return bt_lt(carry[0], 100);
}
static void grow_carry(bt_array **carry, void *data) {
    (void)data;
    carry[0] = grow(carry[0]);
}

/* Each of these lines stands in the text. */
static void expect_lines(bt_array *input, bt_array *output, const char *const *lines) {
    bt_function *function = bt_function_new(&input, 1, &output, 1, NULL, 0);
    OK(bt_function_export(function, path_of("f.mlir")));
    char *text = text_of("f.mlir");
    for (int i = 0; lines[i]; i++)
        if (!strstr(text, lines[i])) fail_msg("\"%s\" is not in:\n%s", lines[i], text);
    bti_free(text);
}

static void what_is_given_and_constant(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = bt_input(BT_I32, 2), *b = bt_input(BT_BOOL, 2), *f = bt_input(BT_F64);
        bt_array *mask = bt_from((bool[]){true, false}, BT_BOOL, BT_SHAPE(2));
        bt_array *computed = bt_add(bt_from((int32_t[]){1, 2}, BT_I32, BT_SHAPE(2)), 1);
        OK(bt_block(computed));
        expect_lines(x, x, (const char *[]){"(%0: tensor<2xi32>) -> (tensor<2xi32>)", "\"func.return\"(%0)", NULL});
        expect_lines(x, mask, (const char *[]){"dense<\"0x0100\"> : tensor<2xui8>", "comparison_direction NE", NULL});
        expect_lines(x, bt_mul(x, computed), (const char *[]){"dense<\"0x0200000003000000\"> : tensor<2xi32>", NULL});
        bt_array *order = bt_argsort(bt_from((float[]){3, 1}, BT_F32, BT_SHAPE(2)), 0);
        expect_lines(x, bt_add(x, order), (const char *[]){"dense<\"0x0100000000000000\"> : tensor<2xi32>", NULL});
        expect_lines(b, bt_bit_not(b), (const char *[]){"stablehlo.not", NULL});
        expect_lines(f, bt_mul(f, 0.1), (const char *[]){"dense<0x3FB999999999999A> : tensor<f64>", NULL});
        OK(bt_while(is_small, grow_carry, NULL, 0, &f, 1));
        bt_array *start = bt_input(BT_F64);
        bt_array *carry = start;
        OK(bt_while(is_small, grow_carry, NULL, 7, &carry, 1));
        expect_lines(start, carry, (const char *[]){"\"stablehlo.while\"", "dense<7> : tensor<i64>", NULL});
    }
}

/* In BT_F32 products the precision is said that the flag asks for. */
static void precision_is_said(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 2, 2);
        expect_lines(x, bt_matmul(x, x), (const char *[]){"#stablehlo<precision HIGHEST>", NULL});
        OK(bt_set_flag("matmul_precision", "tf32"));
        expect_lines(x, bt_matmul(x, x), (const char *[]){"#stablehlo<precision DEFAULT>", NULL});
        OK(bt_set_flag("matmul_precision", "highest"));
    }
}

/* Of the factor the lower half; of a triangle what the call says of it. */
static void linear_algebra(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 2, 2), *z = bt_input(BT_C64, 3, 2, 2);
        expect_lines(x, bt_cholesky(x),
                     (const char *[]){"\"stablehlo.cholesky\"(%0) {lower = true}", "comparison_direction GE",
                                      "\"stablehlo.select\"", NULL});
        expect_lines(z, bt_triangular_solve(z, z, true, true, true),
                     (const char *[]){"\"stablehlo.triangular_solve\"(%0, %0) {left_side = true, lower = false, "
                                      "unit_diagonal = true, transpose_a = #stablehlo<transpose TRANSPOSE>}",
                                      NULL});
        expect_lines(
            x, bt_triangular_solve(x, x, false, false, false),
            (const char *[]){"lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>",
                             NULL});
    }
}

static bt_function *function_of(bt_array *input, bt_array *output) {
    return bt_function_new(&input, 1, &output, 1, NULL, 0);
}

static void what_cannot_be_said(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 4, 4), *rows = bt_input(BT_F32, -1, 4);
        const char *path = path_of("f.mlir");
        expect_error(bt_function_export(function_of(rows, bt_exp(rows)), path), BT_FAILED_PRECONDITION,
                     "input 0 has sizes that are not known");
        expect_error(bt_function_export(function_of(x, bt_debug_print("{}", x)), path), BT_UNIMPLEMENTED,
                     "this cannot be written as StableHLO: the host computes it");
        expect_error(bt_function_export(function_of(x, bt_det(x)), path), BT_UNIMPLEMENTED, "stablehlo_test.c:");
        expect_files(0);
    }
}

static void misuse(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 4), *y = bt_exp(x);
        bt_function *good = function_of(x, y), *poisoned = function_of(bt_input(BT_F32, 2), y);
        expect_error(bt_function_export(NULL, path_of("f.mlir")), BT_INVALID_ARGUMENT, "NULL");
        expect_error(bt_function_export(good, NULL), BT_INVALID_ARGUMENT, "the path is NULL");
        expect_error(bt_function_export(poisoned, path_of("f.mlir")), BT_INVALID_ARGUMENT,
                     "an input that is not listed");
        expect_error(bt_function_export(good, path_of("no/f.mlir")), BT_NOT_FOUND, "no/f.mlir");
        bt_array *broken = bt_input(BT_F32, 4), *sum = bt_add(broken, bt_reshape(bt_ones(BT_F32, 3), 4));
        expect_error(bt_function_export(function_of(broken, sum), path_of("f.mlir")), BT_INVALID_ARGUMENT,
                     "bt_reshape");
        expect_files(0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {FILE_TEST(a_step_is_written),   FILE_TEST(what_is_given_and_constant),
                                       FILE_TEST(precision_is_said),   FILE_TEST(linear_algebra),
                                       FILE_TEST(what_cannot_be_said), FILE_TEST(misuse)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

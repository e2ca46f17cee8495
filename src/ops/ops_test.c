// labels: valgrind
/* What composed operations give; tests/golden holds the numbers of most. refusals_test.c has what they refuse. */
#include "ops/ops_test.h"

#include "array/plan_log.h"

/* --- what fits -------------------------------------------------------------------------------------------------------- */

/* dtype, and text as NumPy's str writes it: shape and values at once. */
static void expect_text(bt_array *x, bt_dtype dtype, const char *text, int line) {
    char *got = bt_to_text(x);
    if (!got) fail_msg("line %d: %s", line, bt_error_text());
    if (bt_dtype_of(x) != dtype || strcmp(got, text))
        fail_msg("line %d: %s %s; expected %s %s", line, bt_dtype_name(bt_dtype_of(x)), got, bt_dtype_name(dtype),
                 text);
    bt_free(got);
}

#define GIVES(expression, dtype, text) \
    BT_SCOPE                           \
    expect_text(expression, dtype, text, __LINE__)

static void keeps_dtypes(void **state) {
    GIVES(bt_reciprocal(I32((2), 1, 2)), BT_F32, "[1.  0.5]");
    GIVES(bt_reciprocal(BT_ARRAY(int64_t, (1), 4)), BT_F64, "[0.25]");
    GIVES(bt_pow(BT_ARRAY(float, (5), 4, 2, 0, -0.0f, -INFINITY), bt_num(0.5)), BT_F32,
          "[2.        1.4142135 0.        0.              inf]");
    GIVES(bt_pow(BT_ARRAY(float, (2), -3, 2), bt_num(2)), BT_F32, "[9. 4.]");
    GIVES(bt_pow(BT_ARRAY(float, (2), -3, 2), bt_num(3)), BT_F32, "[-27.   8.]");
    GIVES(bt_pow(BT_ARRAY(float, (2), -4, 2), bt_num(-1)), BT_F32, "[-0.25  0.5 ]");
    GIVES(bt_pow(I32((2), -3, 2), bt_i32(3)), BT_I32, "[-27   8]");
    GIVES(bt_pow(I32((2), 9, 4), bt_num(0.5)), BT_F64, "[3. 2.]");
    GIVES(bt_mul(vector(), bt_softplus(bt_num(0))), BT_F32, "[0.6931472 1.3862944 2.0794415]");
    GIVES(bt_add(vector(), bt_reciprocal(bt_num(2))), BT_F32, "[1.5 2.5 3.5]");
    GIVES(bt_sum(U8((2), 200, 100), BT_ALL, false), BT_U64, "300");
    GIVES(bt_sum(truths(), BT_ALL, false), BT_I64, "1");
    GIVES(bt_sum_as(U8((2), 200, 100), BT_ALL, false, BT_U8), BT_U8, "44");
    GIVES(bt_mean(U8((2), 200, 101), BT_ALL, false), BT_F32, "150.5");
    GIVES(bt_mean(bt_full(10, BT_F16, 70000), BT_ALL, false), BT_F16, "10.0");
    GIVES(bt_concat(ALL(I32((1), 1), vector()), 2, 0), BT_F32, "[1. 1. 2. 3.]");
    GIVES(bt_mse(U8((1), 1), U8((1), 2)), BT_F32, "1.0");
}

static bt_array *part_of_split(bt_array *x, int axis, const int64_t *sizes, int count, int which) {
    bt_array *parts[8];
    assert_int_equal(bt_split_axis(x, axis, sizes, count, parts), BT_OK);
    return parts[which];
}
static bt_array *part_of_stack(bt_array *x, int axis, int count, int which) {
    bt_array *parts[8];
    assert_int_equal(bt_unstack(x, axis, count, parts), BT_OK);
    return parts[which];
}

#define COUNTED bt_reshape(bt_arange(0, 12, 1, BT_I32), 3, 4)

static void cuts_into_parts(void **state) {
    GIVES(part_of_split(COUNTED, 1, NULL, 2, 1), BT_I32, "[[ 2  3]\n [ 6  7]\n [10 11]]");
    GIVES(part_of_split(COUNTED, -1, SIZES(1, 0, 3), 3, 2), BT_I32, "[[ 1  2  3]\n [ 5  6  7]\n [ 9 10 11]]");
    GIVES(part_of_split(COUNTED, 0, NULL, 1, 0), BT_I32, "[[ 0  1  2  3]\n [ 4  5  6  7]\n [ 8  9 10 11]]");
    GIVES(part_of_stack(COUNTED, 0, 3, 2), BT_I32, "[ 8  9 10 11]");
    GIVES(part_of_stack(COUNTED, -1, 4, 0), BT_I32, "[0 4 8]");
    GIVES(part_of_stack(bt_zeros(BT_F32, 2, 0), 0, 2, 1), BT_F32, "[]");
    BT_SCOPE {
        assert_int_equal(bt_size(part_of_split(COUNTED, 1, SIZES(1, 0, 3), 3, 1), 1), 0);
        assert_int_equal(bt_unstack(bt_zeros(BT_F32, 2, 0), 1, 0, NULL), BT_OK);
        assert_int_equal(bt_split_axis(bt_zeros(BT_F32, 2, 0), 1, NULL, 0, NULL), BT_OK);
        bt_array *x = vector();
        assert_ptr_not_equal(part_of_split(x, 0, NULL, 1, 0), x); /* each is an array of its own */
    }
}

static void cuts_where_told(void **state) {
    GIVES(bt_dynamic_slice(COUNTED, I32((2), 1, -2), BT_SHAPE(2, 2)), BT_I32, "[[ 6  7]\n [10 11]]");
    GIVES(bt_dynamic_slice(COUNTED, I32((2), 9, -9), BT_SHAPE(1, 3)), BT_I32, "[[ 8  9 10]]");
    GIVES(bt_dynamic_slice_axis(COUNTED, BT_ARRAY(uint8_t, (1), 2), 2, -1), BT_I32, "[[ 2  3]\n [ 6  7]\n [10 11]]");
    GIVES(bt_dynamic_slice(bt_f32(3), bt_zeros(BT_I32, 0), BT_SHAPE()), BT_F32, "3.0");
    GIVES(bt_update_slice(COUNTED, I32((1, 2), -1, -2), I32((2), 1, 1)), BT_I32,
          "[[ 0  1  2  3]\n [ 4 -1 -2  7]\n [ 8  9 10 11]]");
    GIVES(bt_update_slice(COUNTED, I32((3, 1), -1, -2, -3), I32((2), 7, 7)), BT_I32,
          "[[ 0  1  2 -1]\n [ 4  5  6 -2]\n [ 8  9 10 -3]]");
    GIVES(bt_update_slice_axis(COUNTED, bt_zeros(BT_I32, 1, 1), bt_i32(-1), 0), BT_I32,
          "[[0 1 2 3]\n [4 5 6 7]\n [0 0 0 0]]");
    GIVES(bt_update_slice(vector(), bt_zeros(BT_F32, 0), I32((1), 2)), BT_F32, "[1. 2. 3.]");
    GIVES(bt_update_slice(vector(), I32((2), 7, 8), I32((1), 5)), BT_F32, "[1. 7. 8.]");
    GIVES(bt_update_slice(truths(), BT_ARRAY(bool, (1), true), I32((1), 1)), BT_BOOL, "[ True  True]");
}

static void handles_edges(void **state) {
    GIVES(bt_relu(F32((3), -1, 0, NAN)), BT_F32, "[ 0.  0. nan]");
    GIVES(bt_elu(F32((2), 1000, 0), 1), BT_F32, "[1000.    0.]");
    GIVES(bt_clamp(U8((3), 0, 5, 255), 0.5, 1000), BT_U8, "[  1   5 255]");
    GIVES(bt_isinf(F32((3), INFINITY, NAN, 1)), BT_BOOL, "[ True False False]");
    GIVES(bt_isfinite(I32((2), 1, 2)), BT_BOOL, "[ True  True]");
    GIVES(bt_all(bt_zeros(BT_F32, 0, 2), BT_ALL, false), BT_BOOL, "True");
    GIVES(bt_any(bt_zeros(BT_F32, 0, 2), BT_AXES(0), false), BT_BOOL, "[False False]");
    GIVES(bt_logsumexp(F32((2), -INFINITY, -INFINITY), BT_ALL, false), BT_F32, "-inf");
    GIVES(bt_logsumexp(F32((2), 1000, -1000), BT_ALL, true), BT_F32, "[1000.]");
    GIVES(bt_var(F32((2), 1, 3), BT_ALL, false, 1), BT_F32, "2.0");
    GIVES(bt_mean(bt_zeros(BT_F32, 0), BT_ALL, false), BT_F32, "nan");
    GIVES(bt_sort(F32((4), 3, NAN, -1, 2), -1), BT_F32, "[-1.  2.  3. nan]");
    GIVES(bt_top_k_indices(F32((4), 1, 2, 2, 1), 3), BT_I32, "[1 2 0]");
    GIVES(bt_searchsorted(F32((3), 1, 2, 2), F32((5), 0, 1, 2, 3, NAN), false), BT_I32, "[0 0 1 3 3]");
    GIVES(bt_searchsorted(F32((3), 1, 2, 2), F32((5), 0, 1, 2, 3, NAN), true), BT_I32, "[0 1 3 3 3]");
    GIVES(bt_searchsorted(F32((3), 1, NAN, NAN), F32((1, 2), NAN, 5), false), BT_I32, "[[1 1]]");
    GIVES(bt_searchsorted(F32((3), 1, NAN, NAN), F32((2), NAN, 5), true), BT_I32, "[3 1]");
    GIVES(bt_searchsorted(I32((2), 1, 3), bt_num(2.5), false), BT_I32, "1");
    GIVES(bt_searchsorted(bt_zeros(BT_F32, 0), vector(), true), BT_I32, "[0 0 0]");
    GIVES(bt_bincount(I32((2, 3), 0, 2, 2, -1, 7, 1), 4), BT_I32, "[1 1 2 0]");
    GIVES(bt_bincount(I32((1), 0), 0), BT_I32, "[]");
    GIVES(bt_histogram(F32((7), 0, 1, 2, 4, -1, 5, NAN), 4, 0, 4), BT_I32, "[1 1 1 1]");
    GIVES(bt_histogram(bt_num(2), 2, 0, 4), BT_I32, "[0 1]");
    GIVES(bt_unique(F32((6), 3, 1, NAN, 3, NAN, 1), 5), BT_F32, "[ 1.  3. nan  1.  1.]");
    GIVES(bt_unique(I32((2, 2), 3, 1, 2, 3), 2), BT_I32, "[1 2]");
    GIVES(bt_unique(vector(), 0), BT_F32, "[]");
    GIVES(bt_histogram(I32((4), 16777216, 16777217, 16777218, 16777219), 4, 16777216, 16777220), BT_I32, "[1 1 1 1]");
    GIVES(bt_histogram(U8((3), 0, 1, 2), 10, 0, 1), BT_I32, "[1 0 0 0 0 0 0 0 0 1]");
    GIVES(bt_set_at(I32((2), 1, 2), "0", 9.7), BT_I32, "[9 2]");
    GIVES(bt_set_at(I32((2), 1, 2), "1", bt_f32(-9.7F)), BT_I32, "[ 1 -9]");
    GIVES(bt_set_at(F32((5), 1, 2, 3, 4, 5), "::2", F32((3), 7, 8, 9)), BT_F32, "[7. 2. 8. 4. 9.]");
    GIVES(bt_set_at(F32((5), 1, 2, 3, 4, 5), "-2::-2", F32((2), 7, 8)), BT_F32, "[1. 8. 3. 7. 5.]");
    GIVES(bt_set_at(F32((5), 1, 2, 3, 4, 5), "9::3", 7), BT_F32, "[1. 2. 3. 4. 5.]");
    GIVES(bt_set_at(matrix(), "1, ::-2", F32((2), 7, 8)), BT_F32, "[[1. 2. 3.]\n [8. 5. 7.]]");
    GIVES(bt_set_at(matrix(), "::-1, ::2", F32((2, 2), 6, 7, 8, 9)), BT_F32, "[[8. 2. 9.]\n [6. 5. 7.]]");
    GIVES(bt_set_at(bt_zeros(BT_BOOL, 4), "1::2,", bt_ones(BT_BOOL, )), BT_BOOL, "[False  True False  True]");
    GIVES(bt_at(matrix(), "1, "), BT_F32, "[4. 5. 6.]");
    GIVES(bt_median(bt_reshape(bt_arange(0, 2, 1, BT_U64), 2, 1, 1, 1, 1, 1, 1, 1), BT_AXES(), false), BT_F64,
          "[[[[[[[[0.]]]]]]]\n\n\n\n\n\n\n [[[[[[[1.]]]]]]]]");
    GIVES(bt_quantile(I32((2), 3, 4), 0.25, BT_AXES(), true), BT_F32, "[3. 4.]");
    GIVES(bt_quantize_scale(bt_zeros(BT_F32, 0, 3), BT_AXES(0), BT_I8), BT_F32, "[[1. 1. 1.]]");
    GIVES(bt_one_hot(I32((3), -1, 1, 2), 2, BT_U8), BT_U8, "[[0 0]\n [0 1]\n [0 0]]");
    GIVES(bt_take(vector(), I32((1, 3), -1, 3, 0), 0), BT_F32, "[[ 3. nan  1.]]");
    GIVES(bt_take(matrix(), bt_i32(1), 0), BT_F32, "[4. 5. 6.]"); /* constants, which kernels make themselves */
    GIVES(bt_take(bt_full(3, BT_F32, 5, 2), bt_full(1, BT_I32, 2), 0), BT_F32, "[[3. 3.]\n [3. 3.]]");
    GIVES(bt_take(bt_arange(0, 9, 1, BT_F32), bt_add(bt_i32(2), bt_i32(2)), 0), BT_F32, "4.0");
    GIVES(bt_take_along_axis(bt_full(2, BT_F32, 2, 3), bt_full(1, BT_I32, 2, 1), 1), BT_F32, "[[2.]\n [2.]]");
    GIVES(bt_take_along_axis(vector(), I32((3), -1, 3, 0), 0), BT_F32, "[ 3. nan  1.]");
    GIVES(bt_scatter_add(vector(), I32((3), 0, 7, -1), bt_f32(1), 0), BT_F32, "[2. 2. 4.]");
    GIVES(bt_scatter_add_along_axis(vector(), I32((2), 0, 7), F32((2), 5, 5), 0), BT_F32, "[6. 2. 3.]");
    GIVES(bt_scatter_add(vector(), I32((2), 1, 1), 1, 0), BT_F32, "[1. 4. 3.]");
    GIVES(bt_scatter_max(I32((2), 1, 2), I32((1), 0), 7, 0), BT_I32, "[7 2]");
    GIVES(bt_scatter_min_along_axis(vector(), I32((1), 2), 0.5, 0), BT_F32, "[1.  2.  0.5]");
    GIVES(bt_where(1, vector(), 0), BT_F32, "[1. 2. 3.]");
    GIVES(bt_dynamic_slice(vector(), 1, BT_SHAPE(2)), BT_F32, "[2. 3.]");
    GIVES(bt_update_slice(vector(), F32((1), 9), -1), BT_F32, "[1. 2. 9.]");
    GIVES(bt_outer(2, vector()), BT_F32, "[[2. 4. 6.]]");
    GIVES(bt_kron(vector(), 2), BT_F32, "[2. 4. 6.]");
    GIVES(bt_quantize(vector(), 0.5, BT_I8), BT_I8, "[2 4 6]");
    GIVES(bt_dequantize(BT_ARRAY(int8_t, (1), 3), 2), BT_F32, "[6.]");
    GIVES(bt_bernoulli(bt_key(0), 1, 2), BT_BOOL, "[ True  True]");
    GIVES(bt_boolean_mask(vector(), bt_ne(vector(), bt_f32(2)), 0), BT_F32, "[1. 3.]");
    GIVES(bt_boolean_mask(matrix(), bt_lt(vector(), bt_f32(2)), -1), BT_F32, "[[1.]\n [4.]]");
    GIVES(bt_boolean_mask(matrix(), bt_lt(bt_f32(2), matrix()), 0), BT_F32, "[3. 4. 5. 6.]");
    GIVES(bt_boolean_mask(vector(), bt_zeros(BT_BOOL, 3), 0), BT_F32, "[]");
    GIVES(bt_nonzero(I32((2, 3), 0, 7, -1, 5, 0, 0)), BT_I64, "[[0 1]\n [0 2]\n [1 0]]");
    GIVES(bt_nonzero(F32((3), NAN, -0.0F, 2)), BT_I64, "[[0]\n [2]]");
    GIVES(bt_nonzero(bt_ones(BT_BOOL, 0, 2)), BT_I64, "[]");
    GIVES(bt_scatter_set(vector(), I32((4), 0, 7, -1, 0), F32((4), 5, 6, 7, 8), 0), BT_F32, "[8. 2. 7.]");
    GIVES(bt_scatter_max(vector(), I32((3), 0, 2, 1), F32((3), 5, 1, NAN), 0), BT_F32, "[ 5. nan  3.]");
    GIVES(bt_scatter_min(vector(), I32((2), -1, 3), bt_f32(-4), 0), BT_F32, "[ 1.  2. -4.]");
    GIVES(bt_scatter_set(bt_zeros(BT_BOOL, 3), I32((1), 1), bt_ones(BT_BOOL, 1), 0), BT_BOOL, "[False  True False]");
    GIVES(bt_scatter_set_along_axis(matrix(), I32((2, 1), 0, -1), bt_f32(0), 1), BT_F32, "[[0. 2. 3.]\n [4. 5. 0.]]");
    GIVES(bt_cumprod(F32((4), 2, 3, 0, 5), 0, true), BT_F32, "[0. 0. 0. 5.]");
    GIVES(bt_cummax(F32((5), 1, 3, 2, NAN, 4), 0, false), BT_F32, "[ 1.  3.  3. nan nan]");
    GIVES(bt_cummin(I32((4), 4, 2, 3, 1), 0, true), BT_I32, "[1 1 1 1]");
    GIVES(bt_cross_entropy(F32((1, 2), 0, 0), I32((1), 2)), BT_F32, "nan");
    GIVES(bt_huber(F32((2), 0, 0), F32((2), 1, 3), 2), BT_F32, "2.25");
    GIVES(bt_softmax(bt_zeros(BT_F32, 0), 0), BT_F32, "[]");
}

static void moves_elements(void **state) {
    GIVES(bt_reshape(matrix(), 3, -1), BT_F32, "[[1. 2.]\n [3. 4.]\n [5. 6.]]");
    GIVES(bt_flatten(bt_f32(1), 0), BT_F32, "[1.]");
    GIVES(bt_flatten(matrix(), -2), BT_F32, "[1. 2. 3. 4. 5. 6.]");
    GIVES(bt_slice_axis(vector(), 0, 1, INT64_MAX, 1), BT_F32, "[2. 3.]");
    GIVES(bt_slice_axis(vector(), 0, -1, -4, -2), BT_F32, "[3. 1.]");
    GIVES(bt_slice_axis(vector(), 0, 2, INT64_MIN, INT64_MIN), BT_F32, "[3.]");
    GIVES(bt_flip(matrix(), BT_ALL), BT_F32, "[[6. 5. 4.]\n [3. 2. 1.]]");
    GIVES(bt_tile(vector(), BT_SHAPE(2, 1)), BT_F32, "[[1. 2. 3.]\n [1. 2. 3.]]");
    GIVES(bt_tile(vector(), BT_SHAPE(0)), BT_F32, "[]");
    GIVES(bt_pad(U8((1), 7), SIZES(1), SIZES(2), 300), BT_U8, "[255   7 255 255]");
    GIVES(bt_stack(ALL(vector(), vector()), 2, -1), BT_F32, "[[1. 1.]\n [2. 2.]\n [3. 3.]]");
}

static void multiplies(void **state) {
    GIVES(bt_matmul(matrix(), vector()), BT_F32, "[14. 32.]");
    GIVES(bt_matmul(vector(), vector()), BT_F32, "14.0");
    GIVES(bt_matmul(bt_ones(BT_F32, 2, 1, 2), matrix()), BT_F32, "[[[5. 7. 9.]]\n\n [[5. 7. 9.]]]");
    GIVES(bt_matmul(bt_zeros(BT_F32, 2, 0), bt_zeros(BT_F32, 0, 1)), BT_F32, "[[0.]\n [0.]]");
    GIVES(bt_matmul_t(matrix(), matrix(), false, true), BT_F32, "[[14. 32.]\n [32. 77.]]");
    GIVES(bt_einsum("ij,j", ALL(matrix(), vector()), 2), BT_F32, "[14. 32.]");
    GIVES(bt_einsum("ij->ji", ALL(matrix()), 1), BT_F32, "[[1. 4.]\n [2. 5.]\n [3. 6.]]");
    GIVES(bt_einsum("i,k->ki", ALL(vector(), F32((2), 1, 2)), 2), BT_F32, "[[1. 2. 3.]\n [2. 4. 6.]]");
    GIVES(bt_einsum("ii->i", ALL(bt_matmul_t(matrix(), matrix(), false, true)), 1), BT_F32, "[14. 77.]");
    GIVES(bt_einsum("ii", ALL(bt_matmul_t(matrix(), matrix(), false, true)), 1), BT_F32, "91.0");
    GIVES(bt_einsum("...i,i", ALL(matrix(), vector()), 2), BT_F32, "[14. 32.]");
    GIVES(bt_einsum("...,...j->j...", ALL(bt_f32(2), matrix()), 2), BT_F32, "[[ 2.  8.]\n [ 4. 10.]\n [ 6. 12.]]");
    GIVES(bt_einsum("i,ji,j->", ALL(vector(), matrix(), F32((2), 1, 2)), 3), BT_F32, "78.0");
    GIVES(bt_einsum("ij,kj->", ALL(matrix(), matrix()), 2), BT_F32, "155.0");
    GIVES(bt_conv2d(image(), bt_ones(BT_F32, 1, 2, 2, 2), SIZES(2, 2), NULL, NULL, 1), BT_F32,
          "[[[[8. 8.]\n   [8. 8.]]]]");
    GIVES(bt_max_pool2d(bt_reshape(bt_arange(0, 8, 1, BT_F32), 1, 1, 2, 4), SIZES(2, 2), NULL), BT_F32,
          "[[[[5. 7.]]]]");
    GIVES(bt_adaptive_avg_pool(F32((1, 1, 2), 2e38F, 3e38F), BT_SHAPE(3)), BT_F32, "[[[2.0e+38 2.5e+38 3.0e+38]]]");
    GIVES(bt_adaptive_avg_pool(F32((1, 1, 3), 1, 2, 4), BT_SHAPE(7)), BT_F32, "[[[1.  1.  1.5 2.  3.  4.  4. ]]]");
    GIVES(bt_adaptive_max_pool(F32((1, 1, 3), 1, 2, 4), BT_SHAPE(7)), BT_F32, "[[[1. 1. 2. 2. 4. 4. 4.]]]");
    GIVES(bt_adaptive_max_pool(I32((1, 1, 1), 5), BT_SHAPE(2)), BT_I32, "[[[5 5]]]");
    GIVES(bt_avg_pool2d(bt_reshape(bt_arange(0, 8, 1, BT_I32), 1, 1, 2, 4), SIZES(1, 2), SIZES(1, 1)), BT_F32,
          "[[[[0.5 1.5 2.5]\n   [4.5 5.5 6.5]]]]");
}

static void makes_arrays(void **state) {
    GIVES(bt_full(300, BT_U8, 2), BT_U8, "[255 255]");
    GIVES(bt_zeros(BT_F32, 0, 3), BT_F32, "[]");
    GIVES(bt_ones_like(I32((2), 5, 6)), BT_I32, "[1 1]");
    GIVES(bt_arange(0, 1, 0.25, BT_F32), BT_F32, "[0.   0.25 0.5  0.75]");
    GIVES(bt_arange(5, 0, -2, BT_U8), BT_U8, "[5 3 1]");
    GIVES(bt_arange(1, 1, 1, BT_F64), BT_F64, "[]");
    GIVES(bt_linspace(0, 1, 5, BT_F16), BT_F16, "[0.   0.25 0.5  0.75 1.  ]");
    GIVES(bt_linspace(3, 7, 1, BT_F64), BT_F64, "[3.]");
    GIVES(bt_eye(2, 3, BT_I8), BT_I8, "[[1 0 0]\n [0 1 0]]");
}

/* JAX's; more in tests/golden. */
static void draws_numbers(void **state) {
    assert_int_equal(bt_set_flag("random_layout", "original"), BT_OK);
    GIVES(bt_key(-1), BT_U32, "[4294967295 4294967295]");
    GIVES(bt_uniform(bt_key(0), BT_F32, 2, 3), BT_F32,
          "[[0.57450044 0.09968603 0.7419659 ]\n [0.8941783  0.59656656 0.45325184]]");
    GIVES(bt_randint(bt_key(0), 3, 3, BT_I32, 2), BT_I32, "[3 3]");
    GIVES(bt_randint(bt_key(0), 200, 300, BT_I8, 2), BT_I8, "[127 127]");
    GIVES(bt_bits(bt_key(0), BT_U8, 0), BT_U8, "[]");
    GIVES(bt_bernoulli(bt_key(0), bt_num(1), 2), BT_BOOL, "[ True  True]");
    GIVES(bt_sort(bt_permutation(bt_key(3), 5), 0), BT_I32, "[0 1 2 3 4]");
    GIVES(bt_categorical(bt_key(0), F32((2), 0, -INFINITY), 3), BT_I32, "[0 0 0]");
    GIVES(bt_split(bt_key(0), 0), BT_U32, "[]");
    GIVES(bt_eq(bt_split_at(bt_split(bt_key(7), 3), 1), bt_slice_axis(bt_split(bt_key(7), 3), 0, 1, 2, 1)), BT_BOOL,
          "[[ True  True]]");
    assert_int_equal(bt_set_flag("random_layout", "partitionable"), BT_OK);
    GIVES(bt_eq(bt_split_at(bt_split(bt_key(7), 3), 2), bt_fold_in(bt_key(7), 2)), BT_BOOL, "[ True  True]");
    assert_int_equal(bt_set_flag("random_layout", "original"), BT_OK);
}

/* --- gradients where composing could spoil them ----------------------------------------------------------------------- */

/* d sum(f(x)) / dx */
#define SLOPES(value, expression, text)                                                      \
    BT_SCOPE {                                                                               \
        bt_array *x = value;                                                                 \
        expect_text(bt_grad1(bt_sum(expression, BT_ALL, false), x), BT_F32, text, __LINE__); \
    }

static void slopes_at_corners(void **state) {
    SLOPES(F32((4), -1, 0, 2, INFINITY), bt_relu(x), "[0. 0. 1. 1.]");
    SLOPES(F32((4), -1e4F, -200, 0, 200), bt_softplus(x), "[0.  0.  0.5 1. ]");
    SLOPES(F32((3), -1e4F, 0, 1e4F), bt_elu(x, 2), "[0. 2. 1.]");
    SLOPES(F32((3), -1, 0, INFINITY), bt_leaky_relu(x, 0.5), "[0.5 1.  1. ]");
    SLOPES(F32((3), -1, 0, 1), bt_clamp(x, -1, 1), "[0.5 1.  0.5]");
    SLOPES(F32((3), -1000, 0, 1000), bt_logsumexp(x, BT_ALL, false), "[0. 0. 1.]");
    SLOPES(F32((2), -INFINITY, 0), bt_logsumexp(x, BT_ALL, false), "[0. 1.]");
    SLOPES(F32((3), 0, 1, 3), bt_huber(x, bt_zeros(BT_F32, 3), 1), "[0.         0.33333334 0.33333334]");
    SLOPES(F32((1, 3), 0, 0, -INFINITY), bt_cross_entropy(x, I32((1), 0)), "[[-0.5  0.5  0. ]]");
    SLOPES(vector(), bt_take_along_axis(x, I32((2), -1, 9), 0), "[0. 0. 1.]");
    SLOPES(vector(), bt_scatter_add_along_axis(bt_zeros(BT_F32, 2), I32((3), -1, 9, 0), x, 0), "[1. 0. 1.]");
    SLOPES(vector(), bt_boolean_mask(x, bt_lt(bt_f32(1), x), 0), "[0. 1. 1.]");
    SLOPES(vector(), bt_scatter_set(x, I32((1), 1), bt_f32(9), 0), "[1. 0. 1.]");
    SLOPES(vector(), bt_scatter_set(bt_zeros(BT_F32, 2), I32((3), 1, 1, 4), x, 0), "[0. 1. 0.]");
    SLOPES(F32((3), 2, 2, 1), bt_scatter_max(bt_full(2, BT_F32, 1), I32((3), 0, 0, 0), x, 0),
           "[0.33333334 0.33333334 0.        ]");
    SLOPES(F32((4), 2, 0, 3, 4), bt_cumprod(x, 0, false), "[ 1. 32.  0.  0.]");
    SLOPES(F32((4), 0, 3, 0, 4), bt_cumprod(x, 0, false), "[4. 0. 0. 0.]");
    SLOPES(F32((4), 1, 3, 3, 2), bt_cummax(x, 0, false), "[1. 1. 2. 0.]");
    SLOPES(F32((4), 1, 3, 3, 2), bt_cummin(x, 0, true), "[1. 0. 0. 3.]");
    SLOPES(vector(), bt_mul(bt_stop_gradient(x), x), "[1. 2. 3.]");
    SLOPES(F32((3), 1, 3, 2), bt_top_k(x, 2), "[0. 1. 1.]");
    SLOPES(F32((1, 1, 2), 1, 3), bt_adaptive_avg_pool(x, BT_SHAPE(3)), "[[[1.5 1.5]]]");
    SLOPES(F32((1, 1, 2), 1, 3), bt_adaptive_max_pool(x, BT_SHAPE(3)), "[[[1. 2.]]]");
    SLOPES(F32((4), 3, 1, 2, 1), bt_unique(x, 4), "[1. 2. 1. 0.]");
}

static void makes_grids(void **state) {
    BT_SCOPE {
        bt_array *lines[3] = {vector(), I32((2), 7, 8), bt_f32(1)}, *grids[3];
        assert_int_equal(bt_meshgrid(lines, 2, false, grids), BT_OK);
        expect_text(grids[0], BT_F32, "[[1. 1.]\n [2. 2.]\n [3. 3.]]", __LINE__);
        expect_text(grids[1], BT_I32, "[[7 8]\n [7 8]\n [7 8]]", __LINE__);
        assert_int_equal(bt_meshgrid(lines, 3, true, grids), BT_OK);
        expect_text(grids[0], BT_F32, "[[[1.]\n  [2.]\n  [3.]]\n\n [[1.]\n  [2.]\n  [3.]]]", __LINE__);
        assert_int_equal(bt_shape_of(grids[2]).size[0], 2);
        assert_int_equal(bt_meshgrid(lines, 1, true, grids), BT_OK);
        assert_ptr_not_equal(grids[0], lines[0]);
        expect_text(bt_grad1(bt_sum(grids[0], BT_ALL, false), lines[0]), BT_F32, "[1. 1. 1.]", __LINE__);
        lines[1] = matrix();
        assert_int_equal(bt_meshgrid(lines, 2, false, grids), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_peek_status(grids[1]), BT_INVALID_ARGUMENT);
    }
}

/* What a call is refused with whose sizes do not fit. */
static void expect_refused(bt_array *const *inputs, bt_array *result, bt_array *const *given) {
    assert_int_equal(bt_peek_status(result), BT_OK);
    bt_function *f = bt_function_new(inputs, 2, &result, 1, NULL, 0);
    assert_int_equal(bt_eval(bt_call1(f, given, 2)), BT_INVALID_ARGUMENT);
    assert_non_null(strstr(bt_error_text(), "the sizes do not fit"));
}

static void calls_check_sizes(void **state) {
    BT_SCOPE {
        bt_array *logits[] = {bt_input(BT_F32, -1, -1), bt_input(BT_I32, -1)};
        bt_array *operands[] = {bt_input(BT_F32, -1, -1), bt_input(BT_F32, -1, -1)};
        expect_refused(logits, bt_cross_entropy(logits[0], logits[1]),
                       (bt_array *[]){bt_ones(BT_F32, 3, 4), bt_zeros(BT_I32, 1)});
        expect_refused(operands, bt_cross_entropy(operands[0], operands[1]),
                       (bt_array *[]){bt_ones(BT_F32, 3, 4), bt_ones(BT_F32, 1, 4)});
        expect_refused(operands, bt_einsum("ij,ij->ij", operands, 2),
                       (bt_array *[]){bt_ones(BT_F32, 1, 3), bt_ones(BT_F32, 2, 3)});
        expect_refused(operands, bt_einsum("ij,jk->ik", operands, 2),
                       (bt_array *[]){bt_ones(BT_F32, 2, 1), bt_ones(BT_F32, 3, 2)});
    }
}

static void hostile_counts_and_options(void **state) {
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 2, 3), *grids[8] = {NULL}, *empty = bt_zeros(BT_F32, 2, 0);
        assert_int_equal(bt_peek_status(bt_einsum("ij", &x, INT_MAX)), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_peek_status(bt_einsum("ij", &x, 2)), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_meshgrid(&x, INT_MAX, false, grids), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_peek_status(grids[7]), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_eval(bt_mse(x, x, .ignored = -100)), BT_INVALID_ARGUMENT);
        assert_non_null(strstr(bt_error_text(), ".ignore = true"));
        /* no place is in range: what is out of range is ignored */
        expect_text(bt_scatter_set_along_axis(empty, bt_zeros(BT_I32, 2, 3), bt_ones(BT_F32, 2, 3), 1), BT_F32, "[]",
                    __LINE__);
        assert_int_equal(bt_peek_status(bt_take_along_axis(empty, bt_zeros(BT_I32, 2, 3), 1)), BT_INVALID_ARGUMENT);
    }
}

static void calls_say_why(void **state) {
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, -1), *none = bt_zeros(BT_F32, 0), *made[] = {bt_unique(x, 2), bt_max(x)};
        const char *why[] = {" bt_unique: ", "no elements along axis 0 to take the max of"};
        for (int i = 0; i < 2; i++) {
            assert_int_equal(bt_eval(bt_call1(bt_function_new(&x, 1, &made[i], 1, NULL, 0), &none, 1)),
                             BT_INVALID_ARGUMENT);
            assert_non_null(strstr(bt_error_text(), why[i]));
            assert_non_null(strstr(bt_error_text(), " of shapes (0,); "));
        }
    }
}

/* A result whose size depends on values is none of a function. */
static void masks_need_values(void **state) {
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 3);
        assert_int_equal(bt_eval(bt_boolean_mask(x, bt_lt(x, bt_f32(2)), 0)), BT_FAILED_PRECONDITION);
        assert_non_null(strstr(bt_error_text(), "bt_where(mask, x, y)"));
        assert_int_equal(bt_peek_status(bt_nonzero(x)), BT_FAILED_PRECONDITION);
    }
}

#define LOSSES(X)                                                                                                 \
    X(std, bt_std(a, BT_AXES(0), false, 1))                                                                       \
    X(norm, bt_norm(a, BT_AXES(-1), true))                                                                        \
    X(prod, bt_prod(a, BT_AXES(1), false))                                                                        \
    X(mae, bt_mae(a, b))                                                                                          \
    X(huber, bt_huber(a, b, 0.3))                                                                                 \
    X(binary_cross_entropy, bt_binary_cross_entropy(a, b))                                                        \
    X(cross_entropy, bt_cross_entropy(a, I32((2), 2, 0)))                                                         \
    X(layer_norm, bt_layer_norm(a, bt_flatten(bt_slice_axis(b, 0, 0, 1, 1), 0), NULL, 1e-5))                      \
    X(softmax, bt_mul(bt_softmax(a, 0), b))                                                                       \
    X(silu, bt_silu(a))                                                                                           \
    X(gelu_tanh, bt_gelu_tanh(a))                                                                                 \
    X(take_along, bt_take_along_axis(a, I32((2, 2), 0, -1, 2, 2), 1))                                             \
    X(scatter_along, bt_square(bt_scatter_add_along_axis(a, I32((2, 3), 0, -1, 0, 1, 1, 2), b, 1)))               \
    X(scatter_set, bt_square(bt_scatter_set_along_axis(a, I32((2, 3), 0, -1, 0, 1, 1, 2), b, 1)))                 \
    X(scatter_max, bt_square(bt_scatter_max_along_axis(a, I32((2, 3), 0, -1, 0, 1, 1, 2), b, 1)))                 \
    X(cumprod, bt_mul(bt_cumprod(a, 1, false), b))                                                                \
    X(cummax, bt_mul(bt_cummax(a, 1, false), b))                                                                  \
    X(sort, bt_mul(bt_sort(a, 1), b))                                                                             \
    X(tile, bt_square(bt_tile(a, BT_SHAPE(2, 1))))                                                                \
    X(slice, bt_square(bt_slice(a, SIZES(1, -1), SIZES(-3, -4), SIZES(-1, -2))))                                  \
    X(einsum, bt_einsum("ij,kj->ki", ALL(a, b), 2))                                                               \
    X(einsum_three, bt_einsum("ij,kj,...k->...i", ALL(a, b, bt_transpose(a)), 3))                                 \
    X(einsum_alone, bt_einsum("ij,ij->j", ALL(a, b), 2))                                                          \
    X(matmul, bt_matmul_t(bt_expand_dims(a, 0), b, true, false))                                                  \
    X(conv2d, bt_conv2d(bt_reshape(a, 1, 2, 1, 3), bt_reshape(b, 1, 2, 1, 3), SIZES(1, 2), NULL, SIZES(0, 2), 1)) \
    X(grouped_conv2d, bt_conv2d(bt_reshape(a, 1, 2, 1, 3), bt_reshape(b, 6, 1, 1, 1), NULL, NULL, NULL, 2))       \
    X(max_pool2d, bt_max_pool2d(bt_reshape(a, 1, 1, 2, 3), SIZES(2, 2), SIZES(1, 1)))

#define LOSS(name, expression)                                                        \
    static bt_array *loss_##name(bt_array *const *arguments, int count, void *data) { \
        bt_array *a = arguments[0], *b = arguments[1];                                \
        (void)b;                                                                      \
        return bt_sum(expression, BT_ALL, false);                                     \
    }
LOSSES(LOSS)

static void gradients_agree_with_differences(void **state) {
    static const struct {
        const char *name;
        bt_loss_fn *loss;
    } cases[] = {
#define ROW(name, ...) {#name, loss_##name},
        LOSSES(ROW)};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        BT_SCOPE {
            bt_array *a = BT_ARRAY(double, (2, 3), 0.7, -0.4, 1.3, 0.2, 0.9, -1.1);
            bt_array *b = BT_ARRAY(double, (2, 3), 0.1, 0.5, 0.3, 0.8, -0.6, 0.4);
            double worst = 1;
            assert_int_equal(bt_check_grad(cases[i].loss, NULL, ALL(a, b), 2, 0, &worst), BT_OK);
            if (!(worst < 1e-6)) fail_msg("%s: gradients differ by %g", cases[i].name, worst);
        }
}

/* --- sizes that are not known yet -------------------------------------------------------------------------------------- */

/* The function of x, called with [2, 3] and [4, 3], gives what the expression gives of an array. */
#define UNKNOWN(expression)                                                                                        \
    for (int64_t rows = 2; rows <= 4; rows += 2)                                                                   \
        BT_SCOPE {                                                                                                 \
            bt_array *given = bt_reshape(bt_arange(0, (double)rows * 3, 1, BT_F32), rows, 3);                      \
            bt_array *x = bt_input(BT_F32, -1, 3), *made = expression;                                             \
            bt_function *function = bt_function_new(ALL(x), 1, ALL(made), 1, NULL, 0);                             \
            if (bt_function_status(function) != BT_OK) fail_msg("line %d: %s", __LINE__, bt_error_text());         \
            bt_array *got = bt_call1(function, ALL(given), 1);                                                     \
            x = given;                                                                                             \
            bt_array *same = bt_all(bt_eq(got, expression), BT_ALL, false);                                        \
            bool agrees = false;                                                                                   \
            if (bt_read(same, &agrees, 1) != BT_OK || !agrees) fail_msg("line %d: %s", __LINE__, bt_error_text()); \
        }

/* Two inputs whose sizes agree only at the call; f: of x [n, 3] and y [m, 3]. */
static void expect_two(bt_array *x, bt_array *y, bt_array *made, bt_array *rows, const char *text, int line) {
    bt_function *function = bt_function_new(ALL(x, y), 2, ALL(made), 1, NULL, 0);
    if (bt_function_status(function) != BT_OK) fail_msg("line %d: %s", line, bt_error_text());
    expect_text(bt_call1(function, ALL(matrix(), rows), 2), BT_F32, text, line);
    bt_array *misfit = bt_call1(function, ALL(matrix(), bt_zeros(bt_dtype_of(y), 5, 3)), 2);
    if (bt_block(misfit) != BT_INVALID_ARGUMENT) fail_msg("line %d: 2 rows and 5 rows passed", line);
}
#define TWO_UNKNOWN(dtype, expression, rows, text)                          \
    BT_SCOPE {                                                              \
        bt_array *x = bt_input(BT_F32, -1, 3), *y = bt_input(dtype, -1, 3); \
        expect_two(x, y, expression, rows, text, __LINE__);                 \
    }

static void checks_unknown_sizes_at_the_call(void **state) {
    TWO_UNKNOWN(BT_F32, bt_mse(x, y), matrix(), "0.0");
    TWO_UNKNOWN(BT_F32, bt_add_n(ALL(x, y), 2), matrix(), "[[ 2.  4.  6.]\n [ 8. 10. 12.]]");
    TWO_UNKNOWN(BT_F32, bt_concat(ALL(x, y), 2, 1), matrix(), "[[1. 2. 3. 1. 2. 3.]\n [4. 5. 6. 4. 5. 6.]]");
    TWO_UNKNOWN(BT_F32, bt_matmul_t(x, y, true, false), matrix(), "[[17. 22. 27.]\n [22. 29. 36.]\n [27. 36. 45.]]");
    TWO_UNKNOWN(BT_F32, bt_einsum("ij,ij->i", ALL(x, y), 2), matrix(), "[14. 77.]");
    TWO_UNKNOWN(BT_F32, bt_cross_entropy(bt_mul(x, bt_f32(0)), y), bt_zeros(BT_F32, 2, 3), "0.0");
    TWO_UNKNOWN(BT_I32, bt_cross_entropy(bt_mul(x, bt_f32(0)), bt_argmax(y, 1)), I32((2, 3), 0, 1, 2, 2, 1, 0),
                "1.0986123");
    TWO_UNKNOWN(BT_I32, bt_take_along_axis(x, y, 1), I32((2, 3), 0, 1, 2, -1, 1, 0), "[[1. 2. 3.]\n [6. 5. 4.]]");
}

static void works_with_unknown_sizes(void **state) {
    UNKNOWN(bt_softmax(x, 0));
    UNKNOWN(bt_mean(x, BT_ALL, false));
    UNKNOWN(bt_var(x, BT_AXES(0), true, 1));
    UNKNOWN(bt_reshape(x, 3, -1));
    UNKNOWN(bt_flatten(x, 0));
    UNKNOWN(bt_flip(x, BT_ALL));
    UNKNOWN(bt_tile(x, BT_SHAPE(2, 2)));
    UNKNOWN(bt_slice_axis(x, 0, 1, 2, 1));
    UNKNOWN(bt_concat(ALL(x, x), 2, 0));
    UNKNOWN(bt_matmul(x, bt_transpose(x)));
    UNKNOWN(bt_einsum("ij,ik->jk", ALL(x, x), 2));
    UNKNOWN(bt_top_k(bt_transpose(x), 2));
    UNKNOWN(bt_searchsorted(bt_flatten(x, 0), bt_sub(x, bt_num(0.5)), true));
    UNKNOWN(bt_bincount(bt_cast(bt_div(x, bt_num(2)), BT_I32), 4));
    UNKNOWN(bt_histogram(x, 3, 1, 8));
    UNKNOWN(bt_unique(bt_floor(bt_div(x, bt_num(2))), 7));
    UNKNOWN(bt_set_at(bt_reshape(x, -1, 3), ":, ::2", bt_num(7)));
    UNKNOWN(bt_cross_entropy(x, x));
    UNKNOWN(bt_take(x, I32((2), -1, 0), 0));
    UNKNOWN(bt_dynamic_slice_axis(x, bt_cast(bt_slice_axis(bt_flatten(x, 0), 0, 1, 2, 1), BT_I32), 2, 1));
    UNKNOWN(bt_update_slice(x, bt_ones(BT_F32, 1, 2), bt_cast(bt_slice_axis(bt_flatten(x, 0), 0, 1, 3, 1), BT_I32)));
    UNKNOWN(bt_zeros_like(x));
    UNKNOWN(bt_uniform_shape(bt_key(1), 0, 1, BT_F32, bt_shape_of(x)));
    UNKNOWN(bt_bits_shape(bt_key(1), BT_U16, bt_shape_of(x)));
    UNKNOWN(bt_conv2d(bt_reshape(x, -1, 1, 1, 3), bt_ones(BT_F32, 2, 1, 1, 2), NULL, NULL, NULL, 1));
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, -1, 3);
        BAD(slice_axis, bt_slice_axis(x, 0, -1, 2, 1), "axis 0 of shape (?");
        BAD(dynamic_slice_axis, bt_dynamic_slice_axis(x, bt_i32(0), 8, 0), "axis 0 of shape (?");
        BAD(shuffle, bt_shuffle(bt_key(0), x, 0), "known size");
        BAD(conv2d, bt_conv2d(bt_reshape(x, 1, 1, -1, 3), image(), NULL, NULL, NULL, 1), "only the first axis of x");
        BAD(max_pool2d, bt_max_pool2d(bt_reshape(x, 1, 1, -1, 3), SIZES(1, 1), NULL), "no known size");
    }
}

static void names_every_operation(void **state) {
    assert_string_equal(bti_log_name("bt_matmul"), "MatMul");
    assert_string_equal(bti_log_name("bt_add_n"), "AddN");
    assert_null(bti_log_name("bt_num"));
    assert_null(bti_name_at(-1));
    int i = 0;
    for (const bti_op_name *row; (row = bti_name_at(i)); i++) {
        assert_string_equal(bti_log_name(row->public_name), row->log_name); /* in order, so it is found */
        assert_memory_equal(row->public_name, "bt_", 3);
    }
    assert_true(i > 120);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_dtypes),
        cmocka_unit_test(cuts_into_parts),
        cmocka_unit_test(cuts_where_told),
        cmocka_unit_test(handles_edges),
        cmocka_unit_test(moves_elements),
        cmocka_unit_test(multiplies),
        cmocka_unit_test(makes_arrays),
        cmocka_unit_test(draws_numbers),
        cmocka_unit_test(names_every_operation),
        cmocka_unit_test(makes_grids),
        cmocka_unit_test(calls_say_why),
        cmocka_unit_test(masks_need_values),
        cmocka_unit_test(calls_check_sizes),
        cmocka_unit_test(hostile_counts_and_options),
        cmocka_unit_test(slopes_at_corners),
        cmocka_unit_test(gradients_agree_with_differences),
        cmocka_unit_test(works_with_unknown_sizes),
        cmocka_unit_test(checks_unknown_sizes_at_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

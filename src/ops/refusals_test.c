// labels: valgrind
/* What composed operations say to what does not fit. */
#include "ops/ops_test.h"

static void refuses_one_input(void **state) {
    BAD(neg, bt_neg(NULL), "argument 1 is NULL");
    BAD(neg, bt_neg(truths()), "not bool");
    BAD(abs, bt_abs(NULL), "NULL");
    BAD(sign, bt_sign(truths()), "not bool");
    BAD(square, bt_square(NULL), "NULL");
    BAD(floor, bt_floor(NULL), "NULL");
    BAD(exp, bt_exp(NULL), "NULL");
    BAD(erfinv, bt_erfinv(NULL), "NULL");
    BAD(reciprocal, bt_reciprocal(NULL), "NULL");
    BAD(logical_not, bt_logical_not(NULL), "NULL");
    BAD(bit_not, bt_bit_not(vector()), "not float32");
    BAD(isnan, bt_isnan(NULL), "NULL");
    BAD(isinf, bt_isinf(NULL), "NULL");
    BAD(isfinite, bt_isfinite(NULL), "NULL");
    BAD(relu, bt_relu(NULL), "NULL");
    BAD(sigmoid, bt_sigmoid(NULL), "NULL");
    BAD(softplus, bt_softplus(NULL), "NULL");
    BAD(silu, bt_silu(NULL), "NULL");
    BAD(gelu, bt_gelu(NULL), "NULL");
    BAD(gelu_tanh, bt_gelu_tanh(NULL), "NULL");
    BAD(elu, bt_elu(NULL, 1), "NULL");
    BAD(leaky_relu, bt_leaky_relu(NULL, 1), "NULL");
    BAD(identity, bt_identity(NULL), "NULL");
    BAD(stop_gradient, bt_stop_gradient(NULL), "NULL");
}

static void refuses_two_inputs(void **state) {
    BAD(add, bt_add(vector(), NULL), "argument 2 is NULL");
    BAD(add, bt_add(F32((2), 1, 2), vector()), "(2,) and (3,)");
    BAD(sub, bt_sub(truths(), truths()), "not bool");
    BAD(bit_and, bt_bit_and(vector(), vector()), "not float32");
    BAD(shift_left, bt_shift_left(vector(), vector()), "not float32");
    BAD(gt, bt_gt(NULL, vector()), "NULL");
    BAD(logical_and, bt_logical_and(vector(), NULL), "argument 2 is NULL");
    BAD(where, bt_where(truths(), vector(), vector()), "do not broadcast");
    BAD(clamp, bt_clamp(I32((1), 1), NAN, 2), "NaN");
    BAD(cast, bt_cast(vector(), BT_DTYPE_COUNT), "not a dtype");
    BAD(cast, bt_cast(vector(), (bt_dtype)-1), "not a dtype");
    BAD(bitcast, bt_bitcast(vector(), BT_F64), "float32 has 4 bytes and float64 has 8");
    BAD(bitcast, bt_bitcast(vector(), (bt_dtype)99), "not a dtype");
    BAD(add_n, bt_add_n(NULL, 2), "at least one");
    BAD(add_n, bt_add_n(ALL(vector()), 0), "at least one");
    BAD(add_n, bt_add_n(ALL(vector(), NULL), 2), "argument 2 is NULL");
    BAD(add_n, bt_add_n(ALL(vector(), matrix()), 2), "array 1 is float32 (2, 3)");
    BAD(add_n, bt_add_n(ALL(vector(), I32((3), 1, 2, 3)), 2), "array 1 is int32 (3,)");
}

/* All parts are poisoned with what was refused. */
static bt_array *last_of_split(bt_array *x, int axis, const int64_t *sizes, int count) {
    bt_array *parts[4] = {0};
    assert_int_not_equal(bt_split_axis(x, axis, sizes, count, parts), BT_OK);
    return parts[count - 1];
}
static bt_array *last_of_stack(bt_array *x, int axis, int count) {
    bt_array *parts[4] = {0};
    assert_int_not_equal(bt_unstack(x, axis, count, parts), BT_OK);
    return parts[count - 1];
}

static void refuses_parts(void **state) {
    BAD(split_axis, last_of_split(NULL, 0, NULL, 2), "NULL");
    BAD(split_axis, last_of_split(vector(), 1, NULL, 2), "axis 1");
    BAD(split_axis, last_of_split(vector(), 0, NULL, 2), "2 equal parts");
    BAD(split_axis, last_of_split(vector(), 0, SIZES(1, -1, 3), 3), "part 1 has -1 elements");
    BAD(split_axis, last_of_split(vector(), 0, SIZES(1, INT64_MAX), 2), "2 of the 3 along axis 0 are left");
    BAD(split_axis, last_of_split(vector(), 0, SIZES(1, 1), 2), "leave 1 of the 3");
    BAD(split_axis, last_of_split(bt_input(BT_F32, -1), 0, NULL, 2), "no known size");
    BAD(unstack, last_of_stack(matrix(), 0, 3), "count is 3; axis 0 of shape (2, 3) has 2");
    BAD(unstack, last_of_stack(bt_f32(1), 0, 1), "0 dimensions");
    assert_int_equal(bt_unstack(vector(), 0, -1, NULL), BT_INVALID_ARGUMENT);
    assert_int_equal(bt_split_axis(vector(), 0, NULL, 3, NULL), BT_INVALID_ARGUMENT);
    assert_int_equal(bt_split_axis(vector(), 0, NULL, 0, NULL), BT_INVALID_ARGUMENT);
}

static void refuses_places(void **state) {
    BAD(at, bt_at(image(), NULL), "there is none");
    BAD(at, bt_at(image(), ""), "an entry is");
    BAD(at, bt_at(image(), "0,,0"), "an entry is");
    BAD(at, bt_at(image(), "0 0"), "between commas");
    BAD(at, bt_at(image(), "::0"), "a step is 0");
    BAD(at, bt_at(image(), "0:1:1:1"), "between commas");
    BAD(at, bt_at(image(), "99"), "out of range");
    BAD(at, bt_at(image(), "99999999999999999999"), "64 bits");
    BAD(at, bt_at(image(), "0, 0, 0, 0, 0"), "more entries than x has axes");
    BAD(at, bt_at(image(), "..., ..."), "stands twice");
    BAD(at, bt_at(image(), "None, None, None, None, None"), "too many axes");
    BAD(set_at, bt_set_at(image(), "0", bt_ones(BT_F32, 99)), "broadcast");
    BAD(set_at, bt_set_at(image(), "..., ::0", bt_num(1)), "a step is 0");
    BAD(set_at, bt_set_at(vector(), "0", bt_cast(bt_f32(1), BT_C64)), "values are complex64 and x is float32");
    BAD(set_at, bt_set_at(U8((1), 7), "0", 300), "300 does not fit uint8");
    BAD(index, bt_index(image(), 0, INT64_MIN), "it can be");
    BAD(roll, bt_roll(image(), 1, 4), "axis 4");
    BAD(diff, bt_diff(image(), -5), "axis -5");
    BAD(tril, bt_tril(vector(), 0), "two axes or more");
    BAD(diag, bt_diag(bt_ones(BT_F32, ), 0), "one to 7 axes");
    BAD(kron, bt_kron(image(), bt_ones(BT_F32, 1, 1, 1, 1, 1)), "up to 4 axes");
    BAD(tensordot, bt_tensordot(image(), image(), BT_AXES(0), BT_AXES(0, 1)), "as many and as long");
    BAD(quantile, bt_quantile(image(), 1.5, BT_ALL, false), "it must be 0 to 1");
    BAD(median, bt_median(bt_ones(BT_F32, 0), BT_ALL, false), "no elements");
}

static void refuses_dynamic_slices(void **state) {
    BAD(dynamic_slice, bt_dynamic_slice(matrix(), bt_i32(0), BT_SHAPE(1, 1)), "must have 2 integers");
    BAD(dynamic_slice, bt_dynamic_slice(matrix(), I32((2), 0, 0), BT_SHAPE(1)), "the size has 1 axes");
    BAD(dynamic_slice, bt_dynamic_slice(matrix(), I32((2), 0, 0), BT_SHAPE(1, 4)), "4 elements along axis 1");
    BAD(dynamic_slice, bt_dynamic_slice(matrix(), vector(), BT_SHAPE(1, 1)), "must have 2 integers");
    BAD(dynamic_slice, bt_dynamic_slice(vector(), F32((1), 0), BT_SHAPE(1)), "must be integers");
    BAD(dynamic_slice_axis, bt_dynamic_slice_axis(vector(), bt_i32(0), -1, 0), "-1 elements along axis 0");
    BAD(dynamic_slice_axis, bt_dynamic_slice_axis(vector(), bt_i32(0), INT64_MIN, 0),
        "-9223372036854775808 elements along");
    BAD(dynamic_slice, bt_dynamic_slice(vector(), bt_i32(0), BT_SHAPE(INT64_MIN)),
        "-9223372036854775808 elements along");
    BAD(dynamic_slice_axis, bt_dynamic_slice_axis(vector(), I32((2), 0, 0), 1, 0), "must have 1 integer");
    BAD(dynamic_slice_axis, bt_dynamic_slice_axis(vector(), bt_i32(0), 1, 1), "axis 1");
    BAD(update_slice, bt_update_slice(matrix(), vector(), I32((2), 0, 0)), "as many axes");
    BAD(update_slice, bt_update_slice(vector(), F32((4), 1, 2, 3, 4), I32((1), 0)), "4 elements along axis 0");
    BAD(update_slice, bt_update_slice(I32((1), 1), F32((1), 1), I32((1), 0)), "bt_cast");
    BAD(update_slice_axis, bt_update_slice_axis(matrix(), F32((1, 2), 1, 2), bt_i32(0), 0), "broadcast");
    BAD(update_slice_axis, bt_update_slice_axis(matrix(), vector(), bt_i32(0), 0), "as many axes");
    BAD(update_slice_axis, bt_update_slice_axis(matrix(), matrix(), bt_f32(0), 0), "must be integers");
}

static void refuses_reductions(void **state) {
    BAD(sum, bt_sum(NULL, BT_ALL, false), "NULL");
    BAD(sum, bt_sum(vector(), BT_AXES(1), false), "axis 1");
    BAD(sum, bt_sum(matrix(), BT_AXES(0, -2), false), "twice");
    BAD(sum, bt_sum(vector(), BT_AXES(0, 1, 2, 3, 4, 5, 6, 7, 8), false), "axis 1");
    BAD(sum_as, bt_sum_as(vector(), BT_ALL, false, BT_DTYPE_COUNT), "not a dtype");
    BAD(sum_as, bt_sum_as(vector(), BT_ALL, false, BT_BOOL), "not bool");
    BAD(prod, bt_prod(vector(), BT_AXES(-2), false), "axis -2");
    BAD(prod_as, bt_prod_as(vector(), BT_ALL, false, BT_BOOL), "not bool");
    BAD(mean, bt_mean(vector(), BT_AXES(9), false), "axis 9");
    BAD(max, bt_max(bt_zeros(BT_F32, 0, 3), BT_ALL, false), "no elements");
    BAD(min, bt_min(bt_zeros(BT_F32, 3, 0), BT_AXES(1), false), "no elements");
    BAD(all, bt_all(vector(), BT_AXES(3), false), "axis 3");
    BAD(any, bt_any(vector(), BT_AXES(3), false), "axis 3");
    BAD(logsumexp, bt_logsumexp(vector(), BT_AXES(3), false), "axis 3");
    BAD(var, bt_var(vector(), BT_AXES(3), false, 0), "axis 3");
    BAD(std, bt_std(vector(), BT_AXES(3), false, 0), "axis 3");
    BAD(norm, bt_norm(vector(), BT_AXES(3), false), "axis 3");
    BAD(argmax, bt_argmax(bt_f32(1), 0), "axis 0");
    BAD(argmin, bt_argmin(bt_zeros(BT_F32, 0), 0), "no elements");
    BAD(cumsum, bt_cumsum(vector(), 1, false), "axis 1");
    BAD(cumsum, bt_cumsum(truths(), 0, false), "not bool");
    BAD(cumprod, bt_cumprod(truths(), 0, false), "not bool");
    BAD(cummax, bt_cummax(vector(), 1, false), "axis 1");
    BAD(cummin, bt_cummin(bt_f32(1), 0, false), "axis 0");
}

static void refuses_shapes(void **state) {
    BAD(reshape, bt_reshape(matrix(), 4, -1), "no size for -1");
    BAD(reshape, bt_reshape(matrix(), -1, -1), "both -1");
    BAD(reshape, bt_reshape(matrix(), 2, 4), "(2, 4)");
    BAD(reshape, bt_reshape(matrix(), -6, -1), "negative");
    BAD(reshape, bt_reshape(bt_zeros(BT_F32, 0), 0, -1), "no size for -1");
    BAD(reshape, bt_reshape(matrix(), 1, 1, 1, 1, 1, 1, 1, 2, 3), "9 dimensions");
    BAD(flatten, bt_flatten(matrix(), 2), "axis 2");
    BAD(permute, bt_permute(matrix(), 0), "each of the 2 axes of shape (2, 3) once");
    BAD(permute, bt_permute(matrix(), 0, 0), "twice");
    BAD(permute, bt_permute(matrix(), 0, 1, 2), "each of the 2 axes");
    BAD(transpose, bt_transpose(NULL), "NULL");
    BAD(expand_dims, bt_expand_dims(vector(), 2), "-2 to 1");
    BAD(expand_dims, bt_expand_dims(deep(), 0), "the most there are");
    BAD(squeeze, bt_squeeze(matrix(), 0), "not of size 1");
    BAD(broadcast_to, bt_broadcast_to(vector(), 2), "(2,)");
    BAD(broadcast_to, bt_broadcast_to(matrix(), 3), "smaller rank");
    BAD(broadcast_to, bt_broadcast_to(bt_f32(1), -1), "negative");
    BAD(broadcast_to, bt_broadcast_to(bt_f32(1), INT64_MAX, 2), "63 bits");
    BAD(slice, bt_slice(matrix(), NULL, SIZES(1, 1), NULL), "start is NULL");
    BAD(slice, bt_slice(matrix(), SIZES(0, 0), NULL, NULL), "stop is NULL");
    BAD(slice, bt_slice(matrix(), SIZES(0, 0), SIZES(1, 1), SIZES(1, 0)), "step along axis 1 is 0");
    BAD(slice_axis, bt_slice_axis(matrix(), 2, 0, 1, 1), "axis 2");
    BAD(slice_axis, bt_slice_axis(matrix(), 0, 0, 1, 0), "is 0");
    BAD(flip, bt_flip(matrix(), BT_AXES(2)), "axis 2");
    BAD(pad, bt_pad(vector(), NULL, SIZES(1), 0), "low is NULL");
    BAD(pad, bt_pad(vector(), SIZES(-1), SIZES(1), 0), "-1 and 1");
    BAD(pad, bt_pad(vector(), SIZES(INT64_MAX), SIZES(INT64_MAX), 0), "63 bits");
    BAD(concat, bt_concat(NULL, 1, 0), "at least one");
    BAD(concat, bt_concat(ALL(vector(), NULL), 2, 0), "argument 2 is NULL");
    BAD(concat, bt_concat(ALL(vector(), matrix()), 2, 0), "array 1 has shape (2, 3)");
    BAD(concat, bt_concat(ALL(bt_f32(1)), 1, 0), "axis 0");
    BAD(stack, bt_stack(ALL(vector(), matrix()), 2, 0), "array 1 has shape (2, 3)");
    BAD(stack, bt_stack(ALL(vector()), 1, 3), "-2 to 1");
    BAD(stack, bt_stack(ALL(deep()), 1, 0), "the most there are");
    BAD(tile, bt_tile(vector(), BT_SHAPE(-1)), "negative");
    BAD(tile, bt_tile(vector(), rank_9()), "9 dimensions");
    BAD(tile, bt_tile(vector(), BT_SHAPE(INT64_MAX / 2)), "63 bits");
    BAD(one_hot, bt_one_hot(vector(), 3, BT_F32), "must be integers");
    BAD(one_hot, bt_one_hot(I32((1), 1), -3, BT_F32), "negative");
    BAD(one_hot, bt_one_hot(I32((1), 1), 3, BT_DTYPE_COUNT), "not a dtype");
}

static void refuses_indices(void **state) {
    BAD(take, bt_take(vector(), vector(), 0), "must be integers");
    BAD(take, bt_take(vector(), bt_ones(BT_BOOL, 3), 0), "bt_where(mask, x, y)");
    BAD(take, bt_take(vector(), I32((1), 0), 1), "axis 1");
    BAD(take, bt_take(deep(), bt_zeros(BT_I32, 1, 1), 0), "make 9 axes");
    BAD(boolean_mask, bt_boolean_mask(vector(), vector(), 0), "must be bool");
    BAD(boolean_mask, bt_boolean_mask(matrix(), bt_ones(BT_BOOL, 3), 0), "from axis 0 on; x has shape (2, 3)");
    BAD(boolean_mask, bt_boolean_mask(matrix(), bt_ones(BT_BOOL, 3, 1), 1), "from axis 1 on");
    BAD(boolean_mask, bt_boolean_mask(vector(), bt_ones(BT_BOOL, 3), 1), "axis 1");
    BAD(nonzero, bt_nonzero(bt_f32(1)), "is a scalar");
    BAD(scatter_add, bt_scatter_add(vector(), I32((1), 0), matrix(), 0), "(2, 3)");
    BAD(scatter_add, bt_scatter_add(vector(), bt_i32(0), bt_f32(1), 0), "one axis");
    BAD(scatter_add, bt_scatter_add(I32((1), 1), I32((1), 0), bt_f32(1), 0), "updates are float32 and x is int32");
    BAD(scatter_set, bt_scatter_set(vector(), I32((1), 0), matrix(), 0), "(2, 3)");
    BAD(scatter_max, bt_scatter_max(vector(), bt_i32(0), bt_f32(1), 0), "one axis");
    BAD(scatter_min, bt_scatter_min(I32((1), 1), I32((1), 0), bt_f32(1), 0), "updates are float32 and x is int32");
    BAD(take_along_axis, bt_take_along_axis(matrix(), I32((1), 0), 0), "differ on axis 0 only");
    BAD(take_along_axis, bt_take_along_axis(bt_zeros(BT_F32, 0), I32((1), 0), 0), "is empty");
    BAD(take_along_axis, bt_take_along_axis(vector(), vector(), 0), "must be integers");
    BAD(scatter_add_along_axis, bt_scatter_add_along_axis(vector(), I32((1), 0), matrix(), 0), "(2, 3)");
    BAD(scatter_set_along_axis, bt_scatter_set_along_axis(vector(), vector(), vector(), 0), "must be integers");
    BAD(scatter_max_along_axis, bt_scatter_max_along_axis(matrix(), I32((1, 1), 0), bt_f32(1), 1),
        "differ on axis 1 only");
    BAD(scatter_min_along_axis, bt_scatter_min_along_axis(vector(), I32((1), 0), matrix(), 0), "(2, 3)");
    BAD(sort, bt_sort(vector(), 1), "axis 1");
    BAD(argsort, bt_argsort(bt_f32(1), 0), "axis 0");
    BAD(top_k, bt_top_k(vector(), 4), "k is 4");
    BAD(top_k, bt_top_k(vector(), -1), "k is -1");
    BAD(top_k_indices, bt_top_k_indices(bt_f32(1), 0), "scalar");
    BAD(searchsorted, bt_searchsorted(matrix(), vector(), false), "(2, 3)");
    BAD(searchsorted, bt_searchsorted(bt_cast(vector(), BT_F8E5M2), vector(), false), "is a storage type");
    BAD(bincount, bt_bincount(vector(), 3), "must be integers");
    BAD(bincount, bt_bincount(I32((1), 0), -1), "length is -1");
    BAD(histogram, bt_histogram(vector(), 0, 0, 1), "bins is 0");
    BAD(histogram, bt_histogram(vector(), 3, 1, 1), "from 1 to 1");
    BAD(histogram, bt_histogram(vector(), 3, 0, NAN), "finite");
    BAD(unique, bt_unique(vector(), -1), "size is -1");
    BAD(unique, bt_unique(bt_zeros(BT_F32, 0), 1), "no elements");
}

static void refuses_products(void **state) {
    BAD(matmul, bt_matmul(matrix(), matrix()),
        "shapes (2, 3) and (2, 3) do not fit: the last axis of a (3) must equal the second to last of b (2)");
    BAD(matmul, bt_matmul(bt_f32(1), vector()), "use bt_mul");
    BAD(matmul, bt_matmul(bt_zeros(BT_F32, 2, 1, 3), bt_zeros(BT_F32, 3, 3, 1)), "leading axes");
    BAD(matmul, bt_matmul(truths(), truths()), "not bool");
    BAD(matmul_as, bt_matmul_as(matrix(), vector(), (bt_dtype)99), "not a dtype");
    BAD(matmul_as, bt_matmul_as(matrix(), bt_transpose(matrix()), BT_BOOL), "not bool");
    BAD(matmul_as, bt_matmul_as(matrix(), matrix(), BT_I32), "the last axis of a (3) must equal");
    BAD(matmul_t, bt_matmul_t(matrix(), matrix(), true, true), "the last axis of a (2) must equal");
    BAD(einsum, bt_einsum(NULL, ALL(vector()), 1), "such as");
    BAD(einsum, bt_einsum("i->i", NULL, 1), "such as");
    BAD(einsum, bt_einsum("i,i", ALL(vector(), NULL), 2), "argument 2 is NULL");
    BAD(einsum, bt_einsum("i,i,i->i", ALL(vector(), vector()), 2), "3 operands; count is 2");
    BAD(einsum, bt_einsum("i->i", ALL(vector(), vector()), 2), "1 operands");
    BAD(einsum, bt_einsum("..i->i", ALL(vector()), 1), "only letters");
    BAD(einsum, bt_einsum("...i...->i", ALL(vector()), 1), "... stands twice");
    BAD(einsum, bt_einsum("...ij->i", ALL(vector()), 1), "2 letters and shape (3,)");
    BAD(einsum, bt_einsum("...,...", ALL(vector(), bt_zeros(BT_F32, 2)), 2), "an axis of ...");
    BAD(einsum, bt_einsum("ij->ii", ALL(matrix()), 1), "twice in the result");
    BAD(einsum, bt_einsum("i-", ALL(vector()), 1), "only letters");
    BAD(einsum, bt_einsum("ii->i", ALL(matrix()), 1), "two sizes");
    BAD(einsum, bt_einsum("i->j", ALL(vector()), 1), "stands in no operand");
    BAD(einsum, bt_einsum("ij->i", ALL(vector()), 1), "2 letters and shape (3,)");
    BAD(einsum, bt_einsum("abcdefghi->a", ALL(vector()), 1), "more than 8");
    BAD(einsum, bt_einsum("ij,ij->i", ALL(matrix(), bt_transpose(matrix())), 2), "'i'");
}

static void refuses_nn(void **state) {
    BAD(softmax, bt_softmax(bt_f32(1), 0), "axis 0");
    BAD(log_softmax, bt_log_softmax(vector(), 1), "axis 1");
    BAD(layer_norm, bt_layer_norm(bt_f32(1), NULL, NULL, 1e-5), "scalar");
    BAD(layer_norm, bt_layer_norm(matrix(), F32((2), 1, 2), NULL, 1e-5), "scale has shape (2,)");
    BAD(layer_norm, bt_layer_norm(matrix(), NULL, matrix(), 1e-5), "bias has shape (2, 3)");
    BAD(mse, bt_mse(vector(), F32((2), 1, 2)), "do not broadcast");
    BAD(mae, bt_mae(vector(), NULL), "NULL");
    BAD(cross_entropy, bt_cross_entropy(matrix(), vector()), "do not fit");
    BAD(cross_entropy, bt_cross_entropy(matrix(), I32((2), 0, 1), .weights = F32((2), 1, 2)), "must be (3,)");
    BAD(cross_entropy, bt_cross_entropy(matrix(), I32((2), 0, 1), .label_smoothing = 2), "must be 0 to 1");
    BAD(cross_entropy, bt_cross_entropy(matrix(), matrix(), .ignore = true), "targets that are classes");
    BAD(cross_entropy, bt_cross_entropy(matrix(), matrix(), .positive_weights = vector()), "does not know");
    BAD(mse, bt_mse(vector(), vector(), .reduction = (bt_reduction)7), "reduction 7");
    BAD(mae, bt_mae(vector(), vector(), .label_smoothing = 0.5), "have label_smoothing");
    BAD(huber, bt_huber(vector(), vector(), 0), "delta is 0");
    BAD(binary_cross_entropy, bt_binary_cross_entropy(vector(), vector(), .weights = matrix()), "(2, 3)");
    BAD(cross_entropy, bt_cross_entropy(matrix(), F32((2), 1, 2)), "do not fit");
    BAD(cross_entropy, bt_cross_entropy(bt_f32(1), bt_f32(1)), "do not fit");
    BAD(binary_cross_entropy, bt_binary_cross_entropy(vector(), NULL), "NULL");
    BAD(huber, bt_huber(vector(), vector(), 0), "greater than 0");
}

static void refuses_windows(void **state) {
    BAD(attention, bt_attention(vector(), vector(), vector()), "two or more");
    BAD(attention, bt_attention(matrix(), matrix(), image()), "as many axes");
    BAD(attention, bt_attention(bt_ones(BT_F32, 3, 4), bt_ones(BT_F32, 5, 3), bt_ones(BT_F32, 5, 3)), "same depth");
    BAD(attention, bt_attention(bt_ones(BT_F32, 3, 4), bt_ones(BT_F32, 5, 4), bt_ones(BT_F32, 6, 4)), "as many keys");
    BAD(attention, bt_attention(bt_ones(BT_F32, 3, 2, 4), bt_ones(BT_F32, 2, 5, 4), bt_ones(BT_F32, 2, 5, 4)),
        "multiple of those");
    BAD(attention, bt_attention(bt_ones(BT_I32, 3, 4), bt_ones(BT_I32, 5, 4), bt_ones(BT_I32, 5, 4)), "must be floats");
    BAD(attention, bt_attention(matrix(), matrix(), matrix(), .scale = INFINITY), "finite");
    BAD(attention, bt_attention(matrix(), matrix(), matrix(), .from_end = true), "needs causal");
    BAD(attention, bt_attention(matrix(), matrix(), matrix(), .mask = bt_ones(BT_I32, 1)), "must be bool");
    BAD(attention, bt_attention(matrix(), matrix(), matrix(), .lengths = bt_ones(BT_F32, 1)), "integers");
    BAD(attention, bt_attention(matrix(), matrix(), matrix(), .lengths = bt_ones(BT_I32, 2)), "more axes");
    BAD(attention, bt_attention(matrix(), matrix(), matrix(), .mask = bt_ones(BT_F32, 9, 9)), "broadcast");
    BAD(conv2d, bt_conv2d(vector(), image(), NULL, NULL, NULL, 1), "four axes");
    BAD(conv2d, bt_conv2d(image(), image(), NULL, NULL, NULL, 0), "groups");
    BAD(conv2d, bt_conv2d(image(), image(), NULL, NULL, NULL, 3), "groups must divide");
    BAD(conv2d, bt_conv2d(image(), bt_ones(BT_F32, 2, 2, 2, 2), NULL, NULL, NULL, 2), "divided by groups");
    BAD(conv2d, bt_conv2d(image(), image(), SIZES(0, 1), NULL, NULL, 1), "strides");
    BAD(conv2d, bt_conv2d(image(), image(), NULL, SIZES(0, -1), NULL, 1), "pads");
    BAD(conv2d, bt_conv2d(image(), image(), NULL, SIZES(0, INT64_MAX), NULL, 1), "too great");
    BAD(conv2d, bt_conv2d(image(), bt_ones(BT_F32, 1, 2, 5, 1), NULL, NULL, NULL, 1), "kernel");
    BAD(conv, bt_conv(vector(), image()), "three to five");
    BAD(conv, bt_conv(image(), image(), .dilation = {0, -1}), "dilations must be");
    BAD(conv, bt_conv(image(), image(), .dilation = {0, INT64_MAX}), "dilations are too great");
    BAD(conv, bt_conv(image(), image(), .stride = {1, 1, 2}), "an axis that they do not have");
    BAD(conv, bt_conv(image(), image(), .output_pad = {1}), "of bt_conv_transposed");
    BAD(conv, BTI_AT(bt_array *, (bt_conv)(image(), image(), &(bt_conv_options){.groups = 1})), "BT_CONV(");
    BAD(conv_transposed, bt_conv_transposed(image(), bt_ones(BT_F32, 3, 2, 2, 2)), "channels of y");
    BAD(conv_transposed, bt_conv_transposed(image(), bt_ones(BT_F32, 2, 2, 2, 2), .stride = {INT64_MAX}),
        "nothing is left");
    BAD(conv_transposed, bt_conv_transposed(image(), bt_ones(BT_F32, 2, 2, 2, 2), .output_pad = {1}),
        "output_pad must be");
    BAD(max_pool, bt_max_pool(vector(), .exclude_pads = true), "three to five axes");
    BAD(max_pool, bt_max_pool(image()), "window 0");
    BAD(max_pool, bt_max_pool(image(), .window = {2}), "must be 1 or more");
    BAD(max_pool, bt_max_pool(image(), .window = {2, 2}, .pad_low = {2}), "less than the window");
    BAD(avg_pool, bt_avg_pool(image(), .window = {2, 9}), "no larger than the axis");
    BAD(avg_pool, bt_avg_pool(image(), .window = {2, 2, 2}), "speak of axis 4");
    BAD(adaptive_max_pool, bt_adaptive_max_pool(image(), BT_SHAPE(2)), "two axes more");
    BAD(adaptive_max_pool, bt_adaptive_max_pool(image(), BT_SHAPE(1, INT64_MIN)), "size 1 is -9223372036854775808");
    BAD(adaptive_avg_pool, bt_adaptive_avg_pool(image(), BT_SHAPE(0, 1)), "size 0 is 0; it must be 1 to");
    BAD(adaptive_avg_pool, bt_adaptive_avg_pool(image(), BT_SHAPE(1, INT64_MAX)), "it must be 1 to 2147483647");
    BAD(adaptive_avg_pool, bt_adaptive_avg_pool(image(), rank_9()), "there are 9 sizes");
    BAD(adaptive_avg_pool, bt_adaptive_avg_pool(bt_zeros(BT_F32, 1, 2, 0), BT_SHAPE(1)), "axis 2 of shape (1, 2, 0)");
    BAD(adaptive_max_pool, bt_adaptive_max_pool(bt_input(BT_F32, 1, 2, -1), BT_SHAPE(1)), "no known size");
    BAD(max_pool2d, bt_max_pool2d(vector(), SIZES(2, 2), NULL), "four axes");
    BAD(max_pool2d, bt_max_pool2d(image(), NULL, NULL), "window");
    BAD(max_pool2d, bt_max_pool2d(image(), SIZES(2, 5), NULL), "window 5");
    BAD(avg_pool2d, bt_avg_pool2d(image(), SIZES(2, 2), SIZES(0, 1)), "stride 0");
}

static void refuses_makers(void **state) {
    BAD(zeros, bt_zeros(BT_F32, 1, 1, 1, 1, 1, 1, 1, 1, 1), "9 dimensions");
    BAD(zeros, bt_zeros(BT_F32, 2, -1), "negative");
    BAD(zeros, bt_zeros(BT_F32, INT64_MIN), "negative");
    BAD(ones, bt_ones(BT_DTYPE_COUNT, 2), "not a dtype");
    BAD(full, bt_full(1, BT_F64, INT64_MAX / 8, 9), "63 bits");
    BAD(arange, bt_arange(0, 10, 0, BT_I32), "step must not be 0");
    BAD(arange, bt_arange(0, INFINITY, 1, BT_F32), "finite");
    BAD(arange, bt_arange(0, 1e30, 1, BT_F32), "1e+30 elements");
    BAD(arange, bt_arange(0, 300, 1, BT_U8), "do not fit uint8");
    BAD(linspace, bt_linspace(0, 1, -1, BT_F32), "negative");
    BAD(linspace, bt_linspace(0, 1, 3, BT_I32), "int32");
    BAD(eye, bt_eye(2, -2, BT_F32), "negative");
    BAD(zeros_like, bt_zeros_like(NULL), "NULL");
    BAD(ones_like, bt_ones_like(NULL), "NULL");
}

static void refuses_random(void **state) {
    BAD(split, bt_split(NULL, 2), "NULL");
    BAD(split, bt_split(bt_key(0), -1), "negative");
    BAD(split, bt_split(bt_split(bt_key(0), 3), 2), "uint32 (3, 2)");
    BAD(split_at, bt_split_at(bt_split(bt_key(0), 3), 3), "no key 3 among 3");
    BAD(split_at, bt_split_at(bt_key(0), 0), "from bt_split");
    BAD(fold_in, bt_fold_in(vector(), 0), "float32 (3,)");
    BAD(bits, bt_bits(bt_key(0), BT_I32, 2), "not int32");
    BAD(bits, bt_bits(bt_key(0), BT_U32, 1, 1, 1, 1, 1, 1, 1, 1, 1), "9 dimensions");
    BAD(bits, bt_bits(bt_key(0), BT_U32, (INT64_C(1) << 32) + 1), "random_layout=partitionable");
    BAD(uniform, bt_uniform(bt_key(0), BT_I32, 2), "not int32");
    BAD(uniform_in, bt_uniform_in(bt_key(0), 0, INFINITY, BT_F32, 2), "finite");
    BAD(normal, bt_normal(vector(), BT_F32, 2), "a key is uint32 (2,)");
    BAD(randint, bt_randint(bt_key(0), 0, 2, BT_F32, 2), "not float32");
    BAD(bernoulli, bt_bernoulli(bt_key(0), NULL, 2), "NULL");
    BAD(bernoulli, bt_bernoulli(bt_key(0), vector(), 2), "(2,)");
    BAD(permutation, bt_permutation(bt_key(0), -1), "n is -1");
    BAD(shuffle, bt_shuffle(bt_key(0), bt_f32(1), 0), "axis 0");
    BAD(categorical, bt_categorical(bt_key(0), bt_f32(1), 2), "last axis");
    BAD(categorical, bt_categorical(bt_key(0), matrix(), 3), "cannot be broadcast");
    BAD(categorical, bt_categorical(two_zeros(), vector(), 1, 1, 1, 1, 1, 1, 1, 1), "9 dimensions");
}

static void refuses_null_everywhere(void **state) {
    static bt_array *(*const one[])(bt_array *) = {
        bt_neg,           bt_abs,       bt_sign,       bt_square,     bt_floor,       bt_ceil,     bt_round,
        bt_trunc,         bt_exp,       bt_exp2,       bt_expm1,      bt_log,         bt_log2,     bt_log10,
        bt_log1p,         bt_sqrt,      bt_rsqrt,      bt_reciprocal, bt_sin,         bt_cos,      bt_tan,
        bt_asin,          bt_acos,      bt_atan,       bt_sinh,       bt_cosh,        bt_tanh,     bt_erf,
        bt_erfc,          bt_erfinv,    bt_isnan,      bt_isinf,      bt_isfinite,    bt_relu,     bt_sigmoid,
        bt_silu,          bt_gelu,      bt_gelu_tanh,  bt_bit_not,    bt_logical_not, bt_softplus, bt_identity,
        bt_stop_gradient, bt_transpose, bt_zeros_like, bt_ones_like,
    };
    static bt_array *(*const two[])(bt_array *, bt_array *) = {
        bt_add,         bt_sub,        bt_mul,         bt_div,     bt_floor_div, bt_mod,     bt_pow,
        bt_atan2,       bt_maximum,    bt_minimum,     bt_bit_and, bt_bit_or,    bt_bit_xor, bt_shift_left,
        bt_shift_right, bt_eq,         bt_ne,          bt_lt,      bt_le,        bt_gt,      bt_ge,
        bt_logical_and, bt_logical_or, bt_logical_xor, bt_matmul,
    };
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        BT_SCOPE
            assert_int_equal(bt_block(one[i](NULL)), BT_INVALID_ARGUMENT);
    for (size_t i = 0; i < sizeof two / sizeof *two; i++) {
        BT_SCOPE
            assert_int_equal(bt_block(two[i](NULL, bt_i32(1))), BT_INVALID_ARGUMENT);
        BT_SCOPE
            assert_int_equal(bt_block(two[i](bt_i32(1), NULL)), BT_INVALID_ARGUMENT);
    }
}

/* Poison passes through whatever is composed of it, with its first cause. */
static void carries_the_first_cause(void **state) {
    BT_SCOPE {
        bt_array *poison = bt_reshape(vector(), 2);
        BAD(reshape, bt_softmax(poison, 0), "(2,)");
        BAD(reshape, bt_conv2d(image(), poison, NULL, NULL, NULL, 1), "(2,)");
        BAD(reshape, bt_layer_norm(matrix(), poison, NULL, 0), "(2,)");
        BAD(reshape, bt_concat(ALL(vector(), poison), 2, 0), "(2,)");
        BAD(reshape, bt_uniform(poison, BT_F32, 3), "(2,)");
        BAD(reshape, bt_bernoulli(bt_key(0), poison, 3), "(2,)");
        BAD(reshape, bt_one_hot(bt_take(poison, bt_i32(0), 0), 3, BT_F32), "(2,)");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_one_input),       cmocka_unit_test(refuses_two_inputs),
        cmocka_unit_test(refuses_parts),           cmocka_unit_test(refuses_places),
        cmocka_unit_test(refuses_dynamic_slices),  cmocka_unit_test(refuses_reductions),
        cmocka_unit_test(refuses_shapes),          cmocka_unit_test(refuses_indices),
        cmocka_unit_test(refuses_products),        cmocka_unit_test(refuses_nn),
        cmocka_unit_test(refuses_windows),         cmocka_unit_test(refuses_makers),
        cmocka_unit_test(refuses_random),          cmocka_unit_test(refuses_null_everywhere),
        cmocka_unit_test(carries_the_first_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Every public function, called wrongly, names itself and the caller's line at the head of the error. The headers are read, so
 * that a new function must find its place here: among those that are called, or among those that cannot fail. */
#include <math.h>

#include "support/support.h"

static int wrong, called_count;
static const char *called[1024];

static void expect_name(const char *name, int line) {
    char head[128], macro_less[128];
    called[called_count++] = name;
    snprintf(head, sizeof head, "names_test.c:%d: %s: ", line, name);
    snprintf(macro_less, sizeof macro_less, "%s: ", name); /* a plain function knows no line */
    const char *text = bt_error_text();
    if (strncmp(text, head, strlen(head)) && strncmp(text, macro_less, strlen(macro_less))) {
        print_error("%s, line %d: \"%s\"\n", name, line, text);
        wrong++;
    }
    bt_error_clear();
}

static void none_wrong(void) {
    int count = wrong;
    wrong = 0;
    assert_int_equal(count, 0);
}

#define ERROR(name, call)             \
    do {                              \
        bt_error_clear();             \
        (void)!(call);                \
        expect_name(#name, __LINE__); \
    } while (0)
#define SILENT(name, call)            \
    do {                              \
        bt_error_clear();             \
        call;                         \
        expect_name(#name, __LINE__); \
    } while (0)
/* A poisoned array tells when it is read. */
#define ARRAY(name, call)                                                                            \
    do {                                                                                             \
        bt_array *poisoned_ = (call);                                                                \
        bt_error_clear();                                                                            \
        if (bt_peek_status(poisoned_) == BT_OK) print_error("%s was not refused\n", #name), wrong++; \
        (void)!(bt_block)(poisoned_);                                                                \
        expect_name(#name, __LINE__);                                                                \
    } while (0)

static void operations(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        ARRAY(bt_to, bt_to(NULL, NULL));
        ARRAY(bt_gpu, bt_gpu(NULL));
        ARRAY(bt_cpu, bt_cpu(NULL));
        ARRAY(bt_zeros_like, bt_zeros_like(NULL));
        ARRAY(bt_ones_like, bt_ones_like(NULL));
        ARRAY(bt_neg, bt_neg(NULL));
        ARRAY(bt_abs, bt_abs(NULL));
        ARRAY(bt_sign, bt_sign(NULL));
        ARRAY(bt_square, bt_square(NULL));
        ARRAY(bt_floor, bt_floor(NULL));
        ARRAY(bt_ceil, bt_ceil(NULL));
        ARRAY(bt_round, bt_round(NULL));
        ARRAY(bt_trunc, bt_trunc(NULL));
        ARRAY(bt_exp, bt_exp(NULL));
        ARRAY(bt_exp2, bt_exp2(NULL));
        ARRAY(bt_expm1, bt_expm1(NULL));
        ARRAY(bt_log, bt_log(NULL));
        ARRAY(bt_log2, bt_log2(NULL));
        ARRAY(bt_log10, bt_log10(NULL));
        ARRAY(bt_log1p, bt_log1p(NULL));
        ARRAY(bt_sqrt, bt_sqrt(NULL));
        ARRAY(bt_rsqrt, bt_rsqrt(NULL));
        ARRAY(bt_reciprocal, bt_reciprocal(NULL));
        ARRAY(bt_sin, bt_sin(NULL));
        ARRAY(bt_cos, bt_cos(NULL));
        ARRAY(bt_tan, bt_tan(NULL));
        ARRAY(bt_asin, bt_asin(NULL));
        ARRAY(bt_acos, bt_acos(NULL));
        ARRAY(bt_atan, bt_atan(NULL));
        ARRAY(bt_sinh, bt_sinh(NULL));
        ARRAY(bt_cosh, bt_cosh(NULL));
        ARRAY(bt_tanh, bt_tanh(NULL));
        ARRAY(bt_erf, bt_erf(NULL));
        ARRAY(bt_erfc, bt_erfc(NULL));
        ARRAY(bt_erfinv, bt_erfinv(NULL));
        ARRAY(bt_logical_not, bt_logical_not(NULL));
        ARRAY(bt_bit_not, bt_bit_not(NULL));
        ARRAY(bt_isnan, bt_isnan(NULL));
        ARRAY(bt_isinf, bt_isinf(NULL));
        ARRAY(bt_isfinite, bt_isfinite(NULL));
        ARRAY(bt_relu, bt_relu(NULL));
        ARRAY(bt_sigmoid, bt_sigmoid(NULL));
        ARRAY(bt_softplus, bt_softplus(NULL));
        ARRAY(bt_silu, bt_silu(NULL));
        ARRAY(bt_gelu, bt_gelu(NULL));
        ARRAY(bt_gelu_tanh, bt_gelu_tanh(NULL));
        ARRAY(bt_elu, bt_elu(NULL, 1));
        ARRAY(bt_leaky_relu, bt_leaky_relu(NULL, 1));
        ARRAY(bt_identity, bt_identity(NULL));
        ARRAY(bt_add, bt_add(NULL, NULL));
        ARRAY(bt_sub, bt_sub(NULL, NULL));
        ARRAY(bt_mul, bt_mul(NULL, NULL));
        ARRAY(bt_div, bt_div(NULL, NULL));
        ARRAY(bt_floor_div, bt_floor_div(NULL, NULL));
        ARRAY(bt_mod, bt_mod(NULL, NULL));
        ARRAY(bt_pow, bt_pow(NULL, NULL));
        ARRAY(bt_atan2, bt_atan2(NULL, NULL));
        ARRAY(bt_maximum, bt_maximum(NULL, NULL));
        ARRAY(bt_minimum, bt_minimum(NULL, NULL));
        ARRAY(bt_bit_and, bt_bit_and(NULL, NULL));
        ARRAY(bt_bit_or, bt_bit_or(NULL, NULL));
        ARRAY(bt_bit_xor, bt_bit_xor(NULL, NULL));
        ARRAY(bt_shift_left, bt_shift_left(NULL, NULL));
        ARRAY(bt_shift_right, bt_shift_right(NULL, NULL));
        ARRAY(bt_eq, bt_eq(NULL, NULL));
        ARRAY(bt_ne, bt_ne(NULL, NULL));
        ARRAY(bt_lt, bt_lt(NULL, NULL));
        ARRAY(bt_le, bt_le(NULL, NULL));
        ARRAY(bt_gt, bt_gt(NULL, NULL));
        ARRAY(bt_ge, bt_ge(NULL, NULL));
        ARRAY(bt_logical_and, bt_logical_and(NULL, NULL));
        ARRAY(bt_logical_or, bt_logical_or(NULL, NULL));
        ARRAY(bt_logical_xor, bt_logical_xor(NULL, NULL));
        ARRAY(bt_where, bt_where(NULL, NULL, NULL));
        ARRAY(bt_clamp, bt_clamp(NULL, 1, 1));
        ARRAY(bt_cast, bt_cast(NULL, BT_F32));
        ARRAY(bt_bitcast, bt_bitcast(NULL, BT_F32));
        ARRAY(bt_add_n, bt_add_n(NULL, 1));
        ARRAY(bt_stop_gradient, bt_stop_gradient(NULL));
        ARRAY(bt_sum, bt_sum(NULL, BT_ALL, false));
        ARRAY(bt_prod, bt_prod(NULL, BT_ALL, false));
        ARRAY(bt_mean, bt_mean(NULL, BT_ALL, false));
        ARRAY(bt_max, bt_max(NULL, BT_ALL, false));
        ARRAY(bt_min, bt_min(NULL, BT_ALL, false));
        ARRAY(bt_all, bt_all(NULL, BT_ALL, false));
        ARRAY(bt_any, bt_any(NULL, BT_ALL, false));
        ARRAY(bt_logsumexp, bt_logsumexp(NULL, BT_ALL, false));
        ARRAY(bt_sum_as, bt_sum_as(NULL, BT_ALL, false, BT_F32));
        ARRAY(bt_prod_as, bt_prod_as(NULL, BT_ALL, false, BT_F32));
        ARRAY(bt_var, bt_var(NULL, BT_ALL, false, 1));
        ARRAY(bt_std, bt_std(NULL, BT_ALL, false, 1));
        ARRAY(bt_norm, bt_norm(NULL, BT_ALL, false));
        ARRAY(bt_argmax, bt_argmax(NULL, 1));
        ARRAY(bt_argmin, bt_argmin(NULL, 1));
        ARRAY(bt_cumsum, bt_cumsum(NULL, 1, false));
        ARRAY(bt_cumprod, bt_cumprod(NULL, 1, false));
        ARRAY(bt_cummax, bt_cummax(NULL, 1, false));
        ARRAY(bt_cummin, bt_cummin(NULL, 1, false));
        ARRAY(bt_flatten, bt_flatten(NULL, 1));
        ARRAY(bt_transpose, bt_transpose(NULL));
        ARRAY(bt_expand_dims, bt_expand_dims(NULL, 1));
        ARRAY(bt_squeeze, bt_squeeze(NULL, 1));
        ARRAY(bt_slice, bt_slice(NULL, NULL, NULL, NULL));
        ARRAY(bt_slice_axis, bt_slice_axis(NULL, 1, 1, 1, 1));
        ARRAY(bt_flip, bt_flip(NULL, BT_ALL));
        ARRAY(bt_pad, bt_pad(NULL, NULL, NULL, 1));
        ARRAY(bt_concat, bt_concat(NULL, 1, 1));
        ARRAY(bt_stack, bt_stack(NULL, 1, 1));
        ARRAY(bt_tile, bt_tile(NULL, BT_SHAPE(2)));
        ARRAY(bt_one_hot, bt_one_hot(NULL, 1, BT_F32));
        ARRAY(bt_take, bt_take(NULL, NULL, 1));
        ARRAY(bt_boolean_mask, bt_boolean_mask(NULL, NULL, 0));
        ARRAY(bt_nonzero, bt_nonzero(NULL));
        ARRAY(bt_scatter_add, bt_scatter_add(NULL, NULL, NULL, 1));
        ARRAY(bt_scatter_set, bt_scatter_set(NULL, NULL, NULL, 1));
        ARRAY(bt_scatter_max, bt_scatter_max(NULL, NULL, NULL, 1));
        ARRAY(bt_scatter_min, bt_scatter_min(NULL, NULL, NULL, 1));
        ARRAY(bt_dynamic_slice, bt_dynamic_slice(NULL, NULL, BT_SHAPE(2)));
        ARRAY(bt_dynamic_slice_axis, bt_dynamic_slice_axis(NULL, NULL, 1, 1));
        ARRAY(bt_update_slice, bt_update_slice(NULL, NULL, NULL));
        ARRAY(bt_update_slice_axis, bt_update_slice_axis(NULL, NULL, NULL, 1));
        ARRAY(bt_take_along_axis, bt_take_along_axis(NULL, NULL, 1));
        ARRAY(bt_scatter_add_along_axis, bt_scatter_add_along_axis(NULL, NULL, NULL, 1));
        ARRAY(bt_scatter_set_along_axis, bt_scatter_set_along_axis(NULL, NULL, NULL, 1));
        ARRAY(bt_scatter_max_along_axis, bt_scatter_max_along_axis(NULL, NULL, NULL, 1));
        ARRAY(bt_scatter_min_along_axis, bt_scatter_min_along_axis(NULL, NULL, NULL, 1));
        ARRAY(bt_sort, bt_sort(NULL, 1));
        ARRAY(bt_argsort, bt_argsort(NULL, 1));
        ARRAY(bt_searchsorted, bt_searchsorted(NULL, NULL, true));
        ARRAY(bt_bincount, bt_bincount(NULL, 1));
        ARRAY(bt_histogram, bt_histogram(NULL, 1, 0, 1));
        ARRAY(bt_unique, bt_unique(NULL, 1));
        ARRAY(bt_top_k, bt_top_k(NULL, 1));
        ARRAY(bt_top_k_indices, bt_top_k_indices(NULL, 1));
        ARRAY(bt_matmul, bt_matmul(NULL, NULL));
        ARRAY(bt_matmul_t, bt_matmul_t(NULL, NULL, false, false));
        ARRAY(bt_matmul_as, bt_matmul_as(NULL, NULL, BT_I32));
        ARRAY(bt_quantize, bt_quantize(NULL, NULL, BT_I8));
        ARRAY(bt_dequantize, bt_dequantize(NULL, NULL));
        ARRAY(bt_quantize_scale, bt_quantize_scale(NULL, BT_ALL, BT_I8));
        ARRAY(bt_einsum, bt_einsum(NULL, NULL, 1));
        ARRAY(bt_softmax, bt_softmax(NULL, 1));
        ARRAY(bt_log_softmax, bt_log_softmax(NULL, 1));
        ARRAY(bt_layer_norm, bt_layer_norm(NULL, NULL, NULL, 1));
        ARRAY(bt_mse, bt_mse(NULL, NULL));
        ARRAY(bt_mae, bt_mae(NULL, NULL));
        ARRAY(bt_cross_entropy, bt_cross_entropy(NULL, NULL));
        ARRAY(bt_binary_cross_entropy, bt_binary_cross_entropy(NULL, NULL));
        ARRAY(bt_huber, bt_huber(NULL, NULL, 1));
        ARRAY(bt_cholesky, bt_cholesky(NULL));
        ARRAY(bt_solve, bt_solve(NULL, NULL));
        ARRAY(bt_triangular_solve, bt_triangular_solve(NULL, NULL, false, false, false));
        ARRAY(bt_inv, bt_inv(NULL));
        ARRAY(bt_det, bt_det(NULL));
        ARRAY(bt_lstsq, bt_lstsq(NULL, NULL));
        ARRAY(bt_max_pool, bt_max_pool(NULL));
        ARRAY(bt_avg_pool, bt_avg_pool(NULL));
        ARRAY(bt_adaptive_max_pool, bt_adaptive_max_pool(NULL, BT_SHAPE(1)));
        ARRAY(bt_adaptive_avg_pool, bt_adaptive_avg_pool(NULL, BT_SHAPE(1)));
        ARRAY(bt_at, bt_at(NULL, "0"));
        ARRAY(bt_set_at, bt_set_at(NULL, "0", NULL));
        ARRAY(bt_index, bt_index(NULL, 0, 0));
        ARRAY(bt_roll, bt_roll(NULL, 1, 0));
        ARRAY(bt_diff, bt_diff(NULL, 0));
        ARRAY(bt_tril, bt_tril(NULL, 0));
        ARRAY(bt_triu, bt_triu(NULL, 0));
        ARRAY(bt_diagonal, bt_diagonal(NULL, 0));
        ARRAY(bt_diag, bt_diag(NULL, 0));
        ARRAY(bt_trace, bt_trace(NULL));
        ARRAY(bt_outer, bt_outer(NULL, NULL));
        ARRAY(bt_kron, bt_kron(NULL, NULL));
        ARRAY(bt_tensordot, bt_tensordot(NULL, NULL, BT_AXES(0), BT_AXES(0)));
        ARRAY(bt_quantile, bt_quantile(NULL, 0.5, BT_ALL, false));
        ARRAY(bt_median, bt_median(NULL, BT_ALL, false));
        ARRAY(bt_logaddexp, bt_logaddexp(NULL, NULL));
        ARRAY(bt_nan_to_num, bt_nan_to_num(NULL, 0, 0, 0));
        ARRAY(bt_attention, bt_attention(NULL, NULL, NULL));
        ARRAY(bt_conv, bt_conv(NULL, NULL));
        ARRAY(bt_conv_transposed, bt_conv_transposed(NULL, NULL));
        ARRAY(bt_conv2d, bt_conv2d(NULL, NULL, NULL, NULL, NULL, 1));
        ARRAY(bt_max_pool2d, bt_max_pool2d(NULL, NULL, NULL));
        ARRAY(bt_avg_pool2d, bt_avg_pool2d(NULL, NULL, NULL));
        ARRAY(bt_split, bt_split(NULL, 1));
        ARRAY(bt_split_at, bt_split_at(NULL, 1));
        ARRAY(bt_fold_in, bt_fold_in(NULL, 1));
        ARRAY(bt_permutation, bt_permutation(NULL, 1));
        ARRAY(bt_shuffle, bt_shuffle(NULL, NULL, 1));
        ARRAY(bt_reshape, bt_reshape(NULL, 2));
        ARRAY(bt_permute, bt_permute(NULL, 1, 0));
        ARRAY(bt_broadcast_to, bt_broadcast_to(NULL, 2));
        ARRAY(bt_bits, bt_bits(NULL, BT_U32, 2));
        ARRAY(bt_uniform, bt_uniform(NULL, BT_F32, 2));
        ARRAY(bt_uniform_in, bt_uniform_in(NULL, 0, 1, BT_F32, 2));
        ARRAY(bt_normal, bt_normal(NULL, BT_F32, 2));
        ARRAY(bt_randint, bt_randint(NULL, 0, 2, BT_I32, 2));
        ARRAY(bt_bernoulli, bt_bernoulli(NULL, NULL, 2));
        ARRAY(bt_categorical, bt_categorical(NULL, NULL, 2));
        ARRAY(bt_softmax_last, bt_softmax_last(NULL));
    }
    none_wrong();
}

/* Each operation that was called so far has its name in the placement log. */
static void operations_have_log_names(void **state) {
    for (int i = 0; i < called_count; i++) {
        int row = 0;
        while (row < bt_operation_count() && strcmp(bt_operation_name(row, NULL), called[i])) row++;
        if (row == bt_operation_count()) print_error("%s has no row in names.def\n", called[i]), wrong++;
    }
    none_wrong();
}

static void what_shapes_and_dtypes_are_wrong(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 2, 3), *i = bt_ones(BT_I32, 3), *s = bt_zeros(BT_F32, 4);
        ARRAY(bt_mse, bt_mse(x, s));
        ARRAY(bt_mae, bt_mae(x, s));
        ARRAY(bt_huber, bt_huber(x, s, 1));
        ARRAY(bt_cross_entropy, bt_cross_entropy(x, s));
        ARRAY(bt_binary_cross_entropy, bt_binary_cross_entropy(x, s));
        ARRAY(bt_cholesky, bt_cholesky(x));
        ARRAY(bt_solve, bt_solve(x, s));
        ARRAY(bt_triangular_solve, bt_triangular_solve(x, s, false, false, false));
        ARRAY(bt_inv, bt_inv(x));
        ARRAY(bt_det, bt_det(s));
        ARRAY(bt_lstsq, bt_lstsq(x, s));
        ARRAY(bt_layer_norm, bt_layer_norm(x, s, NULL, 1e-5));
        ARRAY(bt_matmul, bt_matmul(x, x));
        ARRAY(bt_matmul_as, bt_matmul_as(x, x, BT_F32));
        ARRAY(bt_quantize, bt_quantize(x, i, BT_I8));
        ARRAY(bt_dequantize, bt_dequantize(x, i));
        ARRAY(bt_quantize_scale, bt_quantize_scale(x, BT_ALL, BT_I32));
        ARRAY(bt_add, bt_add(x, s));
        ARRAY(bt_add_n, bt_add_n(((bt_array *[]){x, s}), 2));
        ARRAY(bt_where, bt_where(x, s, x));
        ARRAY(bt_concat, bt_concat(((bt_array *[]){x, s}), 2, 0));
        ARRAY(bt_stack, bt_stack(((bt_array *[]){x, s}), 2, 0));
        ARRAY(bt_take, bt_take(x, x, 0));
        ARRAY(bt_boolean_mask, bt_boolean_mask(x, x, 0));
        ARRAY(bt_nonzero, bt_nonzero(bt_f32(1)));
        ARRAY(bt_scatter_add, bt_scatter_add(x, i, s, 0));
        ARRAY(bt_scatter_set, bt_scatter_set(x, i, s, 0));
        ARRAY(bt_scatter_max, bt_scatter_max(x, i, s, 0));
        ARRAY(bt_scatter_min, bt_scatter_min(x, i, s, 0));
        ARRAY(bt_scatter_set_along_axis, bt_scatter_set_along_axis(x, i, s, 0));
        ARRAY(bt_scatter_max_along_axis, bt_scatter_max_along_axis(x, i, s, 0));
        ARRAY(bt_scatter_min_along_axis, bt_scatter_min_along_axis(x, i, s, 0));
        ARRAY(bt_cumprod, bt_cumprod(x, 7, false));
        ARRAY(bt_cummax, bt_cummax(x, 7, false));
        ARRAY(bt_cummin, bt_cummin(x, 7, false));
        ARRAY(bt_softmax, bt_softmax(x, 5));
        ARRAY(bt_sum, bt_sum(x, BT_AXES(7), false));
        ARRAY(bt_reshape, bt_reshape(x, 7));
        ARRAY(bt_broadcast_to, bt_broadcast_to(x, 7));
        ARRAY(bt_slice_axis, bt_slice_axis(x, 4, 0, 1, 1));
        ARRAY(bt_cast, bt_cast(x, (bt_dtype)99));
        ARRAY(bt_bit_and, bt_bit_and(x, x));
        ARRAY(bt_max_pool, bt_max_pool(x));
        ARRAY(bt_avg_pool, bt_avg_pool(x));
        ARRAY(bt_adaptive_max_pool, bt_adaptive_max_pool(x, BT_SHAPE(1)));
        ARRAY(bt_adaptive_avg_pool, bt_adaptive_avg_pool(x, BT_SHAPE(1)));
        ARRAY(bt_at, bt_at(x, "nowhere"));
        ARRAY(bt_set_at, bt_set_at(x, "nowhere", x));
        ARRAY(bt_index, bt_index(x, 9, 0));
        ARRAY(bt_roll, bt_roll(x, 1, 9));
        ARRAY(bt_diff, bt_diff(x, 9));
        ARRAY(bt_tril, bt_tril(bt_f32(1), 0));
        ARRAY(bt_triu, bt_triu(bt_f32(1), 0));
        ARRAY(bt_diagonal, bt_diagonal(bt_f32(1), 0));
        ARRAY(bt_diag, bt_diag(bt_f32(1), 0));
        ARRAY(bt_trace, bt_trace(bt_f32(1)));
        ARRAY(bt_kron, bt_kron(x, bt_ones(BT_F32, 1, 1, 1, 1, 1)));
        ARRAY(bt_tensordot, bt_tensordot(x, x, BT_AXES(0), BT_AXES(9)));
        ARRAY(bt_quantile, bt_quantile(x, 2, BT_ALL, false));
        ARRAY(bt_median, bt_median(x, BT_AXES(9), false));
        ARRAY(bt_logaddexp, bt_logaddexp(bt_ones(BT_F32, 2), bt_ones(BT_F32, 3)));
        ARRAY(bt_attention, bt_attention(bt_f32(1), x, x));
        ARRAY(bt_conv, bt_conv(x, x));
        ARRAY(bt_conv_transposed, bt_conv_transposed(x, x));
        ARRAY(bt_conv2d, bt_conv2d(x, x, NULL, NULL, NULL, 1));
        ARRAY(bt_einsum, bt_einsum("ij->", &s, 1));
        ARRAY(bt_uniform, bt_uniform(x, BT_F32, 2));
        ARRAY(bt_one_hot, bt_one_hot(x, 2, BT_F32));
        ARRAY(bt_max_pool2d, bt_max_pool2d(x, NULL, NULL));
    }
    none_wrong();
}

static void making(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        ARRAY(bt_name, bt_name(NULL, "x"));
        ARRAY(bt_zeros, bt_zeros((bt_dtype)99, 2));
        ARRAY(bt_zeros, bt_zeros(BT_F32, -2));
        ARRAY(bt_ones, bt_ones(BT_F32, -2));
        ARRAY(bt_full, bt_full(1, BT_F32, -2));
        ARRAY(BT_ARRAY, BT_ARRAY(float, (3), 1, 2));
        ARRAY(bt_from, bt_from(NULL, BT_F32, BT_SHAPE(3)));
        ARRAY(bt_arange, bt_arange(0, 1, 0, BT_F32));
        ARRAY(bt_linspace, bt_linspace(0, 1, -1, BT_F32));
        ARRAY(bt_eye, bt_eye(-1, 2, BT_F32));
        ARRAY(bt_input, bt_input(BT_F32, -7));
        BT_ON("gpu:7") {
            ARRAY(bt_num, bt_num(1));
            ARRAY(bt_f32, bt_f32(1));
            ARRAY(bt_f64, bt_f64(1));
            ARRAY(bt_i32, bt_i32(1));
            ARRAY(bt_i64, bt_i64(1));
            ARRAY(bt_key, bt_key(1));
            ARRAY(bt_ones, bt_ones(BT_F32, 2));
        }
    }
    none_wrong();
}

static void reading(void **state) {
    double number;
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        ERROR(bt_read, bt_read(NULL, &number, 8));
        ERROR(bt_write, bt_write(NULL, &number, 8));
        ERROR(bt_eval, bt_eval(NULL));
        ERROR(bt_eval_all, bt_eval_all(NULL, 1));
        ERROR(bt_block, bt_block(NULL));
        ERROR(bt_item_at, bt_item_at(NULL, NULL, NULL));
        ERROR(bt_item, isnan(bt_item(NULL)));
        ERROR(bt_map, bt_map(NULL));
        ERROR(bt_to_text, bt_to_text(NULL));
        ERROR(bt_repr, bt_repr(NULL));
        SILENT(bt_print, bt_print(NULL));
        SILENT(bt_assign, bt_assign(NULL, NULL));
        SILENT(bt_to_all, bt_to_all(NULL, 1, "cpu"));
        SILENT(bt_gpu_all, bt_gpu_all(NULL, 1));
        SILENT(bt_cpu_all, bt_cpu_all(NULL, -1));
        bt_array *held = bt_retain(bt_ones(BT_F32, 2));
        ERROR(bt_shutdown, bt_shutdown());
        bt_release(held);
    }
    none_wrong();
}

static bt_array *total(bt_array *const *args, int count, void *data) { return bt_sum(args[0], BT_ALL, false); }
static bt_array *same(bt_array *x, void *data) { return x; }

static void functions_and_gradients(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 2), *y = bt_neg(x), *argument = bt_ones(BT_F32, 3), *grad = NULL;
        bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
        bt_shared *w = bt_shared_new(bt_ones(BT_F32, 2), NULL);
        ARRAY(bt_value, bt_value(NULL));
        SILENT(bt_shared_new, bt_shared_new(NULL, NULL));
        SILENT(bt_shared_new, bt_shared_new(argument, "gpu:7"));
        SILENT(bt_shared_new_beside, bt_shared_new_beside(w, NULL));
        SILENT(bt_shared_set_name, bt_shared_set_name(NULL, "w"));
        ERROR(bt_set, bt_set(w, argument));
        ERROR(bt_set_all, bt_set_all(&w, &argument, 1));
        SILENT(bt_function_new, bt_function_new(NULL, 1, &y, 1, NULL, 0));
        ERROR(bt_call, bt_call(f, &argument, 1, &grad, 1));
        ARRAY(bt_call1, bt_call1(f, &argument, 1));
        ERROR(bt_grad, bt_grad(argument, &argument, 1, &grad));
        ARRAY(bt_grad1, bt_grad1(argument, argument));
        ARRAY(bt_grad1, bt_grad1(argument, w));
        ERROR(bt_grad_shared, bt_grad_shared(argument, &w, 1, &grad));
        ERROR(bt_split_axis, bt_split_axis(argument, 7, NULL, 1, &grad));
        ERROR(bt_unstack, bt_unstack(argument, 7, 1, &grad));
        bt_array *three[3];
        ERROR(bt_slogdet, bt_slogdet(argument, three));
        ERROR(bt_qr, bt_qr(argument, three));
        ERROR(bt_eigh, bt_eigh(argument, three));
        ERROR(bt_svd, bt_svd(argument, three));
        ERROR(bt_meshgrid, bt_meshgrid(&argument, 0, false, &grad));
        ERROR(bt_vjp, bt_vjp(argument, NULL, &argument, 1, &grad));
        ERROR(bt_jvp, bt_jvp(&argument, 1, &argument, NULL, 1, &grad));
        ERROR(bt_hvp, bt_hvp(argument, &argument, NULL, 1, &grad));
        ARRAY(bt_jacobian, bt_jacobian(argument, NULL));
        ARRAY(bt_hessian, bt_hessian(argument, argument));
        SILENT(bt_vmap, bt_vmap(NULL, NULL, NULL));
        ARRAY(bt_debug_print, bt_debug_print("{}", NULL));
        ARRAY(bt_debug_callback, bt_debug_callback(NULL, NULL, argument));
        SILENT(bt_custom_new, bt_custom_new(NULL));
        ERROR(bt_custom_status, bt_custom_status(NULL));
        ARRAY(bt_custom_call, bt_custom_call(NULL, &argument, 1, NULL, 0));
        ERROR(bt_custom_call_all, bt_custom_call_all(NULL, &argument, 1, NULL, 0, &grad, 1));
        ARRAY(bt_from_lent, bt_from_lent(NULL, BT_F32, BT_SHAPE(2), NULL, NULL));
        ARRAY(bt_checkpoint, bt_checkpoint(NULL, NULL, &argument, 1));
        ARRAY(bt_value_and_grad, bt_value_and_grad(NULL, NULL, &argument, 1, &grad));
        ERROR(bt_check_grad, bt_check_grad(NULL, NULL, &argument, 1, 0, NULL));
        ERROR(bt_check_grad, bt_check_grad(total, NULL, NULL, 1, 0, NULL));
        ERROR(bt_check_grad, bt_check_grad(total, NULL, &argument, 1, 0, NULL));
        ERROR(bt_explain, bt_explain(NULL));
        ERROR(bt_explain_all, bt_explain_all(NULL, 1));
        ERROR(bt_explain_as, bt_explain_as(NULL, 1, BT_EXPLAIN_TEXT));
        ERROR(bt_explain_function, bt_explain_function(NULL, NULL, 0));
        ERROR(bt_explain_function_as, bt_explain_function_as(NULL, NULL, 0, BT_EXPLAIN_TEXT));
        ERROR(bt_peak_all, bt_peak_all(NULL, 1, NULL, NULL));
        ERROR(bt_function_cost, bt_function_cost(NULL, NULL, NULL, 1, NULL));
        ERROR(bt_peak_call, bt_peak_call(NULL, NULL, NULL, 1, NULL, NULL));
        ERROR(bt_peak_text, bt_peak_text(NULL, 1));
        ERROR(bt_largest_batch, bt_largest_batch(NULL, NULL, 1, NULL, 0, NULL));
        ERROR(bt_time, isnan(bt_time(NULL, NULL)));
        ERROR(bt_timeit, bt_timeit(NULL, NULL, 1, 1, NULL));
        ERROR(bt_profile_stop, bt_profile_stop(NULL, NULL, NULL));
        ERROR(bt_trace_page, bt_trace_page(NULL, NULL));
        ERROR(bt_compiler, bt_compiler(false, NULL));
        ERROR(bt_library_describe, bt_library_describe(-1, false, NULL));
        ERROR(bt_primitive_describe, bt_primitive_describe(-1, NULL));
    }
    none_wrong();
}

static void layers_and_training(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 4, 2), *vector = bt_ones(BT_F32, 3), *key = bt_key(0);
        bt_layer *model = bt_dense(2, 2, NULL, key);
        bt_shared *w;
        bt_parameters(model, &w, 1);
        SILENT(bt_dense, bt_dense(-1, 5, NULL, key));
        SILENT(bt_dense, bt_dense(2, -5, NULL, key));
        SILENT(bt_dense, bt_dense(2, 5, NULL, NULL));
        SILENT(bt_dense, bt_dense(2, 5, NULL, x));
        SILENT(bt_dense_from, bt_dense_from(NULL, NULL, NULL));
        SILENT(bt_dense_from, bt_dense_from(vector, NULL, NULL));
        SILENT(bt_lambda, bt_lambda("none", NULL));
        SILENT(bt_chain, bt_chain(NULL));
        SILENT(bt_layer_new, bt_layer_new("nothing", NULL));
        SILENT(bt_embedding_layer, bt_embedding_layer(0, 2, key));
        SILENT(bt_conv_layer, bt_conv_layer(1, 2, BT_SHAPE(), NULL, key));
        SILENT(bt_conv_transposed_layer, bt_conv_transposed_layer(1, 2, BT_SHAPE(3), NULL, key, .same = true));
        SILENT(bt_max_pool_layer, bt_max_pool_layer(BT_SHAPE(0)));
        SILENT(bt_avg_pool_layer, bt_avg_pool_layer(BT_SHAPE(1, 1, 1, 1)));
        SILENT(bt_adaptive_max_pool_layer, bt_adaptive_max_pool_layer(BT_SHAPE()));
        SILENT(bt_adaptive_avg_pool_layer, bt_adaptive_avg_pool_layer(BT_SHAPE(-1)));
        SILENT(bt_layer_norm_layer, bt_layer_norm_layer(0));
        SILENT(bt_batch_norm_layer, bt_batch_norm_layer(2, .eps = -1));
        SILENT(bt_group_norm_layer, bt_group_norm_layer(2, 3));
        SILENT(bt_rms_norm_layer, bt_rms_norm_layer(-1));
        SILENT(bt_dropout_layer, bt_dropout_layer(2, key));
        SILENT(bt_gru_layer, bt_gru_layer(0, 2, key));
        SILENT(bt_lstm_layer, bt_lstm_layer(2, 2, NULL));
        SILENT(bt_attention_layer, bt_attention_layer(4, 3, key));
        SILENT(bt_parallel, bt_parallel(NULL, model));
        SILENT(bt_skip, bt_skip(NULL, NULL));
        SILENT(bt_fold_norms, bt_fold_norms(NULL));
        ARRAY(bt_combine_sum, bt_combine_sum(NULL, 1));
        ARRAY(bt_combine_concat, bt_combine_concat(NULL, 1));
        ARRAY(bt_init_glorot_uniform, bt_init_glorot_uniform(NULL, BT_F32, BT_SHAPE(2)));
        ARRAY(bt_init_glorot_normal, bt_init_glorot_normal(NULL, BT_F32, BT_SHAPE(2)));
        ARRAY(bt_init_he_uniform, bt_init_he_uniform(NULL, BT_F32, BT_SHAPE(2)));
        ARRAY(bt_init_he_normal, bt_init_he_normal(NULL, BT_F32, BT_SHAPE(2)));
        ARRAY(bt_init_lecun_uniform, bt_init_lecun_uniform(NULL, BT_F32, BT_SHAPE(2)));
        ARRAY(bt_init_lecun_normal, bt_init_lecun_normal(NULL, BT_F32, BT_SHAPE(2)));
        ARRAY(bt_init_truncated_normal, bt_init_truncated_normal(NULL, BT_F32, BT_SHAPE(2)));
        ARRAY(bt_init_orthogonal, bt_init_orthogonal(key, BT_F32, BT_SHAPE(2)));
        ARRAY(bt_init_zeros, bt_init_zeros(NULL, BT_F32, BT_SHAPE(-1)));
        ARRAY(bt_init_ones, bt_init_ones(NULL, BT_F32, BT_SHAPE(-1)));
        ARRAY(bt_layer_parameter, bt_layer_parameter(model, "none"));
        ARRAY(bt_layer_state, bt_layer_state(model, NULL));
        ERROR(bt_layer_set_state, bt_layer_set_state(model, "none", x));
        SILENT(bt_layer_child, bt_layer_child(model, 0));
        ARRAY(bt_batch_mean, bt_batch_mean(bt_ones(BT_I32, 2)));
        ERROR(bt_layer_hook, bt_layer_hook(NULL, NULL, NULL));
        ERROR(bt_layer_gradient_hook, bt_layer_gradient_hook(NULL, NULL, NULL));
        ERROR(bt_apply_all, bt_apply_all(model, &x, 1, NULL, 1));
        SILENT(bt_states, bt_states(model, NULL, 1));
        ARRAY(bt_apply, bt_apply(NULL, x));
        SILENT(bt_parameters, bt_parameters(model, NULL, 1));
        SILENT(bt_fmap, bt_fmap(NULL, NULL, model));
        SILENT(bt_fmap, bt_fmap(same, NULL, NULL));
        SILENT(bt_layer_to, bt_layer_to(NULL, "gpu"));
        SILENT(bt_layer_to, bt_layer_to(model, "gpu:7"));
        SILENT(bt_layer_gpu, bt_layer_gpu(NULL));
        SILENT(bt_layer_cpu, bt_layer_cpu(NULL));
        ERROR(bt_summary, bt_summary(NULL));
        ERROR(bt_optimizer_step, bt_optimizer_step(NULL, &w, &x, 1));
        ERROR(bt_optimizer_step, bt_optimizer_step(bt_sgd(1), &w, &vector, 1));
        ERROR(bt_optimizer_step, bt_optimizer_step(bt_adam(1, .9, .9, 1), &w, &vector, 1));
        bt_optimizer *adam = bt_adam(1);
        SILENT(bt_sgd, bt_sgd(NAN));
        SILENT(bt_momentum, bt_momentum(1, -1));
        SILENT(bt_nesterov, bt_nesterov(1, -1));
        SILENT(bt_adam, bt_adam(1, .beta1 = 2));
        SILENT(bt_adamw, bt_adamw(1, .beta1 = 2));
        SILENT(bt_rmsprop, bt_rmsprop(1, .alpha = 2));
        SILENT(bt_adagrad, bt_adagrad(1, .decay = -1));
        SILENT(bt_lion, bt_lion(1, .beta1 = 2));
        SILENT(bt_optimizer_updates, bt_optimizer_updates(adam, NULL, NULL, 1, NULL, 0));
        ERROR(bt_optimizer_prepare, bt_optimizer_prepare(adam, NULL, 1));
        ERROR(bt_optimizer_group, bt_optimizer_group(adam, &w, 1, .decay = -1));
        ERROR(bt_optimizer_set_rate, bt_optimizer_set_rate(adam, NAN));
        SILENT(bt_optimizer_rate, bt_optimizer_rate(NULL));
        ERROR(bt_optimizer_schedule, bt_optimizer_schedule(adam, BT_SCHEDULE_COSINE));
        ARRAY(bt_optimizer_next_rate, bt_optimizer_next_rate(NULL));
        ARRAY(bt_global_norm, bt_global_norm(NULL, 1));
        ARRAY(bt_clip_by_global_norm, bt_clip_by_global_norm(NULL, 1, 1));
        ERROR(bt_clip_by_value, bt_clip_by_value(NULL, 1, 1));
        ARRAY(bt_optimizer_norm, bt_optimizer_norm(adam));
        ARRAY(bt_optimizer_scale_loss, bt_optimizer_scale_loss(adam, NULL));
        ARRAY(bt_optimizer_loss_scale, bt_optimizer_loss_scale(NULL));
        ARRAY(bt_optimizer_average, bt_optimizer_average(adam, w));
        SILENT(bt_optimizer_averaged, bt_optimizer_averaged(adam, model));
        SILENT(bt_optimizer_states, bt_optimizer_states(NULL, NULL, 0));
        SILENT(bt_optimizer_name, bt_optimizer_name(NULL));
        SILENT(bt_mirrored, bt_mirrored((const char *[]){"gpu:7"}, 1));
        SILENT(bt_pipelined, bt_pipelined(0));
        SILENT(bt_layer_to_stages, bt_layer_to_stages(NULL, NULL, 0, NULL));
        ERROR(bt_strategy_set_shares, bt_strategy_set_shares(NULL, NULL, 1));
        ERROR(bt_strategy_set_exact, bt_strategy_set_exact(NULL, true));
        ERROR(bt_strategy_set_sharded, bt_strategy_set_sharded(NULL, true));
        ERROR(bt_strategy_drop, bt_strategy_drop(NULL, NULL, 0, NULL, NULL));
        SILENT(bt_strategy_run, (void)bt_strategy_run(NULL, NULL, NULL, &x, 1, 0));
        ARRAY(bt_parts_reduce, bt_parts_reduce(NULL, BT_REDUCE_SUM, 0));
        ARRAY(bt_parts_value, bt_parts_value(NULL, 0, 0));
        ERROR(bt_parts_update, bt_parts_update(NULL, adam, &w, 1, 0));
        ERROR(bt_part_gradients, bt_part_gradients(NULL, NULL, -1, NULL));
        SILENT(bt_parts_part, (void)bt_parts_part(NULL, 0));
        SILENT(bt_all_reduce, bt_all_reduce(bt_mirrored(NULL, 0), NULL));
        ARRAY(bt_with_gradient, bt_with_gradient(NULL, NULL, NULL, x, x, NULL));
        ERROR(bt_scan, bt_scan(NULL, NULL, 1, NULL, 0, NULL, 0, NULL, 0));
        ERROR(bt_scan_reverse, bt_scan_reverse(NULL, NULL, 1, NULL, 0, NULL, 0, NULL, 0));
        ERROR(bt_while, bt_while(NULL, NULL, NULL, 0, NULL, 0));
        ERROR(bt_cond, bt_cond(NULL, NULL, NULL, NULL, NULL, 0, NULL, 0));
        ARRAY(bt_train_step, bt_train_step(NULL, NULL, NULL, NULL, NULL, x, x));
        ERROR(bt_fit, bt_fit(NULL, NULL, x, x, NULL, NULL));
        ERROR(bt_fit, bt_fit(model, bt_sgd(1), x, vector, NULL, NULL));
        bt_metric metrics[] = {bt_metric_accuracy(),   bt_metric_top_k(2), bt_metric_f1(),
                               bt_metric_perplexity(), bt_metric_mse(),    bt_metric_mae()};
        double figures[6];
        ERROR(bt_evaluate, bt_evaluate(NULL, x, x, metrics, 6, figures, 0));
        ERROR(bt_accuracy, isnan(bt_accuracy(model, x, NULL)));
        ERROR(bt_accuracy, isnan(bt_accuracy(NULL, x, x)));
    }
    none_wrong();
}

static void devices_and_flags(void **state) {
    fresh("devices=sim:gpu*2");
    bt_device *d = NULL;
    char text[8];
    ERROR(bt_set_flag, bt_set_flag(NULL, "on"));
    ERROR(bt_set_flag, bt_set_flag("nothing", "on"));
    ERROR(bt_set_flag, bt_set_flag("fuse", "maybe"));
    ERROR(bt_get_flag, bt_get_flag("nothing", text, 8));
    ERROR(bt_flag_describe, bt_flag_describe(-1, NULL));
    ERROR(bt_device_find, bt_device_find("gpu:7", &d));
    ERROR(bt_device_find, bt_device_find(NULL, &d));
    ERROR(bt_device_find, bt_device_find("cpu", NULL));
    ERROR(bt_device_get, bt_device_get((bt_kind)17, 0));
    ERROR(bt_device_list_text, bt_device_list_text(NULL, 1, false));
    ERROR(bt_device_describe, bt_device_describe(NULL, NULL));
    ERROR(bt_set_default_device, bt_set_default_device("gpu:7"));
    ERROR(bt_set_contexts, bt_set_contexts(NULL));
    ERROR(bt_set_contexts, bt_set_contexts("cuda7->gpu0"));
    ERROR(bt_set_devices, bt_set_devices(NULL));
    ERROR(bt_set_visible_devices, bt_set_visible_devices(BT_CPU, NULL, 0));
    ERROR(bt_set_logical_devices, bt_set_logical_devices(NULL, NULL, 0));
    ERROR(bt_physical_devices_text, bt_physical_devices_text((bt_kind)99));
    ERROR(bt_logical_devices_text, bt_logical_devices_text((bt_kind)99));
    ERROR(bt_set_devices, bt_set_devices("sim:nothing"));
    ERROR(bt_memory, bt_memory(NULL, NULL));
    ERROR(bt_pinned, bt_pinned(NULL, 1));
    SILENT(bt_pinned_free, bt_pinned_free(&d));
    ERROR(bt_device_processes, bt_device_processes(NULL, NULL, 0, NULL));
    assert_int_equal(bt_device_find("gpu:1", &d), BT_OK);
    ERROR(bt_set_memory_fraction, bt_set_memory_fraction(d, 7));
    BT_SCOPE
        BT_ON("gpu:1") OK(bt_block(bt_ones(BT_F32, 2)));
    ERROR(bt_set_memory_growth, bt_set_memory_growth(d, false));
    ERROR(bt_set_memory_limit, bt_set_memory_limit(d, 1));
    ERROR(bt_set_memory_preallocate, bt_set_memory_preallocate(d, 1));
    none_wrong();
}

static void files(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_tensors *tensors;
        bt_layer *model = bt_dense(2, 2, NULL, bt_key(0));
        ERROR(bt_save, bt_save(NULL, NULL, NULL, 1, NULL));
        ERROR(bt_tensors_open, bt_tensors_open("/nowhere", &tensors));
        ARRAY(bt_tensors_get, bt_tensors_get(NULL, "x"));
        ERROR(bt_save_model, bt_save_model("/nowhere/x", model));
        ERROR(bt_load_model, bt_load_model("/nowhere", model));
        ERROR(bt_save_optimizer, bt_save_optimizer("/nowhere/x", bt_sgd(1)));
        ERROR(bt_load_optimizer, bt_load_optimizer("/nowhere", bt_sgd(1), NULL, 0));
        ERROR(bt_save_bson, bt_save_bson("/nowhere/x", "model", model));
        ERROR(bt_model_open, bt_layer_status(bt_model_open("/nowhere")));
        ERROR(bt_tensors_describe, bt_tensors_describe(NULL, 0, NULL));
        ERROR(bt_layer_register, bt_layer_register(NULL, NULL, NULL));
        ERROR(bt_activation_register, bt_activation_register(NULL, NULL));
        ARRAY(bt_record_value, bt_record_value(NULL, NULL));
        ARRAY(bt_load_npy, bt_load_npy("/nowhere"));
        ERROR(bt_function_export, bt_function_export(NULL, "/nowhere/x"));
        ERROR(bt_save_npy, bt_save_npy("/nowhere/x", bt_ones(BT_F32, 1)));
        ERROR(bt_save_npz, bt_save_npz(NULL, NULL, NULL, 1, false));
        ERROR(bt_save_shards, bt_save_shards(NULL, NULL, NULL, 1, NULL, 1));
        ERROR(bt_to_dlpack, bt_to_dlpack(NULL, false, NULL));
        ERROR(bt_to_dlpack_unversioned, bt_to_dlpack_unversioned(NULL, false, NULL));
        ARRAY(bt_from_dlpack, bt_from_dlpack(NULL));
        ARRAY(bt_from_dlpack_unversioned, bt_from_dlpack_unversioned(NULL));
        ARRAY(bt_load_csv, bt_load_csv("/nowhere", BT_F32));
    }
    none_wrong();
}

static void data_sets_and_loaders(void **state) {
    fresh("");
    BT_SCOPE {
        bt_column column = BT_COLUMN("x", BT_F32, 2);
        bt_batch batch = BT_BATCH_INIT;
        bt_dataset *parts[2];
        const char *path = "/nowhere";
        bt_layer *model = bt_dense(2, 2, NULL, bt_key(0));
        SILENT(bt_dataset_arrays, bt_dataset_arrays(NULL, NULL, 1));
        SILENT(bt_dataset_npy, bt_dataset_npy(NULL, &path, 1));
        SILENT(bt_dataset_csv, bt_dataset_csv(path, &column, 1));
        SILENT(bt_dataset_callback, bt_dataset_callback(1, &column, 1, NULL, NULL));
        SILENT(bt_dataset_map, bt_dataset_map(NULL, &column, 1, NULL, NULL));
        SILENT(bt_dataset_select, bt_dataset_select(NULL, NULL, 0));
        ERROR(bt_dataset_split, bt_dataset_split(NULL, 0.5, NULL, NULL, &parts[0], &parts[1]));
        SILENT(bt_dataset_to, bt_dataset_to(NULL, "cpu"));
        ERROR(bt_dataset_status, bt_dataset_status(NULL));
        ERROR(bt_dataset_rows, bt_dataset_rows(NULL));
        ERROR(bt_dataset_columns, bt_dataset_columns(NULL));
        ERROR(bt_dataset_column, bt_dataset_column(NULL, 0));
        ERROR(bt_example_resize, bt_example_resize(NULL, 0, 1));
        SILENT(bt_loader_new, bt_loader_new(NULL));
        ERROR(bt_loader_status, bt_loader_status(NULL));
        ERROR(bt_loader_next, bt_loader_next(NULL, &batch));
        ERROR(bt_loader_next, bt_loader_next(NULL, NULL));
        ARRAY(bt_batch_array, bt_batch_array(&batch, "x"));
        ERROR(bt_loader_batches, bt_loader_batches(NULL));
        ERROR(bt_loader_start, bt_loader_start(NULL, 0));
        ERROR(bt_loader_state, bt_loader_state(NULL));
        ERROR(bt_loader_restore, bt_loader_restore(NULL, NULL));
        ERROR(bt_fit_loader, bt_fit_loader(model, bt_sgd(1), NULL, NULL, NULL));
    }
    none_wrong();
}

static bt_status nothing(bt_task *task) { return BT_OK; }
BT_REMOTE(nothing);

static void tasks(void **state) {
    fresh("");
    int number;
    ERROR(bt_runtime_init, bt_runtime_init(.num_cpus = -7));
    ERROR(bt_module_load, bt_module_load("/nowhere.so"));
    ERROR(bt_put, bt_put(1));
    ERROR(bt_get, bt_get(NULL, &number));
    ERROR(bt_get_within, bt_get_within(NULL, 1, &number));
    ERROR(bt_result, bt_result(NULL, 1));
    ERROR(bt_stream_next, bt_stream_next(NULL, 1));
    ERROR(bt_list_get, bt_list_get(BT_LIST(), 0, &number));
    ERROR(bt_remote, bt_remote(nothing));
    ERROR(bt_layer_status, bt_layer_status(NULL));
    ERROR(bt_optimizer_status, bt_optimizer_status(NULL));
    ERROR(bt_shared_status, bt_shared_status(NULL));
    ERROR(bt_shared_freeze, bt_shared_freeze(NULL, true));
    ERROR(bt_freeze, bt_freeze(NULL));
    ERROR(bt_thaw, bt_thaw(NULL));
    ERROR(bt_function_status, bt_function_status(NULL));
    ERROR(bt_function_donate, bt_function_donate(NULL, 0));
    ERROR(bt_strategy_status, bt_strategy_status(NULL));
    ERROR(bt_parts_status, bt_parts_status(NULL));
    ERROR(bt_remote_with, bt_remote_with(BT_OPTIONS(.num_cpus = 1), nothing));
    ERROR(bt_remote_named, bt_remote_named(NULL, "nothing", NULL, NULL, 0));
    ERROR(bt_actor_new, bt_actor_new(nothing));
    ERROR(bt_actor_new_with, bt_actor_new_with(BT_OPTIONS(.num_cpus = 1), nothing));
    ERROR(bt_actor_named, bt_actor_named(NULL, "nothing", NULL, NULL, 0));
    ERROR(bt_method, bt_method(NULL, nothing));
    ERROR(bt_method_with, bt_method_with(BT_OPTIONS(.num_cpus = 1), NULL, nothing));
    ERROR(bt_method_named, bt_method_named(NULL, NULL, "nothing", NULL, NULL, 0));
    ERROR(bt_cancel, bt_cancel(NULL, false));
    ERROR(bt_ref_failure, bt_ref_failure(NULL));
    ERROR(bt_cancel_all, bt_cancel_all(NULL, false));
    ERROR(bt_actor_find, bt_actor_find("nobody"));
    ERROR(bt_actor_status, bt_actor_status(NULL));
    ERROR(bt_actor_kill, bt_actor_kill(NULL));
    ERROR(bt_group_new, bt_group_new(NULL, 1));
    ERROR(bt_group_wait, bt_group_wait(NULL, 1));
    ERROR(bt_pool_new, bt_pool_new(NULL, 1));
    ERROR(bt_pool_submit, bt_pool_submit(NULL, nothing));
    ERROR(bt_pool_next, bt_pool_next(NULL, BT_IN_ORDER, 0));
    ERROR(bt_pool_has_next, bt_pool_has_next(NULL));
    ERROR(bt_pool_idle, bt_pool_idle(NULL));
    ERROR(bt_pool_push, bt_pool_push(NULL, NULL));
    ERROR(bt_pool_pop_idle, bt_pool_pop_idle(NULL));
    ERROR(bt_runtime_timeline, bt_runtime_timeline("/nowhere/x"));
    ERROR(bt_runtimes_text, bt_runtimes_text(1, false));
    ERROR(bt_runtimes_timeline, bt_runtimes_timeline(1, "/nowhere/x"));
    ERROR(bt_lease_take, bt_lease_take(&(bt_lease_options){.size = sizeof(bt_lease_options), .num_gpus = -3}));
    none_wrong();
}

/* --- the headers ---------------------------------------------------------------------------------------------------------- */

/* They cannot fail, or answer (0, NULL, false, NaN) without an error; those inside of a task are called by task_test. */
static const char silent[] =
    /* called by macros of the names before */
    " bt_bits_shape bt_uniform_shape bt_normal_shape bt_randint_shape bt_bernoulli_shape bt_categorical_shape "
    "bt_full_shape "
    " bt_input_shape bt_reshape_to bt_permute_axes bt_broadcast_shape bt_chain_of bt_parallel_of bt_runtime_start "
    /* owners */
    " bt_keep bt_retain bt_release bt_free bt_shared_retain bt_shared_release bt_function_retain bt_function_release "
    " bt_layer_retain bt_layer_release bt_optimizer_retain bt_optimizer_release bt_strategy_retain bt_strategy_release "
    " bt_custom_retain bt_custom_release "
    " bt_ref_retain bt_ref_release bt_actor_retain bt_actor_release bt_group_retain bt_group_release bt_lease_release "
    " bt_pool_retain bt_pool_release bt_parts_retain bt_parts_release "
    " bt_tensors_close bt_dataset_retain bt_dataset_release bt_loader_retain bt_loader_release "
    /* questions that always have an answer */
    " bt_live_arrays bt_device_of bt_devices_text bt_dtype_of bt_rank bt_shape_of bt_size bt_count bt_peek_status "
    " bt_kind_name bt_device_count bt_device_list bt_try_tpu_gpu bt_try_all_gpus bt_device_name bt_device_long_name "
    " bt_device_description bt_device_kind bt_device_index bt_device_driver bt_functional bt_device_energy "
    "bt_is_pinned "
    "bt_default_device "
    " bt_memory_reset_peak bt_memory_trim bt_dtype_name bt_dtype_named bt_dtype_size bt_promote bt_flag_count "
    " bt_shared_name bt_shared_is_frozen bt_parameter_count bt_layer_child_count bt_is_training bt_strategy_count "
    "bt_strategy_device bt_strategy_share bt_parts_count "
    "bt_status_name "
    "bt_failure_is_retryable "
    "bt_error_text "
    " bt_error_status bt_error_clear bt_set_error_handler bt_set_log_sink bt_library_count bt_primitive_count "
    " bt_operation_count bt_operation_name bt_tensors_count bt_tensors_name bt_tensors_metadata "
    "bt_tensors_metadata_name bt_tensors_format bt_resource_total "
    " bt_resource_free bt_lease_gpus bt_lease_mask bt_lease_variable bt_get_gpu_ids bt_wait_refs bt_runtime_text "
    "bt_leases_text "
    " bt_metric_accuracy bt_metric_top_k bt_metric_f1 bt_metric_perplexity bt_metric_mse bt_metric_mae "
    /* what only memory can keep from succeeding, or the settings */
    " bt_flatten_layer bt_global_max_pool_layer bt_global_avg_pool_layer bt_profile_start bt_synchronize "
    "bt_check_flags "
    "bt_runtime_shutdown "
    /* inside of a task: task_test */
    " bt_list_count bt_list_type bt_list_of "
    " bt_yield bt_argument_count bt_argument_type bt_argument bt_arguments bt_return bt_task_fail bt_task_cancelled "
    "bt_set_state bt_state "
    /* inside of a function that makes examples: loader_workers_test */
    " bt_example_fail ";

static bool in_list(const char *name) {
    char word[160];
    snprintf(word, sizeof word, " %s ", name);
    if (strstr(silent, word)) return true;
    for (int i = 0; i < called_count; i++)
        if (!strcmp(called[i], name)) return true;
    return false;
}

static void check_name(const char *at) {
    char name[128];
    size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz_0123456789");
    snprintf(name, sizeof name, "%.*s", (int)length, at);
    if (in_list(name)) return;
    print_error("%s is called nowhere here\n", name);
    wrong++;
}

static void check_header(const char *path) {
    FILE *file = fopen(path, "r");
    static char text[1 << 17];
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    for (const char *at = text; (at = strstr(at, "#define bt_")); at++)
        if (at[8 + strspn(at + 8, "abcdefghijklmnopqrstuvwxyz_0123456789")] == '(') check_name(at + 8);
    for (const char *at = text; (at = strstr(at, "BT_API ")); at++) {
        const char *open = strchr(at, '('), *name = open;
        while (name > at && strchr("abcdefghijklmnopqrstuvwxyz_0123456789", name[-1])) name--;
        if (!strncmp(name, "bt_", 3)) check_name(name);
    }
}

static void every_public_function_is_here(void **state) {
    static const char *const headers[] = {"array",    "device",   "dist",   "dtype",      "file",      "flags",
                                          "function", "grad",     "nn",     "ops",        "random",    "status",
                                          "task",     "train",    "view",   "call",       "attention", "losses",
                                          "windows",  "matrices", "linalg", "check",      "transform", "control",
                                          "custom",   "layers",   "data",   "optimizers", "metrics"};
    for (int i = 0; i < COUNT(headers); i++) {
        char path[512];
        snprintf(path, sizeof path, BERTH_SOURCE_DIR "/include/berth/%s.h", headers[i]);
        check_header(path);
    }
    none_wrong();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations),
        cmocka_unit_test(operations_have_log_names),
        cmocka_unit_test(what_shapes_and_dtypes_are_wrong),
        cmocka_unit_test(making),
        cmocka_unit_test(reading),
        cmocka_unit_test(functions_and_gradients),
        cmocka_unit_test(layers_and_training),
        cmocka_unit_test(devices_and_flags),
        cmocka_unit_test(files),
        cmocka_unit_test(data_sets_and_loaders),
        cmocka_unit_test(tasks),
        cmocka_unit_test(every_public_function_is_here),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}

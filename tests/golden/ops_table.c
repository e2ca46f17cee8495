/* The names of reference cases and the public calls that they mean. Attributes that are absent have README.md's defaults. */
#include "golden/golden.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    bt_array *(*call)(bt_array *);
} unary[] = {
    {"neg", bt_neg},           {"abs", bt_abs},
    {"sign", bt_sign},         {"square", bt_square},
    {"floor", bt_floor},       {"ceil", bt_ceil},
    {"round", bt_round},       {"trunc", bt_trunc},
    {"exp", bt_exp},           {"exp2", bt_exp2},
    {"expm1", bt_expm1},       {"log", bt_log},
    {"log2", bt_log2},         {"log10", bt_log10},
    {"log1p", bt_log1p},       {"sqrt", bt_sqrt},
    {"rsqrt", bt_rsqrt},       {"reciprocal", bt_reciprocal},
    {"sin", bt_sin},           {"cos", bt_cos},
    {"tan", bt_tan},           {"asin", bt_asin},
    {"acos", bt_acos},         {"atan", bt_atan},
    {"sinh", bt_sinh},         {"cosh", bt_cosh},
    {"tanh", bt_tanh},         {"erf", bt_erf},
    {"erfinv", bt_erfinv},     {"logical_not", bt_logical_not},
    {"bit_not", bt_bit_not},   {"isnan", bt_isnan},
    {"isinf", bt_isinf},       {"isfinite", bt_isfinite},
    {"relu", bt_relu},         {"sigmoid", bt_sigmoid},
    {"softplus", bt_softplus}, {"silu", bt_silu},
    {"identity", bt_identity}, {"stop_gradient", bt_stop_gradient},
};

static const struct {
    const char *name;
    bt_array *(*call)(bt_array *, bt_array *);
} binary[] = {
    {"add", bt_add},
    {"promote_add", bt_add},
    {"sub", bt_sub},
    {"mul", bt_mul},
    {"div", bt_div},
    {"floor_div", bt_floor_div},
    {"mod", bt_mod},
    {"pow", bt_pow},
    {"atan2", bt_atan2},
    {"maximum", bt_maximum},
    {"minimum", bt_minimum},
    {"bit_and", bt_bit_and},
    {"bit_or", bt_bit_or},
    {"bit_xor", bt_bit_xor},
    {"shift_left", bt_shift_left},
    {"shift_right", bt_shift_right},
    {"eq", bt_eq},
    {"ne", bt_ne},
    {"lt", bt_lt},
    {"le", bt_le},
    {"gt", bt_gt},
    {"ge", bt_ge},
    {"logical_and", bt_logical_and},
    {"logical_or", bt_logical_or},
    {"logical_xor", bt_logical_xor},
};

static const struct {
    const char *name;
    bt_array *(*call)(bt_array *, bt_axes, bool);
} reductions[] = {
    {"mean", bt_mean}, {"max", bt_max}, {"min", bt_min}, {"all", bt_all}, {"any", bt_any}, {"logsumexp", bt_logsumexp},
};

static int axis_of(call *c, int otherwise) { return (int)attr_int(c, "axis", otherwise); }
static bool keepdims(call *c) { return attr_bool(c, "keepdims", false); }

/* --- activations, casts ---------------------------------------------------------------------------------------------- */

static bt_array *do_gelu(call *c) {
    return attr_bool(c, "approximate", false) ? bt_gelu_tanh(c->in[0]) : bt_gelu(c->in[0]);
}
static bt_array *do_elu(call *c) { return bt_elu(c->in[0], attr_double(c, "alpha", 1)); }
static bt_array *do_leaky_relu(call *c) { return bt_leaky_relu(c->in[0], attr_double(c, "slope", 0.01)); }
static bt_array *do_clamp(call *c) {
    return bt_clamp(c->in[0], attr_double(c, "lo", -INFINITY), attr_double(c, "hi", INFINITY));
}
static bt_array *do_cast(call *c) { return bt_cast(c->in[0], attr_dtype(c, "dtype", c->out_dtype)); }
static bt_array *do_bitcast(call *c) { return bt_bitcast(c->in[0], attr_dtype(c, "dtype", c->out_dtype)); }
static bt_array *do_where(call *c) { return bt_where(c->in[0], c->in[1], c->in[2]); }
static bt_array *do_add_n(call *c) { return bt_add_n(c->in, c->in_count); }

/* Weights, then positive weights, are inputs behind the first two. */
static bt_loss_options loss_options(call *c) {
    bt_loss_options options = *BT_LOSS(.label_smoothing = attr_double(c, "label_smoothing", 0));
    const char *reduction = json_string_value(attr(c, "reduction"));
    int next = 2;
    if (attr_bool(c, "weights", false)) options.weights = c->in[next++];
    if (attr_bool(c, "positive_weights", false)) options.positive_weights = c->in[next++];
    if (reduction && !strcmp(reduction, "sum")) options.reduction = BT_REDUCE_SUM;
    if (reduction && !strcmp(reduction, "none")) options.reduction = BT_REDUCE_NONE;
    options.ignore = attr(c, "ignored") != NULL;
    options.ignored = attr_int(c, "ignored", 0);
    return options;
}
static bt_array *do_mse_loss(call *c) {
    bt_loss_options options = loss_options(c);
    return (bt_mse)(c->in[0], c->in[1], &options);
}
static bt_array *do_mae_loss(call *c) {
    bt_loss_options options = loss_options(c);
    return (bt_mae)(c->in[0], c->in[1], &options);
}
static bt_array *do_huber_loss(call *c) {
    bt_loss_options options = loss_options(c);
    return (bt_huber)(c->in[0], c->in[1], attr_double(c, "delta", 1), &options);
}
static bt_array *do_binary_cross_entropy_loss(call *c) {
    bt_loss_options options = loss_options(c);
    return (bt_binary_cross_entropy)(c->in[0], c->in[1], &options);
}
static bt_array *do_cross_entropy_loss(call *c) {
    bt_loss_options options = loss_options(c);
    return (bt_cross_entropy)(c->in[0], c->in[1], &options);
}

/* --- reductions ------------------------------------------------------------------------------------------------------ */

static bt_array *do_sum(call *c) {
    return bt_sum_as(c->in[0], attr_axes(c), keepdims(c), attr_dtype(c, "dtype", c->out_dtype));
}
static bt_array *do_prod(call *c) {
    return bt_prod_as(c->in[0], attr_axes(c), keepdims(c), attr_dtype(c, "dtype", c->out_dtype));
}
static bt_array *do_var(call *c) { return bt_var(c->in[0], attr_axes(c), keepdims(c), (int)attr_int(c, "ddof", 0)); }
static bt_array *do_std(call *c) { return bt_std(c->in[0], attr_axes(c), keepdims(c), (int)attr_int(c, "ddof", 0)); }
static bt_array *do_norm(call *c) {
    const json_t *order = attr(c, "ord");
    if (order && json_double(order) != 2) return refuse(c, "only the 2-norm is there");
    return bt_norm(c->in[0], attr_axes(c), keepdims(c));
}
/* Without an axis: of the flattened array. */
static bt_array *position(call *c, bt_array *(*find)(bt_array *, int)) {
    bool flat = !attr(c, "axis"), keep = keepdims(c);
    if (flat && keep) return refuse(c, "keepdims without an axis");
    bt_array *found = find(flat ? bt_reshape(c->in[0], -1) : c->in[0], axis_of(c, 0));
    return keep ? bt_expand_dims(found, axis_of(c, 0)) : found;
}
static bt_array *do_argmax(call *c) { return position(c, bt_argmax); }
static bt_array *do_argmin(call *c) { return position(c, bt_argmin); }
static bt_array *running(call *c, bt_array *(*run)(bt_array *, int, bool)) {
    bool flat = !attr(c, "axis");
    return run(flat ? bt_reshape(c->in[0], -1) : c->in[0], axis_of(c, 0), attr_bool(c, "reverse", false));
}
static bt_array *do_cumsum(call *c) { return running(c, bt_cumsum); }
static bt_array *do_cumprod(call *c) { return running(c, bt_cumprod); }
static bt_array *do_cummax(call *c) { return running(c, bt_cummax); }
static bt_array *do_cummin(call *c) { return running(c, bt_cummin); }

/* --- shape ----------------------------------------------------------------------------------------------------------- */

static bt_array *do_reshape(call *c) { return bt_reshape_to(c->in[0], attr_shape(c, "shape")); }
static bt_array *do_flatten(call *c) { return bt_flatten(c->in[0], axis_of(c, 0)); }
static bt_array *do_transpose(call *c) {
    bt_axes axes = attr_axes(c);
    if (!axes.count) { /* NumPy: all axes backwards */
        axes.count = bt_rank(c->in[0]);
        for (int i = 0; i < axes.count; i++) axes.axis[i] = axes.count - 1 - i;
    }
    return bt_permute_axes(c->in[0], axes);
}
static bt_array *do_broadcast_to(call *c) { return bt_broadcast_shape(c->in[0], attr_shape(c, "shape")); }
static bt_array *do_slice(call *c) {
    int64_t start[BT_MAX_RANK] = {0}, stop[BT_MAX_RANK], step[BT_MAX_RANK];
    for (int i = 0; i < BT_MAX_RANK; i++) stop[i] = INT64_MAX, step[i] = 1;
    if (!attr_list(c, "start", start, BT_MAX_RANK) || !attr_list(c, "stop", stop, BT_MAX_RANK))
        return refuse(c, "start and stop are not given on every axis");
    return bt_slice(c->in[0], start, stop, attr_list(c, "step", step, BT_MAX_RANK) ? step : NULL);
}
static bt_array *do_flip(call *c) { return bt_flip(c->in[0], attr_axes(c)); }
static bt_array *do_expand_dims(call *c) { return bt_expand_dims(c->in[0], axis_of(c, 0)); }
static bt_array *do_squeeze(call *c) {
    bt_axes axes = attr_axes(c);
    bt_array *x = c->in[0];
    int rank = bt_rank(x);
    bool drop[BT_MAX_RANK] = {false};
    for (int i = 0; i < rank; i++) drop[i] = !axes.count && bt_size(x, i) == 1;
    for (int i = 0; i < axes.count; i++) {
        if (axes.axis[i] < -rank || axes.axis[i] >= rank) return bt_squeeze(x, (int)axes.axis[i]);
        drop[axes.axis[i] < 0 ? axes.axis[i] + rank : axes.axis[i]] = true;
    }
    for (int i = rank - 1; i >= 0; i--)
        if (drop[i]) x = bt_squeeze(x, i);
    return x == c->in[0] ? bt_identity(x) : x;
}
static bt_array *do_concat(call *c) { return bt_concat(c->in, c->in_count, axis_of(c, 0)); }
static bt_array *do_stack(call *c) { return bt_stack(c->in, c->in_count, axis_of(c, 0)); }
static bt_array *do_pad(call *c) {
    int64_t low[BT_MAX_RANK] = {0}, high[BT_MAX_RANK] = {0};
    attr_list(c, "low", low, BT_MAX_RANK);
    attr_list(c, "high", high, BT_MAX_RANK);
    return bt_pad(c->in[0], low, high, attr_double(c, "value", 0));
}
static bt_array *do_tile(call *c) { return bt_tile(c->in[0], attr_shape(c, "reps")); }
static bt_array *do_one_hot(call *c) {
    return bt_one_hot(c->in[0], attr_int(c, "depth", 0), attr_dtype(c, "dtype", c->out_dtype));
}

/* --- by index -------------------------------------------------------------------------------------------------------- */

static bt_array *do_take(call *c) {
    bool flat = !attr(c, "axis");
    return bt_take(flat ? bt_reshape(c->in[0], -1) : c->in[0], c->in[1], axis_of(c, 0));
}
static bt_array *do_boolean_mask(call *c) { return bt_boolean_mask(c->in[0], c->in[1], axis_of(c, 0)); }
static bt_array *do_nonzero(call *c) { return bt_nonzero(c->in[0]); }
static bt_array *do_scatter_add(call *c) { return bt_scatter_add(c->in[0], c->in[1], c->in[2], axis_of(c, 0)); }
static bt_array *do_scatter_set(call *c) { return bt_scatter_set(c->in[0], c->in[1], c->in[2], axis_of(c, 0)); }
static bt_array *do_scatter_max(call *c) { return bt_scatter_max(c->in[0], c->in[1], c->in[2], axis_of(c, 0)); }
static bt_array *do_scatter_min(call *c) { return bt_scatter_min(c->in[0], c->in[1], c->in[2], axis_of(c, 0)); }
static bt_array *do_take_along_axis(call *c) { return bt_take_along_axis(c->in[0], c->in[1], axis_of(c, -1)); }
static bt_array *do_scatter_add_along_axis(call *c) {
    return bt_scatter_add_along_axis(c->in[0], c->in[1], c->in[2], axis_of(c, -1));
}
static bt_array *do_scatter_set_along_axis(call *c) {
    return bt_scatter_set_along_axis(c->in[0], c->in[1], c->in[2], axis_of(c, -1));
}
static bt_array *do_scatter_max_along_axis(call *c) {
    return bt_scatter_max_along_axis(c->in[0], c->in[1], c->in[2], axis_of(c, -1));
}
static bt_array *do_scatter_min_along_axis(call *c) {
    return bt_scatter_min_along_axis(c->in[0], c->in[1], c->in[2], axis_of(c, -1));
}
static bt_array *do_sort(call *c) { return bt_sort(c->in[0], axis_of(c, -1)); }
static bt_array *do_argsort(call *c) { return bt_argsort(c->in[0], axis_of(c, -1)); }
static bt_array *do_top_k(call *c) { return bt_top_k(c->in[0], attr_int(c, "k", 1)); }
static bt_array *do_searchsorted(call *c) { return bt_searchsorted(c->in[0], c->in[1], attr_bool(c, "right", false)); }
static bt_array *do_bincount(call *c) { return bt_bincount(c->in[0], attr_int(c, "length", 0)); }
static bt_array *do_histogram(call *c) {
    return bt_histogram(c->in[0], attr_int(c, "bins", 10), attr_double(c, "low", 0), attr_double(c, "high", 1));
}
static bt_array *do_unique(call *c) { return bt_unique(c->in[0], attr_int(c, "size", 0)); }
static bt_array *do_top_k_indices(call *c) { return bt_top_k_indices(c->in[0], attr_int(c, "k", 1)); }

/* --- products, softmax, windows -------------------------------------------------------------------------------------- */

static bt_array *do_matmul(call *c) {
    bool a = attr_bool(c, "transpose_a", false), b = attr_bool(c, "transpose_b", false);
    return a || b ? bt_matmul_t(c->in[0], c->in[1], a, b) : bt_matmul(c->in[0], c->in[1]);
}
static bt_array *do_matmul_as(call *c) {
    bt_array *b = attr_bool(c, "transpose_b", false) ? bt_transpose(c->in[1]) : c->in[1];
    return bt_matmul_as(c->in[0], b, attr_dtype(c, "dtype", c->out_dtype));
}
static bt_array *do_einsum(call *c) {
    const char *spec = json_string_value(attr(c, "spec"));
    return spec ? bt_einsum(spec, c->in, c->in_count) : refuse(c, "no spec");
}
static bt_array *do_softmax(call *c) { return bt_softmax(c->in[0], axis_of(c, -1)); }
static bt_array *do_log_softmax(call *c) { return bt_log_softmax(c->in[0], axis_of(c, -1)); }
static bt_array *do_layer_norm(call *c) {
    int axis = axis_of(c, -1);
    if (axis != -1 && axis != bt_rank(c->in[0]) - 1) return refuse(c, "only over the last axis");
    return bt_layer_norm(c->in[0], c->in_count > 1 ? c->in[1] : NULL, c->in_count > 2 ? c->in[2] : NULL,
                         attr_double(c, "eps", 1e-5));
}
static bt_array *do_conv2d(call *c) {
    int64_t strides[2] = {1, 1}, low[2] = {0}, high[2] = {0};
    const char *layout = json_string_value(attr(c, "layout"));
    if (layout && strcmp(layout, "NCHW/OIHW")) return refuse(c, "only the layout NCHW/OIHW is there");
    attr_list(c, "strides", strides, 2);
    attr_list(c, "pad_low", low, 2);
    attr_list(c, "pad_high", high, 2);
    return bt_conv2d(c->in[0], c->in[1], strides, low, high, attr_int(c, "groups", 1));
}
static bt_array *pool(call *c, bt_array *(*pooled)(bt_array *, const int64_t *, const int64_t *)) {
    int64_t window[2], strides[2];
    if (!attr_list(c, "window", window, 2)) return refuse(c, "no window");
    return pooled(c->in[0], window, attr_list(c, "strides", strides, 2) ? strides : NULL);
}
static bt_array *do_max_pool2d(call *c) { return pool(c, bt_max_pool2d); }
static bt_array *do_avg_pool2d(call *c) { return pool(c, bt_avg_pool2d); }

static bt_array *do_conv_any(call *c, bt_array *(*conv)(bt_array *, bt_array *, const bt_conv_options *)) {
    bt_conv_options options = *BT_CONV(.groups = attr_int(c, "groups", 1));
    int axes = bt_rank(c->in[0]) - 2;
    attr_list(c, "strides", options.stride, axes);
    attr_list(c, "pad_low", options.pad_low, axes);
    attr_list(c, "pad_high", options.pad_high, axes);
    attr_list(c, "dilation", options.dilation, axes);
    attr_list(c, "output_pad", options.output_pad, axes);
    return conv(c->in[0], c->in[1], &options);
}
static bt_array *do_conv(call *c) { return do_conv_any(c, bt_conv); }
static bt_array *do_conv_transposed(call *c) { return do_conv_any(c, bt_conv_transposed); }
/* Of a mask and lengths: which inputs they are. */
static bt_array *do_attention(call *c) {
    int64_t mask = attr_int(c, "mask", 0), lengths = attr_int(c, "lengths", 0);
    bt_attention_options options =
        *BT_ATTENTION(.causal = attr_bool(c, "causal", false), .from_end = attr_bool(c, "from_end", false),
                      .scale = attr_double(c, "scale", 0));
    if (mask) options.mask = c->in[mask];
    if (lengths) options.lengths = c->in[lengths];
    return (bt_attention)(c->in[0], c->in[1], c->in[2], &options);
}
static bt_array *do_pool(call *c, bt_array *(*pooled)(bt_array *, const bt_pool_options *)) {
    bt_pool_options options = *BT_POOL(.exclude_pads = attr_bool(c, "exclude_pads", false));
    int axes = bt_rank(c->in[0]) - 2;
    if (!attr_list(c, "window", options.window, axes)) return refuse(c, "no window");
    attr_list(c, "strides", options.stride, axes);
    attr_list(c, "pad_low", options.pad_low, axes);
    attr_list(c, "pad_high", options.pad_high, axes);
    attr_list(c, "dilation", options.dilation, axes);
    return pooled(c->in[0], &options);
}
static bt_array *do_max_pool(call *c) { return do_pool(c, bt_max_pool); }
static bt_array *do_avg_pool(call *c) { return do_pool(c, bt_avg_pool); }
static bt_array *do_adaptive(call *c, bt_array *(*pooled)(bt_array *, bt_shape)) {
    bt_shape sizes = {.rank = bt_rank(c->in[0]) - 2};
    return attr_list(c, "sizes", sizes.size, sizes.rank) ? pooled(c->in[0], sizes) : refuse(c, "no sizes");
}
static bt_array *do_adaptive_max_pool(call *c) { return do_adaptive(c, bt_adaptive_max_pool); }
static bt_array *do_adaptive_avg_pool(call *c) { return do_adaptive(c, bt_adaptive_avg_pool); }

static bt_array *do_tril(call *c) { return bt_tril(c->in[0], attr_int(c, "k", 0)); }
static bt_array *do_triu(call *c) { return bt_triu(c->in[0], attr_int(c, "k", 0)); }
static bt_array *do_diagonal(call *c) { return bt_diagonal(c->in[0], attr_int(c, "k", 0)); }
static bt_array *do_diag(call *c) { return bt_diag(c->in[0], attr_int(c, "k", 0)); }
static bt_array *do_trace(call *c) { return bt_trace(c->in[0]); }
static bt_array *do_outer(call *c) { return bt_outer(c->in[0], c->in[1]); }
static bt_array *do_kron(call *c) { return bt_kron(c->in[0], c->in[1]); }
static bt_axes axes_named(call *c, const char *name) {
    bt_axes axes = BT_AXES();
    const json_t *list = attr(c, name);
    if (json_array_size(list)) axes.count = 0;
    for (size_t i = 0; i < json_array_size(list) && i < BT_MAX_RANK; i++)
        axes.axis[axes.count++] = json_integer_value(json_array_get(list, i));
    return axes;
}
static bt_array *do_tensordot(call *c) {
    return bt_tensordot(c->in[0], c->in[1], axes_named(c, "axes_a"), axes_named(c, "axes_b"));
}
static bt_array *do_roll(call *c) { return bt_roll(c->in[0], attr_int(c, "shift", 0), axis_of(c, 0)); }
static bt_array *do_diff(call *c) { return bt_diff(c->in[0], axis_of(c, 0)); }
static bt_array *do_index(call *c) { return bt_index(c->in[0], axis_of(c, 0), attr_int(c, "index", 0)); }
static bt_array *do_at(call *c) { return bt_at(c->in[0], json_string_value(attr(c, "places"))); }
static bt_array *do_set_at(call *c) { return bt_set_at(c->in[0], json_string_value(attr(c, "places")), c->in[1]); }
static bt_array *do_quantile(call *c) {
    return bt_quantile(c->in[0], attr_double(c, "q", 0.5), axes_named(c, "axes"), keepdims(c));
}
static bt_array *do_median(call *c) { return bt_median(c->in[0], axes_named(c, "axes"), keepdims(c)); }
static bt_array *do_logaddexp(call *c) { return bt_logaddexp(c->in[0], c->in[1]); }
static bt_array *do_nan_to_num(call *c) {
    return bt_nan_to_num(c->in[0], attr_double(c, "nan", 0), attr_double(c, "posinf", 0), attr_double(c, "neginf", 0));
}

/* --- linear algebra -------------------------------------------------------------------------------------------------- */

static bt_array *do_cholesky(call *c) { return bt_cholesky(c->in[0]); }
static bt_array *do_inv(call *c) { return bt_inv(c->in[0]); }
static bt_array *do_det(call *c) { return bt_det(c->in[0]); }
static bt_array *do_solve(call *c) { return bt_solve(c->in[0], c->in[1]); }
static bt_array *do_lstsq(call *c) { return bt_lstsq(c->in[0], c->in[1]); }
static bt_array *do_triangular_solve(call *c) {
    return bt_triangular_solve(c->in[0], c->in[1], attr_bool(c, "upper", false), attr_bool(c, "transposed", false),
                               attr_bool(c, "unit", false));
}
/* What does not depend on the signs of vectors: of eigenvalues 0 the exponential of the matrix, else u v, the nearest unitary one. */
static bt_array *whole_of(bt_array *const *parts, int values) {
    if (values == 1) return bt_matmul(parts[0], parts[2]);
    bt_array *scaled = bt_mul(parts[1], bt_expand_dims(bt_exp(parts[0]), -2));
    return bt_matmul_t(scaled, bt_conj(parts[1]), false, true);
}
/* One of the parts; of vectors, whose signs are anyone's, the squares. */
static bt_array *part_of(call *c, bt_status (*find)(bt_array *, bt_array **), int values) {
    bt_array *parts[3] = {NULL};
    int part = (int)attr_int(c, "part", 0);
    if (find(c->in[0], parts) != BT_OK) return parts[0];
    if (attr_bool(c, "whole", false)) return whole_of(parts, values);
    return values < 0 || part == values ? parts[part] : bt_real(bt_mul(parts[part], bt_conj(parts[part])));
}
static bt_array *do_slogdet(call *c) { return part_of(c, (bt_slogdet), -1); }
static bt_array *do_qr(call *c) { return part_of(c, (bt_qr), -1); }
static bt_array *do_eigh(call *c) { return part_of(c, (bt_eigh), 0); }
static bt_array *do_svd(call *c) { return part_of(c, (bt_svd), 1); }

/* --- the table ------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int least, most; /* inputs */
    bt_array *(*call)(call *);
} others[] = {
    {"gelu", 1, 1, do_gelu},
    {"elu", 1, 1, do_elu},
    {"leaky_relu", 1, 1, do_leaky_relu},
    {"clamp", 1, 1, do_clamp},
    {"cast", 1, 1, do_cast},
    {"bitcast", 1, 1, do_bitcast},
    {"where", 3, 3, do_where},
    {"add_n", 1, 64, do_add_n},
    {"huber", 2, 2, do_huber_loss},
    {"mse", 2, 2, do_mse_loss},
    {"mae", 2, 2, do_mae_loss},
    {"cross_entropy", 2, 2, do_cross_entropy_loss},
    {"binary_cross_entropy", 2, 2, do_binary_cross_entropy_loss},
    {"mse_loss", 2, 2, do_mse_loss},
    {"mae_loss", 2, 2, do_mae_loss},
    {"huber_loss", 2, 2, do_huber_loss},
    {"binary_cross_entropy_loss", 2, 4, do_binary_cross_entropy_loss},
    {"cross_entropy_loss", 2, 3, do_cross_entropy_loss},
    {"cholesky", 1, 1, do_cholesky},
    {"inv", 1, 1, do_inv},
    {"det", 1, 1, do_det},
    {"solve", 2, 2, do_solve},
    {"lstsq", 2, 2, do_lstsq},
    {"triangular_solve", 2, 2, do_triangular_solve},
    {"slogdet", 1, 1, do_slogdet},
    {"qr", 1, 1, do_qr},
    {"eigh", 1, 1, do_eigh},
    {"svd", 1, 1, do_svd},
    {"sum", 1, 1, do_sum},
    {"prod", 1, 1, do_prod},
    {"var", 1, 1, do_var},
    {"std", 1, 1, do_std},
    {"norm", 1, 1, do_norm},
    {"argmax", 1, 1, do_argmax},
    {"argmin", 1, 1, do_argmin},
    {"cumsum", 1, 1, do_cumsum},
    {"cumprod", 1, 1, do_cumprod},
    {"cummax", 1, 1, do_cummax},
    {"cummin", 1, 1, do_cummin},
    {"reshape", 1, 1, do_reshape},
    {"flatten", 1, 1, do_flatten},
    {"transpose", 1, 1, do_transpose},
    {"permute", 1, 1, do_transpose},
    {"broadcast_to", 1, 1, do_broadcast_to},
    {"slice", 1, 1, do_slice},
    {"flip", 1, 1, do_flip},
    {"expand_dims", 1, 1, do_expand_dims},
    {"squeeze", 1, 1, do_squeeze},
    {"concat", 1, 64, do_concat},
    {"stack", 1, 64, do_stack},
    {"pad", 1, 1, do_pad},
    {"tile", 1, 1, do_tile},
    {"one_hot", 1, 1, do_one_hot},
    {"take", 2, 2, do_take},
    {"boolean_mask", 2, 2, do_boolean_mask},
    {"nonzero", 1, 1, do_nonzero},
    {"scatter_add", 3, 3, do_scatter_add},
    {"scatter_set", 3, 3, do_scatter_set},
    {"scatter_max", 3, 3, do_scatter_max},
    {"scatter_min", 3, 3, do_scatter_min},
    {"scatter_set_along_axis", 3, 3, do_scatter_set_along_axis},
    {"scatter_max_along_axis", 3, 3, do_scatter_max_along_axis},
    {"scatter_min_along_axis", 3, 3, do_scatter_min_along_axis},
    {"take_along_axis", 2, 2, do_take_along_axis},
    {"scatter_add_along_axis", 3, 3, do_scatter_add_along_axis},
    {"sort", 1, 1, do_sort},
    {"argsort", 1, 1, do_argsort},
    {"top_k", 1, 1, do_top_k},
    {"top_k_indices", 1, 1, do_top_k_indices},
    {"searchsorted", 2, 2, do_searchsorted},
    {"bincount", 1, 1, do_bincount},
    {"histogram", 1, 1, do_histogram},
    {"unique", 1, 1, do_unique},
    {"matmul", 2, 2, do_matmul},
    {"matmul_as", 2, 2, do_matmul_as},
    {"einsum", 1, 64, do_einsum},
    {"softmax", 1, 1, do_softmax},
    {"log_softmax", 1, 1, do_log_softmax},
    {"layer_norm", 1, 3, do_layer_norm},
    {"conv2d", 2, 2, do_conv2d},
    {"max_pool2d", 1, 1, do_max_pool2d},
    {"avg_pool2d", 1, 1, do_avg_pool2d},
    {"conv", 2, 2, do_conv},
    {"conv_transposed", 2, 2, do_conv_transposed},
    {"attention", 3, 5, do_attention},
    {"max_pool", 1, 1, do_max_pool},
    {"avg_pool", 1, 1, do_avg_pool},
    {"adaptive_max_pool", 1, 1, do_adaptive_max_pool},
    {"adaptive_avg_pool", 1, 1, do_adaptive_avg_pool},
    {"tril", 1, 1, do_tril},
    {"triu", 1, 1, do_triu},
    {"diagonal", 1, 1, do_diagonal},
    {"diag", 1, 1, do_diag},
    {"trace", 1, 1, do_trace},
    {"outer", 2, 2, do_outer},
    {"kron", 2, 2, do_kron},
    {"tensordot", 2, 2, do_tensordot},
    {"roll", 1, 1, do_roll},
    {"diff", 1, 1, do_diff},
    {"index", 1, 1, do_index},
    {"at", 1, 1, do_at},
    {"set_at", 2, 2, do_set_at},
    {"quantile", 1, 1, do_quantile},
    {"median", 1, 1, do_median},
    {"logaddexp", 2, 2, do_logaddexp},
    {"nan_to_num", 1, 1, do_nan_to_num},
};

#define EACH(table)                                           \
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) \
        if (!strcmp(table[i].name, op))

static bool takes(call *c, int least, int most) {
    if (c->in_count >= least && c->in_count <= most) return true;
    refuse(c, "%d inputs; it takes %d%s", c->in_count, least, most > least ? " or more" : "");
    return false;
}

static bt_array *call_operation(const char *op, call *c) {
    EACH(unary) return takes(c, 1, 1) ? unary[i].call(c->in[0]) : NULL;
    EACH(binary) return takes(c, 2, 2) ? binary[i].call(c->in[0], c->in[1]) : NULL;
    EACH(reductions) return takes(c, 1, 1) ? reductions[i].call(c->in[0], attr_axes(c), keepdims(c)) : NULL;
    EACH(others) return takes(c, others[i].least, others[i].most) ? others[i].call(c) : NULL;
    bt_array *made = golden_complex(op, c);
    return made || *c->refusal ? made : golden_random(op, c);
}

bt_array *golden_call(const char *op, call *c) {
    bt_array *result;
    BT_AUTOCAST(attr_dtype(c, "autocast", BT_F32)) result = call_operation(op, c);
    return result;
}

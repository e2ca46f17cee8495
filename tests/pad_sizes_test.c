// timeout: 600
/* Sizes that vary on devices that load graphs, with the flag pad_sizes: results as on the CPU, and few programs. On a real plugin, whose path is the environment's BERTH_PJRT_PLUGIN. */
#include "support/support.h"

#include <dirent.h>
#include <math.h>
#include <unistd.h>

static char folder[500]; /* of modules that are compiled */

static int count_programs(void) {
    int count = 0;
    DIR *open = opendir(folder);
    if (!open) return 0; /* none was compiled yet */
    for (struct dirent *file; (file = readdir(open));) count += strstr(file->d_name, ".mlir") != NULL;
    closedir(open);
    return count;
}

static void begin(const char *more) {
    char settings[2000];
    snprintf(settings, sizeof settings, "pad_sizes=on,pjrt_dump=%s,pjrt_plugins=tpu:%s,default_device=cpu%s", folder,
             getenv("BERTH_PJRT_PLUGIN"), more);
    fresh(settings);
}

/* --- inputs --------------------------------------------------------------------------------------------------------------- */

static uint32_t draw(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Floats in [-2, 2), integers in [-8, 8) or [0, 16), other ones for each seed. */
static bt_array *given(uint32_t seed, bt_dtype dtype, bt_shape shape) {
    static float numbers[1 << 16];
    int64_t count = 1;
    for (int i = 0; i < (int)shape.rank; i++) count *= shape.size[i];
    bool is_whole = dtype != BT_F32 && dtype != BT_F64 && dtype != BT_F16 && dtype != BT_BF16;
    bool is_unsigned = dtype == BT_U8 || dtype == BT_U32 || dtype == BT_BOOL;
    seed = seed * 77777u + (uint32_t)count;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = draw(&seed);
        numbers[i] =
            is_whole ? (float)(bits % 16) - (is_unsigned ? 0.0f : 8.0f) : (float)(bits % 4096) / 1024.0f - 2.0f;
        if (dtype == BT_BOOL) numbers[i] = (float)(bits % 2);
    }
    bt_array *made;
    BT_ON("cpu:0") {
        made = bt_cast(bt_from(numbers, BT_F32, shape), dtype);
        OK(bt_eval(made));
    }
    return made;
}
#define X(seed, ...) bt_to(given(seed, BT_F32, BT_SHAPE(__VA_ARGS__)), place)
#define WHOLE(seed, dtype, ...) bt_to(given(seed, dtype, BT_SHAPE(__VA_ARGS__)), place)

static const char *place; /* the device */

/* --- cases: of a size n ---------------------------------------------------------------------------------------------------- */

static bt_array *elementwise(int64_t n) {
    bt_array *x = X(1, n, 3), *y = X(2, n, 3);
    return bt_add(bt_mul(bt_tanh(x), y), bt_div(x, bt_add(bt_abs(y), 0.3)));
}
static bt_array *divisions_by_zero(int64_t n) {
    bt_array *x = bt_relu(X(1, n)), *y = bt_div(1, x); /* inf, and 0/0 */
    return bt_sum(bt_where(bt_gt(x, 0), bt_add(y, bt_log(x)), bt_div(x, 1)));
}
static bt_array *infinite_and_nan(int64_t n) {
    bt_array *x = bt_div(X(1, n), bt_relu(X(2, n)));
    return bt_stack((bt_array *[]){bt_max(x), bt_min(x), bt_sum(bt_where(bt_isfinite(x), x, 0))}, 3, 0);
}
static bt_array *softmax_along(int64_t n) { return bt_softmax(X(1, 4, n), 1); }
static bt_array *softmax_beside(int64_t n) { return bt_softmax(X(1, n, 5), 1); }
static bt_array *log_softmax(int64_t n) { return bt_log_softmax(X(1, n, 2), 0); }
static bt_array *rows(int64_t n) { return bt_matmul(X(1, n, 6), X(2, 6, 4)); }
static bt_array *columns(int64_t n) { return bt_matmul(X(1, 3, 6), X(2, 6, n)); }
static bt_array *contraction(int64_t n) { return bt_matmul(X(1, 3, n), X(2, n, 4)); }
static bt_array *all_of_a_product(int64_t n) { return bt_matmul(X(1, n, n + 1), X(2, n + 1, 2 * n)); }
static bt_array *contraction_of_divisions(int64_t n) {
    bt_array *x = X(1, 3, n), *y = X(2, n, 4);
    return bt_matmul(bt_div(1, bt_add(bt_abs(x), 1)), bt_log(bt_add(bt_abs(y), 0.1)));
}
static bt_array *folds(int64_t n) {
    bt_array *x = X(1, 3, n);
    bt_array *all[] = {bt_sum(x, BT_AXES(1)), bt_mean(x, BT_AXES(1)), bt_max(x, BT_AXES(1)),
                       bt_min(x, BT_AXES(1)), bt_prod(x, BT_AXES(1)), bt_var(x, BT_AXES(1))};
    return bt_stack(all, COUNT(all), 0);
}
static bt_array *folds_of_all(int64_t n) {
    bt_array *x = X(1, n, 2, n);
    return bt_add(bt_sum(x), bt_mul(bt_mean(x), bt_max(x)));
}
static bt_array *whole_folds(int64_t n) {
    bt_array *x = WHOLE(1, BT_I32, n, 3), *y = WHOLE(2, BT_U8, n, 3);
    bt_array *all[] = {bt_sum(x, BT_AXES(0)),
                       bt_max(x, BT_AXES(0)),
                       bt_min(x, BT_AXES(0)),
                       bt_prod(x, BT_AXES(0)),
                       bt_cast(bt_max(y, BT_AXES(0)), BT_I32),
                       bt_cast(bt_min(y, BT_AXES(0)), BT_I32)};
    return bt_stack(all, COUNT(all), 0);
}
static bt_array *truths(int64_t n) {
    bt_array *x = WHOLE(1, BT_BOOL, n, 3);
    return bt_stack((bt_array *[]){bt_all(x, BT_AXES(0)), bt_any(x, BT_AXES(0)), bt_all(bt_logical_not(x), BT_AXES(0))},
                    3, 0);
}
static bt_array *argmax(int64_t n) { return bt_argmax(X(1, 3, n), 1); }
static bt_array *argmin_beside(int64_t n) { return bt_argmin(X(1, n, 4), 1); }
static bt_array *sort(int64_t n) { return bt_sort(bt_div(X(1, 3, n), bt_relu(X(2, 3, n))), 1); }
static bt_array *argsort(int64_t n) { return bt_argsort(WHOLE(1, BT_I32, n), 0); }
static bt_array *sort_of_bytes(int64_t n) { return bt_sort(WHOLE(1, BT_U8, n), 0); }
static bt_array *greatest(int64_t n) { return bt_top_k(X(1, 2, n + 3), 3); }
static bt_array *greatest_indices(int64_t n) { return bt_top_k_indices(bt_neg(bt_relu(X(1, n + 3))), 4); }
static bt_array *running(int64_t n) {
    bt_array *x = X(1, 2, n);
    bt_array *all[] = {bt_cumsum(x, 1, false), bt_cumsum(x, 1, true), bt_cummax(x, 1, true), bt_cumprod(x, 1, true)};
    return bt_stack(all, COUNT(all), 0);
}
static bt_array *joined(int64_t n) {
    bt_array *all[] = {X(1, n, 2), X(2, 1, 2), X(3, 2 * n, 2)};
    return bt_concat(all, 3, 0);
}
static bt_array *joined_beside(int64_t n) { return bt_concat((bt_array *[]){X(1, n, 2), X(2, n, 3)}, 2, 1); }
static bt_array *flat(int64_t n) { return bt_sum(bt_mul(bt_reshape(X(1, n, 3, 2), n * 6), X(2, n * 6))); }
static bt_array *flat_inner(int64_t n) { return bt_reshape(X(1, 3, n, 2), 6 * n); }
static bt_array *split_heads(int64_t n) { return bt_permute(bt_reshape(X(1, n, 12), n, 3, 4), 1, 0, 2); }
static bt_array *regrouped(int64_t n) { return bt_reshape(X(1, 4, n, 3), 2, 2 * n, 3); }
static bt_array *heads_from_flat(int64_t n) { return bt_reshape(X(1, 6 * n), 3, n, 2); }
static bt_array *last_row(int64_t n) { return bt_index(X(1, n, 4), 0, -1); }
static bt_array *but_first(int64_t n) { return bt_slice_axis(X(1, n + 1, 3), 0, 1, n + 1, 1); }
static bt_array *but_last(int64_t n) { return bt_slice_axis(X(1, n + 1, 3), 0, 0, n, 1); }
static bt_array *every_second(int64_t n) { return bt_slice_axis(X(1, n, 3), 0, 0, n, 2); }
static bt_array *turned(int64_t n) { return bt_flip(X(1, n, 3), BT_AXES(0)); }
static bt_array *rolled(int64_t n) { return bt_roll(X(1, n + 2, 3), 2, 0); }
static bt_array *half(int64_t n) { return bt_slice_axis(X(1, 2 * n, 3), 0, n, 2 * n, 1); }
static bt_array *padded(int64_t n) { return bt_pad(bt_log(X(1, n, 2)), (int64_t[]){2, 0}, (int64_t[]){1, 1}, 7); }
static bt_array *padded_to_length(int64_t n) { return bt_pad(X(1, n), (int64_t[]){0}, (int64_t[]){70 - n}, -1); }
static bt_array *differences(int64_t n) { return bt_diff(X(1, n + 1, 2), 0); }
static bt_array *rows_by_index(int64_t n) { return bt_take(X(1, 9, 2), WHOLE(2, BT_I32, n), 0); }
static bt_array *rows_of_many(int64_t n) { return bt_take(X(1, n + 8, 2), WHOLE(2, BT_I32, 5), 0); }
static bt_array *rows_out_of_range(int64_t n) { return bt_take(X(1, n, 2), WHOLE(2, BT_I32, 5), 0); }
static bt_array *one_per_row(int64_t n) {
    return bt_take_along_axis(X(1, n, 16), bt_cast(WHOLE(2, BT_U8, n, 1), BT_I32), 1);
}
static bt_array *added_rows(int64_t n) { return bt_scatter_add(X(1, 9, 2), WHOLE(2, BT_I32, n), X(3, n, 2), 0); }
static bt_array *added_to_many(int64_t n) { return bt_scatter_add(X(1, n, 2), WHOLE(2, BT_I32, 5), X(3, 5, 2), 0); }
static bt_array *set_rows(int64_t n) { return bt_scatter_set(X(1, n, 2), WHOLE(2, BT_I32, n), X(3, n, 2), 0); }
static bt_array *greatest_rows(int64_t n) { return bt_scatter_max(X(1, 9, 2), WHOLE(2, BT_I32, n), X(3, n, 2), 0); }
static bt_array *updated(int64_t n) { return bt_update_slice_axis(X(1, n + 2, 3), X(2, 2, 3), WHOLE(3, BT_I32), 0); }
static bt_array *updated_by_many(int64_t n) {
    return bt_update_slice_axis(X(1, n + 3, 3), X(2, n, 3), WHOLE(3, BT_I32), 0);
}
static bt_array *counted(int64_t n) {
    bt_array *i;
    BT_ON(place) i = bt_arange(0, (double)n, 1, BT_F32);
    return bt_mul(bt_add(i, X(1, n)), 1.0 / (double)n);
}
static bt_array *positions(int64_t n) {
    bt_array *ends;
    BT_ON(place) ends = bt_linspace(-1, 1, n + 2, BT_F32);
    return bt_add(ends, X(1, n + 2));
}
static bt_array *random_numbers(int64_t n) {
    bt_array *noise;
    BT_ON(place) noise = bt_uniform(bt_key(7), BT_F32, n, 3);
    return bt_add(noise, X(1, n, 3));
}
static bt_array *dropped_out(int64_t n) {
    bt_array *noise;
    BT_ON(place) noise = bt_normal(bt_key(3), BT_F32, 2, n);
    return bt_sum(bt_mul(bt_cast(bt_gt(noise, 0), BT_F32), X(1, 2, n)), BT_AXES(1));
}
static bt_array *one_hot(int64_t n) { return bt_sum(bt_one_hot(WHOLE(1, BT_U8, n), 16, BT_F32), BT_AXES(0)); }
static bt_array *classes(int64_t n) { return bt_cross_entropy(X(1, n, 16), bt_cast(WHOLE(2, BT_U8, n), BT_I32)); }
static bt_array *lower_triangle(int64_t n) { return bt_tril(X(1, n, n), 0); }
static bt_array *batch_norm(int64_t n) {
    bt_array *x = X(1, n, 5), *mean = bt_mean(x, BT_AXES(0), true), *spread = bt_var(x, BT_AXES(0), true);
    return bt_div(bt_sub(x, mean), bt_sqrt(bt_add(spread, 1e-3)));
}
static bt_array *layer_norm(int64_t n) { return bt_layer_norm(X(1, n, 6), X(2, 6), X(3, 6), 1e-5); }
static bt_array *small_floats(int64_t n) {
    bt_array *x = bt_to(given(1, BT_BF16, BT_SHAPE(3, n)), place), *y = bt_to(given(2, BT_BF16, BT_SHAPE(n, 2)), place);
    return bt_cast(bt_add(bt_matmul(x, y), bt_sum(x, BT_AXES(1), true)), BT_F32);
}
static bt_array *whole_products(int64_t n) { return bt_matmul(WHOLE(1, BT_I32, 3, n), WHOLE(2, BT_I32, n, 2)); }
static bt_array *complex_sums(int64_t n) {
    bt_array *x = bt_complex(X(1, 2, n), X(2, 2, n)), *y = bt_sum(bt_mul(x, x), BT_AXES(1));
    return bt_stack((bt_array *[]){bt_real(y), bt_imag(y)}, 2, 0);
}

/* --- attention and gradients ------------------------------------------------------------------------------------------------ */

static bt_array *one_query(int64_t n) {
    return (bt_attention)(X(1, 2, 2, 1, 4), X(2, 2, 2, n, 4), X(3, 2, 2, n, 4), NULL);
}
static bt_array *causal_attention(int64_t n) {
    return (bt_attention)(X(1, 2, 2, n, 4), X(2, 2, 1, n, 4), X(3, 2, 1, n, 4), BT_ATTENTION(.causal = true));
}
static bt_array *causal_from_end(int64_t n) {
    return (bt_attention)(X(1, 1, 2, 3, 4), X(2, 1, 2, n + 3, 4), X(3, 1, 2, n + 3, 4),
                          BT_ATTENTION(.causal = true, .from_end = true));
}
static bt_array *composed_attention(int64_t n) {
    bt_array *q = X(1, 2, n, 4), *k = X(2, 2, n, 4), *v = X(3, 2, n, 4);
    bt_array *scores = bt_mul(bt_matmul(q, bt_transpose(k)), 0.5), *see;
    BT_ON(place) see = bt_tril(bt_full(1, BT_BOOL, n, n), 0);
    return bt_matmul(bt_softmax(bt_where(see, scores, -INFINITY), -1), v);
}

/* --- scans ------------------------------------------------------------------------------------------------------------------- */

static void cell(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    carry[0] = bt_tanh(bt_add(bt_matmul(carry[0], data), x[0]));
    y[0] = bt_mul(carry[0], 2);
}
static bt_array *recurrent(int64_t n, bool reverse, bt_array *rows, bt_array *weights) {
    bt_array *carry = X(3, 1, 4), *y;
    if (reverse)
        OK(bt_scan_reverse(cell, weights, n, &carry, 1, &rows, 1, &y, 1));
    else
        OK(bt_scan(cell, weights, n, &carry, 1, &rows, 1, &y, 1));
    return bt_concat((bt_array *[]){bt_sum(y, BT_AXES(0)), carry}, 2, 1);
}
static bt_array *recurrent_forward(int64_t n) { return recurrent(n, false, X(1, n, 1, 4), X(2, 4, 4)); }
static bt_array *recurrent_backward(int64_t n) { return recurrent(n, true, X(1, n, 1, 4), X(2, 4, 4)); }

/* The gradients of what a loss is made of, joined. */
static bt_array *gradients_of(bt_array *loss, bt_array **of, int count) {
    bt_array *slopes[4], *all[5];
    OK(bt_grad(loss, of, count, slopes));
    for (int i = 0; i < count; i++) all[i] = bt_flatten(slopes[i], 0);
    all[count] = bt_reshape(loss, 1);
    return bt_concat(all, count + 1, 0);
}
static bt_array *gradient_of_layers(int64_t n) {
    bt_array *of[] = {X(2, 6, 8), X(3, 8), X(4, 8, 3)}, *x = X(1, n, 6);
    bt_array *logits = bt_matmul(bt_relu(bt_add(bt_matmul(x, of[0]), of[1])), of[2]);
    bt_array *classes = bt_mod(bt_cast(WHOLE(5, BT_U8, n), BT_I32), 3);
    return gradients_of(bt_cross_entropy(logits, classes), of, 3);
}
static bt_array *gradient_of_attention(int64_t n) {
    bt_array *of[] = {X(1, 2, 2, n, 4), X(2, 2, 1, n, 4), X(3, 2, 1, n, 4)};
    bt_array *out = (bt_attention)(of[0], of[1], of[2], BT_ATTENTION(.causal = true));
    return gradients_of(bt_sum(bt_mul(out, X(4, 2, 2, n, 4))), of, 3);
}
static bt_array *gradient_of_convolution(int64_t n) {
    bt_array *of[] = {X(1, 3, 2, 3, 3)}, *x = X(2, n, 2, 6, 6);
    return gradients_of(bt_sum(bt_square(bt_conv(x, of[0]))), of, 1);
}
static bt_array *gradient_of_moves(int64_t n) {
    bt_array *of[] = {X(1, n + 1, 2, 3), X(2, 9, 3)};
    bt_array *x = bt_slice_axis(of[0], 0, 1, n + 1, 1), *y = bt_take(of[1], WHOLE(3, BT_I32, n), 0);
    x = bt_cumsum(bt_sum(x, BT_AXES(1)), 0, false);
    return gradients_of(bt_sum(bt_mul(bt_sort(bt_reshape(x, 3 * n), 0), bt_reshape(y, 3 * n))), of, 2);
}
static bt_array *gradient_of_folds(int64_t n) {
    bt_array *of[] = {X(1, 3, n)}, *x = of[0];
    bt_array *all = bt_add(bt_mul(bt_max(x, BT_AXES(1)), bt_mean(x, BT_AXES(1))), bt_logsumexp(x, BT_AXES(1)));
    return gradients_of(bt_sum(bt_add(all, bt_std(x, BT_AXES(1)))), of, 1);
}

static bt_array *gradient_of_scan(int64_t n) {
    bt_array *of[] = {X(1, n, 1, 4), X(2, 4, 4)};
    return gradients_of(bt_sum(bt_square(recurrent(n, false, of[0], of[1]))), of, 2);
}
static bt_array *convolution_of_rows(int64_t n) { return bt_conv(X(1, 1, 2, n, 5), X(2, 3, 2, 3, 3)); }

typedef struct the_case {
    const char *name;
    bt_array *(*make)(int64_t n);
    int programs; /* at most, of sizes 1 to 64 */
    double limit; /* of the relative difference; 0: none */
} the_case;
#define CASE(name, programs, limit) \
    { #name, name, programs, limit }
static const the_case cases[] = {
    CASE(elementwise, 8, 1e-6),
    CASE(divisions_by_zero, 8, 1e-5),
    CASE(infinite_and_nan, 8, 1e-5),
    CASE(softmax_along, 8, 1e-6),
    CASE(softmax_beside, 8, 1e-6),
    CASE(log_softmax, 8, 1e-5),
    CASE(rows, 8, 1e-5),
    CASE(columns, 8, 1e-5),
    CASE(contraction, 8, 1e-5),
    CASE(all_of_a_product, 16, 1e-5),
    CASE(contraction_of_divisions, 8, 1e-5),
    CASE(folds, 10, 2e-5),
    CASE(folds_of_all, 10, 2e-5),
    CASE(whole_folds, 8, 0),
    CASE(truths, 8, 0),
    CASE(argmax, 8, 0),
    CASE(argmin_beside, 8, 0),
    CASE(sort, 8, 1e-6),
    CASE(argsort, 8, 0),
    CASE(sort_of_bytes, 8, 0),
    CASE(greatest, 8, 0),
    CASE(greatest_indices, 8, 0),
    CASE(running, 8, 2e-5),
    CASE(joined, 24, 0),
    CASE(joined_beside, 8, 0),
    CASE(flat, 16, 2e-5),
    CASE(flat_inner, 16, 0),
    CASE(split_heads, 8, 0),
    CASE(regrouped, 8, 0),
    CASE(heads_from_flat, 16, 0),
    CASE(last_row, 8, 0),
    CASE(but_first, 16, 0),
    CASE(but_last, 16, 0),
    CASE(every_second, 16, 0),
    CASE(turned, 8, 0),
    CASE(rolled, 24, 0),
    CASE(half, 16, 0),
    CASE(padded, 16, 1e-6),
    CASE(padded_to_length, 8, 0),
    CASE(differences, 16, 1e-6),
    CASE(rows_by_index, 8, 0),
    CASE(rows_of_many, 8, 0),
    CASE(rows_out_of_range, 8, 0),
    CASE(one_per_row, 8, 0),
    CASE(added_rows, 8, 1e-5),
    CASE(added_to_many, 8, 1e-5),
    CASE(set_rows, 8, 0),
    CASE(greatest_rows, 8, 0),
    CASE(updated, 8, 0),
    CASE(updated_by_many, 16, 0),
    CASE(counted, 15, 1e-6),
    CASE(positions, 16, 1e-6),
    CASE(random_numbers, 24, 0),
    CASE(dropped_out, 24, 1e-5),
    CASE(one_hot, 8, 0),
    CASE(classes, 12, 1e-5),
    CASE(lower_triangle, 8, 0),
    CASE(batch_norm, 10, 1e-4),
    CASE(layer_norm, 8, 1e-4),
    CASE(small_floats, 8, 2e-2),
    CASE(whole_products, 8, 0),
    CASE(complex_sums, 8, 1e-5),
    CASE(one_query, 8, 1e-5),
    CASE(causal_attention, 8, 1e-5),
    CASE(causal_from_end, 8, 1e-5),
    CASE(composed_attention, 15, 1e-5),
    CASE(gradient_of_layers, 15, 1e-4),
    CASE(gradient_of_attention, 15, 1e-4),
    CASE(gradient_of_convolution, 10, 1e-4),
    CASE(gradient_of_moves, 40, 1e-4),
    CASE(gradient_of_folds, 12, 1e-4),
    CASE(recurrent_forward, 8, 1e-5),
    CASE(recurrent_backward, 8, 1e-5),
    CASE(gradient_of_scan, 12, 1e-4),
};

/* --- comparing ----------------------------------------------------------------------------------------------------------------- */

static double *read_all(bt_array *x, int64_t *count) {
    bt_array *wide = bt_cast(bt_to(x, "cpu:0"), BT_F64);
    *count = bt_count(wide);
    double *elements = malloc((size_t)(*count + 1) * sizeof *elements);
    assert_non_null(elements);
    OK(bt_read(wide, elements, (size_t)*count * sizeof *elements));
    return elements;
}

static bool is_near(double got, double want, double size, double limit) {
    if (isnan(want) || isinf(want)) return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= limit * (1 + size);
}

static void compare(const the_case *of, int64_t n) {
    int64_t got_count, want_count;
    BT_SCOPE {
        place = "cpu:0";
        double *want = read_all(of->make(n), &want_count), size = 0;
        place = "tpu:0";
        double *got = read_all(of->make(n), &got_count);
        assert_int_equal(got_count, want_count);
        for (int64_t i = 0; i < want_count; i++)
            if (isfinite(want[i]) && fabs(want[i]) > size) size = fabs(want[i]);
        for (int64_t i = 0; i < want_count; i++)
            if (!is_near(got[i], want[i], size, of->limit))
                fail_msg("%s of %d: element %d is %.9g, not %.9g", of->name, (int)n, (int)i, got[i], want[i]);
        free(got), free(want);
    }
}

static const int64_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 31, 32, 33, 47, 63, 64, 5, 1};

static void results_are_those_of_the_cpu(void **state) {
    begin("");
    for (int c = 0; c < COUNT(cases); c++) {
        const char *only = getenv("BERTH_TEST_CASE");
        if (only && strcmp(only, cases[c].name)) continue;
        int before = count_programs();
        for (int i = 0; i < COUNT(sizes); i++) compare(&cases[c], sizes[i]);
        int made = count_programs() - before;
        print_message("%-28s %d programs\n", cases[c].name, made);
        if (made > cases[c].programs) fail_msg("%s: %d programs; at most %d", cases[c].name, made, cases[c].programs);
    }
    if (log_count("pad_sizes")) fail_msg("%s", log_text());
}

/* --- loops ----------------------------------------------------------------------------------------------------------------------- */

/* Keys and values get one row longer each step. */
static bt_function *new_decoding_step(void) {
    bt_array *in[] = {bt_input(BT_F32, -1, 4), bt_input(BT_F32, -1, 4), bt_input(BT_F32, 1, 4)};
    bt_array *keys = bt_concat((bt_array *[]){in[0], bt_tanh(in[2])}, 2, 0);
    bt_array *values = bt_concat((bt_array *[]){in[1], bt_mul(in[2], 0.5)}, 2, 0);
    bt_array *weights = bt_softmax(bt_matmul(in[2], bt_transpose(keys)), -1);
    bt_array *out[] = {keys, values, bt_add(bt_matmul(weights, values), bt_mul(in[2], 0.25))};
    return bt_function_new(in, 3, out, 3, NULL, 0);
}

static void decode(int steps, float *tokens) {
    BT_SCOPE
        BT_ON(place) {
            bt_array *state[] = {X(1, 1, 4), X(2, 1, 4), X(3, 1, 4)};
            bt_function *step = new_decoding_step();
            for (int i = 0; i < steps; i++) {
                bt_array *next[3];
                OK(bt_call(step, state, 3, next, 3));
                memcpy(state, next, sizeof state);
                OK(bt_read(state[2], tokens + 4 * i, 4 * sizeof *tokens));
            }
        }
}

static void a_cache_grows(void **state) {
    static float want[64 * 4], got[64 * 4];
    begin("");
    place = "cpu:0";
    decode(64, want);
    int before = count_programs();
    place = "tpu:0";
    decode(64, got);
    int made = count_programs() - before;
    for (int i = 0; i < 64 * 4; i++)
        if (fabsf(got[i] - want[i]) > 1e-5f) fail_msg("token %d: %g, not %g", i / 4, got[i], want[i]);
    print_message("64 steps of decoding: %d programs\n", made);
    assert_in_range(made, 7, 14);
    decode(64, got);
    if (count_programs() > before + made + 1) fail_msg("%d programs more", count_programs() - before - made);
}

/* Batches of unequal length train one layer. */
static void train(int steps, float *losses) {
    BT_SCOPE
        BT_ON(place) {
            bt_shared *w = bt_shared_new(X(1, 6, 3), place);
            bt_array *in[] = {bt_input(BT_F32, -1, 6), bt_input(BT_F32, -1, 3)}, *slope;
            bt_array *loss = bt_mean(bt_square(bt_sub(bt_matmul(in[0], bt_value(w)), in[1])));
            OK(bt_grad_shared(loss, &w, 1, &slope));
            bt_update update = {w, bt_sub(bt_value(w), bt_mul(slope, 0.1))};
            bt_function *step = bt_function_new(in, 2, &loss, 1, &update, 1);
            for (int i = 0; i < steps; i++)
                BT_SCOPE {
                    int64_t n = 1 + (i * 23) % 64;
                    bt_array *batch[] = {X(10, n, 6), X(11, n, 3)}, *made;
                    OK(bt_call(step, batch, 2, &made, 1));
                    OK(bt_read(made, losses + i, sizeof *losses));
                }
        }
}

static void batches_vary(void **state) {
    float want[64], got[64];
    begin("");
    place = "cpu:0";
    train(64, want);
    int before = count_programs();
    place = "tpu:0";
    train(64, got);
    int made = count_programs() - before;
    for (int i = 0; i < 64; i++)
        if (fabsf(got[i] - want[i]) > 1e-4f * (1 + fabsf(want[i]))) fail_msg("loss %d: %g, not %g", i, got[i], want[i]);
    print_message("64 batches of 1 to 64: %d programs\n", made);
    assert_in_range(made, 7, 9);
}

/* Without the flag each size has a program; so it has where an operation has no rule, which is told once. */
static void others_are_compiled_for_each_size(void **state) {
    begin(",pad_sizes=off");
    int before = count_programs();
    for (int64_t n = 9; n < 17; n++) compare(&cases[0], n);
    assert_int_equal(count_programs() - before, 8);
    begin("");
    before = count_programs();
    static const the_case convolution = {"convolution", convolution_of_rows, 8, 1e-5};
    for (int64_t n = 9; n < 17; n++) compare(&convolution, n);
    assert_int_equal(count_programs() - before, 8);
    assert_int_equal(log_count("pad_sizes: "), 1);
    SAYS(log_text(), "conv cannot be written as StableHLO: no rule for sizes that vary along such an axis");
    SAYS(log_text(), "pad_sizes_test.c");
}

/* Sizes that vary in what is repeated, and not in what it is repeated to; and the other way. */
static void other_axes_are_repeated(void **state) {
    static const int64_t shapes[][4] = {{5, 1, 5, 3}, {1, 3, 5, 3}, {5, 1, 5, 3}, {5, 3, 5, 3},
                                        {1, 3, 7, 3}, {7, 1, 7, 6}, {1, 1, 2, 9}, {6, 5, 6, 5}};
    begin("");
    for (int i = 0; i < COUNT(shapes); i++)
        BT_SCOPE {
            const int64_t *n = shapes[i];
            bt_array *y = given(7, BT_F32, BT_SHAPE(n[0], n[1])), *x = given(8, BT_F32, BT_SHAPE(n[2], n[3]));
            bt_array *want = bt_sum(bt_exp(bt_add(x, y)), .axes = BT_AXES(0)), *got = NULL;
            BT_ON("tpu:0") got = bt_sum(bt_exp(bt_add(bt_to(x, "tpu:0"), bt_to(y, "tpu:0"))), .axes = BT_AXES(0));
            float is[16], should[16];
            OK(bt_read(got, is, (size_t)n[3] * sizeof *is));
            OK(bt_read(want, should, (size_t)n[3] * sizeof *should));
            for (int64_t k = 0; k < n[3]; k++)
                if (fabsf(is[k] - should[k]) > 1e-5f * fabsf(should[k]))
                    fail_msg("shapes %d: %g, not %g", i, is[k], should[k]);
        }
}

static void no_elements(void **state) {
    static const char *const names[] = {"elementwise", "rows",       "contraction", "joined",
                                        "sort",        "added_rows", "updated"};
    begin("");
    for (int i = 0; i < COUNT(names); i++)
        for (int c = 0; c < COUNT(cases); c++)
            for (int64_t n = 3; n >= 0 && !strcmp(names[i], cases[c].name); n--) compare(&cases[c], n);
}

static int remove_folder(void **state) {
    char command[600];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return fresh_end(state) || system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(results_are_those_of_the_cpu, end_runtime),
        cmocka_unit_test_teardown(a_cache_grows, end_runtime),
        cmocka_unit_test_teardown(batches_vary, end_runtime),
        cmocka_unit_test_teardown(others_are_compiled_for_each_size, end_runtime),
        cmocka_unit_test_teardown(other_axes_are_repeated, end_runtime),
        cmocka_unit_test_teardown(no_elements, end_runtime),
    };
    if (!getenv("BERTH_PJRT_PLUGIN")) {
        printf("skipped: BERTH_PJRT_PLUGIN names no plugin\n");
        return 77;
    }
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/berth_pad_XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) return 1;
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}

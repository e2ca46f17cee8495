/* Metrics. */
#include <berth/losses.h>
#include <berth/matrices.h>
#include <berth/metrics.h>
#include <math.h>

#include "base/error.h"
#include "nn/layer.h"
#include "ops/primitive.h"
#include "train/confusion.h"

/* --- shapes, which do not broadcast: a mean over all pairs of rows looks like a figure ------------------------------------- */

/* Whether y's sizes are the first `rank` of the output. */
static bool has_sizes(bt_array *y, bt_array *output, int rank) {
    bool same = bt_rank(y) == rank;
    for (int i = 0; same && i < rank; i++) same = bt_size(y, i) == bt_size(output, i);
    return same;
}

/* y is [B, ...] of an output [B, ..., C]; NULL: it is. */
static bt_array *other_classes(bt_array *output, bt_array *y) {
    if (has_sizes(y, output, bt_rank(output) - 1)) return NULL;
    return bti_poisonf(BT_INVALID_ARGUMENT,
                       "the output is %s and y %s; y must have the class of each row of the output's last axis, %s",
                       bti_describe_array(output).text, bti_describe_array(y).text,
                       bti_sizes_string(bt_rank(output) > 0 ? bt_rank(output) - 1 : 0, bt_shape_of(output).size).text);
}

static bt_array *other_shape(bt_array *output, bt_array *y) {
    if (has_sizes(y, output, bt_rank(output))) return NULL;
    return bti_poisonf(BT_INVALID_ARGUMENT, "the output is %s and y %s; they must have one shape",
                       bti_describe_array(output).text, bti_describe_array(y).text);
}

/* --- sums ------------------------------------------------------------------------------------------------------------- */

static bt_array *count_elements(bt_array *x) { return bt_full_shape((double)bt_count(x), BT_F32, BT_SHAPE(1)); }

static bt_array *pair(bt_array *sum, bt_array *count) {
    bt_array *parts[] = {bt_reshape(bt_cast(sum, BT_F32), 1), count};
    return bt_concat(parts, 2, 0);
}

/* Right ones, and all. */
static bt_array *count_right(bt_array *output, bt_array *y, void *unused) {
    (void)unused;
    bt_array *wrong = other_classes(output, y);
    if (wrong) return wrong;
    bt_array *right = bt_eq(bt_argmax(output, -1), y);
    return pair(bt_sum(bt_cast(right, BT_F32), BT_ALL, false), count_elements(right));
}

static bt_array *count_among_largest(bt_array *output, bt_array *y, void *data) {
    bt_array *wrong = other_classes(output, y);
    if (wrong) return wrong;
    bt_array *largest = bt_top_k_indices(output, (int64_t)(intptr_t)data); /* [B, ..., k] */
    bt_array *right = bt_any(bt_eq(largest, bt_expand_dims(y, -1)), BT_AXES(-1), false);
    return pair(bt_sum(bt_cast(right, BT_F32), BT_ALL, false), count_elements(right));
}

bt_array *bti_confusion_sums(bt_array *output, bt_array *y, void *unused) {
    (void)unused;
    int64_t classes = bt_size(output, -1);
    bt_array *wrong = other_classes(output, y);
    if (wrong) return wrong;
    bt_array *is = bt_reshape(bt_one_hot(y, classes, BT_F32), -1, classes);
    bt_array *guess = bt_reshape(bt_one_hot(bt_argmax(output, -1), classes, BT_F32), -1, classes);
    return bt_flatten(bt_matmul_t(is, guess, true, false), 0);
}

static bt_array *entropy_sums(bt_array *output, bt_array *y, void *unused) {
    (void)unused;
    return pair(bt_cross_entropy(output, y, BT_LOSS(.reduction = BT_REDUCE_SUM)), count_elements(y));
}

static bt_array *square_sums(bt_array *output, bt_array *y, void *unused) {
    (void)unused;
    bt_array *wrong = other_shape(output, y);
    if (wrong) return wrong;
    bt_array *square = bt_square(bt_sub(output, y));
    return pair(bt_sum(square, BT_ALL, false), count_elements(square));
}

static bt_array *distance_sums(bt_array *output, bt_array *y, void *unused) {
    (void)unused;
    bt_array *wrong = other_shape(output, y);
    if (wrong) return wrong;
    bt_array *distance = bt_abs(bt_sub(output, y));
    return pair(bt_sum(distance, BT_ALL, false), count_elements(distance));
}

/* --- figures ---------------------------------------------------------------------------------------------------------- */

static double mean_of(const double *sums, int64_t count, void *unused) {
    (void)unused;
    return count == 2 ? sums[0] / sums[1] : NAN;
}

static double perplexity_of(const double *sums, int64_t count, void *data) { return exp(mean_of(sums, count, data)); }

/* sums[i * C + j]: rows of class i for which j is predicted. */
static double f1_of(const double *sums, int64_t count, void *unused) {
    (void)unused;
    int64_t classes = (int64_t)(sqrt((double)count) + 0.5), counted = 0;
    double total = 0;
    for (int64_t i = 0; i < classes; i++) {
        double is = 0, guessed = 0;
        for (int64_t j = 0; j < classes; j++) {
            is += sums[i * classes + j];
            guessed += sums[j * classes + i];
        }
        if (is + guessed == 0) continue;
        total += 2 * sums[i * classes + i] / (is + guessed);
        counted++;
    }
    return counted ? total / (double)counted : NAN;
}

bt_metric bt_metric_accuracy(void) { return (bt_metric){.name = "accuracy", .sums = count_right, .value = mean_of}; }

bt_metric bt_metric_top_k(int k) {
    static const char *const names[] = {"top-k", "top-1", "top-2", "top-3", "top-4", "top-5",
                                        "top-6", "top-7", "top-8", "top-9", "top-10"};
    bool named = k > 0 && k < (int)(sizeof names / sizeof *names);
    return (bt_metric){.name = names[named ? k : 0],
                       .sums = count_among_largest,
                       .value = mean_of,
                       .data = (void *)(intptr_t)k}; // NOLINT(performance-no-int-to-ptr)
}

bt_metric bt_metric_f1(void) { return (bt_metric){.name = "F1", .sums = bti_confusion_sums, .value = f1_of}; }

bt_metric bt_metric_perplexity(void) {
    return (bt_metric){.name = "perplexity", .sums = entropy_sums, .value = perplexity_of, .lower_is_better = true};
}

bt_metric bt_metric_mse(void) {
    return (bt_metric){.name = "mse", .sums = square_sums, .value = mean_of, .lower_is_better = true};
}

bt_metric bt_metric_mae(void) {
    return (bt_metric){.name = "mae", .sums = distance_sums, .value = mean_of, .lower_is_better = true};
}

/* berth/metrics.h: what a model is judged by. */
#ifndef BERTH_METRICS_H
#define BERTH_METRICS_H

#include <berth/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A metric: numbers that add up over the rows of all batches, and the figure that they come to. One of the program's is a structure with these
 * members, `(bt_metric){"bias", bias_sums, bias_value}`. What it points to must outlive its use. */
typedef struct bt_metric {
    const char *name; /* in progress lines, reports and tables: "accuracy" */
    /* From a model's output [B, ...] and y [B, ...]: numbers [n] of any dtype, sums over the rows. n is the same for all batches, and at least 1. */
    bt_array *(*sums)(bt_array *output, bt_array *y, void *data);
    /* The figure of `count` sums over all rows, the first of which are those of `sums`. */
    double (*value)(const double *sums, int64_t count, void *data);
    void *data;           /* passed on */
    bool lower_is_better; /* of an error; for early stops and the best checkpoint */
} bt_metric;

/* Of all that follow: y of another shape is INVALID_ARGUMENT.
 * Logits or probabilities [B, ..., C] and classes y [B, ...]: the part of the classes that have the largest number. */
BT_API bt_metric bt_metric_accuracy(void);
/* The same: the part of the classes that are among the k largest numbers. */
BT_API bt_metric bt_metric_top_k(int k);
/* The same: the mean over the classes of the harmonic mean of precision and recall, 2 * tp / (2 * tp + fp + fn); classes that neither occur nor are predicted do not count (scikit-learn's
 * f1_score, average="macro"). */
BT_API bt_metric bt_metric_f1(void);
/* Logits [B, ..., C] and classes y [B, ...]: exp of the mean cross-entropy. */
BT_API bt_metric bt_metric_perplexity(void);
/* Means over all elements of (output - y)**2 and |output - y|, of one shape. */
BT_API bt_metric bt_metric_mse(void);
BT_API bt_metric bt_metric_mae(void);

/* Judges a model by the rows of x [N, ...] and y [N, ...]: applies it, for inference, to `batch` rows at a time (0: 256), where the model is, and writes count figures to values[].
 * Blocks. INVALID_ARGUMENT: NULL, no rows, x and y of different numbers of rows, a metric without functions; the errors of the model and of the
 * metrics, with the metric's name. values[] are NaN then. */
BT_API BT_MUST_USE bt_status bt_evaluate(bt_layer *model, bt_array *x, bt_array *y, const bt_metric *metrics, int count,
                                         double *values, int64_t batch);
#define bt_evaluate(...) BTI_AT_MUST(bt_evaluate(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif

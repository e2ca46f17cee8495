/* berth/losses.h: losses. */
#ifndef BERTH_LOSSES_H
#define BERTH_LOSSES_H

#include <berth/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What becomes of the losses of elements, or of rows [...] of bt_cross_entropy. */
typedef enum bt_reduction {
    BT_REDUCE_MEAN, /* their mean: a scalar */
    BT_REDUCE_SUM,  /* their sum: a scalar */
    BT_REDUCE_NONE  /* they stay as they are */
} bt_reduction;

/* Options of losses; 0 or NULL means the default in brackets. What a loss does not know is refused. */
typedef struct bt_loss_options {
    size_t size BTI_INITIALLY(sizeof(bt_loss_options)); /* set by the macro */
    BTI_BY_NAME
    bt_reduction reduction BTI_INITIALLY(BT_REDUCE_MEAN); /* BT_REDUCE_MEAN, BT_REDUCE_SUM or BT_REDUCE_NONE [mean] */
    bt_array *weights
        BTI_INITIALLY(NULL); /* of classes [C] in bt_cross_entropy; of elements in the others, broadcast to x [1] */
    bt_array *positive_weights
        BTI_INITIALLY(NULL); /* of bt_binary_cross_entropy: what targets of 1 weigh, broadcast to the logits [1] */
    double label_smoothing
        BTI_INITIALLY(0); /* of bt_cross_entropy, 0 to 1: the share of a target that all classes get alike [0] */
    bool ignore
        BTI_INITIALLY(false); /* of bt_cross_entropy: rows of the class `ignored` have no loss and do not count */
    int64_t ignored BTI_INITIALLY(0); /* with ignore: any integer; -1 and -100 are usual */
} bt_loss_options;
#define BT_LOSS(...) BTI_OPTIONS(bt_loss_options, __VA_ARGS__)

/* --- losses ----------------------------------------------------------------------------------------------------------
 * Losses have PyTorch's options, by name: `bt_mse(x, y)`, `bt_mse(x, y, .reduction = BT_REDUCE_SUM, .weights = w)`; of the functions themselves NULL means the
 * defaults. Floats (integers become floats); float16 and bfloat16 are computed in float32. x and y broadcast. A mean is over all elements, whatever they weigh. */

/* The squared error (x - y)**2. */
BT_API bt_array *bt_mse(bt_array *x, bt_array *y, const bt_loss_options *options);
/* The absolute error |x - y|. */
BT_API bt_array *bt_mae(bt_array *x, bt_array *y, const bt_loss_options *options);
/* Huber's loss: 0.5 * d**2, or delta * (|d| - 0.5 * delta) where |d| > delta, with d = x - y. */
BT_API bt_array *bt_huber(bt_array *x, bt_array *y, double delta, const bt_loss_options *options);
/* The cross-entropy of a sigmoid: softplus(logits) - targets * logits. */
BT_API bt_array *bt_binary_cross_entropy(bt_array *logits, bt_array *targets, const bt_loss_options *options);
/* The cross-entropy of a softmax: -sum(targets * weights * log_softmax(logits)) over the last axis: logits [..., C]; targets [..., C] (one-hot or probabilities), or [...] of integer classes. The mean is over
 * rows, of classes over what the rows that count weigh, as PyTorch's; of none it is NaN. A row that is ignored has no loss, but its gradient is NaN where its logits are not finite. A class outside [0, C) that is not the ignored one, -1 included, makes its loss
 * NaN. */
BT_API bt_array *bt_cross_entropy(bt_array *logits, bt_array *targets, const bt_loss_options *options);

#ifndef BERTH_BUILDING
#define BTI_LOSS(function, x, y, ...) function(x, BTI_OPERAND(y), BT_LOSS(__VA_ARGS__))
#define BTI_HUBER(x, y, delta, ...) bt_huber(x, BTI_OPERAND(y), delta, BT_LOSS(__VA_ARGS__))
#define bt_mse(...) BTI_AT(bt_array *, BTI_LOSS(bt_mse, __VA_ARGS__, ))
#define bt_mae(...) BTI_AT(bt_array *, BTI_LOSS(bt_mae, __VA_ARGS__, ))
#define bt_huber(...) BTI_AT(bt_array *, BTI_HUBER(__VA_ARGS__, ))
#define bt_binary_cross_entropy(...) BTI_AT(bt_array *, BTI_LOSS(bt_binary_cross_entropy, __VA_ARGS__, ))
#define bt_cross_entropy(...) BTI_AT(bt_array *, BTI_LOSS(bt_cross_entropy, __VA_ARGS__, ))
#endif

#ifdef __cplusplus
}
#endif
#endif

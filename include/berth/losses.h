/* berth/losses.h: losses with weights and other options. The plain ones (bt_mse, bt_cross_entropy...) are in ops.h. */
#ifndef BERTH_LOSSES_H
#define BERTH_LOSSES_H

#include <berth/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What becomes of the losses of elements, or of rows [...] of bt_cross_entropy_loss. */
typedef enum bt_reduction {
    BT_REDUCE_MEAN, /* their mean: a scalar */
    BT_REDUCE_SUM,  /* their sum: a scalar */
    BT_REDUCE_NONE  /* they stay as they are */
} bt_reduction;

/* Options of losses; 0 or NULL means the default in brackets. Made by `BT_LOSS(.reduction = BT_REDUCE_SUM, .weights = w)`. What a loss does not know is
 * refused. */
typedef struct bt_loss_options {
    size_t size BTI_INITIALLY(sizeof(bt_loss_options)); /* set by the macro */
    bt_reduction reduction BTI_INITIALLY(BT_REDUCE_MEAN);
    bt_array *weights BTI_INITIALLY(
        NULL); /* of classes [C] in bt_cross_entropy_loss; of elements in the others, broadcast to x [1] */
    bt_array *positive_weights
        BTI_INITIALLY(NULL); /* of bt_binary_cross_entropy_loss: what targets of 1 weigh, broadcast to the logits [1] */
    double label_smoothing
        BTI_INITIALLY(0); /* of bt_cross_entropy_loss, 0 to 1: the share of a target that all classes get alike [0] */
    bool ignore
        BTI_INITIALLY(false); /* of bt_cross_entropy_loss: rows of the class `ignored` have no loss and do not count */
    int64_t ignored BTI_INITIALLY(0); /* with ignore: any integer; -1 and -100 are usual */
} bt_loss_options;
#define BT_LOSS(...) \
    BTI_ADDRESS(bt_loss_options, BTI_OVERRIDING(BTI_LITERAL(bt_loss_options){BTI_SIZE_OF(bt_loss_options) __VA_ARGS__}))

/* As PyTorch's losses of these options; NULL: the defaults. Floats (integers become floats); float16 and bfloat16 are computed in float32. x and y broadcast.
 * A mean is over all elements, whatever they weigh. (x - y)**2. */
BT_API bt_array *bt_mse_loss(bt_array *x, bt_array *y, const bt_loss_options *options);
#define bt_mse_loss(...) BTI_AT(bt_array *, bt_mse_loss(__VA_ARGS__))
/* |x - y|. */
BT_API bt_array *bt_mae_loss(bt_array *x, bt_array *y, const bt_loss_options *options);
#define bt_mae_loss(...) BTI_AT(bt_array *, bt_mae_loss(__VA_ARGS__))
/* 0.5 * d**2, or delta * (|d| - 0.5 * delta) where |d| > delta, with d = x - y. */
BT_API bt_array *bt_huber_loss(bt_array *x, bt_array *y, double delta, const bt_loss_options *options);
#define bt_huber_loss(...) BTI_AT(bt_array *, bt_huber_loss(__VA_ARGS__))
/* softplus(logits) - targets * logits. */
BT_API bt_array *bt_binary_cross_entropy_loss(bt_array *logits, bt_array *targets, const bt_loss_options *options);
#define bt_binary_cross_entropy_loss(...) BTI_AT(bt_array *, bt_binary_cross_entropy_loss(__VA_ARGS__))
/* -sum(targets * weights * log_softmax(logits)) over the last axis: logits [..., C]; targets [..., C] (probabilities), or [...] of integer classes. The mean is over
 * rows, of classes over what the rows that count weigh, as PyTorch's; of none it is NaN. A row that is ignored has no loss, but its gradient is NaN where its logits are not finite. A class outside [0, C) that is not the ignored one makes its loss
 * NaN. */
BT_API bt_array *bt_cross_entropy_loss(bt_array *logits, bt_array *targets, const bt_loss_options *options);
#define bt_cross_entropy_loss(...) BTI_AT(bt_array *, bt_cross_entropy_loss(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif

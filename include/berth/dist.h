/* berth/dist.h: training one model on several devices: a copy on each (TensorFlow's mirrored strategy), or its layers in stages.
 *
 * Inside BT_STRATEGY(s), shared variables are made with one replica per device. bt_train_step (or bt_fit with a
 * strategy) splits each batch over the devices, computes the gradients on all devices at the same time, sums them over
 * the devices, and updates every replica in the same way. A batch need not divide evenly: the weight of a device's part
 * is its number of examples. Equal devices get parts that are as equal as possible; unlike devices (a CPU and a GPU,
 * two GPUs of different types) get parts in proportion to their speed, which the first step measures.
 */
#ifndef BERTH_DIST_H
#define BERTH_DIST_H

#include <berth/optimizers.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bt_strategy bt_strategy;

/* A strategy over the named devices; count 0: over all GPUs, else all CPUs. Belongs to the innermost scope;
 * bt_strategy_retain and bt_strategy_release are for strategies that live longer. An unknown device, or the same device
 * twice, poisons it: it is never NULL, the cause is put into the error record, and each use fails with that cause. A
 * BT_STRATEGY block with a poisoned strategy poisons what is made inside. */
BT_API bt_strategy *bt_mirrored(const char *const *devices, int count);
#define bt_mirrored(...) BTI_AT(bt_strategy *, bt_mirrored(__VA_ARGS__))
/* A strategy for a model whose layers lie on several devices (bt_layer_to, bt_layer_to_stages), or on one. Each batch is cut along axis 0 into so many
 * micro-batches, as equal as possible (a batch of fewer rows: one for each row), which go forward through the devices one behind the other, and backward; gradients are added in
 * the order of the micro-batches, and one update follows. While one device works on a micro-batch, the others work on those before and behind it. With S stages of
 * equal time and M micro-batches each device is idle for a part (S - 1) / (M + S - 1) of the step (the "bubble"). A stage is what is computed between two
 * moves to another device; a device may have several. Of stage s (from 0) at most S - s micro-batches are under way, so memory does not grow with M, and a
 * model on one device needs memory for the activations of one micro-batch.
 *
 * Losses, gradients and states are those of the whole batch but for rounding, and for one M the same bits however the layers are placed on devices of one make. Dropout draws by the
 * row of the whole batch. Layers that need a mean over the whole batch in the forward pass (bt_batch_mean: batch norm in training) are refused:
 * FAILED_PRECONDITION. The loss, and hooks of layers, are called for each micro-batch, hooks of gradients once for the sums. A step submits its work before it returns. INVALID_ARGUMENT, in the strategy: fewer than 1 micro-batches. The strategy has no replicas: bt_strategy_count is 0, BT_STRATEGY makes
 * variables as outside of it. */
BT_API bt_strategy *bt_pipelined(int micro_batches);
#define bt_pipelined(...) BTI_AT(bt_strategy *, bt_pipelined(__VA_ARGS__))
BT_API bt_strategy *bt_strategy_retain(bt_strategy *strategy);
#define bt_strategy_retain(...) BTI_AT(bt_strategy *, bt_strategy_retain(__VA_ARGS__))
BT_API void bt_strategy_release(bt_strategy *strategy); /* NULL is accepted */
#define bt_strategy_release(...) BTI_AT_VOID(bt_strategy_release(__VA_ARGS__))
/* BT_OK when it can be used; else its error, with the cause in the error record. */
BT_API bt_status bt_strategy_status(const bt_strategy *strategy);
#define bt_strategy_status(...) BTI_AT_STATUS(bt_strategy_status(__VA_ARGS__))
/* How many devices it mirrors over: 1 for NULL, 0 for bt_pipelined and a poisoned strategy. */
BT_API int bt_strategy_count(const bt_strategy *strategy);
BT_API bt_device *bt_strategy_device(const bt_strategy *strategy, int replica);

/* Sets the part of each batch that each device gets, instead of measuring: numbers above 0, one per device, which are
 * scaled so that their sum is 1. */
BT_API BT_MUST_USE bt_status bt_strategy_set_shares(bt_strategy *strategy, const double *shares, int count);
#define bt_strategy_set_shares(...) BTI_AT_MUST(bt_strategy_set_shares(__VA_ARGS__))
/* The part of each batch that a device gets; 0 until it was measured. */
BT_API double bt_strategy_share(const bt_strategy *strategy, int replica);
/* Exact mode: losses, parameters and states have the same bits on 1, 2, 4 and 8 equal devices. Each batch is always cut into
 * eight parts, whose gradients are summed pairwise. FAILED_PRECONDITION, with the reason, for unlike devices or another
 * number of them. */
BT_API BT_MUST_USE bt_status bt_strategy_set_exact(bt_strategy *strategy, bool exact);
#define bt_strategy_set_exact(...) BTI_AT_MUST(bt_strategy_set_exact(__VA_ARGS__))

/* A copy of a chain whose layers lie on several devices, one run of layers behind the other, for bt_pipelined: in their order (layers of chains in the chain as well), so
 * that the device with the most to do has as little as possible. `sample` NULL: counted in elements of parameters. Else in the time that a layer's forward and backward
 * pass take: the rows of sample, a micro-batch, go through the layers on the first device, one after the other (blocks). count 0: all GPUs, else all CPUs. With fewer layers than
 * devices the last ones get none; what layers of several runs share lies with the first. Layers that lie on devices already are moved as well. The copy is poisoned by an unknown
 * device, the same device twice, or a layer that cannot be applied to what the one before gives. */
BT_API bt_layer *bt_layer_to_stages(const bt_layer *model, const char *const *devices, int count, bt_array *sample);
#define bt_layer_to_stages(...) BTI_AT(bt_layer *, bt_layer_to_stages(__VA_ARGS__))

typedef struct bti_strategy_guard {
    bt_strategy *before;
    bool refused;
    bti_on_guard on;
} bti_strategy_guard;
BT_API bti_strategy_guard bti_strategy_begin(bt_strategy *strategy);
BT_API void bti_strategy_end(bti_strategy_guard *guard);
#define BT_STRATEGY(which) BTI_BLOCK(strategy, bti_strategy_begin(which))

typedef struct bti_replica_guard {
    int before;
    bti_on_guard on;
} bti_replica_guard;
BT_API bti_replica_guard bti_replica_begin(bt_strategy *strategy, int replica);
BT_API void bti_replica_end(bti_replica_guard *guard);
/* `BT_REPLICA(s, i) { ... }`: work inside runs on the device of replica i, and bt_value returns that replica's value.
 * For training steps written by hand. */
#define BT_REPLICA(which, index) BTI_BLOCK(replica, bti_replica_begin(which, index))

/* Replaces each of arrays[] (one per replica, of equal shapes) by their sum, on its own device. It is only recorded, and
 * may be part of a function. If all devices have one driver that can sum over devices (cuda with NCCL, say; flag
 * `collectives`), it is one operation of all of them, which starts when its parts are there and runs beside other work of the
 * devices; small ones go out together. Otherwise it is a sum on the first device and copies of it. The driver decides
 * the order of the sum; all replicas get the same bits. */
BT_API void bt_all_reduce(bt_strategy *strategy, bt_array **arrays);
#define bt_all_reduce(...) BTI_AT_VOID(bt_all_reduce(__VA_ARGS__))

/* A loss: the mean over the rows of x (and y) of a model; a training step differentiates it. */
typedef bt_array *bt_model_loss(bt_layer *model, bt_array *x, bt_array *y, void *data);

/* One training step. x and y [B, ...] are split along axis 0 over the strategy's devices, gradients are summed, and the
 * optimiser updates the model's parameters. With strategy NULL one device does the work, where the model is: x moves to
 * the device of the model's first parameter, y to that of its output (inside a BT_ON block of another device, to that
 * device). The loss is recorded in a BT_TRAINING(true) block; states that layers set are set with the update, combined over the parts of the batch (nn.h: bt_layer_set_state, bt_batch_mean). If the step fails, no parameter and no state changes.
 * Returns the mean loss over the batch before the update (lazy), not scaled by an optimiser's .loss_scale. */
BT_API bt_array *bt_train_step(bt_strategy *strategy, bt_layer *model, bt_optimizer *optimizer, bt_model_loss *loss,
                               void *data, bt_array *x, bt_array *y);
#define bt_train_step(...) BTI_AT(bt_array *, bt_train_step(__VA_ARGS__))

/* The model's loss, and its gradients by all parameters in the order of bt_parameters, frozen ones too, written to grads[] (arrays of the innermost
 * scope): Flux's withgradient(model). Outside of a BT_TRAINING(true) block layers are in inference. Nothing is updated: `bt_optimizer_step(optimizer, parameters, grads, count)` does that. Errors: the grads carry the
 * cause, the loss too if it is its own; without a model, a loss or grads only the result is poisoned. */
BT_API bt_array *bt_with_gradient(bt_layer *model, bt_model_loss *loss, void *data, bt_array *x, bt_array *y,
                                  bt_array **grads);
#define bt_with_gradient(...) BTI_AT(bt_array *, bt_with_gradient(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif

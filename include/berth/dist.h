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

#include <berth/losses.h>
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

/* Sharded: each device has the optimiser's states of its part of the parameters, and computes their updates, with the same result (ZeRO, stage 1: Rajbhandari et al. 2020).
 * Gradients are summed on the device that owns the parameter, whose new value is copied to the others. Parameters go to devices whole, the largest first to the device with the least bytes so
 * far. States of an optimiser that was used otherwise move in the next step; files of states are the same (file.h). In exact mode the bits are those of steps that are not sharded; else they
 * are where devices are summed over by copies (bt_all_reduce). Errors: those of the strategy. */
BT_API BT_MUST_USE bt_status bt_strategy_set_sharded(bt_strategy *strategy, bool sharded);
#define bt_strategy_set_sharded(...) BTI_AT_MUST(bt_strategy_set_sharded(__VA_ARGS__))

/* Takes devices that failed out of the strategy, by their replicas' numbers, and their replicas out of the variables of the model and of the optimiser (NULL: there is none), whose values are those of the last step that
 * completed: training goes on over the rest, which are numbered anew and share batches as before among themselves. Sharded states that were on them are lost: steps are refused until bt_load_optimizer or bt_optimizer_prepare has
 * made new ones. Not while another thread uses any of these. FAILED_PRECONDITION, and nothing changes: none would be left; a variable is on none of the others; in exact mode as many are left as it does not know.
 * bt_fit does all this itself. */
BT_API BT_MUST_USE bt_status bt_strategy_drop(bt_strategy *strategy, const int *replicas, int count, bt_layer *model,
                                              bt_optimizer *optimizer);
#define bt_strategy_drop(...) BTI_AT_MUST(bt_strategy_drop(__VA_ARGS__))

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

/* --- steps of one's own ----------------------------------------------------------------------------------------------------
 * What bt_train_step is made of (TensorFlow's strategy.run and strategy.reduce): a function of the program's is called for each part of a batch, on the part's device;
 * what it gives is added up, or looked at part by part; gradients update all replicas.
 *
 *     static bt_status step(const bt_part *part, bt_array *const *inputs, bt_array **outputs, void *data) {
 *         struct own *o = data;
 *         outputs[0] = bt_cross_entropy(bt_apply(o->model, inputs[0]), inputs[1]);
 *         return bt_part_gradients(outputs[0], o->parameters, 4, outputs + 1);
 *     }
 *     ...
 *     bt_parts *parts = bt_strategy_run(all, step, &own, (bt_array *[]){x, y}, 2, 5);
 *     bt_array *loss = bt_parts_reduce(parts, BT_REDUCE_MEAN, 0);
 *     bt_status status = bt_parts_update(parts, adam, own.parameters, 4, 1);
 *
 * In exact mode the function is called for eight parts, whatever the number of devices, and all of this has the same bits on 1, 2, 4 and 8. */

/* Rows of a batch that are computed by one replica: first_row up to first_row + rows, of all_rows. */
typedef struct bt_part {
    int index, count; /* which part, of how many */
    int replica;      /* of the strategy */
    int64_t first_row, rows, all_rows;
} bt_part;

/* inputs[]: the part's rows, on its device. Writes all outputs[], and returns BT_OK; any other status ends the run with it. It is called in a BT_REPLICA and a
 * BT_TRAINING(true) block, on the thread that runs the step, as bt_train_step calls losses: dropout is keyed by the rows' places in the whole batch, bt_batch_mean is over all parts, states of layers are
 * collected. Outputs belong to the scope of the call. Everything is recorded only: see bt_batch_mean for what may not be read. */
typedef bt_status bt_part_fn(const bt_part *part, bt_array *const *inputs, bt_array **outputs, void *data);

/* What a function gave for each part of a batch. Belongs to the innermost scope. */
typedef struct bt_parts bt_parts;

/* Cuts the inputs (at least one, all [B, ...] with the same B of at least 1) along axis 0 over the strategy's devices and calls fn for each part that has rows. With strategy NULL there is one part: the
 * inputs as they are. The first run over unlike devices calls it twice more for each of them, to measure their speeds. Does not wait. Errors poison the result: those of fn and of its outputs,
 * INVALID_ARGUMENT (NULL, other numbers of rows), FAILED_PRECONDITION (called in a part of another run). */
BT_API bt_parts *bt_strategy_run(bt_strategy *strategy, bt_part_fn *fn, void *data, bt_array *const *inputs,
                                 int input_count, int output_count);
#define bt_strategy_run(...) BTI_AT(bt_parts *, bt_strategy_run(__VA_ARGS__))
/* For a bt_part_fn: the gradients by the parameters of the part's share of the whole loss, where `loss` is the mean over the part's rows: its gradients times rows / all_rows, so that their sum over the parts is the gradient
 * of the mean over the batch. Written to grads[] (arrays of the innermost scope). With an optimiser's .loss_scale pass bt_optimizer_scale_loss(o, loss). Elsewhere it is bt_grad_shared. */
BT_API bt_status bt_part_gradients(bt_array *loss, bt_shared *const *parameters, int count, bt_array **grads);
#define bt_part_gradients(...) BTI_AT_STATUS(bt_part_gradients(__VA_ARGS__))
/* An output over all parts: BT_REDUCE_SUM, or BT_REDUCE_MEAN weighted by rows; its shape must be the same in all parts. A lazy array on the first replica's device. */
BT_API bt_array *bt_parts_reduce(const bt_parts *parts, bt_reduction how, int output);
#define bt_parts_reduce(...) BTI_AT(bt_array *, bt_parts_reduce(__VA_ARGS__))
/* One step of the optimiser, where outputs first_output... are the gradients by the parameters (of bt_part_gradients): their sums over the parts update every replica in the same way. The states that layers set in
 * the run are set with the first update; all or nothing. Errors: those of bt_optimizer_step; the cause of poisoned parts or gradients. */
BT_API bt_status bt_parts_update(bt_parts *parts, bt_optimizer *optimizer, bt_shared *const *parameters, int count,
                                 int first_output);
#define bt_parts_update(...) BTI_AT_STATUS(bt_parts_update(__VA_ARGS__))
/* How many parts there are; 0 for a poisoned one, with the cause in the error record. */
BT_API int bt_parts_count(const bt_parts *parts);
/* Which rows part i has; all 0, with OUT_OF_RANGE in the error record: there is none. */
BT_API bt_part bt_parts_part(const bt_parts *parts, int i);
/* An output of part i, on the part's device (an array of the innermost scope). */
BT_API bt_array *bt_parts_value(const bt_parts *parts, int output, int i);
#define bt_parts_value(...) BTI_AT(bt_array *, bt_parts_value(__VA_ARGS__))
/* BT_OK when the run was recorded; else its error, with the cause in the error record. */
BT_API bt_status bt_parts_status(const bt_parts *parts);
#define bt_parts_status(...) BTI_AT_STATUS(bt_parts_status(__VA_ARGS__))
BT_API bt_parts *bt_parts_retain(bt_parts *parts);
#define bt_parts_retain(...) BTI_AT(bt_parts *, bt_parts_retain(__VA_ARGS__))
BT_API void bt_parts_release(bt_parts *parts); /* NULL is accepted */
#define bt_parts_release(...) BTI_AT_VOID(bt_parts_release(__VA_ARGS__))

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

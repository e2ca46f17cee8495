/* berth/dist.h: one model on several devices (TensorFlow's mirrored strategy).
 *
 * Inside BT_STRATEGY(s), shared variables are made with one replica per device. bt_step_mirrored (or bt_fit with a strategy)
 * splits each batch over the devices (uneven batches work: a share's weight is its number of examples), computes gradients
 * everywhere at once, sums them over the devices, and updates every replica alike. Equal devices get shares as equal as they can
 * be; unlike ones (a CPU and a GPU, two GPUs of different make) get them by their speed, measured in the first step.
 */
#ifndef BERTH_DIST_H
#define BERTH_DIST_H

#include <berth/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bt_strategy bt_strategy;

/* Over the named devices; count 0: over all GPUs, else all CPUs. Belongs to the innermost scope; bt_strategy_retain and
 * bt_strategy_release for longer lives. An unknown or doubled device poisons it: it is never NULL, the cause goes to the error
 * record, and each use of it fails with that cause; what a BT_STRATEGY block of it makes is poisoned by it. */
BT_API bt_strategy *bt_mirrored(const char *const *devices, int count);
#define bt_mirrored(...) BTI_AT(bt_strategy *, bt_mirrored(__VA_ARGS__))
BT_API bt_strategy *bt_strategy_retain(bt_strategy *strategy);
#define bt_strategy_retain(...) BTI_AT(bt_strategy *, bt_strategy_retain(__VA_ARGS__))
BT_API void bt_strategy_release(bt_strategy *strategy); /* NULL is fine */
#define bt_strategy_release(...) BTI_AT_VOID(bt_strategy_release(__VA_ARGS__))
/* BT_OK when it can be used; else why not, with the cause in the error record. */
BT_API bt_status bt_strategy_status(const bt_strategy *strategy);
#define bt_strategy_status(...) BTI_AT_STATUS(bt_strategy_status(__VA_ARGS__))
/* 1 for NULL; 0 for one that cannot be used. */
BT_API int bt_strategy_count(const bt_strategy *strategy);
BT_API bt_device *bt_strategy_device(const bt_strategy *strategy, int replica);

/* Parts of each batch, above 0, one per device; they are scaled to sum to 1. Instead of those measured. */
BT_API BT_MUST_USE bt_status bt_strategy_set_shares(bt_strategy *strategy, const double *shares, int count);
#define bt_strategy_set_shares(...) BTI_AT_MUST(bt_strategy_set_shares(__VA_ARGS__))
/* The part of a device; 0 while it is still to be measured. */
BT_API double bt_strategy_share(const bt_strategy *strategy, int replica);
/* Exact mode: losses and parameters have the same bits on 1, 2, 4 and 8 equal devices. Each batch is always cut into eight parts, whose
 * gradients are summed pair by pair. FAILED_PRECONDITION, with the reason, for unlike devices and other numbers of them. */
BT_API BT_MUST_USE bt_status bt_strategy_set_exact(bt_strategy *strategy, bool exact);
#define bt_strategy_set_exact(...) BTI_AT_MUST(bt_strategy_set_exact(__VA_ARGS__))

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
/* `BT_REPLICA(s, i) { ... }`: work inside goes to replica i's device, and bt_value gives its replica. For steps by hand. */
#define BT_REPLICA(which, index) BTI_BLOCK(replica, bti_replica_begin(which, index))

/* arrays[i] (one per replica, equal shapes) become their sum, on each replica's device. Not waited for: devices of one driver
 * that sums over devices by itself (NCCL's, say) are given the work at once, which the flag `collectives` decides; else it is
 * recorded as a sum on the first device and copies of it. The order of the sum is the driver's, its bits equal on all. */
BT_API void bt_all_reduce(bt_strategy *strategy, bt_array **arrays);
#define bt_all_reduce(...) BTI_AT_VOID(bt_all_reduce(__VA_ARGS__))

/* The mean loss over the rows of x (and y) of a model; what a training step differentiates. */
typedef bt_array *bt_model_loss(bt_layer *model, bt_array *x, bt_array *y, void *data);

/* One training step: x and y [B, ...] split along axis 0 over the strategy (NULL: no strategy, one device), gradients summed,
 * the model's parameters updated by the optimiser. Without a strategy the work is done where the model is: x moves to the device of its
 * first parameter, y to that of its output (inside of a BT_ON of another device, the block decides). Returns the mean loss over the batch, before the update (lazy). */
BT_API bt_array *bt_train_step(bt_strategy *strategy, bt_layer *model, bt_optimizer *optimizer, bt_model_loss *loss,
                               void *data, bt_array *x, bt_array *y);
#define bt_train_step(...) BTI_AT(bt_array *, bt_train_step(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif

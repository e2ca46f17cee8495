/* berth/nn.h: layers of one's own and trees of parameters. The layers that are there are in berth/layers.h.
 *
 * A model is any function with a tree of parameters; layers are one way to write it. A `bt_layer` is a node of a tree:
 * its own parameters (shared variables), its state (shared variables that are not trained), its children, and a function from an array to an array. Like arrays,
 * layers belong to the innermost scope of the thread that makes them, and may be used from any thread. bt_layer_retain
 * and bt_layer_release are for those that live longer.
 *
 * Errors. A layer that cannot be made is poisoned, like an array; it is never NULL. It carries the
 * first cause, which is also put into the error record. Each use fails with that cause, and a layer with a poisoned
 * child is poisoned too. bt_layer_status reports it at once. A released one is refused with INVALID_ARGUMENT; the text
 * names the line that made it and the line that released it.
 */
#ifndef BERTH_NN_H
#define BERTH_NN_H

#include <berth/grad.h>
#include <berth/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bt_layer bt_layer;
typedef bt_array *bt_activation(bt_array *x);

/* --- layers of one's own --------------------------------------------------------------------------------------------- */

/* What a layer computes: x of any shape -> an array of the innermost scope. It is called by each bt_apply, on the calling thread; `data` is that of bt_layer_new.
 * NULL is an error of the layer. */
typedef bt_array *bt_forward(bt_layer *layer, bt_array *x, void *data);
/* The same of a layer with several inputs or outputs: fills outputs[]. It is given as many inputs and outputs as the caller of bt_apply_all has, and refuses
 * what it does not know with a status other than BT_OK, or poisoned outputs. */
typedef bt_status bt_forward_all(bt_layer *layer, bt_array *const *inputs, int input_count, bt_array **outputs,
                                 int output_count, void *data);

#define BT_LAYER_VARIABLES 16 /* of a layer's own, at most; children have more */

typedef struct bt_named_value {
    const char *name; /* without a point; copied */
    bt_array *value;  /* what the variable begins with */
} bt_named_value;
typedef struct bt_named_variable {
    const char *name;
    bt_shared *variable; /* retained */
} bt_named_variable;
typedef struct bt_named_layer {
    const char *name;
    bt_layer *layer; /* retained */
} bt_named_layer;

/* Options of bt_layer_new; lists end where a name is NULL. */
typedef struct bt_layer_options {
    size_t size BTI_INITIALLY(sizeof(bt_layer_options)); /* set by the macro */
    BTI_BY_NAME
    void *data BTI_INITIALLY(NULL); /* of the functions */
    void (*free_data)(void *data)
        BTI_INITIALLY(NULL); /* called once, with the last copy of the layer; also if the layer cannot be made */
    bt_forward_all *forward_all BTI_INITIALLY(NULL); /* in place of `forward` */
    const char *text BTI_INITIALLY(
        NULL); /* bt_summary prints it behind the name, of a layer with children inside: "(8 => 16)" ["()"] */
    bt_named_value parameters[BT_LAYER_VARIABLES] BTI_INITIALLY({}); /* trained: each becomes a shared variable */
    bt_named_variable
        tied[BT_LAYER_VARIABLES] BTI_INITIALLY({}); /* trained too: variables that another layer has as well */
    bt_named_value state[BT_LAYER_VARIABLES] BTI_INITIALLY({});    /* kept between steps, not trained */
    bt_named_layer children[BT_LAYER_VARIABLES] BTI_INITIALLY({}); /* layers that the function applies */
    bt_layer *const *list BTI_INITIALLY(NULL); /* more children, named by their place: "0", "1"... */
    int list_count BTI_INITIALLY(0);
} bt_layer_options;
#define BT_LAYER(...) BTI_OPTIONS(bt_layer_options, __VA_ARGS__)

/* A layer of a C function: `bt_layer_new("Scale", scale, .parameters = {{"factor", bt_ones(BT_F32, 3)}})`. All that is said of layers holds for it:
 * trees, copies, files, bt_fit and strategies. `name` is what bt_summary prints; copied. A poisoned value or child, a name twice or with a point, and
 * neither function or both poison the layer. The layers of berth/layers.h are made by it too. */
BT_API bt_layer *bt_layer_new(const char *name, bt_forward *forward, const bt_layer_options *options);
#ifndef BERTH_BUILDING
#define BTI_LAYER_NEW(name, forward, ...) bt_layer_new(name, forward, BT_LAYER(__VA_ARGS__))
#define bt_layer_new(...) BTI_AT(bt_layer *, BTI_LAYER_NEW(__VA_ARGS__, ))
#endif

/* For its function: the present value of a parameter of the layer's own, of the calling thread's replica. NOT_FOUND, which lists the names: there is none. */
BT_API bt_array *bt_layer_parameter(bt_layer *layer, const char *name);
#define bt_layer_parameter(...) BTI_AT(bt_array *, bt_layer_parameter(__VA_ARGS__))
/* The same of its state. Where a training step collects states, the value that was set last. */
BT_API bt_array *bt_layer_state(bt_layer *layer, const char *name);
#define bt_layer_state(...) BTI_AT(bt_array *, bt_layer_state(__VA_ARGS__))
/* Sets a state, to a value of its dtype and shape. In bt_train_step and bt_fit it is set with the update of the parameters, all or none: of the
 * values of all parts of the batch floats become the mean, weighted by rows, and integers that of the first part. In a BT_STATE_UPDATES block it is
 * collected. Elsewhere it is bt_set. A state that cannot be set fails the step too, whether or not the layer looks at the status. */
BT_API bt_status bt_layer_set_state(bt_layer *layer, const char *name, bt_array *value);
#define bt_layer_set_state(...) BTI_AT_STATUS(bt_layer_set_state(__VA_ARGS__))
/* The number of children; 0 for a poisoned layer. Child i, borrowed; NULL, and OUT_OF_RANGE in the error record: there is none. */
BT_API int bt_layer_child_count(const bt_layer *layer);
BT_API bt_layer *bt_layer_child(const bt_layer *layer, int i);
#define bt_layer_child(...) BTI_AT(bt_layer *, bt_layer_child(__VA_ARGS__))

/* --- layers of one's own in files ---------------------------------------------------------------------------------------- */

/* What a file says of a layer that bt_layer_new made. All of it is borrowed, for the time of the call. */
typedef struct bt_layer_record {
    size_t size;
    const char *name; /* of bt_layer_new, or of bt_lambda */
    const char *text; /* of bt_layer_new; NULL: none */
    int child_count;
    bt_layer *const *children;      /* already made */
    const char *const *child_names; /* "0", "1"... of a list */
    int value_count;
    const bt_named_value *values; /* its own parameters and states, tied ones too, as the file has them; in any order */
} bt_layer_record;
/* Makes a layer of its record: with parameters, states and children of the same names and shapes. Their values are set afterwards, so any will do. */
typedef bt_layer *bt_layer_maker(const bt_layer_record *record, void *data);
/* From now on bt_model_open makes layers of this name with `make`, as often as files have them. A second registration of a name replaces the first. Errors: INVALID_ARGUMENT
 * (NULL, or a name of a layer of berth/layers.h). Any thread. */
BT_API bt_status bt_layer_register(const char *name, bt_layer_maker *make, void *data);
#define bt_layer_register(...) BTI_AT_STATUS(bt_layer_register(__VA_ARGS__))
/* A name for a function of the program: layers that are made afterwards with it as their activation, and bt_lambda's, have the name in summaries and files, and files are opened with it. Otherwise
 * as bt_layer_register. */
BT_API bt_status bt_activation_register(const char *name, bt_activation *function);
#define bt_activation_register(...) BTI_AT_STATUS(bt_activation_register(__VA_ARGS__))
/* The value of that name; poisoned (NOT_FOUND, which lists the names) when there is none. */
BT_API bt_array *bt_record_value(const bt_layer_record *record, const char *name);
#define bt_record_value(...) BTI_AT(bt_array *, bt_record_value(__VA_ARGS__))

/* --- training or inference -------------------------------------------------------------------------------------------- */

typedef struct bti_training_guard {
    bool before;
} bti_training_guard;
BT_API bti_training_guard bti_training_begin(bool training);
BT_API void bti_training_end(bti_training_guard *guard);
/* `BT_TRAINING(true) { y = bt_apply(model, x); }`: layers work as in training inside (dropout drops, batch norm uses the batch's statistics and
 * updates its own). Of this thread; blocks nest, the innermost decides. bt_train_step and bt_fit are in such a block; everything else is inference. A
 * function (bt_function_new) has the mode in which its body was recorded. */
#define BT_TRAINING(on) BTI_BLOCK(training, bti_training_begin(on))
/* Whether this thread is in training: for layers of the program's own. */
BT_API bool bt_is_training(void);

/* States that were set inside of a block, as updates of a function. */
typedef struct bt_state_updates {
    bt_update *list; /* the caller's, with room for `capacity` */
    int capacity;
    int count; /* after the block: how many there are, also if there is no room for all (then OUT_OF_RANGE in the error record) */
} bt_state_updates;
typedef struct bti_state_updates_guard {
    bt_state_updates *updates;
    void *collected, *before;
} bti_state_updates_guard;
BT_API bti_state_updates_guard bti_state_updates_begin(bt_state_updates *updates);
BT_API void bti_state_updates_end(bti_state_updates_guard *guard);
/* `BT_STATE_UPDATES(&updates) { y = bt_apply(model, input); }`: states are not set inside, but listed for bt_function_new, so that each call of the function sets them.
 * If one cannot be set the count is -1, which bt_function_new refuses; the cause is in the error record.
 * Without it, a state that depends on a function's input cannot be set. The arrays of the list belong to the scope around the block. */
#define BT_STATE_UPDATES(updates) BTI_BLOCK(state_updates, bti_state_updates_begin(updates))

/* In a training step over several devices, or in exact mode, which compute a batch in parts: the mean of x over all parts, weighted by their rows; x
 * must have one shape in all of them, and be floating. Elsewhere x itself. Gradients flow through it. So a layer has statistics of the whole batch
 * (batch norm's are). In such a step what follows has no value before the step is recorded: reading it in the loss is FAILED_PRECONDITION. */
BT_API bt_array *bt_batch_mean(bt_array *x);
#define bt_batch_mean(...) BTI_AT(bt_array *, bt_batch_mean(__VA_ARGS__))

/* --- hooks ------------------------------------------------------------------------------------------------------------ */

/* Sees each output of a layer; an array that it returns takes the place of the output, NULL leaves it. */
typedef bt_array *bt_layer_hook_fn(bt_layer *layer, bt_array *output, void *data);
/* Sees the gradient of a parameter, summed over the batch, before the optimiser does; otherwise as bt_layer_hook_fn. `name`: "0.weight". */
typedef bt_array *bt_gradient_hook_fn(bt_layer *layer, const char *name, bt_array *gradient, void *data);
/* Calls fn with each output of the layer. A layer has one hook of a kind: fn takes the place of the one before, NULL takes it away. Copies of the
 * layer have it too. Not while another thread applies the layer. Errors: those of the layer. */
BT_API bt_status bt_layer_hook(bt_layer *layer, bt_layer_hook_fn *fn, void *data);
#define bt_layer_hook(...) BTI_AT_STATUS(bt_layer_hook(__VA_ARGS__))
/* Calls fn in each training step with the gradient of each parameter of the layer and of its children, on the device of each replica, where it must
 * do the same. A poisoned array that it returns fails the step. Otherwise as bt_layer_hook. */
BT_API bt_status bt_layer_gradient_hook(bt_layer *layer, bt_gradient_hook_fn *fn, void *data);
#define bt_layer_gradient_hook(...) BTI_AT_STATUS(bt_layer_gradient_hook(__VA_ARGS__))

/* --- layers and chains ------------------------------------------------------------------------------------------------- */

/* An additional owner, outside of all scopes; each bt_layer_retain needs one bt_layer_release. */
BT_API bt_layer *bt_layer_retain(bt_layer *layer);
#define bt_layer_retain(...) BTI_AT(bt_layer *, bt_layer_retain(__VA_ARGS__))
BT_API void bt_layer_release(bt_layer *layer); /* NULL is accepted */
#define bt_layer_release(...) BTI_AT_VOID(bt_layer_release(__VA_ARGS__))
/* BT_OK when it can be used; else its error, with the cause in the error record. */
BT_API bt_status bt_layer_status(const bt_layer *layer);
#define bt_layer_status(...) BTI_AT_STATUS(bt_layer_status(__VA_ARGS__))

/* layer(x). A poisoned layer gives a poisoned array. If x and the weights of a Dense layer are committed to different
 * devices, x is copied to the device of the layer, as the transfer policy (BT_TRANSFERS) allows; weights are never
 * moved. If a layer of a chain does not take what the layer before it gives, the error names both. */
BT_API bt_array *bt_apply(bt_layer *layer, bt_array *x);
#define bt_apply(...) BTI_AT(bt_array *, bt_apply(__VA_ARGS__))
/* The same with several inputs and outputs: `bt_apply_all(lstm, (bt_array *[]){x, h, c}, 3, (bt_array *[]){...}, 3)`. outputs[] are arrays of the
 * innermost scope, on errors poisoned. Layers of one function have one of each. */
BT_API bt_status bt_apply_all(bt_layer *layer, bt_array *const *inputs, int input_count, bt_array **outputs,
                              int output_count);
#define bt_apply_all(...) BTI_AT_STATUS(bt_apply_all(__VA_ARGS__))

/* --- the tree ------------------------------------------------------------------------------------------------------- */

/* The layer's parameters and those of its children, in order: "0.weight", "0.bias", "1.weight"... A parameter of a
 * layer that occurs several times is listed once, under its first position. Writes up to `capacity` of them (borrowed)
 * and returns how many there are. For a poisoned layer 0, with the cause in the error record. */
BT_API int bt_parameters(const bt_layer *layer, bt_shared **parameters, int capacity);
/* The states of the layer and of its children, which are not trained: "1.running_mean"... Otherwise as bt_parameters. */
BT_API int bt_states(const bt_layer *layer, bt_shared **states, int capacity);
/* The number of elements of all parameters. */
BT_API int64_t bt_parameter_count(const bt_layer *layer);

/* Freezes the parameters of the layer and of its children, or thaws them (Flux's freeze! and thaw!): a training step and bt_optimizer_step pass frozen
 * ones over, the optimiser's states of them too, and bt_train_step computes no gradients for them. A function keeps what held when its body was
 * recorded. bt_set changes a frozen variable as any other; copies of a tree are frozen as it is. bt_shared_freeze does it to one variable.
 * Errors: those of the layer or variable. */
BT_API bt_status bt_freeze(bt_layer *layer);
#define bt_freeze(...) BTI_AT_STATUS(bt_freeze(__VA_ARGS__))
BT_API bt_status bt_thaw(bt_layer *layer);
#define bt_thaw(...) BTI_AT_STATUS(bt_thaw(__VA_ARGS__))

/* A copy of the tree in which the value of every parameter and of every state (also those of integers: keys and counts) is replaced by fn(value). Functions and structure are shared
 * with `layer`; a layer that occurs several times is copied once (Flux's fmap). */
typedef bt_array *bt_map_fn(bt_array *value, void *data);
BT_API bt_layer *bt_fmap(bt_map_fn *fn, void *data, const bt_layer *layer);
#define bt_fmap(...) BTI_AT(bt_layer *, bt_fmap(__VA_ARGS__))
/* A copy of the tree on another device: every parameter and state is moved there. Without a GPU, bt_layer_gpu gives a copy on the
 * same device and is no error. */
BT_API bt_layer *bt_layer_to(const bt_layer *layer, const char *device);
#define bt_layer_to(layer, device) BTI_AT(bt_layer *, bt_layer_to(layer, BTI_DEVICE(device)))
BT_API bt_layer *bt_layer_gpu(const bt_layer *layer);
#define bt_layer_gpu(...) BTI_AT(bt_layer *, bt_layer_gpu(__VA_ARGS__))
BT_API bt_layer *bt_layer_cpu(const bt_layer *layer);
#define bt_layer_cpu(...) BTI_AT(bt_layer *, bt_layer_cpu(__VA_ARGS__))

/* "Chain(\n  Dense(10 => 5, sigmoid),      # 55 parameters\n ...", as Flux prints a model; ", plus 8" counts the state of layers with parameters.
 * A layer with children has lines for its own text (of Parallel and SkipConnection "+" or "concat", or "function" for one of the program's) and
 * for its own parameters. The caller owns the text: bt_free. */
BT_API char *bt_summary(const bt_layer *layer);
#define bt_summary(...) BTI_AT(char *, bt_summary(__VA_ARGS__))

/* --- moving several arrays ------------------------------------------------------------------------------------------ */

/* arrays[i] = bt_to(arrays[i], device) for each i. Without a GPU bt_gpu_all does nothing. */
BT_API void bt_to_all(bt_array **arrays, int count, const char *device);
#define bt_to_all(arrays, count, device) BTI_AT_VOID(bt_to_all(arrays, count, BTI_DEVICE(device)))
BT_API void bt_gpu_all(bt_array **arrays, int count);
#define bt_gpu_all(...) BTI_AT_VOID(bt_gpu_all(__VA_ARGS__))
BT_API void bt_cpu_all(bt_array **arrays, int count);
#define bt_cpu_all(...) BTI_AT_VOID(bt_cpu_all(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif

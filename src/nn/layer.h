/* A layer is a node of a tree. */
#ifndef BTI_NN_LAYER_H
#define BTI_NN_LAYER_H

#include <berth/layers.h>

#include "array/handle.h"
#include "base/str.h"

#define BTI_LAYER_DEPTH 200
#define BTI_OPTIONS_LOST (-1)

typedef struct bti_layer_variable {
    char *name;
    bt_shared *shared;
} bti_layer_variable;
typedef enum bti_variables { BTI_PARAMETERS, BTI_STATES, BTI_VARIABLES } bti_variables;

/* What a layer and its copies share. */
typedef struct bti_layer_data {
    atomic_uint refs;
    void *data;
    void (*free)(void *data); /* NULL: nothing to do */
} bti_layer_data;

/* How a built-in layer was made: names and values as text, enough to make it again. */
typedef struct bti_layer_option {
    const char *name; /* a literal */
    char *value;
} bti_layer_option;

struct bt_layer {
    bti_owned head;
    char *name; /* "Dense", "Chain", ... */
    char *text; /* behind the name in a summary; NULL: "()", "" for a function's name alone */
    bt_forward *forward;
    bt_forward_all *forward_all; /* one of both */
    bti_layer_data *data;
    bti_layer_variable *variables[BTI_VARIABLES]; /* its own */
    int variable_count[BTI_VARIABLES];
    bt_layer **children;
    char **child_names;
    int child_count;
    bti_layer_option *options;
    int option_count; /* BTI_OPTIONS_LOST: memory was short when they were noted; the layer works, but is not written to a file */
    int depth; /* levels below it; at most BTI_LAYER_DEPTH: walks over the tree recurse */
    bt_layer_hook_fn *hook;
    void *hook_data;
    bt_gradient_hook_fn *gradient_hook;
    void *gradient_hook_data;
};

/* A layer without anything, with one reference, the caller's; NULL when memory is short (in the error record). name, text: copied. */
bt_layer *bti_layer_bare(const char *name, const char *text, bt_forward *forward, bt_forward_all *forward_all);
/* Moves the caller's reference to the innermost scope; returns the layer. NULL: a layer poisoned by the thread's last error. */
bt_layer *bti_layer_own(bt_layer *layer);
/* Adds a variable, which is retained; a child. False: memory is short. */
bool bti_layer_add_variable(bt_layer *layer, bti_variables kind, const char *name, bt_shared *shared);
bool bti_layer_add_child(bt_layer *layer, const char *name, bt_layer *child);
/* Notes an option of a layer that was just made, unless it is poisoned; returns the layer. */
bt_layer *bti_layer_note(bt_layer *layer, const char *name, const char *format, ...) BT_PRINTF(3, 4);
/* The options of a layer, borrowed; how many. */
int bti_layer_options(const bt_layer *layer, const bti_layer_option **options);
/* "Dense(10 => 5, relu)": the head of its line in a summary. */
void bti_layer_add_text(bti_str *text, const bt_layer *layer);
/* ", pad=1" or ", pad=(1, 2)", by axis, at most 6 of them; nothing where all are `defaults`. A size of 0 is the default. */
void bti_layer_add_sizes(bti_str *text, const char *name, int axes, const int64_t *sizes, const int64_t *defaults);
extern const int64_t bti_all_zeros[6], bti_all_ones[6];
/* x given to child i, after child i - 1 gave it; errors name both. */
bt_array *bti_apply_child(bt_layer *layer, int i, bt_array *x);
/* What the gradient hooks of the layers above a parameter make of its gradient. */
bt_array *bti_hooked_gradient(bt_layer *model, const bt_shared *parameter, bt_array *gradient);
bool bti_has_gradient_hooks(const bt_layer *model);
bool bti_has_hooks(const bt_layer *model); /* of either kind */
/* Waits for the last values of all parameters and states. The failure of a step that set one of them, which is reported once. */
bt_status bti_layer_settle(const bt_layer *model);
/* The same of what is known to have failed by now (bti_shared_report). */
bt_status bti_layer_report(const bt_layer *model);

/* bt_fmap. `join` is asked of each two neighbours in a chain: true when *joined, with one reference, takes the place of both (NULL: it failed, with the cause in
 * the error record). */
typedef bool bti_layer_join(const bt_layer *first, const bt_layer *second, bt_layer **joined);
bt_layer *bti_layer_map(bt_map_fn *fn, void *data, bti_layer_join *join, const bt_layer *layer);

/* The devices of a model's input and, as far as its parameters tell, of its output. */
typedef struct bti_layer_ends {
    int first, last; /* devices of the first and the last parameter */
    bool several;    /* the parameters are on several devices */
    bool any;        /* it has parameters */
} bti_layer_ends;
bti_layer_ends bti_layer_ends_of(const bt_layer *layer);
/* The number of elements of all floating states. */
/* Lists the parameters that a step updates: those that are not frozen. `capacity`: at least bt_parameters; returns how many they are. */
int bti_thawed_parameters(const bt_layer *layer, bt_shared **parameters, int capacity);
int64_t bti_state_count(const bt_layer *layer);
/* bti_bring x to the device of another array. */
bt_array *bti_bring_beside(bt_array *x, const bt_array *beside);
/* bti_bring x to the device of the model's first parameter; returns x if there is none. */
bt_array *bti_bring_batch(bt_array *x, const bt_layer *model);

/* --- made again -------------------------------------------------------------------------------------------------------- */

/* A layer as a file describes it, not trusted. */
typedef struct bti_layer_plan {
    bt_layer_record record; /* its values are asked for only of registered layers */
    const bti_layer_option *options;
    int option_count;
    int64_t most_elements; /* of a variable: more cannot be in the file, and is refused before it is allocated */
} bti_layer_plan;
/* Whether berth/layers.h has a layer of that name; whether such a layer makes its children itself. */
bool bti_layer_is_known(const char *name);
bool bti_layer_makes_children(const char *name);
/* The layer, of the innermost scope, with weights of zero; poisoned: UNIMPLEMENTED for a name that nothing makes, INVALID_ARGUMENT for options that it lacks or that do not fit. */
bt_layer *bti_layer_again(const bti_layer_plan *plan);
/* Puts another variable in the place of one of the layer's, which nothing else uses yet. */
void bti_layer_set_variable(bt_layer *layer, bti_variables kind, int i, bt_shared *shared);
/* Gives each variable the name of its path, as bt_layer_new does. */
bt_status bti_layer_name_variables(bt_layer *layer);

/* --- for the families ------------------------------------------------------------------------------------------------- */

/* "relu" for bt_relu, ...; the name of a registered one; "function" for one that berth does not know; "" for NULL. */
const char *bti_activation_name(bt_activation *activation);
/* The other way: false for a name that nothing has. "": NULL. */
bool bti_activation_find(const char *name, bt_activation **activation);
/* Why a name cannot be registered: bt_activation_register, bt_layer_register. */
bt_status bti_check_registered(const char *name, bool has_function, bool taken);
/* ", relu", or "". */
const char *bti_activation_text(bt_activation *activation, char text[40]);
static inline bt_array *bti_activate(bt_activation *activation, bt_array *y) { return activation ? activation(y) : y; }
/* A copy of settings that bt_layer_new frees; NULL when memory is short: settings are not NULL where a layer needs them, bti_no_settings says so. */
void *bti_layer_settings(const void *settings, size_t bytes);
bt_layer *bti_no_settings(void);
/* Weights of a key: by `init`, or by `unless`. */
bt_array *bti_weight(bt_initializer *init, bt_initializer *unless, bt_array *key, bt_shape shape);
/* A positive size of a layer, else an error that names it. */
bt_status bti_check_positive(int64_t size, const char *name);
/* An input on another device than a committed weight is moved to the weight: weights stay where they were put. */
bt_array *bti_bring_to_weight(bt_layer *layer, bt_array *x);
/* y + bias; in an autocast block in the dtype of y. */
bt_array *bti_add_bias(bt_array *y, bt_array *bias);
/* For messages: "float32 (2, 3)". */
typedef struct bti_array_words {
    char text[300];
} bti_array_words;
bti_array_words bti_describe_array(const bt_array *x);

#endif

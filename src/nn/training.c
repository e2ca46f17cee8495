/* Training or inference, states, and the parts of a batch. */
#include "nn/training.h"

#include "array/place.h"
#include "base/error.h"
#include "base/str.h"
#include "function/function.h"
#include "function/shared.h"
#include "ops/primitive.h"

static _Thread_local bool training_mode;

bti_training_guard bti_training_begin(bool training) {
    bti_training_guard guard = {.before = training_mode};
    training_mode = training;
    return guard;
}
void bti_training_end(bti_training_guard *guard) { training_mode = guard->before; }
bool bt_is_training(void) { return training_mode; }

/* --- states that are collected ------------------------------------------------------------------------------------------ */

static _Thread_local bti_states *collected_states;

bti_states *bti_states_collect(bti_states *states) {
    bti_states *before = collected_states;
    collected_states = states;
    return before;
}

bool bti_states_are_collected(void) { return collected_states; }

void bti_states_free(bti_states *states) {
    for (size_t i = 0; i < states->shared.count; i++) bt_shared_release(states->shared.items[i]);
    for (size_t i = 0; i < states->values.count; i++) bti_node_release(states->values.items[i]);
    bti_vec_free(&states->shared);
    bti_vec_free(&states->values);
    bti_error_release(states->error);
    states->error = NULL;
}

static bti_node **collected_value(const bt_shared *shared) {
    for (size_t i = 0; collected_states && i < collected_states->shared.count; i++)
        if (collected_states->shared.items[i] == shared) return &collected_states->values.items[i];
    return NULL;
}

static bt_status collect_state(bt_shared *shared, bt_array *value) {
    BTI_TRY(bti_shared_check(shared, value));
    value = bt_cast(value, bt_dtype_of(bt_value(shared))); /* a number without a dtype */
    BTI_TRY(bti_fail_with(bti_array_error(value)));
    bti_node **there = collected_value(shared), *node = bti_node_retain(bti_node_of(value));
    if (there) {
        bti_node_release(*there);
        *there = node;
        return BT_OK;
    }
    if (bti_vec_reserve(&collected_states->shared, 1) && bti_vec_push(&collected_states->values, node)) {
        collected_states->shared.items[collected_states->shared.count++] = bt_shared_retain(shared);
        return BT_OK;
    }
    bti_node_release(node);
    return bti_no_memory();
}

bti_state_updates_guard bti_state_updates_begin(bt_state_updates *updates) {
    bti_states *states = bti_calloc(1, sizeof *states);
    bti_state_updates_guard guard = {updates, states, collected_states};
    if (states) collected_states = states;
    if (!states) (void)!bti_no_memory();
    return guard;
}

void bti_state_updates_end(bti_state_updates_guard *guard) {
    BTI_CALL("BT_STATE_UPDATES");
    bti_states *states = guard->collected;
    bt_state_updates *updates = guard->updates;
    collected_states = guard->before;
    if (!states) return;
    if (updates) updates->count = states->error ? -1 : (int)states->shared.count;
    if (states->error)
        (void)!bti_fail_with(states->error);
    else if (!updates)
        (void)!bti_fail(BT_INVALID_ARGUMENT, "the updates are NULL");
    else if (updates->count > updates->capacity || (updates->count && !updates->list))
        (void)!bti_fail(BT_OUT_OF_RANGE, "%d states were set, the list has room for %d", updates->count,
                        updates->list ? updates->capacity : 0);
    for (size_t i = 0; updates && updates->list && i < states->shared.count && (int)i < updates->capacity; i++)
        updates->list[i] = (bt_update){states->shared.items[i], bti_array_on(states->values.items[i])};
    bti_states_free(states);
    bti_free(states);
}

/* --- variables by name -------------------------------------------------------------------------------------------------- */

static bt_shared *no_variable(const bt_layer *layer, bti_variables kind, const char *name) {
    const char *what = kind == BTI_STATES ? "state" : "parameter";
    bti_str names = {0};
    for (int i = 0; i < layer->variable_count[kind]; i++)
        bti_str_addf(&names, "%s\"%s\"", i ? ", " : "", layer->variables[kind][i].name);
    const char *has = names.length ? bti_str_text(&names) : "none";
    if (name)
        (void)!bti_fail(BT_NOT_FOUND, "layer %s has no %s \"%s\"; it has %s", layer->name, what, name, has);
    else
        (void)!bti_fail(BT_INVALID_ARGUMENT, "the name is NULL; layer %s has %s", layer->name, has);
    bti_str_free(&names);
    return NULL;
}

/* NULL, with the cause in the error record: there is none. */
static bt_shared *find_variable(const bt_layer *layer, bti_variables kind, const char *name) {
    for (int i = 0; i < layer->variable_count[kind] && name; i++)
        if (!strcmp(layer->variables[kind][i].name, name)) return layer->variables[kind][i].shared;
    return no_variable(layer, kind, name);
}

bt_array *bt_layer_parameter(bt_layer *layer, const char *name) {
    BTI_CALL("bt_layer_parameter");
    if (bti_handle_check(BTI_OWNED_LAYER, layer, "bt_layer_parameter") != BT_OK) return bti_poison(bti_error_last());
    bt_shared *shared = find_variable(layer, BTI_PARAMETERS, name);
    return shared ? bt_value(shared) : bti_poison(bti_error_last());
}

bt_array *bt_layer_state(bt_layer *layer, const char *name) {
    BTI_CALL("bt_layer_state");
    if (bti_handle_check(BTI_OWNED_LAYER, layer, "bt_layer_state") != BT_OK) return bti_poison(bti_error_last());
    bt_shared *shared = find_variable(layer, BTI_STATES, name);
    if (!shared) return bti_poison(bti_error_last());
    bti_node **there = collected_value(shared);
    return there ? bti_array_on(*there) : bt_value(shared);
}

static bool depends_on_inputs(const bt_array *value) {
    return value && !bti_array_error(value) && bti_node_of(value)->symbolic;
}

static bt_status set_state(bt_layer *layer, const char *name, bt_array *value) {
    BTI_TRY(bti_handle_check(BTI_OWNED_LAYER, layer, "bt_layer_set_state"));
    bt_shared *shared = find_variable(layer, BTI_STATES, name);
    if (!shared) return bt_error_status();
    if (!value) return bti_fail(BT_INVALID_ARGUMENT, "the value of state \"%s\" is NULL", name);
    if (collected_states) return collect_state(shared, value);
    if (depends_on_inputs(value))
        return bti_fail(
            BT_FAILED_PRECONDITION,
            "the value of state \"%s\" of layer %s depends on a function's input, or on what a loop or a branch is "
            "given; record the function's body in a BT_STATE_UPDATES block and list its updates",
            name, layer->name);
    return bt_set(shared, value);
}

bt_status bt_layer_set_state(bt_layer *layer, const char *name, bt_array *value) {
    BTI_CALL("bt_layer_set_state");
    bt_status status = set_state(layer, name, value);
    if (status != BT_OK && collected_states && !collected_states->error) collected_states->error = bti_error_last();
    return status;
}

/* --- parts of a batch --------------------------------------------------------------------------------------------------- */

static _Thread_local const bti_batch_part *part_now;

const bti_batch_part *bti_part_set(const bti_batch_part *part) {
    const bti_batch_part *before = part_now;
    part_now = part;
    return before;
}
const bti_batch_part *bti_part_now(void) { return part_now; }

void bti_means_free(bti_means *means) {
    for (size_t i = 0; i < means->own.count; i++) bti_node_release(means->own.items[i]);
    for (size_t i = 0; i < means->inputs.count; i++) bti_node_release(means->inputs.items[i]);
    bti_vec_free(&means->own);
    bti_vec_free(&means->inputs);
}

/* An input of x's dtype and shape on its device. */
static bt_array *input_like(const bt_array *x) {
    const bti_node *node = bti_node_of(x);
    bti_placement placement = {
        .device = node->device, .committed = atomic_load(&node->committed), .rule = (bti_rule)node->rule};
    return bti_input_on(placement, (bt_dtype)node->dtype, node->rank, node->shape);
}

bt_array *bt_batch_mean(bt_array *x) {
    BTI_PUBLIC("bt_batch_mean");
    if (bti_array_error(x)) BTI_RETURN(bti_poisoned_by(&x, 1));
    if (!bti_dtype_is_float(bt_dtype_of(x)))
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "x is %s; means are of floats", bt_dtype_name(bt_dtype_of(x))));
    if (!part_now || !part_now->means) BTI_RETURN(bt_identity(x));
    double weight = (double)part_now->rows / (double)part_now->all_rows;
    bt_array *own = bt_cast(bt_mul(x, bt_num(weight)), bt_dtype_of(x));
    if (bti_array_error(own)) BTI_RETURN(bti_poisoned_by(&own, 1));
    bt_array *sum = input_like(own);
    bti_means *means = part_now->means;
    if (bti_array_error(sum) || !bti_vec_reserve(&means->own, 1) || !bti_vec_reserve(&means->inputs, 1))
        BTI_RETURN(bti_array_new(NULL));
    means->own.items[means->own.count++] = bti_node_retain(bti_node_of(own));
    means->inputs.items[means->inputs.count++] = bti_node_retain(bti_node_of(sum));
    BTI_RETURN(sum);
}

/* Walks over the tree of layers: its variables, its devices, copies of it. */
#include <stdio.h>
#include <string.h>

#include "array/move.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/vec.h"
#include "function/shared.h"
#include "ir/dtype.h"
#include "nn/layer.h"

/* --- parameters and states -------------------------------------------------------------------------------------------------- */

typedef struct variable_walk {
    bti_variables kind;
    const bt_layer *root;
    int steps;         /* variables visited; those of a layer that is used several times count each time */
    bt_shared **found; /* room for `capacity` of them */
    int capacity, count;
    int64_t numbers;
} variable_walk;

/* Whether it is one of the first *steps variables of the tree. */
static bool is_repeated(const bt_layer *layer, bti_variables kind, const bt_shared *shared, int *steps) {
    for (int i = 0; i < layer->variable_count[kind]; i++)
        if ((*steps)-- > 0 && layer->variables[kind][i].shared == shared) return true;
    for (int i = 0; i<layer->child_count && * steps> 0; i++)
        if (is_repeated(layer->children[i], kind, shared, steps)) return true;
    return false;
}

/* Numbers of examples and keys are no numbers of a model. */
static int64_t counted(bti_variables kind, bt_array *value) {
    return kind == BTI_PARAMETERS || bti_dtype_is_float(bt_dtype_of(value)) ? bt_count(value) : 0;
}

/* Lists each variable once, at its first place in the tree. */
static void walk_variables(const bt_layer *layer, variable_walk *walk) {
    for (int i = 0; i < layer->variable_count[walk->kind]; i++) {
        bt_shared *shared = layer->variables[walk->kind][i].shared;
        int steps = walk->steps++;
        if (is_repeated(walk->root, walk->kind, shared, &steps)) continue;
        if (walk->count < walk->capacity) walk->found[walk->count] = shared;
        walk->count++;
        BT_SCOPE
            walk->numbers += counted(walk->kind, bt_value(shared));
    }
    for (int i = 0; i < layer->child_count; i++) walk_variables(layer->children[i], walk);
}

/* name: of the public call. */
static int list_variables(const bt_layer *layer, variable_walk *walk, const char *name) {
    walk->root = layer;
    if (!walk->found && walk->capacity > 0) {
        (void)!bti_fail(BT_INVALID_ARGUMENT, "%s: the list for %d %s is NULL", name, walk->capacity,
                        walk->kind == BTI_STATES ? "states" : "parameters");
        walk->capacity = 0;
    }
    if (bti_handle_check(BTI_OWNED_LAYER, layer, name) == BT_OK) walk_variables(layer, walk);
    return walk->count;
}

int bt_parameters(const bt_layer *layer, bt_shared **parameters, int capacity) {
    variable_walk walk = {.kind = BTI_PARAMETERS, .found = parameters, .capacity = capacity};
    return list_variables(layer, &walk, "bt_parameters");
}

int bt_states(const bt_layer *layer, bt_shared **states, int capacity) {
    variable_walk walk = {.kind = BTI_STATES, .found = states, .capacity = capacity};
    return list_variables(layer, &walk, "bt_states");
}

int bti_thawed_parameters(const bt_layer *layer, bt_shared **parameters, int capacity) {
    int all = bt_parameters(layer, parameters, capacity), thawed = 0;
    for (int p = 0; p < all; p++)
        if (!bt_shared_is_frozen(parameters[p])) parameters[thawed++] = parameters[p];
    return thawed;
}

int64_t bt_parameter_count(const bt_layer *layer) {
    variable_walk walk = {.kind = BTI_PARAMETERS};
    (void)list_variables(layer, &walk, "bt_parameter_count");
    return walk.numbers;
}

int64_t bti_state_count(const bt_layer *layer) {
    variable_walk walk = {.kind = BTI_STATES};
    (void)list_variables(layer, &walk, "bt_states");
    return walk.numbers;
}

/* Of parameters and states, to the first that fails. */
static bt_status each_variable(const bt_layer *layer, bt_status (*what)(bt_shared *shared)) {
    for (bti_variables kind = BTI_PARAMETERS; kind <= BTI_STATES; kind++)
        for (int i = 0; i < layer->variable_count[kind]; i++) BTI_TRY(what(layer->variables[kind][i].shared));
    for (int i = 0; i < layer->child_count; i++) BTI_TRY(each_variable(layer->children[i], what));
    return BT_OK;
}

bt_status bti_layer_settle(const bt_layer *layer) { return each_variable(layer, bti_shared_settle); }
bt_status bti_layer_report(const bt_layer *layer) { return each_variable(layer, bti_shared_report); }

/* --- freezing --------------------------------------------------------------------------------------------------------- */

static bt_status freeze_all(bt_layer *layer, const char *name, bool frozen) {
    BTI_TRY(bti_handle_check(BTI_OWNED_LAYER, layer, name));
    for (int i = 0; i < layer->variable_count[BTI_PARAMETERS]; i++)
        BTI_TRY(bt_shared_freeze(layer->variables[BTI_PARAMETERS][i].shared, frozen));
    for (int i = 0; i < layer->child_count; i++) BTI_TRY(freeze_all(layer->children[i], name, frozen));
    return BT_OK;
}

bt_status bt_freeze(bt_layer *layer) { return freeze_all(layer, "bt_freeze", true); }
bt_status bt_thaw(bt_layer *layer) { return freeze_all(layer, "bt_thaw", false); }

/* --- mapping ---------------------------------------------------------------------------------------------------------- */

typedef struct mapping {
    bt_map_fn *fn;
    void *data;
    BTI_VEC(const bt_layer *) from; /* mapped so far: a layer that is used several times becomes one */
    BTI_VEC(bt_layer *) to;
    BTI_VEC(bt_shared *) variables; /* so is a variable: each is followed by its copy, retained */
    bti_layer_join *join;           /* NULL: none */
} mapping;

static bt_shared *mapped_variable(const mapping *m, const bt_shared *shared) {
    for (size_t i = 0; i < m->variables.count; i += 2)
        if (m->variables.items[i] == shared) return m->variables.items[i + 1];
    return NULL;
}

/* The variable's copy, borrowed; NULL, with the cause in the error record. */
static bt_shared *map_variable(mapping *m, bt_shared *from) {
    bt_shared *to = mapped_variable(m, from);
    if (to) return to;
    if (!bti_vec_reserve(&m->variables, 2)) return (void)bti_no_memory(), NULL;
    BT_SCOPE
        to = bt_shared_retain(bt_shared_new(m->fn(bt_value(from), m->data), NULL));
    bool made = bt_shared_status(to) == BT_OK;
    m->variables.items[m->variables.count++] = from;
    m->variables.items[m->variables.count++] = to;
    if (!made) return NULL;
    bt_shared_set_name(to, bt_shared_name(from));
    if (strcmp(bt_shared_name(to), bt_shared_name(from))) return (void)bti_no_memory(), NULL;
    if (bt_shared_is_frozen(from)) (void)bt_shared_freeze(to, true);
    return to;
}

static bool map_variables(mapping *m, const bt_layer *from, bt_layer *to) {
    for (int kind = 0; kind < BTI_VARIABLES; kind++)
        for (int i = 0; i < from->variable_count[kind]; i++) {
            const bti_layer_variable *variable = &from->variables[kind][i];
            bt_shared *copy = map_variable(m, variable->shared);
            if (!copy || !bti_layer_add_variable(to, (bti_variables)kind, variable->name, copy)) return false;
        }
    return true;
}

static void share_settings(const bt_layer *from, bt_layer *to) {
    atomic_fetch_add(&from->data->refs, 1);
    to->data = from->data;
    to->depth = from->depth;
    to->hook = from->hook;
    to->hook_data = from->hook_data;
    to->gradient_hook = from->gradient_hook;
    to->gradient_hook_data = from->gradient_hook_data;
    if (from->option_count == BTI_OPTIONS_LOST) to->option_count = BTI_OPTIONS_LOST;
    for (int i = 0; i < from->option_count; i++)
        (void)bti_layer_note(to, from->options[i].name, "%s", from->options[i].value);
}

static bt_layer *map_tree(mapping *m, const bt_layer *layer);

/* Of a chain, two that can be joined become one, and those behind move up. */
static bool map_children(mapping *m, const bt_layer *layer, bt_layer *copy) {
    bool joins = m->join && !strcmp(layer->name, "Chain");
    for (int i = 0; i < layer->child_count; i++) {
        char place[16];
        bt_layer *child = NULL;
        bool joined =
            joins && i + 1 < layer->child_count && m->join(layer->children[i], layer->children[i + 1], &child);
        if (!joined) child = map_tree(m, layer->children[i]);
        snprintf(place, sizeof place, "%d", copy->child_count);
        bool added = child && bti_layer_add_child(copy, joins ? place : layer->child_names[i], child);
        if (child) bt_layer_release(child);
        if (!added) return false;
        i += joined;
    }
    return true;
}

/* A copy of the tree, with one reference, the caller's. */
static bt_layer *map_tree(mapping *m, const bt_layer *layer) {
    for (size_t i = 0; i < m->to.count; i++)
        if (m->from.items[i] == layer) return bt_layer_retain(m->to.items[i]);
    bt_layer *copy = bti_layer_bare(layer->name, layer->text, layer->forward, layer->forward_all);
    if (!copy) return NULL;
    share_settings(layer, copy);
    bool whole = map_variables(m, layer, copy);
    whole = whole && map_children(m, layer, copy);
    if (whole && bti_vec_push(&m->from, layer) && bti_vec_push(&m->to, copy)) return copy;
    bt_layer_release(copy);
    if (whole) (void)bti_no_memory();
    return NULL;
}

bt_layer *bt_fmap(bt_map_fn *fn, void *data, const bt_layer *layer) {
    bt_status status = bti_handle_check(BTI_OWNED_LAYER, layer, "bt_fmap");
    if (status == BT_OK && !fn) status = bti_fail(BT_INVALID_ARGUMENT, "bt_fmap: the function is NULL");
    return status == BT_OK ? bti_layer_map(fn, data, NULL, layer) : bti_layer_own(NULL);
}

bt_layer *bti_layer_map(bt_map_fn *fn, void *data, bti_layer_join *join, const bt_layer *layer) {
    mapping m = {.fn = fn, .data = data, .join = join};
    bt_layer *copy = map_tree(&m, layer);
    for (size_t i = 1; i < m.variables.count; i += 2) bt_shared_release(m.variables.items[i]);
    bti_vec_free(&m.variables);
    bti_vec_free(&m.from);
    bti_vec_free(&m.to);
    return bti_layer_own(copy);
}

/* --- batches to the model ------------------------------------------------------------------------------------------------- */

static void find_parameter_ends(const bt_layer *layer, bti_layer_ends *ends) {
    for (int i = 0; i < layer->variable_count[BTI_PARAMETERS]; i++) {
        int device = bti_shared_device(layer->variables[BTI_PARAMETERS][i].shared);
        ends->several = ends->several || (ends->any && device != ends->last);
        if (!ends->any) ends->first = device;
        ends->last = device;
        ends->any = true;
    }
    for (int i = 0; i < layer->child_count; i++) find_parameter_ends(layer->children[i], ends);
}

bti_layer_ends bti_layer_ends_of(const bt_layer *layer) {
    bti_layer_ends ends = {0};
    if (layer) find_parameter_ends(layer, &ends);
    return ends;
}

bt_array *bti_bring_beside(bt_array *x, const bt_array *beside) {
    return bti_array_error(beside) ? x : bti_bring(x, bti_node_of(beside)->device);
}

bt_array *bti_bring_batch(bt_array *x, const bt_layer *model) {
    bti_layer_ends ends = bti_layer_ends_of(model);
    return ends.any ? bti_bring(x, ends.first) : x;
}

/* --- moving ----------------------------------------------------------------------------------------------------------------- */

static bt_array *move_to_device(bt_array *value, void *device) { return bt_to(value, device); }
static bt_array *move_value_to_gpu(bt_array *value, void *unused) {
    (void)unused;
    return bt_gpu(value);
}
static bt_array *move_value_to_cpu(bt_array *value, void *unused) {
    (void)unused;
    return bt_cpu(value);
}

bt_layer *bt_layer_to(const bt_layer *layer, const char *device) {
    BTI_CALL("bt_layer_to");
    return bt_fmap(move_to_device, (void *)(uintptr_t)device, layer);
}

bt_layer *bt_layer_gpu(const bt_layer *layer) {
    BTI_CALL("bt_layer_gpu");
    return bt_fmap(move_value_to_gpu, NULL, layer);
}

bt_layer *bt_layer_cpu(const bt_layer *layer) {
    BTI_CALL("bt_layer_cpu");
    return bt_fmap(move_value_to_cpu, NULL, layer);
}

void bt_to_all(bt_array **arrays, int count, const char *device) {
    BTI_CALL("bt_to_all");
    if (bti_check_list(arrays, count, "arrays") != BT_OK) return;
    for (int i = 0; i < count; i++) arrays[i] = bt_to(arrays[i], device);
}
void bt_gpu_all(bt_array **arrays, int count) {
    BTI_CALL("bt_gpu_all");
    if (bti_check_list(arrays, count, "arrays") != BT_OK) return;
    for (int i = 0; i < count; i++) arrays[i] = bt_gpu(arrays[i]);
}
void bt_cpu_all(bt_array **arrays, int count) {
    BTI_CALL("bt_cpu_all");
    if (bti_check_list(arrays, count, "arrays") != BT_OK) return;
    for (int i = 0; i < count; i++) arrays[i] = bt_cpu(arrays[i]);
}

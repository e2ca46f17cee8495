/* Walks over the tree of layers: its parameters, its devices, copies of it, and its summary. */
#include <string.h>

#include "array/move.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/str.h"
#include "base/vec.h"
#include "function/shared.h"
#include "nn/layer.h"

/* --- parameters ------------------------------------------------------------------------------------------------------- */

typedef struct parameter_walk {
    const bt_layer *root;
    int steps;              /* parameters visited; those of a layer that is used several times count each time */
    bt_shared **parameters; /* room for `capacity` of them */
    int capacity, count;
    int64_t numbers;
} parameter_walk;

/* Whether it is one of the first *steps parameters of the tree. */
static bool is_repeated(const bt_layer *layer, const bt_shared *parameter, int *steps) {
    for (int i = 0; i < BTI_LAYER_PARAMETERS; i++)
        if (layer->own[i] && (*steps)-- > 0 && layer->own[i] == parameter) return true;
    for (int i = 0; i<layer->child_count && * steps> 0; i++)
        if (is_repeated(layer->children[i], parameter, steps)) return true;
    return false;
}

/* Lists each parameter once, at its first place in the tree. */
static void walk_parameters(const bt_layer *layer, parameter_walk *walk) {
    for (int i = 0; i < BTI_LAYER_PARAMETERS; i++) {
        if (!layer->own[i]) continue;
        int steps = walk->steps++;
        if (is_repeated(walk->root, layer->own[i], &steps)) continue;
        if (walk->count < walk->capacity) walk->parameters[walk->count] = layer->own[i];
        walk->count++;
        BT_SCOPE
            walk->numbers += bt_count(bt_value(layer->own[i]));
    }
    for (int i = 0; i < layer->child_count; i++) walk_parameters(layer->children[i], walk);
}

int bt_parameters(const bt_layer *layer, bt_shared **parameters, int capacity) {
    parameter_walk walk = {.root = layer, .parameters = parameters, .capacity = parameters ? capacity : 0};
    if (!parameters && capacity > 0)
        (void)!bti_fail(BT_INVALID_ARGUMENT, "bt_parameters: the list for %d parameters is NULL", capacity);
    if (bti_handle_check(BTI_OWNED_LAYER, layer, "bt_parameters") == BT_OK) walk_parameters(layer, &walk);
    return walk.count;
}

int64_t bt_parameter_count(const bt_layer *layer) {
    parameter_walk walk = {.root = layer};
    if (bti_handle_check(BTI_OWNED_LAYER, layer, "bt_parameter_count") == BT_OK) walk_parameters(layer, &walk);
    return walk.numbers;
}

/* --- freezing --------------------------------------------------------------------------------------------------------- */

static bt_status freeze_all(bt_layer *layer, const char *name, bool frozen) {
    BTI_TRY(bti_handle_check(BTI_OWNED_LAYER, layer, name));
    for (int i = 0; i < BTI_LAYER_PARAMETERS; i++)
        if (layer->own[i]) BTI_TRY(bt_shared_freeze(layer->own[i], frozen));
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
} mapping;

static bool map_parameters(mapping *m, const bt_layer *from, bt_layer *to) {
    for (int i = 0; i < BTI_LAYER_PARAMETERS; i++) {
        if (!from->own[i]) continue;
        BT_SCOPE
            to->own[i] = bt_shared_retain(bt_shared_new(m->fn(bt_value(from->own[i]), m->data), NULL));
        if (bt_shared_status(to->own[i]) != BT_OK) return false;
        bt_shared_set_name(to->own[i], bt_shared_name(from->own[i]));
        if (bt_shared_is_frozen(from->own[i])) (void)bt_shared_freeze(to->own[i], true);
    }
    return true;
}

/* A copy of the tree, with one reference, the caller's. */
static bt_layer *map_tree(mapping *m, const bt_layer *layer) {
    for (size_t i = 0; i < m->to.count; i++)
        if (m->from.items[i] == layer) return bt_layer_retain(m->to.items[i]);
    bt_layer *copy = bti_layer_new(layer->kind, layer->apply);
    if (!copy) return NULL;
    copy->activation = layer->activation;
    copy->depth = layer->depth;
    memcpy(copy->own_names, layer->own_names, sizeof copy->own_names);
    bool whole = (!layer->name || (copy->name = bti_strdup(layer->name))) && map_parameters(m, layer, copy);
    if (whole && layer->child_count)
        whole = (copy->children = bti_calloc((size_t)layer->child_count, sizeof *copy->children));
    for (int i = 0; i < layer->child_count && whole; i++) {
        copy->children[i] = map_tree(m, layer->children[i]);
        whole = copy->children[i];
        copy->child_count += whole;
    }
    if (whole && bti_vec_push(&m->from, layer) && bti_vec_push(&m->to, copy)) return copy;
    bt_layer_release(copy);
    if (whole) (void)bti_no_memory();
    return NULL;
}

bt_layer *bt_fmap(bt_map_fn *fn, void *data, const bt_layer *layer) {
    bt_status status = bti_handle_check(BTI_OWNED_LAYER, layer, "bt_fmap");
    if (status == BT_OK && !fn) status = bti_fail(BT_INVALID_ARGUMENT, "bt_fmap: the function is NULL");
    if (status != BT_OK) return bti_layer_own(NULL);
    mapping m = {.fn = fn, .data = data};
    bt_layer *copy = map_tree(&m, layer);
    bti_vec_free(&m.from);
    bti_vec_free(&m.to);
    return bti_layer_own(copy);
}

/* --- batches to the model ------------------------------------------------------------------------------------------------- */

static void find_parameter_ends(const bt_layer *layer, bti_layer_ends *ends) {
    for (int i = 0; i < BTI_LAYER_PARAMETERS; i++) {
        if (!layer->own[i]) continue;
        int device = bti_shared_device(layer->own[i]);
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

/* --- summary, as Flux prints a model ------------------------------------------------------------------------------------- */

static void add_leaf(bti_str *text, const bt_layer *layer) {
    if (layer->own[0] && layer->own_names[0]) {
        BT_SCOPE {
            bt_array *weight = bt_value(layer->own[0]);
            bti_str_addf(text, "%s(%lld => %lld", layer->kind, (long long)bt_size(weight, 0),
                         (long long)bt_size(weight, 1));
        }
        if (layer->activation) bti_str_addf(text, ", %s", bti_activation_name(layer->activation));
        bti_str_add(text, ")");
    } else if (layer->activation)
        bti_str_add(text, layer->name ? layer->name : bti_activation_name(layer->activation));
    else
        bti_str_addf(text, "%s()", layer->kind);
}

static void add_count_comment(bti_str *text, size_t line_start, int64_t count, const char *what) {
    do bti_str_add(text, " ");
    while (text->length - line_start < 32);
    bti_str_addf(text, "# %lld %s", (long long)count, what);
}

static void add_layer_lines(bti_str *text, const bt_layer *layer, int depth, const char *end) {
    size_t line = text->length;
    for (int i = 0; i < depth; i++) bti_str_add(text, "  ");
    if (!layer->child_count) {
        add_leaf(text, layer);
        bti_str_add(text, end);
        int64_t count = bt_parameter_count(layer);
        if (count) add_count_comment(text, line, count, "parameters");
        bti_str_add(text, "\n");
        return;
    }
    bti_str_addf(text, "%s(\n", layer->kind);
    for (int i = 0; i < layer->child_count; i++) add_layer_lines(text, layer->children[i], depth + 1, ",");
    line = text->length;
    for (int i = 0; i < depth; i++) bti_str_add(text, "  ");
    bti_str_addf(text, ")%s", end);
    if (depth == 0) add_count_comment(text, line, bt_parameter_count(layer), "parameters in all");
    bti_str_add(text, "\n");
}

char *bt_summary(const bt_layer *layer) {
    if (bti_handle_check(BTI_OWNED_LAYER, layer, "bt_summary") != BT_OK) return NULL;
    bti_str text = {0};
    add_layer_lines(&text, layer, 0, "");
    char *taken = bti_str_take(&text);
    if (!taken) (void)!bti_no_memory();
    return taken;
}

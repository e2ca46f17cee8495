/* Trees and tuples on other devices. */
#include "array/move.h"
#include "base/error.h"
#include "function/shared.h"
#include "nn/layer.h"

/* --- batches to the model ------------------------------------------------------------------------------------------------- */

static void find_ends(const bt_layer *layer, bti_layer_ends *ends) {
    for (int i = 0; i < BTI_LAYER_PARAMETERS; i++) {
        if (!layer->own[i]) continue;
        int device = bti_shared_device(layer->own[i]);
        ends->several = ends->several || (ends->any && device != ends->last);
        if (!ends->any) ends->first = device;
        ends->last = device;
        ends->any = true;
    }
    for (int i = 0; i < layer->child_count; i++) find_ends(layer->children[i], ends);
}

bti_layer_ends bti_layer_ends_of(const bt_layer *layer) {
    bti_layer_ends ends = {0};
    if (layer) find_ends(layer, &ends);
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

static bt_array *move_to(bt_array *value, void *device) { return bt_to(value, device); }
static bt_array *move_to_gpu(bt_array *value, void *unused) {
    (void)unused;
    return bt_gpu(value);
}
static bt_array *move_to_cpu(bt_array *value, void *unused) {
    (void)unused;
    return bt_cpu(value);
}

bt_layer *bt_layer_to(const bt_layer *layer, const char *device) {
    BTI_CALL("bt_layer_to");
    return bt_fmap(move_to, (void *)(uintptr_t)device, layer);
}

bt_layer *bt_layer_gpu(const bt_layer *layer) {
    BTI_CALL("bt_layer_gpu");
    return bt_fmap(move_to_gpu, NULL, layer);
}

bt_layer *bt_layer_cpu(const bt_layer *layer) {
    BTI_CALL("bt_layer_cpu");
    return bt_fmap(move_to_cpu, NULL, layer);
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

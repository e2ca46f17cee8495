/* Moving arrays between devices. */
#include "array/move.h"

#include "array/eval.h"
#include "array/place.h"
#include "device/device.h"
#include "exec/exec.h"

static bti_node *record_on_device(bti_op op, bt_dtype dtype, int device, bti_node *input) {
    bti_node *node = bti_node_new(op, dtype, input->rank, input->shape, 1, &input, NULL);
    if (!node) return NULL;
    bool committed = op == BTI_OP_copy || atomic_load(&input->committed);
    bti_place_node(node, (bti_placement){device, committed, BTI_RULE_DEFAULT});
    node->place = bti_call_place();
    return node;
}

bti_node *bti_node_fit(bti_node *node, bt_dtype dtype, int device) {
    bool same = node->dtype == dtype && !node->weak;
    bti_node *cast = same ? bti_node_retain(node) : record_on_device(BTI_OP_cast, dtype, node->device, node);
    if (!cast || cast->device == device) return cast;
    bti_node *there = record_on_device(BTI_OP_copy, dtype, device, cast);
    bti_node_release(cast);
    return there;
}

bt_array *bti_move(bt_array *x, int device, bool softened) {
    if (bti_array_error(x)) return bti_poisoned_by(&x, 1);
    bti_node *from = bti_node_of(x);
    bool here = from->device == device;
    if (here && atomic_load(&from->committed)) return x;
    bti_op op = here ? BTI_OP_reshape : BTI_OP_copy; /* a view: x itself stays uncommitted */
    bti_node *node = bti_node_new(op, (bt_dtype)from->dtype, from->rank, from->shape, 1, &from, NULL);
    if (!node) return bti_array_new(NULL);
    if (here && atomic_load(&from->state) == BTI_DONE) {
        node->buffer = bti_buffer_retain(from->buffer);
        node->layout = from->layout;
        atomic_store(&node->state, BTI_DONE);
    }
    bti_place_node(node, (bti_placement){device, true, softened ? BTI_RULE_SOFT : BTI_RULE_EXPLICIT});
    node->place = bti_call_place(); /* not that of a gradient's operation */
    node->weak = from->weak;
    node->symbolic = from->symbolic;
    bti_eval_recorded(node);
    return bti_array_new(node);
}

bt_array *bti_bring(bt_array *x, int device) {
    if (bti_array_error(x) || !bti_may_work_on(device)) return x;
    return bti_node_of(x)->device == device && device == bti_default_device_id() ? x : bti_move(x, device, false);
}

bool bti_may_cross(const bti_node *node) {
    if (node->op == BTI_OP_result || bti_op_info((bti_op)node->op)->class == BTI_COLLECTIVE) return true;
    if (node->op != BTI_OP_reshape || !node->input_count) return node->op == BTI_OP_copy;
    return bti_shape_equal(node->rank, node->shape, node->inputs[0]->rank, node->inputs[0]->shape);
}

/* What moved nothing is no operation: the placement log has no line for it. */
static bt_array *move_result(bti_public *call, bt_array *x, int device, bool softened) {
    bt_array *result = bti_move(x, device, softened);
    bool copied = !bti_array_error(result) && bti_node_of(result)->op == BTI_OP_copy;
    return copied ? bti_public_result(call, result) : bti_public_keep(call, result);
}

bt_array *bt_to(bt_array *x, const char *device) {
    BTI_PUBLIC("bt_to");
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) BTI_RETURN(poison);
    int id = -1;
    bool softened = false;
    if (bti_device_place(device, &id, &softened) != BT_OK) BTI_RETURN(bti_poison(bti_error_last()));
    return move_result(&bti_public_, x, id, softened);
}

bt_array *bt_gpu(bt_array *x) {
    BTI_PUBLIC("bt_gpu");
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) BTI_RETURN(poison);
    bt_device *gpu = bt_device_count(BT_GPU) ? bt_device_get(BT_GPU, 0) : NULL;
    return gpu ? move_result(&bti_public_, x, bti_device_id(gpu), false) : x;
}

bt_array *bt_cpu(bt_array *x) {
    BTI_PUBLIC("bt_cpu");
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) BTI_RETURN(poison);
    return move_result(&bti_public_, x, bti_cpu_device_id(), false);
}

bt_device *bt_device_of(const bt_array *x) {
    if (x && bti_owned_is_released(&x->head)) (void)!bti_fail_with(bti_array_error(x));
    return !x || bti_node_of(x)->device < 0 ? NULL : bti_device_at(bti_node_of(x)->device);
}

char *bt_devices_text(const bt_array *x) {
    bt_device *device = bt_device_of(x);
    bti_str text = {0};
    if (device) {
        const char *kind = bt_kind_name(bt_device_kind(device));
        bti_str_addf(&text, "{%c", kind[0]);
        for (const char *c = kind + 1; *c; c++) bti_str_addf(&text, "%c", *c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
        bti_str_addf(&text, "Device(id=%d)}", bt_device_index(device));
    } else
        bti_str_add(&text, "{}");
    char *taken = bti_str_take(&text);
    if (!taken) (void)!bti_no_memory();
    return taken;
}

#include "exec/host.h"

#include "base/alloc.h"
#include "base/lock.h"

static _Thread_local bool inside;

bool bti_host_is_inside(void) { return inside; }

bt_status bti_host_check(void) {
    if (!inside) return BT_OK;
    return bti_fail(BT_FAILED_PRECONDITION,
                    "a function that is called while work runs (a callback, an operation of the program's) cannot wait "
                    "for work, submit any or set variables; take what it needs as inputs, or make this call elsewhere");
}

/* An operand in host memory. */
typedef struct staged {
    bt_elements elements;
    size_t bytes;
    void *copy; /* NULL: it lies in the device's own memory */
} staged;

static bt_status stage(staged *s, const bti_value *value, int device, uint64_t address, bool fill) {
    s->elements = (bt_elements){.dtype = value->dtype, .shape = bti_shape_of(value->shape, (size_t)value->rank)};
    s->bytes = bt_dtype_size(value->dtype);
    for (int i = 0; i < value->rank; i++) s->bytes *= (size_t)value->shape[i];
    if (!s->bytes) return BT_OK;
    s->elements.data = (void *)(uintptr_t)address;
    if (bti_device_has_host_memory(device)) return BT_OK;
    if (!(s->copy = bti_alloc(s->bytes))) return bti_no_memory();
    s->elements.data = s->copy;
    return fill ? bti_device_download(device, s->copy, address, s->bytes) : BT_OK;
}

/* Kernels count on bools that are 0 or 1. */
static void settle_bools(const bt_elements *output, size_t bytes) {
    unsigned char *bools = output->data;
    for (size_t i = 0; output->dtype == BT_BOOL && i < bytes; i++) bools[i] = bools[i] != 0;
}

/* Whether there is something to compute: callbacks are always told. */
static bool has_elements(const staged *operands, const bti_step *step) {
    bool any = step->op == BTI_OP_callback;
    for (int o = 0; o < step->output_count; o++) any = any || operands[step->input_count + o].bytes;
    return any;
}

bt_status bti_host_step_run(bti_host_function *host, const bti_plan *plan, const bti_step *step, const bti_attr *attr,
                            const uint64_t *addresses) {
    int inputs = step->input_count, all = inputs + step->output_count, device = step->device;
    bool writes = step->op != BTI_OP_callback, outer = inside;
    staged *operands = bti_calloc((size_t)all, sizeof *operands);
    bt_elements *elements = bti_alloc((size_t)all * sizeof *elements);
    bt_status status = operands && elements ? BT_OK : bti_no_memory();
    if (status == BT_OK && !bti_device_has_host_memory(device)) status = bti_device_finish(device);
    for (int o = 0; o < all && status == BT_OK; o++)
        status = stage(&operands[o], bti_plan_operand(plan, step, o), device, addresses[o], o < inputs);
    for (int o = 0; o < all && status == BT_OK; o++) elements[o] = operands[o].elements;
    if (status == BT_OK && has_elements(operands, step)) {
        inside = true;
        bti_lock_user_begin();
        status = host->run(host, elements, inputs, writes ? &elements[inputs] : NULL, attr);
        bti_lock_user_end();
        inside = outer;
    }
    for (int o = inputs; o < all && status == BT_OK && writes; o++) {
        settle_bools(&elements[o], operands[o].bytes);
        if (operands[o].copy) status = bti_device_upload(device, addresses[o], operands[o].copy, operands[o].bytes);
    }
    for (int o = 0; o < all && operands; o++) bti_free(operands[o].copy);
    bti_free(operands);
    bti_free(elements);
    return status;
}

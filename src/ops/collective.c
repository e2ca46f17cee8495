/* Sums over devices, and their rules. */
#include "array/move.h"
#include "base/alloc.h"
#include "base/flags.h"
#include "device/device.h"
#include "ops/application.h"

/* Whether the driver sums such arrays over the devices; a no is kept from the program's record. *refused: the flag demands it. */
static bool driver_sums(const int *devices, int count, bt_dtype dtype, bt_array **refused) {
    int way = bti_flag_choice(BTI_FLAG_collectives);
    *refused = NULL;
    if (way == BTI_COLLECTIVES_COPIES || count < 2) return false;
    bti_errors_aside aside = bti_errors_aside_begin();
    bt_status status = bti_device_can_all_reduce(devices, count, dtype, BTI_OP_sum);
    bti_error *why = status == BT_OK ? NULL : bti_error_last();
    bti_errors_aside_end(aside);
    if (why && way == BTI_COLLECTIVES_DRIVER)
        *refused =
            bti_poisonf(BT_FAILED_PRECONDITION, "flag \"collectives\" is driver, but %s", bti_error_message(why));
    bti_error_release(why);
    return status == BT_OK;
}

static bool are_alike(bt_array *const *parts, int count) {
    const bti_node *first = bti_node_of(parts[0]);
    for (int i = 1; i < count; i++) {
        const bti_node *part = bti_node_of(parts[i]);
        if (part->dtype != first->dtype || !bti_shapes_may_equal(part->rank, part->shape, first->rank, first->shape))
            return false;
    }
    return true;
}

static void poison_all(bt_array *poison, int count, bt_array **sums) {
    for (int i = 0; i < count; i++) sums[i] = i ? bti_poisoned_by(&poison, 1) : poison;
}

static bt_array *on_device(bt_array *x, int device) {
    return bti_move(bti_node_of(x)->weak ? bti_cast(x, bti_dtype(x)) : x, device, false);
}

static void sum_on_the_first(const int *devices, int count, bt_array *const *parts, bt_array **sums) {
    bt_array *sum = NULL;
    for (int i = 0; i < count; i++) sums[i] = bti_move(parts[i], devices[0], false);
    BT_ON(bt_device_long_name(bti_device_at(devices[0]))) sum = bt_add_n(sums, count);
    for (int i = 0; i < count; i++) sums[i] = bti_move(sum, devices[i], false);
}

void bti_all_reduce(const int *devices, int count, bt_array *const *parts, bt_array **sums) {
    bt_array *poison = bti_poisoned_by(parts, count);
    bool driver = !poison && driver_sums(devices, count, bti_dtype(parts[0]), &poison) && are_alike(parts, count);
    if (!poison && !driver) {
        sum_on_the_first(devices, count, parts, sums);
        return;
    }
    for (int i = 0; i < count && !poison; i++) {
        sums[i] = on_device(parts[i], devices[i]);
        poison = bti_poisoned_by(&sums[i], 1);
    }
    if (poison)
        poison_all(poison, count, sums);
    else
        (void)!bti_record_collective(BTI_OP_all_reduce, sums, count, sums); /* else they are poisoned */
}

/* --- rules ---------------------------------------------------------------------------------------------------------- */

/* The sum over the devices that the operation ran on of what `part` gives for each of them. made[]: one on each. */
static void sum_again(bt_array *const *x, int count, bt_array *(*part)(const void *of, int i), const void *of,
                      bt_array **made) {
    int *devices = bti_alloc((size_t)count * sizeof *devices);
    bt_array **parts = bti_alloc((size_t)count * sizeof *parts);
    for (int i = 0; i < count && devices && parts; i++) {
        devices[i] = bti_node_of(x[i])->device;
        parts[i] = part(of, i);
    }
    if (devices && parts)
        bti_all_reduce(devices, count, parts, made);
    else
        for (int i = 0; i < count; i++) made[i] = bti_array_new(NULL);
    bti_free(devices);
    bti_free(parts);
}

static bt_array *cotangent_of(const void *backward, int i) {
    const bti_backward *b = backward;
    return b->results[i] ? b->results[i] : bt_zeros_like(b->x[i]);
}

/* Each part goes into each sum. */
void bti_gradient_all_reduce(bti_backward *b) { sum_again(b->x, b->count, cotangent_of, b, b->gx); }

static bt_array *tangent_of(const void *application, int i) {
    const bti_application *a = application;
    return a->image[i] ? a->image[i] : bt_zeros_like(a->x[i]);
}

void bti_tangent_all_reduce(bti_application *a) {
    if (bti_node_has_gradient(a->node)) sum_again(a->x, a->count, tangent_of, a, a->made);
}

static bt_array *stack_of(const void *application, int i) { return bti_batched(application, i); }

void bti_batch_all_reduce(bti_application *a) { sum_again(a->x, a->count, stack_of, a, a->made); }

#include "array/collective.h"

#include "array/eval.h"
#include "array/graph.h"
#include "array/place.h"
#include "base/alloc.h"
#include "base/flags.h"
#include "exec/collective.h"

typedef struct sums {
    const int *devices;
    int device_count, count;
    bti_node **parts;   /* [array][device]; dense in their turn; retained */
    bti_node **results; /* [array][device]; borrowed */
    bool *wanted;       /* [array]: still to be folded */
} sums;

static size_t index_at(const sums *s, int array, int device) {
    return (size_t)array * (size_t)s->device_count + (size_t)device;
}

static bool is_foldable(const sums *s, int array, bt_array *const *parts, bt_array *const *results) {
    const bti_node *first = bti_node_of(parts[index_at(s, array, 0)]);
    for (int d = 0; d < s->device_count; d++) {
        bt_array *part = parts[index_at(s, array, d)], *result = results[index_at(s, array, d)];
        if (bti_array_error(part) || bti_array_error(result)) return false;
        const bti_node *from = bti_node_of(part), *to = bti_node_of(result);
        if (from->symbolic || from->device != s->devices[d] || to->device != s->devices[d] ||
            from->dtype != first->dtype || !bti_shape_equal(from->rank, from->shape, first->rank, first->shape) ||
            atomic_load(&to->state) != BTI_PENDING || !bti_node_count(from))
            return false;
    }
    return true;
}

/* The parts that are to be folded now. */
static int list_wanted_parts(const sums *s, bti_node **list) {
    int count = 0;
    for (int a = 0; a < s->count; a++)
        for (int d = 0; d < s->device_count && s->wanted[a]; d++) list[count++] = s->parts[index_at(s, a, d)];
    return count;
}

/* What is not dense is copied where it is. */
static bt_status make_parts_dense(sums *s) {
    for (int a = 0; a < s->count; a++)
        for (int d = 0; d < s->device_count && s->wanted[a]; d++) {
            bti_node **part = &s->parts[index_at(s, a, d)], *from = *part;
            if (atomic_load(&from->state) != BTI_DONE || bti_layout_is_dense(from->rank, from->shape, &from->layout))
                continue;
            bti_node *copy = bti_node_new(BTI_OP_copy, (bt_dtype)from->dtype, from->rank, from->shape, 1, &from, NULL);
            if (!copy) return bti_no_memory();
            copy->device = from->device;
            copy->place = from->place;
            *part = copy;
            bti_node_release(from);
        }
    return BT_OK;
}

static bt_status compute_parts(sums *s) {
    bti_node **list = bti_alloc((size_t)s->count * (size_t)s->device_count * sizeof(bti_node *));
    if (!list) return bti_no_memory();
    bt_status status = bti_eval_nodes(list, list_wanted_parts(s, list), true);
    if (status == BT_OK) status = make_parts_dense(s);
    if (status == BT_OK) status = bti_eval_nodes(list, list_wanted_parts(s, list), true);
    bti_free(list);
    return status;
}

/* --- under the graph lock ------------------------------------------------------------------------------------------ */

static bool is_ready(const sums *s, int array) {
    for (int d = 0; d < s->device_count; d++)
        if (atomic_load(&s->parts[index_at(s, array, d)]->state) != BTI_DONE ||
            atomic_load(&s->results[index_at(s, array, d)]->state) != BTI_PENDING)
            return false;
    return true;
}

static void finish_result(bti_node *result, bti_buffer *buffer, int64_t offset) {
    result->buffer = bti_buffer_retain(buffer);
    bti_layout_dense(result->rank, result->shape, &result->layout);
    result->layout.offset = offset;
    atomic_store(&result->state, BTI_DONE);
    if (result->forget) bti_node_forget(result);
}

/* All that are wanted of the first such one's dtype: folded, and no longer wanted. */
static bt_status fold_alike(sums *s, int first, bti_node **inputs, int64_t *elements, int64_t *offsets) {
    bti_buffer *outputs[BTI_MAX_REPLICAS];
    bt_dtype dtype = (bt_dtype)s->parts[index_at(s, first, 0)]->dtype;
    bti_fold fold = {s->device_count, s->devices, BTI_OP_sum, dtype, 0, elements, inputs};
    for (int a = first; a < s->count; a++) {
        if (!s->wanted[a] || (bt_dtype)s->parts[index_at(s, a, 0)]->dtype != dtype) continue;
        elements[fold.array_count] = bti_node_count(s->parts[index_at(s, a, 0)]);
        for (int d = 0; d < s->device_count; d++)
            inputs[fold.array_count * (size_t)s->device_count + (size_t)d] = s->parts[index_at(s, a, d)];
        fold.array_count++;
    }
    bt_status status = bti_exec_fold(&fold, outputs, offsets);
    size_t folded = 0;
    for (int a = first; a < s->count; a++) {
        if (!s->wanted[a] || (bt_dtype)s->parts[index_at(s, a, 0)]->dtype != dtype) continue;
        s->wanted[a] = false;
        for (int d = 0; d < s->device_count && status == BT_OK; d++)
            finish_result(s->results[index_at(s, a, d)], outputs[d], offsets[folded]);
        folded++;
    }
    for (int d = 0; d < s->device_count && status == BT_OK; d++) bti_buffer_release(outputs[d]);
    return status;
}

static bt_status fold_all(sums *s) {
    size_t count = (size_t)s->count;
    bti_node **inputs = bti_alloc(count * (size_t)s->device_count * sizeof(bti_node *));
    int64_t *numbers = bti_alloc(2 * count * sizeof *numbers);
    bt_status status = inputs && numbers ? BT_OK : bti_no_memory(), one;
    bti_graph_lock();
    for (int a = 0; a < s->count; a++) s->wanted[a] = s->wanted[a] && is_ready(s, a);
    for (int a = 0; a < s->count && inputs && numbers; a++) {
        if (!s->wanted[a]) continue;
        one = fold_alike(s, a, inputs, numbers, numbers + count);
        if (status == BT_OK) status = one;
    }
    bti_graph_unlock();
    bti_free(inputs);
    bti_free(numbers);
    return status;
}

/* --- choosing ------------------------------------------------------------------------------------------------------ */

static bt_status sum_foldable(sums *s, bt_array *const *parts, bt_array *const *results) {
    bool any = false;
    for (int a = 0; a < s->count; a++) {
        s->wanted[a] = is_foldable(s, a, parts, results);
        any = any || s->wanted[a];
        for (int d = 0; d < s->device_count; d++) {
            s->parts[index_at(s, a, d)] = bti_node_retain(bti_node_of(parts[index_at(s, a, d)]));
            s->results[index_at(s, a, d)] = bti_node_of(results[index_at(s, a, d)]);
        }
    }
    if (!any) return BT_OK;
    BTI_TRY(compute_parts(s));
    return fold_all(s);
}

/* Whether the driver can do it for the first dtype; a no is kept from the program's record where it need not. */
static bt_status ask_driver(const int *devices, int device_count, bt_dtype dtype, bool must) {
    bti_errors_aside aside = bti_errors_aside_begin();
    bt_status status = bti_device_can_all_reduce(devices, device_count, dtype, BTI_OP_sum);
    bti_error *why = status == BT_OK ? NULL : bti_error_last();
    bti_errors_aside_end(aside);
    if (must && status != BT_OK)
        status = bti_fail(BT_FAILED_PRECONDITION, "flag \"collectives\" is driver, but %s", bti_error_message(why));
    bti_error_release(why);
    return status;
}

bt_status bti_sum_by_driver(const int *devices, int device_count, bt_array *const *parts, bt_array *const *results,
                            int count) {
    int way = bti_flag_choice(BTI_FLAG_collectives);
    if (way == BTI_COLLECTIVES_COPIES || device_count < 2 || count < 1 || bti_array_error(parts[0])) return BT_OK;
    bool must = way == BTI_COLLECTIVES_DRIVER;
    if (ask_driver(devices, device_count, (bt_dtype)bti_node_of(parts[0])->dtype, must) != BT_OK)
        return must ? BT_FAILED_PRECONDITION : BT_OK;
    size_t all = (size_t)device_count * (size_t)count;
    sums s = {devices,
              device_count,
              count,
              bti_calloc(all, sizeof(bti_node *)),
              bti_calloc(all, sizeof(bti_node *)),
              bti_calloc((size_t)count, sizeof(bool))};
    bt_status status = s.parts && s.results && s.wanted ? sum_foldable(&s, parts, results) : bti_no_memory();
    for (size_t i = 0; s.parts && i < all; i++) bti_node_release(s.parts[i]);
    bti_free(s.parts);
    bti_free(s.results);
    bti_free(s.wanted);
    return status;
}

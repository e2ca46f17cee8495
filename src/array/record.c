/* One node for one primitive; and arrays made from the host's data. */
#include "array/record.h"

#include <string.h>

#include "array/eval.h"
#include "array/place.h"
#include "base/clock.h"
#include "base/flags.h"
#include "exec/exec.h"
#include "exec/host.h"
#include "ir/op_rules.h"

/* Sets *symbolic when a size is not known. */
static bool size_fits(bt_dtype dtype, int rank, const int64_t *shape, bool *symbolic) {
    for (int i = 0; i < rank; i++) {
        if (shape[i] >= 0) continue;
        if (!bti_size_exists(shape[i])) return false;
        *symbolic = true;
    }
    return bti_shape_fits(rank, shape, bt_dtype_size(dtype));
}

static bt_array *refuse_size(bt_dtype dtype, int rank, const int64_t *shape) {
    for (int i = 0; i < rank; i++)
        if (shape[i] < 0 && !bti_size_exists(shape[i]))
            return bti_poisonf(BT_INVALID_ARGUMENT, "size %lld of axis %d is negative", (long long)shape[i], i);
    bti_str text = {0};
    bti_shape_text(&text, rank, shape);
    bt_array *poison =
        bti_poisonf(BT_INVALID_ARGUMENT,
                    "the sizes of %s %s multiply to more bytes than 63 bits can count (a size of 0 counts as 1)",
                    bt_dtype_name(dtype), bti_str_text(&text));
    bti_str_free(&text);
    return poison;
}

static inline bt_array *check_size(bt_dtype dtype, int rank, const int64_t *shape, bool *symbolic) {
    return size_fits(dtype, rank, shape, symbolic) ? NULL : refuse_size(dtype, rank, shape);
}

bt_array *bti_poison_why(bti_str *why) {
    bt_array *poison = bti_poisonf(BT_INVALID_ARGUMENT, "%s", bti_str_text(why));
    bti_str_free(why);
    return poison;
}

/* The one place that decides it, for operations whose recorders did not. */
static bt_array *refuse_complex(bti_op op, bt_dtype dtype) {
    if (dtype == BT_DTYPE_COUNT || bti_op_takes_complex(op)) return NULL;
    bti_str why = {0};
    bti_complex_refusal(&why, dtype);
    return bti_poison_why(&why);
}

bt_array *bti_record_shaped(bti_op op, bt_dtype dtype, bool weak, int rank, const int64_t *shape,
                            bt_array *const *inputs, int count, const bti_attr *attr) {
    bt_array *poison = bti_poisoned_by(inputs, count);
    if (poison) return poison;
    bti_node *few[8], **nodes = few, *node = NULL;
    if (count > 8 && !(nodes = bti_alloc((size_t)count * sizeof *nodes))) return bti_array_new(NULL);
    bool symbolic = op == BTI_OP_size;
    bt_dtype complex_dtype = bti_dtype_is_complex(dtype) ? dtype : BT_DTYPE_COUNT;
    for (int i = 0; i < count; i++) {
        nodes[i] = bti_node_of(inputs[i]);
        symbolic = symbolic || nodes[i]->symbolic;
        if (bti_dtype_is_complex((bt_dtype)nodes[i]->dtype)) complex_dtype = (bt_dtype)nodes[i]->dtype;
    }
    bti_placement placement;
    bti_type type;
    bti_str why = {0};
    type.dtype = dtype;
    type.rank = rank;
    for (int i = 0; i < rank; i++) type.shape[i] = shape[i];
    poison = refuse_complex(op, complex_dtype);
    if (!poison) poison = bti_poison_unless(bti_op_shape(op, count, nodes, attr, &type, &why), &why);
    if (!poison) poison = check_size(dtype, type.rank, type.shape, &symbolic);
    if (!poison) poison = bti_choose_device(inputs, count, &placement);
    if (!poison) node = bti_node_new(op, dtype, type.rank, type.shape, count, nodes, attr);
    if (nodes != few) bti_free(nodes);
    if (!node) return poison ? poison : bti_array_new(NULL);
    node->weak = weak;
    node->symbolic = symbolic;
    bti_clock_host_works(BTI_HOST_RECORDS);
    bti_place_node(node, placement);
    bti_eval_recorded(node);
    return bti_array_new(node);
}

static bool any_unknown(int count, const int64_t *sizes) {
    for (int i = 0; i < count; i++)
        if (bti_size_is_symbolic(sizes[i])) return true;
    return false;
}

static bti_node *new_tuple(bti_op op, bt_array *const *inputs, int count, const bti_attr *attr, const bti_type *types,
                           int result_count, bti_region *const *regions, int region_count) {
    bti_node **nodes = bti_alloc((size_t)count * sizeof *nodes);
    if (!nodes) return NULL;
    bool symbolic = bti_attr_is_unknown(op, attr);
    for (int i = 0; i < count; i++) {
        nodes[i] = bti_node_of(inputs[i]);
        symbolic = symbolic || nodes[i]->symbolic;
    }
    for (int i = 0; i < result_count; i++) symbolic = symbolic || any_unknown(types[i].rank, types[i].shape);
    bti_node *tuple = bti_node_new_tuple(op, count, nodes, attr, result_count, types, region_count, regions);
    if (tuple) tuple->symbolic = symbolic;
    bti_free(nodes);
    return tuple;
}

bt_array *bti_result_of(bti_node *tuple, int index) {
    const bti_type *type = bti_tuple_type(tuple->tuple, index);
    bti_attr which = {.result = {index}};
    bti_node *node = bti_node_new(BTI_OP_result, type->dtype, type->rank, type->shape, 1, &tuple, &which);
    if (!node) return bti_array_new(NULL);
    bti_copy_marks(node, tuple);
    if (bti_op_info((bti_op)tuple->op)->class == BTI_COLLECTIVE) node->device = tuple->inputs[index]->device;
    atomic_store(&node->logged, NULL); /* the tuple is */
    node->symbolic = tuple->symbolic;
    node->checkpoint = bti_checkpoint_retain(tuple->checkpoint);
    bti_eval_recorded(node);
    return bti_array_new(node);
}

bt_array *bti_known_result(bti_node *tuple, bti_node *const *known, int index) {
    return known && known[index] ? bti_array_on(known[index]) : bti_result_of(tuple, index);
}

/* NULL: the result that the public operation hands out is logged. */
static const char *logged_as(bti_op op) {
    switch (op) {
    case BTI_OP_scan: return "bt_scan";
    case BTI_OP_while: return "bt_while";
    case BTI_OP_cond: return "bt_cond";
    case BTI_OP_custom: return "bt_custom_call";
    case BTI_OP_all_reduce: return "bt_all_reduce";
    default: return NULL;
    }
}

/* poison: why it cannot be placed; NULL. */
static bt_status record_placed(bti_op op, bti_host_function *host, bt_array *const *inputs, int count,
                               const bti_attr *attr, const bti_type *types, int result_count,
                               bti_region *const *regions, int region_count, bti_placement placement, bt_array *poison,
                               bt_array **results) {
    for (int i = 0; i < count && !poison; i++) {
        bt_dtype dtype = (bt_dtype)bti_node_of(inputs[i])->dtype;
        if (bti_dtype_is_complex(dtype)) poison = refuse_complex(op, dtype);
    }
    for (int i = 0; i < result_count && !poison; i++) {
        bool symbolic; /* new_tuple looks itself */
        poison = check_size(types[i].dtype, types[i].rank, types[i].shape, &symbolic);
    }
    bti_node *tuple = poison ? NULL : new_tuple(op, inputs, count, attr, types, result_count, regions, region_count);
    if (tuple) {
        bti_place_node(tuple, placement);
        atomic_store(&tuple->in_gradient, bti_forced_now()->gradient_in > 0);
        if (logged_as(op)) atomic_store(&tuple->logged, logged_as(op));
        tuple->host = bti_host_retain(host);
        if (host && !bti_forced_now()->on) tuple->place.name = host->name;
    }
    for (int i = 0; i < result_count; i++)
        results[i] = poison ? bti_poisoned_by(&poison, 1) : tuple ? bti_result_of(tuple, i) : bti_array_new(NULL);
    bti_node_release(tuple);
    return tuple ? BT_OK : poison ? bti_fail_with(bti_array_error(poison)) : bti_no_memory();
}

static bt_status record_tuple(bti_op op, bti_host_function *host, bt_array *const *inputs, int count,
                              const bti_attr *attr, const bti_type *types, int result_count, bti_region *const *regions,
                              int region_count, bt_array **results) {
    bti_placement placement;
    bt_array *poison = bti_choose_device(inputs, count, &placement);
    if (!poison && host && bti_host_can_run_on(host, placement.device) != BT_OK) poison = bti_poison(bti_error_last());
    return record_placed(op, host, inputs, count, attr, types, result_count, regions, region_count, placement, poison,
                         results);
}

bt_status bti_record_collective(bti_op op, bt_array *const *inputs, int count, bt_array **results) {
    bti_type *types = bti_alloc((size_t)count * sizeof *types);
    for (int i = 0; i < count; i++) {
        if (types)
            types[i] = bti_type_of(bti_node_of(inputs[i]));
        else
            results[i] = bti_array_new(NULL);
    }
    if (!types) return bti_no_memory();
    bti_placement placement = {bti_node_of(inputs[0])->device, true, BTI_RULE_EXPLICIT};
    bt_status status = record_placed(op, NULL, inputs, count, NULL, types, count, NULL, 0, placement, NULL, results);
    bti_free(types);
    return status;
}

bt_status bti_record_tuple(bti_op op, bt_array *const *inputs, int count, const bti_attr *attr, const bti_type *types,
                           int result_count, bti_region *const *regions, int region_count, bt_array **results) {
    return record_tuple(op, NULL, inputs, count, attr, types, result_count, regions, region_count, results);
}

bt_status bti_record_hosted(bti_op op, bti_host_function *host, bt_array *const *inputs, int count,
                            const bti_attr *attr, const bti_type *types, int result_count, bt_array **results) {
    return record_tuple(op, host, inputs, count, attr, types, result_count, NULL, 0, results);
}

bt_array *bti_public_result(bti_public *guard, bt_array *result) {
    bti_public_keep(guard, result);
    bool outermost = guard->nesting == 0,
         of_gradient = guard->nesting && guard->nesting == bti_forced_now()->gradient_in;
    if ((outermost || of_gradient) && result && bti_node_is_since(result->node, &guard->since)) {
        atomic_store_explicit(&result->node->in_gradient, of_gradient, memory_order_relaxed);
        atomic_store_explicit(&result->node->logged, guard->name, memory_order_release);
    }
    bti_public_end(guard);
    if (outermost && bti_flag_bool(BTI_FLAG_sync)) bti_eval_sync(result);
    return result;
}

void bti_public_results(bti_public *guard, bt_array *const *results, int count) {
    bool outermost = guard->nesting == 0;
    for (int i = 0; i < count; i++) bti_public_keep(guard, results[i]);
    bti_public_end(guard);
    for (int i = 0; i < count && outermost && bti_flag_bool(BTI_FLAG_sync); i++) bti_eval_sync(results[i]);
}

/* --- from the host -------------------------------------------------------------------------------------------------- */

bt_array *bti_check_shape(bt_dtype dtype, bt_shape shape, bool unknown_allowed) {
    if ((unsigned)dtype >= BT_DTYPE_COUNT)
        return bti_poisonf(BT_INVALID_ARGUMENT, "%d is not a dtype (bt_dtype)", (int)dtype);
    if (shape.rank < 0 || shape.rank > BT_MAX_RANK)
        return bti_poisonf(BT_INVALID_ARGUMENT, "%d dimensions; an array has at most %d", shape.rank, BT_MAX_RANK);
    for (int i = 0; i < shape.rank && unknown_allowed; i++)
        if (shape.size[i] == -1) shape.size[i] = 1;
    bool symbolic;
    return check_size(dtype, shape.rank, shape.size, &symbolic);
}

static bool are_bools(const unsigned char *data, size_t count) {
    uint64_t all = 0, eight;
    size_t i = 0;
    for (; i + sizeof eight <= count; i += sizeof eight) {
        memcpy(&eight, data + i, sizeof eight);
        all |= eight;
    }
    for (; i < count; i++) all |= data[i];
    return !(all & ~UINT64_C(0x0101010101010101));
}

/* Kernels count on bools that are 0 or 1, and the host may give any bytes. The elements as they are to be stored: `data`, or
 * *made, which the caller frees; NULL when memory is short. */
static const void *elements_to_store(const void *data, bt_dtype dtype, bt_shape shape, unsigned char **made) {
    int64_t count;
    *made = NULL;
    if (dtype != BT_BOOL || !bti_shape_count(shape.rank, shape.size, &count) || are_bools(data, (size_t)count))
        return data;
    *made = bti_alloc((size_t)count);
    for (int64_t i = 0; *made && i < count; i++) (*made)[i] = ((const unsigned char *)data)[i] != 0;
    return *made;
}

/* A DONE leaf on a chosen device; its elements are copied unless they are lent, which *lent tells. */
static bt_array *make_leaf(const void *data, bt_dtype dtype, bt_shape shape, bti_placement placement,
                           const bti_loan *loan, bool *lent) {
    unsigned char *made;
    const void *stored = elements_to_store(data, dtype, shape, &made);
    *lent = loan && !made && bti_device_has_host_memory(placement.device);
    bti_node *node = data && !stored ? NULL : bti_node_new(BTI_OP_leaf, dtype, shape.rank, shape.size, 0, NULL, NULL);
    if (!node) {
        *lent = false;
        bti_free(made);
        return bti_array_new(NULL);
    }
    node->device = (int16_t)placement.device;
    node->committed = placement.committed;
    node->rule = (uint8_t)placement.rule;
    node->place = bti_call_place();
    bti_layout_dense(shape.rank, shape.size, &node->layout);
    bt_status status =
        *lent ? bti_buffer_lent(node, stored, *loan, &node->buffer) : bti_buffer_from_host(node, stored, &node->buffer);
    bti_free(made);
    if (status != BT_OK) {
        *lent = false;
        bti_node_release(node);
        return bti_poison(bti_error_last());
    }
    atomic_store(&node->state, BTI_DONE);
    return bti_array_new(node);
}

static bt_array *array_from_host(const void *data, bt_dtype dtype, bt_shape shape, const bti_loan *loan, bool *lent) {
    bt_array *poison = bti_check_shape(dtype, shape, false);
    *lent = false;
    for (int i = 0; i < shape.rank && !poison; i++)
        if (bti_size_is_symbolic(shape.size[i]))
            poison = bti_poisonf(BT_INVALID_ARGUMENT, "size of axis %d is unknown", i);
    int64_t count = 0;
    if (!poison && bti_shape_count(shape.rank, shape.size, &count) && count > 0 && !data)
        poison = bti_poisonf(BT_INVALID_ARGUMENT, "data is NULL, but the shape has %lld elements", (long long)count);
    bti_placement placement;
    if (!poison) poison = bti_choose_device(NULL, 0, &placement);
    if (poison) return poison;
    return make_leaf(data, dtype, shape, placement, loan, lent);
}

bt_array *bt_from(const void *data, bt_dtype dtype, bt_shape shape) {
    BTI_PUBLIC("bt_from");
    bool lent;
    BTI_RETURN(array_from_host(data, dtype, shape, NULL, &lent));
}

#define LOAN_ALIGN 64 /* bytes: as of memory that the library reserves */

bt_array *bt_from_lent(const void *data, bt_dtype dtype, bt_shape shape, bt_lent_end_fn *end, void *lender) {
    BTI_PUBLIC("bt_from_lent");
    bool lent = false, aligned = (uintptr_t)data % LOAN_ALIGN == 0;
    const bti_loan loan = {end, lender};
    bt_array *x = array_from_host(data, dtype, shape, aligned ? &loan : NULL, &lent);
    if (!lent && end) end(lender);
    BTI_RETURN(x);
}

bt_array *bti_from_literal(const void *data, size_t elements, bt_dtype dtype, bt_shape shape) {
    BTI_PUBLIC("BT_ARRAY");
    bt_array *poison = bti_check_shape(dtype, shape, false);
    int64_t count = 0;
    if (!poison && bti_shape_count(shape.rank, shape.size, &count) && (size_t)count != elements) {
        bti_str text = {0};
        bti_shape_text(&text, shape.rank, shape.size);
        poison = bti_poisonf(BT_INVALID_ARGUMENT, "%zu elements do not fill the shape %s, which has %lld", elements,
                             bti_str_text(&text), (long long)count);
        bti_str_free(&text);
    }
    BTI_RETURN(poison ? poison : bt_from(data, dtype, shape));
}

bt_status bt_write(bt_array *x, const void *data, size_t bytes) {
    BTI_PUBLIC("bt_write");
    bti_error *error = bti_array_error(x);
    if (error) return bti_fail_with(error);
    const bti_node *old = bti_node_of(x);
    if (old->symbolic) return bti_fail(BT_FAILED_PRECONDITION, "a function's input has no elements to write");
    if (bytes != (size_t)bti_node_bytes(old))
        return bti_fail(BT_INVALID_ARGUMENT, "the array has %lld bytes, the data %zu", (long long)bti_node_bytes(old),
                        bytes);
    if (bytes && !data) return bti_fail(BT_INVALID_ARGUMENT, "data is NULL");
    bt_shape shape = bti_shape_of(old->shape, old->rank);
    bti_placement placement = {old->device, atomic_load(&old->committed), (bti_rule)old->rule};
    bool lent;
    bt_array *fresh = make_leaf(data, (bt_dtype)old->dtype, shape, placement, NULL, &lent);
    if ((error = bti_array_error(fresh))) return bti_fail_with(error);
    bti_array_swap(x, fresh);
    return BT_OK;
}

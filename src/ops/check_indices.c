/* Indices and classes out of range: their results are NaN, on every device and at no cost; here the culprit is found afterwards, in the recorded graph. */
#include "ops/check.h"

#include "array/eval.h"
#include "base/alloc.h"
#include "base/vec.h"
#include "ir/walk.h"

/* --- the operations --------------------------------------------------------------------------------------------------- */

static bool takes_elements(const bti_node *node) {
    return (node->op == BTI_OP_take || node->op == BTI_OP_gather_axis) && node->input_count == 2;
}

/* ops/losses.c: where(0 <= classes and classes < size, losses, NaN), the condition perhaps or-ed with the class that is ignored. The comparison with the size; NULL: it
 * is another one. */
static const bti_node *class_bound(const bti_node *node) {
    if (node->op != BTI_OP_where || node->input_count != 3 || !bti_node_has_gradient(node)) return NULL;
    const bti_node *range = node->inputs[0];
    if (range->op == BTI_OP_or) range = range->inputs[0];
    if (range->op != BTI_OP_and || range->inputs[0]->op != BTI_OP_le || range->inputs[1]->op != BTI_OP_lt) return NULL;
    const bti_node *bound = range->inputs[1];
    return range->inputs[0]->inputs[1] == bound->inputs[0] && bound->inputs[0]->dtype == BT_I64 ? bound : NULL;
}

bool bti_takes_by_index(const bti_node *node) { return takes_elements(node) || class_bound(node); }

/* --- their indices ---------------------------------------------------------------------------------------------------- */

static void add_place_of(bti_str *text, const bti_node *node, int rank, int64_t at) {
    int64_t index[BTI_MAX_RANK];
    for (int d = node->rank; d-- > 0; at /= node->shape[d]) index[d] = at % node->shape[d];
    bti_str_add(text, "[");
    for (int d = 0; d < rank; d++) bti_str_addf(text, "%s%lld", d ? ", " : "", (long long)index[d]);
    bti_str_add(text, "]");
}

static int64_t integer_at(const void *data, bt_dtype dtype, int64_t i) {
    return dtype == BT_I64 ? ((const int64_t *)data)[i] : (int64_t)((const int32_t *)data)[i];
}

/* Reads a node; yours to free. NULL: no elements, or *status. */
static void *read_all(bti_node *node, bt_status *status) {
    void *data = bti_node_bytes(node) ? bti_alloc((size_t)bti_node_bytes(node)) : NULL;
    *status = data || !bti_node_bytes(node) ? BT_OK : bti_no_memory();
    if (data) *status = bti_read_node(node, data);
    if (*status == BT_OK) return data;
    bti_free(data);
    return NULL;
}

/* The indices as the program gave them, before they became a line of one dtype. */
static const bti_node *given_of(const bti_node *indices) {
    while ((indices->op == BTI_OP_reshape || indices->op == BTI_OP_cast) && indices->input_count == 1)
        indices = indices->inputs[0];
    return indices;
}

static bt_status add_element_fault(bti_str *text, const bti_node *node) {
    bt_status status;
    const bti_node *x = node->inputs[0];
    bti_node *indices = node->inputs[1];
    int64_t size = x->shape[node->attr->axis.axis];
    void *data = read_all(indices, &status);
    for (int64_t i = 0; data && i < bti_node_count(indices); i++) {
        int64_t index = integer_at(data, (bt_dtype)indices->dtype, i);
        if (index >= -size && index < size) continue;
        const bti_node *given = given_of(indices);
        bti_str_addf(text, "index %lld, at ", (long long)index);
        add_place_of(text, given, given->rank, i);
        bti_str_addf(text, " of them, is out of range: axis %d of %s ", node->attr->axis.axis,
                     bt_dtype_name((bt_dtype)x->dtype));
        bti_shape_text(text, x->rank, x->shape);
        bti_str_addf(text, " has %lld elements", (long long)size);
        break;
    }
    bti_free(data);
    return status;
}

/* A size as a scalar, or that repeated. */
static int64_t size_of(const bti_node *scalar) {
    while (scalar->input_count == 1) scalar = scalar->inputs[0];
    return scalar->op == BTI_OP_const ? (int64_t)scalar->attr->constant.bits : scalar->attr->size.size;
}

static bt_status add_class_fault(bti_str *text, const bti_node *node) {
    bt_status status, of_range = BT_OK;
    const bti_node *bound = class_bound(node);
    bti_node *classes = bound->inputs[0], *range = node->inputs[0];
    int64_t *data = read_all(classes, &status);
    bool *within = data ? read_all(range, &of_range) : NULL;
    for (int64_t i = 0; within && i < bti_node_count(classes); i++) {
        if (within[i]) continue;
        bti_str_addf(text, "label %lld, of row ", (long long)data[i]);
        add_place_of(text, classes, classes->rank - 1, i);
        bti_str_add(text, ", is out of range: ");
        int64_t count = size_of(bound->inputs[1]);
        bti_str_addf(text, "the logits have %lld classes", (long long)count);
        if (data[i] == count) bti_str_add(text, ", and the first is 0");
        if (data[i] < 0)
            bti_str_addf(text, "; rows without a label are left out by .ignore = true, .ignored = %lld",
                         (long long)data[i]);
        break;
    }
    bti_free(within);
    bti_free(data);
    return status != BT_OK ? status : of_range;
}

bt_status bti_add_index_fault(bti_str *text, const bti_node *node) {
    BTI_TRY((takes_elements(node) ? add_element_fault : add_class_fault)(text, node));
    return text->failed ? bti_no_memory() : BT_OK;
}

/* --- all of them ------------------------------------------------------------------------------------------------------ */

typedef BTI_VEC(bti_node *) found_nodes; /* retained */

static bool list_once(found_nodes *found, bti_numbers *numbers, bti_node *node) {
    bool met;
    if (!bti_number_meet(numbers, node, &met) || (!met && !bti_vec_push(found, node))) return false;
    if (!met) bti_node_retain(node);
    return true;
}

static bool list_history(found_nodes *found, bti_node *last) {
    bti_numbers numbers = {0};
    int walk = bti_walk_begin();
    bool room = list_once(found, &numbers, last);
    for (size_t next = 0; next < found->count && room; next++) {
        const bti_node *node = found->items[next];
        int inputs = node->input_count;
        for (int i = 0; i < inputs && room; i++) room = list_once(found, &numbers, node->inputs[i]);
    }
    bti_walk_end(walk);
    bti_numbers_free(&numbers);
    if (room) bti_nodes_sort(found->items, found->count);
    return room;
}

static bt_status check_node(const bti_node *node) {
    bti_str text = {0};
    bt_status status = bti_add_index_fault(&text, node);
    if (status == BT_OK && text.length) {
        bti_error *error = bti_error_at(node->place, BT_OUT_OF_RANGE, "%s", bti_str_text(&text));
        status = bti_fail_with(error);
        bti_error_release(error);
    }
    bti_str_free(&text);
    return status;
}

bt_status bti_check_indices(bt_array *x) {
    BTI_TRY(bti_fail_with(bti_array_error(x)));
    found_nodes found = {0};
    bt_status status = list_history(&found, bti_node_of(x)) ? BT_OK : bti_no_memory();
    for (size_t i = 0; i < found.count && status == BT_OK; i++)
        if (!found.items[i]->symbolic && bti_takes_by_index(found.items[i])) status = check_node(found.items[i]);
    for (size_t i = 0; i < found.count; i++) bti_node_release(found.items[i]);
    bti_vec_free(&found);
    return status;
}

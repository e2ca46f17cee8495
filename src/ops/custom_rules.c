/* Rules of operations of the program's: what its own functions record is checked; a batch without a rule is a loop over its rows. */
#include <berth/control.h>

#include "base/alloc.h"
#include "ops/application.h"
#include "ops/custom.h"

typedef bti_custom_operation operation;

static bt_array *has_no(const operation *of, const char *what, const char *member) {
    return bti_poisonf(BT_UNIMPLEMENTED,
                       "the operation \"%s\" has no %s (.%s of its options); bt_stop_gradient ends it", of->head.name,
                       what, member);
}

/* What a rule handed back, or poison when it is no such array. */
static bt_array *checked(const operation *of, const char *rule, bt_array *made, const bti_type *like) {
    if (!made)
        return bti_poisonf(BT_INVALID_ARGUMENT, "the %s rule of the operation \"%s\" hands back NULL", rule,
                           of->head.name);
    if (bti_array_error(made)) return bti_poisoned_by(&made, 1);
    const bti_node *node = bti_node_of(made);
    bool fits = bti_shapes_may_equal(node->rank, node->shape, like->rank, like->shape);
    if (fits && bti_dtype_is_float((bt_dtype)node->dtype) && bti_dtype_has_gradient(like->dtype))
        return bti_cast(made, like->dtype);
    if (fits && node->dtype == like->dtype) return made;
    return bti_poisonf(BT_INVALID_ARGUMENT, "the %s rule of the operation \"%s\" hands back %s %s, not %s %s", rule,
                       of->head.name, bt_dtype_name((bt_dtype)node->dtype),
                       bti_sizes_string(node->rank, node->shape).text, bt_dtype_name(like->dtype),
                       bti_sizes_string(like->rank, like->shape).text);
}

/* --- derivatives -------------------------------------------------------------------------------------------------------- */

void bti_gradient_custom(bti_backward *b) {
    const operation *of = bti_custom_of(b->node);
    bt_custom_args args = bti_custom_args_of(of, b->attr);
    bt_array *outputs[BT_MAX_CUSTOM_RESULTS];
    for (int o = 0; o < b->result_count && of->given.gradient; o++)
        outputs[o] = bti_known_result(b->tuple, b->known, o);
    if (of->given.gradient) of->given.gradient(b->x, b->count, outputs, b->results, b->gx, &args);
    for (int i = 0; i < b->count; i++) {
        bti_type x = bti_type_of(bti_node_of(b->x[i]));
        if (!b->wanted[i] || !bti_dtype_has_gradient(x.dtype))
            b->gx[i] = NULL;
        else if (!of->given.gradient)
            b->gx[i] = has_no(of, "gradient rule", "gradient");
        else if (b->gx[i])
            b->gx[i] = checked(of, "gradient", b->gx[i], &x);
    }
}

void bti_tangent_custom(bti_application *a) {
    const operation *of = bti_custom_of(a->node);
    bt_custom_args args = bti_custom_args_of(of, a->node->attr);
    bt_array *outputs[BT_MAX_CUSTOM_RESULTS];
    if (!bti_node_has_gradient(a->node)) return;
    for (int o = 0; o < a->results && of->given.tangent; o++) outputs[o] = bti_known_result(a->node, a->known, o);
    if (of->given.tangent) of->given.tangent(a->x, a->count, outputs, a->image, a->made, &args);
    for (int o = 0; o < a->results; o++) {
        const bti_type *type = bti_tuple_type(a->node->tuple, o);
        if (!a->known[o] || !bti_dtype_has_gradient(type->dtype))
            a->made[o] = NULL;
        else if (!of->given.tangent)
            a->made[o] = has_no(of, "tangent rule", "tangent");
        else if (a->made[o])
            a->made[o] = checked(of, "tangent", a->made[o], type);
    }
}

/* --- batches ------------------------------------------------------------------------------------------------------------ */

typedef struct rows {
    const bti_application *a;
    bt_array **inputs; /* room for those of one row */
} rows;

/* One row: the batched inputs are given, the others read from outside. */
static void call_for_row(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    const rows *r = data;
    const bti_node *node = r->a->node;
    (void)carry;
    for (int i = 0, given = 0; i < r->a->count; i++) r->inputs[i] = r->a->image[i] ? x[given++] : r->a->x[i];
    (void)!bti_record_custom(bti_custom_of(node), r->inputs, r->a->count, node->attr, y);
}

static void call_by_row(bti_application *a) {
    bt_array **room = bti_calloc(2 * (size_t)a->count, sizeof *room);
    rows r = {a, room + a->count};
    int batched = 0;
    for (int i = 0; i < a->count && room; i++)
        if (a->image[i]) room[batched++] = a->image[i];
    if (room)
        (void)!bt_scan(call_for_row, &r, BT_ALL_ROWS, NULL, 0, room, batched, a->made, a->results);
    else
        for (int o = 0; o < a->results; o++) a->made[o] = bti_array_new(NULL);
    bti_free(room);
}

static bt_status call_batch_rule(const operation *of, bti_application *a) {
    bt_custom_args args = bti_custom_args_of(of, a->node->attr);
    bt_array **inputs = bti_alloc((size_t)a->count * sizeof *inputs);
    bool *batched = bti_alloc((size_t)a->count * sizeof *batched);
    bool room = inputs && batched;
    for (int i = 0; i < a->count && room; i++) {
        batched[i] = a->image[i] != NULL;
        inputs[i] = batched[i] ? a->image[i] : a->x[i];
    }
    if (room) of->given.batch(inputs, batched, a->count, a->made, &args);
    bti_free(inputs);
    bti_free(batched);
    return room ? BT_OK : bti_no_memory();
}

/* As many of them, stacked along a new first axis. */
static bti_type stacked(const bti_type *type, int64_t size) {
    bti_type stack = {.dtype = type->dtype, .rank = type->rank + 1, .shape = {size}};
    for (int d = 0; d < type->rank && d < BTI_MAX_RANK - 1; d++) stack.shape[d + 1] = type->shape[d];
    return stack;
}

static bt_array *checked_stack(const bti_application *a, int result) {
    const operation *of = bti_custom_of(a->node);
    const bti_type *type = bti_tuple_type(a->node->tuple, result);
    bti_type stack = stacked(type, a->size);
    if (type->rank == BTI_MAX_RANK)
        return bti_poisonf(BT_INVALID_ARGUMENT,
                           "a result of the operation \"%s\" has %d axes, so a batch of it would have too many",
                           of->head.name, BTI_MAX_RANK);
    return checked(of, "batching", a->made[result], &stack);
}

void bti_batch_custom(bti_application *a) {
    const operation *of = bti_custom_of(a->node);
    if (!of->given.batch) {
        call_by_row(a);
        return;
    }
    bt_status status = call_batch_rule(of, a);
    for (int o = 0; o < a->results; o++)
        a->made[o] = status == BT_OK ? checked_stack(a, o) : bti_poison(bti_error_last());
}

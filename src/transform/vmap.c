/* Batches: a program recorded once more for stacks of its inputs. */
#include <berth/transform.h>

#include "array/place.h"
#include "base/alloc.h"
#include "function/call.h"
#include "function/function.h"
#include "ir/sequence.h"
#include "transform/batch.h"
#include "ops/rules.h"
#include "transform/retrace.h"

/* --- batches of arrays ------------------------------------------------------------------------------------------------ */

static bool is_of_an_input(const bti_node *node) { return node->symbolic; }

/* The placement log names what is made for the batch as it names the operation. */
static void name_as(bt_array *made, const bti_node *node) {
    if (!made || bti_array_error(made)) return;
    atomic_store(&bti_node_of(made)->in_gradient, atomic_load(&node->in_gradient));
    atomic_store(&bti_node_of(made)->logged, atomic_load(&node->logged));
}

static bt_status apply_batch_rule(bti_application *a) {
    bti_transform_rule *rule = bti_batch_rule_of((bti_op)a->node->op);
    if (!rule)
        return bti_fail(BT_UNIMPLEMENTED, "the operation %s cannot be batched", bti_op_info((bti_op)a->node->op)->name);
    bti_recorded before;
    bti_sequence_last(&before);
    rule(a);
    for (int i = 0; i < a->results; i++)
        if (a->y && bti_node_is_since(bti_node_of(a->made[i]), &before)) name_as(a->made[i], a->node);
    return BT_OK;
}

static bt_status transform_batch(const bti_application *of, bt_array *const *ys, int y_count, bt_array *const *leaves,
                                 bt_array *const *images, int leaf_count, bt_array **made) {
    return bti_batch(ys, y_count, leaves, images, leaf_count, of->size, made);
}

bt_status bti_batch(bt_array *const *ys, int y_count, bt_array *const *leaves, bt_array *const *images, int leaf_count,
                    int64_t size, bt_array **made) {
    bti_retrace r = {.leaves = leaves,
                     .images = images,
                     .leaf_count = leaf_count,
                     .size = size,
                     .passes = is_of_an_input,
                     .apply = apply_batch_rule,
                     .transform = transform_batch};
    return bti_retrace_all(&r, ys, y_count, made);
}

/* --- of functions ------------------------------------------------------------------------------------------------------ */

typedef struct vmap {
    bt_function *function;
    const int *in_axes, *out_axes; /* NULL: all 0 */
    int64_t size;                  /* of the batch: unknown */
    int leaf_count;
    bt_array **inputs;         /* of the new function */
    bt_array **plain;          /* what `function` is called with: those without the batch axis */
    bt_array **leaves, **rows; /* of `plain` those that are batched; what stands for them: the batch axis first */
    bt_array **outputs, **stacks;
} vmap;

/* The axis as it counts from the beginning of an array that has `rank` axes without the batch. */
static bt_status batch_axis(const int *axes, int index, int rank, const char *what, int *axis) {
    *axis = axes ? axes[index] : 0;
    if (*axis == BT_NOT_BATCHED) return BT_OK;
    if (rank == BTI_MAX_RANK)
        return bti_fail(BT_INVALID_ARGUMENT, "%s %d has %d axes already, the most there are", what, index, rank);
    if (*axis >= -rank - 1 && *axis <= rank) {
        if (*axis < 0) *axis += rank + 1;
        return BT_OK;
    }
    return bti_fail(BT_INVALID_ARGUMENT,
                    "the batch axis of %s %d is %d; the array has %d axes with it, so it must be in [%d, %d]", what,
                    index, *axis, rank + 1, -rank - 1, rank);
}

static bt_status make_vmap_input(vmap *v, int index) {
    const bti_node *input = v->function->inputs[index];
    bti_placement placement = {input->device, atomic_load(&input->committed), (bti_rule)input->rule};
    int64_t shape[BTI_MAX_RANK + 1];
    int axis, rank = input->rank;
    BTI_TRY(batch_axis(v->in_axes, index, rank, "input", &axis));
    bt_array *plain = bti_input_on(placement, (bt_dtype)input->dtype, rank, input->shape);
    v->plain[index] = v->inputs[index] = plain;
    if (axis == BT_NOT_BATCHED) return bti_fail_with(bti_array_error(plain));
    for (int i = 0; i <= rank; i++) shape[i] = i < axis ? input->shape[i] : i == axis ? v->size : input->shape[i - 1];
    bt_array *batched = bti_input_on(placement, (bt_dtype)input->dtype, rank + 1, shape);
    BTI_TRY(bti_fail_with(bti_array_error(plain)));
    BTI_TRY(bti_fail_with(bti_array_error(batched)));
    v->inputs[index] = batched;
    v->leaves[v->leaf_count] = plain;
    bti_recording_context before = bti_enter_context_of(input, false);
    v->rows[v->leaf_count] = bti_move_axis(batched, axis, 0);
    bti_leave_context(before);
    return bti_fail_with(bti_array_error(v->rows[v->leaf_count++]));
}

/* The output with the batch axis where it is wanted. */
static bt_status place_vmap_output(vmap *v, int index) {
    bt_array *plain = v->outputs[index], *stack = v->stacks[index];
    int axis;
    BTI_TRY(batch_axis(v->out_axes, index, bti_rank(plain), "output", &axis));
    if (axis == BT_NOT_BATCHED)
        return stack ? bti_fail(BT_INVALID_ARGUMENT,
                                "output %d depends on a batched input, so it needs a batch axis, not BT_NOT_BATCHED",
                                index)
                     : BT_OK;
    bti_recording_context before = bti_enter_context_of(bti_node_of(plain), false);
    if (!stack) stack = bti_repeated(plain, v->size);
    v->outputs[index] = bti_move_axis(stack, 0, axis);
    bti_leave_context(before);
    return bti_fail_with(bti_array_error(v->outputs[index]));
}

static bt_status record_vmap(vmap *v) {
    const bt_function *f = v->function;
    if (f->update_count)
        return bti_fail(BT_FAILED_PRECONDITION,
                        "the function updates shared variables, and a batch has no single new value for them; make a "
                        "function without updates, and set the variables from what its batch gives");
    if ((v->size = bti_symbol_new()) == 0) return bti_no_memory();
    for (int i = 0; i < f->input_count; i++) BTI_TRY(make_vmap_input(v, i));
    if (!v->leaf_count) return bti_fail(BT_INVALID_ARGUMENT, "none of the %d inputs is batched", f->input_count);
    BTI_TRY(bti_call_record(v->function, v->plain, f->input_count, v->outputs, false));
    BTI_TRY(bti_batch(v->outputs, f->output_count, v->leaves, v->rows, v->leaf_count, v->size, v->stacks));
    for (int i = 0; i < f->output_count; i++) BTI_TRY(place_vmap_output(v, i));
    return BT_OK;
}

static bt_function *vmap_function(bt_function *f, const int *in_axes, const int *out_axes) {
    size_t inputs = (size_t)f->input_count, outputs = (size_t)f->output_count;
    bt_array **room = bti_calloc(4 * inputs + 2 * outputs + 1, sizeof *room);
    if (!room) return bti_no_memory(), NULL;
    vmap v = {.function = f,
              .in_axes = in_axes,
              .out_axes = out_axes,
              .inputs = room,
              .plain = room + inputs,
              .leaves = room + 2 * inputs,
              .rows = room + 3 * inputs,
              .outputs = room + 4 * inputs,
              .stacks = room + 4 * inputs + outputs};
    bt_function *made = NULL;
    if (record_vmap(&v) == BT_OK) made = bt_function_new(v.inputs, f->input_count, v.outputs, f->output_count, NULL, 0);
    bti_free(room);
    return made;
}

bt_function *bt_vmap(bt_function *function, const int *in_axes, const int *out_axes) {
    BTI_PUBLIC("bt_vmap");
    bt_function *made = NULL;
    if (bti_handle_check(BTI_OWNED_FUNCTION, function, "bt_vmap") == BT_OK)
        made = vmap_function(function, in_axes, out_axes);
    return made ? made : bti_scope_own(&bti_function_class, NULL);
}

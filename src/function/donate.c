#include "function/donate.h"

#include "array/graph.h"

bt_status bt_function_donate(bt_function *f, int input) {
    BTI_PUBLIC("bt_function_donate");
    BTI_TRY(bti_handle_check(BTI_OWNED_FUNCTION, f, "bt_function_donate"));
    if (input < 0 || input >= f->input_count)
        return bti_fail(BT_OUT_OF_RANGE, "the function has %d inputs, and none of number %d", f->input_count, input);
    bti_lock_take(&f->lock);
    bool called = f->called;
    if (!called) f->donated_count += !f->donated[input];
    if (!called) f->donated[input] = true;
    bti_lock_give(&f->lock);
    if (called) return bti_fail(BT_FAILED_PRECONDITION, "the function was called before; donate its inputs first");
    return BT_OK;
}

/* --- the caller's side ------------------------------------------------------------------------------------------------ */

/* What the array is then: of the same dtype and shape, with the error of each use. */
static bti_node *error_node(const bti_node *like, int input) {
    bti_node *node = bti_node_new(BTI_OP_leaf, (bt_dtype)like->dtype, like->rank, like->shape, 0, NULL, NULL);
    if (!node) return NULL;
    node->error =
        bti_error_new(BT_INVALID_ARGUMENT,
                      "argument %d was donated to this call (bt_function_donate), so the array cannot be used "
                      "any more; use what the call returned, or donate a copy",
                      input + 1);
    node->device = like->device;
    node->place = bti_call_place();
    atomic_store(&node->state, BTI_FAILED);
    return node;
}

static bt_status check_once(const bt_function *f, bt_array *const *arguments, int input) {
    for (int i = 0; i < f->input_count; i++)
        if (i != input && arguments[i] == arguments[input])
            return bti_fail(BT_INVALID_ARGUMENT, "argument %d is donated, and it is argument %d too", input + 1, i + 1);
    return BT_OK;
}

static void drop_errors(const bt_function *f, bti_donated_call *call) {
    for (int i = 0; i < f->input_count && call->errors; i++) bti_node_release(call->errors[i]);
    bti_free(call->errors);
    call->errors = NULL;
}

bt_status bti_donate_begin(const bt_function *f, bt_array *const *arguments, bti_donated_call *call) {
    bt_status status = BT_OK;
    *call = (bti_donated_call){0};
    if (!f->donated_count) return BT_OK;
    for (int i = 0; i < f->input_count; i++) {
        BTI_TRY(bti_fail_with(bti_array_error(arguments[i])));
        if (bti_node_of(arguments[i])->symbolic) return BT_OK;
    }
    if (!(call->errors = bti_calloc((size_t)f->input_count, sizeof *call->errors))) return bti_no_memory();
    for (int i = 0; i < f->input_count && status == BT_OK; i++) {
        if (!f->donated[i]) continue;
        status = check_once(f, arguments, i);
        if (status == BT_OK && !(call->errors[i] = error_node(bti_node_of(arguments[i]), i))) status = bti_no_memory();
    }
    if (status != BT_OK) drop_errors(f, call);
    return status;
}

void bti_donate_end(const bt_function *f, bt_array *const *arguments, bt_array *const *outputs, bool succeeded,
                    bti_donated_call *call) {
    if (!call->errors) return;
    for (int i = 0; i < f->input_count && succeeded; i++) {
        if (!f->donated[i]) continue;
        bti_array_donate(arguments[i], call->errors[i]);
        call->errors[i] = NULL;
    }
    for (int o = 0; o < f->output_count && succeeded; o++)
        if (f->places.items[o] >= 0) bti_history_end(bti_node_of(outputs[o]), BTI_CUT_DONATED);
    drop_errors(f, call);
}

/* --- memory ----------------------------------------------------------------------------------------------------------- */

/* An output, or a variable's new value, is on the same node. */
static bool is_passed_on(const bti_ready_call *ready, int input) {
    for (int o = 0; o < ready->output_count; o++)
        if (ready->outputs[o].from == BTI_FROM_GIVEN && ready->outputs[o].index == input) return true;
    for (int n = 0; n < ready->set_count; n++)
        if (ready->sets[n].from == BTI_FROM_GIVEN && ready->sets[n].index == input) return true;
    return false;
}

bool bti_donate_plan(const bti_ready_call *ready, const bt_function *f, bti_plan *plan) {
    for (size_t s = 0; s < ready->storages.count && f->donated_count; s++) {
        bti_given_storage storage = ready->storages.items[s];
        bool donated = storage.given < f->input_count && f->donated[storage.given];
        if (donated && !is_passed_on(ready, storage.given) && !bti_plan_donate(plan, storage.storage)) return false;
    }
    return true;
}

/* By an array, which was checked to be one argument only, and by the call: no view, recorded operation, variable or other call has it. */
#define HOLDERS_OF_NODE 2

void bti_donate_to_run(const bti_ready_call *ready, const bt_function *f, const bti_origin *origin, bti_run *run) {
    for (size_t s = 0; s < ready->storages.count && origin->donates; s++) {
        bti_given_storage storage = ready->storages.items[s];
        if (storage.given >= f->input_count || !f->donated[storage.given]) continue;
        const bti_node *node = origin->given[storage.given];
        if (atomic_load(&node->refs) == HOLDERS_OF_NODE && atomic_load(&node->handles) == 1)
            bti_exec_donate(run, storage.storage);
    }
}

/* Calls. One whose kind was planned before runs by that plan: no node but those of the results, no planning, and nothing is
 * allocated. Anything unusual falls back to recording, which reports the error. */
#include <string.h>

#include "array/eval.h"
#include "array/claim.h"
#include "array/place.h"
#include "base/flags.h"
#include "base/guest.h"
#include "device/device.h"
#include "exec/host.h"
#include "function/body.h"
#include "function/donate.h"
#include "function/origin.h"
#include "function/ready_call.h"
#include "function/shared.h"
#include "function/updating.h"
#include "function/versions.h"
#include "function/call.h"

/* --- whether ---------------------------------------------------------------------------------------------------------- */

static bool told_of_each_operation(void) {
    return bti_flag_choice(BTI_FLAG_explain) != BTI_EXPLAIN_OFF || bti_flag_bool(BTI_FLAG_log_device_placement) ||
           bti_flag_bool(BTI_FLAG_sync) || bti_flag_choice(BTI_FLAG_check_nan) != BTI_CHECK_OFF;
}

static bool can_run_by_plan(const bt_function *f, bt_array *const *arguments) {
    if (bti_host_is_inside()) return false;
    if (told_of_each_operation() || bti_device_forked() || bti_forced_now()->on || bti_checkpoint_now()) return false;
    if (f->update_count && bti_sets_wait()) return false;
    for (int i = 0; i < f->input_count; i++)
        if (!arguments[i] || bti_node_of(arguments[i])->symbolic || bti_array_error(arguments[i])) return false;
    return true;
}

/* --- what is given ------------------------------------------------------------------------------------------------------ */

static size_t scalar_bytes(const bti_node *node, uint64_t *bits) {
    memcpy(bits, &node->attr->constant.bits, sizeof *bits);
    if (node->dtype == BT_F32) {
        double wide;
        memcpy(&wide, bits, sizeof wide);
        float narrow = (float)wide;
        memcpy(bits, &narrow, sizeof narrow);
    }
    return node->dtype == BT_F16 || node->dtype == BT_BF16 ? 0 : bt_dtype_size((bt_dtype)node->dtype);
}

/* A scalar from the caller, such as a learning rate, is written to memory directly: a plan for it would cost more. */
static void fill_scalar(bti_node *node) {
    uint64_t bits;
    bti_buffer *buffer;
    if (node->op != BTI_OP_const || node->rank || atomic_load(&node->state) != BTI_PENDING) return;
    if (!scalar_bytes(node, &bits) || bti_buffer_from_host(node, &bits, &buffer) != BT_OK) return;
    if (!bti_claim_node(node)) {
        bti_buffer_release(buffer);
        return;
    }
    node->buffer = buffer;
    bti_layout_dense(0, NULL, &node->layout);
    atomic_store(&node->state, BTI_DONE);
    bti_claim_end_node(node);
}

/* All DONE, computed now if need be. */
static bool compute_all(bti_node *const *nodes, int count) {
    bool pending = false, done = true;
    for (int i = 0; i < count; i++) fill_scalar(nodes[i]);
    for (int i = 0; i < count && !pending; i++) pending = atomic_load(&nodes[i]->state) == BTI_PENDING;
    if (pending && bti_eval_nodes(nodes, count, true) != BT_OK) return false;
    for (int i = 0; i < count && done; i++) done = atomic_load(&nodes[i]->state) == BTI_DONE;
    return done;
}

static bool read_variables(const bt_function *f, bti_node **values) {
    for (size_t i = 0; i < f->read.count; i++) {
        bti_node_release(values[i]);
        values[i] = NULL;
    }
    return bti_shared_values(f->read.items, f->replicas.items, f->read.count, values) &&
           compute_all(values, (int)f->read.count);
}

/* The plan for the variables' present values. Other calls may set them while a plan is made, which may take long. */
static bti_ready_call *find_ready_call(bt_function *f, bti_origin *origin, bool updates) {
    bti_plan_setting setting = bti_plan_setting_now();
    bti_node **values = origin->given + f->input_count;
    if (!read_variables(f, values)) return NULL;
    bti_ready_call *ready = bti_ready_call_find(f, origin->given, setting);
    if (ready || !updates) return ready ? ready : bti_ready_call_make(f, origin->given, setting);
    bti_updating_end(f);
    ready = bti_ready_call_make(f, origin->given, setting);
    bti_updating_begin(f);
    if (ready && read_variables(f, values) && bti_ready_call_fits(ready, origin->given, setting)) return ready;
    bti_ready_call_release(ready);
    return NULL;
}

/* --- what comes out ----------------------------------------------------------------------------------------------------- */

/* The gate of all that was given: sets that it depends on and that may still fail. *gate is retained. */
static bool join_gates_of(const bti_origin *origin, bti_gate **gate) {
    bool room = true;
    *gate = NULL;
    for (int i = 0; i < origin->given_count && room; i++)
        room = !origin->given[i]->gate || bti_gate_join(gate, origin->given[i]->gate);
    return room;
}

static bti_node *result_node(bti_run *run, const bti_source *source, bti_gate *gate) {
    bti_layout layout = bti_exec_result_layout(run, (size_t)source->index);
    const bti_node *like = source->node;
    bti_buffer *buffer = bti_buffer_retain(bti_exec_result(run, (size_t)source->index));
    bti_node *node = bti_node_done(BTI_OP_call, (bt_dtype)like->dtype, like->rank, like->shape, NULL, buffer, &layout);
    if (!node) {
        bti_buffer_release(buffer);
        return NULL;
    }
    bti_copy_marks(node, like);
    node->gate = bti_gate_retain(gate);
    return node;
}

static bt_array *make_output(const bt_function *f, const bti_ready_call *ready, bti_origin *origin, bti_run *run, int o,
                             bt_array *const *before, bti_gate *gate) {
    const bti_source *source = &ready->outputs[o];
    for (int i = 0; i < o; i++)
        if (f->outputs[i] == f->outputs[o]) return bti_array_on(bti_node_of(before[i]));
    if (source->from == BTI_FROM_CONSTANT || f->places.items[o] < 0)
        return bti_array_on(source->from == BTI_FROM_GIVEN ? origin->given[source->index] : f->outputs[o]);
    bti_node *node = result_node(run, source, gate);
    if (node) bti_origin_add(origin, o, node);
    return bti_array_new(node);
}

static bool make_outputs(const bt_function *f, const bti_ready_call *ready, bti_origin *origin, bti_run *run,
                         bt_array **outputs, bti_gate *gate) {
    for (int o = 0; o < f->output_count; o++) {
        outputs[o] = make_output(f, ready, origin, run, o, outputs, gate);
        if (atomic_load(&bti_node_of(outputs[o])->state) == BTI_FAILED) return false;
    }
    return true;
}

static bti_set_step *make_step(const bti_ready_call *ready, const bti_origin *origin, bti_run *run, bti_gate *gate) {
    bti_set_step *step = bti_set_step_new(ready->set_count, gate);
    for (int n = 0; n < ready->set_count && step; n++) {
        const bti_source *source = &ready->sets[n];
        bool planned = source->from == BTI_FROM_PLAN;
        const bti_node *node = source->from == BTI_FROM_GIVEN ? origin->given[source->index] : source->node;
        bti_buffer *buffer = planned ? bti_exec_result(run, (size_t)source->index) : node->buffer;
        bti_layout layout = planned ? bti_exec_result_layout(run, (size_t)source->index) : node->layout;
        if (bti_set_step_add(step, ready->updated[n], ready->replicas[n], buffer, &layout)) continue;
        bti_set_step_drop(step);
        return NULL;
    }
    return step;
}

/* --- running ------------------------------------------------------------------------------------------------------------ */

/* A run with its memory; NULL when that is short. */
static bti_run *reserve_run(const bt_function *f, const bti_ready_call *ready, const bti_origin *origin) {
    bti_run *run = bti_exec_begin(ready->prepared);
    if (!run) return NULL;
    for (size_t s = 0; s < ready->storages.count; s++) {
        const bti_given_storage *storage = &ready->storages.items[s];
        const bti_node *given = origin->given[storage->given];
        int64_t further = given->layout.offset - ready->given[storage->given]->layout.offset;
        bti_exec_give(run, storage->storage, given->buffer, further * (int64_t)bt_dtype_size((bt_dtype)given->dtype));
    }
    bti_donate_to_run(ready, f, origin, run);
    bti_error *error;
    bool quiet = bti_errors_quiet(true); /* the evaluation of the recorded call reports it */
    bool reserved = bti_exec_reserve(run, &error) == BT_OK;
    bti_errors_quiet(quiet);
    bti_error_release(error);
    return reserved ? run : NULL;
}

/* Submits the plan's work; *end: the number of its end in the queue. */
static bool launch_run(bt_function *f, bti_origin *origin, const bti_ready_call *ready, bt_array **outputs,
                       bt_status *status, uint64_t *end) {
    *status = bti_shared_throttle(ready->updated, ready->replicas, ready->set_count);
    if (*status != BT_OK) return true;
    bti_run *run = reserve_run(f, ready, origin);
    if (!run) return false;
    bti_gate *gate;
    bool room = join_gates_of(origin, &gate);
    bti_set_step *step = room && f->update_count ? make_step(ready, origin, run, gate) : NULL;
    bti_origin_number(origin);
    room = room && (step || !f->update_count) && make_outputs(f, ready, origin, run, outputs, gate);
    bti_gate_release(gate);
    if (!room) {
        if (step) bti_set_step_drop(step);
        bti_exec_abandon(run);
        return false;
    }
    *end = bti_exec_start(run);
    if (step) *status = bti_set_step_commit(step, ready->updated, ready->replicas);
    return true;
}

static bool run_by_plan(bt_function *f, bti_origin *origin, bt_array **outputs, bt_status *status) {
    BTI_NO_CANCEL; /* variables are marked */
    bool updates = f->update_count > 0, done = false, deferred;
    uint64_t end = 0;
    if (!compute_all(origin->given, f->input_count)) return false;
    deferred = bti_errors_defer(); /* the handler may call */
    bti_updating_begin(f);
    bti_ready_call *ready = find_ready_call(f, origin, updates);
    if (ready && ready->prepared) done = launch_run(f, origin, ready, outputs, status, &end);
    bti_updating_end(f);
    bti_errors_tell_deferred(deferred);
    if (done && end) {
        bti_exec_dispatch(ready->prepared, end);
        bti_exec_throttle();
    }
    bti_ready_call_release(ready);
    return done;
}

static bool call_by_plan(bt_function *f, bt_array *const *arguments, bt_array **outputs, bool donates,
                         bt_status *status) {
    if (!can_run_by_plan(f, arguments)) return false;
    bti_origin *origin = bti_origin_new(f);
    if (!origin) return false;
    origin->donates = donates;
    for (int i = 0; i < f->input_count; i++) origin->given[i] = bti_node_retain(bti_node_of(arguments[i]));
    bti_error *before = bti_error_last();
    bool done = run_by_plan(f, origin, outputs, status);
    if (done)
        bti_error_release(before);
    else
        bti_error_put_back(before); /* recording reports the error */
    bti_origin_drop(origin);
    return done;
}

/* --- recording -------------------------------------------------------------------------------------------------------- */

/* Under transfers=error: whether an argument may go where the input was committed to. */
static bt_status check_argument_transfer(const bt_function *f, int index, const bt_array *argument) {
    const bti_node *input = f->inputs[index], *given = bti_node_of(argument);
    if (!atomic_load(&input->committed) || !bti_transfer_refused(given, input->device)) return BT_OK;
    bti_error *error = bti_transfer_error(
        given, input->device, "x", "is argument %d, whose input was made on %s at %s:%d", index + 1,
        bt_device_name(bti_device_at(input->device)), bti_site_file(input->place.site), input->place.site.line);
    bt_status status = bti_fail_with(error);
    bti_error_release(error);
    return status;
}

/* The values of all variables, as they are at one moment. */
static bt_status put_in_variables(bti_body_call *c) {
    const bt_function *f = c->function;
    bti_node **values = bti_calloc(f->read.count, sizeof *values);
    bool read = values && bti_shared_values(f->read.items, f->replicas.items, f->read.count, values);
    if (read) bti_call_set_values(c, values);
    for (size_t i = 0; i < f->read.count && values; i++) bti_node_release(values[i]);
    bti_free(values);
    return read ? BT_OK : bti_no_memory();
}

static bt_status stand_in_all(bti_body_call *c, bt_array *const *arguments) {
    BTI_TRY(bti_call_begin_recording(c));
    for (int i = 0; i < c->function->input_count; i++) {
        BTI_TRY(bti_fail_with(bti_array_error(arguments[i])));
        BTI_TRY(check_argument_transfer(c->function, i, arguments[i]));
        bt_array *argument = bti_call_argument(c->function, i, arguments[i]);
        BTI_TRY(bti_fail_with(bti_array_error(argument)));
        BTI_TRY(bti_call_bind(c, i, bti_node_of(argument)));
    }
    BTI_TRY(put_in_variables(c));
    return bti_call_body(c);
}

static bt_status commit_updates(bti_body_call *c) {
    const bt_function *f = c->function;
    bt_array **values = bti_alloc((size_t)f->update_count * sizeof *values);
    if (!values) return bti_no_memory();
    for (int i = 0; i < f->update_count; i++) values[i] = bti_array_on(bti_call_stand_in(c, f->updates[i]));
    bt_status status = bt_set_all(f->updated, values, f->update_count);
    bti_free(values);
    return status;
}

bt_status bti_call_record(bt_function *f, bt_array *const *arguments, int argument_count, bt_array **outputs,
                          bool with_updates) {
    BTI_TRY(bti_handle_check(BTI_OWNED_FUNCTION, f, "bt_call"));
    if (argument_count != f->input_count)
        return bti_fail(BT_INVALID_ARGUMENT, "the function takes %d arguments, not %d", f->input_count, argument_count);
    BTI_TRY(bti_check_list(arguments, argument_count, "arguments"));
    with_updates = with_updates && f->update_count > 0;
    for (int i = 0; i < argument_count && with_updates; i++)
        if (arguments[i] && bti_node_of(arguments[i])->symbolic)
            return bti_fail(BT_FAILED_PRECONDITION,
                            "a function with updates cannot be recorded into another; list the updates with that one");
    if (with_updates) {
        BTI_TRY(bti_host_check());
        bti_updating_begin(f);
    }
    bti_body_call c = {.function = f};
    bt_status status = stand_in_all(&c, arguments);
    for (int i = 0; i < f->output_count && status == BT_OK; i++)
        outputs[i] = bti_array_on(bti_call_stand_in(&c, f->outputs[i]));
    if (status == BT_OK && with_updates) status = commit_updates(&c);
    if (with_updates) bti_updating_end(f);
    for (size_t i = 0; i < f->body.count && status == BT_OK;
         i++) /* counted as recorded, so that loops of calls are flushed too */
        if (f->body.items[i]->op != BTI_OP_value) bti_eval_recorded(c.stand_ins[(size_t)f->input_count + i]);
    bti_call_end_recording(&c);
    return status;
}

static bt_status run_or_record(bt_function *f, bt_array *const *arguments, int argument_count, bt_array **outputs,
                               int output_count) {
    bt_status status = BT_OK;
    BTI_TRY(bti_handle_check(BTI_OWNED_FUNCTION, f, "bt_call"));
    if (output_count != f->output_count)
        return bti_fail(BT_INVALID_ARGUMENT, "the function has %d outputs, not %d", f->output_count, output_count);
    bool fits = argument_count == f->input_count && (!argument_count || arguments);
    bti_donated_call donated = {0};
    if (fits) BTI_TRY(bti_donate_begin(f, arguments, &donated));
    if (!fits || !call_by_plan(f, arguments, outputs, donated.errors, &status))
        status = bti_call_record(f, arguments, argument_count, outputs, true);
    bti_donate_end(f, arguments, outputs, status == BT_OK, &donated);
    return status;
}

bt_status bt_call(bt_function *f, bt_array *const *arguments, int argument_count, bt_array **outputs,
                  int output_count) {
    BTI_PUBLIC("bt_call");
    BTI_TRY(bti_check_list(outputs, output_count, "outputs"));
    bt_status status = run_or_record(f, arguments, argument_count, outputs, output_count);
    for (int i = 0; i < output_count; i++) {
        if (status != BT_OK) outputs[i] = bti_poison(bti_error_last());
        outputs[i] = bti_public_keep(&bti_public_, outputs[i]);
    }
    return status;
}

bt_array *bt_call1(bt_function *f, bt_array *const *arguments, int argument_count) {
    BTI_PUBLIC("bt_call1");
    bt_array *output = NULL; /* poisoned when the call fails */
    (void)!bt_call(f, arguments, argument_count, &output, 1);
    return bti_public_keep(&bti_public_, output);
}

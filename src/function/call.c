/* Calls by plans made before: no node but those of the results, no planning; after a first call of its kind nothing is
 * allocated. What is odd in any way is left to recording, which says what is wrong with it. */
#include <string.h>

#include "function/origin.h"
#include "function/ready_call.h"
#include "function/shared.h"
#include "base/flags.h"

/* --- whether ---------------------------------------------------------------------------------------------------------- */

static bool told_of_each_operation(void) {
    return bti_flag_choice(BTI_FLAG_explain) != BTI_EXPLAIN_OFF || bti_flag_bool(BTI_FLAG_log_device_placement) ||
           bti_flag_bool(BTI_FLAG_sync);
}

static bool can_run(const bt_function *f, bt_array *const *arguments) {
    if (told_of_each_operation() || bti_device_forked() || bti_forced_now()->on) return false;
    if (f->update_count && bti_sets_wait()) return false;
    for (int i = 0; i < f->input_count; i++)
        if (!arguments[i] || bti_node_of(arguments[i])->symbolic || bti_array_error(arguments[i])) return false;
    return true;
}

/* --- what is given ------------------------------------------------------------------------------------------------------ */

static size_t scalar_bytes(const bti_node *node, uint64_t *bits) {
    memcpy(bits, node->attr, sizeof *bits);
    if (node->dtype == BT_F32) {
        double wide;
        memcpy(&wide, bits, sizeof wide);
        float narrow = (float)wide;
        memcpy(bits, &narrow, sizeof narrow);
    }
    return node->dtype == BT_F16 || node->dtype == BT_BF16 ? 0 : bt_dtype_size((bt_dtype)node->dtype);
}

/* A number of the caller's, such as a learning rate, is written where it is needed: a plan for it would cost more. */
static void fill_scalar(bti_node *node) {
    uint64_t bits;
    bti_buffer *buffer;
    if (node->op != BTI_OP_const || node->rank || atomic_load(&node->state) != BTI_PENDING) return;
    if (!scalar_bytes(node, &bits) || bti_buffer_from_host(node, &bits, &buffer) != BT_OK) return;
    bti_graph_lock();
    if (atomic_load(&node->state) == BTI_PENDING) {
        node->buffer = buffer;
        bti_layout_dense(0, NULL, &node->layout);
        atomic_store(&node->state, BTI_DONE);
        buffer = NULL;
    }
    bti_graph_unlock();
    bti_buffer_release(buffer);
}

/* All DONE, computed now if need be. */
static bool compute(bti_node *const *nodes, int count) {
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
           compute(values, (int)f->read.count);
}

/* The plan for what the variables hold now; making one, which may take long, keeps no other call waiting. */
static bti_ready_call *find_plan(bt_function *f, bti_origin *origin, bool updates) {
    bti_plan_setting setting = bti_plan_setting_now();
    bti_node **values = origin->given + f->input_count;
    if (!read_variables(f, values)) return NULL;
    bti_ready_call *ready = bti_ready_call_find(f, origin->given, setting);
    if (ready || !updates) return ready ? ready : bti_ready_call_make(f, origin->given, setting);
    bti_updates_unlock();
    ready = bti_ready_call_make(f, origin->given, setting);
    bti_ready_call_release(ready);
    bti_updates_lock();
    return ready && read_variables(f, values) ? bti_ready_call_find(f, origin->given, setting) : NULL;
}

/* --- what comes out ----------------------------------------------------------------------------------------------------- */

/* The sets that may still fail and that something given depends on; *gate is retained. */
static bool gate_of(const bti_origin *origin, bti_gate **gate) {
    bool room = true;
    *gate = NULL;
    for (int i = 0; i < origin->given_count && room; i++)
        room = !origin->given[i]->gate || bti_gate_join(gate, origin->given[i]->gate);
    return room;
}

static bti_node *result_node(const bti_ready_call *ready, bti_run *run, const bti_source *source, bti_gate *gate) {
    const bti_plan *plan = bti_prepared_plan(ready->prepared);
    const bti_node *like = source->node;
    bti_buffer *buffer = bti_buffer_retain(bti_exec_result(run, (size_t)source->index));
    bti_node *node = bti_node_done(BTI_OP_copy, (bt_dtype)like->dtype, like->rank, like->shape, 0, NULL, buffer,
                                   &plan->values.items[plan->results.items[source->index].value].layout);
    if (!node) {
        bti_buffer_release(buffer);
        return NULL;
    }
    bti_copy_marks(node, like);
    node->gate = bti_gate_retain(gate);
    return node;
}

static bt_array *output(const bt_function *f, const bti_ready_call *ready, bti_origin *origin, bti_run *run, int o,
                        bt_array *const *before, bti_gate *gate) {
    const bti_source *source = &ready->outputs[o];
    for (int i = 0; i < o; i++)
        if (f->outputs[i] == f->outputs[o]) return bti_array_on(bti_node_of(before[i]));
    if (source->from == BTI_FROM_CONSTANT || f->places.items[o] < 0)
        return bti_array_on(source->from == BTI_FROM_GIVEN ? origin->given[source->index] : f->outputs[o]);
    bti_node *node = result_node(ready, run, source, gate);
    if (node) bti_origin_add(origin, o, node);
    return bti_array_new(node);
}

static bool make_outputs(const bt_function *f, const bti_ready_call *ready, bti_origin *origin, bti_run *run,
                         bt_array **outputs, bti_gate *gate) {
    for (int o = 0; o < f->output_count; o++) {
        outputs[o] = output(f, ready, origin, run, o, outputs, gate);
        if (atomic_load(&bti_node_of(outputs[o])->state) == BTI_FAILED) return false;
    }
    return true;
}

static bti_set_step *make_step(const bti_ready_call *ready, const bti_origin *origin, bti_run *run, bti_gate *gate) {
    const bti_plan *plan = bti_prepared_plan(ready->prepared);
    bti_set_step *step = bti_set_step_new(ready->set_count, gate);
    for (int n = 0; n < ready->set_count && step; n++) {
        const bti_source *source = &ready->sets[n];
        bool planned = source->from == BTI_FROM_PLAN;
        const bti_node *node = source->from == BTI_FROM_GIVEN ? origin->given[source->index] : source->node;
        bti_buffer *buffer = planned ? bti_exec_result(run, (size_t)source->index) : node->buffer;
        const bti_layout *layout =
            planned ? &plan->values.items[plan->results.items[source->index].value].layout : &node->layout;
        if (bti_set_step_give(step, ready->updated[n], ready->replicas[n], buffer, layout)) continue;
        bti_set_step_drop(step);
        return NULL;
    }
    return step;
}

/* --- running ------------------------------------------------------------------------------------------------------------ */

/* A run with its memory; NULL when that is short. */
static bti_run *reserve(const bti_ready_call *ready, const bti_origin *origin) {
    bti_run *run = bti_exec_begin(ready->prepared);
    if (!run) return NULL;
    for (size_t s = 0; s < ready->storages.count; s++) {
        const bti_given_storage *storage = &ready->storages.items[s];
        bti_exec_give(run, storage->storage, origin->given[storage->given]->buffer);
    }
    bti_error *error;
    bool quiet = bti_errors_quiet(true); /* whoever evaluates what is recorded instead says so */
    bool reserved = bti_exec_reserve(run, &error) == BT_OK;
    bti_errors_quiet(quiet);
    bti_error_release(error);
    return reserved ? run : NULL;
}

/* From the plan to work under way; *end: of it. */
static bool launch(bt_function *f, bti_origin *origin, const bti_ready_call *ready, bt_array **outputs,
                   bt_status *status, uint64_t *end) {
    *status = BT_OK;
    for (int n = 0; n < ready->set_count && *status == BT_OK; n++)
        *status = bti_shared_pace(ready->updated[n], ready->replicas[n]);
    if (*status != BT_OK) return true;
    bti_run *run = reserve(ready, origin);
    if (!run) return false;
    bti_gate *gate;
    bool room = gate_of(origin, &gate);
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

static bool run_call(bt_function *f, bti_origin *origin, bt_array **outputs, bt_status *status) {
    bool updates = f->update_count > 0, done = false;
    uint64_t end = 0;
    if (!compute(origin->given, f->input_count)) return false;
    if (updates) bti_updates_lock();
    bti_ready_call *ready = find_plan(f, origin, updates);
    if (ready && ready->prepared) done = launch(f, origin, ready, outputs, status, &end);
    if (updates) bti_updates_unlock();
    if (done && end) {
        bti_exec_urge(ready->prepared, end);
        bti_exec_keep_pace(ready->prepared, end);
    }
    bti_ready_call_release(ready);
    return done;
}

bool bti_call_prepared(bt_function *f, bt_array *const *arguments, bt_array **outputs, bt_status *status) {
    if (!can_run(f, arguments)) return false;
    bti_origin *origin = bti_origin_new(f);
    if (!origin) return false;
    for (int i = 0; i < f->input_count; i++) origin->given[i] = bti_node_retain(bti_node_of(arguments[i]));
    bti_error *before = bti_error_last();
    bool done = run_call(f, origin, outputs, status);
    if (done)
        bti_error_release(before);
    else
        bti_error_put_back(before); /* recording tells what there is to tell */
    bti_origin_drop(origin);
    return done;
}

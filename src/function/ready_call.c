/* Making calls ready: the body is recorded once, on nodes that stand for arguments and values and have no memory. */
#include "function/ready_call.h"

#include "array/claim.h"
#include "array/eval.h"
#include "array/move.h"
#include "array/place.h"
#include "base/lock.h"
#include "base/flags.h"
#include "base/guest.h"
#include "function/body.h"
#include "function/donate.h"
#include "function/shared.h"

bti_plan_setting bti_plan_setting_now(void) {
    return (bti_plan_setting){.fusing = bti_fusing_now(),
                              .kernels = bti_flag_choice(BTI_FLAG_kernels),
                              .replica = bti_in_replica() ? bti_replica() : -1,
                              .policy = bti_transfers_now(),
                              .default_device = bti_default_device_own()};
}

/* --- recording -------------------------------------------------------------------------------------------------------- */

/* No two share a buffer, and none has memory. */
static bti_node *stand_in_for(const bti_node *given) {
    bti_buffer *buffer = bti_buffer_new(given->device, (size_t)bti_node_bytes(given), given);
    bti_node *node = buffer ? bti_node_done(BTI_OP_leaf, (bt_dtype)given->dtype, given->rank, given->shape, NULL,
                                            buffer, &given->layout)
                            : NULL;
    if (!node) {
        bti_buffer_release(buffer);
        return NULL;
    }
    node->device = given->device;
    node->committed = atomic_load(&given->committed);
    node->weak = given->weak;
    node->place = given->place;
    return node;
}

static bti_ready_call *new_ready(const bt_function *f, bti_node *const *given, bti_plan_setting setting) {
    bti_ready_call *ready = bti_calloc(1, sizeof *ready);
    if (!ready) return NULL;
    bti_ready_call_begin(ready);
    ready->setting = setting;
    ready->given_count = f->input_count + (int)f->read.count;
    ready->output_count = f->output_count;
    for (int i = 0; i < f->update_count; i++)
        ready->set_count += setting.replica >= 0 ? 1 : bti_shared_replicas(f->updated[i]);
    ready->given = bti_calloc((size_t)ready->given_count, sizeof *ready->given);
    ready->outputs = bti_calloc((size_t)ready->output_count, sizeof *ready->outputs);
    ready->sets = bti_calloc((size_t)ready->set_count, sizeof *ready->sets);
    ready->updated = bti_calloc((size_t)ready->set_count, sizeof *ready->updated);
    ready->replicas = bti_calloc((size_t)ready->set_count, sizeof *ready->replicas);
    bool room = ready->given && ready->outputs && ready->sets && ready->updated && ready->replicas;
    for (int i = 0; i < ready->given_count && room; i++) room = (ready->given[i] = stand_in_for(given[i]));
    if (room) return ready;
    bti_ready_call_release(ready);
    return NULL;
}

static bt_status record_stand_ins(bti_body_call *c, bti_ready_call *ready) {
    const bt_function *f = c->function;
    BTI_TRY(bti_call_begin_recording(c));
    for (int i = 0; i < f->input_count; i++) {
        const bti_node *input = f->inputs[i];
        bti_node *given = ready->given[i];
        bt_dtype dtype = (bt_dtype)(given->weak ? input->dtype : given->dtype);
        int device = atomic_load(&input->committed) ? input->device : given->device;
        if (bti_transfer_refused(given, device)) return BT_FAILED_PRECONDITION;
        bti_node *fit = bti_node_fit(given, dtype, device);
        bt_status status = fit ? bti_call_bind(c, i, fit) : bti_no_memory();
        bti_node_release(fit);
        BTI_TRY(status);
    }
    bti_call_set_values(c, ready->given + f->input_count);
    return bti_call_body(c);
}

/* The nodes that outputs and sets come from. */
static bool take_results(const bti_body_call *c, bti_ready_call *ready) {
    const bt_function *f = c->function;
    int n = 0;
    for (int o = 0; o < f->output_count; o++)
        ready->outputs[o].node = bti_node_retain(bti_call_stand_in(c, f->outputs[o]));
    for (int u = 0; u < f->update_count; u++)
        for (int r = 0; r < bti_shared_replicas(f->updated[u]); r++) {
            if (ready->setting.replica >= 0 && ready->setting.replica != r) continue;
            ready->updated[n] = f->updated[u];
            ready->replicas[n] = r;
            if (bti_shared_refused(f->updated[u], r, bti_call_stand_in(c, f->updates[u]))) return false;
            ready->sets[n].node = bti_shared_fit(f->updated[u], r, bti_call_stand_in(c, f->updates[u]));
            if (!ready->sets[n++].node) return false;
        }
    ready->set_count = n; /* a replica that the variable does not have is not set */
    return true;
}

/* --- planning --------------------------------------------------------------------------------------------------------- */

static int given_index(const bti_ready_call *ready, const bti_buffer *buffer) {
    int index = ready->given_count;
    while (index-- > 0 && ready->given[index]->buffer != buffer) {
    }
    return index;
}

static bool is_computed(const bti_source *source) { return atomic_load(&source->node->state) == BTI_PENDING; }

static bool find_source(const bti_ready_call *ready, const bti_plan *plan, bti_source *source) {
    if (!is_computed(source)) {
        source->index = given_index(ready, source->node->buffer);
        source->from = source->index < 0 ? BTI_FROM_CONSTANT : BTI_FROM_GIVEN;
        return atomic_load(&source->node->state) == BTI_DONE;
    }
    source->index = (int)plan->results.count;
    while (source->index-- > 0 && plan->results.items[source->index].node != source->node) {
    }
    source->from = BTI_FROM_PLAN;
    return source->index >= 0;
}

static bool find_all_sources(bti_ready_call *ready, const bti_plan *plan) {
    for (int o = 0; o < ready->output_count; o++)
        if (!find_source(ready, plan, &ready->outputs[o])) return false;
    for (int n = 0; n < ready->set_count; n++)
        if (!find_source(ready, plan, &ready->sets[n])) return false;
    for (size_t s = 0; s < plan->storages.count; s++) {
        const bti_buffer *external = plan->storages.items[s].external;
        int given = external ? given_index(ready, external) : -1;
        if (given >= 0 && !bti_vec_push(&ready->storages, ((bti_given_storage){(int32_t)s, given}))) return false;
    }
    return true;
}

/* Nothing in the order failed before it ran, and nothing depends on an input that is not given. */
static bool can_be_planned(const bti_order *order) {
    for (size_t i = 0; i < order->count; i++) {
        if (order->items[i]->symbolic) return false;
        for (int k = 0; k < order->items[i]->input_count; k++)
            if (atomic_load(&order->items[i]->inputs[k]->state) == BTI_FAILED) return false;
    }
    return true;
}

static bool copies_are_logged(const bti_plan *plan) {
    for (size_t s = 0; s < plan->steps.count; s++)
        if (plan->steps.items[s].kind == BTI_STEP_COPY && plan->steps.items[s].reader->log_copies) return true;
    return false;
}

static bool plan_recorded(const bt_function *f, bti_ready_call *ready, bti_plan *plan) {
    bti_nodes wants = {0};
    bti_planning how = bti_planning_with(ready->setting.fusing, NULL);
    bool fine = bti_vec_reserve(&wants, (size_t)(ready->output_count + ready->set_count));
    for (int o = 0; o < ready->output_count && fine; o++)
        if (is_computed(&ready->outputs[o])) wants.items[wants.count++] = ready->outputs[o].node;
    for (int n = 0; n < ready->set_count && fine; n++)
        if (is_computed(&ready->sets[n])) wants.items[wants.count++] = ready->sets[n].node;
    bti_order order = {0};
    fine = fine && bti_claim(wants.items, wants.count, &order) == BT_OK && can_be_planned(&order) &&
           bti_vec_reserve(&ready->order, order.count) &&
           bti_compile(&order, wants.items, wants.count, &how, plan) == BT_OK && find_all_sources(ready, plan) &&
           bti_donate_plan(ready, f, plan);
    for (size_t i = 0; i < order.count && fine; i++)
        ready->order.items[ready->order.count++] = bti_node_retain(order.items[i]);
    bti_claim_end(&order);
    bti_vec_free(&wants);
    return fine;
}

bti_ready_call *bti_ready_call_plan(bt_function *f, bti_node *const *given, bti_plan_setting setting, bti_plan *plan) {
    bti_ready_call *ready = new_ready(f, given, setting);
    bti_body_call c = {.function = f};
    bool fine = ready && record_stand_ins(&c, ready) == BT_OK && take_results(&c, ready);
    fine = fine && plan_recorded(f, ready, plan);
    bti_call_end_recording(&c);
    if (fine) return ready;
    bti_plan_free(plan);
    bti_ready_call_release(ready);
    return NULL;
}

static bti_ready_call *prepare_ready_call(bt_function *f, bti_node *const *given, bti_plan_setting setting) {
    bti_plan plan = {0};
    bti_plan_store_note_made();
    bool quiet = bti_errors_quiet(true); /* a call that fails is recorded, which reports the error */
    bti_ready_call *ready = bti_ready_call_plan(f, given, setting, &plan);
    bti_errors_quiet(quiet);
    if (!ready) {
        bti_plan_free(&plan);
        return NULL;
    }
    bool fine = copies_are_logged(&plan) || bti_exec_prepare(&plan, &ready->prepared) == BT_OK;
    bti_plan_free(&plan);
    if (fine) return ready;
    bti_ready_call_release(ready);
    return NULL;
}

bti_ready_call *bti_ready_call_make(bt_function *f, bti_node *const *given, bti_plan_setting setting) {
    BTI_NO_CANCEL; /* the function is marked */
    bti_lock_take(&f->lock);
    while (f->making) bti_lock_wait(&f->lock, &f->made);
    f->making = f->called = true;
    bti_lock_give(&f->lock);
    bti_ready_call *ready = bti_ready_call_find(f, given, setting);
    if (!ready && (ready = prepare_ready_call(f, given, setting))) bti_ready_call_keep(f, ready);
    bti_lock_take(&f->lock);
    f->making = false;
    pthread_cond_broadcast(&f->made);
    bti_lock_give(&f->lock);
    return ready;
}

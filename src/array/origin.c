#include "array/origin.h"

#include "array/build.h"
#include "array/call.h"
#include "array/history.h"
#include "base/fork.h"
#include "base/recycle.h"

typedef struct origin {
    bti_origin base;
    bt_function *function; /* retained while there are users */
    uint64_t sequence;     /* of the first node: two for each argument, two for each of the body */
    size_t bytes;
    bool recorded;       /* under the graph lock */
    int count;           /* of results */
    bti_node *results[]; /* by output: those that are there; changed under `slots` */
} origin;

static pthread_mutex_t slots = PTHREAD_MUTEX_INITIALIZER;
BTI_RENEW_IN_CHILD(slots)

static bt_status no_memory(void) { return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory"); }

/* --- their life ------------------------------------------------------------------------------------------------------- */

static void let_go(origin *o) {
    if (atomic_fetch_sub_explicit(&o->base.refs, 1, memory_order_acq_rel) == 1) bti_recycled_free(o, o->bytes);
}

static void unused(bti_origin *base) { bt_function_release(((origin *)base)->function); }

static void left(bti_origin *base, bti_node *result) {
    origin *o = (origin *)base;
    if (o->count > 1) pthread_mutex_lock(&slots);
    for (int i = 0; i < o->count; i++)
        if (o->results[i] == result) o->results[i] = NULL;
    if (o->count > 1) pthread_mutex_unlock(&slots);
    let_go(o);
}

__attribute__((constructor)) static void tell_below(void) { bti_node_set_origin_hooks(unused, left); }

bti_origin *bti_origin_new(bt_function *f) {
    size_t given = (size_t)f->input_count + f->read.count, results = (size_t)f->output_count;
    size_t bytes = sizeof(origin) + (given + results) * sizeof(bti_node *);
    origin *o = bti_recycled_new(bytes);
    if (!o) return NULL;
    atomic_init(&o->base.refs, 1);
    atomic_init(&o->base.users, 1);
    o->base.given = o->results + results;
    o->base.given_count = (int)given;
    o->bytes = bytes;
    o->function = bt_function_retain(f);
    o->count = f->output_count;
    return &o->base;
}

void bti_origin_drop(bti_origin *base) {
    bti_origin_leave(base);
    let_go((origin *)base);
}

void bti_origin_number(bti_origin *base) {
    origin *o = (origin *)base;
    o->sequence = bti_node_sequence_take(2 * ((size_t)o->function->input_count + o->function->body.count)) + 1;
}

static uint64_t body_sequence(const origin *o) { return o->sequence + 2 * (uint64_t)o->function->input_count; }

void bti_origin_add(bti_origin *base, int output, bti_node *result) {
    origin *o = (origin *)base;
    bti_history_number(result, body_sequence(o) + 2 * (uint64_t)o->function->places.items[output] + 1);
    for (int i = 0; i < base->given_count; i++) bti_history_derive(result, base->given[i]);
    result->origin = base;
    o->results[output] = result;
    atomic_fetch_add_explicit(&base->refs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&base->users, 1, memory_order_relaxed);
}

/* --- recording -------------------------------------------------------------------------------------------------------- */

static bool hidden(const bti_node *node) { return node->origin && !node->left_origin; }

bool bti_origins_note(bti_origins *origins, bti_node *node) {
    if (!hidden(node)) return true;
    if (!bti_vec_push(origins, node)) return false;
    bti_node_retain(node);
    return true;
}

/* An argument as the input takes it; what is recorded for that stands before the body. */
static bt_status bind(bti_call *c, const origin *o, int index) {
    bti_node *given = o->base.given[index];
    bti_forced there = {
        .on = true, .device = given->device, .committed = atomic_load(&given->committed), .place = bti_call_place()};
    bti_forced before = bti_force(there);
    bt_array *argument = bti_call_argument(o->function, index, bti_array_on(given));
    bti_force(before);
    BTI_TRY(bti_fail_with(bti_array_error(argument)));
    uint64_t number = o->sequence + 2 * (uint64_t)index + 1;
    for (bti_node *node = bti_node_of(argument); node != given; node = node->inputs[0])
        bti_history_number(node, number--);
    return bti_call_bind(c, index, bti_node_of(argument));
}

static bt_status record_body(bti_call *c, const origin *o) {
    BTI_TRY(bti_call_begin_recording(c));
    for (int i = 0; i < o->function->input_count; i++) BTI_TRY(bind(c, o, i));
    bti_call_set_values(c, o->base.given + o->function->input_count);
    return bti_call_body(c);
}

/* The results know from now on how they were made. */
static void link_results(origin *o, bti_node **results, bti_node **made) {
    bti_graph_lock();
    for (int i = 0; i < o->count && !o->recorded; i++) {
        if (!made[i] || !hidden(results[i])) continue; /* retained arrays have forgotten */
        results[i]->inputs[0] = made[i];
        results[i]->input_count = 1;
        made[i] = NULL;
    }
    o->recorded = true;
    for (int i = 0; i < o->count; i++)
        if (results[i]) bti_node_leave_origin(results[i]);
    bti_graph_unlock();
}

static bt_status record_call(origin *o) {
    size_t count = (size_t)o->count;
    bti_node **results = bti_calloc(2 * count, sizeof *results), **made = results + count;
    if (!results) return no_memory();
    pthread_mutex_lock(&slots);
    for (size_t i = 0; i < count; i++)
        if (o->results[i] && bti_node_try_retain(o->results[i])) results[i] = o->results[i];
    pthread_mutex_unlock(&slots);
    bti_call c = {.function = o->function, .sequence = body_sequence(o), .results = results, .made = made};
    bt_status status = record_body(&c, o);
    bti_call_end_recording(&c);
    if (status == BT_OK) link_results(o, results, made);
    for (size_t i = 0; i < 2 * count; i++) bti_node_release(results[i]);
    bti_free(results);
    return status;
}

bt_status bti_origins_record(bti_origins *origins) {
    bt_status status = BT_OK;
    for (size_t i = 0; i < origins->count; i++) {
        bti_node *node = origins->items[i];
        bti_graph_lock();
        bool needed = status == BT_OK && hidden(node) && !((origin *)node->origin)->recorded;
        if (needed) atomic_fetch_add(&node->origin->users, 1);
        bti_graph_unlock();
        if (needed) {
            status = record_call((origin *)node->origin);
            bti_origin_leave(node->origin);
        }
        bti_node_release(node);
    }
    origins->count = 0;
    return status;
}

void bti_origins_free(bti_origins *origins) {
    for (size_t i = 0; i < origins->count; i++) bti_node_release(origins->items[i]);
    bti_vec_free(origins);
}

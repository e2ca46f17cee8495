#include "function/origin.h"

#include "array/graph.h"
#include "array/place.h"
#include "base/lock.h"
#include "base/recycle.h"
#include "base/vec.h"
#include "function/body.h"
#include "ir/sequence.h"

typedef struct origin {
    bti_origin base;
    bt_function *function; /* retained while there are users */
    uint64_t sequence;     /* of the first node: two for each argument, two for each of the body */
    size_t bytes;
    atomic_bool recorded; /* its results were given their history */
    int count;            /* of results */
    bti_node *results[];  /* by output: those that are there; changed under `slots` */
} origin;

/* Protects results[] of all origins with several results. */
BTI_STATIC_LOCK(slots, origin_slots)

/* --- their life ------------------------------------------------------------------------------------------------------- */

static void release_origin(origin *o) {
    if (atomic_fetch_sub_explicit(&o->base.refs, 1, memory_order_acq_rel) == 1) bti_recycled_free(o, o->bytes);
}

static void drop_function(bti_origin *base) { bt_function_release(((origin *)base)->function); }

static void forget_result(bti_origin *base, bti_node *result) {
    origin *o = (origin *)base;
    if (o->count > 1) bti_lock_take(&slots);
    for (int i = 0; i < o->count; i++)
        if (o->results[i] == result) o->results[i] = NULL;
    if (o->count > 1) bti_lock_give(&slots);
    release_origin(o);
}

static const bti_origin_functions functions = {drop_function, forget_result};

bti_origin *bti_origin_new(bt_function *f) {
    size_t given = (size_t)f->input_count + f->read.count, results = (size_t)f->output_count;
    size_t bytes = sizeof(origin) + (given + results) * sizeof(bti_node *);
    origin *o = bti_recycled_new(bytes);
    if (!o) return NULL;
    o->base.functions = &functions;
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
    release_origin((origin *)base);
}

void bti_origin_number(bti_origin *base) {
    origin *o = (origin *)base;
    uint64_t count = 2 * ((size_t)o->function->input_count + o->function->body.count);
    o->sequence = bti_node_numbers(count, base->given, base->given_count, false).sequence;
}

static uint64_t body_sequence(const origin *o) { return o->sequence + 2 * (uint64_t)o->function->input_count; }

void bti_origin_add(bti_origin *base, int output, bti_node *result) {
    origin *o = (origin *)base;
    bti_history_number(result, body_sequence(o) + 2 * (uint64_t)o->function->places.items[output] + 1);
    for (int i = 0; i < base->given_count; i++) bti_history_derive(result, base->given[i]);
    if (base->donates) {
        bti_history_cut(result, BTI_CUT_DONATED);
        return;
    }
    result->origin = base;
    o->results[output] = result;
    atomic_fetch_add_explicit(&base->refs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&base->users, 1, memory_order_relaxed);
}

/* --- recording -------------------------------------------------------------------------------------------------------- */

/* An argument as the input takes it; what is recorded for that stands before the body. */
static bt_status bind_given(bti_body_call *c, const origin *o, int index) {
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

static bt_status record_body(bti_body_call *c, const origin *o) {
    BTI_TRY(bti_call_begin_recording(c));
    for (int i = 0; i < o->function->input_count; i++) BTI_TRY(bind_given(c, o, i));
    bti_call_set_values(c, o->base.given + o->function->input_count);
    return bti_call_body(c);
}

/* Gives the results their history: each reads its recorded node. */
static void link_results(origin *o, bti_node **results, bti_node **made) {
    if (atomic_exchange(&o->recorded, true)) return;
    for (int i = 0; i < o->count; i++) {
        if (!results[i]) continue;
        if (made[i] && bti_origin_is_unrecorded(results[i])) {
            results[i]->inputs[0] = made[i];
            atomic_store(&results[i]->input_count, 1);
            made[i] = NULL;
        }
        bti_node_leave_origin(results[i]);
        if (atomic_load(&results[i]->forget)) bti_node_forget(results[i]); /* retained arrays have no history */
    }
}

static bt_status record_call(origin *o) {
    size_t count = (size_t)o->count;
    bti_node **results = bti_calloc(2 * count, sizeof *results), **made = results + count;
    if (!results) return bti_no_memory();
    bti_lock_take(&slots);
    for (size_t i = 0; i < count; i++)
        if (o->results[i] && bti_node_try_retain(o->results[i])) results[i] = o->results[i];
    bti_lock_give(&slots);
    bti_body_call c = {.function = o->function, .sequence = body_sequence(o), .results = results, .made = made};
    bt_status status = record_body(&c, o);
    bti_call_end_recording(&c);
    if (status == BT_OK) link_results(o, results, made);
    for (size_t i = 0; i < 2 * count; i++) bti_node_release(results[i]);
    bti_free(results);
    return status;
}

static bt_status record_call_of(bti_node *node) {
    origin *o = (origin *)node->origin;
    if (!bti_origin_use(&o->base)) return BT_OK; /* another thread has recorded it meanwhile */
    bt_status status = record_call(o);
    bti_origin_leave(&o->base);
    return status;
}

/* --- all of them ------------------------------------------------------------------------------------------------------ */

/* Back from the newest node to the oldest: the users of a node are met before it, and what recording a call adds is older than
 * its results. So each node is met once. */
typedef BTI_VEC(bti_node *) node_list; /* retained */

/* A heap by sequence, the newest node first. */
static bool add_to_heap(node_list *heap, bti_node *node) {
    if (!bti_vec_push(heap, node)) return false;
    size_t at = heap->count - 1;
    for (; at && heap->items[(at - 1) / 2]->sequence < node->sequence; at = (at - 1) / 2)
        heap->items[at] = heap->items[(at - 1) / 2];
    heap->items[at] = bti_node_retain(node);
    return true;
}

static bool add_inputs_to_heap(node_list *heap, const bti_node *node, uint64_t oldest) {
    int walk = bti_walk_begin();
    bool room = true;
    for (int i = 0; i < node->input_count && room; i++)
        room = node->inputs[i]->sequence < oldest || add_to_heap(heap, node->inputs[i]);
    bti_walk_end(walk);
    return room;
}

static bti_node *take_newest(node_list *heap) {
    bti_node *newest = heap->items[0], *moved = heap->items[--heap->count];
    size_t at = 0, next;
    while ((next = 2 * at + 1) < heap->count) {
        if (next + 1 < heap->count && heap->items[next + 1]->sequence > heap->items[next]->sequence) next++;
        if (heap->items[next]->sequence <= moved->sequence) break;
        heap->items[at] = heap->items[next];
        at = next;
    }
    heap->items[at] = moved;
    return newest;
}

static void release_nodes(node_list *list) {
    for (size_t i = 0; i < list->count; i++) bti_node_release(list->items[i]);
    bti_vec_free(list);
}

/* met: the nodes that were visited; the caller releases them. */
static bt_status record_calls_back_to(node_list *waiting, node_list *met, uint64_t oldest,
                                      bool (*passes)(const bti_node *node)) {
    while (waiting->count) {
        if (!bti_vec_reserve(met, 1)) return bti_no_memory();
        bti_node *node = take_newest(waiting);
        met->items[met->count++] = node;
        if (!passes(node) || (met->count > 1 && met->items[met->count - 2] == node)) continue;
        if (bti_origin_is_unrecorded(node)) BTI_TRY(record_call_of(node));
        if (!add_inputs_to_heap(waiting, node, oldest)) return bti_no_memory();
    }
    return BT_OK;
}

bt_status bti_origins_record(bti_node *const *nodes, int count, uint64_t oldest, bool (*passes)(const bti_node *node)) {
    node_list waiting = {0}, met = {0};
    bool room = true;
    for (int i = 0; i < count && room; i++) room = add_to_heap(&waiting, nodes[i]);
    bt_status status = room ? record_calls_back_to(&waiting, &met, oldest, passes) : bti_no_memory();
    release_nodes(&waiting);
    release_nodes(&met);
    return status;
}

/* The engine of one machine: results are objects of the arena, `held` is a hold of this process. */
#include "task/local.h"

#include <math.h>

#include "base/alloc.h"
#include "task/engine.h"
#include "task/options.h"
#include "task/value.h"
#include "task/worker_engine.h"

static bti_hold *hold_of(void *held) { return held; }

static void release(void *held) {
    bti_state *state = bti_process_now.state;
    bti_wakes wakes = {0};
    if (!bti_arena_lock(state->arena)) return;
    bti_hold_free(state, held, &wakes);
    bti_dispatch(state, &wakes);
    bool untidy = bti_store_is_untidy(state);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
    if (untidy) bti_store_tidy(state);
}

/* --- values ------------------------------------------------------------------------------------------------------------ */

static bti_hold *new_object(bti_state *state) {
    bti_wakes wakes = {0};
    bti_arena_lock(state->arena);
    bti_object *object = bti_object_new(state);
    bti_hold *hold = object ? bti_hold_new(state, bti_process_now.me, object) : NULL;
    if (hold)
        bti_object_drop(state, object, &wakes);
    else
        bti_arena_take_back(state->arena);
    bti_arena_unlock(state->arena);
    return hold;
}

bti_hold *bti_pack_object(const bti_values *values, uint64_t bytes) {
    bti_state *state = bti_process_now.state;
    char *room;
    if (bti_process_now.me->mail) return bti_worker_pack(values, bytes);
    bti_hold *hold = new_object(state);
    if (!hold) return (void)bti_fail(BT_RESOURCE_EXHAUSTED, "too many references"), NULL;
    if (bti_object_room(state, hold->object, bytes, &room) == BT_OK && bti_values_pack(values, room) == BT_OK)
        return hold;
    release(hold);
    return NULL;
}

bti_hold *bti_hold_take(bti_object *object, bool pinned) {
    bti_state *state = bti_process_now.state;
    if (bti_process_now.me->mail) return bti_worker_hold(object, pinned);
    if (!bti_arena_lock(state->arena)) return (void)bti_state_fault(false), NULL;
    bti_hold *hold = bti_hold_new(state, bti_process_now.me, object);
    if (hold && pinned) bti_hold_pin(state, hold);
    bti_arena_unlock(state->arena);
    if (!hold) (void)bti_fail(BT_RESOURCE_EXHAUSTED, "too many references");
    return hold;
}

void bti_hold_leave(bti_hold *hold) {
    if (bti_process_now.me->mail)
        bti_worker_release(hold);
    else
        release(hold);
}

uint64_t bti_local_id(const void *held) { return bti_object_id(bti_process_now.state, bti_held_object(held)); }

static void *hold_id(uint64_t id) {
    bti_state *state = bti_process_now.state;
    if (!bti_arena_lock(state->arena)) return (void)bti_state_fault(false), NULL;
    bti_object *object = bti_object_at(state, id);
    bti_hold *hold = object ? bti_hold_new(state, bti_process_now.me, object) : NULL;
    bti_arena_unlock(state->arena);
    if (!object)
        (void)bti_fail(BT_INTERNAL, "a value refers to nothing: it is damaged");
    else if (!hold)
        (void)bti_fail(BT_RESOURCE_EXHAUSTED, "too many references");
    return hold;
}

static void *put(const bti_values *value) {
    bti_state *state = bti_process_now.state;
    bti_wakes wakes = {0};
    bti_hold *hold = bti_pack_object(value, bti_values_bytes(value));
    if (!hold) return NULL;
    bti_arena_lock(state->arena);
    bool contains = bti_object_contain(state, hold->object, bti_object_value(hold->object), &wakes);
    if (contains) bti_object_settle(state, hold->object, BTI_OBJECT_READY, &wakes);
    bti_arena_unlock(state->arena);
    if (contains) return hold;
    release(hold);
    return (void)bti_fail(BT_RESOURCE_EXHAUSTED, "too many references stand in values"), NULL;
}

static void *result(void *held, int index) {
    bti_state *state = bti_process_now.state;
    bti_wakes wakes = {0};
    if (!bti_arena_lock(state->arena)) return (void)bti_state_fault(false), NULL;
    bti_hold *hold = bti_result_hold(state, bti_process_now.me, bti_held_object(held), (uint32_t)index, &wakes);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
    return hold;
}

/* --- results ----------------------------------------------------------------------------------------------------------- */

static bool is_done(void *held) { return atomic_load(&hold_of(held)->object->state) != BTI_OBJECT_PENDING; }

bt_failure bti_local_failure(void *held) {
    const bti_object *object = hold_of(held)->object;
    return atomic_load(&object->state) == BTI_OBJECT_FAILED ? (bt_failure)object->failure : BT_FAILURE_NONE;
}

static bt_status wait_for(void *const *held, int count, int wanted, double seconds) {
    BTI_TRY(bti_state_fault(true));
    bti_object *one, **objects = count > 1 ? bti_calloc((size_t)count, sizeof(bti_object *)) : &one;
    if (!objects) return bti_no_memory();
    for (int i = 0; i < count; i++) objects[i] = hold_of(held[i])->object;
    bool waited = bti_wait_for(bti_process_now.state, objects, count, wanted, bti_until_ns(seconds));
    if (count > 1) bti_free(objects);
    return waited ? BT_OK : bt_error_status();
}

static bt_status read_value(void *held, bti_reading *reading) {
    bti_object *object = hold_of(held)->object;
    bti_hold *pin = NULL;
    if (atomic_load(&object->state) == BTI_OBJECT_FAILED) return bti_object_failure(object);
    if (object->bytes > sizeof object->small && !(pin = bti_object_pinned(bti_process_now.state, object)))
        return bt_error_status();
    *reading = (bti_reading){bti_object_value(object), object->bytes, object, pin};
    return BT_OK;
}

double bti_local_resource(const char *name, bool only_free) {
    bti_state *state = bti_process_now.state;
    int r = bti_resource_of(state, name);
    if (r < 0) return NAN;
    bool locks = !bti_process_now.me->mail; /* a worker reads what was there a moment ago */
    if (locks) bti_arena_lock(state->arena);
    int64_t units = (only_free ? state->machine.free : state->machine.total).of[r];
    if (locks) bti_arena_unlock(state->arena);
    return bti_amount(units > 0 ? units : 0);
}

/* The program has none itself. */
static int no_gpus(int *ids, int capacity) {
    (void)ids;
    (void)capacity;
    return 0;
}

const bti_engine bti_engine_local = {
    .name = "local",
    .start = bti_local_start,
    .stop = bti_local_stop,
    .close = bti_local_close,
    .submit = bti_local_submit,
    .put = put,
    .result = result,
    .read = read_value,
    .unpin = release,
    .wait = wait_for,
    .is_done = is_done,
    .failure = bti_local_failure,
    .cancel = bti_local_cancel,
    .release = release,
    .actor_status = bti_local_actor_status,
    .actor_find = bti_local_actor_find,
    .actor_kill = bti_local_actor_kill,
    .group = bti_local_group,
    .resource = bti_local_resource,
    .gpus = no_gpus,
    .id = bti_local_id,
    .hold = hold_id,
    .array_in = bti_array_in,
    .view = bti_local_view,
    .fault = bti_state_fault,
};

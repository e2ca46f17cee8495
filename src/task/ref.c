/* References: holding them, what they stand for, putting values, waiting. */
#include "task/ref.h"

#include <math.h>
#include <stdio.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/vec.h"
#include "task/value.h"

bt_status bti_runtime_needed(bti_state **state) {
    *state = bti_process_now.state;
    return *state ? BT_OK : bti_fail(BT_FAILED_PRECONDITION, "no runtime: bt_runtime_init comes first");
}

/* --- handles ----------------------------------------------------------------------------------------------------------- */

static void free_hold(bti_hold *hold) {
    bti_state *state = bti_process_now.state;
    bti_wakes wakes = {0};
    bti_arena_lock(state->arena);
    bti_hold_free(state, hold, &wakes);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
}

static void release(void *handle) {
    bt_ref *ref = handle;
    if (!ref || atomic_fetch_sub(&ref->refs, 1) != 1) return;
    if (ref->hold && bti_process_now.state && ref->runtime == bti_process_now.runtime) free_hold(ref->hold);
    bti_error_release(ref->error);
    bti_free(ref);
}

static void *retain(void *handle) {
    bt_ref *ref = handle;
    if (ref) atomic_fetch_add(&ref->refs, 1);
    return ref;
}

void *bti_handle_new(bti_hold *hold, bti_error *error) {
    bt_ref *ref = bti_calloc(1, sizeof *ref);
    if (!ref) {
        if (hold) free_hold(hold);
        bti_error_release(error);
        return (void)bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory"), NULL;
    }
    atomic_init(&ref->refs, 1);
    ref->runtime = bti_process_now.runtime;
    ref->hold = hold;
    ref->error = error;
    return bti_scope_own(ref, release);
}

void *bti_handle_poisoned(void) { return bti_handle_new(NULL, bti_error_last()); }

bti_object *bti_handle_object(const bt_ref *ref, const char *what) {
    if (!ref) return (void)bti_fail(BT_INVALID_ARGUMENT, "the %s is NULL", what), NULL;
    if (ref->error) return (void)bti_fail_with(ref->error), NULL;
    if (bti_process_now.state && ref->runtime == bti_process_now.runtime) return ref->hold->object;
    return (void)bti_fail(BT_FAILED_PRECONDITION, "the runtime of this %s was shut down", what), NULL;
}

bt_ref *bt_ref_retain(bt_ref *ref) { return retain(ref); }
void bt_ref_release(bt_ref *ref) { release(ref); }
bt_actor *bt_actor_retain(bt_actor *actor) { return retain(actor); }
void bt_actor_release(bt_actor *actor) { release(actor); }
bt_group *bt_group_retain(bt_group *group) { return retain(group); }
void bt_group_release(bt_group *group) { release(group); }

bti_object *bti_ref_object(const bt_ref *ref) { return ref->hold->object; }
bti_object *bti_actor_object(const bt_actor *actor) { return actor->ref.hold->object; }
bt_status bti_ref_status(const bt_ref *ref) { return bti_handle_object(ref, "reference") ? BT_OK : bt_error_status(); }
bt_status bti_actor_cause(const bt_actor *actor) {
    return bti_handle_object(&actor->ref, "actor") ? BT_OK : bt_error_status();
}

bt_status bti_actor_from(bti_object *object, bt_actor **actor) {
    bti_state *state = bti_process_now.state;
    bti_arena_lock(state->arena);
    bti_hold *hold = bti_hold_new(state, bti_process_now.me, object);
    bti_arena_unlock(state->arena);
    if (!hold) return bti_fail(BT_RESOURCE_EXHAUSTED, "too many references");
    *actor = bti_handle_new(hold, NULL);
    return *actor ? BT_OK : bt_error_status();
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

/* The list as the value of an object that this process holds; NULL with the cause in the error record. */
bti_hold *bti_pack_object(bti_state *state, const bt_item_value *values, int count, uint64_t bytes) {
    bti_hold *hold = new_object(state);
    char *room;
    if (!hold) return (void)bti_fail(BT_RESOURCE_EXHAUSTED, "too many references"), NULL;
    if (bti_object_room(state, hold->object, bytes, &room) == BT_OK && bti_pack(values, count, room) == BT_OK)
        return hold;
    free_hold(hold);
    return NULL;
}

bt_ref *bti_put(const bt_item_value *value) {
    bti_state *state;
    if (bti_runtime_needed(&state) != BT_OK) return bti_handle_poisoned();
    if (value->type == BT_REFERENCE || value->type == BT_ACTOR_VALUE) {
        (void)bti_fail(BT_INVALID_ARGUMENT, "bt_put: a reference or an actor is no value of its own");
        return bti_handle_poisoned();
    }
    uint64_t bytes = bti_pack_bytes(value, 1);
    bti_hold *hold = bytes ? bti_pack_object(state, value, 1, bytes) : NULL;
    if (!hold) return bti_handle_poisoned();
    bti_wakes wakes = {0};
    bti_arena_lock(state->arena);
    bti_object_settle(state, hold->object, BTI_OBJECT_READY, &wakes);
    bti_arena_unlock(state->arena);
    return bti_handle_new(hold, NULL);
}

bt_status bti_get(bt_ref *ref, bt_value_type type, size_t bytes, void *out, double seconds) {
    bti_object *object = bti_handle_object(ref, "reference");
    if (!object) return bt_error_status();
    bti_state *state = bti_process_now.state;
    if (atomic_load(&object->state) == BTI_OBJECT_PENDING) {
        if (!bti_wait_for(state, &object, 1, 1, bti_until_ns(seconds))) return bt_error_status();
        if (atomic_load(&object->state) == BTI_OBJECT_PENDING)
            return bti_fail(BT_DEADLINE_EXCEEDED, "bt_get: not done within %g seconds", seconds);
    }
    if (atomic_load(&object->state) == BTI_OBJECT_FAILED) return bti_object_failure(object);
    if (type == BT_NOTHING) return BT_OK;
    if (!ref->hold->pinned) {
        BTI_TRY(bti_object_pin(state, object));
        bti_arena_lock(state->arena);
        if (ref->hold->pinned)
            bti_object_unpin(state, object);
        else
            BTI_SET(state->arena, ref->hold->pinned, true);
        bti_arena_unlock(state->arena);
    }
    bti_unpacked_value value = bti_unpack(bti_object_value(object), 0);
    return bti_value_to(&value, object, type, bytes, out, "the result");
}

int bt_wait_refs(bt_ref *const *refs, int count, int wanted, bool *ready, double seconds) {
    bti_state *state;
    BTI_VEC(bti_object *) pending = {0};
    if (bti_check_list(refs, count, "references") != BT_OK || bti_runtime_needed(&state) != BT_OK) return -1;
    if (wanted > count || wanted < 0)
        return (void)bti_fail(BT_INVALID_ARGUMENT, "bt_wait_refs: %d of %d references are wanted", wanted, count), -1;
    int done = 0;
    for (int i = 0; i < count; i++) {
        bti_object *object = refs[i] && refs[i]->error ? NULL : bti_handle_object(refs[i], "reference");
        if (!object && !(refs[i] && refs[i]->error)) return bti_vec_free(&pending), -1;
        if (!object || atomic_load(&object->state) != BTI_OBJECT_PENDING)
            done++; /* a poisoned one is done */
        else if (!bti_vec_push(&pending, object))
            return bti_vec_free(&pending), (void)bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory"), -1;
    }
    bool waited =
        done >= wanted || bti_wait_for(state, pending.items, (int)pending.count, wanted - done, bti_until_ns(seconds));
    bti_vec_free(&pending);
    if (!waited) return -1;
    done = 0;
    for (int i = 0; i < count; i++) {
        bool is = refs[i]->error || atomic_load(&refs[i]->hold->object->state) != BTI_OBJECT_PENDING;
        if (ready) ready[i] = is;
        done += is;
    }
    return done;
}

/* Room in the store, and values that are moved between memory and disk for it. A move goes on without the lock; a hold of the process that makes it
 * stands for it, so that it is undone when that process dies. */
#include "task/room.h"

#include <inttypes.h>
#include <stdio.h>

#include "task/given.h"
#include "task/object.h"
#include "task/placement.h"
#include "task/proc.h"
#include "task/process.h"
#include "task/ready.h"
#include "task/settle.h"
#include "task/spill.h"
#include "task/tasks.h"

enum {
    LOOK_NS = 100000000
}; /* the longest wait for a move: the process that made it may have died without waking others */

/* --- who holds what ------------------------------------------------------------------------------------------------ */

/* Bytes of values in memory that a process holds, and how many of them cannot go to disk. */
typedef struct share {
    uint64_t held, in_use;
} share;

static share share_of_client(const bti_state *state, const bti_client *client) {
    enum { MOST = 100000 };
    share of = {0};
    int count = 0;
    for (const bti_hold *h = client->holds; h && count < MOST; h = h->next, count++) {
        if (h->object->value && !h->pinned) of.held += h->object->bytes;
        if (h->pinned) of.in_use += h->object->bytes; /* a reader has a reference beside */
    }
    const bti_task_record *task;
    uint32_t next = 0;
    while ((task = bti_given_next(client, &next)) != NULL) {
        if (task->pinned) of.in_use += bti_task_stored_bytes(task);
        for (uint32_t i = 0; i < bti_result_count(task); i++)
            if (bti_task_result(task, i)->value) of.in_use += bti_task_result(task, i)->bytes;
    }
    if (of.in_use > state->store_used) of.in_use = state->store_used; /* some were counted twice */
    if (of.held < of.in_use) of.held = of.in_use;
    if (of.held > state->store_used) of.held = state->store_used;
    return of;
}

const char *bti_store_holders(const bti_state *state, char *text, size_t bytes) {
    enum { NAMED = 4 };
    int length = 0, named = 0;
    uint64_t told = 0;
    *text = '\0';
    for (const bti_client *c = state->clients; c && named < NAMED && (size_t)length < bytes; c = c->next) {
        share of = share_of_client(state, c);
        if (!of.held) continue;
        told += of.held;
        const char *who = c->is_program ? "the program" : c->task ? c->task->function->name : "an actor";
        length += snprintf(text + length, bytes - (size_t)length,
                           "%s%s (process %" PRId32 ", %" PRIu64 " bytes, %" PRIu64 " in use)",
                           named++ ? ", " : "held by ", who, c->pid, of.held, of.in_use);
    }
    uint64_t rest = state->store_used > told ? state->store_used - told : 0;
    if (rest > state->store_used / 16 && (size_t)length < bytes)
        snprintf(text + length, bytes - (size_t)length,
                 "%s%" PRIu64 " bytes in arguments of calls that wait, in lists, and in items that nobody has read",
                 named ? ", " : "held by ", rest);
    return text;
}

/* No other thread or process runs, starts or ends, so no value will be released. */
static bool is_quiet(const bti_state *state) {
    if (state->to_start || state->chores || !bti_is_alone()) return false;
    for (const bti_client *c = state->clients; c; c = c->next)
        if (!c->is_program && (bti_given_count(c) || c->stops || c->kill)) return false;
    return true;
}

/* --- moves --------------------------------------------------------------------------------------------------------- */

static bt_status wait_for_move(bti_state *state) {
    unsigned seen = atomic_load(&state->store->moved);
    bti_arena_unlock(state->arena);
    bool moved = bti_sleep_on(&state->store->moved, seen, bti_now_ns() + LOOK_NS);
    bt_status status = moved ? BT_OK : bti_check_runs(state);
    bti_arena_lock(state->arena);
    return status;
}

static void yield_lock(bti_state *state) {
    bti_arena_unlock(state->arena);
    bti_arena_lock(state->arena);
}

/* Writes a value to disk. With the lock, which is released during the write. */
static bt_status move_out(bti_state *state, bti_object *object) {
    bti_arena *arena = state->arena;
    bti_wakes wakes = {0};
    yield_lock(state); /* changes of the caller are committed */
    while (state->store->dirty && bti_slot_trim(state)) yield_lock(state);
    if (object != state->store->oldest) return BT_OK; /* it moved meanwhile */
    bti_slot *slot = bti_slot_take(state, object->bytes);
    bti_hold *hold = slot ? bti_hold_new(state, bti_process_now.me, object) : NULL;
    if (!hold) {
        bti_arena_take_back(arena);
        return bti_fail(BT_RESOURCE_EXHAUSTED, "%s",
                        state->spill_file < 0 ? strerror(state->spill_errno) : "no more is allowed there");
    }
    bti_hold_pin(state, hold);
    hold->moves = BTI_MOVES_OUT;
    BTI_SET(arena, object->slot, slot);
    BTI_SET(arena, state->store->moving_out, state->store->moving_out + 1);
    bti_arena_unlock(arena);
    bt_status status = bti_spill_write(state, slot, object->value);
    bti_arena_lock(arena);
    if (status == BT_OK && object->pins == 1 && object->holders > 1) { /* it was not wanted meanwhile */
        bti_hold_finish_move(state, hold);
    }
    bti_hold_free(state, hold, &wakes);
    bti_schedule_pending(state, &wakes);
    bti_arena_unlock(arena);
    bti_wake(state, &wakes);
    bti_arena_lock(arena);
    return status;
}

/* --- room ------------------------------------------------------------------------------------------------------------------ */

static bt_status room_error(const bti_state *state, uint64_t bytes, const char *why) {
    if (bytes > state->store_limit)
        return bti_fail(
            BT_RESOURCE_EXHAUSTED,
            "a value of %llu bytes is more than the store can ever hold: %llu (bt_runtime_init, .store_bytes)",
            (unsigned long long)bytes, (unsigned long long)state->store_limit);
    char holders[512];
    return bti_fail(
        BT_RESOURCE_EXHAUSTED,
        "the store has no room for %llu bytes: %llu of %llu are in memory, %llu of %llu are on disk (%s): %s; %s",
        (unsigned long long)bytes, (unsigned long long)state->store_used, (unsigned long long)state->store_limit,
        (unsigned long long)state->spilled_bytes, (unsigned long long)state->spill_limit, state->spill_folder, why,
        bti_store_holders(state, holders, sizeof holders));
}

typedef struct reason {
    char text[160];
} reason;

/* With the lock, which may be given back meanwhile: values that are not in use go to disk. UNAVAILABLE: others have to release some; *why says it. */
static bt_status try_room(bti_state *state, uint64_t bytes, char **room, reason *why) {
    if (bytes > state->store_limit) return room_error(state, bytes, "");
    for (;;) {
        while (bti_store_is_over(state, bytes) && bti_store_trim(state)) yield_lock(state);
        if ((*room = bti_store_take(state, bytes)) != NULL) return BT_OK;
        if (state->store->oldest) {
            bti_errors_aside aside = bti_errors_aside_begin(); /* errors of attempts that are followed by others */
            bool failed = move_out(state, state->store->oldest) != BT_OK;
            if (failed) snprintf(why->text, sizeof why->text, "%s", bt_error_text());
            bti_errors_aside_end(aside);
            if (!failed) continue;
        } else {
            strcpy(why->text, "all that is in memory is in use");
        }
        if (!state->store->moving_out) return BT_UNAVAILABLE;
        BTI_TRY(wait_for_move(state));
    }
}

/* Waits until another thread or process releases a value. With the lock, which is released meanwhile. */
static bt_status wait_for_release(bti_state *state, bti_waiter *waiter, uint64_t bytes, const reason *why) {
    unsigned seen = atomic_load(&state->store->moved);
    if (waiter->stuck) return room_error(state, bytes, why->text);
    bti_arena_unlock(state->arena);
    bti_sleep_on(&state->store->moved, seen, bti_now_ns() + LOOK_NS);
    bt_status status = bti_check_runs(state);
    bti_arena_lock(state->arena);
    return status;
}

/* Takes room, and waits for it. With the lock, which may be released meanwhile. */
static bt_status take_room(bti_state *state, uint64_t bytes, char **room) {
    bti_wakes wakes = {0};
    reason why;
    bt_status status = try_room(state, bytes, room, &why);
    if (status != BT_UNAVAILABLE) return status;
    if (is_quiet(state)) return room_error(state, bytes, why.text);
    bti_waiter *waiter = bti_waiter_new(state, bti_process_now.me, false);
    if (!waiter) return bti_fail(BT_RESOURCE_EXHAUSTED, "too many waits");
    waiter->room_bytes = bytes;
    (void)bti_waiter_arm(state, waiter, 1);
    bti_nest_call();
    BTI_SET(state->arena, state->room_wanted, state->room_wanted + 1);
    while (status == BT_UNAVAILABLE) {
        status = wait_for_release(state, waiter, bytes, &why);
        if (status == BT_OK) status = try_room(state, bytes, room, &why);
    }
    BTI_SET(state->arena, state->room_wanted, state->room_wanted - 1);
    bti_waiter_free(state, waiter, &wakes);
    return status;
}

bt_status bti_store_make_room(bti_state *state, uint64_t bytes) {
    char *room;
    bti_arena_lock(state->arena);
    reason why;
    bt_status status = try_room(state, bytes, &room, &why);
    if (status == BT_OK) bti_store_give(state, room, bytes);
    bti_arena_unlock(state->arena);
    return status;
}

bool bti_store_is_untidy(const bti_state *state) { return state->store->dirty || bti_store_is_wide(state); }

void bti_store_tidy(bti_state *state) {
    for (bool more = true; more;) {
        bti_arena_lock(state->arena);
        more = bti_slot_trim(state);
        if (bti_store_is_wide(state)) more = bti_store_trim(state) || more;
        bti_arena_unlock(state->arena);
    }
}

static void unlock_and_tidy(bti_state *state, bti_wakes *wakes) {
    bool untidy = bti_store_is_untidy(state);
    bti_arena_unlock(state->arena);
    if (wakes) bti_wake(state, wakes);
    if (untidy) bti_store_tidy(state);
}

/* --- values of objects ----------------------------------------------------------------------------------------------------- */

bt_status bti_object_room(bti_state *state, bti_object *object, uint64_t bytes, char **room) {
    bt_status status = BT_OK;
    bti_arena_lock(state->arena);
    bool pending = atomic_load(&object->state) == BTI_OBJECT_PENDING;
    if (pending) {
        bti_object_empty(state, object);
        *room = object->small;
        if (bytes > sizeof object->small) status = take_room(state, bytes, room);
        pending = atomic_load(&object->state) == BTI_OBJECT_PENDING;
        if (status == BT_OK && pending) {
            if (*room != object->small) BTI_SET(state->arena, object->value, *room);
            BTI_SET(state->arena, object->bytes, bytes);
        } else if (status == BT_OK && *room != object->small) {
            bti_store_give(state, *room, bytes);
        }
    }
    unlock_and_tidy(state, NULL);
    return status != BT_OK || pending ? status : bti_fail(BT_CANCELLED, "nobody waits for this result any more");
}

/* Reads a value from disk. With the lock, which is released during the read. */
static bt_status move_in(bti_state *state, bti_hold *hold) {
    bti_object *object = hold->object;
    char *room;
    reason why;
    BTI_SET(state->arena, object->reader, hold);
    BTI_SET(state->arena, hold->moves, BTI_MOVES_IN);
    bt_status status = bti_process_now.me->is_mover ? try_room(state, object->bytes, &room, &why)
                                                    : take_room(state, object->bytes, &room);
    if (status == BT_OK) {
        BTI_SET(state->arena, object->value, room);
        bti_arena_unlock(state->arena);
        status = bti_spill_read(state, object->slot, room);
        bti_arena_lock(state->arena);
    }
    if (status != BT_OK) return bti_hold_undo_move(state, hold), status;
    bti_hold_finish_move(state, hold);
    return BT_OK;
}

/* Pins a value and makes sure that it is in memory. With the lock, which may be released meanwhile. */
static bt_status bring_back(bti_state *state, bti_hold *hold) {
    bt_status status = BT_OK;
    bti_hold_pin(state, hold);
    while (status == BT_OK && (!hold->object->value || hold->object->reader))
        status = hold->object->reader ? wait_for_move(state) : move_in(state, hold);
    return status;
}

bt_status bti_hold_bring_back(bti_state *state, bti_hold *hold) {
    bti_arena_lock(state->arena);
    bt_status status = hold->object->bytes > sizeof hold->object->small ? bring_back(state, hold) : BT_OK;
    unlock_and_tidy(state, NULL);
    return status;
}

bti_hold *bti_object_pinned(bti_state *state, bti_object *object) {
    bti_wakes wakes = {0};
    bti_arena_lock(state->arena);
    bti_hold *hold = bti_hold_new(state, bti_process_now.me, object);
    bt_status status = hold ? bring_back(state, hold) : bti_fail(BT_RESOURCE_EXHAUSTED, "too many references");
    if (hold && status != BT_OK) {
        bti_hold_free(state, hold, &wakes);
        bti_schedule_pending(state, &wakes);
    }
    unlock_and_tidy(state, &wakes);
    return status == BT_OK ? hold : NULL;
}

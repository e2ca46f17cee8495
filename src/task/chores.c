#include "task/chores.h"

#include <sys/prctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "task/object.h"
#include "task/object.h"
#include "task/placement.h"
#include "task/process.h"
#include "task/ready.h"
#include "task/room.h"
#include "task/store.h"
#include "task/tasks.h"

/* --- at once --------------------------------------------------------------------------------------------------------------- */

static bti_object *object_of_chore(const bti_chore *chore) {
    return chore->hold ? chore->hold->object : bti_task_result(chore->task, chore->result);
}

static void answer_pin(bti_state *state, const bti_chore *chore, bti_wakes *wakes) {
    bti_hold *hold = bti_hold_new(state, chore->client, chore->hold->object);
    if (hold) bti_hold_pin(state, hold);
    bti_mail_reply(chore->client, chore->slot, hold ? BT_OK : BT_RESOURCE_EXHAUSTED, hold, "too many references",
                   wakes);
}

static bool is_unwanted(const bti_chore *chore) {
    return chore->kind == BTI_ASKS_ROOM && atomic_load(&object_of_chore(chore)->state) != BTI_OBJECT_PENDING;
}

/* With the lock. False: the mover has to do it. */
static bool try_at_once(bti_state *state, const bti_chore *chore, bti_wakes *wakes) {
    if (is_unwanted(chore)) {
        bti_mail_reply(chore->client, chore->slot, BT_CANCELLED, NULL, "nobody waits for this result any more", wakes);
        return true;
    }
    if (chore->kind == BTI_ASKS_PIN_TASK) {
        if (!bti_task_pin_now(state, chore->task)) return false;
        bti_mail_reply(chore->client, chore->slot, BT_OK, NULL, NULL, wakes);
        return true;
    }
    if (chore->kind == BTI_ASKS_PIN) {
        if (!bti_object_value(chore->hold->object)) return false;
        answer_pin(state, chore, wakes);
        return true;
    }
    bti_object *object = object_of_chore(chore);
    bti_object_empty(state, object);
    char *room = bti_store_is_over(state, chore->count) ? NULL : bti_store_take(state, chore->count);
    if (!room) return false;
    BTI_SET(state->arena, object->value, room);
    BTI_SET(state->arena, object->bytes, chore->count);
    bti_mail_reply(chore->client, chore->slot, BT_OK, room, NULL, wakes);
    return true;
}

/* --- later ------------------------------------------------------------------------------------------------------------------ */

static void want_mover(bti_state *state, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    if (!state->mover) {
        bti_client *mover = bti_record_new(arena, BTI_CLIENTS);
        if (!mover) return;
        mover->is_mover = true;
        mover->next_start = state->to_start;
        BTI_SET(arena, state->to_start, mover);
        BTI_SET(arena, state->mover, mover);
        wakes->nest = true;
    }
    bti_room_changed(state);
}

void bti_chore_begin(bti_state *state, bti_client *client, const bti_message *message, bti_task_record *task,
                     bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    bti_chore now = {.client = client,
                     .kind = message->kind,
                     .slot = message->slot,
                     .hold = message->hold,
                     .task = task,
                     .result = message->status,
                     .count = message->count};
    if (try_at_once(state, &now, wakes)) return;
    bti_chore *chore = bti_record_new(arena, BTI_CHORES);
    if (!chore) {
        bti_mail_reply(client, now.slot, BT_RESOURCE_EXHAUSTED, NULL, "too many requests wait for room in the store",
                       wakes);
        return;
    }
    now.record = chore->record;
    *chore = now;
    bti_chore **end = &state->chores;
    while (*end) end = &(*end)->next;
    BTI_SET(arena, *end, chore);
    BTI_SET(arena, state->chore_count, state->chore_count + 1);
    want_mover(state, wakes);
}

static void end_chore(bti_state *state, bti_chore *chore) {
    bti_chore **at = &state->chores;
    while (*at != chore) at = &(*at)->next;
    BTI_SET(state->arena, *at, chore->next);
    BTI_SET(state->arena, state->chore_count, state->chore_count - 1);
    bti_record_free(state->arena, BTI_CHORES, chore);
}

static void forget_chore(bti_state *state, bti_chore *chore) {
    if (chore->begun)
        BTI_SET(state->arena, chore->client, NULL); /* the mover works on it */
    else
        end_chore(state, chore);
}

void bti_chores_forget(bti_state *state, const bti_client *client) {
    for (bti_chore *next, *c = state->chores; c; c = next) {
        next = c->next;
        if (c->client == client) forget_chore(state, c);
    }
}

void bti_chores_drop(bti_state *state, bti_client *client, const bti_task_record *task, const bti_hold *hold,
                     bti_wakes *wakes) {
    for (bti_chore *next, *c = state->chores; c; c = next) {
        next = c->next;
        if (c->client != client || !((task && c->task == task) || (hold && c->hold == hold))) continue;
        bti_mail_reply(client, c->slot, BT_CANCELLED, NULL, "what it was for is gone: another thread gave it up",
                       wakes);
        forget_chore(state, c);
    }
}

uint32_t bti_chores_stuck(const bti_state *state, const bti_client *client) {
    uint32_t count = 0;
    for (const bti_chore *c = state->chores; c; c = c->next) count += c->client == client && c->stuck;
    return count;
}

bool bti_chores_fail(bti_state *state, const char *text, bti_wakes *wakes) {
    for (bti_chore *c = state->chores; c; c = c->next) {
        if (!c->stuck || c->begun || !c->client) continue;
        bti_mail_reply(c->client, c->slot, BT_RESOURCE_EXHAUSTED, NULL, text, wakes);
        end_chore(state, c);
        return true;
    }
    return false;
}

/* --- the mover ---------------------------------------------------------------------------------------------------------------- */

bool bti_mover_works(const bti_state *state) { return state->mover && (state->chores || state->mover->holds); }

void bti_mover_gone(bti_state *state, bti_client *mover, bti_wakes *wakes) {
    BTI_SET(state->arena, state->mover, NULL);
    while (mover->holds) bti_hold_free(state, mover->holds, wakes);
    bti_schedule_pending(state, wakes);
    for (bti_chore *next, *c = state->chores; c; c = next) {
        next = c->next;
        BTI_SET(state->arena, c->begun, false);
        if (!c->client) end_chore(state, c);
    }
    BTI_SET(state->arena, mover->state, BTI_CLIENT_ENDED);
    bti_record_free(state->arena, BTI_CLIENTS, mover);
    if (state->chores) want_mover(state, wakes);
}

/* Reads values back, or makes room; false: others have to release values first. Without the lock; the mover holds the objects. */
static bool move_for_chore(bti_state *state, const bti_chore *chore, bti_hold *const *holds, int count,
                           bt_status *status) {
    *status = BT_OK;
    if (chore->kind == BTI_ASKS_ROOM) {
        *status = bti_store_make_room(state, chore->count);
        return *status != BT_UNAVAILABLE;
    }
    for (int i = 0; i < count && *status == BT_OK; i++) *status = bti_hold_bring_back(state, holds[i]);
    return *status != BT_UNAVAILABLE;
}

/* Holds of the objects that a chore needs in memory; the caller frees the list. With the lock. NULL: out of memory. */
static bti_hold **hold_values(bti_state *state, bti_client *me, const bti_chore *chore, int *count) {
    bti_objects_at all = {.task = chore->task}, at = all;
    size_t most = 1;
    bool of_task = chore->kind == BTI_ASKS_PIN_TASK;
    while (of_task && bti_task_next_stored(&at)) most++;
    bti_hold **holds = bti_calloc(most, sizeof *holds);
    *count = 0;
    if (!holds) return NULL;
    if (chore->kind == BTI_ASKS_PIN) {
        holds[0] = bti_hold_new(state, me, chore->hold->object);
        *count = holds[0] != NULL;
    }
    at = all;
    for (bti_object *object; of_task && (object = bti_task_next_stored(&at)) != NULL; ++*count)
        if (!(holds[*count] = bti_hold_new(state, me, object))) break;
    return holds;
}

/* With the lock, which is released meanwhile. True: there was progress. */
static bool do_chore(bti_state *state, bti_client *me, bti_chore *chore, bti_wakes *wakes) {
    bt_status status;
    int count;
    bti_hold **holds = hold_values(state, me, chore, &count);
    if (!holds) {
        bti_mail_reply(chore->client, chore->slot, BT_RESOURCE_EXHAUSTED, NULL, "out of host memory", wakes);
        return end_chore(state, chore), true;
    }
    BTI_SET(state->arena, chore->begun, true);
    bti_arena_unlock(state->arena);
    bool quiet = bti_errors_quiet(true);
    bool moved = move_for_chore(state, chore, holds, count, &status);
    bti_errors_quiet(quiet);
    bti_arena_lock(state->arena);
    BTI_SET(state->arena, chore->begun, false);
    BTI_SET(state->arena, chore->stuck, !moved);
    if (!chore->client) {
        end_chore(state, chore);
    } else if (moved && status != BT_OK) {
        bti_mail_reply(chore->client, chore->slot, status, NULL, bt_error_text(), wakes);
        end_chore(state, chore);
    } else if (moved && try_at_once(state, chore, wakes)) {
        end_chore(state, chore);
    }
    for (int i = 0; i < count; i++) bti_hold_free(state, holds[i], wakes);
    bti_schedule_pending(state, wakes);
    bti_free(holds);
    return moved;
}

static bool is_listed(const bti_state *state, const bti_chore *chore) {
    const bti_chore *c = state->chores;
    while (c && c != chore) c = c->next;
    return c != NULL;
}

/* Tries all chores once. True: there was progress. */
static bool do_all_chores(bti_state *state, bti_client *me) {
    bti_wakes wakes = {0};
    bool any = false;
    bti_arena_lock(state->arena);
    for (bti_chore *c = state->chores; c;) {
        any = do_chore(state, me, c, &wakes) || any;
        bti_arena_unlock(state->arena);
        bti_wake(state, &wakes);
        bti_arena_lock(state->arena);
        c = is_listed(state, c) ? c->next : NULL; /* the others come in the next round */
    }
    bti_arena_unlock(state->arena);
    return any;
}

_Noreturn void bti_mover_run(bti_state *state, bti_client *me) {
    bti_process_now = (bti_process){.state = state, .me = me, .runtime = 1};
    prctl(PR_SET_NAME, "berth mover");
    (void)bti_without_site_begin(); /* its messages are about calls of workers */
    while (!atomic_load(&state->closing)) {
        unsigned seen = atomic_load(&state->store->moved), told = bti_moves_told();
        if (do_all_chores(state, me)) continue;
        seen += bti_moves_told() - told; /* its own attempts do not count */
        bti_sleep_on(&state->store->moved, seen, state->chores ? bti_now_ns() + 100000000 : 0);
    }
    _exit(0);
}

/* Objects that become done, and the threads that wait for them. */
#include "task/settle.h"

#include <stdio.h>

#include "task/mailbox.h"
#include "task/object.h"
#include "task/placement.h"
#include "task/store.h"
#include "task/supply.h"
#include "task/value.h"

/* --- waiters ------------------------------------------------------------------------------------------------------- */

const bti_object *bti_awaited(const bti_client *client) {
    const bti_wait *wait = NULL;
    for (const bti_waiter *w = client->waiters; w && !wait; w = w->next)
        for (wait = w->limited ? NULL : w->waits; wait && wait->over;) wait = wait->next_of_waiter;
    return wait ? wait->object : NULL;
}

const bti_object *bti_call_awaited(const bti_task_record *task) {
    if (task->client->at_once <= 1) return bti_awaited(task->client);
    const bti_wait *wait = NULL;
    for (const bti_waiter *w = task->client->waiters; w && !wait; w = w->next)
        for (wait = w->limited || w->call != task->number ? NULL : w->waits; wait && wait->over;)
            wait = wait->next_of_waiter;
    return wait ? wait->object : NULL;
}

bti_waiter *bti_waiter_new(bti_state *state, bti_client *client, bool limited) {
    bti_arena *arena = state->arena;
    bti_waiter *waiter = bti_record_new(arena, BTI_WAITERS);
    if (!waiter) return NULL;
    waiter->client = client;
    waiter->limited = limited;
    waiter->slot = BTI_NO_REPLY;
    waiter->call = BTI_NO_CALL;
    waiter->order = state->progress;
    BTI_SET(arena, state->progress, state->progress + 1);
    waiter->next = client->waiters;
    if (waiter->next) BTI_SET(arena, waiter->next->before, waiter);
    BTI_SET(arena, client->waiters, waiter);
    return waiter;
}

bool bti_waiter_add(bti_state *state, bti_waiter *waiter, bti_object *object) {
    bti_arena *arena = state->arena;
    bool pending = atomic_load(&object->state) == BTI_OBJECT_PENDING;
    bti_wait *wait = pending ? bti_record_new(arena, BTI_WAITS) : NULL;
    if (pending && !wait) return false;
    BTI_SET(arena, waiter->objects, waiter->objects + 1);
    if (!pending) {
        BTI_SET(arena, waiter->left, waiter->left - 1);
        return true;
    }
    wait->object = object;
    wait->waiter = waiter;
    wait->next = object->waits;
    if (wait->next) BTI_SET(arena, wait->next->before, wait);
    BTI_SET(arena, object->waits, wait);
    wait->next_of_waiter = waiter->waits;
    BTI_SET(arena, waiter->waits, wait);
    bti_object_retain(state, object);
    return true;
}

bool bti_waiter_arm(bti_state *state, bti_waiter *waiter, int wanted) {
    bti_arena *arena = state->arena;
    BTI_SET(arena, waiter->left, waiter->left + wanted);
    if (waiter->left <= 0) return false;
    BTI_SET(arena, waiter->armed, true);
    if (!waiter->limited) BTI_SET(arena, waiter->client->blocked, waiter->client->blocked + 1);
    return true;
}

void bti_waiter_free(bti_state *state, bti_waiter *waiter, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    for (bti_wait *next, *wait = waiter->waits; wait; wait = next) {
        next = wait->next_of_waiter;
        if (!wait->over) {
            if (wait->next) BTI_SET(arena, wait->next->before, wait->before);
            if (wait->before)
                BTI_SET(arena, wait->before->next, wait->next);
            else
                BTI_SET(arena, wait->object->waits, wait->next);
        }
        bti_object_drop(state, wait->object, wakes);
        bti_record_free(arena, BTI_WAITS, wait);
    }
    bti_client *client = waiter->client;
    if (waiter->next) BTI_SET(arena, waiter->next->before, waiter->before);
    if (waiter->before)
        BTI_SET(arena, waiter->before->next, waiter->next);
    else
        BTI_SET(arena, client->waiters, waiter->next);
    if (waiter->armed && !waiter->limited) BTI_SET(arena, client->blocked, client->blocked - 1);
    bti_record_free(arena, BTI_WAITERS, waiter);
    if (!client->waiters && client->task && !client->actor) bti_retake_cpus(state, client->task);
}

static void tell_waiter(bti_state *state, bti_waiter *waiter, bt_status status, const char *text, bti_wakes *wakes) {
    if (!waiter->client->is_program) {
        bti_mail_reply(waiter->client, waiter->slot, status, NULL, text, wakes);
        return;
    }
    bti_wake_later(wakes, &waiter->word);
    if (atomic_load(&waiter->leads)) bti_wake_later(wakes, &state->bells->program);
}

/* The waiter of a worker is freed with the answer. */
static void answer_waiter(bti_state *state, bti_waiter *waiter, bt_status status, const char *text, bti_wakes *wakes) {
    tell_waiter(state, waiter, status, text, wakes);
    if (!waiter->client->is_program) bti_waiter_free(state, waiter, wakes);
}

/* The object of the wait is done. The waiter holds the object until it is freed. */
static void finish_wait(bti_state *state, bti_wait *wait, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    bti_waiter *waiter = wait->waiter;
    BTI_SET(arena, wait->object->waits, wait->next);
    if (wait->next) BTI_SET(arena, wait->next->before, NULL);
    BTI_SET(arena, wait->over, true);
    BTI_SET(arena, waiter->left, waiter->left - 1);
    if (waiter->armed && waiter->left == 0) answer_waiter(state, waiter, BT_OK, NULL, wakes);
}

void bti_waiter_stuck(bti_state *state, bti_waiter *waiter, bt_status status, const char *text, bti_wakes *wakes) {
    snprintf(waiter->text, sizeof waiter->text, "%s", text);
    waiter->stuck = true;
    waiter->left = 0;
    answer_waiter(state, waiter, status, text, wakes);
}

/* --- done ---------------------------------------------------------------------------------------------------------- */

/* The scheduler gets the links of tasks that waited for the object, before those that it has already. */
static void hand_over_links(bti_state *state, bti_object *object) {
    bti_link *last = object->links;
    if (!last) return;
    while (last->next) last = last->next;
    BTI_SET(state->arena, last->next, state->arrived);
    BTI_SET(state->arena, state->arrived, object->links);
    BTI_SET(state->arena, object->links, NULL);
}

void bti_object_settle(bti_state *state, bti_object *object, bti_object_state as, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    BTI_SET(arena, object->maker, NULL);
    bti_arena_note_word(arena, &object->state, sizeof object->state);
    atomic_store(&object->state, as); /* read without the lock, so it is written after the value */
    if (as == BTI_OBJECT_READY) bti_object_make_spillable(state, object);
    while (object->waits) finish_wait(state, object->waits, wakes);
    hand_over_links(state, object);
}

bt_failure bti_failure_of(bt_status status) {
    switch (status) {
    case BT_CANCELLED: return BT_FAILURE_CANCELLED;
    case BT_DEADLINE_EXCEEDED: return BT_FAILURE_DEADLINE;
    case BT_ABORTED: return BT_FAILURE_PROCESS_DIED;
    case BT_RESOURCE_EXHAUSTED: return BT_FAILURE_OUT_OF_MEMORY;
    default: return BT_FAILURE_REFUSED;
    }
}

void bti_object_fail(bti_state *state, bti_object *object, bt_status status, const char *text, bti_wakes *wakes) {
    bti_object_fail_as(state, object, bti_failure_of(status), status, text, wakes);
}

void bti_object_fail_as(bti_state *state, bti_object *object, bt_failure kind, bt_status status, const char *text,
                        bti_wakes *wakes) {
    bt_item_value value = {.type = BT_TEXT_VALUE, .as.text = text};
    if (atomic_load(&object->state) == BTI_OBJECT_FAILED) return;
    bti_object_leave_room(state, object);
    bti_object_empty(state, object);
    uint64_t bytes = bti_pack_bytes(&value, 1);
    char *room = object->small;
    if (bytes > sizeof object->small) {
        room = bti_store_take(state, bytes);
        if (room) BTI_SET(state->arena, object->value, room);
    }
    if (room) {
        BTI_SET(state->arena, object->bytes, bytes);
        (void)!bti_pack(&value, 1, room);
    }
    BTI_SET(state->arena, object->status, (uint32_t)status);
    BTI_SET(state->arena, object->failure, (uint32_t)kind);
    bti_object_settle(state, object, BTI_OBJECT_FAILED, wakes);
}

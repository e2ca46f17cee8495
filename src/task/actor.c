#include "task/actor.h"

#include <stdio.h>

#include "task/object.h"

/* --- the line ----------------------------------------------------------------------------------------------------------- */

void bti_actor_add(bti_state *state, bti_task_record *task, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    bti_actor_record *actor = task->actor;
    BTI_SET(arena, task->right, NULL);
    BTI_SET(arena, task->state, BTI_TASK_QUEUED);
    if (actor->last)
        BTI_SET(arena, actor->last->right, task);
    else
        BTI_SET(arena, actor->first, task);
    BTI_SET(arena, actor->last, task);
    BTI_SET(arena, actor->length, actor->length + 1);
    bti_actor_look(actor, wakes);
}

void bti_actor_look(bti_actor_record *actor, bti_wakes *wakes) {
    if (actor->client && actor->client->state == BTI_CLIENT_IDLE) bti_wake_later(wakes, &actor->client->word);
}

static bti_task_record *take_first(bti_state *state, bti_actor_record *actor) {
    bti_task_record *task = actor->first;
    BTI_SET(state->arena, actor->first, task->right);
    if (!task->right) BTI_SET(state->arena, actor->last, NULL);
    BTI_SET(state->arena, actor->length, actor->length - 1);
    return task;
}

bti_task_record *bti_actor_next(bti_state *state, bti_actor_record *actor, bti_wakes *wakes) {
    while (actor->first && actor->first->cancelled) {
        bti_task_record *task = take_first(state, actor);
        if (task->missing)
            BTI_SET(state->arena, task->actor, NULL); /* it ends when they come */
        else
            bti_task_end(state, task, wakes);
    }
    return actor->first && !actor->first->missing ? take_first(state, actor) : NULL;
}

/* --- life and death ----------------------------------------------------------------------------------------------------- */

bool bti_actor_over(const bti_actor_record *actor) { return !actor->first && actor->self->holders == 1; }

void bti_actor_made(bti_state *state, bti_actor_record *actor, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    BTI_SET(arena, actor->maker->state, BTI_TASK_KEPT);
    if (actor->maker->deadline_ns) BTI_SET(arena, actor->maker->deadline_ns, 0); /* not that of a restart */
    if (actor->maker->frees_cpus) bti_lend_cpus(state, actor->maker);
    BTI_SET(arena, actor->state, BTI_ACTOR_ALIVE);
    if (atomic_load(&actor->self->state) == BTI_OBJECT_PENDING)
        bti_object_settle(state, actor->self, BTI_OBJECT_READY, wakes);
}

/* Records of it go; the object stays for who has handles. */
static void bury(bti_state *state, bti_actor_record *actor, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    bti_actor_record **at = &state->actors;
    while (*at != actor) at = &(*at)->next;
    BTI_SET(arena, *at, actor->next);
    BTI_SET(arena, actor->self->actor, NULL);
    if (actor->maker) bti_task_end(state, actor->maker, wakes);
    bti_object_drop(state, actor->self, wakes);
    bti_record_free(arena, BTI_ACTORS, actor);
}

/* The making stands in a queue, or waits for arguments: it is dropped when its turn comes. */
static void cancel_making(bti_state *state, bti_actor_record *actor) {
    BTI_SET(state->arena, actor->maker->cancelled, true);
    BTI_SET(state->arena, actor->maker->actor, NULL);
    BTI_SET(state->arena, actor->maker, NULL);
}

void bti_actor_die(bti_state *state, bti_actor_record *actor, bt_status status, const char *why, bti_wakes *wakes) {
    if (actor->state == BTI_ACTOR_DEAD) return;
    BTI_SET(state->arena, actor->state, BTI_ACTOR_DEAD);
    bti_object_fail(state, actor->self, status, why, wakes);
    for (bti_task_record *next, *task = actor->first; task; task = next) {
        next = task->right;
        bti_object_fail(state, task->result, status, why, wakes);
        if (task->missing) { /* it ends when they come */
            BTI_SET(state->arena, task->cancelled, true);
            BTI_SET(state->arena, task->actor, NULL);
        } else {
            bti_task_end(state, task, wakes);
        }
    }
    BTI_SET(state->arena, actor->first, NULL);
    BTI_SET(state->arena, actor->last, NULL);
    BTI_SET(state->arena, actor->length, 0);
    if (actor->client) return;
    cancel_making(state, actor);
    bury(state, actor, wakes);
}

void bti_actor_unheld(bti_state *state, bti_actor_record *actor, bti_wakes *wakes) {
    if (actor->first) return;
    if (actor->client)
        bti_wake_later(wakes, &actor->client->word);
    else
        bti_actor_die(state, actor, BT_CANCELLED, "nobody had a handle to the actor any more", wakes);
}

/* The method that ran: once more after the restart, or failed. */
static void method_gone(bti_state *state, bti_actor_record *actor, bti_task_record *task, bool restarts,
                        const char *why, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    if (restarts && task->retries && !task->cancelled) {
        BTI_SET(arena, task->retries, task->retries - 1);
        bti_task_unpin(state, task);
        BTI_SET(arena, task->client, NULL);
        BTI_SET(arena, task->state, BTI_TASK_QUEUED);
        BTI_SET(arena, task->right, actor->first);
        if (!actor->first) BTI_SET(arena, actor->last, task);
        BTI_SET(arena, actor->first, task);
        BTI_SET(arena, actor->length, actor->length + 1);
        return;
    }
    bti_object_fail(state, task->result, task->cancelled ? BT_CANCELLED : BT_ABORTED, why, wakes);
    bti_task_end(state, task, wakes);
}

void bti_actor_gone(bti_state *state, bti_actor_record *actor, bti_task_record *running, const char *why,
                    bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    bool again = running && running != actor->maker && running->retries && !running->cancelled;
    bool restarts = actor->state != BTI_ACTOR_DEAD && actor->restarts && (again || !bti_actor_over(actor));
    /* The failure is read without the lock: who sees that the call failed sees that the actor has ended. */
    if (!restarts) bti_actor_die(state, actor, BT_ABORTED, why, wakes);
    if (running && running != actor->maker) method_gone(state, actor, running, restarts, why, wakes);
    if (!restarts) {
        BTI_SET(arena, actor->client, NULL);
        bury(state, actor, wakes);
        return;
    }
    bti_task_record *maker = actor->maker;
    bti_task_unpin(state, maker);
    bti_give_back(state, maker);
    BTI_SET(arena, maker->client, NULL);
    BTI_SET(arena, actor->client, NULL);
    BTI_SET(arena, actor->restarts, actor->restarts - 1);
    BTI_SET(arena, actor->restarted, actor->restarted + 1);
    BTI_SET(arena, actor->state, BTI_ACTOR_WAITING);
    bti_queue_add(state, maker);
}

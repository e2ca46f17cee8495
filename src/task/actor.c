#include "task/actor.h"

#include "task/given.h"
#include "task/object.h"
#include "task/settle.h"
#include "task/supply.h"
#include "task/tasks.h"

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
    bti_actor_feed(state, actor, wakes);
}

void bti_actor_line_first(bti_state *state, bti_task_record *task) {
    bti_arena *arena = state->arena;
    bti_actor_record *actor = task->actor;
    BTI_SET(arena, task->state, BTI_TASK_QUEUED);
    BTI_SET(arena, task->right, actor->first);
    if (!actor->first) BTI_SET(arena, actor->last, task);
    BTI_SET(arena, actor->first, task);
    BTI_SET(arena, actor->length, actor->length + 1);
}

static bti_task_record *take_first_method(bti_state *state, bti_actor_record *actor) {
    bti_task_record *task = actor->first;
    BTI_SET(state->arena, actor->first, task->right);
    if (!task->right) BTI_SET(state->arena, actor->last, NULL);
    BTI_SET(state->arena, actor->length, actor->length - 1);
    return task;
}

/* The first method of the line; NULL when there is none, or its arguments are missing. */
static bti_task_record *next_ready_method(bti_state *state, bti_actor_record *actor, bti_wakes *wakes) {
    while (actor->first && actor->first->cancelled) {
        bti_task_record *task = take_first_method(state, actor);
        if (task->missing)
            BTI_SET(state->arena, task->actor, NULL); /* it ends when they come */
        else
            bti_task_end(state, task, wakes);
    }
    return actor->first && !actor->first->missing ? actor->first : NULL;
}

/* It has no handle, and its line is empty: its process ends. */
static bool is_actor_over(const bti_actor_record *actor) { return !actor->first && actor->self->holders == 1; }

void bti_actor_feed(bti_state *state, bti_actor_record *actor, bti_wakes *wakes) {
    bti_client *worker = actor->client;
    bti_task_record *next;
    if (!worker || actor->state == BTI_ACTOR_WAITING) return;
    while (bti_given_has_room(worker) && (next = next_ready_method(state, actor, wakes)) != NULL) {
        if (!bti_may_be_ahead(state, next) && bti_given_count(worker) >= worker->at_once) break;
        bti_give(state, worker, take_first_method(state, actor), wakes);
    }
    bool idle = !bti_given_count(worker);
    if (idle && is_actor_over(actor)) {
        bti_actor_die(state, actor, BT_FAILURE_CANCELLED, BT_CANCELLED, "nobody had a handle to the actor any more",
                      wakes);
        bti_give_end(state, worker, wakes);
    }
    uint32_t now = idle ? BTI_CLIENT_IDLE : BTI_CLIENT_BUSY;
    if (worker->state != now) BTI_SET(state->arena, worker->state, now);
}

/* --- life and death ----------------------------------------------------------------------------------------------------- */

void bti_actor_made(bti_state *state, bti_actor_record *actor, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    BTI_SET(arena, actor->maker->state, BTI_TASK_KEPT);
    if (actor->maker->deadline_ns) BTI_SET(arena, actor->maker->deadline_ns, 0); /* a restart has none */
    if (actor->maker->frees_cpus) bti_lend_cpus(state, actor->maker);
    BTI_SET(arena, actor->state, BTI_ACTOR_ALIVE);
    if (atomic_load(&actor->self->state) == BTI_OBJECT_PENDING)
        bti_object_settle(state, actor->self, BTI_OBJECT_READY, wakes);
}

static void forget_unheld(bti_state *state, bti_actor_record *actor) {
    bti_actor_record **at = &state->unheld_actors;
    while (*at != actor) at = &(*at)->next_unheld;
    BTI_SET(state->arena, *at, actor->next_unheld);
    BTI_SET(state->arena, actor->unheld, false);
}

/* Frees its records. The object stays as long as there are handles. */
static void free_actor(bti_state *state, bti_actor_record *actor, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    bti_actor_record **at = &state->actors;
    while (*at != actor) at = &(*at)->next;
    BTI_SET(arena, *at, actor->next);
    BTI_SET(arena, actor->self->actor, NULL);
    if (actor->maker) bti_task_end(state, actor->maker, wakes);
    bti_object_drop(state, actor->self, wakes);
    if (actor->unheld) forget_unheld(state, actor);
    bti_record_free(arena, BTI_ACTORS, actor);
}

/* The call that makes the actor is queued, or waits for arguments: it is dropped when its turn comes. */
static void cancel_making(bti_state *state, bti_actor_record *actor) {
    BTI_SET(state->arena, actor->maker->cancelled, true);
    BTI_SET(state->arena, actor->maker->actor, NULL);
    BTI_SET(state->arena, actor->maker, NULL);
}

static void drop_line(bti_state *state, bti_actor_record *actor, bt_failure kind, bt_status status, const char *why,
                      bti_wakes *wakes) {
    for (bti_task_record *next, *task = actor->first; task; task = next) {
        next = task->right;
        bti_task_fail_as(state, task, kind, status, why, wakes);
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
}

/* Methods that its worker was given and has not begun. */
static void fail_given_methods(bti_state *state, const bti_client *worker, bt_failure kind, bt_status status,
                               const char *why, bti_wakes *wakes) {
    bti_task_record *task;
    uint32_t next = 0;
    while ((task = bti_given_next(worker, &next)) != NULL) {
        if (task->makes_actor || bti_given_is_taken(task)) continue;
        BTI_SET(state->arena, task->cancelled, true);
        bti_task_fail_as(state, task, kind, status, why, wakes);
    }
}

void bti_actor_die(bti_state *state, bti_actor_record *actor, bt_failure kind, bt_status status, const char *why,
                   bti_wakes *wakes) {
    if (actor->state == BTI_ACTOR_DEAD) return;
    BTI_SET(state->arena, actor->state, BTI_ACTOR_DEAD);
    bti_object_fail_as(state, actor->self, kind, status, why, wakes);
    drop_line(state, actor, kind, status, why, wakes);
    if (actor->client) {
        fail_given_methods(state, actor->client, kind, status, why, wakes);
        return;
    }
    cancel_making(state, actor);
    free_actor(state, actor, wakes);
}

void bti_actor_end_unheld(bti_state *state, bti_wakes *wakes) {
    bti_actor_record *actor = state->unheld_actors;
    forget_unheld(state, actor);
    if (!is_actor_over(actor)) return;
    if (actor->client)
        bti_actor_feed(state, actor, wakes);
    else
        bti_actor_die(state, actor, BT_FAILURE_CANCELLED, BT_CANCELLED, "nobody had a handle to the actor any more",
                      wakes);
}

/* A method that ran is retried after the restart, or fails. */
static void end_method_of_gone(bti_state *state, bti_task_record *task, bool restarts, const char *why,
                               bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    if (restarts && task->retries && !task->cancelled) {
        BTI_SET(arena, task->retries, task->retries - 1);
        bti_task_unpin(state, task);
        BTI_SET(arena, task->client, NULL);
        bti_actor_line_first(state, task);
        return;
    }
    bti_task_fail_gone(state, task, why, wakes);
    bti_task_end(state, task, wakes);
}

/* Puts methods that the worker had and did not begin at the front of the line. Returns the others (linked by `right`), the last one first. */
static bti_task_record *take_begun_methods(bti_state *state, bti_client *worker) {
    bti_arena *arena = state->arena;
    bti_task_record *begun = NULL, *last = NULL, *task;
    while ((task = bti_given_pop(state, worker)) != NULL) {
        if (task->makes_actor) continue;
        if (bti_given_is_waiting(task)) {
            bti_task_unpin(state, task);
            BTI_SET(arena, task->client, NULL);
            bti_actor_line_first(state, task);
            continue;
        }
        BTI_SET(arena, task->right, NULL);
        if (last)
            BTI_SET(arena, last->right, task);
        else
            begun = task;
        last = task;
    }
    return begun;
}

void bti_actor_gone(bti_state *state, bti_actor_record *actor, const char *why, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    bti_task_record *begun = take_begun_methods(state, actor->client);
    bool again = !is_actor_over(actor);
    for (const bti_task_record *task = begun; task; task = task->right) again |= task->retries && !task->cancelled;
    bool restarts = actor->state != BTI_ACTOR_DEAD && actor->restarts && again;
    /* Failures are read without the lock: once a failed call is visible, the end of the actor must be visible too. */
    bt_failure kind = bti_death_of(actor->client);
    if (!restarts) bti_actor_die(state, actor, kind, BT_ABORTED, why, wakes);
    for (bti_task_record *next, *task = begun; task; task = next) {
        next = task->right;
        end_method_of_gone(state, task, restarts, why, wakes);
    }
    if (!restarts) {
        drop_line(state, actor, kind, BT_ABORTED, why, wakes);
        BTI_SET(arena, actor->client, NULL);
        free_actor(state, actor, wakes);
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
    bti_task_enqueue(state, maker);
}

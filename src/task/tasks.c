/* A task from its arguments to its end. */
#include "task/actor.h"
#include "task/chores.h"
#include "task/given.h"
#include "task/object.h"
#include "task/store.h"
#include "task/timeline.h"
#include "task/value.h"

const char *bti_arguments_of(const bti_task_record *task) {
    return task->pack ? bti_object_value(task->pack) : task->small_arguments;
}

/* To a new task, whose last part is `last`. */
static bool add_object(bti_state *state, bti_task_record *task, bti_object *object, bti_more **last) {
    uint32_t index = task->object_count;
    if (index < BTI_FIRST_OBJECTS) {
        task->objects[index] = object;
    } else {
        uint32_t at = (index - BTI_FIRST_OBJECTS) % BTI_MORE_OBJECTS;
        if (!at) {
            bti_more *more = bti_record_new(state->arena, BTI_MORE);
            if (!more) return false;
            *(*last ? &(*last)->next : &task->more) = more;
            *last = more;
        }
        (*last)->objects[at] = object;
    }
    task->object_count++;
    return true;
}

bti_object *bti_task_next_object(bti_objects_at *at) {
    if (at->index >= at->task->object_count) return NULL;
    if (at->index < BTI_FIRST_OBJECTS) return at->task->objects[at->index++];
    uint32_t place = (at->index - BTI_FIRST_OBJECTS) % BTI_MORE_OBJECTS;
    if (!place) at->more = at->index == BTI_FIRST_OBJECTS ? at->task->more : at->more->next;
    at->index++;
    return at->more->objects[place];
}

typedef struct awaiting {
    bti_state *state;
    bti_task_record *task;
    bti_more *last;
} awaiting;

/* What stands in a list is held, and not waited for. */
static bool await_one(void *data, const bti_packed_value *head, bool nested) {
    awaiting *a = data;
    bti_state *state = a->state;
    bti_task_record *task = a->task;
    bti_object *object = bti_object_of(state, head->as.id);
    if (nested) return bti_contents_add(state, &task->inner, object);
    if (!add_object(state, task, object, &a->last)) return false;
    bti_object_retain(state, object);
    if (object->actor || atomic_load(&object->state) != BTI_OBJECT_PENDING) return true;
    bti_link *link = bti_record_new(state->arena, BTI_LINKS);
    if (!link) return false;
    link->task = task;
    link->next = object->links;
    BTI_SET(state->arena, object->links, link);
    BTI_SET(state->arena, task->missing, task->missing + 1);
    return true;
}

bool bti_task_await(bti_state *state, bti_task_record *task, bti_wakes *wakes) {
    awaiting a = {.state = state, .task = task};
    if (!bti_packed_each(bti_arguments_of(task), await_one, &a))
        return false; /* what was done so far is taken back with the task */
    if (task->missing) {
        BTI_SET(state->arena, task->state, BTI_TASK_ARGUMENTS);
    }
    if (task->actor && !task->makes_actor) bti_actor_add(state, task, wakes);
    if (!task->missing) bti_task_ready(state, task, wakes);
    return true;
}

/* Of those that have failed the first; NULL. */
static const bti_object *failed_argument(const bti_task_record *task) {
    bti_objects_at at = {.task = task};
    for (const bti_object *object; (object = bti_task_next_object(&at)) != NULL;)
        if (!object->actor && atomic_load(&object->state) == BTI_OBJECT_FAILED) return object;
    return NULL;
}

void bti_task_ready(bti_state *state, bti_task_record *task, bti_wakes *wakes) {
    const bti_object *failed = failed_argument(task);
    if (!task->queue && !task->actor) { /* its actor died meanwhile */
        bti_task_end(state, task, wakes);
    } else if (failed && task->queue && !task->cancelled) {
        bti_task_refuse(state, task, (bt_failure)failed->failure, (bt_status)failed->status,
                        bti_object_failure_text(failed), wakes);
    } else if (!task->actor || task->makes_actor) {
        bti_queue_add(state, task);
    } else if (task->actor->first == task) {
        bti_actor_feed(state, task->actor, wakes);
    }
}

/* --- pins -------------------------------------------------------------------------------------------------------------- */

bti_object *bti_task_next_stored(bti_objects_at *at) {
    if (!at->has_pack) {
        at->has_pack = true;
        if (at->task->pack) return at->task->pack;
    }
    for (bti_object *object; (object = bti_task_next_object(at)) != NULL;)
        if (atomic_load(&object->state) == BTI_OBJECT_READY && object->bytes > sizeof object->small) return object;
    return NULL;
}

uint64_t bti_task_stored_bytes(const bti_task_record *task) {
    bti_objects_at at = {.task = task};
    uint64_t bytes = 0;
    for (const bti_object *object; (object = bti_task_next_stored(&at)) != NULL;) bytes += object->bytes;
    return bytes;
}

bool bti_task_pin_now(bti_state *state, bti_task_record *task) {
    bti_objects_at all = {.task = task}, at = all;
    bti_object *object = bti_task_next_stored(&at);
    if (task->pinned || !object) return true;
    for (; object; object = bti_task_next_stored(&at))
        if (!bti_object_value(object)) return false;
    for (at = all; (object = bti_task_next_stored(&at)) != NULL;) bti_object_pin(state, object);
    BTI_SET(state->arena, task->pinned, true);
    return true;
}

void bti_task_unpin(bti_state *state, bti_task_record *task) {
    if (task->needs_bytes) {
        BTI_SET(state->arena, state->needed_bytes, state->needed_bytes - task->needs_bytes);
        BTI_SET(state->arena, task->needs_bytes, 0);
        if (state->crowded) bti_dispatch_crowded(state);
    }
    bti_objects_at at = {.task = task};
    if (!task->pinned) return;
    for (bti_object *object; (object = bti_task_next_stored(&at)) != NULL;) bti_object_unpin(state, object);
    BTI_SET(state->arena, task->pinned, false);
}

/* --- ends -------------------------------------------------------------------------------------------------------------- */

static void drop_objects(bti_state *state, const bti_task_record *task, bti_wakes *wakes) {
    bti_objects_at at = {.task = task};
    for (bti_object *object; (object = bti_task_next_object(&at)) != NULL;) bti_object_drop(state, object, wakes);
    for (bti_more *next, *more = task->more; more; more = next) {
        next = more->next;
        bti_record_free(state->arena, BTI_MORE, more);
    }
}

void bti_task_end(bti_state *state, bti_task_record *task, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    bti_timeline_note(state, task);
    bti_task_unpin(state, task);
    if (task->client) bti_give_back(state, task);
    drop_objects(state, task, wakes);
    bti_contents_drop(state, &task->inner, wakes);
    for (bti_left_room *next, *left = task->left_rooms; left; left = next) {
        next = left->next;
        bti_store_give(state, left->room, left->bytes);
        bti_record_free(arena, BTI_LEFT_ROOMS, left);
    }
    if (task->pack) bti_object_drop(state, task->pack, wakes);
    bti_task_drop_results(state, task, wakes);
    if (task->queue) BTI_SET(arena, task->queue->users, task->queue->users - 1);
    if (task->queue && task->queue->group) BTI_SET(arena, task->queue->group->users, task->queue->group->users - 1);
    BTI_SET(arena, task->state, BTI_TASK_NONE);
    bti_record_free(arena, BTI_TASKS, task);
}

void bti_task_refuse(bti_state *state, bti_task_record *task, bt_failure kind, bt_status status, const char *why,
                     bti_wakes *wakes) {
    if (task->makes_actor && task->actor) {
        bti_actor_die(state, task->actor, kind, status, why, wakes); /* drops the task from its actor */
    } else {
        bti_task_fail_as(state, task, kind, status, why, wakes);
    }
    bti_task_end(state, task, wakes);
}

void bti_task_fail_gone(bti_state *state, const bti_task_record *task, const char *why, bti_wakes *wakes) {
    if (task->cancelled)
        bti_task_fail(state, task, BT_CANCELLED, why, wakes);
    else
        bti_task_fail_as(state, task, bti_death_of(task->client), BT_ABORTED, why, wakes);
}

/* It ran in a process that is gone. */
static void task_gone(bti_state *state, bti_task_record *task, const char *why, bti_wakes *wakes) {
    if (task->state != BTI_TASK_KEPT && task->retries && !task->cancelled) {
        BTI_SET(state->arena, task->retries, task->retries - 1);
        bti_task_unpin(state, task);
        bti_give_back(state, task);
        BTI_SET(state->arena, task->client, NULL);
        bti_queue_add(state, task);
        return;
    }
    if (task->state != BTI_TASK_KEPT) bti_task_fail_gone(state, task, why, wakes);
    bti_task_end(state, task, wakes);
}

static void leave_list(bti_state *state, bti_client *client) {
    bti_arena *arena = state->arena;
    if (client->next) BTI_SET(arena, client->next->before, client->before);
    if (client->before)
        BTI_SET(arena, client->before->next, client->next);
    else
        BTI_SET(arena, state->clients, client->next);
    bti_client_unrest(state, client);
}

/* The calls that its worker was given: those that it had not begun are queued once more. */
static void given_gone(bti_state *state, bti_client *client, const char *why, bti_wakes *wakes) {
    bool had_run = client->task && client->task->number > 0;
    bti_task_record *task;
    uint32_t next = 0;
    while ((task = bti_given_next(client, &next)) != NULL) {
        bool first = task == client->task;
        if (task->state == BTI_TASK_KEPT || !bti_given_is_waiting(task) || (first && !had_run)) {
            if (!first) {
                bti_supply_take(state, bti_supply_of(state, task->queue), &task->queue->amounts, 0, false);
                BTI_SET(state->arena, state->ahead, state->ahead - 1);
            }
            task_gone(state, task, why, wakes);
        } else {
            bti_given_take_out(state, client, task);
            bti_task_ready(state, task, wakes);
        }
    }
}

void bti_client_gone(bti_state *state, bti_client *client, const char *why, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    leave_list(state, client);
    bti_chores_forget(state, client);
    while (client->waiters) bti_waiter_free(state, client->waiters, wakes);
    while (client->holds) {
        bti_hold_free(state, client->holds, wakes);
        bti_arena_commit(arena); /* there may be millions */
    }
    if (client->actor)
        bti_actor_gone(state, client->actor, why, wakes);
    else
        given_gone(state, client, why, wakes);
    BTI_SET(arena, client->state, BTI_CLIENT_ENDED);
    BTI_SET(arena, client->mail, NULL);
    BTI_SET(arena, state->worker_count, state->worker_count - 1);
    BTI_SET(arena, state->progress, state->progress + 1);
    bti_record_free(arena, BTI_CLIENTS, client);
    bti_dispatch(state, wakes);
}

/* --- deadlines --------------------------------------------------------------------------------------------------------- */

static void pass_deadline(bti_state *state, bti_task_record *task, bti_wakes *wakes) {
    static const char late[] = "its deadline has passed";
    BTI_SET(state->arena, task->cancelled, true);
    BTI_SET(state->arena, task->deadline_ns, 0);
    bool runs = bti_task_runs(task) || (task->makes_actor && task->state == BTI_TASK_GIVEN);
    if (runs && (!task->actor || task->makes_actor)) BTI_SET(state->arena, task->client->kill, true);
    if (task->makes_actor && task->actor)
        bti_actor_die(state, task->actor, BT_FAILURE_DEADLINE, BT_DEADLINE_EXCEEDED, late, wakes);
    else
        bti_task_fail(state, task, BT_DEADLINE_EXCEEDED, late, wakes);
    if (task->actor && !task->makes_actor) bti_actor_feed(state, task->actor, wakes);
    if (task->queue && task->state == BTI_TASK_QUEUED) (void)bti_queue_clean(state, task->queue, wakes);
}

uint64_t bti_deadlines(bti_state *state, uint64_t now_ns, bti_wakes *wakes) {
    uint64_t next = 0;
    if (!state->next_deadline_ns || state->next_deadline_ns > now_ns) return state->next_deadline_ns;
    const bti_records *tasks = &state->arena->records[BTI_TASKS];
    for (uint32_t i = 0; i < tasks->used; i++) {
        bti_task_record *task = (bti_task_record *)(void *)(tasks->first + i * tasks->bytes);
        if (!task->deadline_ns || task->state == BTI_TASK_NONE || task->state == BTI_TASK_KEPT) continue;
        if (task->deadline_ns <= now_ns)
            pass_deadline(state, task, wakes);
        else if (!next || task->deadline_ns < next)
            next = task->deadline_ns;
    }
    BTI_SET(state->arena, state->next_deadline_ns, next);
    bti_dispatch(state, wakes);
    return next;
}

/* Calls as the scheduler gets them (order.h): a task, an actor or a method is made of an order, cancelled, or killed. With the lock. */
#include "task/order.h"

#include <stdio.h>

#include "base/clock.h"
#include "task/actor.h"
#include "task/dispatch.h"
#include "task/given.h"
#include "task/placement.h"
#include "task/queue.h"
#include "task/ready.h"
#include "task/settle.h"
#include "task/tasks.h"

static bti_function_record *function_record(bti_state *state, const bti_call_order *order) {
    for (bti_function_record *f = state->functions; f; f = f->next)
        if (!strcmp(f->name, order->function) && !strcmp(f->module, order->module)) return f;
    bti_function_record *f = bti_record_new(state->arena, BTI_FUNCTIONS);
    if (!f) return NULL;
    snprintf(f->name, sizeof f->name, "%s", order->function);
    snprintf(f->module, sizeof f->module, "%s", order->module);
    f->next = state->functions;
    BTI_SET(state->arena, state->functions, f);
    return f;
}

/* --- submitting -------------------------------------------------------------------------------------------------------- */

static void set_deadline(bti_state *state, bti_task_record *task, const bti_call_order *order, bti_wakes *wakes) {
    if (!(order->deadline_seconds > 0) || order->deadline_seconds > 1e9) return;
    task->deadline_ns = order->made_ns + (uint64_t)(order->deadline_seconds * 1e9);
    if (state->next_deadline_ns && state->next_deadline_ns <= task->deadline_ns) return;
    BTI_SET(state->arena, state->next_deadline_ns, task->deadline_ns);
    wakes->nest = true;
}

/* Puts arguments into the store that are too large for the task. */
static bool pack_arguments(bti_state *state, bti_task_record *task, const char *arguments, uint64_t bytes) {
    task->pack = bti_object_new(state);
    return task->pack && bti_object_copy(state, task->pack, arguments, bytes);
}

static bool set_arguments(bti_state *state, bti_task_record *task, const bti_call_order *order, const char *arguments,
                          bti_wakes *wakes) {
    if (order->pack) {
        task->pack = order->pack->object;
        bti_object_retain(state, task->pack);
    } else if (order->bytes <= sizeof task->small_arguments) {
        memcpy(task->small_arguments, arguments, order->bytes);
    } else if (!pack_arguments(state, task, arguments, order->bytes)) {
        return false;
    }
    if (task->pack && atomic_load(&task->pack->state) == BTI_OBJECT_PENDING)
        bti_object_settle(state, task->pack, BTI_OBJECT_READY, wakes);
    return true;
}

static bti_task_record *new_task(bti_state *state, const bti_client *client, const bti_call_order *order,
                                 const char *arguments, bti_wakes *wakes) {
    bti_group_record *group = order->group ? order->group->group : NULL;
    bti_task_record *task = bti_record_new(state->arena, BTI_TASKS);
    if (!task || !(task->function = function_record(state, order))) return NULL;
    if (order->kind != BTI_CALL_METHOD &&
        !(task->queue = bti_queue_of(state, &order->amounts, group, group ? order->bundle : 0)))
        return NULL;
    if (task->queue) BTI_SET(state->arena, task->queue->users, task->queue->users + 1);
    if (group) BTI_SET(state->arena, group->users, group->users + 1);
    const bti_task_record *parent = bti_given_call(client, order->call);
    if (!parent) parent = client->task; /* the caller is a thread that the call has started */
    task->priority = order->priority != BTI_UNSET_INT ? order->priority : parent ? parent->priority : 0;
    task->depth = parent ? parent->depth + 1 : 0;
    task->parent = parent;
    task->parent_sequence = parent ? parent->sequence : 0;
    task->retries = order->max_retries;
    task->retry_failures = order->retry_failures;
    task->max_calls = order->max_calls > 0 ? (uint32_t)order->max_calls : 0;
    task->makes_actor = order->kind == BTI_CALL_ACTOR;
    task->hides_gpus = order->hides_gpus;
    task->frees_cpus = order->frees_cpus;
    task->sequence = state->sequence;
    task->submitter = client->pid;
    task->submitted_ns = order->made_ns;
    BTI_SET(state->arena, state->sequence, state->sequence + 1);
    if (!set_arguments(state, task, order, arguments, wakes)) return NULL;
    set_deadline(state, task, order, wakes);
    return task;
}

/* A task and the hold of its result; NULL: no record is left. */
static bti_hold *submit_task(bti_state *state, bti_client *client, const bti_call_order *order, const char *arguments,
                             bti_hold *hold, bti_wakes *wakes) {
    bti_task_record *task = new_task(state, client, order, arguments, wakes);
    if (!task) return NULL;
    if (!hold) {
        task->result = bti_object_new(state);
        hold = task->result ? bti_hold_new(state, client, task->result) : NULL;
    } else {
        task->result = hold->object;
        bti_object_retain(state, task->result);
    }
    if (!hold) return NULL;
    BTI_SET(state->arena, task->result->maker, task);
    if (order->num_returns > 1 && !bti_results_new(state, task, order->num_returns)) return NULL;
    task->actor = order->actor ? order->actor->actor : NULL;
    return bti_task_await(state, task, wakes) ? hold : NULL;
}

static bti_hold *submit_actor(bti_state *state, bti_client *client, const bti_call_order *order, const char *arguments,
                              bti_wakes *wakes) {
    bti_task_record *task = new_task(state, client, order, arguments, wakes);
    bti_object *self = task ? bti_object_new(state) : NULL;
    bti_actor_record *actor = self ? bti_record_new(state->arena, BTI_ACTORS) : NULL;
    bti_hold *hold = actor ? bti_hold_new(state, client, self) : NULL;
    if (!hold) return NULL;
    self->maker = actor->maker = task;
    self->actor = task->actor = actor;
    actor->self = self;
    actor->restarts = order->max_restarts;
    actor->at_once = (uint32_t)order->max_concurrency;
    task->retries = 0;
    memcpy(actor->name, order->actor_name, sizeof actor->name);
    actor->next = state->actors;
    BTI_SET(state->arena, state->actors, actor);
    return bti_task_await(state, task, wakes) ? hold : NULL;
}

bti_actor_record *bti_actor_named(const bti_state *state, const char *name) {
    for (bti_actor_record *a = state->actors; a; a = a->next)
        if (a->state != BTI_ACTOR_DEAD && !strcmp(a->name, name)) return a;
    return NULL;
}

bti_hold *bti_order_submit(bti_state *state, bti_client *client, const bti_call_order *order, const char *arguments,
                           bti_hold *result, bti_wakes *wakes) {
    bool makes_actor = order->kind == BTI_CALL_ACTOR;
    if (order->actor && atomic_load(&order->actor->state) == BTI_OBJECT_FAILED)
        return (void)bti_object_failure(order->actor), NULL;
    if (makes_actor && *order->actor_name && bti_actor_named(state, order->actor_name))
        return (void)bti_fail(BT_ALREADY_EXISTS, "there is an actor \"%s\" already", order->actor_name), NULL;
    bti_arena_commit(state->arena); /* earlier changes stay if this fails */
    bti_hold *hold = makes_actor ? submit_actor(state, client, order, arguments, wakes)
                                 : submit_task(state, client, order, arguments, result, wakes);
    if (hold) return hold;
    bti_arena_take_back(state->arena);
    return (void)bti_fail(BT_RESOURCE_EXHAUSTED, "%s: there are too many calls", order->function), NULL;
}

/* --- groups ------------------------------------------------------------------------------------------------------------ */

static bti_hold *make_group(bti_state *state, bti_client *client, const bti_supply *supplies, int count) {
    bti_object *self = bti_object_new(state);
    bti_group_record *group = self ? bti_record_new(state->arena, BTI_GROUPS) : NULL;
    bti_hold *hold = group ? bti_hold_new(state, client, self) : NULL;
    if (!hold) return NULL;
    self->group = group;
    group->self = self;
    group->owner = client;
    group->count = count;
    group->queued_ns = bti_now_ns();
    memcpy(group->bundles, supplies, (size_t)count * sizeof *supplies);
    for (int i = 0; i < count; i++) group->bundles[i].group = group;
    bti_group_record **end = &state->groups;
    while (*end) end = &(*end)->next;
    BTI_SET(state->arena, *end, group);
    BTI_SET(state->arena, state->groups_waiting, state->groups_waiting + 1);
    return hold;
}

bti_hold *bti_group_submit(bti_state *state, bti_client *client, const bti_supply *bundles, int count,
                           bti_wakes *wakes) {
    bti_arena_commit(state->arena); /* earlier changes stay if this fails */
    bti_hold *hold = make_group(state, client, bundles, count);
    if (hold)
        bti_dispatch(state, wakes);
    else
        bti_arena_take_back(state->arena);
    return hold;
}

/* --- cancelling and killing --------------------------------------------------------------------------------------------- */

static bt_status cancel_call(bti_state *state, bti_object *object, bool force, bti_wakes *wakes) {
    bti_task_record *task = bti_maker_of(object);
    const bti_object *result = task && task->result ? task->result : object;
    if (!task || atomic_load(&result->state) != BTI_OBJECT_PENDING) return BT_OK;
    bool runs = bti_task_runs(task) || (task->makes_actor && task->state == BTI_TASK_GIVEN);
    if (runs && force && task->actor)
        return bti_fail(BT_INVALID_ARGUMENT, "a method that runs ends only with its actor (bt_actor_kill)");
    BTI_SET(state->arena, task->cancelled, true);
    if (!runs) {
        bti_task_fail(state, task, BT_CANCELLED, "the call was cancelled before it began", wakes);
        if (task->queue && task->state == BTI_TASK_QUEUED) (void)bti_queue_clean(state, task->queue, wakes);
        if (task->actor) bti_actor_feed(state, task->actor, wakes);
    } else if (force) {
        BTI_SET(state->arena, task->client->kill, true);
        wakes->nest = true;
        bti_task_fail(state, task, BT_CANCELLED, "the call was cancelled while it ran", wakes);
    }
    bti_schedule_pending(state, wakes);
    return BT_OK;
}

/* Made by that call, directly or not. A record that belongs to another call by now has another number. */
static bool was_made_by(const bti_task_record *task, uint64_t sequence) {
    while (task->parent && task->parent->sequence == task->parent_sequence) {
        if (task->parent_sequence == sequence) return true;
        task = task->parent;
    }
    return false;
}

static void cancel_made(bti_state *state, uint64_t sequence, bool force, bti_wakes *wakes) {
    const bti_records *tasks = &state->arena->records[BTI_TASKS];
    for (uint32_t i = 0; i < tasks->used; i++) {
        bti_task_record *task = (bti_task_record *)(void *)(tasks->first + i * tasks->bytes);
        if (task->state == BTI_TASK_NONE || task->state == BTI_TASK_KEPT || task->makes_actor || !task->result)
            continue;
        if (was_made_by(task, sequence)) (void)cancel_call(state, task->result, force && !task->actor, wakes);
    }
}

bt_status bti_order_cancel(bti_state *state, bti_object *object, unsigned how, bti_wakes *wakes) {
    const bti_task_record *task = bti_maker_of(object);
    bool force = how & BTI_CANCEL_FORCE, made = how & BTI_CANCEL_MADE && task;
    uint64_t sequence = task ? task->sequence : 0;
    BTI_TRY(cancel_call(state, object, force && !(made && task->actor), wakes));
    if (made) cancel_made(state, sequence, force, wakes);
    return BT_OK;
}

void bti_order_kill(bti_state *state, bti_object *self, bti_wakes *wakes) {
    static const char killed[] = "the actor was killed (bt_actor_kill)";
    bti_actor_record *actor = self->actor;
    if (!actor) return;
    const bti_task_record *task;
    uint32_t next = 0;
    if (actor->client) {
        BTI_SET(state->arena, actor->client->kill, true);
        wakes->nest = true;
    }
    while (actor->client && (task = bti_given_next(actor->client, &next)) != NULL)
        if (!task->makes_actor) bti_task_fail(state, task, BT_CANCELLED, killed, wakes);
    bti_actor_die(state, actor, BT_FAILURE_CANCELLED, BT_CANCELLED, killed, wakes);
}

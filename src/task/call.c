/* Calls: of functions, of actors' making, of methods; and taking them back. */
#include <stdio.h>

#include "task/actor.h"
#include "task/given.h"
#include "task/identity.h"
#include "task/local.h"
#include "task/options.h"
#include "task/order.h"
#include "task/nest.h"
#include "task/server.h"
#include "task/value.h"

/* --- what it is -------------------------------------------------------------------------------------------------------- */

static bt_status check_amounts(const bti_state *state, const bti_call *asked, bti_order *order) {
    const bt_task_options *o = asked->options;
    const char *name = asked->function;
    const bti_supply *supply = &state->machine;
    if (asked->group) {
        order->group = bti_held_object(asked->group);
        const bti_group_record *group = order->group->group;
        if (o->bundle < 0 || o->bundle >= group->count)
            return bti_fail(BT_OUT_OF_RANGE, "%s: bundle %d of a group of %d", name, o->bundle, group->count);
        supply = &group->bundles[o->bundle];
    }
    double cpus = asked->group && !supply->total.of[0] ? 0 : 1; /* of a bundle without CPUs it takes none */
    BTI_TRY(bti_amounts_of(state, o, cpus, &order->amounts));
    uint64_t wanted = order->amounts.gpu_only, only = supply->total.gpu_only;
    if (asked->group && wanted && (!only || only & ~wanted))
        return bti_fail(BT_INVALID_ARGUMENT,
                        "%s: accelerator is \"%s\", but its bundle may have other GPUs: "
                        "BT_BUNDLE(.accelerator) chooses them",
                        name, o->accelerator);
    return bti_amounts_check(state, &order->amounts, supply, name, asked->group ? "its bundle has" : "the runtime has");
}

static bt_status check_options(const bti_call *asked) {
    const bt_task_options *o = asked->options;
    const bti_function_record *f = NULL;
    if (!(o->deadline_seconds >= 0))
        return bti_fail(BT_INVALID_ARGUMENT, "%s: deadline_seconds is %g: the time is over before it begins",
                        asked->function, o->deadline_seconds);
    if (o->max_retries < 0 || o->max_restarts < 0)
        return bti_fail(BT_INVALID_ARGUMENT, "%s: max_retries is %d, max_restarts %d; -1 is without limit",
                        asked->function, o->max_retries, o->max_restarts);
    if (o->num_returns < 1 || o->num_returns > BTI_MOST_RETURNS)
        return bti_fail(BT_INVALID_ARGUMENT, "%s: num_returns is %d; it is 1 to %d", asked->function, o->num_returns,
                        BTI_MOST_RETURNS);
    if (o->num_returns > 1 && asked->kind == BTI_CALL_ACTOR)
        return bti_fail(BT_INVALID_ARGUMENT, "%s: num_returns is %d; what makes an actor returns nothing",
                        asked->function, o->num_returns);
    if (o->max_concurrency < 1 || o->max_concurrency > BTI_MOST_AT_ONCE)
        return bti_fail(BT_INVALID_ARGUMENT, "%s: max_concurrency is %d; an actor runs 1 to %d methods at once",
                        asked->function, o->max_concurrency, BTI_MOST_AT_ONCE);
    if (o->max_calls < 0)
        return bti_fail(BT_INVALID_ARGUMENT, "%s: max_calls is %d; it cannot be below 0", asked->function,
                        o->max_calls);
    if (strlen(asked->function) >= sizeof f->name || strlen(asked->module) >= sizeof f->module)
        return bti_fail(BT_INVALID_ARGUMENT,
                        "%s of module %.*s: names of functions have at most %zu bytes, whole paths of modules %zu",
                        asked->function, (int)strcspn(asked->module, "\n"), asked->module, sizeof f->name - 1,
                        sizeof f->module - 1 - BTI_KEY_END);
    if (asked->kind == BTI_CALL_ACTOR && o->name && strlen(o->name) > 63)
        return bti_fail(BT_INVALID_ARGUMENT, "an actor's name has at most 63 bytes");
    return BT_OK;
}

bt_status bti_order_of(bti_state *state, const bti_call *asked, bti_order *order, char *small, uint64_t most) {
    const bt_task_options *o = asked->options;
    BTI_TRY(check_options(asked));
    *order = (bti_order){.kind = asked->kind,
                         .priority = o->priority,
                         .max_retries = o->max_retries,
                         .max_restarts = o->max_restarts,
                         .retry_failures = o->retry_failures,
                         .bundle = o->bundle,
                         .max_calls = o->max_calls,
                         .num_returns = (uint32_t)o->num_returns,
                         .max_concurrency = o->max_concurrency,
                         .call = BTI_NO_CALL,
                         .deadline_seconds = o->deadline_seconds,
                         .made_ns = bti_now_ns()};
    if (asked->kind == BTI_CALL_METHOD)
        order->actor = bti_held_object(asked->actor);
    else
        BTI_TRY(check_amounts(state, asked, order));
    order->hides_gpus = asked->kind != BTI_CALL_METHOD && !order->amounts.of[1] && bti_is_set(o->num_gpus);
    order->frees_cpus = asked->kind == BTI_CALL_ACTOR && !bti_is_set(o->num_cpus);
    snprintf(order->function, sizeof order->function, "%s", asked->function);
    snprintf(order->module, sizeof order->module, "%s", asked->module);
    if (asked->kind == BTI_CALL_ACTOR && o->name) snprintf(order->actor_name, sizeof order->actor_name, "%s", o->name);
    order->bytes = bti_values_bytes(&asked->arguments);
    if (order->bytes <= most) return bti_values_pack(&asked->arguments, small);
    order->pack = bti_pack_object(&asked->arguments, order->bytes);
    return order->pack ? BT_OK : bt_error_status();
}

static bti_function_record *function_of(bti_state *state, const bti_order *order) {
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

static void set_deadline(bti_state *state, bti_task_record *task, const bti_order *order, bti_wakes *wakes) {
    if (!(order->deadline_seconds > 0) || order->deadline_seconds > 1e9) return;
    task->deadline_ns = order->made_ns + (uint64_t)(order->deadline_seconds * 1e9);
    if (state->next_deadline_ns && state->next_deadline_ns <= task->deadline_ns) return;
    BTI_SET(state->arena, state->next_deadline_ns, task->deadline_ns);
    wakes->nest = true;
}

/* Arguments that stand neither in the task nor in the store yet. */
static bool pack_arguments(bti_state *state, bti_task_record *task, const char *arguments, uint64_t bytes) {
    task->pack = bti_object_new(state);
    return task->pack && bti_object_copy(state, task->pack, arguments, bytes);
}

static bool set_arguments(bti_state *state, bti_task_record *task, const bti_order *order, const char *arguments,
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

static bti_task_record *new_task(bti_state *state, const bti_client *client, const bti_order *order,
                                 const char *arguments, bti_wakes *wakes) {
    bti_group_record *group = order->group ? order->group->group : NULL;
    bti_task_record *task = bti_record_new(state->arena, BTI_TASKS);
    if (!task || !(task->function = function_of(state, order))) return NULL;
    if (order->kind != BTI_CALL_METHOD &&
        !(task->queue = bti_queue_of(state, &order->amounts, group, group ? order->bundle : 0)))
        return NULL;
    if (task->queue) BTI_SET(state->arena, task->queue->users, task->queue->users + 1);
    if (group) BTI_SET(state->arena, group->users, group->users + 1);
    const bti_task_record *parent = bti_given_call(client, order->call);
    if (!parent) parent = client->task; /* of a thread that the call has made */
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
static bti_hold *submit_task(bti_state *state, bti_client *client, const bti_order *order, const char *arguments,
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

static bti_hold *submit_actor(bti_state *state, bti_client *client, const bti_order *order, const char *arguments,
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

bti_hold *bti_order_submit(bti_state *state, bti_client *client, const bti_order *order, const char *arguments,
                           bti_hold *result, bti_wakes *wakes) {
    bool makes_actor = order->kind == BTI_CALL_ACTOR;
    if (order->actor && atomic_load(&order->actor->state) == BTI_OBJECT_FAILED)
        return (void)bti_object_failure(order->actor), NULL;
    if (makes_actor && *order->actor_name && bti_actor_named(state, order->actor_name))
        return (void)bti_fail(BT_ALREADY_EXISTS, "there is an actor \"%s\" already", order->actor_name), NULL;
    bti_arena_commit(state->arena); /* what came before stays */
    bti_hold *hold = makes_actor ? submit_actor(state, client, order, arguments, wakes)
                                 : submit_task(state, client, order, arguments, result, wakes);
    if (hold) return hold;
    bti_arena_take_back(state->arena);
    return (void)bti_fail(BT_RESOURCE_EXHAUSTED, "%s: there are too many calls", order->function), NULL;
}

/* The program changes something: it takes the lock, and does first what workers have asked for. False, with the cause in the error record: the memory is
 * damaged. */
static bool begin_change(bti_state *state, bti_wakes *wakes) {
    if (!bti_arena_lock(state->arena)) return (void)bti_state_fault(false), false;
    bti_serve(state, wakes);
    return true;
}

static void end_change(bti_state *state, bti_wakes *wakes) {
    bti_dispatch(state, wakes);
    bti_fence(); /* as in a wait: a call may wait for what a worker is about to send */
    if (bti_has_messages(state)) bti_serve(state, wakes);
    bti_arena_unlock(state->arena);
    bti_wake(state, wakes);
}

void *bti_local_submit(const bti_call *asked) {
    bti_state *state = bti_process_now.state;
    const bti_task_record *task = NULL;
    char small[sizeof task->small_arguments];
    bti_order order;
    bti_wakes wakes = {0};
    if (bti_order_of(state, asked, &order, small, sizeof small) != BT_OK) return NULL;
    bti_identity_look(state);
    if (!begin_change(state, &wakes)) return NULL;
    bti_hold *hold = bti_order_submit(state, bti_process_now.me, &order, small, NULL, &wakes);
    if (order.pack) bti_hold_free(state, order.pack, &wakes);
    end_change(state, &wakes);
    return hold;
}

/* --- actors ------------------------------------------------------------------------------------------------------------ */

bt_status bti_local_actor_status(void *held) {
    const bti_object *self = bti_held_object(held);
    return atomic_load(&self->state) == BTI_OBJECT_FAILED ? bti_object_failure(self) : BT_OK;
}

void *bti_local_actor_find(const char *name) {
    bti_state *state = bti_process_now.state;
    bti_hold *hold = NULL;
    bti_arena_lock(state->arena);
    bti_actor_record *actor = bti_actor_named(state, name);
    if (actor) hold = bti_hold_new(state, bti_process_now.me, actor->self);
    bti_arena_unlock(state->arena);
    if (!actor)
        (void)bti_fail(BT_NOT_FOUND, "there is no actor \"%s\"", name);
    else if (!hold)
        (void)bti_fail(BT_RESOURCE_EXHAUSTED, "too many references");
    return hold;
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

bt_status bti_local_actor_kill(void *held) {
    bti_state *state = bti_process_now.state;
    bti_wakes wakes = {0};
    if (!begin_change(state, &wakes)) return bt_error_status();
    bti_order_kill(state, bti_held_object(held), &wakes);
    end_change(state, &wakes);
    return BT_OK;
}

/* --- taking back ------------------------------------------------------------------------------------------------------- */

static bt_status cancel(bti_state *state, bti_object *object, bool force, bti_wakes *wakes) {
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
    return BT_OK;
}

/* Made by that call, or by one that was. Of a record that is another call's by now the number differs. */
static bool comes_from(const bti_task_record *task, uint64_t sequence) {
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
        if (comes_from(task, sequence)) (void)cancel(state, task->result, force && !task->actor, wakes);
    }
}

bt_status bti_order_cancel(bti_state *state, bti_object *object, unsigned how, bti_wakes *wakes) {
    const bti_task_record *task = bti_maker_of(object);
    bool force = how & BTI_CANCEL_FORCE, made = how & BTI_CANCEL_MADE && task;
    uint64_t sequence = task ? task->sequence : 0;
    BTI_TRY(cancel(state, object, force && !(made && task->actor), wakes));
    if (made) cancel_made(state, sequence, force, wakes);
    return BT_OK;
}

bt_status bti_local_cancel(void *held, unsigned how) {
    bti_state *state = bti_process_now.state;
    bti_wakes wakes = {0};
    if (!begin_change(state, &wakes)) return bt_error_status();
    bt_status status = bti_order_cancel(state, bti_held_object(held), how, &wakes);
    end_change(state, &wakes);
    return status;
}

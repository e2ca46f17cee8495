/* Calls: of functions, of actors' making, of methods; and taking them back. */
#include <stdio.h>

#include "task/actor.h"
#include "task/object.h"
#include "task/options.h"
#include "task/ref.h"
#include "task/value.h"

typedef struct call {
    const bt_remote_entry *entry;
    const bt_task_options *options;
    const bt_item_value *arguments;
    int count;
    bti_object *actor; /* of a method */
    bool makes_actor;
    bti_amounts amounts;
    bti_group_record *group;
    uint64_t bytes;
    char small[64];
    bti_hold *pack; /* of arguments that are larger */
} call;

/* --- what it is -------------------------------------------------------------------------------------------------------- */

static bt_status check_group(const bti_state *state, call *c) {
    const bti_supply *supply = &state->machine;
    char who[160];
    snprintf(who, sizeof who, "%s", c->entry->name);
    if (!c->options->group) return bti_amounts_check(state, &c->amounts, supply, who, "the runtime has");
    bti_object *object = bti_handle_object(&c->options->group->ref, "group");
    if (!object) return bt_error_status();
    c->group = object->group;
    if (c->options->bundle < 0 || c->options->bundle >= c->group->count)
        return bti_fail(BT_OUT_OF_RANGE, "%s: bundle %d of a group of %d", who, c->options->bundle, c->group->count);
    return bti_amounts_check(state, &c->amounts, &c->group->bundles[c->options->bundle], who, "its bundle has");
}

static bt_status prepare(bti_state *state, call *c) {
    const bt_task_options *o = c->options ? c->options : &c->entry->options;
    c->options = o;
    if (!c->actor) {
        BTI_TRY(bti_amounts_of(state, o, 1, &c->amounts));
        BTI_TRY(check_group(state, c));
    }
    if (c->count > 16) return bti_fail(BT_INVALID_ARGUMENT, "%s: %d arguments; at most 16", c->entry->name, c->count);
    BTI_TRY(bti_check_list(c->arguments, c->count, "arguments"));
    c->bytes = bti_pack_bytes(c->arguments, c->count);
    if (!c->bytes) return bt_error_status();
    if (c->bytes <= sizeof c->small) return bti_pack(c->arguments, c->count, c->small);
    c->pack = bti_pack_object(state, c->arguments, c->count, c->bytes);
    return c->pack ? BT_OK : bt_error_status();
}

static bti_function_record *function_of(bti_state *state, const bt_remote_entry *entry) {
    for (bti_function_record *f = state->functions; f; f = f->next)
        if (!strcmp(f->name, entry->name) && !strcmp(f->module, entry->module)) return f;
    bti_function_record *f = bti_record_new(state->arena, BTI_FUNCTIONS);
    if (!f) return NULL;
    snprintf(f->name, sizeof f->name, "%s", entry->name);
    snprintf(f->module, sizeof f->module, "%s", entry->module);
    f->next = state->functions;
    BTI_SET(state->arena, state->functions, f);
    return f;
}

/* --- submitting -------------------------------------------------------------------------------------------------------- */

static void set_deadline(bti_state *state, bti_task_record *task, double seconds, bti_wakes *wakes) {
    if (!(seconds > 0)) return;
    task->deadline_ns = bti_until_ns(seconds);
    if (!task->deadline_ns || (state->next_deadline_ns && state->next_deadline_ns <= task->deadline_ns)) return;
    BTI_SET(state->arena, state->next_deadline_ns, task->deadline_ns);
    wakes->nest = true;
}

static bti_task_record *new_task(bti_state *state, const call *c, bti_wakes *wakes) {
    const bt_task_options *o = c->options;
    bti_task_record *task = bti_record_new(state->arena, BTI_TASKS);
    if (!task || !(task->function = function_of(state, c->entry))) return NULL;
    if (!c->actor && !(task->queue = bti_queue_of(state, &c->amounts, c->group, c->group ? o->bundle : 0))) return NULL;
    if (c->group) BTI_SET(state->arena, c->group->users, c->group->users + 1);
    task->priority = o->priority;
    task->retries = o->max_retries;
    task->makes_actor = c->makes_actor;
    task->hides_gpus = !c->actor && !c->amounts.of[1] && bti_written(o, "num_gpus");
    task->frees_cpus = c->makes_actor && !bti_written(o, "num_cpus");
    task->sequence = state->sequence;
    task->submitter = bti_process_now.me->pid;
    task->submitted_ns = bti_now_ns();
    BTI_SET(state->arena, state->sequence, state->sequence + 1);
    if (c->pack) {
        task->pack = c->pack->object;
        bti_object_retain(state, task->pack);
        if (atomic_load(&task->pack->state) == BTI_OBJECT_PENDING)
            bti_object_settle(state, task->pack, BTI_OBJECT_READY, wakes);
    } else {
        memcpy(task->small_arguments, c->small, sizeof c->small);
    }
    set_deadline(state, task, o->deadline_seconds, wakes);
    return task;
}

/* With the lock. A task and the hold of its result; NULL: no record is left. */
static bti_hold *submit_task(bti_state *state, const call *c, bti_wakes *wakes) {
    bti_task_record *task = new_task(state, c, wakes);
    bti_object *result = task ? task->result = bti_object_new(state) : NULL;
    bti_hold *hold = result ? bti_hold_new(state, bti_process_now.me, result) : NULL;
    if (!hold) return NULL;
    result->maker = task;
    task->actor = c->actor ? c->actor->actor : NULL;
    return bti_task_await(state, task, wakes) ? hold : NULL;
}

static bti_hold *submit_actor(bti_state *state, const call *c, bti_wakes *wakes) {
    bti_task_record *task = new_task(state, c, wakes);
    bti_object *self = task ? bti_object_new(state) : NULL;
    bti_actor_record *actor = self ? bti_record_new(state->arena, BTI_ACTORS) : NULL;
    bti_hold *hold = actor ? bti_hold_new(state, bti_process_now.me, self) : NULL;
    if (!hold) return NULL;
    self->maker = actor->maker = task;
    self->actor = task->actor = actor;
    actor->self = self;
    actor->restarts = c->options->max_restarts;
    task->retries = 0;
    if (c->options->name) snprintf(actor->name, sizeof actor->name, "%s", c->options->name);
    actor->next = state->actors;
    BTI_SET(state->arena, state->actors, actor);
    return bti_task_await(state, task, wakes) ? hold : NULL;
}

static bti_actor_record *find_actor(const bti_state *state, const char *name) {
    for (bti_actor_record *a = state->actors; a; a = a->next)
        if (a->state != BTI_ACTOR_DEAD && !strcmp(a->name, name)) return a;
    return NULL;
}

/* What forbids it, now that the lock is there. */
static bt_status refuse(const bti_state *state, const call *c) {
    const char *name = c->makes_actor ? c->options->name : NULL;
    if (name && strlen(name) > 63) return bti_fail(BT_INVALID_ARGUMENT, "an actor's name has at most 63 bytes");
    if (name && find_actor(state, name)) return bti_fail(BT_ALREADY_EXISTS, "there is an actor \"%s\" already", name);
    return BT_OK;
}

static void *submit(bti_state *state, call *c) {
    bti_hold *hold = NULL;
    bti_wakes wakes = {0};
    bt_status status = prepare(state, c);
    bool dead = false;
    if (status == BT_OK) {
        bti_arena_lock(state->arena);
        dead = c->actor && atomic_load(&c->actor->state) == BTI_OBJECT_FAILED;
        if (!dead) status = refuse(state, c);
        if (!dead && status == BT_OK) {
            hold = c->makes_actor ? submit_actor(state, c, &wakes) : submit_task(state, c, &wakes);
            if (hold)
                bti_dispatch(state, &wakes);
            else
                bti_arena_take_back(state->arena);
        }
        if (c->pack) bti_hold_free(state, c->pack, &wakes);
        bti_arena_unlock(state->arena);
        bti_wake(state, &wakes);
    }
    if (hold) return bti_handle_new(hold, NULL);
    if (dead)
        (void)bti_object_failure(c->actor);
    else if (status == BT_OK)
        (void)bti_fail(BT_RESOURCE_EXHAUSTED, "%s: there are too many calls", c->entry->name);
    return bti_handle_poisoned();
}

bt_ref *bti_remote(const bt_remote_entry *entry, const bt_task_options *options, const bt_item_value *arguments,
                   int count) {
    bti_state *state;
    call c = {.entry = entry, .options = options, .arguments = arguments, .count = count};
    return bti_runtime_needed(&state) == BT_OK ? submit(state, &c) : bti_handle_poisoned();
}

bt_actor *bti_actor(const bt_remote_entry *entry, const bt_task_options *options, const bt_item_value *arguments,
                    int count) {
    bti_state *state;
    call c = {.entry = entry, .options = options, .arguments = arguments, .count = count, .makes_actor = true};
    return bti_runtime_needed(&state) == BT_OK ? submit(state, &c) : bti_handle_poisoned();
}

bt_ref *bti_method(bt_actor *actor, const bt_remote_entry *entry, const bt_task_options *options,
                   const bt_item_value *arguments, int count) {
    bti_state *state;
    call c = {.entry = entry, .options = options, .arguments = arguments, .count = count};
    if (bti_runtime_needed(&state) != BT_OK || !(c.actor = bti_handle_object(actor ? &actor->ref : NULL, "actor")))
        return bti_handle_poisoned();
    return submit(state, &c);
}

/* --- by name ----------------------------------------------------------------------------------------------------------- */

static const bt_remote_entry *entry_of(const char *module, const char *name) {
    const bt_remote_entry *entry = NULL;
    if (!name) (void)bti_fail(BT_INVALID_ARGUMENT, "the name of the function is NULL");
    if (!name || bti_module_find(module ? module : "", name, &entry) != BT_OK) return NULL;
    return entry;
}

bt_ref *bt_remote_named(const char *module, const char *name, const bt_task_options *options,
                        const bt_item_value *arguments, int count) {
    const bt_remote_entry *entry = entry_of(module, name);
    return entry ? bti_remote(entry, options, arguments, count) : bti_handle_poisoned();
}

bt_actor *bt_actor_named(const char *module, const char *name, const bt_task_options *options,
                         const bt_item_value *arguments, int count) {
    const bt_remote_entry *entry = entry_of(module, name);
    return entry ? bti_actor(entry, options, arguments, count) : bti_handle_poisoned();
}

bt_ref *bt_method_named(bt_actor *actor, const char *module, const char *name, const bt_task_options *options,
                        const bt_item_value *arguments, int count) {
    const bt_remote_entry *entry = entry_of(module, name);
    return entry ? bti_method(actor, entry, options, arguments, count) : bti_handle_poisoned();
}

/* --- actors ------------------------------------------------------------------------------------------------------------ */

bt_status bt_actor_status(bt_actor *actor) {
    bti_object *self = bti_handle_object(actor ? &actor->ref : NULL, "actor");
    if (!self) return bt_error_status();
    return atomic_load(&self->state) == BTI_OBJECT_FAILED ? bti_object_failure(self) : BT_OK;
}

bt_actor *bt_actor_find(const char *name) {
    bti_state *state;
    bti_hold *hold = NULL;
    if (!name || !*name) return (void)bti_fail(BT_INVALID_ARGUMENT, "bt_actor_find: the name is empty"), NULL;
    if (bti_runtime_needed(&state) != BT_OK) return NULL;
    bti_arena_lock(state->arena);
    bti_actor_record *actor = find_actor(state, name);
    if (actor) hold = bti_hold_new(state, bti_process_now.me, actor->self);
    bti_arena_unlock(state->arena);
    if (actor && !hold) return (void)bti_fail(BT_RESOURCE_EXHAUSTED, "too many references"), NULL;
    return hold ? bti_handle_new(hold, NULL) : ((void)bti_fail(BT_NOT_FOUND, "there is no actor \"%s\"", name), NULL);
}

bt_status bt_actor_kill(bt_actor *actor) {
    bti_object *self = bti_handle_object(actor ? &actor->ref : NULL, "actor");
    if (!self) return bt_error_status();
    bti_state *state = bti_process_now.state;
    bti_wakes wakes = {0};
    bti_arena_lock(state->arena);
    bti_actor_record *record = self->actor;
    if (record) {
        if (record->client) {
            BTI_SET(state->arena, record->client->kill, true);
            wakes.nest = true;
        }
        bti_actor_die(state, record, BT_CANCELLED, "the actor was killed (bt_actor_kill)", &wakes);
    }
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
    return BT_OK;
}

/* --- taking back ------------------------------------------------------------------------------------------------------- */

static bt_status cancel(bti_state *state, bti_object *object, bool force, bti_wakes *wakes) {
    bti_task_record *task = object->maker;
    if (!task || atomic_load(&object->state) != BTI_OBJECT_PENDING) return BT_OK;
    bool runs = task->client && task->state != BTI_TASK_QUEUED;
    if (runs && force && task->actor)
        return bti_fail(BT_INVALID_ARGUMENT, "a method that runs ends only with its actor (bt_actor_kill)");
    BTI_SET(state->arena, task->cancelled, true);
    if (!runs) {
        bti_object_fail(state, object, BT_CANCELLED, "the call was cancelled before it began", wakes);
        bti_dispatch(state, wakes);
    } else if (force) {
        BTI_SET(state->arena, task->client->kill, true);
        wakes->nest = true;
        bti_object_fail(state, object, BT_CANCELLED, "the call was cancelled while it ran", wakes);
    }
    return BT_OK;
}

bt_status bt_cancel(bt_ref *ref, bool force) {
    bti_object *object = bti_handle_object(ref, "reference");
    if (!object) return bt_error_status();
    bti_state *state = bti_process_now.state;
    bti_wakes wakes = {0};
    bti_arena_lock(state->arena);
    bt_status status = cancel(state, object, force, &wakes);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
    return status;
}

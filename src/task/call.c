/* Calls: of functions, of actors' making, of methods; and taking them back. */
#include <stdio.h>

#include "task/actor.h"
#include "task/identity.h"
#include "task/local.h"
#include "task/object.h"
#include "task/options.h"
#include "task/value.h"

typedef struct call {
    const bti_call *asked;
    bti_object *actor; /* of a method */
    bti_group_record *group;
    bti_amounts amounts;
    uint64_t bytes;
    char small[64];
    bti_hold *pack; /* of arguments that are larger */
} call;

static bool makes_actor(const call *c) { return c->asked->kind == BTI_CALL_ACTOR; }

/* --- what it is -------------------------------------------------------------------------------------------------------- */

static bt_status check_amounts(bti_state *state, call *c) {
    const bt_task_options *o = c->asked->options;
    const char *name = c->asked->entry->name;
    BTI_TRY(bti_amounts_of(state, o, 1, &c->amounts));
    if (!c->asked->group) return bti_amounts_check(state, &c->amounts, &state->machine, name, "the runtime has");
    c->group = ((bti_hold *)c->asked->group)->object->group;
    if (o->bundle < 0 || o->bundle >= c->group->count)
        return bti_fail(BT_OUT_OF_RANGE, "%s: bundle %d of a group of %d", name, o->bundle, c->group->count);
    return bti_amounts_check(state, &c->amounts, &c->group->bundles[o->bundle], name, "its bundle has");
}

static bt_status check_options(const bti_call *asked) {
    const bt_task_options *o = asked->options;
    const bt_remote_entry *entry = asked->entry;
    const bti_function_record *f = NULL;
    if (!(o->deadline_seconds >= 0))
        return bti_fail(BT_INVALID_ARGUMENT, "%s: deadline_seconds is %g: the time is over before it begins",
                        entry->name, o->deadline_seconds);
    if (o->max_retries < 0 || o->max_restarts < 0)
        return bti_fail(BT_INVALID_ARGUMENT, "%s: max_retries is %d, max_restarts %d; they cannot be below 0",
                        entry->name, o->max_retries, o->max_restarts);
    if (strlen(entry->name) >= sizeof f->name || strlen(entry->module) >= sizeof f->module)
        return bti_fail(BT_INVALID_ARGUMENT,
                        "%s of module %s: names of functions have at most %zu bytes, of modules %zu", entry->name,
                        entry->module, sizeof f->name - 1, sizeof f->module - 1);
    return BT_OK;
}

static bt_status prepare(bti_state *state, call *c) {
    const bti_call *asked = c->asked;
    BTI_TRY(check_options(asked));
    if (asked->kind == BTI_CALL_METHOD)
        c->actor = ((bti_hold *)asked->actor)->object;
    else
        BTI_TRY(check_amounts(state, c));
    c->bytes = bti_pack_bytes(asked->arguments, asked->count);
    if (c->bytes <= sizeof c->small) return bti_pack(asked->arguments, asked->count, c->small);
    c->pack = bti_pack_object(state, asked->arguments, asked->count, c->bytes);
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
    const bt_task_options *o = c->asked->options;
    bti_task_record *task = bti_record_new(state->arena, BTI_TASKS);
    if (!task || !(task->function = function_of(state, c->asked->entry))) return NULL;
    if (!c->actor && !(task->queue = bti_queue_of(state, &c->amounts, c->group, c->group ? o->bundle : 0))) return NULL;
    if (task->queue) BTI_SET(state->arena, task->queue->users, task->queue->users + 1);
    if (c->group) BTI_SET(state->arena, c->group->users, c->group->users + 1);
    const bti_task_record *parent = bti_process_now.me->task;
    task->priority = o->priority != BTI_UNSET_INT ? o->priority : parent ? parent->priority : 0;
    task->retries = o->max_retries;
    task->makes_actor = makes_actor(c);
    task->hides_gpus = !c->actor && !c->amounts.of[1] && bti_is_set(o->num_gpus);
    task->frees_cpus = makes_actor(c) && !bti_is_set(o->num_cpus);
    task->sequence = state->sequence;
    task->depth = parent ? parent->depth + 1 : 0;
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
    actor->restarts = c->asked->options->max_restarts;
    task->retries = 0;
    if (c->asked->options->name) snprintf(actor->name, sizeof actor->name, "%s", c->asked->options->name);
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
    const char *name = makes_actor(c) ? c->asked->options->name : NULL;
    if (name && strlen(name) > 63) return bti_fail(BT_INVALID_ARGUMENT, "an actor's name has at most 63 bytes");
    if (name && find_actor(state, name)) return bti_fail(BT_ALREADY_EXISTS, "there is an actor \"%s\" already", name);
    return BT_OK;
}

/* With the lock. */
static bti_hold *submit(bti_state *state, const call *c, bti_wakes *wakes) {
    bti_hold *hold = makes_actor(c) ? submit_actor(state, c, wakes) : submit_task(state, c, wakes);
    if (hold)
        bti_dispatch(state, wakes);
    else
        bti_arena_take_back(state->arena);
    return hold;
}

void *bti_local_submit(const bti_call *asked) {
    bti_state *state = bti_process_now.state;
    call c = {.asked = asked};
    bti_hold *hold = NULL;
    bti_wakes wakes = {0};
    if (prepare(state, &c) != BT_OK) return NULL;
    bti_identity_look(state);
    bti_arena_lock(state->arena);
    bool dead = c.actor && atomic_load(&c.actor->state) == BTI_OBJECT_FAILED;
    bt_status status = dead ? BT_ABORTED : refuse(state, &c);
    if (status == BT_OK) hold = submit(state, &c, &wakes);
    if (c.pack) bti_hold_free(state, c.pack, &wakes);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
    if (dead)
        (void)bti_object_failure(c.actor);
    else if (status == BT_OK && !hold)
        (void)bti_fail(BT_RESOURCE_EXHAUSTED, "%s: there are too many calls", asked->entry->name);
    return hold;
}

/* --- actors ------------------------------------------------------------------------------------------------------------ */

bt_status bti_local_actor_status(void *held) {
    const bti_object *self = ((bti_hold *)held)->object;
    return atomic_load(&self->state) == BTI_OBJECT_FAILED ? bti_object_failure(self) : BT_OK;
}

void *bti_local_actor_find(const char *name) {
    bti_state *state = bti_process_now.state;
    bti_hold *hold = NULL;
    bti_arena_lock(state->arena);
    bti_actor_record *actor = find_actor(state, name);
    if (actor) hold = bti_hold_new(state, bti_process_now.me, actor->self);
    bti_arena_unlock(state->arena);
    if (!actor)
        (void)bti_fail(BT_NOT_FOUND, "there is no actor \"%s\"", name);
    else if (!hold)
        (void)bti_fail(BT_RESOURCE_EXHAUSTED, "too many references");
    return hold;
}

bt_status bti_local_actor_kill(void *held) {
    bti_state *state = bti_process_now.state;
    bti_wakes wakes = {0};
    bti_arena_lock(state->arena);
    bti_actor_record *actor = ((bti_hold *)held)->object->actor;
    if (actor) {
        static const char killed[] = "the actor was killed (bt_actor_kill)";
        const bti_task_record *running = actor->client ? actor->client->task : NULL;
        if (actor->client) {
            BTI_SET(state->arena, actor->client->kill, true);
            wakes.nest = true;
        }
        if (running && running->result && atomic_load(&running->result->state) == BTI_OBJECT_PENDING)
            bti_object_fail(state, running->result, BT_CANCELLED, killed, &wakes);
        bti_actor_die(state, actor, BT_CANCELLED, killed, &wakes);
        bti_dispatch(state, &wakes);
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
        if (task->queue && task->state == BTI_TASK_QUEUED) (void)bti_queue_clean(state, task->queue, wakes);
        if (task->actor) bti_actor_look(task->actor, wakes);
        bti_dispatch(state, wakes);
    } else if (force) {
        BTI_SET(state->arena, task->client->kill, true);
        wakes->nest = true;
        bti_object_fail(state, object, BT_CANCELLED, "the call was cancelled while it ran", wakes);
    }
    return BT_OK;
}

bt_status bti_local_cancel(void *held, bool force) {
    bti_state *state = bti_process_now.state;
    bti_wakes wakes = {0};
    bti_arena_lock(state->arena);
    bt_status status = cancel(state, ((bti_hold *)held)->object, force, &wakes);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
    return status;
}

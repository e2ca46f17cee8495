#include "task/deadlock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/vec.h"
#include "task/chores.h"
#include "task/dispatch.h"
#include "task/given.h"
#include "task/proc.h"
#include "task/object.h"
#include "task/placement.h"
#include "task/process.h"
#include "task/room.h"
#include "task/settle.h"
#include "task/tasks.h"

/* --- who runs --------------------------------------------------------------------------------------------------------------- */

/* A process all of whose waits are without a limit, and how many of its threads are in one. */
typedef struct sleeper {
    int32_t pid;
    uint32_t threads;
} sleeper;
typedef BTI_VEC(sleeper) sleepers;

static bool has_limit(const bti_client *client) {
    for (const bti_waiter *w = client->waiters; w; w = w->next)
        if (w->limited || w->stuck) return true;
    return false;
}

/* A worker that runs user code, or starts or ends. */
static bool is_active(const bti_state *state, const bti_client *client) {
    if (client->is_program) return false;
    if (client->kill || client->stops || (client->task && client->task->state == BTI_TASK_KEPT)) return true;
    uint32_t given = bti_given_count(client), running = bti_given_running(client);
    if (!given) return false;
    if (running < (given < client->at_once ? given : client->at_once)) return true; /* the next begins */
    return has_limit(client) || client->blocked + bti_chores_stuck(state, client) < running;
}

/* How many of its threads wait: for objects or room, or, in a worker that runs nothing, for a call. The first thread of an actor that runs several methods
 * at once always waits, and its threads without a method hold back all signals. */
static uint32_t waits_of(const bti_state *state, const bti_client *client) {
    bool runs_in_first = bti_given_count(client) && (client->at_once <= 1 || client->task->makes_actor);
    uint32_t count = bti_chores_stuck(state, client) + (!client->is_program && !runs_in_first);
    for (const bti_waiter *w = client->waiters; w; w = w->next) count++;
    return count;
}

/* The records show no progress to come. With the lock. */
static bool is_still(const bti_state *state, sleepers *asleep) {
    if (state->to_start || state->next_deadline_ns || state->dispatch_at_ns || bti_has_messages(state)) return false;
    for (const bti_chore *c = state->chores; c; c = c->next)
        if (!c->stuck || c->begun) return false;
    for (const bti_client *c = state->clients; c; c = c->next) {
        if (is_active(state, c)) return false;
        if (asleep && !bti_vec_push(asleep, ((sleeper){c->pid, waits_of(state, c)}))) return false;
    }
    return true;
}

/* One of its threads does not wait, and may release something. */
static bool has_more_threads(const sleeper *of) { return bti_threads_of_user(of->pid) > of->threads; }

/* --- what is told ------------------------------------------------------------------------------------------------------------- */

static void describe_wait(const bti_object *object, char *text, size_t bytes) {
    const bti_object *first = object;
    const bti_task_record *task = object->maker;
    int length = snprintf(text, bytes, "deadlock: this waits for %s", task ? task->function->name : "a value");
    for (int i = 0; task && i < 6 && length >= 0 && (size_t)length < bytes; i++) {
        const bti_client *client = task->client && task->state != BTI_TASK_QUEUED ? task->client
                                   : task->actor                                  ? task->actor->client
                                                                                  : NULL;
        if (!client) {
            snprintf(
                text + length, bytes - (size_t)length,
                ", which waits for resources that are held by waiting calls, or by actors that no program can release");
            return;
        }
        object = bti_task_runs(task) ? bti_call_awaited(task) : bti_awaited(client);
        const bti_task_record *last = task;
        task = object ? object->maker : NULL;
        if (task == last || (task && task == first->maker)) return; /* the circle is closed */
        if (task)
            length += snprintf(text + length, bytes - (size_t)length, ", which waits for %s (process %d)",
                               task->function->name, (int)client->pid);
        else if (last->actor && last->actor->first && last->actor->first != last)
            snprintf(text + length, bytes - (size_t)length,
                     ", whose turn with its actor comes after %s, whose arguments wait for this",
                     last->actor->first->function->name);
    }
}

/* The last wait without a limit, of a worker if there is one. */
static bti_waiter *last_waiter(const bti_state *state) {
    bti_waiter *last = NULL;
    for (const bti_client *c = state->clients; c; c = c->next)
        for (bti_waiter *w = c->waiters; w; w = w->next) {
            bool sooner = last && (last->client->is_program == c->is_program ? w->order < last->order : c->is_program);
            if (w->armed && !w->limited && !sooner) last = w;
        }
    return last;
}

static const bti_object *awaited_by(const bti_waiter *waiter) {
    const bti_wait *wait = waiter->waits;
    while (wait && wait->over) wait = wait->next_of_waiter;
    return wait ? wait->object : NULL;
}

/* --- circles ------------------------------------------------------------------------------------------------------------------ */

/* The only wait of the process of a call (where it runs others too: of the call); NULL: there are none or several. */
static const bti_waiter *only_wait(const bti_client *client, const bti_task_record *task) {
    const bti_waiter *only = NULL;
    if (client->at_once > 1 && task->client != client) return NULL; /* another of its calls may end first */
    for (const bti_waiter *w = client->waiters; w; w = w->next) {
        if (client->at_once > 1 && w->call != task->number) continue;
        if (only) return NULL;
        only = w;
    }
    return only;
}

/* What an object waits for, if that is one other object, and not resources; NULL. */
static const bti_object *next_awaited(const bti_object *object) {
    const bti_task_record *task = object->maker;
    const bti_client *client = task ? task->client : NULL;
    if (!task || atomic_load(&object->state) != BTI_OBJECT_PENDING) return NULL;
    if (task->missing) {
        bti_objects_at at = {.task = task};
        const bti_object *missing;
        while ((missing = bti_task_next_object(&at)) != NULL && atomic_load(&missing->state) != BTI_OBJECT_PENDING)
            continue;
        return missing;
    }
    if (task->actor && !task->makes_actor && !client) {
        const bti_task_record *first = task->actor->first;
        if (first && first != task && first->missing) return next_awaited(first->result);
        client = task->actor->client;
    }
    const bti_waiter *wait = client ? only_wait(client, task) : NULL;
    return wait && !wait->limited && wait->left == 1 ? awaited_by(wait) : NULL;
}

/* The wait waits for itself, in the end. */
static bool is_in_circle(const bti_waiter *waiter) {
    enum { LONGEST = 10000 };
    const bti_object *first = waiter->left == 1 ? awaited_by(waiter) : NULL, *object = first;
    for (int i = 0; object && i < LONGEST; i++)
        if ((object = next_awaited(object)) == first && object) return true;
    return false;
}

static bti_waiter *waiter_in_circle(const bti_state *state) {
    bti_waiter *last = NULL;
    for (const bti_client *c = state->clients; c; c = c->next)
        for (bti_waiter *w = c->is_program ? NULL : c->waiters; w; w = w->next)
            if (w->armed && !w->limited && (!last || w->order > last->order) && is_in_circle(w)) last = w;
    return last;
}

/* Fails one wait. `only_circles`: threads that run may still release something, but waits in a circle cannot end by that. False: there was none. */
static bool tell_one(bti_state *state, bool only_circles, bti_wakes *wakes) {
    char text[512];
    bti_waiter *waiter = only_circles ? waiter_in_circle(state) : last_waiter(state);
    if (!only_circles && state->chores) {
        char holders[400];
        snprintf(text, sizeof text, "the store has no room: all that is in memory is in use; %s",
                 bti_store_holders(state, holders, sizeof holders));
        if (bti_chores_fail(state, text, wakes)) return true;
    }
    if (!waiter) return false;
    if (!waiter->room_bytes && awaited_by(waiter)) describe_wait(awaited_by(waiter), text, sizeof text);
    bti_waiter_stuck(state, waiter, BT_FAILED_PRECONDITION, text, wakes);
    if (waiter->room_bytes) bti_room_changed(state);
    bti_dispatch(state, wakes);
    return true;
}

/* --- looking ------------------------------------------------------------------------------------------------------------------ */

/* A thread of the program runs, or waits with a limit. */
static bool program_runs(const bti_state *state) { return !state->program->waiters || has_limit(state->program); }

bool bti_deadlock_look(bti_state *state, bool watched) {
    static uint64_t seen;
    sleepers asleep = {0};
    bti_wakes wakes = {0};
    bti_arena_lock(state->arena);
    uint64_t progress = state->progress;
    bool runs = program_runs(state); /* then the threads of other processes need not be read */
    bool still = !watched && progress == seen && is_still(state, runs ? NULL : &asleep);
    bti_arena_unlock(state->arena);
    seen = progress;
    for (size_t i = 0; i < asleep.count && still && !runs; i++) runs = has_more_threads(&asleep.items[i]);
    bti_vec_free(&asleep);
    if (!still) return false;
    bti_arena_lock(state->arena);
    still = state->progress == progress && is_still(state, NULL);
    if (still) {
        still = tell_one(state, runs || program_runs(state), &wakes);
        if (still) BTI_SET(state->arena, state->progress, progress + 1);
    }
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
    return still;
}

#include "task/ended.h"

#include "task/actor.h"
#include "task/chores.h"
#include "task/dispatch.h"
#include "task/given.h"
#include "task/object.h"
#include "task/placement.h"
#include "task/queue.h"
#include "task/ready.h"
#include "task/settle.h"
#include "task/supply.h"
#include "task/tasks.h"

/* --- calls --------------------------------------------------------------------------------------------------------- */

void bti_settle_value(bti_state *state, bti_object *object, bti_wakes *wakes) {
    if (bti_object_contain(state, object, bti_object_value(object), wakes))
        bti_object_settle(state, object, BTI_OBJECT_READY, wakes);
    else
        bti_object_fail(state, object, BT_RESOURCE_EXHAUSTED, "too many references stand in values", wakes);
}

/* A result that makes sense: its value follows, or (no bytes) fills the room that was granted. */
static bool is_result(const bti_state *state, const bti_object *result, const char *bytes, uint64_t length) {
    if (length) return bti_is_value(state, bytes, length);
    return result->value && bti_is_value(state, result->value, result->bytes);
}

static void settle_result(bti_state *state, bti_object *result, const char *bytes, uint64_t length, bti_wakes *wakes) {
    if (length) bti_object_empty(state, result);
    if (length && !bti_object_copy(state, result, bytes, length))
        bti_object_fail(state, result, BT_RESOURCE_EXHAUSTED, "the store has no room for the result", wakes);
    else
        bti_settle_value(state, result, wakes);
}

/* The next of several results; *at moves on. */
static bool next_result(const bti_message *m, uint64_t *at, const char **bytes, uint64_t *length) {
    if (m->length - *at < sizeof *length) return false;
    memcpy(length, bti_message_bytes(m) + *at, sizeof *length);
    *at += sizeof *length;
    *bytes = bti_message_bytes(m) + *at;
    if (*length % 8 || *length > m->length - *at) return false;
    *at += *length;
    return true;
}

static bool settle_results(bti_state *state, const bti_task_record *task, const bti_message *m, bti_wakes *wakes) {
    uint32_t count = bti_result_count(task);
    const char *bytes = bti_message_bytes(m);
    uint64_t length = m->length;
    if (count == 1) {
        if (!is_result(state, task->result, bytes, length)) return false;
        settle_result(state, task->result, bytes, length, wakes);
        return true;
    }
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!next_result(m, &at, &bytes, &length) || !is_result(state, bti_task_result(task, i), bytes, length))
            return false;
    at = 0;
    for (uint32_t i = 0; i < count; i++) {
        (void)next_result(m, &at, &bytes, &length);
        settle_result(state, bti_task_result(task, i), bytes, length, wakes);
    }
    return true;
}

static bool settle_call(bti_state *state, bti_client *client, bti_task_record *task, const bti_message *m,
                        bti_wakes *wakes) {
    const char *text = m->length ? bti_message_bytes(m) : "";
    bool failed = m->status != BT_OK;
    if (failed && m->length && text[m->length - 1]) return false;
    if (!bti_is_status(m->status)) return false;
    if (task->makes_actor) {
        if (failed)
            bti_actor_die(state, client->actor, BT_FAILURE_RETURNED, (bt_status)m->status, text, wakes);
        else if (client->actor->state == BTI_ACTOR_WAITING)
            bti_actor_made(state, client->actor, wakes);
        bti_task_unpin(state, task);
        if (failed) BTI_SET(state->arena, task->state, BTI_TASK_KEPT);
        return true;
    }
    if (atomic_load(&task->result->state) != BTI_OBJECT_PENDING) return true;
    if (!failed) return settle_results(state, task, m, wakes);
    if (task->cancelled)
        bti_task_fail(state, task, BT_CANCELLED, text, wakes);
    else
        bti_task_fail_as(state, task, BT_FAILURE_RETURNED, (bt_status)m->status, text, wakes);
    return true;
}

/* Its GPUs come free when its process is gone. */
static void end_call_of(bti_state *state, bti_client *client, bti_task_record *task, bti_wakes *wakes) {
    if (task->makes_actor) return;
    if (client->ends_after && !client->actor) {
        bti_task_unpin(state, task);
        bti_lend_cpus(state, task);
        BTI_SET(state->arena, task->state, BTI_TASK_KEPT);
        return;
    }
    bti_task_end(state, task, wakes);
}

static bool is_retried(const bti_task_record *task, const bti_message *m) {
    return m->status != BT_OK && bti_is_status(m->status) && task->retry_failures >> m->status & 1 && task->retries &&
           !task->cancelled && !task->makes_actor && atomic_load(&task->result->state) == BTI_OBJECT_PENDING;
}

/* A call that returned a failure runs again. With GPUs that happens when its process is gone (end_task_of_gone). */
static void retry_call(bti_state *state, const bti_client *client, bti_task_record *task) {
    if (client->ends_after && !client->actor) return;
    BTI_SET(state->arena, task->retries, task->retries - 1);
    bti_task_unpin(state, task);
    bti_give_back(state, task);
    BTI_SET(state->arena, task->client, NULL);
    if (task->queue)
        bti_task_enqueue(state, task);
    else
        bti_actor_line_first(state, task);
}

static bool idle_enough(const bti_state *state) {
    return state->idle_count >= (uint32_t)((state->machine.total.of[0] + BTI_UNIT - 1) / BTI_UNIT);
}

/* `is_last`: the worker may run no more (max_calls); nothing was given ahead then. */
static void call_ended(bti_state *state, bti_client *client, uint32_t number, bool is_last, bti_wakes *wakes) {
    if (client->ends_after && !client->actor) {
        bti_give_end(state, client, wakes); /* `task` stays: it has the GPUs until the process is gone */
        return;
    }
    bti_given_shift(state, client, number);
    if (client->actor) {
        if (client->actor->state == BTI_ACTOR_DEAD)
            bti_give_end(state, client, wakes);
        else
            bti_actor_feed(state, client->actor, wakes);
    } else if (is_last) {
        (void)bti_given_revoke(state, client);
        bti_give_end(state, client, wakes);
    } else if (client->task) {
        if (bti_given_count(client) < BTI_AHEAD / 2) bti_give_ahead(state, client, wakes);
    } else if (bti_give_next(state, client, wakes)) {
        bti_give_ahead(state, client, wakes);
    } else if (idle_enough(state)) {
        bti_give_end(state, client, wakes);
    } else {
        bti_idle_add(state, client);
    }
}

bool bti_call_done(bti_state *state, bti_client *client, const bti_message *m, bti_wakes *wakes) {
    bti_task_record *task = bti_given_call(client, m->number);
    if (!task || task->state != BTI_TASK_GIVEN) return false;
    if (client->state == BTI_CLIENT_STARTING) BTI_SET(state->arena, client->state, BTI_CLIENT_BUSY);
    BTI_SET(state->arena, task->begun_ns, m->begun_ns);
    if (state->chores) bti_chores_drop(state, client, task, NULL, wakes);
    bool is_last = false;
    if (is_retried(task, m)) {
        retry_call(state, client, task);
    } else {
        if (!settle_call(state, client, task, m, wakes)) return false;
        bti_schedule_pending(state, wakes);
        if (client->ends_after && !client->actor && bti_give_again(state, client, wakes)) return true;
        is_last = task->queue && !client->actor && bti_was_last_call(state, client);
        end_call_of(state, client, task, wakes);
        bti_schedule_pending(state, wakes);
    }
    call_ended(state, client, m->number, is_last, wakes);
    return true;
}

/* --- deadlines ----------------------------------------------------------------------------------------------------- */

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
    bti_schedule_pending(state, wakes);
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

/* --- processes ----------------------------------------------------------------------------------------------------- */

/* A call whose process is gone. */
static void end_task_of_gone(bti_state *state, bti_task_record *task, const char *why, bti_wakes *wakes) {
    if (task->state != BTI_TASK_KEPT && task->retries && !task->cancelled) {
        BTI_SET(state->arena, task->retries, task->retries - 1);
        bti_task_unpin(state, task);
        bti_give_back(state, task);
        BTI_SET(state->arena, task->client, NULL);
        bti_task_enqueue(state, task);
        return;
    }
    if (task->state != BTI_TASK_KEPT) bti_task_fail_gone(state, task, why, wakes);
    bti_task_end(state, task, wakes);
}

static void leave_clients(bti_state *state, bti_client *client) {
    bti_arena *arena = state->arena;
    if (client->next) BTI_SET(arena, client->next->before, client->before);
    if (client->before)
        BTI_SET(arena, client->before->next, client->next);
    else
        BTI_SET(arena, state->clients, client->next);
    bti_idle_remove(state, client);
}

/* Calls of a worker that is gone: those that it had not begun are queued again. */
static void end_given_of_gone(bti_state *state, bti_client *client, const char *why, bti_wakes *wakes) {
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
            end_task_of_gone(state, task, why, wakes);
        } else {
            bti_given_take_out(state, client, task);
            bti_task_ready(state, task, wakes);
        }
    }
}

void bti_client_gone(bti_state *state, bti_client *client, const char *why, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    leave_clients(state, client);
    bti_chores_forget(state, client);
    while (client->waiters) bti_waiter_free(state, client->waiters, wakes);
    while (client->holds) {
        bti_hold_free(state, client->holds, wakes);
        bti_arena_commit(arena); /* there may be millions */
    }
    if (client->actor)
        bti_actor_gone(state, client->actor, why, wakes);
    else
        end_given_of_gone(state, client, why, wakes);
    BTI_SET(arena, client->state, BTI_CLIENT_ENDED);
    BTI_SET(arena, client->mail, NULL);
    BTI_SET(arena, state->worker_count, state->worker_count - 1);
    BTI_SET(arena, state->progress, state->progress + 1);
    bti_record_free(arena, BTI_CLIENTS, client);
    bti_dispatch(state, wakes);
}

void bti_worker_not_started(bti_state *state, bti_client *worker, int error, uint64_t now_ns, bti_wakes *wakes) {
    enum { FORK_AGAIN_NS = 100000000 };
    bti_arena *arena = state->arena;
    if (!state->fork_failing_ns) BTI_SET(arena, state->fork_failing_ns, now_ns);
    BTI_SET(arena, state->fork_again_ns, now_ns + FORK_AGAIN_NS);
    BTI_SET(arena, state->fork_errno, error);
    if (worker->task && (!worker->actor || worker->actor->state != BTI_ACTOR_DEAD)) bti_given_take_all(state, worker);
    bti_client_gone(state, worker, "no worker process could be started", wakes);
}

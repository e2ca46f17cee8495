#include "task/ended.h"

#include "task/actor.h"
#include "task/checks.h"
#include "task/chores.h"
#include "task/given.h"
#include "task/object.h"
#include "task/value.h"

/* Its value is there, and was checked. */
void bti_settle_value(bti_state *state, bti_object *object, bti_wakes *wakes) {
    if (bti_object_contain(state, object, bti_object_value(object), wakes))
        bti_object_settle(state, object, BTI_OBJECT_READY, wakes);
    else
        bti_object_fail(state, object, BT_RESOURCE_EXHAUSTED, "too many references stand in values", wakes);
}

/* The room that it was granted was filled (no bytes), or the value follows. */
static bool is_result(const bti_state *state, const bti_object *result, const char *bytes, uint64_t length) {
    if (length) return bti_is_value(state, bytes, length);
    return result->value && bti_is_value(state, result->value, result->bytes);
}

static void put_result(bti_state *state, bti_object *result, const char *bytes, uint64_t length, bti_wakes *wakes) {
    if (length) bti_object_empty(state, result);
    if (length && !bti_object_copy(state, result, bytes, length))
        bti_object_fail(state, result, BT_RESOURCE_EXHAUSTED, "the store has no room for the result", wakes);
    else
        bti_settle_value(state, result, wakes);
}

/* Of several the next: *at moves on. */
static bool next_result(const bti_message *m, uint64_t *at, const char **bytes, uint64_t *length) {
    if (m->length - *at < sizeof *length) return false;
    memcpy(length, bti_message_bytes(m) + *at, sizeof *length);
    *at += sizeof *length;
    *bytes = bti_message_bytes(m) + *at;
    if (*length % 8 || *length > m->length - *at) return false;
    *at += *length;
    return true;
}

static bool put_results(bti_state *state, const bti_task_record *task, const bti_message *m, bti_wakes *wakes) {
    uint32_t count = bti_result_count(task);
    const char *bytes = bti_message_bytes(m);
    uint64_t length = m->length;
    if (count == 1) {
        if (!is_result(state, task->result, bytes, length)) return false;
        put_result(state, task->result, bytes, length, wakes);
        return true;
    }
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!next_result(m, &at, &bytes, &length) || !is_result(state, bti_task_result(task, i), bytes, length))
            return false;
    at = 0;
    for (uint32_t i = 0; i < count; i++) {
        (void)next_result(m, &at, &bytes, &length);
        put_result(state, bti_task_result(task, i), bytes, length, wakes);
    }
    return true;
}

static bool settle(bti_state *state, bti_client *client, bti_task_record *task, const bti_message *m,
                   bti_wakes *wakes) {
    const char *text = m->length ? bti_message_bytes(m) : "";
    bool failed = m->status != BT_OK;
    if (failed && m->length && text[m->length - 1]) return false;
    if (m->status > BT_UNAUTHENTICATED) return false;
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
    if (!failed) return put_results(state, task, m, wakes);
    if (task->cancelled)
        bti_task_fail(state, task, BT_CANCELLED, text, wakes);
    else
        bti_task_fail_as(state, task, BT_FAILURE_RETURNED, (bt_status)m->status, text, wakes);
    return true;
}

/* Its GPUs are free when its process is gone. */
static void end_task(bti_state *state, bti_client *client, bti_task_record *task, bti_wakes *wakes) {
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
    return m->status != BT_OK && m->status <= BT_UNAUTHENTICATED && task->retry_failures >> m->status & 1 &&
           task->retries && !task->cancelled && !task->makes_actor &&
           atomic_load(&task->result->state) == BTI_OBJECT_PENDING;
}

/* It returned a failure, and is run again; one that has GPUs when its process is gone, which then counts as a death (tasks.c). */
static void retry(bti_state *state, const bti_client *client, bti_task_record *task) {
    if (client->ends_after && !client->actor) return;
    BTI_SET(state->arena, task->retries, task->retries - 1);
    bti_task_unpin(state, task);
    bti_give_back(state, task);
    BTI_SET(state->arena, task->client, NULL);
    if (task->queue)
        bti_queue_add(state, task);
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
        bti_client_rest(state, client);
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
        retry(state, client, task);
    } else {
        if (!settle(state, client, task, m, wakes)) return false;
        if (client->ends_after && !client->actor && bti_give_again(state, client, wakes)) return true;
        is_last = task->queue && !client->actor && bti_was_last_call(state, client);
        end_task(state, client, task, wakes);
    }
    call_ended(state, client, m->number, is_last, wakes);
    return true;
}

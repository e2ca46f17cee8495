#include "task/server.h"

#include "task/chores.h"
#include "task/dispatch.h"
#include "task/ended.h"
#include "task/given.h"
#include "task/object.h"
#include "task/order.h"
#include "task/placement.h"
#include "task/ready.h"
#include "task/settle.h"
#include "task/supply.h"
#include "task/tasks.h"

/* --- requests -------------------------------------------------------------------------------------------------------------- */

static void refuse_request(bti_client *client, const bti_message *m, bti_wakes *wakes) {
    bti_mail_reply(client, m->slot, bt_error_status(), NULL, bt_error_text(), wakes);
}

static void answer_hold(bti_client *client, const bti_message *m, bti_hold *hold, bti_wakes *wakes) {
    if (!hold)
        refuse_request(client, m, wakes);
    else
        bti_mail_reply(client, m->slot, BT_OK, hold, NULL, wakes);
}

static void fill_stock(bti_state *state, bti_client *client) {
    bti_wakes wakes = {0};
    while (client->stock_left < BTI_STOCK) {
        bti_arena_commit(state->arena);
        bti_object *object = bti_object_new(state);
        bti_hold *hold = object ? bti_hold_new(state, client, object) : NULL;
        if (!hold) {
            bti_arena_take_back(state->arena);
            return;
        }
        bti_object_drop(state, object, &wakes);
        client->mail->stock[client->stocked % BTI_STOCK] = hold;
        BTI_SET(state->arena, client->stocked, client->stocked + 1);
        BTI_SET(state->arena, client->stock_left, client->stock_left + 1);
        atomic_store(&client->mail->stocked, client->stocked);
    }
}

static void use_stock(bti_state *state, bti_client *client) {
    if (client->stock_left) BTI_SET(state->arena, client->stock_left, client->stock_left - 1);
    if (client->stock_left < BTI_STOCK / 2) fill_stock(state, client);
}

static bool is_order(const bti_state *state, const bti_client *client, const bti_call_order *o, const bti_message *m) {
    for (int r = 0; r < BTI_MOST_RESOURCES; r++)
        if (o->amounts.of[r] < 0 || o->amounts.of[r] > state->machine.total.of[r]) return false;
    if (o->num_returns > BTI_MOST_RETURNS || (o->num_returns > 1 && o->kind == BTI_CALL_ACTOR)) return false;
    if (o->kind == BTI_CALL_ACTOR && (o->max_concurrency < 1 || o->max_concurrency > BTI_MOST_AT_ONCE)) return false;
    if (o->kind > BTI_CALL_METHOD || (o->pack && !bti_is_hold_of(state, client, o->pack))) return false;
    if (o->pack && (!o->pack->object->value || !bti_is_packed(state, o->pack->object->value, o->pack->object->bytes)))
        return false;
    if (o->actor && !bti_is_object(state, o->actor)) return false;
    if (o->group &&
        (!bti_is_object(state, o->group) || !o->group->group || o->bundle < 0 || o->bundle >= o->group->group->count))
        return false;
    if (o->actor_name[sizeof o->actor_name - 1] || o->function[sizeof o->function - 1] ||
        o->module[sizeof o->module - 1])
        return false;
    return o->pack ||
           (o->bytes <= m->length - sizeof *o && bti_is_packed(state, bti_message_bytes(m) + sizeof *o, o->bytes));
}

static bool serve_submit(bti_state *state, bti_client *client, const bti_message *m, bti_wakes *wakes) {
    bti_call_order order;
    if (m->length < sizeof order) return false;
    memcpy(&order, bti_message_bytes(m), sizeof order);
    bool makes_actor = order.kind == BTI_CALL_ACTOR;
    if (!is_order(state, client, &order, m) || (!makes_actor && !bti_is_fresh(state, client, m->hold))) return false;
    bti_errors_aside aside = bti_errors_aside_begin(); /* the worker reports them, with its place in the source */
    bti_hold *hold = bti_order_submit(state, client, &order, bti_message_bytes(m) + sizeof order,
                                      makes_actor ? NULL : m->hold, wakes);
    if (makes_actor)
        answer_hold(client, m, hold, wakes);
    else if (!hold)
        bti_object_fail(state, m->hold->object, bt_error_status(), bt_error_text(), wakes);
    if (order.pack) bti_hold_free(state, order.pack, wakes);
    if (!makes_actor) use_stock(state, client);
    bti_errors_aside_end(aside);
    return true;
}

static bool serve_put(bti_state *state, bti_client *client, const bti_message *m, bti_wakes *wakes) {
    if (!bti_is_fresh(state, client, m->hold) || !bti_is_packed(state, bti_message_bytes(m), m->length)) return false;
    if (bti_object_copy(state, m->hold->object, bti_message_bytes(m), m->length))
        bti_settle_value(state, m->hold->object, wakes);
    else
        bti_object_fail(state, m->hold->object, BT_RESOURCE_EXHAUSTED, "the store has no room", wakes);
    use_stock(state, client);
    return true;
}

static bool serve_made(bti_state *state, bti_client *client, const bti_message *m, bti_wakes *wakes) {
    if (!bti_is_fresh(state, client, m->hold)) return false;
    bti_object *object = m->hold->object;
    if (!object->value || !bti_is_packed(state, object->value, object->bytes)) return false;
    bti_settle_value(state, object, wakes);
    use_stock(state, client);
    return true;
}

static bool serve_yield(bti_state *state, bti_client *client, const bti_message *m, bti_wakes *wakes) {
    bti_task_record *task = bti_given_call(client, m->number);
    if (!task || task->state != BTI_TASK_GIVEN || bti_result_count(task) != 1) return false;
    if (!bti_is_hold_of(state, client, m->hold) || atomic_load(&m->hold->object->state) == BTI_OBJECT_PENDING)
        return false;
    bti_task_yield(state, task, m->hold->object, wakes);
    bti_hold_free(state, m->hold, wakes);
    return true;
}

/* The call is about to return these references: they are kept until its result comes, though its own holds end before. */
static bool serve_keep(bti_state *state, bti_client *client, const bti_message *m) {
    bti_task_record *task = bti_given_call(client, m->number);
    if (!task || task->state != BTI_TASK_GIVEN || m->length % sizeof(uint64_t)) return false;
    for (uint64_t at = 0; at < m->length; at += sizeof(uint64_t)) {
        uint64_t id;
        memcpy(&id, bti_message_bytes(m) + at, sizeof id);
        bti_object *object = bti_object_at(state, id);
        if (!object) return false;
        if (!bti_contents_add(state, &task->inner, object)) break; /* the result will not find it, and fails */
    }
    return true;
}

static bti_waiter *waiter_of(const bti_client *client, uint16_t slot) {
    bti_waiter *waiter = client->waiters;
    while (waiter && waiter->slot != slot) waiter = waiter->next;
    return waiter;
}

/* Objects of a wait; false: one is no hold of the client. When records run out, the count at the end is too low. */
static bool add_to_wait(bti_state *state, const bti_client *client, bti_waiter *waiter, const bti_message *m) {
    for (uint64_t i = 0, count = m->length / sizeof(bti_hold *); i < count; i++) {
        bti_hold *hold;
        memcpy(&hold, bti_message_bytes(m) + i * sizeof hold, sizeof hold);
        if (!bti_is_hold_of(state, client, hold)) return false;
        if (waiter && !bti_waiter_add(state, waiter, hold->object)) waiter = NULL;
    }
    return true;
}

static bool serve_wait(bti_state *state, bti_client *client, const bti_message *m, bti_wakes *wakes) {
    bti_waiter *waiter = waiter_of(client, m->slot);
    if (m->slot >= BTI_REPLIES || (waiter && waiter->armed)) return false;
    if (!waiter && (waiter = bti_waiter_new(state, client, m->begun_ns)) != NULL)
        waiter->slot = m->slot, waiter->call = m->number;
    if (!add_to_wait(state, client, waiter, m)) return false;
    if (m->kind == BTI_ASKS_WAIT_MORE) return true;
    if (!waiter || waiter->objects != m->status) {
        bti_mail_reply(client, m->slot, BT_RESOURCE_EXHAUSTED, NULL, "too many waits", wakes);
        if (waiter) bti_waiter_free(state, waiter, wakes);
    } else if (!bti_waiter_arm(state, waiter, (int)m->count)) {
        bti_mail_reply(client, m->slot, BT_OK, NULL, NULL, wakes);
        bti_waiter_free(state, waiter, wakes);
    } else {
        bti_given_revoke(state, client); /* other workers begin the rest */
        if (client->task && !client->actor) bti_lend_cpus(state, client->task);
    }
    return true;
}

static bool serve_wait_end(bti_state *state, bti_client *client, const bti_message *m, bti_wakes *wakes) {
    bti_waiter *waiter = waiter_of(client, m->slot);
    if (!waiter) return true; /* it was answered meanwhile */
    bti_mail_reply(client, m->slot, BT_OK, NULL, NULL, wakes);
    bti_waiter_free(state, waiter, wakes);
    return true;
}

static bool serve_hold_object(bti_state *state, bti_client *client, const bti_message *m, bti_wakes *wakes) {
    uint64_t id;
    if (m->length != sizeof id) return false;
    memcpy(&id, bti_message_bytes(m), sizeof id);
    bti_object *object = bti_object_at(state, id);
    if (!object) return false;
    bti_hold *hold = bti_hold_new(state, client, object);
    if (hold && m->count && bti_object_value(object)) bti_hold_pin(state, hold);
    bti_mail_reply(client, m->slot, hold ? BT_OK : BT_RESOURCE_EXHAUSTED, hold, "too many references", wakes);
    return true;
}

static bool serve_find_result(bti_state *state, bti_client *client, const bti_message *m, bti_wakes *wakes) {
    if (!bti_is_hold_of(state, client, m->hold) || m->count > UINT32_MAX) return false;
    bti_errors_aside aside = bti_errors_aside_begin();
    answer_hold(client, m, bti_result_hold(state, client, m->hold->object, (uint32_t)m->count, wakes), wakes);
    bti_errors_aside_end(aside);
    return true;
}

static bool serve_find_actor(bti_state *state, bti_client *client, const bti_message *m, bti_wakes *wakes) {
    const char *name = bti_message_bytes(m);
    if (!m->length || name[m->length - 1]) return false;
    bti_actor_record *actor = bti_actor_named(state, name);
    bti_hold *hold = actor ? bti_hold_new(state, client, actor->self) : NULL;
    bti_mail_reply(client, m->slot,
                   hold    ? BT_OK
                   : actor ? BT_RESOURCE_EXHAUSTED
                           : BT_NOT_FOUND,
                   hold, actor ? "too many references" : "there is no actor of that name", wakes);
    return true;
}

static bool serve_cancel(bti_state *state, bti_client *client, const bti_message *m, bti_wakes *wakes) {
    if (!bti_is_hold_of(state, client, m->hold)) return false;
    bti_errors_aside aside = bti_errors_aside_begin();
    bt_status status = bti_order_cancel(state, m->hold->object, (unsigned)m->count, wakes);
    bti_mail_reply(client, m->slot, status, NULL, status == BT_OK ? NULL : bt_error_text(), wakes);
    bti_errors_aside_end(aside);
    return true;
}

static bool serve_kill_actor(bti_state *state, bti_client *client, const bti_message *m, bti_wakes *wakes) {
    if (!bti_is_hold_of(state, client, m->hold)) return false;
    bti_order_kill(state, m->hold->object, wakes);
    bti_mail_reply(client, m->slot, BT_OK, NULL, NULL, wakes);
    return true;
}

static bool serve_group(bti_state *state, bti_client *client, const bti_message *m, bti_wakes *wakes) {
    if (m->count < 1 || m->count > BTI_MOST_BUNDLES || m->length != m->count * sizeof(bti_amounts)) return false;
    bti_supply bundles[BTI_MOST_BUNDLES] = {0};
    for (uint64_t i = 0; i < m->count; i++) {
        memcpy(&bundles[i].total, bti_message_bytes(m) + i * sizeof(bti_amounts), sizeof(bti_amounts));
        for (int r = 0; r < state->resource_count; r++)
            if (bundles[i].total.of[r] < 0 || bundles[i].total.of[r] > state->machine.total.of[r]) return false;
        bundles[i].free = bundles[i].total;
    }
    bti_hold *hold = bti_group_submit(state, client, bundles, (int)m->count, wakes);
    bti_mail_reply(client, m->slot, hold ? BT_OK : BT_RESOURCE_EXHAUSTED, hold,
                   "bt_group_new: there are too many groups", wakes);
    return true;
}

/* Requests that may take a while. */
static bool serve_chore(bti_state *state, bti_client *client, const bti_message *m, bti_wakes *wakes) {
    bti_task_record *task = bti_given_call(client, m->number);
    if (m->kind == BTI_ASKS_PIN_TASK || (m->kind == BTI_ASKS_ROOM && !m->hold)) {
        if (!task || task->state != BTI_TASK_GIVEN || (m->kind == BTI_ASKS_ROOM && m->status >= bti_result_count(task)))
            return false;
    } else if (m->kind == BTI_ASKS_ROOM ? !bti_is_fresh(state, client, m->hold)
                                        : !bti_is_hold_of(state, client, m->hold)) {
        return false;
    }
    if (m->slot >= BTI_REPLIES) return false;
    bti_chore_begin(state, client, m, task, wakes);
    return true;
}

static bool serve_release(bti_state *state, bti_client *client, const bti_message *m, bti_wakes *wakes) {
    if (!bti_is_hold_of(state, client, m->hold)) return false;
    if (bti_is_fresh(state, client, m->hold)) use_stock(state, client);
    if (state->chores) bti_chores_drop(state, client, NULL, m->hold, wakes);
    bti_hold_free(state, m->hold, wakes);
    return true;
}

static bool serve_message(bti_state *state, bti_client *client, const bti_message *m, bti_wakes *wakes) {
    switch ((bti_message_kind)m->kind) {
    case BTI_SAYS_DONE: return bti_call_done(state, client, m, wakes);
    case BTI_SAYS_RELEASE: return serve_release(state, client, m, wakes);
    case BTI_SAYS_SUBMIT: return serve_submit(state, client, m, wakes);
    case BTI_SAYS_PUT: return serve_put(state, client, m, wakes);
    case BTI_SAYS_MADE: return serve_made(state, client, m, wakes);
    case BTI_SAYS_YIELD: return serve_yield(state, client, m, wakes);
    case BTI_SAYS_KEEP: return serve_keep(state, client, m);
    case BTI_ASKS_STOCK:
        fill_stock(state, client);
        bti_mail_reply(client, m->slot, client->stock_left ? BT_OK : BT_RESOURCE_EXHAUSTED, NULL, "too many references",
                       wakes);
        return true;
    case BTI_ASKS_ROOM:
    case BTI_ASKS_PIN:
    case BTI_ASKS_PIN_TASK: return serve_chore(state, client, m, wakes);
    case BTI_ASKS_WAIT:
    case BTI_ASKS_WAIT_MORE: return serve_wait(state, client, m, wakes);
    case BTI_ASKS_WAIT_END: return serve_wait_end(state, client, m, wakes);
    case BTI_ASKS_CANCEL: return serve_cancel(state, client, m, wakes);
    case BTI_ASKS_HOLD: return serve_hold_object(state, client, m, wakes);
    case BTI_ASKS_RESULT: return serve_find_result(state, client, m, wakes);
    case BTI_ASKS_ACTOR: return serve_find_actor(state, client, m, wakes);
    case BTI_ASKS_KILL: return serve_kill_actor(state, client, m, wakes);
    case BTI_ASKS_GROUP: return serve_group(state, client, m, wakes);
    }
    return false;
}

void bti_serve_client(bti_state *state, bti_client *client, bti_wakes *wakes) {
    const bti_message *message;
    bool sane = true, any = false;
    if (!client->mail || client->kill) return;
    while (sane && (message = bti_mail_next(state, client, &sane)) != NULL) {
        any = true;
        sane = serve_message(state, client, message, wakes);
        bti_schedule_pending(state, wakes);
        BTI_SET(state->arena, state->progress, state->progress + 1);
        bti_arena_commit(state->arena);
        if (client->kill) break;
    }
    if (!sane) {
        BTI_SET(state->arena, client->kill, true);
        BTI_SET(state->arena, client->insane, true);
        wakes->nest = true;
    }
    if (any && atomic_exchange(&client->mail->wants_room, 0)) bti_wake_word_later(wakes, &client->mail->read);
}

static void serve_word(bti_state *state, uint32_t word, bti_wakes *wakes) {
    const bti_records *clients = &state->arena->records[BTI_CLIENTS];
    uint64_t bits = atomic_exchange(&state->bells->ready[word], 0);
    for (; bits; bits &= bits - 1) {
        uint32_t index = word * 64 + (uint32_t)__builtin_ctzll(bits);
        if (index >= clients->used) continue;
        bti_client *client = (bti_client *)(void *)(clients->first + index * clients->bytes);
        if (client->state != BTI_CLIENT_ENDED) bti_serve_client(state, client, wakes);
    }
}

static bool serve_once(bti_state *state, bti_wakes *wakes) {
    bool any = false;
    for (uint32_t i = 0; i < BTI_MOST_CLIENTS / 64 / 64; i++) {
        uint64_t bits = atomic_load(&state->bells->any[i]) ? atomic_exchange(&state->bells->any[i], 0) : 0;
        for (; bits; bits &= bits - 1, any = true) serve_word(state, i * 64 + (uint32_t)__builtin_ctzll(bits), wakes);
    }
    return any;
}

/* Several times, for messages that came meanwhile: a worker that finds no waiter for its result does not ring. */
void bti_serve(bti_state *state, bti_wakes *wakes) {
    enum { MOST = 16 };
    bool any = false;
    state->serves++;
    for (int times = 0; times < MOST && serve_once(state, wakes); times++) {
        any = true;
        bti_fence(); /* waits that began are visible before the bells are read */
    }
    if (any) bti_dispatch(state, wakes);
}

void bti_serve_all(bti_state *state, bti_wakes *wakes) {
    for (bti_client *next, *c = state->clients; c; c = next) {
        next = c->next;
        bti_serve_client(state, c, wakes);
    }
    bti_dispatch(state, wakes);
}

void bti_serve_now(bti_state *state) {
    bti_wakes wakes = {0};
    if (!bti_arena_lock(state->arena)) return;
    bti_serve(state, &wakes);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
}

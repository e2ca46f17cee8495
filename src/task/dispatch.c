/* Who runs next, and where. */
#include "task/actor.h"
#include "task/fair.h"
#include "task/given.h"
#include "task/object.h"

/* --- giving ---------------------------------------------------------------------------------------------------------- */

static bool needs_fresh_worker(const bti_task_record *task) {
    return task->queue->amounts.of[1] || task->makes_actor || task->hides_gpus;
}

static bti_client *new_worker(bti_state *state, bti_wakes *wakes) {
    bti_client *worker = bti_record_new(state->arena, BTI_CLIENTS);
    if (!worker) return NULL;
    bti_mail_open(state, worker);
    worker->number = state->clients_ever;
    BTI_SET(state->arena, state->clients_ever, state->clients_ever + 1);
    worker->next = state->clients;
    if (state->clients) BTI_SET(state->arena, state->clients->before, worker);
    BTI_SET(state->arena, state->clients, worker);
    worker->next_start = state->to_start;
    BTI_SET(state->arena, state->to_start, worker);
    BTI_SET(state->arena, state->worker_count, state->worker_count + 1);
    wakes->nest = true;
    return worker;
}

static void assign(bti_state *state, const bti_turn *turn, bti_client *worker, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    bti_queue *queue = turn->queue;
    bti_task_record *task = bti_queue_take(state, queue);
    bti_supply_take(state, bti_supply_of(state, queue), &queue->amounts, turn->gpus[0], task->makes_actor);
    if (turn->gpus[0]) BTI_SET(arena, task->gpus, turn->gpus[0]);
    if (task->makes_actor) {
        BTI_SET(arena, worker->actor, task->actor);
        BTI_SET(arena, task->actor->client, worker);
    }
    if (needs_fresh_worker(task)) BTI_SET(arena, worker->ends_after, true);
    (void)bti_task_pin_now(state, task); /* or the worker asks for what is on disk */
    bti_give(state, worker, task, wakes);
}

static bti_client *take_idle(bti_state *state) {
    bti_client *worker = state->idle;
    if (!worker) return NULL;
    BTI_SET(state->arena, state->idle, worker->next_idle);
    BTI_SET(state->arena, state->idle_count, state->idle_count - 1);
    BTI_SET(state->arena, worker->state, BTI_CLIENT_BUSY);
    return worker;
}

/* To an idle worker or a new one; false: there is none. */
static bool give(bti_state *state, const bti_turn *turn, bti_wakes *wakes) {
    bti_client *worker = needs_fresh_worker(turn->queue->first) ? NULL : take_idle(state);
    if (!worker && !(worker = new_worker(state, wakes))) return false;
    assign(state, turn, worker, wakes);
    return true;
}

static void give_all(bti_state *state, bti_wakes *wakes) {
    for (bti_turn turn; bti_next_turn(state, &turn, wakes);)
        if (turn.group)
            bti_group_grant(state, &turn, wakes);
        else if (!give(state, &turn, wakes))
            return;
}

/* Resources are free that calls which were given ahead would take: they go to whoever can begin them now. */
static bool take_back_ahead(bti_state *state) {
    for (bti_client *c = state->ahead ? state->clients : NULL; c; c = c->next) {
        const bti_queue *queue = bti_given_count(c) > 1 && !c->actor ? c->task->queue : NULL;
        if (queue && bti_supply_fits(state, bti_supply_of(state, queue), &queue->amounts) && bti_given_revoke(state, c))
            return true;
    }
    return false;
}

void bti_dispatch(bti_state *state, bti_wakes *wakes) {
    do {
        if (state->groups) bti_groups_clean(state, wakes);
        give_all(state, wakes);
    } while ((state->groups && bti_groups_end(state)) || /* tasks that it refused were the last of theirs */
             (state->ahead && take_back_ahead(state)));
}

uint64_t bti_dispatch_due(bti_state *state, uint64_t now_ns, bti_wakes *wakes) {
    if (state->dispatch_at_ns && state->dispatch_at_ns <= now_ns) {
        BTI_SET(state->arena, state->dispatch_at_ns, 0);
        bti_dispatch(state, wakes);
    }
    return state->dispatch_at_ns;
}

bool bti_give_next(bti_state *state, bti_client *worker, bti_wakes *wakes) {
    if (worker->stops || worker->kill || worker->waiters) return false;
    if (state->groups) bti_groups_clean(state, wakes);
    for (bti_turn turn; bti_next_turn(state, &turn, wakes);) {
        if (turn.group) {
            bti_group_grant(state, &turn, wakes);
        } else if (!needs_fresh_worker(turn.queue->first)) {
            assign(state, &turn, worker, wakes);
            return true;
        } else if (!give(state, &turn, wakes)) {
            break;
        }
    }
    return false;
}

enum {
    AHEAD_BYTES = 1 << 16
}; /* of arguments in the store: who waits behind another does not keep more from going to disk */

/* The other workers get as many. */
static uint32_t share_of(const bti_state *state, const bti_queue *queue) {
    uint64_t cpus = (uint64_t)(state->machine.total.of[0] / BTI_UNIT) + 1,
             share = queue->length / (cpus < 64 ? cpus : 64);
    return share < BTI_AHEAD ? (uint32_t)share : BTI_AHEAD;
}

void bti_give_ahead(bti_state *state, bti_client *worker, bti_wakes *wakes) {
    bti_queue *queue = worker->task ? worker->task->queue : NULL;
    if (!queue || worker->actor || worker->ends_after || worker->waiters || worker->task->cpus_lent) return;
    bti_supply *supply = bti_supply_of(state, queue);
    bti_turn turn;
    for (uint32_t share = share_of(state, queue); bti_given_count(worker) < share && bti_given_has_room(worker);) {
        bti_supply_give(state, supply, &queue->amounts, 0, false); /* as when its first one has ended */
        bool is_next = bti_next_turn(state, &turn, wakes) && turn.queue == queue;
        bti_supply_take(state, supply, &queue->amounts, 0, false);
        if (!is_next || needs_fresh_worker(queue->first) || bti_task_stored_bytes(queue->first) > AHEAD_BYTES ||
            !bti_task_pin_now(state, queue->first))
            return;
        bti_give(state, worker, bti_queue_take(state, queue), wakes);
    }
}

void bti_client_rest(bti_state *state, bti_client *worker) {
    bti_arena *arena = state->arena;
    BTI_SET(arena, worker->next_idle, state->idle);
    BTI_SET(arena, state->idle, worker);
    BTI_SET(arena, state->idle_count, state->idle_count + 1);
    BTI_SET(arena, worker->state, BTI_CLIENT_IDLE);
}

void bti_client_unrest(bti_state *state, bti_client *worker) {
    bti_client **at = &state->idle;
    while (*at && *at != worker) at = &(*at)->next_idle;
    if (!*at) return;
    BTI_SET(state->arena, *at, worker->next_idle);
    BTI_SET(state->arena, state->idle_count, state->idle_count - 1);
}

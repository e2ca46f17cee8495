/* Who runs next, and where. */
#include "task/actor.h"
#include "task/fair.h"
#include "task/object.h"

/* --- giving ---------------------------------------------------------------------------------------------------------- */

static bool needs_fresh_worker(const bti_task_record *task) {
    return task->queue->amounts.of[1] || task->makes_actor || task->hides_gpus;
}

static bti_client *new_worker(bti_state *state, bti_wakes *wakes) {
    bti_client *worker = bti_record_new(state->arena, BTI_CLIENTS);
    if (!worker) return NULL;
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

static void assign(bti_state *state, const bti_turn *turn, bti_client *worker) {
    bti_arena *arena = state->arena;
    bti_queue *queue = turn->queue;
    bti_task_record *task = bti_queue_take(state, queue);
    bti_supply_take(state, bti_supply_of(state, queue), &queue->amounts, turn->gpus[0], task->makes_actor);
    if (turn->gpus[0]) BTI_SET(arena, task->gpus, turn->gpus[0]);
    BTI_SET(arena, task->state, BTI_TASK_GIVEN);
    BTI_SET(arena, task->client, worker);
    BTI_SET(arena, worker->task, task);
    if (task->makes_actor) {
        BTI_SET(arena, worker->actor, task->actor);
        BTI_SET(arena, task->actor->client, worker);
    }
    if (needs_fresh_worker(task)) BTI_SET(arena, worker->ends_after, true);
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
    if (worker)
        bti_wake_later(wakes, &worker->word);
    else if (!(worker = new_worker(state, wakes)))
        return false;
    assign(state, turn, worker);
    return true;
}

static void give_all(bti_state *state, bti_wakes *wakes) {
    for (bti_turn turn; bti_next_turn(state, &turn, wakes);)
        if (turn.group)
            bti_group_grant(state, &turn, wakes);
        else if (!give(state, &turn, wakes))
            return;
}

void bti_dispatch(bti_state *state, bti_wakes *wakes) {
    do {
        if (state->groups) bti_groups_clean(state, wakes);
        give_all(state, wakes);
    } while (state->groups && bti_groups_end(state)); /* tasks that it refused were the last of theirs */
}

uint64_t bti_dispatch_due(bti_state *state, uint64_t now_ns, bti_wakes *wakes) {
    if (state->dispatch_at_ns && state->dispatch_at_ns <= now_ns) {
        BTI_SET(state->arena, state->dispatch_at_ns, 0);
        bti_dispatch(state, wakes);
    }
    return state->dispatch_at_ns;
}

bti_task_record *bti_take_next(bti_state *state, bti_client *worker, bti_wakes *wakes) {
    if (state->groups) bti_groups_clean(state, wakes);
    for (bti_turn turn; bti_next_turn(state, &turn, wakes);) {
        if (turn.group) {
            bti_group_grant(state, &turn, wakes);
        } else if (!needs_fresh_worker(turn.queue->first)) {
            assign(state, &turn, worker);
            return worker->task;
        } else if (!give(state, &turn, wakes)) {
            break;
        }
    }
    return NULL;
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

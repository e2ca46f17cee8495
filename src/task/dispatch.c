#include "task/dispatch.h"

#include <sys/resource.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "task/fair.h"
#include "task/given.h"
#include "task/group.h"
#include "task/queue.h"
#include "task/ready.h"
#include "task/tasks.h"

/* --- how many processes ---------------------------------------------------------------------------------------------- */

bool bti_has_turns(const bti_state *state) { return state->busy_count < state->most_busy; }

/* After a failed fork the next attempt is later. */
static bool may_start_worker(bti_state *state, bti_wakes *wakes) {
    if (state->worker_count - state->idle_count >= state->most_workers) return false;
    if (!state->fork_again_ns || bti_now_ns() >= state->fork_again_ns) return true;
    bti_dispatch_at(state, state->fork_again_ns, wakes);
    return false;
}

/* Other programs keep some of what the system allows. */
static uint32_t share_of_limit(uint64_t left) {
    uint64_t most = left / 4 * 3;
    return most < 1 ? 1 : most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

bt_status bti_processes_limit(bti_state *state, int max_processes) {
    enum { PER_CPU = 4, LEAST = 64, SPARE = 16 };
    int64_t cpus = (state->machine.total.of[0] + BTI_UNIT - 1) / BTI_UNIT;
    uint32_t records = state->arena->records[BTI_CLIENTS].most;
    struct rlimit limit;
    bti_cgroup group;
    if (max_processes < 0)
        return bti_fail(BT_INVALID_ARGUMENT, "bt_runtime_init: max_processes is %d; it cannot be below 0",
                        max_processes);
    bti_cgroup_read(&group);
    state->most_workers = records > SPARE ? records - SPARE : records;
    if (group.processes_left < state->most_workers) state->most_workers = share_of_limit(group.processes_left);
    bool is_limited = geteuid() && getrlimit(RLIMIT_NPROC, &limit) == 0;
    if (is_limited && limit.rlim_cur < state->most_workers) state->most_workers = share_of_limit(limit.rlim_cur);
    int64_t most = max_processes ? max_processes : PER_CPU * cpus > LEAST ? PER_CPU * cpus : LEAST;
    state->most_busy = most < state->most_workers ? (uint32_t)most : state->most_workers;
    return BT_OK;
}

/* --- giving ---------------------------------------------------------------------------------------------------------- */

static bool needs_fresh_worker(const bti_task_record *task) {
    return task->queue->amounts.of[1] || task->makes_actor || task->hides_gpus;
}

static bti_client *make_worker(bti_state *state, bti_wakes *wakes) {
    bti_client *worker = bti_record_new(state->arena, BTI_CLIENTS);
    if (!worker) return NULL;
    bti_mail_open(state, worker);
    worker->at_once = 1;
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

static void assign_to(bti_state *state, const bti_turn *turn, bti_client *worker, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    bti_queue *queue = turn->queue;
    bti_task_record *task = bti_queue_take(state, queue);
    bti_supply_take(state, bti_supply_of(state, queue), &queue->amounts, turn->gpus[0], task->makes_actor);
    if (turn->gpus[0]) BTI_SET(arena, task->gpus, turn->gpus[0]);
    if (task->makes_actor) {
        BTI_SET(arena, worker->actor, task->actor);
        BTI_SET(arena, task->actor->client, worker);
        BTI_SET(arena, worker->at_once, task->actor->at_once);
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
static bool give_turn(bti_state *state, const bti_turn *turn, bti_wakes *wakes) {
    bti_client *worker = needs_fresh_worker(turn->queue->first) ? NULL : take_idle(state);
    if (!worker && (!may_start_worker(state, wakes) || !(worker = make_worker(state, wakes)))) return false;
    assign_to(state, turn, worker, wakes);
    return true;
}

/* --- arguments in the store ------------------------------------------------------------------------------------------- */

/* Arguments of running calls stay in memory. They take at most half of the store, which leaves room for results. Calls made by a running call are
 * exempt. */
static bool is_crowded(const bti_state *state, const bti_task_record *task) {
    uint64_t bytes = task->depth ? 0 : bti_task_stored_bytes(task);
    return bytes && state->needed_bytes && state->needed_bytes + bytes > state->store_limit / 2;
}

/* The next turn of a group, or of a call whose arguments fit beside those of others. */
static bool next_turn(bti_state *state, bti_turn *turn, bti_wakes *wakes) {
    while (bti_next_turn(state, turn, wakes)) {
        if (turn->group || !is_crowded(state, turn->queue->first)) return true;
        bti_queue_put_aside(state, turn->queue);
    }
    return false;
}

static void give_all_turns(bti_state *state, bti_wakes *wakes) {
    if (!bti_has_turns(state) && !state->groups_waiting) return;
    for (bti_turn turn; next_turn(state, &turn, wakes);)
        if (turn.group)
            bti_group_grant(state, turn.group, turn.gpus, wakes);
        else if (!bti_has_turns(state) || !give_turn(state, &turn, wakes))
            return;
}

/* Resources are free that calls which were given ahead would take: another worker can begin these calls now. */
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
        bti_schedule_pending(state, wakes);
        if (state->groups) bti_groups_clean(state, wakes);
        give_all_turns(state, wakes);
    } while ((state->groups && bti_groups_end(state)) || /* tasks that it refused were the last of theirs */
             (state->ahead && bti_has_turns(state) && take_back_ahead(state)));
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
    for (bti_turn turn; next_turn(state, &turn, wakes);) {
        if (turn.group) {
            bti_group_grant(state, turn.group, turn.gpus, wakes);
        } else if (!bti_has_turns(state)) {
            break;
        } else if (!needs_fresh_worker(turn.queue->first)) {
            assign_to(state, &turn, worker, wakes);
            return true;
        } else if (!give_turn(state, &turn, wakes)) {
            break;
        }
    }
    return false;
}

/* Calls per worker when all workers get as many. */
static uint32_t share_of_queue(const bti_state *state, const bti_queue *queue) {
    uint64_t cpus = (uint64_t)(state->machine.total.of[0] / BTI_UNIT) + 1,
             share = queue->length / (cpus < 64 ? cpus : 64);
    return share < BTI_AHEAD ? (uint32_t)share : BTI_AHEAD;
}

void bti_give_ahead(bti_state *state, bti_client *worker, bti_wakes *wakes) {
    bti_queue *queue = worker->task ? worker->task->queue : NULL;
    if (!queue || worker->actor || worker->ends_after || worker->waiters || worker->task->cpus_lent ||
        worker->task->max_calls)
        return;
    bti_supply *supply = bti_supply_of(state, queue);
    bti_turn turn;
    for (uint32_t share = share_of_queue(state, queue);
         bti_given_count(worker) < share && bti_given_has_room(worker);) {
        bti_supply_give(state, supply, &queue->amounts, 0, false); /* as when its first one has ended */
        bool is_next = bti_next_turn(state, &turn, wakes) && turn.queue == queue;
        bti_supply_take(state, supply, &queue->amounts, 0, false);
        if (!is_next || needs_fresh_worker(queue->first) || queue->first->max_calls ||
            !bti_may_be_ahead(state, queue->first))
            return;
        bti_give(state, worker, bti_queue_take(state, queue), wakes);
    }
}

/* --- how many calls of a function a process runs ---------------------------------------------------------------------- */

static uint32_t count_call(bti_state *state, bti_client *worker) {
    const bti_function_record *function = worker->task->function;
    BTI_SET(state->arena, worker->calls, worker->function == function ? worker->calls + 1 : 1);
    if (worker->function != function) BTI_SET(state->arena, worker->function, function);
    return worker->calls;
}

bool bti_was_last_call(bti_state *state, bti_client *worker) {
    uint32_t most = worker->task->max_calls;
    return most && count_call(state, worker) >= most;
}

bool bti_give_again(bti_state *state, bti_client *worker, bti_wakes *wakes) {
    bti_task_record *ended = worker->task;
    bti_queue *queue = ended->queue;
    uint64_t gpus = ended->gpus;
    bti_turn turn;
    if (!gpus || count_call(state, worker) >= ended->max_calls) return false;
    if (worker->stops || worker->kill || worker->outdated || worker->waiters || ended->cpus_lent) return false;
    bti_supply *supply = bti_supply_of(state, queue);
    bti_supply_give(state, supply, &queue->amounts, gpus, false);
    bool is_next = bti_next_turn(state, &turn, wakes) && turn.queue == queue;
    bti_supply_take(state, supply, &queue->amounts, gpus, false);
    if (!is_next || queue->first->makes_actor || queue->first->function != ended->function) return false;
    bti_task_record *next = bti_queue_take(state, queue);
    uint32_t number = ended->number;
    bti_task_end(state, ended, wakes);
    bti_given_shift(state, worker, number);
    bti_supply_take(state, supply, &queue->amounts, gpus, false);
    BTI_SET(state->arena, next->gpus, gpus);
    (void)bti_task_pin_now(state, next); /* or the worker asks for what is on disk */
    bti_give(state, worker, next, wakes);
    return true;
}

void bti_idle_add(bti_state *state, bti_client *worker) {
    bti_arena *arena = state->arena;
    BTI_SET(arena, worker->next_idle, state->idle);
    BTI_SET(arena, state->idle, worker);
    BTI_SET(arena, state->idle_count, state->idle_count + 1);
    BTI_SET(arena, worker->state, BTI_CLIENT_IDLE);
}

void bti_idle_remove(bti_state *state, bti_client *worker) {
    bti_client **at = &state->idle;
    while (*at && *at != worker) at = &(*at)->next_idle;
    if (!*at) return;
    BTI_SET(state->arena, *at, worker->next_idle);
    BTI_SET(state->arena, state->idle_count, state->idle_count - 1);
}

#include "task/given.h"

#include "task/actor.h"
#include "task/object.h"

static uint32_t tag_of(uint32_t number, bti_given_state as) { return number << 2 | (uint32_t)as; }

static void push(bti_state *state, bti_client *worker, bti_task_record *task, bti_wakes *wakes) {
    uint32_t number = worker->given_end, at = number % BTI_AHEAD;
    bti_mailbox *mail = worker->mail;
    BTI_SET(state->arena, worker->given[at], task);
    BTI_SET(state->arena, worker->given_end, number + 1);
    mail->task[at] = task;
    atomic_store(&mail->tag[at], tag_of(number, BTI_GIVEN));
    atomic_fetch_add(&mail->bell, 1);
    if (atomic_exchange(&mail->sleeping, 0)) bti_wake_word_later(wakes, &mail->bell);
}

/* Calls of functions: methods are in their actor's order, and are not revoked. */
static void count_ahead(bti_state *state, const bti_task_record *task, uint32_t more) {
    if (task->queue) BTI_SET(state->arena, state->ahead, state->ahead + more);
}

void bti_give(bti_state *state, bti_client *worker, bti_task_record *task, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    bool first = !bti_given_count(worker);
    BTI_SET(arena, task->state, BTI_TASK_GIVEN);
    BTI_SET(arena, task->client, worker);
    BTI_SET(arena, task->needs_bytes, bti_task_stored_bytes(task));
    BTI_SET(arena, state->needed_bytes, state->needed_bytes + task->needs_bytes);
    push(state, worker, task, wakes);
    if (first) {
        BTI_SET(arena, worker->task, task);
        return;
    }
    if (!state->ahead || task->priority < state->ahead_priority) BTI_SET(arena, state->ahead_priority, task->priority);
    count_ahead(state, task, 1);
}

void bti_give_end(bti_state *state, bti_client *worker, bti_wakes *wakes) {
    if (worker->stops) return;
    BTI_SET(state->arena, worker->stops, true);
    push(state, worker, NULL, wakes);
}

bool bti_given_is_waiting(const bti_client *worker, uint32_t number) {
    return atomic_load(&worker->mail->tag[number % BTI_AHEAD]) == tag_of(number, BTI_GIVEN);
}

bool bti_given_is_taken(const bti_client *worker, uint32_t number) {
    return atomic_load(&worker->mail->tag[number % BTI_AHEAD]) == tag_of(number, BTI_TAKEN);
}

bool bti_task_runs(const bti_task_record *task) {
    return task->state == BTI_TASK_GIVEN && task->client && task->client->task == task &&
           bti_given_is_taken(task->client, task->client->given_first);
}

uint64_t bti_task_begun_ns(const bti_task_record *task) {
    if (!bti_task_runs(task)) return task->begun_ns;
    return task->client->mail->begun_ns[task->client->given_first % BTI_AHEAD];
}

void bti_given_shift(bti_state *state, bti_client *worker) {
    bti_arena *arena = state->arena;
    uint32_t first = worker->given_first;
    bti_task_record *next = NULL;
    BTI_SET(arena, worker->given[first % BTI_AHEAD], NULL);
    do first++;
    while (first != worker->given_end && !(next = worker->given[first % BTI_AHEAD]));
    BTI_SET(arena, worker->given_first, first);
    BTI_SET(arena, worker->task, next);
    if (!next) return;
    count_ahead(state, next, -1u);
    if (next->queue) bti_supply_take(state, bti_supply_of(state, next->queue), &next->queue->amounts, 0, false);
}

void bti_given_take_out(bti_state *state, bti_client *worker, uint32_t number) {
    bti_task_record *task = worker->given[number % BTI_AHEAD];
    BTI_SET(state->arena, worker->given[number % BTI_AHEAD], NULL);
    BTI_SET(state->arena, task->client, NULL);
    bti_task_unpin(state, task);
    if (number == worker->given_first)
        bti_give_back(state, task);
    else
        count_ahead(state, task, -1u);
}

static bool take_back(bti_state *state, bti_client *worker, uint32_t number) {
    unsigned given = tag_of(number, BTI_GIVEN);
    if (!worker->given[number % BTI_AHEAD]) return false;
    if (!atomic_compare_exchange_strong(&worker->mail->tag[number % BTI_AHEAD], &given, tag_of(number, BTI_REVOKED)))
        return false;
    bti_given_take_out(state, worker, number);
    return true;
}

int bti_given_revoke(bti_state *state, bti_client *worker) {
    int count = 0;
    if (worker->actor) return 0;
    for (uint32_t n = worker->given_first + 1; worker->task && n != worker->given_end; n++) {
        bti_task_record *task = worker->given[n % BTI_AHEAD];
        if (!take_back(state, worker, n)) continue;
        bti_queue_add_back(state, task);
        count++;
    }
    return count;
}

void bti_given_revoke_all(bti_state *state) {
    for (bti_client *c = state->clients; c && state->ahead; c = c->next)
        if (c->mail) (void)bti_given_revoke(state, c);
}

void bti_given_to_line(bti_state *state, bti_client *worker, const bti_task_record *running) {
    for (uint32_t n = worker->given_end; n != worker->given_first; n--) {
        bti_task_record *task = worker->given[(n - 1) % BTI_AHEAD];
        if (!task || task == running) continue;
        bti_given_take_out(state, worker, n - 1);
        bti_actor_line_first(state, task);
    }
}

/* --- workers that do not go on -------------------------------------------------------------------------------------------- */

enum { LOOKS = 3, LOOKS_TO_BEGIN = 6 }; /* of the nest, in which it is still the same call */

/* Its first call is claimed from now on, by nobody; false: the worker has begun it. */
static bool claim_first(const bti_client *worker) {
    unsigned given = tag_of(worker->given_first, BTI_GIVEN);
    atomic_uint *tag = &worker->mail->tag[worker->given_first % BTI_AHEAD];
    return atomic_compare_exchange_strong(tag, &given, tag_of(worker->given_first, BTI_REVOKED)) ||
           given != tag_of(worker->given_first, BTI_TAKEN);
}

void bti_given_take_all(bti_state *state, bti_client *worker) {
    bti_arena *arena = state->arena;
    bti_task_record *first = worker->task;
    if (worker->actor) bti_given_to_line(state, worker, first);
    (void)bti_given_revoke(state, worker);
    bti_given_take_out(state, worker, worker->given_first);
    if (worker->actor) BTI_SET(arena, worker->actor->client, NULL);
    BTI_SET(arena, worker->actor, NULL);
    BTI_SET(arena, worker->task, NULL);
    bti_queue_add(state, first);
}

bool bti_given_stalls(const bti_client *worker) {
    const bti_task_record *task = worker->task;
    if (!task || worker->kill || worker->looks < LOOKS_TO_BEGIN) return false;
    if (task->state == BTI_TASK_KEPT) return !worker->actor && worker->stops;
    return !bti_given_is_taken(worker, worker->given_first) && (!worker->actor || task->makes_actor);
}

/* One that has run a call with GPUs has them until its process is gone; what it was given since is queued again then. */
void bti_given_give_up(bti_state *state, bti_client *worker, bti_wakes *wakes) {
    bool has_gpus = worker->ends_after && worker->given_first;
    if (!has_gpus && worker->task->state != BTI_TASK_KEPT) {
        if (!claim_first(worker)) return;
        bti_given_take_all(state, worker);
    }
    BTI_SET(state->arena, worker->kill, true);
    wakes->nest = true;
}

void bti_given_look(bti_state *state, bti_wakes *wakes) {
    bool any = false;
    for (bti_client *c = state->clients; c; c = c->next) {
        bool same = c->task && c->looked_at == c->given_first;
        c->looked_at = c->given_first;
        c->looks = same ? c->looks + 1 : 0;
        if (c->looks < LOOKS || c->actor || c->ends_after || c->kill) continue;
        if (bti_given_count(c) > 1) any = bti_given_revoke(state, c) || any;
        if (!c->given_first || !bti_given_stalls(c))
            continue; /* the first one may take as long as a process needs to start */
        bti_given_give_up(state, c, wakes);
        any = true;
    }
    if (any) bti_dispatch(state, wakes);
}

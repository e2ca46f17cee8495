#include "task/given.h"

#include "task/queue.h"
#include "task/supply.h"
#include "task/tasks.h"

static bti_task_record *find_given(const bti_client *worker, uint32_t number) {
    bti_task_record *task = worker->given[number % BTI_GIVEN_SLOTS];
    return task && task->number == number ? task : NULL;
}

static void push_down(bti_state *state, bti_client *worker, bti_task_record *task, bti_wakes *wakes) {
    bti_mailbox *mail = worker->mail;
    uint32_t number = worker->given_end;
    while (worker->given[number % BTI_GIVEN_SLOTS]) number++;
    uint32_t slot = number % BTI_GIVEN_SLOTS;
    if (task) task->number = number;
    BTI_SET(state->arena, worker->given[slot], task);
    BTI_SET(state->arena, worker->given_end, number + 1);
    mail->task[slot] = task;
    atomic_store(&mail->tag[slot], bti_given_tag(number, BTI_GIVEN));
    atomic_store(&mail->bell, number + 1);
    if (atomic_exchange(&mail->sleeping, 0)) bti_wake_word_later(wakes, &mail->bell);
}

/* Removes a call from the list of its worker. */
static void remove_given(bti_state *state, bti_client *worker, uint32_t number) {
    BTI_SET(state->arena, worker->given[number % BTI_GIVEN_SLOTS], NULL);
    BTI_SET(state->arena, worker->given_count, worker->given_count - 1);
}

/* Counts calls given ahead. Methods are not counted: they stay in the order of their actor, and are not revoked. */
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
    BTI_SET(arena, worker->given_count, worker->given_count + 1);
    push_down(state, worker, task, wakes);
    if (first) {
        BTI_SET(arena, worker->task, task);
        return;
    }
    if (!state->ahead || task->priority < state->ahead_priority) BTI_SET(arena, state->ahead_priority, task->priority);
    count_ahead(state, task, 1);
}

bool bti_may_be_ahead(bti_state *state, bti_task_record *task) {
    enum { MOST_BYTES = 1 << 16 };
    return bti_task_stored_bytes(task) <= MOST_BYTES && bti_task_pin_now(state, task);
}

void bti_give_end(bti_state *state, bti_client *worker, bti_wakes *wakes) {
    if (worker->stops) return;
    BTI_SET(state->arena, worker->stops, true);
    push_down(state, worker, NULL, wakes);
}

bti_task_record *bti_given_call(const bti_client *worker, uint32_t number) {
    bti_task_record *task = find_given(worker, number);
    bool runs = task && (worker->at_once > 1 ? bti_given_is_taken(task) : worker->task == task);
    return runs ? task : NULL;
}

bti_task_record *bti_given_next(const bti_client *worker, uint32_t *at) {
    while (worker->given_count && *at < BTI_GIVEN_SLOTS) {
        bti_task_record *task = worker->given[(*at)++];
        if (task) return task;
    }
    return NULL;
}

uint32_t bti_given_running(const bti_client *worker) {
    const bti_task_record *task;
    uint32_t count = 0, next = 0;
    if (worker->at_once <= 1) return worker->task && bti_given_is_taken(worker->task);
    while ((task = bti_given_next(worker, &next)) != NULL) count += bti_given_is_taken(task);
    return count;
}

/* The call with the lowest number (or the highest). */
static bti_task_record *find_outermost(const bti_client *worker, bool highest) {
    bti_task_record *found = NULL, *task;
    uint32_t next = 0;
    while ((task = bti_given_next(worker, &next)) != NULL)
        if (!found || ((int32_t)(task->number - found->number) > 0) == highest) found = task;
    return found;
}

/* The call that becomes the first after that number was removed. */
static bti_task_record *find_next_first(const bti_client *worker, uint32_t number) {
    bti_task_record *next = NULL;
    if (!worker->given_count) return NULL;
    if (worker->at_once > 1) return find_outermost(worker, false);
    while (!next && ++number != worker->given_end) next = find_given(worker, number);
    return next;
}

void bti_given_shift(bti_state *state, bti_client *worker, uint32_t number) {
    bool is_first = worker->given[number % BTI_GIVEN_SLOTS] == worker->task;
    remove_given(state, worker, number);
    if (!is_first) return;
    bti_task_record *next = find_next_first(worker, number);
    BTI_SET(state->arena, worker->task, next);
    if (!next) return;
    count_ahead(state, next, -1u);
    if (next->queue) bti_supply_take(state, bti_supply_of(state, next->queue), &next->queue->amounts, 0, false);
}

void bti_given_take_out(bti_state *state, bti_client *worker, bti_task_record *task) {
    remove_given(state, worker, task->number);
    BTI_SET(state->arena, task->client, NULL);
    bti_task_unpin(state, task);
    if (task == worker->task)
        bti_give_back(state, task);
    else
        count_ahead(state, task, -1u);
}

static bool revoke_tag(const bti_client *worker, const bti_task_record *task) {
    unsigned given = bti_given_tag(task->number, BTI_GIVEN);
    return atomic_compare_exchange_strong(&worker->mail->tag[task->number % BTI_GIVEN_SLOTS], &given,
                                          bti_given_tag(task->number, BTI_REVOKED));
}

static bool revoke_one(bti_state *state, bti_client *worker, bti_task_record *task) {
    if (!revoke_tag(worker, task)) return false;
    bti_given_take_out(state, worker, task);
    return true;
}

int bti_given_revoke(bti_state *state, bti_client *worker) {
    int count = 0;
    if (worker->actor || worker->given_count < 2) return 0;
    for (uint32_t n = worker->task->number + 1; n != worker->given_end; n++) {
        bti_task_record *task = find_given(worker, n);
        if (!task || !revoke_one(state, worker, task)) continue;
        bti_queue_add(state, task);
        count++;
    }
    return count;
}

static void revoke_all(bti_state *state) {
    for (bti_client *c = state->clients; c && state->ahead; c = c->next)
        if (c->mail) (void)bti_given_revoke(state, c);
}

/* The task goes before some calls that were given ahead. */
static bool overtakes(const bti_state *state, const bti_task_record *task) {
    if (!state->ahead || task->priority < state->ahead_priority) return false;
    return task->priority > state->ahead_priority || task->depth > state->ahead_depth;
}

void bti_task_enqueue(bti_state *state, bti_task_record *task) {
    bti_queue_add(state, task);
    if (overtakes(state, task)) revoke_all(state);
}

bti_task_record *bti_given_pop(bti_state *state, bti_client *worker) {
    bti_task_record *task = find_outermost(worker, true);
    if (task) remove_given(state, worker, task->number);
    return task;
}

/* --- workers that do not go on -------------------------------------------------------------------------------------------- */

enum { LOOKS = 3, LOOKS_TO_BEGIN = 6 }; /* of the nest at the same call, until it acts */

/* Takes its first call away, so that the worker can no longer claim it; false: the worker has begun it. */
static bool claim_first(const bti_client *worker) {
    return revoke_tag(worker, worker->task) || !bti_given_is_taken(worker->task);
}

void bti_given_take_all(bti_state *state, bti_client *worker) {
    bti_arena *arena = state->arena;
    bti_task_record *first = worker->task;
    (void)bti_given_revoke(state, worker);
    bti_given_take_out(state, worker, first);
    if (worker->actor) BTI_SET(arena, worker->actor->client, NULL);
    BTI_SET(arena, worker->actor, NULL);
    BTI_SET(arena, worker->task, NULL);
    bti_task_enqueue(state, first);
}

bool bti_given_stalls(const bti_client *worker) {
    const bti_task_record *task = worker->task;
    if (!task || worker->kill || worker->looks < LOOKS_TO_BEGIN) return false;
    if (task->state == BTI_TASK_KEPT) return !worker->actor && worker->stops;
    return !bti_given_is_taken(task) && (!worker->actor || task->makes_actor);
}

/* A worker that has run a call with GPUs keeps them until its process is gone; what it was given since is queued again then. */
void bti_given_give_up(bti_state *state, bti_client *worker, bti_wakes *wakes) {
    bool has_gpus = worker->ends_after && worker->task->number;
    if (!has_gpus && worker->task->state != BTI_TASK_KEPT) {
        if (!claim_first(worker)) return;
        bti_given_take_all(state, worker);
    }
    BTI_SET(state->arena, worker->kill, true);
    wakes->nest = true;
}

bool bti_given_look(bti_state *state, bti_wakes *wakes) {
    bool any = false;
    for (bti_client *c = state->clients; c; c = c->next) {
        uint32_t first = c->task ? c->task->number : c->given_end;
        bool same = c->task && c->looked_at == first;
        c->looked_at = first;
        c->looks = same ? c->looks + 1 : 0;
        if (c->looks < LOOKS || c->actor || c->ends_after || c->kill) continue;
        if (bti_given_count(c) > 1) any = bti_given_revoke(state, c) || any;
        if (!first || !bti_given_stalls(c)) continue; /* the first call may wait until the process has started */
        bti_given_give_up(state, c, wakes);
        any = true;
    }
    return any;
}

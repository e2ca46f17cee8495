#include "task/actor.h"
#include "task/nest.h"
#include "task/object.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- waking ---------------------------------------------------------------------------------------------------------- */

static void wake_word(atomic_uint *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }

void bti_wake_later(bti_wakes *wakes, atomic_uint *word) {
    atomic_fetch_add(word, 1);
    if (wakes->count == 64) wake_word(wakes->words[--wakes->count]);
    wakes->words[wakes->count++] = word;
}

void bti_wake(bti_state *state, bti_wakes *wakes) {
    for (int i = 0; i < wakes->count; i++) wake_word(wakes->words[i]);
    if (wakes->nest && atomic_load(&state->closing) < 2) bti_nest_call(state);
    wakes->count = 0;
    wakes->nest = false;
}

/* --- a queue as a leftist heap --------------------------------------------------------------------------------------- */

static bool goes_before(const bti_task_record *a, const bti_task_record *b) {
    return a->priority != b->priority ? a->priority > b->priority : a->sequence < b->sequence;
}

static uint32_t rank_of(const bti_task_record *task) { return task ? task->rank : 0; }

/* Joins two heaps along their right spines, which are at most log n long. */
static bti_task_record *join(bti_arena *arena, bti_task_record *a, bti_task_record *b) {
    bti_task_record *spine[64];
    int depth = 0;
    while (a && b) {
        if (goes_before(b, a)) {
            bti_task_record *other = a;
            a = b;
            b = other;
        }
        spine[depth++] = a;
        a = a->right;
    }
    bti_task_record *joined = a ? a : b;
    while (depth) {
        bti_task_record *top = spine[--depth], *left = top->left;
        if (rank_of(left) < rank_of(joined)) {
            BTI_SET(arena, top->left, joined);
            joined = left;
        }
        if (top->right != joined) BTI_SET(arena, top->right, joined);
        if (top->rank != rank_of(joined) + 1) BTI_SET(arena, top->rank, rank_of(joined) + 1);
        joined = top;
    }
    return joined;
}

void bti_queue_add(bti_state *state, bti_task_record *task) {
    bti_arena *arena = state->arena;
    bti_queue *queue = task->queue;
    BTI_SET(arena, task->left, NULL);
    BTI_SET(arena, task->right, NULL);
    BTI_SET(arena, task->rank, 1);
    BTI_SET(arena, task->state, BTI_TASK_QUEUED);
    BTI_SET(arena, queue->first, join(arena, queue->first, task));
    BTI_SET(arena, queue->length, queue->length + 1);
}

static bti_task_record *take_first(bti_state *state, bti_queue *queue) {
    bti_arena *arena = state->arena;
    bti_task_record *task = queue->first;
    BTI_SET(arena, queue->first, join(arena, task->left, task->right));
    BTI_SET(arena, queue->length, queue->length - 1);
    return task;
}

enum { QUEUES_KEPT = 64 }; /* of amounts that nobody takes now */

bti_queue *bti_queue_of(bti_state *state, const bti_amounts *amounts, bti_group_record *group, int bundle) {
    bti_queue *unused = NULL;
    int count = 0;
    for (bti_queue *q = state->queues; q; q = q->next) {
        if (q->group == group && q->bundle == bundle && !memcmp(&q->amounts, amounts, sizeof *amounts)) return q;
        if (!q->users && !q->group && ++count > QUEUES_KEPT) unused = q;
    }
    if (unused && !group) {
        for (int r = 0; r < state->resource_count; r++) BTI_SET(state->arena, unused->amounts.of[r], amounts->of[r]);
        return unused;
    }
    bti_queue *queue = bti_record_new(state->arena, BTI_QUEUES);
    if (!queue) return NULL;
    queue->amounts = *amounts;
    queue->group = group;
    queue->bundle = bundle;
    queue->next = state->queues;
    BTI_SET(state->arena, state->queues, queue);
    return queue;
}

static bti_queue *best_queue(bti_state *state, bti_wakes *wakes) {
    bti_queue *best = NULL;
    for (bti_queue *q = state->queues; q; q = q->next) {
        while (q->first && (q->first->cancelled || (q->group && q->group->released))) {
            bti_task_record *task = take_first(state, q);
            bti_task_refuse(state, task, BT_FAILED_PRECONDITION, "its group was released before it began", wakes);
        }
        if (q->first && (!best || goes_before(q->first, best->first)) && (!q->group || q->group->has) &&
            bti_supply_fits(state, bti_supply_of(state, q), &q->amounts))
            best = q;
    }
    return best;
}

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

static void assign(bti_state *state, bti_queue *queue, bti_client *worker) {
    bti_arena *arena = state->arena;
    bti_task_record *task = take_first(state, queue);
    uint64_t gpus = bti_supply_take(state, bti_supply_of(state, queue), &queue->amounts);
    if (gpus) BTI_SET(arena, task->gpus, gpus);
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

static void give_all(bti_state *state, bti_wakes *wakes) {
    for (bti_queue *queue; (queue = best_queue(state, wakes)) != NULL;) {
        bti_client *worker = needs_fresh_worker(queue->first) ? NULL : take_idle(state);
        if (worker)
            bti_wake_later(wakes, &worker->word);
        else if (!(worker = new_worker(state, wakes)))
            return;
        assign(state, queue, worker);
    }
}

void bti_dispatch(bti_state *state, bti_wakes *wakes) {
    do {
        if (state->groups) bti_groups_reserve(state, wakes);
        give_all(state, wakes);
    } while (state->groups && bti_groups_end(state)); /* tasks that it refused were the last of theirs */
}

bti_task_record *bti_take_next(bti_state *state, bti_client *worker, bti_wakes *wakes) {
    if (state->groups) bti_groups_reserve(state, wakes); /* they come first, as in a dispatch */
    bti_queue *queue = best_queue(state, wakes);
    if (queue && needs_fresh_worker(queue->first)) {
        bti_dispatch(state, wakes);
        queue = best_queue(state, wakes);
    }
    if (!queue || needs_fresh_worker(queue->first)) return NULL;
    assign(state, queue, worker);
    return worker->task;
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

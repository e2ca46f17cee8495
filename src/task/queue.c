#include "task/given.h"
#include "task/object.h"
#include "task/process.h"
#include "task/waiting.h"

/* --- a queue as a leftist heap --------------------------------------------------------------------------------------- */

static uint32_t rank_of(const bti_task_record *task) { return task ? task->rank : 0; }

/* Joins two heaps along their right spines, which are at most log n long. */
static bti_task_record *join(bti_arena *arena, bti_task_record *a, bti_task_record *b) {
    bti_task_record *spine[64];
    int depth = 0;
    while (a && b) {
        if (bti_task_goes_before(b, a)) {
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

/* The tree of queues is in the order of their first tasks: a queue leaves it before it has another one. */
static void set_heap(bti_state *state, bti_queue *queue, bti_task_record *a, bti_task_record *b) {
    bool waits = a || b;
    bool alone = waits && queue->first && bti_waiting_alone(state, queue);
    if (queue->first && !alone) bti_waiting_remove(state, queue);
    BTI_SET(state->arena, queue->first, join(state->arena, a, b));
    if (waits && !alone) bti_waiting_add(state, queue);
}

void bti_queue_add_back(bti_state *state, bti_task_record *task) {
    bti_arena *arena = state->arena;
    bti_queue *queue = task->queue;
    bool came_late = task->object_count || task->begun_ns; /* it waited for arguments, or runs once more */
    BTI_SET(arena, task->left, NULL);
    BTI_SET(arena, task->right, NULL);
    BTI_SET(arena, task->rank, 1);
    BTI_SET(arena, task->state, BTI_TASK_QUEUED);
    BTI_SET(arena, task->queued_ns, came_late ? bti_now_ns() : task->submitted_ns);
    if (queue->first && bti_task_goes_before(queue->first, task))
        BTI_SET(arena, queue->first, join(arena, queue->first, task));
    else
        set_heap(state, queue, queue->first, task);
    BTI_SET(arena, queue->length, queue->length + 1);
}

/* It comes before some that were given ahead. */
static bool overtakes(const bti_state *state, const bti_task_record *task) {
    if (!state->ahead || task->priority < state->ahead_priority) return false;
    return task->priority > state->ahead_priority || task->depth > state->ahead_depth;
}

void bti_queue_add(bti_state *state, bti_task_record *task) {
    bti_queue_add_back(state, task);
    if (overtakes(state, task)) bti_given_revoke_all(state);
}

bti_task_record *bti_queue_take(bti_state *state, bti_queue *queue) {
    bti_task_record *task = queue->first;
    set_heap(state, queue, task->left, task->right);
    BTI_SET(state->arena, queue->length, queue->length - 1);
    return task;
}

bool bti_queue_clean(bti_state *state, bti_queue *queue, bti_wakes *wakes) {
    bool refused = false;
    while (queue->first && (queue->first->cancelled || (queue->group && queue->group->released))) {
        bti_task_record *task = bti_queue_take(state, queue);
        bti_task_refuse(state, task, BT_FAILURE_REFUSED, BT_FAILED_PRECONDITION,
                        "its group was released before it began", wakes);
        refused = true;
    }
    return refused;
}

/* --- all queues, by what they take ------------------------------------------------------------------------------------ */

enum {
    TABLE = 1 << 16,
    LOOKED_AT = 4 /* queues for each new one: those that nobody uses are freed */
};

bt_status bti_queues_open(bti_state *state) {
    return bti_arena_room(state->arena, TABLE * sizeof *state->queue_table, (void **)&state->queue_table);
}

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static bti_queue **slot_of(bti_state *state, const bti_amounts *amounts, const bti_group_record *group, int bundle) {
    uint64_t hash = mix((uint64_t)(uintptr_t)group, (uint64_t)bundle);
    for (int r = 0; r < state->resource_count; r++) hash = mix(hash, (uint64_t)amounts->of[r]);
    return &state->queue_table[hash % TABLE];
}

static bool is_of(const bti_queue *q, const bti_amounts *amounts, const bti_group_record *group, int bundle) {
    return q->group == group && q->bundle == bundle && !memcmp(&q->amounts, amounts, sizeof *amounts);
}

void bti_queue_free(bti_state *state, bti_queue *queue) {
    bti_queue **at = slot_of(state, &queue->amounts, queue->group, queue->bundle);
    while (*at != queue) at = &(*at)->next_same;
    BTI_SET(state->arena, *at, queue->next_same);
    BTI_SET(state->arena, queue->weight, 0); /* says that the record is free */
    if (state->last_queue == queue) BTI_SET(state->arena, state->last_queue, NULL);
    bti_record_free(state->arena, BTI_QUEUES, queue);
}

/* Goes round all queues, a few at a time. */
static void free_unused(bti_state *state) {
    const bti_records *queues = &state->arena->records[BTI_QUEUES];
    for (int i = 0; i < LOOKED_AT && queues->used; i++) {
        uint32_t hand = state->queue_hand < queues->used ? state->queue_hand : 0;
        bti_queue *queue = (bti_queue *)(void *)(queues->first + hand * queues->bytes);
        BTI_SET(state->arena, state->queue_hand, hand + 1);
        if (queue->weight && !queue->users && !queue->group) bti_queue_free(state, queue);
    }
}

bti_queue *bti_queue_of(bti_state *state, const bti_amounts *amounts, bti_group_record *group, int bundle) {
    if (state->last_queue && is_of(state->last_queue, amounts, group, bundle)) return state->last_queue;
    bti_queue **slot = slot_of(state, amounts, group, bundle), *queue = *slot;
    while (queue && !is_of(queue, amounts, group, bundle)) queue = queue->next_same;
    if (!queue) {
        free_unused(state);
        if (!(queue = bti_record_new(state->arena, BTI_QUEUES))) return NULL;
        queue->amounts = *amounts;
        memcpy(queue->least.of, amounts->of, sizeof amounts->of);
        queue->group = group;
        queue->bundle = bundle;
        queue->weight = mix((uint64_t)(uintptr_t)queue, state->sequence) | 1;
        queue->next_same = *slot;
        BTI_SET(state->arena, *slot, queue);
        if (group) {
            queue->next = group->queues;
            BTI_SET(state->arena, group->queues, queue);
        }
    }
    BTI_SET(state->arena, state->last_queue, queue);
    return queue;
}

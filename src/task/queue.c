/* A heap of tasks for each set of amounts that tasks take (a queue), and for each supply a tree of the queues that have tasks. */
#include "task/queue.h"

#include "base/clock.h"

/* --- the tree of queues with tasks: a treap --------------------------------------------------------------------------------------------------- */

static void set_least(bti_state *state, bti_queue *node) {
    const bti_queue *left = node->left, *right = node->right;
    for (int r = 0; r < state->resource_count; r++) {
        int64_t least = node->amounts.of[r];
        if (left && left->least.of[r] < least) least = left->least.of[r];
        if (right && right->least.of[r] < least) least = right->least.of[r];
        if (node->least.of[r] != least) BTI_SET(state->arena, node->least.of[r], least);
    }
}

static void set_below(bti_state *state, bti_queue *node, bti_queue *left, bti_queue *right) {
    if (node->left != left) BTI_SET(state->arena, node->left, left);
    if (node->right != right) BTI_SET(state->arena, node->right, right);
    set_least(state, node);
}

/* Those before the task of `at`, and the others. */
static void split_tree(bti_state *state, bti_queue *root, const bti_task_record *at, bti_queue **before,
                       bti_queue **after) {
    if (!root) {
        *before = *after = NULL;
        return;
    }
    bti_queue *middle;
    if (bti_task_goes_before(root->first, at)) {
        split_tree(state, root->right, at, &middle, after);
        set_below(state, root, root->left, middle);
        *before = root;
    } else {
        split_tree(state, root->left, at, before, &middle);
        set_below(state, root, middle, root->right);
        *after = root;
    }
}

static bti_queue *merge_trees(bti_state *state, bti_queue *before, bti_queue *after) {
    if (!before || !after) return before ? before : after;
    if (before->weight > after->weight) {
        set_below(state, before, before->left, merge_trees(state, before->right, after));
        return before;
    }
    set_below(state, after, merge_trees(state, before, after->left), after->right);
    return after;
}

static bti_queue *insert_queue(bti_state *state, bti_queue *root, bti_queue *added) {
    bti_queue *left, *right;
    if (!root || added->weight > root->weight) {
        split_tree(state, root, added->first, &left, &right);
        set_below(state, added, left, right);
        return added;
    }
    if (bti_task_goes_before(added->first, root->first))
        set_below(state, root, insert_queue(state, root->left, added), root->right);
    else
        set_below(state, root, root->left, insert_queue(state, root->right, added));
    return root;
}

static bti_queue *remove_queue(bti_state *state, bti_queue *root, const bti_queue *removed) {
    if (root == removed) return merge_trees(state, root->left, root->right);
    if (bti_task_goes_before(removed->first, root->first))
        set_below(state, root, remove_queue(state, root->left, removed), root->right);
    else
        set_below(state, root, root->left, remove_queue(state, root->right, removed));
    return root;
}

static void list_bundle(bti_state *state, bti_supply *bundle) {
    bti_arena *arena = state->arena;
    BTI_SET(arena, bundle->before_waiting, NULL);
    BTI_SET(arena, bundle->next_waiting, state->waiting);
    if (state->waiting) BTI_SET(arena, state->waiting->before_waiting, bundle);
    BTI_SET(arena, state->waiting, bundle);
}

static void unlist_bundle(bti_state *state, bti_supply *bundle) {
    bti_arena *arena = state->arena;
    if (bundle->next_waiting) BTI_SET(arena, bundle->next_waiting->before_waiting, bundle->before_waiting);
    if (bundle->before_waiting)
        BTI_SET(arena, bundle->before_waiting->next_waiting, bundle->next_waiting);
    else
        BTI_SET(arena, state->waiting, bundle->next_waiting);
}

static void add_to_tree(bti_state *state, bti_queue *queue) {
    bti_supply *supply = bti_supply_of(state, queue);
    if (!supply->waiting && supply->group) list_bundle(state, supply);
    BTI_SET(state->arena, supply->waiting, insert_queue(state, supply->waiting, queue));
}

static void remove_from_tree(bti_state *state, bti_queue *queue) {
    bti_supply *supply = bti_supply_of(state, queue);
    BTI_SET(state->arena, supply->waiting, remove_queue(state, supply->waiting, queue));
    if (!supply->waiting && supply->group) unlist_bundle(state, supply);
}

/* --- a queue as a leftist heap --------------------------------------------------------------------------------------- */

static uint32_t rank_of(const bti_task_record *task) { return task ? task->rank : 0; }

/* Joins two heaps along their right spines, which are at most log n long. */
static bti_task_record *join_heaps(bti_arena *arena, bti_task_record *a, bti_task_record *b) {
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

/* No other queue of its supply has tasks: it may have another first task without leaving the tree. */
static bool is_alone_in_tree(bti_state *state, const bti_queue *queue) {
    return bti_supply_of(state, queue)->waiting == queue && !queue->left && !queue->right;
}

/* The tree of queues is in the order of their first tasks: a queue leaves it before it has another one. */
static void set_heap(bti_state *state, bti_queue *queue, bti_task_record *a, bti_task_record *b) {
    bool waits = a || b;
    bool alone = waits && queue->first && is_alone_in_tree(state, queue);
    if (queue->first && !alone) remove_from_tree(state, queue);
    BTI_SET(state->arena, queue->first, join_heaps(state->arena, a, b));
    if (waits && !alone) add_to_tree(state, queue);
}

void bti_queue_add(bti_state *state, bti_task_record *task) {
    bti_arena *arena = state->arena;
    bti_queue *queue = task->queue;
    bool came_late = task->object_count || task->begun_ns; /* it waited for arguments, or runs once more */
    BTI_SET(arena, task->left, NULL);
    BTI_SET(arena, task->right, NULL);
    BTI_SET(arena, task->rank, 1);
    BTI_SET(arena, task->state, BTI_TASK_QUEUED);
    BTI_SET(arena, task->queued_ns, came_late ? bti_now_ns() : task->submitted_ns);
    if (queue->first && bti_task_goes_before(queue->first, task))
        BTI_SET(arena, queue->first, join_heaps(arena, queue->first, task));
    else
        set_heap(state, queue, queue->first, task);
    BTI_SET(arena, queue->length, queue->length + 1);
}

bti_task_record *bti_queue_take(bti_state *state, bti_queue *queue) {
    bti_task_record *task = queue->first;
    set_heap(state, queue, task->left, task->right);
    BTI_SET(state->arena, queue->length, queue->length - 1);
    return task;
}

void bti_queue_put_aside(bti_state *state, bti_queue *queue) {
    bti_task_record *task = bti_queue_take(state, queue);
    BTI_SET(state->arena, task->right, state->crowded);
    BTI_SET(state->arena, state->crowded, task);
}

void bti_queue_readmit(bti_state *state) {
    while (state->crowded) {
        bti_task_record *task = state->crowded;
        BTI_SET(state->arena, state->crowded, task->right);
        bti_queue_add(state, task);
    }
}

/* --- finding queues ---------------------------------------------------------------------------------------------------------------- */

bti_queue *bti_waiting_first(const bti_supply *supply) {
    bti_queue *queue = supply->waiting;
    while (queue && queue->left) queue = queue->left;
    return queue;
}

static bti_queue *first_fit(const bti_state *state, bti_queue *root, const bti_supply *open) {
    while (root && bti_supply_fits(state, open, &root->least)) {
        bti_queue *before = first_fit(state, root->left, open);
        if (before) return before;
        if (bti_supply_fits(state, open, &root->amounts)) return root;
        root = root->right;
    }
    return NULL;
}

bti_queue *bti_waiting_fit(const bti_state *state, const bti_supply *supply, const bti_supply *open) {
    return first_fit(state, supply->waiting, open);
}

static int list_tree(bti_queue *root, bti_queue **queues, int count, int most) {
    for (; root && count < most; root = root->right) {
        count = list_tree(root->left, queues, count, most);
        if (count < most) queues[count++] = root;
    }
    return count;
}

int bti_waiting_list(const bti_supply *supply, bti_queue **queues, int most) {
    return list_tree(supply->waiting, queues, 0, most);
}

/* --- all queues, by what they take ------------------------------------------------------------------------------------ */

enum {
    TABLE = 1 << 16,
    LOOKED_AT = 4 /* queues for each new one: unused ones are freed */
};

bt_status bti_queues_open(bti_state *state) {
    return bti_arena_room(state->arena, TABLE * sizeof *state->queue_table, (void **)&state->queue_table);
}

static uint64_t mix_queue_hash(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static bti_queue **find_slot(bti_state *state, const bti_amounts *amounts, const bti_group_record *group, int bundle) {
    uint64_t hash = mix_queue_hash((uint64_t)(uintptr_t)group, (uint64_t)bundle);
    for (int r = 0; r < state->resource_count; r++) hash = mix_queue_hash(hash, (uint64_t)amounts->of[r]);
    return &state->queue_table[hash % TABLE];
}

static bool takes_same(const bti_queue *q, const bti_amounts *amounts, const bti_group_record *group, int bundle) {
    return q->group == group && q->bundle == bundle && !memcmp(&q->amounts, amounts, sizeof *amounts);
}

void bti_queue_free(bti_state *state, bti_queue *queue) {
    bti_queue **at = find_slot(state, &queue->amounts, queue->group, queue->bundle);
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
    if (state->last_queue && takes_same(state->last_queue, amounts, group, bundle)) return state->last_queue;
    bti_queue **slot = find_slot(state, amounts, group, bundle), *queue = *slot;
    while (queue && !takes_same(queue, amounts, group, bundle)) queue = queue->next_same;
    if (!queue) {
        free_unused(state);
        if (!(queue = bti_record_new(state->arena, BTI_QUEUES))) return NULL;
        queue->amounts = *amounts;
        memcpy(queue->least.of, amounts->of, sizeof amounts->of);
        queue->group = group;
        queue->bundle = bundle;
        queue->weight = mix_queue_hash((uint64_t)(uintptr_t)queue, state->sequence) | 1;
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

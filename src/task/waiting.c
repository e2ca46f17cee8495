#include "task/waiting.h"

/* --- the tree: a treap --------------------------------------------------------------------------------------------------- */

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
static void split(bti_state *state, bti_queue *root, const bti_task_record *at, bti_queue **before, bti_queue **after) {
    if (!root) {
        *before = *after = NULL;
        return;
    }
    bti_queue *middle;
    if (bti_task_goes_before(root->first, at)) {
        split(state, root->right, at, &middle, after);
        set_below(state, root, root->left, middle);
        *before = root;
    } else {
        split(state, root->left, at, before, &middle);
        set_below(state, root, middle, root->right);
        *after = root;
    }
}

static bti_queue *merge(bti_state *state, bti_queue *before, bti_queue *after) {
    if (!before || !after) return before ? before : after;
    if (before->weight > after->weight) {
        set_below(state, before, before->left, merge(state, before->right, after));
        return before;
    }
    set_below(state, after, merge(state, before, after->left), after->right);
    return after;
}

static bti_queue *with(bti_state *state, bti_queue *root, bti_queue *added) {
    bti_queue *left, *right;
    if (!root || added->weight > root->weight) {
        split(state, root, added->first, &left, &right);
        set_below(state, added, left, right);
        return added;
    }
    if (bti_task_goes_before(added->first, root->first))
        set_below(state, root, with(state, root->left, added), root->right);
    else
        set_below(state, root, root->left, with(state, root->right, added));
    return root;
}

static bti_queue *without(bti_state *state, bti_queue *root, const bti_queue *removed) {
    if (root == removed) return merge(state, root->left, root->right);
    if (bti_task_goes_before(removed->first, root->first))
        set_below(state, root, without(state, root->left, removed), root->right);
    else
        set_below(state, root, root->left, without(state, root->right, removed));
    return root;
}

/* --- supplies with queues -------------------------------------------------------------------------------------------------- */

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

void bti_waiting_add(bti_state *state, bti_queue *queue) {
    bti_supply *supply = bti_supply_of(state, queue);
    if (!supply->waiting && supply->group) list_bundle(state, supply);
    BTI_SET(state->arena, supply->waiting, with(state, supply->waiting, queue));
}

void bti_waiting_remove(bti_state *state, bti_queue *queue) {
    bti_supply *supply = bti_supply_of(state, queue);
    BTI_SET(state->arena, supply->waiting, without(state, supply->waiting, queue));
    if (!supply->waiting && supply->group) unlist_bundle(state, supply);
}

/* --- looking ---------------------------------------------------------------------------------------------------------------- */

bti_queue *bti_waiting_first(const bti_supply *supply) {
    bti_queue *queue = supply->waiting;
    while (queue && queue->left) queue = queue->left;
    return queue;
}

static bti_queue *fit(const bti_state *state, bti_queue *root, const bti_supply *open) {
    while (root && bti_supply_fits(state, open, &root->least)) {
        bti_queue *before = fit(state, root->left, open);
        if (before) return before;
        if (bti_supply_fits(state, open, &root->amounts)) return root;
        root = root->right;
    }
    return NULL;
}

bti_queue *bti_waiting_fit(const bti_state *state, const bti_supply *supply, const bti_supply *open) {
    return fit(state, supply->waiting, open);
}

static int list(bti_queue *root, bti_queue **queues, int count, int most) {
    for (; root && count < most; root = root->right) {
        count = list(root->left, queues, count, most);
        if (count < most) queues[count++] = root;
    }
    return count;
}

int bti_waiting_list(const bti_supply *supply, bti_queue **queues, int most) {
    return list(supply->waiting, queues, 0, most);
}

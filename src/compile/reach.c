/* Which nodes are needed. Each is claimed as it is met, which also says that the walk was there. */
#include "compile/compile.h"

/* Those who want a constant may make it where they read it, whoever has claimed it. */
static bool is_anybodys(const bti_node *node, bool asked) { return !asked && node->op == BTI_OP_const; }

static bool add_other(bti_order *order, bti_node *node) {
    bool met;
    return bti_number_meet(&order->others, node, &met) && (met || bti_vec_push(order, node));
}

/* Somebody else has computed it meanwhile; whoever wanted it to forget how it was made may have seen the claim. */
static void give_back(bti_node *node) {
    atomic_store(&node->claim, 0);
    if (atomic_load(&node->forget)) bti_node_forget(node);
}

static bool add_to_order(bti_order *order, bti_node *node, bool asked, bti_node **busy) {
    uint64_t owner = atomic_load_explicit(&node->claim, memory_order_relaxed);
    if (owner == order->claim || atomic_load(&node->state) != BTI_PENDING) return true;
    if (!bti_vec_reserve(order, 1)) return false;
    owner = 0;
    if (atomic_compare_exchange_strong(&node->claim, &owner, order->claim)) {
        if (atomic_load(&node->state) == BTI_PENDING)
            order->items[order->count++] = node;
        else
            give_back(node);
        return true;
    }
    if (is_anybodys(node, asked)) return add_other(order, node);
    *busy = node;
    return true;
}

static bool reach_all(bti_node *const *wanted, size_t count, bti_order *order, bti_node **busy) {
    for (; order->asked < count; order->asked++) {
        if (!add_to_order(order, wanted[order->asked], true, busy)) return false;
        if (*busy) return true;
    }
    for (; order->next < order->count; order->next++) {
        const bti_node *node = order->items[order->next];
        int inputs = node->input_count;
        for (int i = 0; i < inputs; i++) {
            if (!add_to_order(order, node->inputs[i], false, busy)) return false;
            if (*busy) return true;
        }
    }
    return true;
}

bt_status bti_reach(bti_node *const *wanted, size_t count, bti_order *order, bti_node **busy) {
    *busy = NULL;
    if (!reach_all(wanted, count, order, busy))
        return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory while collecting %zu operations", order->count);
    if (*busy) return BT_OK;
    bti_nodes_sort(order->items, order->count);
    order->sorted = true;
    bool all = !order->others.count;
    for (size_t i = 0; i < order->count; i++)
        if (all || bti_is_claimed(order->items[i], order)) order->items[i]->claimed = (int64_t)i;
    return BT_OK;
}

/* A node may be freed as soon as its users are not claimed any more. */
void bti_unclaim(bti_order *order) {
    if (!order->sorted) bti_nodes_sort(order->items, order->count);
    for (size_t i = 0; i < order->count; i++)
        if (bti_is_claimed(order->items[i], order))
            atomic_store_explicit(&order->items[i]->claim, 0, memory_order_release);
    bti_vec_free(order);
    bti_numbers_free(&order->others);
    *order = (bti_order){.claim = order->claim};
}

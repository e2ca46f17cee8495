#include "array/claim.h"

#include "base/lock.h"
#include "exec/host.h"
#include "ir/sequence.h"

/* Threads that wait for a claim to end: `ended` is told of each end while there are any. */
BTI_STATIC_LOCK(claims_lock, claims)
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static atomic_int waiting;

/* Each claim has a number of its own; those that begin later mostly have greater ones. */
static uint64_t new_claim(void) { return bti_sequence_take(1, 0).sequence; }

static void wait_while_claimed(const bti_node *node, uint64_t by) {
    bti_lock_take(&claims_lock);
    atomic_fetch_add(&waiting, 1);
    while (atomic_load(&node->claim) == by) bti_lock_wait(&claims_lock, &ended);
    atomic_fetch_sub(&waiting, 1);
    bti_lock_give(&claims_lock);
}

static void tell_waiting(void) {
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&waiting, memory_order_relaxed)) return;
    bti_lock_take(&claims_lock);
    pthread_cond_broadcast(&ended);
    bti_lock_give(&claims_lock);
}

void bti_claim_end(bti_order *order) {
    bti_unclaim(order);
    tell_waiting();
}

/* Of two that want what the other has, the one with the greater number gives back what it has. */
bt_status bti_claim(bti_node *const *wanted, size_t count, bti_order *order) {
    *order = (bti_order){.claim = new_claim()};
    BTI_TRY(bti_host_check()); /* a thread that has a claim may wait for memory, and so for queues */
    for (;;) {
        bti_node *busy;
        bt_status status = bti_reach(wanted, count, order, &busy);
        if (status != BT_OK || !busy) return status;
        uint64_t by = atomic_load(&busy->claim);
        if (!by) continue;
        bti_node_retain(busy);
        if (by < order->claim) bti_claim_end(order);
        wait_while_claimed(busy, by);
        bti_node_release(busy);
    }
}

bool bti_claim_node(bti_node *node) {
    if (bti_host_is_inside()) return false;
    uint64_t by = 0, claim = new_claim();
    while (atomic_load(&node->state) == BTI_PENDING && !atomic_compare_exchange_strong(&node->claim, &by, claim)) {
        wait_while_claimed(node, by);
        by = 0;
    }
    if (atomic_load(&node->claim) != claim) return false;
    if (atomic_load(&node->state) == BTI_PENDING) return true;
    bti_claim_end_node(node);
    return false;
}

void bti_claim_end_node(bti_node *node) {
    atomic_store(&node->claim, 0);
    tell_waiting();
}

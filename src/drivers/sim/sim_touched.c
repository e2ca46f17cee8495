#include "drivers/sim/sim_touched.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

void bti_sim_touched_init(bti_sim_touched *touched) {
    *touched = (bti_sim_touched){0};
    bti_lock_init(&touched->lock, BTI_LOCK_sim_touched);
}

void bti_sim_touched_free(bti_sim_touched *touched) {
    bti_vec_free(&touched->ranges);
    bti_lock_destroy(&touched->lock);
}

/* Under the lock: drops what is complete. */
static void forget_complete(bti_sim_touched *touched, uint64_t now) {
    bti_sim_range *items = touched->ranges.items;
    size_t complete = 0, count = touched->ranges.count;
    while (complete < count && items[complete].end_ns && items[complete].end_ns <= now) complete++;
    if (complete) memmove(items, items + complete, (count - complete) * sizeof *items);
    touched->ranges.count -= complete;
}

enum { FORGET_FROM = 256 }; /* ranges, so that a launch seldom moves them */

void bti_sim_touches(bti_sim_touched *touched, uint64_t address, uint64_t bytes, bool written, uint64_t end_ns) {
    bti_lock_take(&touched->lock);
    if (touched->ranges.count % FORGET_FROM == FORGET_FROM - 1) forget_complete(touched, bti_clock_ns());
    (void)bti_vec_push(&touched->ranges, ((bti_sim_range){address, bytes, end_ns, written}));
    bti_lock_give(&touched->lock);
}

void bti_sim_touched_until(bti_sim_touched *touched, uint64_t end_ns) {
    bti_lock_take(&touched->lock);
    for (size_t i = touched->ranges.count; i && !touched->ranges.items[i - 1].end_ns; i--)
        touched->ranges.items[i - 1].end_ns = end_ns;
    bti_lock_give(&touched->lock);
}

uint64_t bti_sim_touched_for(bti_sim_touched *touched, uint64_t from, uint64_t address, uint64_t bytes, bool writes) {
    uint64_t until = from;
    bti_lock_take(&touched->lock);
    forget_complete(touched, bti_clock_ns());
    for (size_t i = 0; i < touched->ranges.count; i++) {
        const bti_sim_range *r = &touched->ranges.items[i];
        bool meet = r->address < address + bytes && address < r->address + r->bytes;
        if (meet && (writes || r->written) && r->end_ns > until) until = r->end_ns;
    }
    bti_lock_give(&touched->lock);
    return until - from;
}

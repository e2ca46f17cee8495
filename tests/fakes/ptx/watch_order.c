/* What orders accesses within a launch: barriers, fences, atomics, and waits for cp.async. */
#include "fakes/ptx/watch_block.h"

#include <string.h>

#define WARP_BARRIER 128u /* and the warp's number: bar.warp.sync, as a barrier of watch_sync.h */

/* Later accesses of the warp are told from earlier ones; where there are too many to count, all count as ordered. */
static void advance_warp(watch_block *b, uint32_t thread) {
    uint32_t warp = thread / PTX_WARP % WATCH_WARPS;
    if (b->warp_syncs[warp] < WATCH_LAST_SYNC)
        b->warp_syncs[warp]++;
    else
        b->whole_syncs[warp] = WATCH_LAST_SYNC + 1;
}

static watch_sync *sync_of(watch_launch *watched) {
    if (!watched->sync) watched->sync = watch_sync_new();
    return watched->sync;
}

void watch_arrive(watch_launch *watched, uint32_t block, uint32_t barrier, uint32_t first_thread, uint32_t mask) {
    if (watched->unwatched) return;
    watch_block *b = watch_block_of(watched, block);
    watch_sync_arrive(sync_of(watched), barrier, block << WATCH_THREAD_BITS | first_thread, mask,
                      watch_when(b, first_thread));
    advance_warp(b, first_thread);
}

static void open_for_some(watch_launch *watched, watch_block *b, uint32_t barrier, const uint32_t *waiting,
                          uint32_t warps) {
    uint32_t first = b->number << WATCH_THREAD_BITS;
    for (uint32_t w = 0; w < warps; w++)
        if (waiting[w]) watch_arrive(watched, b->number, barrier, w * PTX_WARP, waiting[w]);
    for (uint32_t w = 0; w < warps; w++) watch_sync_wait(watched->sync, barrier, first + w * PTX_WARP, waiting[w]);
    watch_sync_open(watched->sync, b->number, barrier);
}

void watch_barrier(watch_launch *watched, uint32_t block, uint32_t barrier, const uint32_t *waiting, uint32_t warps) {
    uint32_t threads = 0;
    if (watched->unwatched) return;
    watch_block *b = watch_block_of(watched, block);
    for (uint32_t w = 0; w < warps; w++) threads += (uint32_t)__builtin_popcount(waiting[w]);
    if (threads < b->threads) {
        open_for_some(watched, b, barrier, waiting, warps);
        return;
    }
    b->barriers++;
    memset(b->warp_syncs, 0, sizeof b->warp_syncs);
    memset(b->whole_syncs, 0, sizeof b->whole_syncs);
    if (watched->sync) watch_sync_barrier(watched->sync, block & 0x3fffff);
}

/* A thread that has ended takes no part: what it did is not ordered by the others' barrier. */
void watch_warp_sync(watch_launch *watched, uint32_t block, uint32_t first_thread, uint32_t mask) {
    if (watched->unwatched) return;
    watch_block *b = watch_block_of(watched, block);
    uint32_t warp = first_thread / PTX_WARP, there = b->threads - first_thread;
    uint32_t all = there < PTX_WARP ? (UINT32_C(1) << there) - 1 : UINT32_MAX;
    if (watched->sync || all & ~mask) { /* else nothing is known that the lanes could pass on */
        uint32_t waiting[WATCH_WARPS] = {0};
        waiting[warp % WATCH_WARPS] = mask & all;
        open_for_some(watched, b, WARP_BARRIER + warp % WATCH_WARPS, waiting, WATCH_WARPS);
    }
    if (all & ~mask) return;
    advance_warp(b, first_thread);
    if (b->warp_syncs[warp % WATCH_WARPS] > b->whole_syncs[warp % WATCH_WARPS])
        b->whole_syncs[warp % WATCH_WARPS] = b->warp_syncs[warp % WATCH_WARPS];
}

static uint32_t begin_sync(watch_launch *watched, const watch_place *place, uint32_t *when) {
    (void)sync_of(watched);
    *when = watch_when(watch_block_of(watched, place->block), place->thread);
    return place->block << WATCH_THREAD_BITS | place->thread;
}

void watch_fence(watch_launch *watched, const watch_place *place, ptx_scope scope) {
    uint32_t when;
    if (watched->unwatched) return;
    uint32_t thread = begin_sync(watched, place, &when);
    watch_sync_fence(watched->sync, thread, when, scope);
    advance_warp(watch_block_of(watched, place->block), place->thread);
}

void watch_atomic(watch_launch *watched, const watch_place *place, bool shared, uint64_t address, ptx_order order,
                  ptx_scope scope) {
    uint32_t when;
    if (watched->unwatched) return;
    uint32_t thread = begin_sync(watched, place, &when);
    watch_sync_atomic(watched->sync, thread, when, shared, address, order, scope);
    if (order == PTX_RELEASE || order == PTX_ACQ_REL || order == PTX_SC)
        advance_warp(watch_block_of(watched, place->block), place->thread);
}

void watch_async_commit(watch_launch *watched, const watch_place *place) {
    if (!watched->unwatched) watch_block_of(watched, place->block)->groups[place->thread]++;
}

/* The writes that the thread has waited for become its own, as if it had written them now. */
static void end_async(watch_block *b, const async_write *w, uint32_t block) {
    fake_page *page = &b->shared[w->offset / FAKE_PAGE];
    uint32_t offset = w->offset % FAKE_PAGE, end = (offset + w->bytes - 1) >> page->shift;
    for (uint32_t i = offset >> page->shift; i <= end; i++) {
        fake_cell *c = &page->granules[i].write;
        if (c->op != b->generation || !(c->what & FAKE_CELL_ASYNC)) continue;
        c->what &= ~(uint32_t)FAKE_CELL_ASYNC;
        c->thread = block << WATCH_THREAD_BITS | w->thread;
        c->when = watch_when(b, w->thread);
    }
}

void watch_async_wait(watch_launch *watched, const watch_place *place, uint32_t pending_groups) {
    if (watched->unwatched) return;
    watch_block *b = watch_block_of(watched, place->block);
    uint32_t groups = b->groups[place->thread], kept = 0;
    bool all = pending_groups == UINT32_MAX;
    for (uint32_t i = 0; i < b->async_count; i++) {
        const async_write *w = &b->async[i];
        if (w->thread == place->thread && (all || w->group + pending_groups < groups))
            end_async(b, w, place->block);
        else
            b->async[kept++] = *w;
    }
    b->async_count = kept;
}

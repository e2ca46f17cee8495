/* What atomics and fences order within a launch: clocks of threads and of the locations of atomics, kept apart for the scope of the block
 * and that of the device. Used by watch.c alone. */
#ifndef BERTH_TESTS_FAKES_PTX_WATCH_SYNC_H
#define BERTH_TESTS_FAKES_PTX_WATCH_SYNC_H

#include "fakes/memory.h"
#include "fakes/ptx/ptx.h"

typedef struct watch_sync watch_sync;

watch_sync *watch_sync_new(void);
void watch_sync_free(watch_sync *sync);
/* thread, when: as in fake_cell. What the thread did so far is ordered before what acquires it; its later accesses need another `when`. */
void watch_sync_fence(watch_sync *sync, uint32_t thread, uint32_t when, ptx_scope scope);
void watch_sync_atomic(watch_sync *sync, uint32_t thread, uint32_t when, bool shared, uint64_t address, ptx_order order,
                       ptx_scope scope);
/* All threads of the block know what any of them does. */
void watch_sync_barrier(watch_sync *sync, uint32_t block);
/* A barrier of some threads, by a number below 256: those that arrive (lanes of the warp of `thread`, its first one), those that wait, which
 * know what those that have arrived did until then, and its end. */
void watch_sync_arrive(watch_sync *sync, uint32_t barrier, uint32_t thread, uint32_t mask, uint32_t when);
void watch_sync_wait(watch_sync *sync, uint32_t barrier, uint32_t thread, uint32_t mask);
void watch_sync_open(watch_sync *sync, uint32_t block, uint32_t barrier);
bool watch_sync_ordered(const watch_sync *sync, const fake_cell *earlier, uint32_t thread);
/* Whether reads of several threads of one block may be ordered before what the thread does now: it knows something of their warp, or of their
 * block, that is as late. Which threads have read is not known. */
bool watch_sync_may_know(const watch_sync *sync, const fake_cell *reads, uint32_t thread);
/* Whether the thread acquired anything from other blocks. */
bool watch_sync_knows(const watch_sync *sync, uint32_t thread);

#endif

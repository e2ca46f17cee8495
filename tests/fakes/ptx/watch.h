/* What watches memory while work runs on the fake machine (watch.c): which bytes were written, who accessed them last and whether that
 * is ordered before this access. Agents are host threads, streams' operations and, within a launch, threads of blocks. run.c calls the
 * functions of launches for every access of a kernel; libcuda*.c call those of operations. */
#ifndef BERTH_TESTS_FAKES_PTX_WATCH_H
#define BERTH_TESTS_FAKES_PTX_WATCH_H

#include "fakes/ptx/ptx.h"

#define WATCH_OUTSIDE " outside of all allocations: " /* a part of the problem that says so */

/* Where an access comes from. `thread` is the number within the block. */
typedef struct watch_place {
    uint32_t block, thread;
    const ptx_instruction *instruction;
} watch_place;

typedef struct watch_launch watch_launch;

/* Begins and ends what is known of one launch; ptx_launch.memory says which operation it is. */
watch_launch *watch_launch_begin(const ptx_launch *launch);
void watch_launch_end(watch_launch *watched);

/* A block begins (its shared memory has never been written) and ends. `shared`: its bytes. A launch runs its blocks one after another
 * or interleaved, as run.c likes; `block` is its number in the grid. */
void watch_block_begin(watch_launch *watched, uint32_t block, uint32_t threads, uint32_t shared_bytes);
void watch_block_end(watch_launch *watched, uint32_t block);

/* One request of a warp: each lane of `mask` accesses the `bytes` bytes (a whole vector, aligned to its size as run.c has checked) at its
 * address; the thread of a lane is first_thread + lane. The lanes are accesses of different threads without an order among them. */
typedef struct watch_request {
    uint32_t block, first_thread, mask, bytes;
    ptx_access access;
    const ptx_instruction *instruction; /* with order and scope */
    const uint64_t *address;            /* of PTX_WARP lanes; offsets for shared memory */
} watch_request;

/* A request to global memory. Sets host[lane] to the host memory of the lane's bytes, for all lanes of the mask. False where a lane may not
 * access them (outside of every allocation, freed, never written, a race): the lowest such lane, and *problem says what is wrong, of the
 * caller to free; run.c adds the kernel, line, instruction, block and thread, and ends the launch. */
bool watch_global(watch_launch *watched, const watch_request *request, unsigned char **host, int *lane, char **problem);
/* The same of shared memory, whose bytes run.c owns and whose bounds run.c has checked. */
bool watch_shared(watch_launch *watched, const watch_request *request, int *lane, char **problem);

/* What orders accesses within a launch. Threads are numbers within the block; `mask` are threads from first_thread on, of one warp. */
/* bar.arrive: what these threads did is ordered before what those do that wait at the barrier when it opens. */
void watch_arrive(watch_launch *watched, uint32_t block, uint32_t barrier, uint32_t first_thread, uint32_t mask);
/* The barrier opens: the threads of waiting[warp] waited at it (bar.sync, bar.red). */
void watch_barrier(watch_launch *watched, uint32_t block, uint32_t barrier, const uint32_t *waiting, uint32_t warps);
void watch_warp_sync(watch_launch *watched, uint32_t block, uint32_t first_thread, uint32_t mask); /* bar.warp.sync */
void watch_fence(watch_launch *watched, const watch_place *place, ptx_scope scope);
/* An atomic instruction that acquires or releases at its scope; called beside watch_global or watch_shared. */
void watch_atomic(watch_launch *watched, const watch_place *place, bool shared, uint64_t address, ptx_order order,
                  ptx_scope scope);
/* cp.async: the writes since the thread's last commit belong to an agent of their own until the thread has waited for them. */
void watch_async_commit(watch_launch *watched, const watch_place *place);
void watch_async_wait(watch_launch *watched, const watch_place *place,
                      uint32_t pending_groups); /* UINT32_MAX: wait_all */

#endif

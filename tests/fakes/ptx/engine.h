/* What the files that run launches share: run.c (launches, blocks), warp.c (which lanes run next, the instructions of a group of lanes),
 * together.c (instructions that lanes of a warp execute together), barrier.c, memory.c (loads and stores), atomic.c, copies.c (cp.async),
 * count.c and problem.c. Each lane has its own place in the program ("independent thread scheduling"): lanes at the same place are a
 * group, and a warp runs one group at a time. */
#ifndef BERTH_TESTS_FAKES_PTX_ENGINE_H
#define BERTH_TESTS_FAKES_PTX_ENGINE_H

#include "fakes/ptx/ptx.h"
#include "fakes/ptx/watch.h"

#define ENGINE_WARPS 32    /* of a block: 1024 threads */
#define ENGINE_BARRIERS 16 /* of a block */
#define ENGINE_DEPTH 64    /* of calls */
#define ENGINE_POISON 0xA5 /* bytes that nobody wrote */

/* An instruction with the place of each source: a register of the group, a constant (32 equal lanes), or a value that is computed. */
#define STEP_CONSTANT UINT32_C(0x80000000)
#define STEP_COMPUTED UINT32_C(0xFFFFFFFF)
typedef struct step {
    const ptx_instruction *in;
    uint32_t from[6];
} step;

typedef struct code {
    const ptx_function *function;
    step *steps; /* NULL: not called so far */
} code;

typedef enum group_state {
    GROUP_READY,
    GROUP_GATHERS, /* waits at an instruction until other lanes of its warp are there */
    GROUP_WAITS,   /* has arrived at a barrier */
} group_state;

/* Lanes at the same place. A group without lanes is a free slot. */
typedef struct group {
    uint32_t mask, pc, function, depth;
    uint32_t registers, frame; /* where the registers and the local memory of this call begin */
    group_state state;
    uint32_t barrier;
} group;

/* Where a lane continues after a call. */
typedef struct return_place {
    uint32_t pc, function, registers, frame;
} return_place;

/* Bytes on their way to shared memory. */
typedef struct pending_copy {
    uint32_t lane, batch, offset, bytes;
    unsigned char data[16];
} pending_copy;

typedef struct warp {
    uint32_t number, first_thread;
    uint32_t started, live, carry; /* masks: lanes with a thread; those that have not ended; carry flags */
    int group_count, slot_count;   /* slot_count: one more than the last slot in use */
    group groups[PTX_WARP];
    uint64_t *registers; /* PTX_WARP lanes each */
    size_t register_capacity;
    return_place *returns; /* ENGINE_DEPTH by PTX_WARP; NULL before the first call */
    pending_copy *copies;
    size_t copy_count, copy_capacity;
    uint32_t batches[PTX_WARP]; /* committed by each lane */
    uint32_t *load_of; /* of each register: the number of the load that it waits for; only where requests are counted */
    size_t load_capacity;
    bool waited;             /* since the last branch */
    uint32_t loads, arrived; /* loads are numbered from 1; those up to `arrived` are no longer under way */
} warp;

typedef struct barrier {
    uint32_t expected, arrived; /* threads; expected 0: nobody has arrived */
    uint32_t present[ENGINE_WARPS];
    uint32_t all, any, count; /* of bar.red */
} barrier;

typedef struct sector_page {
    uint64_t number, sectors[64]; /* number: of 4096 sectors, plus 1; 0: free */
} sector_page;

typedef struct engine {
    const ptx_launch *launch;
    watch_launch *watched;
    ptx_counts counts;
    bool counting;
    code *codes; /* of the module's functions */
    uint64_t (*constants)[PTX_WARP];
    size_t constant_count, constant_capacity;
    uint32_t *constant_slots; /* by hash: number + 1 */
    size_t constant_slot_count;
    uint64_t random, steps;
    char *problem;
    uint32_t block, block_at[3], threads, warp_count;
    uint32_t ready; /* mask of warps that can run */
    warp warps[ENGINE_WARPS];
    unsigned char *shared;
    uint32_t shared_bytes;
    unsigned char *local; /* of all threads of a block */
    size_t local_stride;
    barrier barriers[ENGINE_BARRIERS];
    sector_page *pages; /* by hash */
    sector_page *last_page;
    size_t page_count, page_capacity;
} engine;

/* What an instruction did with its group. */
typedef enum outcome {
    OUTCOME_NEXT,   /* goes on to the next instruction */
    OUTCOME_MOVED,  /* its place is set, the same lanes go on */
    OUTCOME_GROUPS, /* groups have changed: choose again */
    OUTCOME_FAILED,
} outcome;

#define EACH_LANE(lane, mask)                                                                                     \
    for (uint32_t lane##_left = (mask), lane; lane##_left && (lane = (uint32_t)__builtin_ctz(lane##_left), true); \
         lane##_left &= lane##_left - 1)

/* --- memory of the emulator itself (problem.c) --- */
void *ptx_need(void *memory, size_t count, size_t bytes); /* realloc; aborts without memory */
uint64_t ptx_draw(engine *e);

/* --- problems (problem.c) --- */
/* Sets e->problem, once. lane: of the warp; -1: none in particular. False, for the caller to return. */
bool ptx_fail(engine *e, const warp *w, const ptx_instruction *in, int lane, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* No warp can run and threads are left: says who waits where. */
bool ptx_fail_stuck(engine *e);

/* --- operands --- */
static inline uint64_t *register_lanes(const warp *w, const group *g, uint32_t number) {
    return w->registers + (size_t)(g->registers + number) * PTX_WARP;
}

const uint64_t *ptx_computed_source(engine *e, const warp *w, const group *g, const ptx_operand *operand,
                                    uint64_t scratch[PTX_WARP]);

/* The lanes of source k; scratch: for those that are computed. (operand.c) */
static inline const uint64_t *ptx_source(engine *e, const warp *w, const group *g, const step *s, int k,
                                         uint64_t scratch[PTX_WARP]) {
    uint32_t at = s->from[k];
    if (at == STEP_COMPUTED) return ptx_computed_source(e, w, g, &s->in->from[k], scratch);
    return at & STEP_CONSTANT ? e->constants[at & ~STEP_CONSTANT] : register_lanes(w, g, at);
}

void ptx_address(const warp *w, const group *g, const step *s, int k, uint64_t address[PTX_WARP]);
uint32_t ptx_predicate(const uint64_t *lanes); /* as a mask */
/* The steps of a function, at its first call. */
void ptx_code(engine *e, uint32_t function);

/* --- groups (group.c) --- */
group *ptx_split(warp *w, group *g, uint32_t leaving, uint32_t pc); /* some lanes go to another place */
void ptx_end_lanes(warp *w, group *g, uint32_t lanes);
/* The lanes of the group that execute a step together: those without the guard go on alone. */
bool ptx_leave_unguarded(warp *w, group *g, uint32_t mask);

/* --- instructions --- */
bool ptx_load(engine *e, warp *w, group *g, const step *s, uint32_t mask);
bool ptx_store(engine *e, warp *w, group *g, const step *s, uint32_t mask);
bool ptx_cvta(engine *e, warp *w, group *g, const step *s, uint32_t mask);
bool ptx_isspacep(engine *e, warp *w, group *g, const step *s, uint32_t mask);
bool ptx_atomic(engine *e, warp *w, group *g, const step *s, uint32_t mask);
bool ptx_copy_start(engine *e, warp *w, group *g, const step *s, uint32_t mask);
void ptx_copy_commit(engine *e, warp *w, const step *s, uint32_t mask);
void ptx_copy_wait(engine *e, warp *w, const step *s, uint32_t mask);
outcome ptx_together(engine *e, warp *w, group *g, const step *s, uint32_t mask);
outcome ptx_barrier(engine *e, warp *w, group *g, const step *s, uint32_t mask);

/* Checks one request of a warp (alignment, bounds, watch.h), counts it and gives the host memory of each lane's bytes. */
bool ptx_reach(engine *e, const warp *w, const group *g, const ptx_instruction *in, ptx_space space, ptx_access access,
               const uint64_t *address, uint32_t mask, uint32_t bytes, uint32_t alignment, unsigned char **host);

/* --- warps --- */
bool ptx_run_warp(engine *e, warp *w);

/* --- counts --- */
void ptx_count_global(engine *e, const uint64_t *address, uint32_t mask, uint32_t bytes);
void ptx_count_shared(engine *e, const uint64_t *address, uint32_t mask, uint32_t bytes);
/* Before each instruction of a group. */
void ptx_count_waits(engine *e, warp *w, const group *g, const ptx_instruction *in);

#endif

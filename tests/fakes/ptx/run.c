/* Launches: the blocks one after another in an order that is drawn, the warps of a block interleaved. */
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/ptx/engine.h"

/* --- one block ------------------------------------------------------------------------------------------------------ */

static void begin_warp(engine *e, uint32_t number, uint32_t function) {
    warp *w = &e->warps[number];
    uint32_t threads = e->threads - number * PTX_WARP;
    w->number = number;
    w->first_thread = number * PTX_WARP;
    w->started = w->live = threads >= PTX_WARP ? UINT32_MAX : (UINT32_C(1) << threads) - 1;
    w->carry = 0;
    w->group_count = w->slot_count = 1;
    w->copy_count = 0;
    w->loads = w->arrived = 0;
    w->waited = false;
    if (w->load_of) memset(w->load_of, 0, w->load_capacity * sizeof *w->load_of);
    memset(w->batches, 0, sizeof w->batches);
    memset(w->groups, 0, sizeof w->groups);
    w->groups[0] = (group){.mask = w->live, .function = function};
}

static void begin_block(engine *e, uint32_t block, uint32_t function) {
    const uint32_t *grid = e->launch->grid;
    uint32_t frame = e->launch->function->frame_bytes;
    e->block = block;
    e->block_at[0] = block % grid[0];
    e->block_at[1] = block / grid[0] % grid[1];
    e->block_at[2] = block / grid[0] / grid[1];
    memset(e->shared, ENGINE_POISON, e->shared_bytes);
    for (uint32_t thread = 0; frame && thread < e->threads; thread++)
        memset(e->local + thread * e->local_stride, ENGINE_POISON, frame);
    memset(e->barriers, 0, sizeof e->barriers);
    for (uint32_t i = 0; i < e->warp_count; i++) begin_warp(e, i, function);
    e->ready = e->warp_count == 32 ? UINT32_MAX : (UINT32_C(1) << e->warp_count) - 1;
    watch_block_begin(e->watched, block, e->threads, e->shared_bytes);
}

static bool run_block(engine *e, uint32_t block, uint32_t function) {
    begin_block(e, block, function);
    bool fine = true, left = false;
    while (fine && e->ready) {
        uint32_t nth = (uint32_t)(ptx_draw(e) >> 32) % (uint32_t)__builtin_popcount(e->ready), ready = e->ready;
        while (nth--) ready &= ready - 1;
        fine = ptx_run_warp(e, &e->warps[__builtin_ctz(ready)]);
    }
    for (uint32_t i = 0; i < e->warp_count; i++) left |= e->warps[i].live != 0;
    if (fine && left) fine = ptx_fail_stuck(e);
    watch_block_end(e->watched, block);
    return fine;
}

/* --- the grid ------------------------------------------------------------------------------------------------------- */

static uint64_t greatest_divisor(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Runs the blocks in the order first, first + step, ... modulo their number. */
static bool run_all(engine *e, uint64_t blocks, uint32_t function) {
    uint64_t by = ptx_draw(e) % blocks + 1, at = ptx_draw(e) % blocks;
    while (greatest_divisor(by, blocks) != 1) by = by % blocks + 1;
    for (uint64_t i = 0; i < blocks; i++, at = (at + by) % blocks)
        if (!run_block(e, (uint32_t)at, function)) return false;
    return true;
}

/* Runs the first block, the last, and one drawn from each of `count` equal ranges of the others: blocks often differ by their place. */
static bool run_sample(engine *e, uint64_t blocks, uint32_t function, uint64_t count) {
    if (!run_block(e, 0, function) || !run_block(e, (uint32_t)(blocks - 1), function)) return false;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t from = (blocks - 2) * i / count, end = (blocks - 2) * (i + 1) / count;
        if (!run_block(e, (uint32_t)(1 + from + ptx_draw(e) % (end - from)), function)) return false;
    }
    return true;
}

static bool run_blocks(engine *e, uint64_t blocks, uint32_t function, uint64_t *run) {
    uint64_t sample = e->launch->sample > 0 ? (uint64_t)e->launch->sample : blocks;
    *run = sample + 2 < blocks ? sample + 2 : blocks;
    return *run < blocks ? run_sample(e, blocks, function, sample) : run_all(e, blocks, function);
}

static void scale(uint64_t *count, uint64_t blocks, uint64_t run) {
    *count = (uint64_t)((double)*count * (double)blocks / (double)run + 0.5);
}

static void scale_counts(ptx_counts *counts, uint64_t blocks, uint64_t run) {
    uint64_t *all[] = {&counts->instructions,    &counts->divergent,      &counts->global_requests,
                       &counts->sectors,         &counts->sectors_needed, &counts->sectors_distinct,
                       &counts->shared_requests, &counts->bank_conflicts, &counts->local_bytes,
                       &counts->barriers,        &counts->atomics,        &counts->load_waits};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) scale(all[i], blocks, run);
}

/* --- launches ------------------------------------------------------------------------------------------------------- */

static bool check_launch(engine *e, uint64_t *blocks) {
    const ptx_launch *launch = e->launch;
    const uint32_t *n = launch->block, *grid = launch->grid;
    uint64_t threads = (uint64_t)n[0] * n[1] * n[2];
    uint32_t most = launch->function->max_threads ? launch->function->max_threads : ENGINE_WARPS * PTX_WARP;
    if (!n[0] || !n[1] || !n[2] || n[0] > 1024 || n[1] > 1024 || n[2] > 64 || threads > 1024 || threads > most)
        return ptx_fail(e, NULL, NULL, -1, "blocks of %u x %u x %u threads; the most is %u", n[0], n[1], n[2], most);
    if (!grid[0] || !grid[1] || !grid[2] || grid[0] > INT32_MAX || grid[1] > UINT16_MAX || grid[2] > UINT16_MAX)
        return ptx_fail(e, NULL, NULL, -1, "a grid of %u x %u x %u blocks", grid[0], grid[1], grid[2]);
    *blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    if (*blocks > UINT32_MAX)
        return ptx_fail(e, NULL, NULL, -1, "%llu blocks are more than the emulator numbers",
                        (unsigned long long)*blocks);
    e->threads = (uint32_t)threads;
    e->warp_count = (e->threads + PTX_WARP - 1) / PTX_WARP;
    return true;
}

/* Local memory of a thread: one frame, or as many of the largest as calls may be deep. */
static size_t local_bytes(const ptx_module *module, const ptx_function *entry) {
    size_t largest = 0, own = ((size_t)entry->frame_bytes + 15) & ~(size_t)15;
    bool calls = false;
    for (int i = 0; i < module->function_count; i++) {
        const ptx_function *f = &module->functions[i];
        if (f->frame_bytes > largest) largest = f->frame_bytes;
    }
    for (uint32_t i = 0; i < entry->count; i++) calls |= entry->instructions[i].opcode == PTX_CALL;
    return calls ? own + ENGINE_DEPTH * ((largest + 15) & ~(size_t)15) : own;
}

static void prepare(engine *e, uint32_t *function) {
    const ptx_module *module = e->launch->module;
    const ptx_function *entry = e->launch->function;
    *function = (uint32_t)(entry - module->functions);
    e->codes = ptx_need(NULL, (size_t)module->function_count, sizeof *e->codes);
    for (int i = 0; i < module->function_count; i++) e->codes[i] = (code){&module->functions[i], NULL};
    ptx_code(e, *function);
    e->shared_bytes = entry->shared_bytes;
    if (e->launch->dynamic_bytes) e->shared_bytes = ((entry->shared_bytes + 15) & ~15U) + e->launch->dynamic_bytes;
    e->shared = ptx_need(NULL, e->shared_bytes, 1);
    e->local_stride = local_bytes(module, entry);
    e->local = ptx_need(NULL, e->local_stride * e->threads, 1);
    for (uint32_t i = 0; i < e->warp_count; i++) {
        warp *w = &e->warps[i];
        w->register_capacity = entry->registers + (size_t)1;
        w->registers = ptx_need(NULL, w->register_capacity * PTX_WARP, sizeof *w->registers);
        memset(w->registers, ENGINE_POISON, w->register_capacity * PTX_WARP * sizeof *w->registers);
    }
}

static void release(engine *e) {
    for (int i = 0; e->codes && i < e->launch->module->function_count; i++) free(e->codes[i].steps);
    for (uint32_t i = 0; i < ENGINE_WARPS; i++) {
        free(e->warps[i].registers);
        free(e->warps[i].load_of);
        free(e->warps[i].returns);
        free(e->warps[i].copies);
    }
    free(e->codes);
    free(e->constants);
    free(e->constant_slots);
    free(e->shared);
    free(e->local);
    free(e->pages);
    free(e);
}

bool ptx_run(const ptx_launch *launch, ptx_counts *counts, char **problem) {
    engine *e = ptx_need(NULL, 1, sizeof *e);
    uint64_t blocks = 0, run = 0;
    uint32_t function;
    memset(e, 0, sizeof *e);
    e->launch = launch;
    e->counting = counts != NULL;
    e->random = launch->seed * UINT64_C(0xD1B54A32D192ED03) + 1;
    fenv_t environment;
    fegetenv(&environment);
    fesetenv(FE_DFL_ENV); /* as ptx_compute needs it */
    bool fine = check_launch(e, &blocks);
    if (fine) {
        prepare(e, &function);
        e->watched = watch_launch_begin(launch);
        fine = run_blocks(e, blocks, function, &run);
        watch_launch_end(e->watched);
    }
    if (run < blocks && run) scale_counts(&e->counts, blocks, run);
    if (counts) *counts = e->counts;
    if (!fine) *problem = e->problem;
    release(e);
    fesetenv(&environment);
    return fine;
}

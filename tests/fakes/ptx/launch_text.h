/* For tests: runs kernels of PTX that is written by hand. What watches memory (watch.h) is here: it knows bounds only, and counts calls. */
#ifndef BERTH_TESTS_FAKES_PTX_LAUNCH_TEXT_H
#define BERTH_TESTS_FAKES_PTX_LAUNCH_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fakes/ptx/ptx.h"
#include "fakes/ptx/watch.h"

/* --- what watches ---------------------------------------------------------------------------------------------------- */

#define MEMORY UINT64_C(0x10000000)
#define MEMORY_BYTES ((size_t)4 << 20)

static _Alignas(4096) unsigned char memory[MEMORY_BYTES];
static struct {
    uint32_t blocks, barriers, barrier_threads, arrivals, warp_syncs, fences, atomics, commits, waits, non_coherent;
} seen;

struct watch_launch {
    int unused;
};
static watch_launch the_launch;

watch_launch *watch_launch_begin(const ptx_launch *launch) {
    memset(&seen, 0, sizeof seen);
    return &the_launch;
}
void watch_launch_end(watch_launch *watched) {}
void watch_block_begin(watch_launch *watched, uint32_t block, uint32_t threads, uint32_t shared_bytes) {
    seen.blocks++;
}
void watch_block_end(watch_launch *watched, uint32_t block) {}

bool watch_global(watch_launch *watched, const watch_request *request, unsigned char **host, int *lane,
                  char **problem) {
    for (int i = 0; i < PTX_WARP; i++) {
        if (!(request->mask >> i & 1)) continue;
        uint64_t at = request->address[i] - MEMORY;
        if (at > MEMORY_BYTES || request->bytes > MEMORY_BYTES - at) {
            *lane = i;
            *problem = strdup("outside of every allocation");
            return false;
        }
        host[i] = memory + at;
    }
    if (request->access == PTX_READ_NC) seen.non_coherent++;
    return true;
}

bool watch_shared(watch_launch *watched, const watch_request *request, int *lane, char **problem) { return true; }
void watch_arrive(watch_launch *watched, uint32_t block, uint32_t barrier, uint32_t first_thread, uint32_t mask) {
    seen.arrivals += (uint32_t)__builtin_popcount(mask);
}
void watch_barrier(watch_launch *watched, uint32_t block, uint32_t barrier, const uint32_t *waiting, uint32_t warps) {
    seen.barriers++;
    for (uint32_t w = 0; w < warps; w++) seen.barrier_threads += (uint32_t)__builtin_popcount(waiting[w]);
}
void watch_warp_sync(watch_launch *watched, uint32_t block, uint32_t first_thread, uint32_t mask) { seen.warp_syncs++; }
void watch_fence(watch_launch *watched, const watch_place *place, ptx_scope scope) { seen.fences++; }
void watch_atomic(watch_launch *watched, const watch_place *place, bool shared, uint64_t address, ptx_order order,
                  ptx_scope scope) {
    seen.atomics++;
}
void watch_async_commit(watch_launch *watched, const watch_place *place) { seen.commits++; }
void watch_async_wait(watch_launch *watched, const watch_place *place, uint32_t pending_groups) { seen.waits++; }

/* --- launches -------------------------------------------------------------------------------------------------------- */

/* The kernel `k` has one argument, the address of `memory`; %rd1 is that address, %r1 the thread's number, %rd2 the place of the
 * thread's 4-byte result. */
#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n\n"
#define ENTRY                                                                                        \
    ".visible .entry k(\n\t.param .u64 k_param_0\n)\n{\n"                                            \
    "\t.reg .pred \t%p<20>;\n\t.reg .b16 \t%rs<20>;\n\t.reg .b32 \t%r<40>;\n\t.reg .f32 \t%f<20>;\n" \
    "\t.reg .f64 \t%fd<20>;\n\t.reg .b64 \t%rd<40>;\n"
#define START                                                                                         \
    "\tld.param.u64 \t%rd1, [k_param_0];\n\tmov.u32 \t%r1, %tid.x;\n\tmul.wide.u32 \t%rd3, %r1, 4;\n" \
    "\tadd.s64 \t%rd2, %rd1, %rd3;\n"
#define KERNEL(body) HEAD ENTRY START body "\tret;\n}\n"
#define RESULT(reg) "\tst.global.u32 \t[%rd2], " reg ";\n"

typedef struct shape {
    uint32_t grid, block, dynamic;
    uint64_t seed, most;
    int sample;
} shape;

static ptx_counts counts;
static bool three_axes; /* a grid of 3 x 2 x 2 blocks of 2 x 3 x 4 threads */

/* NULL, or the problem: of the caller to free. */
static inline char *launch_text(const char *text, shape s) {
    char *problem = NULL;
    ptx_module *module = ptx_parse(text, &problem);
    if (!module) fail_msg("%s in\n%s", problem, text);
    for (int i = 0; i < module->variable_count; i++) { /* constants and globals behind the results */
        ptx_variable *v = &module->variables[i];
        v->address = MEMORY + MEMORY_BYTES / 2 + (uint64_t)i * 4096;
        if (v->initial) memcpy(memory + (v->address - MEMORY), v->initial, v->bytes);
    }
    ptx_place_variables(module);
    uint64_t argument = MEMORY;
    ptx_launch launch = {.module = module,
                         .function = ptx_find(module, "k"),
                         .grid = {s.grid ? s.grid : 1, 1, 1},
                         .block = {s.block ? s.block : 32, 1, 1},
                         .dynamic_bytes = s.dynamic,
                         .arguments = (const unsigned char *)&argument,
                         .seed = s.seed,
                         .error_seed = s.seed,
                         .most_steps = s.most,
                         .sample = s.sample};
    if (three_axes) {
        memcpy(launch.grid, (uint32_t[]){3, 2, 2}, sizeof launch.grid);
        memcpy(launch.block, (uint32_t[]){2, 3, 4}, sizeof launch.block);
    }
    assert_non_null(launch.function);
    bool fine = ptx_run(&launch, &counts, &problem);
    assert_true(fine == !problem);
    ptx_free(module);
    return problem;
}

/* Runs a text that is right, with 20 seeds; after each the results of the threads are looked at. */
typedef void look(const uint32_t *result, uint32_t threads);
static inline void expect_results(const char *text, shape s, look *check) {
    for (s.seed = 0; s.seed < 20; s.seed++) {
        memset(memory, 0, 65536);
        char *problem = launch_text(text, s);
        if (problem) fail_msg("seed %llu: %s", (unsigned long long)s.seed, problem);
        check((const uint32_t *)(const void *)memory, s.block ? s.block : 32);
    }
}

/* Runs a text with a mistake: the message has all these words, for each seed. */
static inline void expect_problem(const char *text, shape s, const char *words) {
    for (s.seed = 0; s.seed < 8; s.seed++) {
        char *problem = launch_text(text, s), *copy = strdup(words), *rest = NULL;
        if (!problem) fail_msg("no problem, though \"%s\" was expected", words);
        for (char *word = strtok_r(copy, "|", &rest); word; word = strtok_r(NULL, "|", &rest)) {
            if (!strstr(problem, word)) fail_msg("\"%s\" is not in \"%s\"", word, problem);
        }
        free(copy);
        free(problem);
    }
}

#endif

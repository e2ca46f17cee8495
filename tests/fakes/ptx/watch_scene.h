/* For tests of watch.h: launches of eight blocks on one or two streams, and accesses to one allocation and to shared memory. */
#ifndef BERTH_TESTS_FAKES_PTX_WATCH_SCENE_H
#define BERTH_TESTS_FAKES_PTX_WATCH_SCENE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fakes/findings.h"
#include "fakes/memory.h"
#include "fakes/order.h"
#include "fakes/ptx/watch.h"

#define BYTES 40960
#define BLOCKS 8

static watch_launch *watched;
static uint64_t address; /* of BYTES bytes that nobody has written */
static ptx_instruction instruction;
static ptx_function function = {.name = "k"};
static ptx_launch launch = {.function = &function};
static uint32_t streams[2];
static fake_clock clocks[2];
static char said[600];

static inline void begin_launch(int stream) {
    fake_order_begin(fake_order_add(streams[stream], &clocks[stream], "kernel k", 0), &clocks[stream]);
    watched = watch_launch_begin(&launch);
    for (uint32_t b = 0; b < BLOCKS; b++) watch_block_begin(watched, b, 256, 8192);
}

static inline void end_launch(void) {
    for (uint32_t b = 0; b < BLOCKS; b++) watch_block_end(watched, b);
    watch_launch_end(watched);
    fake_order_end();
}

static inline void scene(void) {
    fake()->count = 1;
    fake()->devices[0].memory = 1 << 20;
    instruction = (ptx_instruction){.opcode = PTX_LD, .line = 1};
    for (int s = 0; s < 2; s++) streams[s] = fake_order_stream();
    assert_int_equal(fake_alloc(0, BYTES, &address), 0);
    begin_launch(0);
}

static inline void end_scene(void) {
    end_launch();
    for (int s = 0; s < 2; s++) fake_clock_free(&clocks[s]);
    fake_reset();
    assert_int_equal(fake_findings(NULL), 0);
}

static inline void next_launch(int stream) {
    end_launch();
    begin_launch(stream);
}

static inline void at_line(uint32_t line) { instruction.line = line; }

static inline void before_the_launch(uint64_t offset, uint64_t bytes) {
    uint32_t op = fake_order_now();
    fake_order_end();
    assert_non_null(fake_memory(address + offset, bytes));
    fake_order_begin(op, &clocks[0]);
}

/* What is wrong with an access; NULL: nothing. */
static inline const char *say(bool done, char *problem) {
    if (done) return NULL;
    snprintf(said, sizeof said, "%s", problem);
    free(problem);
    return said;
}

static inline watch_request request_of(uint32_t block, uint32_t thread, ptx_access access, uint32_t bytes,
                                       uint64_t *addresses) {
    return (watch_request){block, thread / 32 * 32, 1u << thread % 32, bytes, access, &instruction, addresses};
}

static inline const char *global_at(uint32_t block, uint32_t thread, ptx_access access, uint64_t at, uint32_t bytes) {
    uint64_t addresses[PTX_WARP] = {0};
    unsigned char *host[PTX_WARP] = {0};
    char *problem = NULL;
    int lane = -1;
    addresses[thread % 32] = at;
    watch_request request = request_of(block, thread, access, bytes, addresses);
    bool done = watch_global(watched, &request, host, &lane, &problem);
    assert_int_equal(lane, thread % 32);
    if (done) assert_non_null(host[lane]);
    return say(done, problem);
}

static inline const char *global(uint32_t block, uint32_t thread, ptx_access access, uint64_t offset, uint32_t bytes) {
    return global_at(block, thread, access, address + offset, bytes);
}

/* An atomic access of the first word, and what it orders. */
static inline const char *atomic(uint32_t block, uint32_t thread, ptx_order order, ptx_scope scope) {
    const char *found = global(block, thread, PTX_ATOMIC, 0, 4);
    watch_atomic(watched, &(watch_place){block, thread, &instruction}, false, address, order, scope);
    return found;
}

static inline const char *shared(uint32_t block, uint32_t thread, ptx_access access, uint64_t offset, uint32_t bytes) {
    uint64_t addresses[PTX_WARP] = {0};
    char *problem = NULL;
    int lane = -1;
    addresses[thread % 32] = offset;
    watch_request request = request_of(block, thread, access, bytes, addresses);
    bool done = watch_shared(watched, &request, &lane, &problem);
    return say(done, problem);
}

/* All lanes of the first warp of a block, `stride` bytes apart. */
static inline const char *row(uint32_t block, ptx_access access, uint64_t offset, uint32_t stride, uint32_t bytes) {
    uint64_t addresses[PTX_WARP];
    unsigned char *host[PTX_WARP];
    char *problem = NULL;
    int lane;
    for (uint32_t l = 0; l < PTX_WARP; l++) addresses[l] = address + offset + l * stride;
    watch_request request = request_of(block, 0, access, bytes, addresses);
    request.mask = UINT32_MAX;
    bool done = watch_global(watched, &request, host, &lane, &problem);
    return say(done, problem);
}

/* A barrier of the first `warps` warps of a block. */
static inline void barrier_of(uint32_t block, uint32_t warps) {
    uint32_t waiting[PTX_WARP];
    memset(waiting, 0xff, sizeof waiting);
    watch_barrier(watched, block, 1, waiting, warps);
}

static inline void ok(const char *problem) {
    if (problem) fail_msg("%s", problem);
}

static inline void expect(const char *part) {
    if (!strstr(said, part)) fail_msg("\"%s\" does not say \"%s\"", said, part);
}

static inline void bad(const char *problem, const char *part) {
    if (!problem) fail_msg("nothing was found: %s", part);
    expect(part);
}

#endif

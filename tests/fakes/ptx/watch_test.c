/* What watches memory: each kind of mistake is found and named, and each correct pattern beside it is not. */
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

static void begin_launch(int stream) {
    fake_order_begin(fake_order_add(streams[stream], &clocks[stream], "kernel k", 0), &clocks[stream]);
    watched = watch_launch_begin(&launch);
    for (uint32_t b = 0; b < BLOCKS; b++) watch_block_begin(watched, b, 256, 8192);
}

static void end_launch(void) {
    for (uint32_t b = 0; b < BLOCKS; b++) watch_block_end(watched, b);
    watch_launch_end(watched);
    fake_order_end();
}

static void scene(void) {
    fake()->count = 1;
    fake()->devices[0].memory = 1 << 20;
    instruction = (ptx_instruction){.opcode = PTX_LD, .line = 1};
    for (int s = 0; s < 2; s++) streams[s] = fake_order_stream();
    assert_int_equal(fake_alloc(0, BYTES, &address), 0);
    begin_launch(0);
}

static void end_scene(void) {
    end_launch();
    for (int s = 0; s < 2; s++) fake_clock_free(&clocks[s]);
    fake_reset();
    assert_int_equal(fake_findings(NULL), 0);
}

static void next_launch(int stream) {
    end_launch();
    begin_launch(stream);
}

static void at_line(uint32_t line) { instruction.line = line; }

static void before_the_launch(uint64_t offset, uint64_t bytes) {
    uint32_t op = fake_order_now();
    fake_order_end();
    assert_non_null(fake_memory(address + offset, bytes));
    fake_order_begin(op, &clocks[0]);
}

/* What is wrong with an access; NULL: nothing. */
static const char *say(bool done, char *problem) {
    if (done) return NULL;
    snprintf(said, sizeof said, "%s", problem);
    free(problem);
    return said;
}

static watch_request request_of(uint32_t block, uint32_t thread, ptx_access access, uint32_t bytes,
                                uint64_t *addresses) {
    return (watch_request){block, thread / 32 * 32, 1u << thread % 32, bytes, access, &instruction, addresses};
}

static const char *global_at(uint32_t block, uint32_t thread, ptx_access access, uint64_t at, uint32_t bytes) {
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

static const char *global(uint32_t block, uint32_t thread, ptx_access access, uint64_t offset, uint32_t bytes) {
    return global_at(block, thread, access, address + offset, bytes);
}

static const char *shared(uint32_t block, uint32_t thread, ptx_access access, uint64_t offset, uint32_t bytes) {
    uint64_t addresses[PTX_WARP] = {0};
    char *problem = NULL;
    int lane = -1;
    addresses[thread % 32] = offset;
    watch_request request = request_of(block, thread, access, bytes, addresses);
    bool done = watch_shared(watched, &request, &lane, &problem);
    return say(done, problem);
}

/* All lanes of the first warp of a block, `stride` bytes apart. */
static const char *row(uint32_t block, ptx_access access, uint64_t offset, uint32_t stride, uint32_t bytes) {
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

static void ok(const char *problem) {
    if (problem) fail_msg("%s", problem);
}

static void expect(const char *part) {
    if (!strstr(said, part)) fail_msg("\"%s\" does not say \"%s\"", said, part);
}

static void bad(const char *problem, const char *part) {
    if (!problem) fail_msg("nothing was found: %s", part);
    expect(part);
}

/* --- bounds and bytes never written --------------------------------------------------------------------------------- */

static void accesses_within_an_allocation(void **state) {
    (void)state;
    scene();
    ok(global(0, 0, PTX_WRITE, 0, 4));
    ok(global(0, 0, PTX_READ, 0, 4));
    ok(global(0, 1, PTX_WRITE, 4, 16));
    ok(global(0, 1, PTX_READ, 8, 8));
    ok(global(0, 2, PTX_WRITE, BYTES - 4, 4));
    end_scene();
}

static void accesses_outside(void **state) {
    (void)state;
    scene();
    bad(global(0, 0, PTX_READ, BYTES, 4), "reads 4 bytes outside of all allocations: 0x");
    expect("0 bytes after the end of the allocation of 40960 bytes");
    bad(global(0, 0, PTX_WRITE, BYTES - 2, 4), "writes 4 bytes outside of all allocations");
    bad(global_at(0, 0, PTX_READ, 64, 4), "below all allocations");
    uint64_t freed;
    assert_int_equal(fake_alloc(0, 100, &freed), 0);
    assert_true(fake_free(freed));
    bad(global_at(0, 0, PTX_READ, freed, 4), "0 bytes into the freed allocation of 100 bytes");
    end_scene();
}

static void reads_of_bytes_never_written(void **state) {
    (void)state;
    scene();
    bad(global(0, 0, PTX_READ, 0, 4), "reads memory that was never written: 4 bytes at 0x");
    ok(global(0, 0, PTX_WRITE, 0, 2));
    bad(global(0, 0, PTX_READ, 0, 4), "never written");
    ok(global(0, 0, PTX_READ, 0, 2));
    ok(global(0, 0, PTX_READ, 1, 1));
    bad(global(0, 0, PTX_ATOMIC, 8, 4), "never written");
    bad(shared(0, 0, PTX_READ, 0, 4), "reads memory that was never written: 4 bytes at shared offset 0");
    ok(shared(0, 0, PTX_WRITE, 0, 4));
    ok(shared(0, 0, PTX_READ, 0, 4));
    bad(shared(1, 0, PTX_READ, 0, 4), "never written"); /* each block has its own */
    end_scene();
}

static void a_block_finds_no_values_of_the_one_before(void **state) {
    (void)state;
    scene();
    ok(shared(0, 0, PTX_WRITE, 0, 4));
    watch_block_end(watched, 0);
    watch_block_begin(watched, 0, 256, 8192);
    bad(shared(0, 0, PTX_READ, 0, 4), "never written");
    end_scene();
}

/* --- one block ------------------------------------------------------------------------------------------------------ */

static void a_barrier_orders_threads(void **state) {
    (void)state;
    scene();
    at_line(41);
    ok(shared(0, 9, PTX_WRITE, 0, 4));
    at_line(52);
    bad(shared(0, 70, PTX_READ, 0, 4),
        "race: reads 4 bytes at shared offset 0, which line 41 (block 0, thread 9) writes with no barrier between");
    watch_barrier(watched, 0, NULL, 256);
    ok(shared(0, 70, PTX_READ, 0, 4));
    ok(shared(0, 71, PTX_READ, 0, 4));
    at_line(60);
    bad(shared(0, 9, PTX_WRITE, 0, 4),
        "race: writes 4 bytes at shared offset 0, which line 52 (block 0, thread 71 and others) reads");
    watch_barrier(watched, 0, NULL, 256);
    ok(shared(0, 9, PTX_WRITE, 0, 4));
    bad(shared(0, 10, PTX_WRITE, 0, 4), "which line 60 (block 0, thread 9) writes with no barrier between");
    end_scene();
}

static void a_warp_barrier_orders_its_warp_alone(void **state) {
    (void)state;
    scene();
    ok(shared(0, 1, PTX_WRITE, 0, 4));
    ok(shared(0, 33, PTX_WRITE, 4, 4));
    bad(shared(0, 2, PTX_READ, 0, 4), "no barrier"); /* lanes of a warp are not ordered by themselves */
    watch_warp_sync(watched, 0, 0, UINT32_MAX);
    ok(shared(0, 2, PTX_READ, 0, 4));
    bad(shared(0, 40, PTX_READ, 0, 4), "no barrier");
    bad(shared(0, 2, PTX_READ, 4, 4), "no barrier");
    ok(shared(0, 3, PTX_READ, 0, 4));
    bad(shared(0, 1, PTX_WRITE, 0, 4), "no barrier");
    watch_warp_sync(watched, 0, 0, UINT32_MAX);
    ok(shared(0, 1, PTX_WRITE, 0, 4));
    end_scene();
}

static void lanes_of_one_request(void **state) {
    (void)state;
    scene();
    ok(row(0, PTX_WRITE, 0, 4, 4));
    ok(row(0, PTX_READ, 0, 4, 4));
    bad(row(0, PTX_READ, 0, 0, 4), "no barrier"); /* lane 0 wrote it */
    bad(row(0, PTX_WRITE, 512, 0, 4), "no barrier");
    before_the_launch(1024, 4);
    ok(row(0, PTX_READ, 1024, 0, 4));
    end_scene();
}

static void neighbours_in_a_word(void **state) {
    (void)state;
    scene();
    for (uint32_t t = 0; t < 64; t++) ok(global(0, t, PTX_WRITE, t, 1));
    for (uint32_t t = 0; t < 64; t++) ok(global(0, t, PTX_READ, t, 1));
    bad(global(0, 0, PTX_WRITE, 1, 1), "race: writes 1 bytes");
    for (uint32_t t = 0; t < 64; t++) ok(global(0, t, PTX_WRITE, 128 + 2 * t, 2));
    bad(global(0, 0, PTX_READ, 128, 4), "race: reads 4 bytes");
    watch_barrier(watched, 0, NULL, 256);
    ok(global(0, 0, PTX_READ, 128, 4));
    end_scene();
}

static void readers_of_several_warps(void **state) {
    (void)state;
    scene();
    ok(global(0, 0, PTX_WRITE, 0, 4));
    watch_barrier(watched, 0, NULL, 256);
    ok(global(0, 0, PTX_READ, 0, 4));
    ok(global(0, 64, PTX_READ, 0, 4));
    bad(global(0, 64, PTX_WRITE, 0, 4), "which line 1 (block 0, thread 64 and others) reads");
    bad(global(0, 0, PTX_WRITE, 0, 4), "reads with no barrier between");
    end_scene();
}

/* --- several blocks ------------------------------------------------------------------------------------------------- */

static void blocks_race(void **state) {
    (void)state;
    scene();
    ok(global(0, 0, PTX_WRITE, 0, 4));
    watch_barrier(watched, 0, NULL, 256);
    bad(global(1, 0, PTX_READ, 0, 4),
        "which line 1 (block 0, thread 0) writes with nothing that orders blocks between");
    bad(global(1, 0, PTX_WRITE, 0, 4), "nothing that orders blocks");
    ok(global(1, 0, PTX_WRITE, 4, 4));
    ok(global(1, 0, PTX_READ, 4, 4));
    end_scene();
}

static void many_blocks_read(void **state) {
    (void)state;
    scene();
    before_the_launch(0, 64);
    for (uint32_t b = 0; b < 4; b++) ok(global(b, 0, PTX_READ, 0, 4));
    bad(global(3, 0, PTX_WRITE, 0, 4), "and others) reads with nothing that orders blocks between");
    ok(global(3, 0, PTX_WRITE, 8, 4));
    end_scene();
}

static void read_only_loads(void **state) {
    (void)state;
    scene();
    before_the_launch(0, 64);
    ok(global(0, 0, PTX_READ_NC, 0, 4));
    bad(global(0, 0, PTX_WRITE, 0, 4), "which line 1 (block 0, thread 0) reads by ld.global.nc");
    ok(global(0, 0, PTX_WRITE, 8, 4));
    bad(global(0, 0, PTX_READ_NC, 8, 4), "ld.global.nc reads what the launch does not write");
    ok(global(0, 0, PTX_READ, 8, 4));
    end_scene();
}

/* --- atomics and fences --------------------------------------------------------------------------------------------- */

static void atomics_do_not_race_with_atomics(void **state) {
    (void)state;
    scene();
    before_the_launch(0, 64);
    for (uint32_t b = 0; b < 4; b++) ok(global(b, b, PTX_ATOMIC, 0, 4));
    bad(global(3, 5, PTX_WRITE, 0, 4), "race");
    bad(global(3, 5, PTX_READ, 0, 4), "race");
    ok(shared(0, 0, PTX_WRITE, 0, 4));
    bad(shared(0, 1, PTX_ATOMIC, 0, 4), "race: changes 4 bytes");
    watch_barrier(watched, 0, NULL, 256);
    for (uint32_t t = 0; t < 64; t++) ok(shared(0, t, PTX_ATOMIC, 0, 4));
    end_scene();
}

/* Each block writes its part, fences and counts; the last one reads all. */
static void message_passing(void **state) {
    (void)state;
    scene();
    before_the_launch(0, 4);
    for (uint32_t b = 0; b < 3; b++) {
        ok(global(b, 7, PTX_WRITE, 64 + 4 * b, 4));
        watch_barrier(watched, b, NULL, 256);
        watch_fence(watched, &(watch_place){b, 0, &instruction}, PTX_SCOPE_GPU);
        ok(global(b, 0, PTX_ATOMIC, 0, 4));
        watch_atomic(watched, &(watch_place){b, 0, &instruction}, false, address, PTX_RELAXED, PTX_SCOPE_GPU);
    }
    bad(global(2, 0, PTX_READ, 64, 4), "nothing that orders blocks"); /* before the second fence */
    watch_fence(watched, &(watch_place){2, 0, &instruction}, PTX_SCOPE_GPU);
    ok(global(2, 0, PTX_READ, 64, 4));
    bad(global(2, 9, PTX_READ, 68, 4), "nothing that orders blocks"); /* other threads need a barrier */
    watch_barrier(watched, 2, NULL, 256);
    ok(global(2, 9, PTX_READ, 68, 4));
    ok(global(2, 40, PTX_READ, 72, 4));
    end_scene();
}

static void a_release_covers_what_came_before(void **state) {
    (void)state;
    scene();
    before_the_launch(0, 4);
    ok(global(0, 0, PTX_WRITE, 64, 4));
    ok(global(0, 0, PTX_ATOMIC, 0, 4));
    watch_atomic(watched, &(watch_place){0, 0, &instruction}, false, address, PTX_RELEASE, PTX_SCOPE_GPU);
    ok(global(0, 0, PTX_WRITE, 68, 4));
    ok(global(1, 3, PTX_ATOMIC, 0, 4));
    watch_atomic(watched, &(watch_place){1, 3, &instruction}, false, address, PTX_ACQUIRE, PTX_SCOPE_GPU);
    ok(global(1, 3, PTX_READ, 64, 4));
    bad(global(1, 3, PTX_READ, 68, 4), "nothing that orders blocks");
    bad(global(1, 4, PTX_READ, 64, 4), "nothing that orders blocks");
    end_scene();
}

static void the_scope_of_the_block_orders_no_other(void **state) {
    (void)state;
    scene();
    before_the_launch(0, 4);
    ok(global(0, 0, PTX_WRITE, 64, 4));
    ok(global(0, 0, PTX_ATOMIC, 0, 4));
    watch_atomic(watched, &(watch_place){0, 0, &instruction}, false, address, PTX_RELEASE, PTX_SCOPE_CTA);
    ok(global(1, 3, PTX_ATOMIC, 0, 4));
    watch_atomic(watched, &(watch_place){1, 3, &instruction}, false, address, PTX_ACQUIRE, PTX_SCOPE_CTA);
    bad(global(1, 3, PTX_READ, 64, 4), "nothing that orders blocks");
    ok(global(0, 100, PTX_ATOMIC, 0, 4));
    watch_atomic(watched, &(watch_place){0, 100, &instruction}, false, address, PTX_ACQUIRE, PTX_SCOPE_CTA);
    ok(global(0, 100, PTX_READ, 64, 4));
    end_scene();
}

/* --- cp.async ------------------------------------------------------------------------------------------------------- */

static void asynchronous_copies_are_waited_for(void **state) {
    (void)state;
    scene();
    const watch_place five = {0, 5, &instruction};
    ok(shared(0, 5, PTX_ASYNC_WRITE, 0, 16));
    bad(shared(0, 5, PTX_READ, 0, 4), "writes by cp.async with no wait for it between");
    watch_async_commit(watched, &five);
    watch_async_wait(watched, &five, 0);
    ok(shared(0, 5, PTX_READ, 0, 4));
    bad(shared(0, 70, PTX_READ, 4, 4), "no barrier");
    watch_barrier(watched, 0, NULL, 256);
    ok(shared(0, 70, PTX_READ, 4, 4));
    end_scene();
}

static void a_barrier_is_no_wait(void **state) {
    (void)state;
    scene();
    ok(shared(0, 5, PTX_ASYNC_WRITE, 0, 16));
    watch_barrier(watched, 0, NULL, 256);
    bad(shared(0, 5, PTX_READ, 0, 4), "no wait for it");
    bad(shared(0, 6, PTX_READ, 0, 4), "no wait for it and no barrier");
    end_scene();
}

static void groups_of_copies(void **state) {
    (void)state;
    scene();
    const watch_place one = {0, 1, &instruction};
    for (uint32_t g = 0; g < 3; g++) {
        ok(shared(0, 1, PTX_ASYNC_WRITE, 16 * g, 16));
        watch_async_commit(watched, &one);
    }
    watch_async_wait(watched, &one, 1); /* all but the last */
    ok(shared(0, 1, PTX_READ, 0, 4));
    ok(shared(0, 1, PTX_READ, 16, 4));
    bad(shared(0, 1, PTX_READ, 32, 4), "no wait for it");
    watch_async_wait(watched, &one, UINT32_MAX);
    ok(shared(0, 1, PTX_READ, 32, 4));
    end_scene();
}

/* --- between launches ----------------------------------------------------------------------------------------------- */

static void launches_of_one_stream_are_ordered(void **state) {
    (void)state;
    scene();
    ok(global(0, 0, PTX_WRITE, 0, 4));
    next_launch(0);
    ok(global(1, 5, PTX_READ, 0, 4));
    ok(global(2, 5, PTX_READ, 0, 4));
    next_launch(0);
    ok(global(7, 5, PTX_WRITE, 0, 4));
    end_scene();
}

static void launches_of_two_streams_race(void **state) {
    (void)state;
    scene();
    at_line(17);
    before_the_launch(64, 64);
    ok(global(0, 0, PTX_WRITE, 0, 4));
    ok(global(0, 0, PTX_READ, 64, 4));
    next_launch(1);
    bad(global(0, 0, PTX_READ, 0, 4), "which kernel k, line 17 in stream ");
    bad(global(0, 0, PTX_WRITE, 0, 4), "writes; nothing orders it and this launch");
    ok(global(0, 0, PTX_READ, 64, 4));
    bad(global(0, 0, PTX_WRITE, 64, 4), "reads; nothing orders it");
    end_scene();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accesses_within_an_allocation),
        cmocka_unit_test(accesses_outside),
        cmocka_unit_test(reads_of_bytes_never_written),
        cmocka_unit_test(a_block_finds_no_values_of_the_one_before),
        cmocka_unit_test(a_barrier_orders_threads),
        cmocka_unit_test(a_warp_barrier_orders_its_warp_alone),
        cmocka_unit_test(lanes_of_one_request),
        cmocka_unit_test(neighbours_in_a_word),
        cmocka_unit_test(readers_of_several_warps),
        cmocka_unit_test(blocks_race),
        cmocka_unit_test(many_blocks_read),
        cmocka_unit_test(read_only_loads),
        cmocka_unit_test(atomics_do_not_race_with_atomics),
        cmocka_unit_test(message_passing),
        cmocka_unit_test(a_release_covers_what_came_before),
        cmocka_unit_test(the_scope_of_the_block_orders_no_other),
        cmocka_unit_test(asynchronous_copies_are_waited_for),
        cmocka_unit_test(a_barrier_is_no_wait),
        cmocka_unit_test(groups_of_copies),
        cmocka_unit_test(launches_of_one_stream_are_ordered),
        cmocka_unit_test(launches_of_two_streams_race),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

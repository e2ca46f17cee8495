/* What watches memory: each kind of mistake is found and named, and each correct pattern beside it is not. */
#include "fakes/ptx/watch_scene.h"

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
    barrier_of(0, 8);
    ok(shared(0, 70, PTX_READ, 0, 4));
    ok(shared(0, 71, PTX_READ, 0, 4));
    at_line(60);
    bad(shared(0, 9, PTX_WRITE, 0, 4),
        "race: writes 4 bytes at shared offset 0, which line 52 (block 0, thread 71 and others) reads");
    barrier_of(0, 8);
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
    barrier_of(0, 8);
    ok(global(0, 0, PTX_READ, 128, 4));
    end_scene();
}

static void readers_of_several_warps(void **state) {
    (void)state;
    scene();
    ok(global(0, 0, PTX_WRITE, 0, 4));
    barrier_of(0, 8);
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
    barrier_of(0, 8);
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
    barrier_of(0, 8);
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
        barrier_of(b, 8);
        watch_fence(watched, &(watch_place){b, 0, &instruction}, PTX_SCOPE_GPU);
        ok(global(b, 0, PTX_ATOMIC, 0, 4));
        watch_atomic(watched, &(watch_place){b, 0, &instruction}, false, address, PTX_RELAXED, PTX_SCOPE_GPU);
    }
    bad(global(2, 0, PTX_READ, 64, 4), "nothing that orders blocks"); /* before the second fence */
    watch_fence(watched, &(watch_place){2, 0, &instruction}, PTX_SCOPE_GPU);
    ok(global(2, 0, PTX_READ, 64, 4));
    bad(global(2, 9, PTX_READ, 68, 4), "nothing that orders blocks"); /* other threads need a barrier */
    barrier_of(2, 8);
    ok(global(2, 9, PTX_READ, 68, 4));
    ok(global(2, 40, PTX_READ, 72, 4));
    end_scene();
}

static void a_release_covers_what_came_before(void **state) {
    (void)state;
    scene();
    before_the_launch(0, 4);
    ok(global(0, 0, PTX_WRITE, 64, 4));
    ok(atomic(0, 0, PTX_RELEASE, PTX_SCOPE_GPU));
    ok(global(0, 0, PTX_WRITE, 68, 4));
    ok(atomic(1, 3, PTX_ACQUIRE, PTX_SCOPE_GPU));
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
    ok(atomic(0, 0, PTX_RELEASE, PTX_SCOPE_CTA));
    ok(atomic(1, 3, PTX_ACQUIRE, PTX_SCOPE_CTA));
    bad(global(1, 3, PTX_READ, 64, 4), "nothing that orders blocks");
    ok(atomic(0, 100, PTX_ACQUIRE, PTX_SCOPE_CTA));
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
    barrier_of(0, 8);
    ok(shared(0, 70, PTX_READ, 4, 4));
    end_scene();
}

static void a_barrier_is_no_wait(void **state) {
    (void)state;
    scene();
    ok(shared(0, 5, PTX_ASYNC_WRITE, 0, 16));
    barrier_of(0, 8);
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

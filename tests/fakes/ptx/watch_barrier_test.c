/* What barriers of some threads order: those threads alone. */
#include "fakes/ptx/watch_scene.h"

static void a_barrier_of_some_warps_orders_them(void **state) {
    (void)state;
    scene();
    for (uint32_t t = 0; t < 3; t++) ok(shared(0, 32 * t, PTX_WRITE, 4 * t, 4));
    barrier_of(0, 2);
    ok(shared(0, 33, PTX_READ, 0, 4));
    ok(shared(0, 1, PTX_READ, 4, 4));
    bad(shared(0, 1, PTX_READ, 8, 4), "(block 0, thread 64) writes with no barrier between");
    bad(shared(0, 65, PTX_READ, 0, 4), "no barrier");
    ok(shared(0, 0, PTX_WRITE, 12, 4)); /* after it */
    bad(shared(0, 33, PTX_READ, 12, 4), "no barrier");
    end_scene();
}

/* The third warp learns of the first by the second. */
static void order_passes_on(void **state) {
    (void)state;
    scene();
    const uint32_t two[] = {0, UINT32_MAX, UINT32_MAX};
    ok(shared(0, 3, PTX_WRITE, 0, 4));
    barrier_of(0, 2);
    bad(shared(0, 64, PTX_READ, 0, 4), "no barrier");
    watch_barrier(watched, 0, 2, two, 3);
    ok(shared(0, 64, PTX_READ, 0, 4));
    end_scene();
}

static void who_arrives_does_not_wait(void **state) {
    (void)state;
    scene();
    const uint32_t second[] = {0, UINT32_MAX};
    ok(shared(0, 0, PTX_WRITE, 0, 4));
    ok(shared(0, 32, PTX_WRITE, 4, 4));
    watch_arrive(watched, 0, 1, 0, UINT32_MAX);
    ok(shared(0, 0, PTX_WRITE, 8, 4)); /* after its arrival, though before the barrier opens */
    watch_barrier(watched, 0, 1, second, 2);
    ok(shared(0, 40, PTX_READ, 0, 4));
    bad(shared(0, 40, PTX_READ, 8, 4), "no barrier");
    bad(shared(0, 0, PTX_READ, 4, 4), "no barrier");
    watch_barrier(watched, 0, 1, second, 2); /* what arrived once is used up */
    bad(shared(0, 40, PTX_READ, 8, 4), "no barrier");
    end_scene();
}

static void some_lanes_of_a_warp(void **state) {
    (void)state;
    scene();
    for (uint32_t t = 0; t < 32; t += 8) ok(shared(0, t, PTX_WRITE, 4 * t, 4));
    watch_warp_sync(watched, 0, 0, 0xffff);
    ok(shared(0, 9, PTX_READ, 0, 4));
    ok(shared(0, 1, PTX_READ, 32, 4));
    bad(shared(0, 1, PTX_READ, 64, 4), "no barrier");
    bad(shared(0, 17, PTX_READ, 0, 4), "no barrier");
    watch_warp_sync(watched, 0, 0, 0xff00ff);
    ok(shared(0, 17, PTX_READ, 0, 4));
    ok(shared(0, 17, PTX_READ, 32, 4)); /* by lanes 0 to 7 */
    bad(shared(0, 24, PTX_READ, 0, 4), "no barrier");
    watch_warp_sync(watched, 0, 0, UINT32_MAX);
    ok(shared(0, 24, PTX_READ, 0, 4));
    end_scene();
}

static void a_fence_orders_no_lanes(void **state) {
    (void)state;
    scene();
    ok(shared(0, 1, PTX_WRITE, 0, 4));
    watch_fence(watched, &(watch_place){0, 1, &instruction}, PTX_SCOPE_CTA);
    bad(shared(0, 2, PTX_READ, 0, 4), "no barrier");
    watch_warp_sync(watched, 0, 0, UINT32_MAX);
    ok(shared(0, 2, PTX_READ, 0, 4));
    end_scene();
}

static void readers_before_a_barrier_of_some(void **state) {
    (void)state;
    scene();
    before_the_launch(0, 64);
    for (uint32_t t = 0; t < 4; t++) ok(global(0, t, PTX_READ, 0, 4));
    bad(global(0, 5, PTX_WRITE, 0, 4), "and others) reads with no barrier between");
    watch_warp_sync(watched, 0, 0, 0xff);
    ok(global(0, 5, PTX_WRITE, 0, 4));
    for (uint32_t t = 0; t < 64; t += 32) ok(global(0, t, PTX_READ, 8, 4));
    bad(global(0, 64, PTX_WRITE, 8, 4), "no barrier");
    barrier_of(0, 2);
    ok(global(0, 33, PTX_WRITE, 8, 4));
    end_scene();
}

/* What a lane acquired from another block, its warp knows after bar.warp.sync. */
static void warps_pass_on_what_they_acquired(void **state) {
    (void)state;
    scene();
    before_the_launch(0, 4);
    ok(global(0, 0, PTX_WRITE, 64, 4));
    ok(atomic(0, 0, PTX_RELEASE, PTX_SCOPE_GPU));
    ok(atomic(1, 0, PTX_ACQUIRE, PTX_SCOPE_GPU));
    bad(global(1, 5, PTX_READ, 64, 4), "nothing that orders blocks");
    watch_warp_sync(watched, 1, 0, 0x0f);
    bad(global(1, 5, PTX_READ, 64, 4), "nothing that orders blocks");
    watch_warp_sync(watched, 1, 0, UINT32_MAX);
    ok(global(1, 5, PTX_READ, 64, 4));
    end_scene();
}

/* More than are counted: nothing is invented. */
static void very_many_syncs_of_a_warp(void **state) {
    (void)state;
    scene();
    for (int i = 0; i < 70000; i++) {
        watch_warp_sync(watched, 0, 0, UINT32_MAX);
        if (i % 10000) continue;
        ok(shared(0, 1, PTX_WRITE, 0, 4));
        watch_warp_sync(watched, 0, 0, UINT32_MAX);
        ok(shared(0, 2, PTX_WRITE, 0, 4));
    }
    bad(shared(0, 40, PTX_READ, 0, 4), "no barrier");
    barrier_of(0, 8);
    ok(shared(0, 1, PTX_WRITE, 0, 4));
    bad(shared(0, 2, PTX_READ, 0, 4), "no barrier");
    end_scene();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_barrier_of_some_warps_orders_them),
        cmocka_unit_test(order_passes_on),
        cmocka_unit_test(who_arrives_does_not_wait),
        cmocka_unit_test(some_lanes_of_a_warp),
        cmocka_unit_test(a_fence_orders_no_lanes),
        cmocka_unit_test(readers_before_a_barrier_of_some),
        cmocka_unit_test(warps_pass_on_what_they_acquired),
        cmocka_unit_test(very_many_syncs_of_a_warp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

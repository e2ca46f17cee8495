/* Which GPUs are chosen: near each other, of a type, with room; and for bundles of groups, by strategy. */
#include "task/group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { G = 1000000000 };

static bti_state runtime;

/* Eight GPUs with these links: '-' between i and i + 1 of "01-23" joins places of GPUs. */
static void machine(const char *places) {
    runtime = (bti_state){.resource_count = 2, .gpu_count = 8};
    runtime.machine.total.of[0] = 8 * BTI_UNIT;
    runtime.machine.total.of[1] = 8 * BTI_UNIT;
    for (int g = 0; g < 8; g++) {
        runtime.machine.gpu_free[g] = BTI_UNIT;
        runtime.gpu_bytes[g] = (uint64_t)(g < 6 ? 80 : 40) * G;
        for (int h = 0; h < 8; h++)
            if (places && h != g && places[g] == places[h]) runtime.gpu_linked[g] |= (uint64_t)1 << h;
    }
    runtime.machine.free = runtime.machine.total;
}

static void take(uint64_t gpus) {
    bti_amounts one = {.of = {0, BTI_UNIT}};
    for (int g = 0; g < 8; g++)
        if (gpus >> g & 1) bti_supply_set_aside(&runtime, &runtime.machine, &one, (uint64_t)1 << g);
}

static void expect_chosen(int64_t count, uint64_t expected) {
    bti_amounts amounts = {.of = {0, count * BTI_UNIT}};
    assert_true(bti_supply_fits(&runtime, &runtime.machine, &amounts));
    assert_int_equal(bti_supply_choose(&runtime, &runtime.machine, &amounts), expected);
}

static void neighbours_are_chosen(void **state) {
    machine(NULL);
    expect_chosen(1, 0x01);
    expect_chosen(4, 0x0f);
    take(0x05); /* 1 and 3 to 7 are free */
    expect_chosen(2, 0x18);
    expect_chosen(6, 0xfa);
    machine("aabbaabb");
    expect_chosen(2, 0x03);
    expect_chosen(4, 0x33);
    take(0x01);
    expect_chosen(2, 0x0c);
    expect_chosen(3, 0x32);
    expect_chosen(4, 0xcc);
    take(0x4c); /* of a place 1, 4, 5, of the other 7 */
    expect_chosen(3, 0x32);
    expect_chosen(4, 0xb2);
}

/* A share in bytes is more of a smaller GPU. */
static void shares_are_of_each_gpu(void **state) {
    machine(NULL);
    bti_amounts half = {.of = {0, BTI_UNIT / 4}, .gpu_bytes = (uint64_t)20 * G, .gpu_only = 0xc0};
    assert_int_equal(bti_gpu_share(&runtime, &half, 0), BTI_UNIT / 4);
    assert_int_equal(bti_gpu_share(&runtime, &half, 7), BTI_UNIT / 2);
    for (int i = 0; i < 4; i++) {
        assert_true(bti_supply_fits(&runtime, &runtime.machine, &half));
        uint64_t gpus = bti_supply_choose(&runtime, &runtime.machine, &half);
        assert_int_equal(gpus, i < 2 ? 0x40 : 0x80);
        bti_supply_set_aside(&runtime, &runtime.machine, &half, gpus);
    }
    assert_false(bti_supply_fits(&runtime, &runtime.machine, &half));
    assert_int_equal(runtime.machine.free.of[1], 6 * BTI_UNIT);
    bti_amounts large = {.of = {0, 6250}, .gpu_bytes = (uint64_t)50 * G};
    machine(NULL);
    take(0x3f);
    assert_false(bti_supply_fits(&runtime, &runtime.machine, &large));
}

/* The masks of bundles with so many GPUs each; NULL: they do not fit. */
static void expect_bundles(int strategy, const int *counts, int count, const uint64_t *expected) {
    bti_supply bundles[8] = {0};
    uint64_t gpus[BTI_MOST_BUNDLES];
    for (int i = 0; i < count; i++) bundles[i].total.of[1] = counts[i] * BTI_UNIT;
    bundles[0].total.strategy = strategy;
    assert_int_equal(bti_bundles_choose(&runtime, bundles, count, &runtime.machine, gpus), expected != NULL);
    for (int i = 0; i < count && expected; i++) assert_int_equal(gpus[i], expected[i]);
}

#define COUNTS(...) (const int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int))
#define MASKS(...) ((const uint64_t[]){__VA_ARGS__})

static void bundles_are_packed(void **state) {
    machine("aaaabbbb");
    expect_bundles(BT_GROUP_PACK, COUNTS(2, 2), MASKS(0x03, 0x0c));
    take(0x01);
    expect_bundles(BT_GROUP_PACK, COUNTS(2, 2), MASKS(0x30, 0xc0));
    expect_bundles(BT_GROUP_STRICT_PACK, COUNTS(2, 2), MASKS(0x30, 0xc0));
    take(0x10);
    expect_bundles(BT_GROUP_STRICT_PACK, COUNTS(2, 2), NULL);
    expect_bundles(BT_GROUP_PACK, COUNTS(2, 2), MASKS(0x06, 0x60));
    machine(NULL);
    expect_bundles(BT_GROUP_STRICT_PACK, COUNTS(4, 4), MASKS(0x0f, 0xf0));
}

static void bundles_are_spread(void **state) {
    machine("aaaabbbb");
    expect_bundles(BT_GROUP_SPREAD, COUNTS(1, 1), MASKS(0x01, 0x10));
    expect_bundles(BT_GROUP_STRICT_SPREAD, COUNTS(1, 4), MASKS(0x10, 0x0f));
    expect_bundles(BT_GROUP_STRICT_SPREAD, COUNTS(1, 1, 1), NULL);
    expect_bundles(BT_GROUP_SPREAD, COUNTS(1, 1, 1), MASKS(0x01, 0x10, 0x02));
    take(0x03); /* the larger one stays for the larger bundle */
    expect_bundles(BT_GROUP_STRICT_SPREAD, COUNTS(2, 3), MASKS(0x0c, 0x70));
    machine(NULL);
    expect_bundles(BT_GROUP_STRICT_SPREAD, COUNTS(2, 2), MASKS(0x03, 0x0c));
    bti_supply shares[2] = {{.total.of = {0, 1000}}, {.total.of = {0, 1000}}};
    uint64_t gpus[BTI_MOST_BUNDLES];
    shares[0].total.strategy = BT_GROUP_SPREAD;
    assert_true(bti_bundles_choose(&runtime, shares, 2, &runtime.machine, gpus));
    assert_int_not_equal(gpus[0], gpus[1]);
    shares[0].total.strategy = BT_GROUP_PACK;
    assert_true(bti_bundles_choose(&runtime, shares, 2, &runtime.machine, gpus));
    assert_int_equal(gpus[0], gpus[1]);
}

static void expect_refused(int strategy, const int *counts, int count, const char *text) {
    bti_supply bundles[8] = {0};
    for (int i = 0; i < count; i++) bundles[i].total.of[1] = counts[i] * BTI_UNIT;
    bundles[0].total.strategy = strategy;
    assert_int_equal(bti_bundles_check(&runtime, bundles, count), BT_RESOURCE_EXHAUSTED);
    if (!strstr(bt_error_text(), text)) fail_msg("\"%s\" does not say \"%s\"", bt_error_text(), text);
}

static void what_can_never_be_is_refused(void **state) {
    machine("aaaabbbb");
    take(0xff); /* what others have is no reason */
    expect_refused(BT_GROUP_STRICT_PACK, COUNTS(3, 2), "2 bundles do not fit into one set of GPUs");
    expect_refused(BT_GROUP_STRICT_SPREAD, COUNTS(1, 1, 1), "3 bundles do not fit into different sets of GPUs");
    expect_refused(BT_GROUP_STRICT_SPREAD, COUNTS(1, 0), "bundle 1 has no GPU");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_are_chosen),        cmocka_unit_test(shares_are_of_each_gpu),
        cmocka_unit_test(bundles_are_packed),           cmocka_unit_test(bundles_are_spread),
        cmocka_unit_test(what_can_never_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What calls take: of bundles, and in many different amounts. */
#include "support/calls.h"
#include "support/support.h"

static bt_status next(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    return status == BT_OK ? bt_return(task, n + 1) : status;
}
BT_REMOTE(next);

/* --- bundles ---------------------------------------------------------------------------------------------------------------- */

/* A call that does not say how many CPUs it takes has one of the runtime or of a bundle that has CPUs, and none of another bundle. */
static void bundles_without_cpus_take_calls(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 2, .num_gpus = 2));
    BT_SCOPE {
        bt_group *group = bt_group_new((bt_task_options[]){BT_BUNDLE(.num_gpus = 1), BT_BUNDLE(.num_cpus = 0.5)}, 2);
        bt_actor *actor = bt_actor_new_with(BT_OPTIONS(.group = group), actor_new);
        int64_t n = 0;
        OK(bt_get_within(bt_remote_with(BT_OPTIONS(.group = group, .num_gpus = 1), next, 1), SOON, &n));
        assert_int_equal(n, 2);
        OK(bt_get_within(bt_remote_with(BT_OPTIONS(.group = group), next, 2), SOON, &n));
        OK(bt_get_within(bt_method(actor, next, 3), SOON, &n));
        assert_int_equal(n, 4);
        FAILS(bt_get(bt_remote_with(BT_OPTIONS(.group = group, .num_cpus = 1), next, 1), NULL), BT_RESOURCE_EXHAUSTED,
              "asks for 1 CPU; its bundle has 0");
        FAILS(bt_get(bt_remote_with(BT_OPTIONS(.group = group, .bundle = 1), next, 1), NULL), BT_RESOURCE_EXHAUSTED,
              "asks for 1 CPU; its bundle has 0.5");
        FAILS(bt_get(bt_remote_with(BT_OPTIONS(.group = group, .bundle = 2), next, 1), NULL), BT_OUT_OF_RANGE,
              "bundle 2 of a group of 2");
    }
}

/* --- many kinds --------------------------------------------------------------------------------------------------------------- */

enum { KINDS = 100000 };
static bt_ref *refs[KINDS];

/* All wait at once, each for another amount: of what is scarce, and beside it. */
static void calls_take_many_different_amounts(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 2, .resources = {{"unit", 20}}));
    BT_SCOPE {
        bt_ref *busy = bt_remote_with(BT_OPTIONS(.num_cpus = 2, .resources = {{"unit", 20}}), nap, 300);
        for (int i = 0; i < KINDS; i++)
            refs[i] = bt_remote_with(BT_OPTIONS(.resources = {{"unit", (1 + i) / 10000.0}}), next, i);
        OK(bt_get(busy, NULL));
        for (int64_t i = 0, n; i < KINDS; i++) {
            OK(bt_get_within(refs[i], SOON, &n));
            assert_int_equal(n, i + 1);
        }
    }
}

/* The first in order that fits is not the first of all. */
static void amounts_that_do_not_fit_are_passed(void **state) {
    (void)state;
    enum { SOME = 20000 };
    OK(bt_runtime_init(.num_cpus = 1, .num_gpus = 2, .resources = {{"unit", 20}}));
    BT_SCOPE {
        bt_ref *busy = bt_remote_with(BT_OPTIONS(.num_cpus = 0, .resources = {{"unit", 20}}), nap, SOON * 2000);
        for (int i = 0; i < SOME; i++)
            (void)bt_remote_with(BT_OPTIONS(.resources = {{"unit", (1 + i) / 10000.0}}), next, i);
        for (int64_t i = 0, n; i < SOME; i++)
            BT_SCOPE {
                OK(bt_get_within(bt_remote_with(BT_OPTIONS(.num_cpus = (double)(1 + i % 5000) / 10000), next, i), SOON,
                                 &n));
                assert_int_equal(n, i + 1);
            }
        OK(bt_cancel(busy, true));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(bundles_without_cpus_take_calls, end_runtime),
        cmocka_unit_test_teardown(calls_take_many_different_amounts, end_runtime),
        cmocka_unit_test_teardown(amounts_that_do_not_fit_are_passed, end_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Loops that read nothing: work starts after some operations, at the same one in each iteration, so that its plan is there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>

#include "array/plan_cache.h"
#include "base/flags.h"

static void begin(const char *flags) {
    assert_int_equal(bt_shutdown(), BT_OK);
    setenv("BERTH_FLAGS", flags, 1);
    bti_flags_reset();
}

static int finish(void **state) {
    (void)state;
    begin("");
    return 0;
}

/* x = tanh(x * w + 1) - w, and what is not even: an operation more. */
static void iterate(bt_array **x, bt_array *w, bool more) {
    BT_SCOPE {
        bt_array *next = bt_sub(bt_tanh(bt_add(bt_mul(*x, w), bt_num(1))), w);
        if (more) next = bt_abs(next);
        bt_assign(x, next);
    }
}

/* After `iterations` without a read; *made: plans in the last half of them. */
static void run(const char *flags, int iterations, bool more, float *got, uint64_t *made) {
    begin(flags);
    BT_SCOPE {
        bt_array *x = NULL, *w = bt_from(((float[]){.5f, .25f, -.5f}), BT_F32, BT_SHAPE(3));
        bt_assign(&x, bt_from(((float[]){1, 2, 3}), BT_F32, BT_SHAPE(3)));
        for (int i = 0; i < iterations; i++) {
            if (i == iterations / 2) *made = bti_plan_cache_count().made;
            iterate(&x, w, more);
        }
        *made = bti_plan_cache_count().made - *made;
        assert_int_equal(bt_read(x, got, 3 * sizeof *got), BT_OK);
        bt_assign(&x, NULL);
    }
}

static void flushes_of_a_loop_are_alike(void **state) {
    (void)state;
    static const char *const flags[] = {"devices=sim:gpu*1@64M,flush_nodes=100", "devices=sim:gpu*1@64M,flush_nodes=61",
                                        "devices=sim:gpu*1@64M,flush_bytes=64"};
    for (int more = 0; more < 2; more++) {
        float wanted[3], got[3];
        uint64_t made;
        run("devices=sim:gpu*1@64M,plan_cache=0", 400, more, wanted, &made);
        for (size_t f = 0; f < sizeof flags / sizeof *flags; f++) {
            run(flags[f], 400, more, got, &made);
            assert_memory_equal(wanted, got, sizeof got);
            if (made) fail_msg("%s: %d plans in the last 200 iterations", flags[f], (int)made);
        }
    }
}

/* The operation that the last flush came after does not come again: work starts all the same. */
static void another_loop_is_flushed_too(void **state) {
    (void)state;
    begin("devices=sim:gpu*1@64M,flush_nodes=64");
    BT_SCOPE {
        bt_array *x = NULL, *w = bt_ones(BT_F32, 3);
        bt_assign(&x, bt_ones(BT_F32, 3));
        for (int i = 0; i < 40; i++) iterate(&x, w, false);
        uint64_t before = bti_plan_cache_count().made;
        for (int i = 0; i < 80; i++)
            BT_SCOPE
                bt_assign(&x, bt_neg(x));
        assert_true(bti_plan_cache_count().made > before);
        bt_assign(&x, NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(flushes_of_a_loop_are_alike, finish),
        cmocka_unit_test_teardown(another_loop_is_flushed_too, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Functions that are called again are launched in one go: with the values of now, where their memory is now, with their errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "exec/recordings.h"
#include "support/settings.h"

static bti_recordings_counts counted;

/* Since the last call. */
static bti_recordings_counts count(void) {
    bti_recordings_counts now, since;
    bti_recordings_count(&now);
    since = (bti_recordings_counts){now.launched - counted.launched, now.recorded - counted.recorded,
                                    now.updated - counted.updated};
    counted = now;
    return since;
}

/* w becomes w + 2 x; the result is 3 x + w, in several kernels. */
static bt_function *step(bt_shared *w) {
    bt_array *x = bt_input(BT_F32, 4), *y = bt_add(bt_mul(x, bt_num(3)), bt_value(w));
    bt_update update = {w, bt_add(bt_value(w), bt_mul(x, bt_num(2)))};
    return bt_function_new(&x, 1, &y, 1, &update, 1);
}

enum { CALLS = 40 };

/* The kernels of a profile, by its table: how often each ran. */
static void expect_kernels(bt_profile *profile) {
    char *text = NULL;
    OK(bt_profile_stop(profile, NULL, &text));
    static const char *const names[] = {"mul", "add"};
    for (int i = 0; i < 2; i++) { /* two of each in the step */
        char row[64];
        int calls = 0;
        snprintf(row, sizeof row, "\n  %s ", names[i]);
        for (const char *at = text; (at = strstr(at, row)); at++) calls += atoi(at + strlen(row));
        if (calls != 2 * CALLS) fail_msg("%d of %s in %s", calls, names[i], text);
    }
    bt_free(text);
}

static void run(const char *flags, bool expect_graphs, bool traced) {
    begin(flags);
    bt_profile *profile = traced ? bt_profile_start() : NULL;
    (void)count();
    BT_SCOPE {
        bt_shared *w = bt_shared_new(bt_zeros(BT_F32, 4), NULL);
        bt_function *f = step(w);
        float total[4] = {0}, got[4];
        for (int call = 0; call < CALLS; call++)
            BT_SCOPE {
                float values[4];
                for (int i = 0; i < 4; i++) values[i] = (float)(call * 4 + i);
                bt_array *x = bt_from(values, BT_F32, BT_SHAPE(4));
                OK(bt_read(bt_call1(f, &x, 1), got, sizeof got));
                for (int i = 0; i < 4; i++) {
                    assert_true(got[i] == 3 * values[i] + total[i]);
                    total[i] += 2 * values[i];
                }
            }
        OK(bt_read(bt_value(w), got, sizeof got));
        assert_memory_equal(got, total, sizeof got);
    }
    if (traced) expect_kernels(profile);
    bti_recordings_counts made = count();
    if (!expect_graphs) {
        assert_int_equal(made.launched + made.recorded, 0);
        return;
    }
    assert_true(made.launched >= 30);
    assert_true(made.recorded >= 1 && made.recorded <= 6);
}

static void calls_are_launched_in_one_go(void **state) {
    (void)state;
    for (int traced = 0; traced < 2; traced++) {
        run("devices=sim:gpu,fuse=off", true, traced);
        run("devices=sim:h200*1,fuse=off", true, traced);
        run("devices=sim:gpu,fuse=off,graphs=off", false, traced);
        run("fuse=off", false, traced); /* the CPU has none */
    }
}

/* The arguments move about in memory: what was recorded for one place is not launched for another. */
static void memory_may_move(void **state) {
    (void)state;
    begin("devices=sim:gpu,fuse=off");
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 4), *y = bt_add(bt_mul(bt_mul(x, x), bt_num(3)), x), *held[200];
        bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
        for (int i = 0; i < 200; i++) held[i] = bt_full(i, BT_F32, 4);
        (void)count();
        for (int call = 0; call < 600; call++)
            BT_SCOPE {
                float got[4];
                int i = call < 300 ? (call * 7 + call / 3) % 200 : call % 2;
                OK(bt_read(bt_call1(f, &held[i], 1), got, sizeof got));
                assert_true(got[3] == (float)(3 * i * i + i));
            }
    }
    bti_recordings_counts made = count();
    assert_true(made.launched >= 200 && made.launched < 600);
}

enum { VARIABLES = 4 };

/* A step that adds 2 to each of variables of different sizes; its result is 3 times the sum of their first elements. */
static bt_function *step_of_variables(bt_shared *const *w, const int64_t *lengths) {
    bt_update updates[VARIABLES];
    bt_array *y = bt_num(0);
    for (int i = 0; i < VARIABLES; i++) {
        updates[i] = (bt_update){w[i], bt_add(bt_mul(bt_ones(BT_F32, lengths[i]), bt_num(2)), bt_value(w[i]))};
        y = bt_add(y, bt_mul(bt_index(bt_value(w[i]), 0, 0), bt_num(3)));
    }
    return bt_function_new(NULL, 0, &y, 1, updates, VARIABLES);
}

/* Steps run ahead, so the values of variables take several turns in memory. `uneven`: how far ahead changes, as with a device whose times vary. */
static void run_ahead(const char *settings, bool uneven, uint64_t least) {
    enum { STEPS = 1000 };
    static const int64_t lengths[VARIABLES] = {300, 400000, 64, 262144};
    begin(settings);
    (void)count();
    BT_SCOPE {
        bt_shared *w[VARIABLES];
        bt_array *large = bt_ones(BT_F32, 256, 256);
        for (int i = 0; i < VARIABLES; i++) w[i] = bt_shared_new(bt_zeros(BT_F32, lengths[i]), NULL);
        bt_function *f = step_of_variables(w, lengths);
        float got;
        for (int step = 0; step < STEPS; step++)
            BT_SCOPE {
                bt_array *result = bt_call1(f, NULL, 0);
                OK(bt_eval(result));
                if (uneven && step * 7919 % 23 < 5) OK(bt_block(result));
                if (uneven && step * 7919 % 29 < 4) OK(bt_eval(bt_matmul(large, large)));
                if (step + 1 < STEPS) continue;
                OK(bt_read(result, &got, sizeof got));
                assert_true(got == 3 * VARIABLES * 2 * step);
            }
    }
    bti_recordings_counts made = count();
    if (made.launched < least)
        fail_msg("%s%s: %d of %d launched in one go, %d recorded, %d updated", settings, uneven ? ", uneven" : "",
                 (int)made.launched, STEPS, (int)made.recorded, (int)made.updated);
}

static void steps_that_run_ahead_are_launched_in_one_go(void **state) {
    (void)state;
    static const char *const settings[] = {"devices=sim:gpu,fuse=off", "devices=sim:h200*1,fuse=off"};
    for (int i = 0; i < 2; i++) {
        run_ahead(settings[i], false, 500);
        run_ahead(settings[i], true, 900);
    }
}

/* Each call is given memory that none before had: the addresses never come again. */
static void run_fresh(const char *settings, bool traced, uint64_t least) {
    enum { FRESH = 400 };
    begin(settings);
    bt_profile *profile = traced ? bt_profile_start() : NULL;
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 4), *y = bt_add(bt_mul(bt_mul(x, x), bt_num(3)), x), *given[FRESH];
        bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
        for (int i = 0; i < FRESH; i++) OK(bt_eval(given[i] = bt_full(i, BT_F32, 4)));
        (void)count();
        for (int i = 0; i < FRESH; i++)
            BT_SCOPE {
                float got[4];
                OK(bt_read(bt_call1(f, &given[i], 1), got, sizeof got));
                assert_true(got[3] == (float)(3 * i * i + i));
            }
    }
    if (traced) OK(bt_profile_stop(profile, NULL, NULL));
    bti_recordings_counts made = count();
    if (made.launched < least)
        fail_msg("%s: %d of %d launched in one go, %d recorded, %d updated", settings, (int)made.launched, FRESH,
                 (int)made.recorded, (int)made.updated);
}

static void memory_may_always_be_new(void **state) {
    (void)state;
    for (int traced = 0; traced < 2; traced++) {
        run_fresh("devices=sim:gpu,fuse=off", traced, 380);
        run_fresh("devices=sim:h200*1,fuse=off", traced, 380);
    }
}

static void failures_are_told(void **state) {
    (void)state;
    begin("devices=sim:gpu,fuse=off");
    BT_SCOPE {
        bt_shared *w = bt_shared_new(bt_zeros(BT_F32, 4), NULL);
        bt_function *f = step(w);
        bt_array *x = bt_ones(BT_F32, 4);
        float got[4];
        for (int call = 0; call < 10; call++)
            BT_SCOPE
                OK(bt_read(bt_call1(f, &x, 1), got, sizeof got));
        OK(bt_set_flag("sim_fault", "launch:2"));
        BT_SCOPE {
            assert_int_equal(bt_read(bt_call1(f, &x, 1), got, sizeof got), BT_INTERNAL);
            assert_non_null(strstr(bt_error_text(), "injected fault: call 2 of launch"));
        }
        OK(bt_set_flag("sim_fault", ""));
        bt_error_clear();
        OK(bt_read(bt_value(w), got, sizeof got));
        assert_true(got[0] == 20);                           /* a failed call changes nothing */
        (void)!bt_read(bt_call1(f, &x, 1), got, sizeof got); /* may tell of the one that was lost */
        float before[4];
        OK(bt_read(bt_value(w), before, sizeof before));
        OK(bt_read(bt_call1(f, &x, 1), got, sizeof got));
        assert_true(got[0] == before[0] + 3);
    }
}

/* fresh: each call has memory of its own, and the recording that is updated is there already. */
static void fail_any(bool traced, bool fresh) {
    enum { FIRST = 18, CALLS_WATCHED = 6 };
    bool failed = true;
    for (uint64_t nth = 1; failed; nth++) {
        begin("devices=sim:gpu,fuse=off");
        bt_profile *profile = traced ? bt_profile_start() : NULL;
        BT_SCOPE {
            bt_array *x = bt_input(BT_F32, 4), *y = bt_add(bt_mul(bt_mul(x, x), bt_num(3)), x),
                     *given[FIRST + CALLS_WATCHED];
            bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
            float got[4] = {0};
            int first = fresh ? FIRST : 2;
            for (int i = 0; i < FIRST + CALLS_WATCHED; i++)
                OK(bt_eval(given[i] = fresh || !i ? bt_ones(BT_F32, 4) : given[0]));
            for (int call = 0; call < first; call++)
                BT_SCOPE
                    OK(bt_read(bt_call1(f, &given[call], 1), got, sizeof got));
            bti_alloc_fail_at(nth, false);
            bt_status status = BT_OK;
            for (int call = 0; call < CALLS_WATCHED && status == BT_OK; call++)
                BT_SCOPE
                    status = bt_read(bt_call1(f, &given[first + call], 1), got, sizeof got);
            failed = bti_alloc_count() >= nth;
            bti_alloc_fail_at(0, false);
            assert_true(status == BT_OK ? got[0] == 4 : status == BT_RESOURCE_EXHAUSTED);
            bt_error_clear();
        }
        if (traced) OK(bt_profile_stop(profile, NULL, NULL));
    }
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    fail_any(false, false);
    fail_any(true, false);
    fail_any(false, true);
    fail_any(true, true);
}

static void square(bt_array **carry, bt_array *const *x, bt_array **y, void *unused) {
    (void)x, (void)y, (void)unused;
    carry[0] = bt_matmul(carry[0], carry[0]);
}

/* A scan of no steps copies what it carries, which is no launch: the others are not recorded with it. */
static void what_a_scan_of_no_steps_carries(void **state) {
    (void)state;
    begin("devices=sim:h200");
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 2, 2), *h = bt_matmul(x, x);
        OK(bt_scan(square, NULL, 0, &h, 1, NULL, 0, NULL, 0));
        bt_array *y = bt_matmul(bt_matmul(h, x), x);
        bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
        for (int call = 1; call <= CALLS; call++)
            BT_SCOPE {
                float values[] = {(float)call, 0, 0, (float)call}, got[4];
                bt_array *argument = bt_from(values, BT_F32, BT_SHAPE(2, 2));
                OK(bt_read(bt_call1(f, &argument, 1), got, sizeof got));
                assert_true(got[0] == (float)(call * call * call * call));
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_launched_in_one_go),
        cmocka_unit_test(memory_may_move),
        cmocka_unit_test(steps_that_run_ahead_are_launched_in_one_go),
        cmocka_unit_test(memory_may_always_be_new),
        cmocka_unit_test(what_a_scan_of_no_steps_carries),
        cmocka_unit_test(failures_are_told),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}

// labels: threads valgrind
// timeout: 120
/* Steps of shared variables on two simulated devices, one of which fails: what one step sets is kept or taken back as a whole,
 * with all that was computed from it, and nothing of it can be read before it is known to have succeeded. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <berth/dist.h>
#include <berth/function.h>
#include <berth/matrices.h>
#include <berth/ops.h>
#include <berth/flags.h>
#include <berth/view.h>

#include "base/flags.h"

#define OK(call) expect_status((call), BT_OK, __LINE__)
#define IS(call, status) expect_status((call), (status), __LINE__)
static void expect_status(bt_status got, bt_status wanted, int line) {
    if (got != wanted)
        fail_msg("line %d: %s, not %s: %s", line, bt_status_name(got), bt_status_name(wanted), bt_error_text());
}

static int lost_steps;
static void count_lost_steps(const char *line, void *data) {
    (void)data;
    lost_steps += !!strstr(line, "the step that set it failed");
}

static void set_fault(const char *text) { OK(bt_set_flag("sim_fault", text)); }

static int begin(void **state) {
    (void)state;
    OK(bt_set_flag("devices", "sim:gpu*2"));
    bt_set_log_sink(count_lost_steps, NULL);
    return 0;
}

/* Cards that order their copies themselves (exec/send.h). */
static int begin_cards(void **state) {
    (void)begin(state);
    OK(bt_set_flag("devices", "sim:h200*2"));
    return 0;
}

static int end(void **state) {
    (void)state;
    bt_set_log_sink(NULL, NULL);
    return bt_shutdown() != BT_OK;
}

/* What a variable holds; errors end the test. */
static double value_of(bt_shared *shared) {
    double value = 0;
    BT_SCOPE {
        bt_array *x = bt_value(shared);
        if (bt_block(x) != BT_OK) { /* it was not committed: the one before it is read */
            if (!strstr(bt_error_text(), "injected fault")) fail_msg("%s", bt_error_text());
            OK(bt_block(x = bt_value(shared)));
        }
        value = bt_item(x);
    }
    return value;
}

/* a on the device that works, b on the one that fails. */
typedef struct pair {
    bt_shared *a, *b;
} pair;

static pair pair_new(void) {
    pair p = {bt_shared_new(bt_f32(0), "gpu:0"), bt_shared_new(bt_f32(0), "gpu:1")};
    assert_non_null(p.a);
    assert_non_null(p.b);
    set_fault("");
    lost_steps = 0;
    return p;
}

static bt_status set_both(pair p, double value) {
    bt_shared *both[] = {p.a, p.b};
    bt_array *values[] = {bt_add(bt_value(p.a), bt_num(value)), bt_add(bt_value(p.b), bt_num(value))};
    return bt_set_all(both, values, 2);
}

#define LAUNCH_FAILS "gpu1/launch:1"

static void expect_pair(pair p, double a, double b, int line) {
    double has_a = value_of(p.a), has_b = value_of(p.b);
    if (has_a != a || has_b != b) fail_msg("line %d: %g and %g, not %g and %g", line, has_a, has_b, a, b);
}
#define PAIR(p, a, b) expect_pair((p), (a), (b), __LINE__)

/* The next set of one of the variables says it once; then they can be set. */
static void expect_told(pair p) {
    assert_int_equal(lost_steps, 1);
    IS(set_both(p, 100), BT_INTERNAL);
    OK(set_both(p, 100));
    PAIR(p, 100, 100);
    assert_int_equal(lost_steps, 1);
}

static void a_later_set_goes_with_the_step(void **state) {
    (void)state;
    BT_SCOPE {
        pair p = pair_new();
        set_fault(LAUNCH_FAILS);
        OK(set_both(p, 1));
        OK(bt_set(p.a, bt_add(bt_value(p.a), bt_num(10))));
        PAIR(p, 0, 0);
        set_fault("");
        PAIR(p, 0, 0);
        expect_told(p);
    }
}

static void a_chain_of_later_sets_goes_with_the_step(void **state) {
    (void)state;
    for (int behind = 0; behind < 2; behind++)
        BT_SCOPE {
            pair p = pair_new();
            bt_shared *c = bt_shared_new(bt_f32(7), "gpu:0");
            set_fault(LAUNCH_FAILS);
            OK(set_both(p, 1));
            bool lost = false;
            for (int i = 0; i < 20 && !lost; i++) {
                if (behind && bt_eval(bt_value(p.a)) != BT_OK) { /* the poller has noticed it already */
                    assert_non_null(strstr(bt_error_text(), "injected fault"));
                    lost = true;
                    break;
                }
                bt_array *next = bt_add(bt_value(p.a), bt_num(10));
                lost = bt_set(c, bt_add(next, bt_num(1))) != BT_OK;
                lost = lost || bt_set(p.a, next) != BT_OK;
            }
            set_fault("");
            PAIR(p, lost ? 0 : value_of(p.a), 0);
            bt_synchronize();
            PAIR(p, value_of(p.b) + value_of(p.a), 0);
            assert_true(value_of(c) == 7 || value_of(c) == 11 || value_of(c) == value_of(p.a) + 1);
            assert_int_equal(lost_steps, 1);
        }
}

static void a_set_that_does_not_depend_on_the_step_stays(void **state) {
    (void)state;
    BT_SCOPE {
        pair p = pair_new();
        set_fault(LAUNCH_FAILS);
        OK(set_both(p, 1));
        OK(bt_set(p.a, bt_mul(bt_f32(5), bt_f32(3))));
        bt_synchronize();
        set_fault("");
        PAIR(p, 15, 0);
    }
}

static void what_is_not_committed_cannot_be_read(void **state) {
    (void)state;
    BT_SCOPE {
        pair p = pair_new();
        set_fault(LAUNCH_FAILS);
        OK(set_both(p, 1));
        bt_array *value = bt_value(p.a), *derived = bt_add(value, bt_num(10)), *more[2];
        more[0] = bt_add(derived, value);
        OK(bt_eval(derived));
        bt_array *view = bt_reshape(bt_expand_dims(derived, 0), 1), *kept = bt_retain(bt_exp(derived));
        more[1] = bt_to(derived, "cpu");
        float got = 99;
        IS(bt_read(value, &got, sizeof got), BT_INTERNAL);
        assert_non_null(strstr(bt_error_text(), "injected fault"));
        IS(bt_read(derived, &got, sizeof got), BT_INTERNAL);
        IS(bt_block(view), BT_INTERNAL);
        assert_null(bt_map(more[0]));
        IS(bt_read(more[1], &got, sizeof got), BT_INTERNAL);
        IS(bt_peek_status(derived), BT_INTERNAL);
        IS(bt_block(kept), BT_INTERNAL);
        IS(bt_set(p.b, bt_to(derived, "gpu:1")), BT_INTERNAL);
        assert_true(got == 99);
        bt_release(kept);
        set_fault("");
        PAIR(p, 0, 0);
        expect_told(p);
    }
}

/* Values computed for a set are arrays like any other: they can be read whatever becomes of the step. */
static void what_was_set_stays_an_array(void **state) {
    (void)state;
    BT_SCOPE {
        pair p = pair_new();
        bt_shared *both[] = {p.a, p.b};
        bt_array *fine = bt_add(bt_value(p.a), bt_num(3)), *values[] = {fine, bt_add(bt_value(p.b), bt_num(3))};
        set_fault("gpu1/launch:1+");
        OK(bt_set_all(both, values, 2));
        assert_true(bt_item(fine) == 3);
        IS(bt_block(values[1]), BT_INTERNAL);
        set_fault("");
        PAIR(p, 0, 0);
    }
}

/* Sets that do not depend on each other, of which the first fails when it is waited for: the later ones are settled, and no wait goes on for ever. */
static void a_failed_set_below_others_holds_up_nobody(void **state) {
    (void)state;
    OK(bt_shutdown());
    OK(bt_set_flag("devices", "sim:h200*1"));
    BT_SCOPE {
        bt_shared *w = bt_shared_new(bt_full(0, BT_F32, 128, 128), NULL);
        OK(bt_shared_status(w));
        set_fault("wait:1");
        for (int i = 0; i < 24; i++) {
            bt_array *x = bt_full(i + 1, BT_F32, 128, 128);
            for (int k = 0; k < 4; k++) x = bt_mul(bt_matmul(x, x), bt_num(1e-6));
            (void)!bt_set(w, x);
            (void)!bt_eval(bt_value(w));
        }
        set_fault("");
        bt_synchronize();
        OK(bt_set(w, bt_full(7, BT_F32, 128, 128)));
        assert_true(bt_item(bt_max(bt_value(w), BT_ALL, false)) == 7);
    }
    OK(bt_shutdown());
    OK(bt_set_flag("devices", "sim:gpu*2"));
}

/* Several variables that were set one by one: what depends on all of them fails with any. */
static void results_depend_on_several_steps(void **state) {
    (void)state;
    BT_SCOPE {
        pair p[4];
        for (int i = 0; i < 4; i++) p[i] = pair_new();
        bt_shared *other = bt_shared_new(bt_f32(1), "gpu:0");
        bt_array *sum = bt_to(bt_f32(0), "gpu:0"), *clean = sum;
        for (int i = 0; i < 4; i++) {
            set_fault(i == 2 ? LAUNCH_FAILS : "");
            OK(set_both(p[i], 1));
            bt_array *value = bt_value(p[i].a);
            sum = bt_add(sum, value);
            if (i != 2) clean = bt_add(clean, value);
            bt_synchronize();
        }
        set_fault("");
        IS(bt_set(other, bt_add(sum, bt_num(1))), BT_INTERNAL); /* bt_synchronize has seen it */
        IS(bt_block(sum), BT_INTERNAL);
        assert_true(bt_item(clean) == 3 && value_of(other) == 1);
        for (int i = 0; i < 4; i++) PAIR(p[i], i != 2, i != 2);
    }
}

/* --- functions ------------------------------------------------------------------------------------------------------------ */

/* Each call adds the argument to both; its output is the sum before. */
static bt_function *adding(pair p) {
    bt_array *x = bt_input(BT_F32), *sum = bt_add(bt_value(p.a), bt_to(bt_value(p.b), "gpu:0"));
    bt_update updates[] = {{p.a, bt_add(bt_value(p.a), x)}, {p.b, bt_add(bt_value(p.b), x)}};
    bt_function *f = bt_function_new(&x, 1, &sum, 1, updates, 2);
    assert_non_null(f);
    return f;
}

/* Calls and sets with one fault at each point in time: whatever is taken back, both variables are as after some of the steps. */
static void functions_with_updates(const char *entry) {
    for (int n = 1; n <= 24; n++)
        BT_SCOPE {
            pair p = pair_new();
            bt_function *f = adding(p);
            char fault[40];
            snprintf(fault, sizeof fault, "%s:%d", entry, n);
            set_fault(fault);
            for (int i = 0; i < 6; i++) {
                bt_array *x = bt_f32(1), *sum = bt_call1(f, &x, 1);
                float before;
                if (i % 3 == 2 && bt_read(sum, &before, sizeof before) == BT_OK && (int)before % 2)
                    fail_msg("%s: %g was read", fault, (double)before);
                if (i % 2) (void)!set_both(p, 10);
                if (i == 3) bt_synchronize();
            }
            bt_synchronize();
            set_fault("");
            double a = value_of(p.a), b = value_of(p.b);
            if (a != b) fail_msg("%s: %g and %g", fault, a, b);
            if (a != 36 && !lost_steps && bt_error_status() == BT_OK) fail_msg("%s: %g, and nothing is told", fault, a);
            (void)!set_both(p, 1);
            OK(set_both(p, 1));
            assert_true(value_of(p.a) == value_of(p.b) && value_of(p.a) > a);
        }
}

static void functions_with_failing_launches(void **state) {
    (void)state;
    functions_with_updates("gpu1/launch");
    functions_with_updates("gpu0/launch");
}

static void functions_with_failing_copies(void **state) {
    (void)state;
    functions_with_updates("peer_copy");
    functions_with_updates("gpu1/record");
    functions_with_updates("gpu1/wait");
    functions_with_updates("gpu0/follow"); /* of cards */
}

/* --- replicas ------------------------------------------------------------------------------------------------------------- */

/* One replica on each device: a later set never makes them differ. */
static void replicas_stay_alike(void **state) {
    (void)state;
    static const char *const entries[] = {"peer_copy", "gpu1/launch", "gpu1/record", "gpu0/launch"};
    for (int i = 0; i < 4 * 6; i++)
        BT_SCOPE {
            char fault[40];
            snprintf(fault, sizeof fault, "%s:%d", entries[i / 6], i % 6 + 1);
            bt_strategy *s = bt_mirrored((const char *[]){"gpu:0", "gpu:1"}, 2);
            bt_shared *v = NULL;
            BT_STRATEGY(s) v = bt_shared_new(bt_f32(0), NULL);
            set_fault(fault);
            for (int k = 0; k < 4; k++) (void)!bt_set(v, bt_add(bt_value(v), bt_num(k % 2 ? 10 : 1)));
            bt_synchronize();
            set_fault("");
            double first = 0, second = 0;
            BT_REPLICA(s, 0) first = value_of(v);
            BT_REPLICA(s, 1) second = value_of(v);
            if (first != second) fail_msg("%s: %g and %g", fault, first, second);
        }
}

/* --- threads -------------------------------------------------------------------------------------------------------------- */

static void *read_it(void *shared) {
    static char text[512];
    float got = 99;
    bt_status status = BT_OK;
    BT_SCOPE
        status = bt_read(bt_value(shared), &got, sizeof got);
    snprintf(text, sizeof text, "%s %g %s", bt_status_name(status), (double)got, bt_error_text());
    return text;
}

/* A pending step of this thread is computed as a whole when another reads one variable of it. */
static void another_thread_reads(void **state) {
    (void)state;
    BT_SCOPE {
        pair p = pair_new();
        set_fault(LAUNCH_FAILS);
        OK(set_both(p, 1));
        pthread_t thread;
        void *text;
        assert_int_equal(pthread_create(&thread, NULL, read_it, p.a), 0);
        assert_int_equal(pthread_join(thread, &text), 0);
        if (strncmp(text, "INTERNAL 99 ", 12)) fail_msg("%s", (char *)text);
        set_fault("");
        PAIR(p, 0, 0);
        assert_int_equal(lost_steps, 1);
    }
}

/* Steps that each depend on the one before, over many variables: nothing recurses. */
static void long_chains_of_steps(void **state) {
    (void)state;
    enum { COUNT = 3000 };
    BT_SCOPE {
        pair p = pair_new();
        static bt_shared *chain[COUNT];
        for (int i = 0; i < COUNT; i++) chain[i] = bt_shared_new(bt_f32(0), "gpu:0");
        set_fault(LAUNCH_FAILS);
        OK(set_both(p, 1));
        bt_shared *before = p.a;
        for (int i = 0; i < COUNT; before = chain[i++]) OK(bt_set(chain[i], bt_value(before)));
        for (int i = COUNT - 1; i >= 0; i -= 500)
            if (value_of(chain[i]) != 0) fail_msg("%d: %g", i, value_of(chain[i]));
        PAIR(p, 0, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_later_set_goes_with_the_step),
        cmocka_unit_test(a_chain_of_later_sets_goes_with_the_step),
        cmocka_unit_test(a_set_that_does_not_depend_on_the_step_stays),
        cmocka_unit_test(what_is_not_committed_cannot_be_read),
        cmocka_unit_test(what_was_set_stays_an_array),
        cmocka_unit_test(a_failed_set_below_others_holds_up_nobody),
        cmocka_unit_test(results_depend_on_several_steps),
        cmocka_unit_test(functions_with_failing_launches),
        cmocka_unit_test(functions_with_failing_copies),
        cmocka_unit_test(replicas_stay_alike),
        cmocka_unit_test(another_thread_reads),
        cmocka_unit_test(long_chains_of_steps),
    };
    int failed = cmocka_run_group_tests(tests, begin, end);
    return failed ? failed : cmocka_run_group_tests_name("on cards", tests, begin_cards, end);
}

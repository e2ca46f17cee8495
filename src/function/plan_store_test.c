// labels: threads
/* The store of all kept plans, of evaluations and of calls of functions: its bound, what leaves, and what a flag of 0 means. */
#include <pthread.h>
#include <string.h>

#include "array/plan_test.h"

enum { THREADS = 8, FUNCTIONS = 4, MOST = 96 };

static bti_plan_cache_counts count(void) { return bti_plan_cache_count(); }
/* f(x) = x * by + 1, of any length. */
static bt_function *times(double by) {
    bt_array *x = bt_input(BT_F32, -1), *y = bt_add(bt_mul(x, bt_num(by)), bt_num(1));
    bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
    OK(bt_function_status(f));
    return f;
}

/* A wrong element, or NULL. */
static const char *call(bt_function *f, double by, int length) {
    float data[MOST], got[MOST];
    const char *wrong = NULL;
    for (int i = 0; i < length; i++) data[i] = (float)i;
    BT_SCOPE {
        bt_array *x = bt_from(data, BT_F32, BT_SHAPE(length)), *y = bt_call1(f, &x, 1);
        if (bt_read(y, got, (size_t)length * sizeof *got) != BT_OK) wrong = bt_error_text();
        for (int i = 0; i < length && !wrong; i++)
            if (got[i] != (float)(i * by + 1)) wrong = "a wrong element";
    }
    return wrong;
}
static void expect_call(bt_function *f, double by, int length) {
    const char *wrong = call(f, by, length);
    if (wrong) fail_msg("%s", wrong);
}

static void evaluate(int length) {
    BT_SCOPE {
        bt_array *x = bt_arange(0, length, 1, BT_F32);
        OK(bt_eval(bt_mul(x, x)));
    }
}

static void one_bound_for_all(void **state) {
    (void)state;
    restart("devices=sim:gpu*1@64M,plan_cache=150K");
    BT_SCOPE {
        bt_function *f[FUNCTIONS];
        for (int i = 0; i < FUNCTIONS; i++) f[i] = times(i);
        assert_int_equal(count().plans, 0);
        expect_call(f[0], 0, 3);
        size_t one = count().bytes;
        assert_int_equal(count().plans, 1);
        assert_in_range(one, 1000, 40 << 10);
        for (int length = 1; length < MOST; length++) {
            for (int i = 0; i < FUNCTIONS; i++) expect_call(f[i], i, length);
            for (int i = 0; i < 3; i++) evaluate(length);
            assert_true(count().bytes <= 150 << 10);
        }
        assert_in_range(count().plans, 5, 60);
        uint64_t before = made();
        expect_call(f[0], 0, MOST - 1); /* lately used: it is there */
        assert_int_equal(made(), before);
        expect_call(f[0], 0, 2); /* has left */
        assert_int_equal(made(), before + 1);
    }
}

static void a_function_takes_its_plans_along(void **state) {
    (void)state;
    restart("devices=sim:gpu*1@64M");
    for (int i = 0; i < 3; i++) evaluate(5);
    bti_plan_cache_counts before = count();
    assert_true(before.plans > 0);
    BT_SCOPE {
        bt_function *f = times(2);
        for (int length = 1; length < 20; length++) expect_call(f, 2, length);
        assert_int_equal(count().plans, before.plans + 19);
    }
    assert_int_equal(count().plans, before.plans);
    assert_int_equal(count().bytes, before.bytes);
    assert_int_equal(bt_shutdown(), BT_OK);
    assert_int_equal(count().plans, 0);
    assert_int_equal(count().bytes, 0);
}

/* Lengths that were never there are planned; what is used again and again stays, in functions and in loops. */
static void growing_sizes_do_not_evict_what_is_used(void **state) {
    (void)state;
    restart("devices=sim:gpu*1@64M,plan_cache=100K");
    BT_SCOPE {
        bt_function *often = times(3), *grows = times(4);
        for (int i = 0; i < 3; i++) evaluate(7);
        expect_call(often, 3, 5);
        for (int length = 1; length < MOST; length++) {
            uint64_t before = made();
            expect_call(grows, 4, length);
            assert_int_equal(made(), before + 1);
            expect_call(often, 3, 5);
            evaluate(7);
            assert_int_equal(made(), before + 1);
        }
        assert_true(count().plans < 40);
    }
}

static void a_plan_stays_whatever_its_size(void **state) {
    (void)state;
    restart("devices=sim:gpu*1@64M,plan_cache=10");
    BT_SCOPE {
        bt_function *f = times(2);
        expect_call(f, 2, 4);
        uint64_t before = made();
        for (int i = 0; i < 4; i++) expect_call(f, 2, 4);
        assert_int_equal(made(), before);
        assert_int_equal(count().plans, 1);
        expect_call(f, 2, 5);
        assert_int_equal(count().plans, 1);
        assert_int_equal(made(), before + 1);
    }
}

static void nothing_is_kept_with_a_flag_of_0(void **state) {
    (void)state;
    restart("devices=sim:gpu*1@64M");
    BT_SCOPE {
        bt_function *f = times(2);
        expect_call(f, 2, 4);
        bt_shared *sum = bt_shared_new(bt_f32(1), NULL);
        bt_array *x = bt_input(BT_F32, 4), *next = bt_add(bt_value(sum), bt_sum(x, BT_ALL, false));
        bt_update update = {sum, next};
        bt_function *adds = bt_function_new(&x, 1, &next, 1, &update, 1);
        OK(bt_set_flag("plan_cache", "0"));
        for (int i = 0; i < 4; i++) {
            uint64_t before = made();
            expect_call(f, 2, 4);
            assert_int_equal(made(), before + 1);
            bt_array *ones = bt_from(((float[]){1, 1, 1, 1}), BT_F32, BT_SHAPE(4)), *got = bt_call1(adds, &ones, 1);
            assert_true(bt_item(got) == 5 + 4 * i);
            assert_true(bt_item(bt_value(sum)) == 5 + 4 * i);
        }
        OK(bt_set_flag("plan_cache", "1M"));
        uint64_t before = made();
        for (int i = 0; i < 4; i++) expect_call(f, 2, 4); /* that from before was kept */
        assert_int_equal(made(), before);
    }
}

static void donations_are_settled_by_the_first_call(void **state) {
    (void)state;
    restart("devices=sim:gpu*1@64M,plan_cache=10");
    BT_SCOPE {
        bt_function *f = times(2), *other = times(3);
        expect_call(f, 2, 4);
        expect_call(other, 3, 4); /* the first one's plan leaves */
        assert_int_equal(bt_function_donate(f, 0), BT_FAILED_PRECONDITION);
        expect_call(f, 2, 4);
    }
}

typedef struct caller {
    bt_function *shared;
    int number;
    const char *wrong;
} caller;

static void *call_and_evaluate(void *argument) {
    caller *c = argument;
    BT_SCOPE {
        bt_function *own = times(c->number);
        for (int i = 0; i < 150 && !c->wrong; i++) {
            c->wrong = call(own, c->number, 1 + i % 7);
            if (!c->wrong) c->wrong = call(c->shared, 5, 1 + (i + c->number) % 11);
            evaluate(1 + i % 5);
            if (i % 50 == 49) own = times(c->number); /* the former goes with the scope, its plans before or then */
        }
    }
    return NULL;
}

/* Plans leave, and functions end, while others look for theirs. */
static void eight_threads_and_no_room(void **state) {
    (void)state;
    restart("devices=sim:gpu*1@64M,plan_cache=40K");
    pthread_t threads[THREADS];
    caller callers[THREADS];
    BT_SCOPE {
        bt_function *shared = times(5);
        for (int t = 0; t < THREADS; t++) {
            callers[t] = (caller){shared, t, NULL};
            assert_int_equal(pthread_create(&threads[t], NULL, call_and_evaluate, &callers[t]), 0);
        }
        for (int t = 0; t < THREADS; t++) {
            pthread_join(threads[t], NULL);
            if (callers[t].wrong) fail_msg("%s", callers[t].wrong);
        }
        assert_true(count().bytes <= 40 << 10);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(one_bound_for_all, finish),
        cmocka_unit_test_teardown(a_function_takes_its_plans_along, finish),
        cmocka_unit_test_teardown(growing_sizes_do_not_evict_what_is_used, finish),
        cmocka_unit_test_teardown(a_plan_stays_whatever_its_size, finish),
        cmocka_unit_test_teardown(nothing_is_kept_with_a_flag_of_0, finish),
        cmocka_unit_test_teardown(donations_are_settled_by_the_first_call, finish),
        cmocka_unit_test_teardown(eight_threads_and_no_room, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

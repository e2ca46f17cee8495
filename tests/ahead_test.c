// timeout: 120
/* Work that runs ahead of the program keeps little memory: results that nobody reads, uploads, temporaries, replaced values of variables. */
#include <pthread.h>

#include "support/support.h"

enum { ELEMENTS = 4 << 20, BYTES = 4 * ELEMENTS, CALLS = 40 };
static const char *const settings[] = {"devices=sim:gpu", "devices=sim:h200"};
#define EACH_SETTING                                                                                    \
    for (size_t s_ = 0; s_ < sizeof settings / sizeof *settings; s_++)                                  \
        for (int small_ = 0; small_ < 2; small_++)                                                      \
            if ((fresh(settings[s_]),                                                                   \
                 small_ ? OK(bt_set_flag("ahead_bytes", "0")) : OK(bt_set_flag("ahead_bytes", "48M"))), \
                true)

static void expect_peak(double most) {
    double peak = (double)memory("gpu:0").peak / BYTES;
    if (peak > most) fail_msg("%g results at once, not at most %g", peak, most);
}

static bt_function *square_and_one(void) {
    bt_array *x = bt_input(BT_F32, ELEMENTS), *y = bt_add(bt_mul(x, x), bt_num(1));
    return bt_function_new(&x, 1, &y, 1, NULL, 0);
}

static void dropped_results(void **state) {
    (void)state;
    EACH_SETTING BT_SCOPE {
        BT_ON("gpu:0") {
            bt_function *f = square_and_one();
            bt_array *x = bt_ones(BT_F32, ELEMENTS), *last = NULL;
            OK(bt_block(x));
            for (int i = 0; i < CALLS; i++)
                BT_SCOPE
                    bt_assign(&last, bt_call1(f, &x, 1));
            assert_true(bt_item(bt_max(last, BT_ALL, false)) == 2);
            bt_assign(&last, NULL);
            for (int i = 0; i < CALLS; i++)
                BT_SCOPE
                    OK(bt_eval(bt_exp(x)));
            bt_synchronize();
            expect_peak(5); /* x, the last one, the one that replaces it, and a sum in parts */
        }
    }
}

/* What a program holds is never waited for to be released. */
static void held_results(void **state) {
    (void)state;
    EACH_SETTING BT_SCOPE {
        BT_ON("gpu:0") {
            bt_function *f = square_and_one();
            bt_array *x = bt_ones(BT_F32, ELEMENTS), *held[CALLS];
            for (int i = 0; i < CALLS; i++) held[i] = bt_call1(f, &x, 1);
            for (int i = 0; i < CALLS; i++) assert_true(bt_item(bt_max(held[i], BT_ALL, false)) == 2);
        }
    }
}

static bt_function *counting(bt_shared *w) {
    bt_array *x = bt_input_shape(BT_F32, (bt_shape){0}), *next = bt_add(bt_value(w), x);
    bt_array *loss = bt_sum(next, BT_ALL, false);
    bt_update update = {w, next};
    return bt_function_new(&x, 1, &loss, 1, &update, 1);
}

/* A variable whose first value takes memory, and a function that sets it. */
static bt_function *counting_from_zeros(bt_shared **w) {
    bt_function *f = NULL;
    BT_SCOPE { /* what is recorded here holds that value */
        bt_array *zeros = bt_mul(bt_uniform(bt_key(1), BT_F32, ELEMENTS), bt_num(0));
        OK(bt_block(zeros));
        *w = bt_shared_retain(bt_shared_new(zeros, NULL));
        f = bt_function_retain(counting(*w));
    }
    return f;
}

static void variables(void **state) {
    (void)state;
    for (int reads = 0; reads < 2; reads++) EACH_SETTING BT_SCOPE {
            BT_ON("gpu:0") {
                bt_shared *w;
                bt_function *f = counting_from_zeros(&w);
                bt_array *one = bt_f32(1);
                OK(bt_block(one));
                bt_synchronize();
                bt_memory_reset_peak(bt_default_device());
                for (int i = 0; i < CALLS; i++)
                    BT_SCOPE {
                        bt_array *loss = bt_call1(f, &one, 1);
                        if (reads) assert_true(bt_item(loss) == (i + 1.0) * ELEMENTS);
                    }
                bt_synchronize();
                expect_peak(small_ ? 2.1 : 3.1);
                assert_true(memory("gpu:0").used < BYTES * 1.1); /* the replaced value is gone without a read */
                assert_true(bt_item(bt_max(bt_value(w), BT_ALL, false)) == CALLS);
                bt_function_release(f);
                bt_shared_release(w);
            }
        }
}

/* Values that are replaced, while nobody has looked whether the steps succeeded, are not the reason for memory that is short. */
static void short_memory(void **state) {
    (void)state;
    fresh("devices=sim:gpu@72M,ahead_bytes=1T");
    BT_SCOPE {
        BT_ON("gpu:0") {
            bt_shared *w = bt_shared_new(bt_zeros(BT_F32, ELEMENTS), NULL);
            bt_function *f = counting(w);
            bt_array *one = bt_f32(1);
            for (int i = 0; i < CALLS; i++)
                BT_SCOPE
                    assert_int_equal(bt_peek_status(bt_call1(f, &one, 1)), BT_OK);
            assert_true(bt_item(bt_max(bt_value(w), BT_ALL, false)) == CALLS);
        }
    }
}

/* The step fails while others are ahead of it: it and what depends on it are taken back. */
static void a_step_fails(void **state) {
    (void)state;
    for (int n = 1; n < 12; n++) {
        fresh("devices=sim:gpu");
        OK(bt_set_flag("ahead_bytes", n % 2 ? "0" : "1T"));
        BT_SCOPE {
            BT_ON("gpu:0") {
                bt_shared *w = bt_shared_new(bt_zeros(BT_F32, ELEMENTS), NULL);
                bt_function *f = counting(w);
                bt_array *one = bt_f32(1);
                OK(bt_block(one));
                char fault[40];
                snprintf(fault, sizeof fault, "gpu0/launch:%d", n);
                OK(bt_set_flag("sim_fault", fault));
                for (int i = 0; i < 6; i++)
                    BT_SCOPE(void) bt_call1(f, &one, 1);
                bt_synchronize();
                OK(bt_set_flag("sim_fault", ""));
                double least = bt_item(bt_min(bt_value(w), BT_ALL, false));
                assert_true(least == bt_item(bt_max(bt_value(w), BT_ALL, false)) && least >= 0 && least <= 6);
            }
        }
    }
}

static void *call_often(void *function) {
    BT_SCOPE {
        BT_ON("gpu:0") {
            bt_array *x = bt_ones(BT_F32, ELEMENTS), *last = NULL;
            for (int i = 0; i < CALLS; i++)
                BT_SCOPE
                    bt_assign(&last, bt_call1(function, &x, 1));
            bool right = bt_item(bt_max(last, BT_ALL, false)) == 2 && bt_item(bt_min(last, BT_ALL, false)) == 2;
            bt_assign(&last, NULL);
            if (!right) return function;
        }
    }
    return NULL;
}

static void several_threads(void **state) {
    (void)state;
    EACH_SETTING BT_SCOPE {
        bt_function *f;
        BT_ON("gpu:0") f = square_and_one();
        pthread_t threads[3];
        for (int t = 0; t < 3; t++) assert_int_equal(pthread_create(&threads[t], NULL, call_often, f), 0);
        for (int t = 0; t < 3; t++) {
            void *wrong;
            assert_int_equal(pthread_join(threads[t], &wrong), 0);
            assert_null(wrong);
        }
        expect_peak(16);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dropped_results), cmocka_unit_test(held_results), cmocka_unit_test(variables),
        cmocka_unit_test(short_memory),    cmocka_unit_test(a_step_fails), cmocka_unit_test(several_threads),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}

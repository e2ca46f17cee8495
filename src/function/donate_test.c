// labels: threads valgrind
/* Donated arguments: results in their memory where nobody else reads them, errors for who uses them after the call, and all else as without. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "array/handle.h"
#include "exec/exec.h"
#include "support/settings.h"

enum { N = 4096 };

static const char *const settings[] = {"",
                                       "kernels=interpreter",
                                       "fuse=off",
                                       "memory_pool=off",
                                       "memory_fill=on",
                                       "devices=sim:gpu",
                                       "devices=sim:gpu,memory_fill=on",
                                       "devices=sim:h200"};
#define EACH_SETTING(s) for (size_t s = 0; s < sizeof settings / sizeof *settings; s++)

/* x -> x * 2 + 1, of so many elements. */
static bt_function *stepping(bool donates) {
    bt_array *x = bt_input(BT_F32, N), *y = bt_add(bt_mul(x, bt_num(2)), bt_num(1));
    bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
    if (donates) OK(bt_function_donate(f, 0));
    return f;
}

static bt_array *filled(double value) {
    static _Thread_local float elements[N];
    for (int i = 0; i < N; i++) elements[i] = (float)value;
    return bt_from(elements, BT_F32, BT_SHAPE(N));
}

static uint64_t memory_of(bt_array *x) { return bti_node_of(x)->buffer->address; }

static void expect_filled(bt_array *x, double wanted, int line) {
    static float got[N];
    if (bt_read(x, got, sizeof got) != BT_OK) fail_msg("line %d: %s", line, bt_error_text());
    for (int i = 0; i < N; i++)
        if ((double)got[i] != wanted) fail_msg("line %d: [%d] is %g, not %g", line, i, (double)got[i], wanted);
}
#define HAS(x, wanted) expect_filled((x), (wanted), __LINE__)

static void expect_donated(bt_status status, int call_line, int line) {
    char place[64];
    snprintf(place, sizeof place, "donate_test.c:%d", call_line);
    if (status != BT_INVALID_ARGUMENT || !strstr(bt_error_text(), place) || !strstr(bt_error_text(), "donated"))
        fail_msg("line %d: %s: %s", line, bt_status_name(status), bt_error_text());
}
#define DONATED(status, call_line) expect_donated((status), (call_line), __LINE__)

/* Calls f with x; whether the result has the memory that x had. */
static bool is_passed(bt_function *f, bt_array *x, double wanted) {
    uint64_t before = memory_of(x);
    bt_array *y = bt_call1(f, &x, 1);
    OK(bt_block(y));
    HAS(y, wanted);
    return memory_of(y) == before;
}

/* --- memory --------------------------------------------------------------------------------------------------------------- */

static void a_result_takes_the_memory(void **state) {
    (void)state;
    EACH_SETTING(s) {
        begin(settings[s]);
        BT_SCOPE {
            bt_function *f = stepping(true), *g = stepping(false);
            bool in_place = !strstr(settings[s], "interpreter") && !strstr(settings[s], "fuse=off");
            if (is_passed(f, filled(3), 7) < in_place) fail_msg("%s", settings[s]);
            bt_array *x = filled(3);
            assert_false(is_passed(g, x, 7));
            HAS(x, 3);
        }
    }
}

/* The state of a loop is in one place, and values are those of the same loop without donation. */
static void a_loop_stays_in_its_memory(void **state) {
    (void)state;
    EACH_SETTING(s) {
        begin(settings[s]);
        bt_function *f[2];
        bt_array *x[2] = {NULL, NULL};
        BT_SCOPE {
            for (int donates = 0; donates < 2; donates++) f[donates] = bt_function_retain(stepping(donates));
            for (int k = 0; k < 2; k++) bt_assign(&x[k], filled(0.25));
        }
        for (int i = 0; i < 12; i++)
            BT_SCOPE
                for (int k = 0; k < 2; k++) bt_assign(&x[k], bt_call1(f[k], &x[k], 1));
        static float got[2][N];
        for (int k = 0; k < 2; k++) {
            OK(bt_read(x[k], got[k], sizeof got[k]));
            bt_release(x[k]);
            bt_function_release(f[k]);
        }
        assert_memory_equal(got[0], got[1], sizeof got[0]);
    }
}

static bt_function *two_outputs(void) {
    bt_array *in[] = {bt_input(BT_F32, N), bt_input(BT_F32, N)};
    bt_array *sum = bt_add(in[0], in[1]), *out[] = {sum, bt_sub(bt_mul(sum, sum), in[0])};
    bt_function *f = bt_function_new(in, 2, out, 2, NULL, 0);
    OK(bt_function_donate(f, 0));
    OK(bt_function_donate(f, 1));
    OK(bt_function_donate(f, 1)); /* says nothing new */
    return f;
}

static void several_arguments(void **state) {
    (void)state;
    EACH_SETTING(s) {
        begin(settings[s]);
        BT_SCOPE {
            bt_function *f = two_outputs();
            for (int i = 0; i < 3; i++) {
                bt_array *in[] = {filled(3), filled(4 + i)}, *out[2];
                OK(bt_call(f, in, 2, out, 2));
                HAS(out[1], (7 + i) * (7 + i) - 3);
                HAS(out[0], 7 + i);
                assert_int_equal(bt_peek_status(in[0]), BT_INVALID_ARGUMENT);
                assert_int_equal(bt_peek_status(in[1]), BT_INVALID_ARGUMENT);
            }
        }
    }
}

/* No result has as many bytes, and the call reads it in other ways: its memory is free when the call is done. */
static void what_no_result_takes_is_freed(void **state) {
    (void)state;
    begin("devices=sim:gpu");
    BT_SCOPE {
        bt_array *in = bt_input(BT_F32, N), *y = bt_sum(in, BT_ALL, false);
        bt_function *f = bt_function_new(&in, 1, &y, 1, NULL, 0);
        OK(bt_function_donate(f, 0));
        bt_array *x = filled(2), *total = bt_call1(f, &x, 1);
        assert_true(bt_item(total) == 2 * N);
        bt_memory_info memory = BT_MEMORY_INFO_INIT;
        OK(bt_memory(bt_device_get(BT_GPU, 0), &memory));
        assert_true(memory.used < N * sizeof(float));
    }
}

/* --- who else reads it ---------------------------------------------------------------------------------------------------- */

static void others_keep_the_value(void **state) {
    (void)state;
    EACH_SETTING(s) {
        begin(settings[s]);
        BT_SCOPE {
            bt_function *f = stepping(true);
            bt_array *x = filled(3), *view = bt_reshape(x, 2, N / 2);
            OK(bt_block(view));
            assert_false(is_passed(f, x, 7));
            HAS(bt_reshape(view, N), 3);

            bt_array *read = bt_add(x = filled(3), bt_num(2)); /* not computed */
            assert_false(is_passed(f, x, 7));
            HAS(read, 5);

            bt_array *submitted = bt_add(x = filled(3), bt_num(2));
            bt_retain(submitted); /* it forgets what it was made of */
            OK(bt_eval(submitted));
            bt_array *y = bt_call1(f, &x, 1);
            HAS(submitted, 5);
            HAS(y, 7);
            bt_release(submitted);

            bt_array *recorded = bt_exp(x = filled(0)); /* its gradient reads x */
            OK(bt_block(recorded));
            assert_false(is_passed(f, x, 1));
            HAS(recorded, 1);

            bt_shared *w = bt_shared_new(filled(3), NULL);
            assert_false(is_passed(f, bt_value(w), 7));
            HAS(bt_value(w), 3);
            x = filled(4);
            OK(bt_set(w, x));
            y = bt_call1(f, &x, 1);
            HAS(y, 9);
            HAS(bt_value(w), 4);

            bt_array *other = bt_value(w);
            assert_false(is_passed(f, bt_value(w), 9));
            HAS(other, 4);
        }
    }
}

static void mapped_memory_stays(void **state) {
    (void)state;
    EACH_SETTING(s) {
        begin(settings[s]);
        BT_SCOPE {
            bt_array *x = filled(3);
            const float *map = bt_map(x);
            (void)is_passed(stepping(true), x, 7);
            for (int i = 0; i < N; i++) assert_true((double)map[i] == 3);
            assert_null(bt_map(x));
        }
    }
    begin("");
    BT_SCOPE {
        static float lent[N];
        bt_array *x = bt_from_lent(lent, BT_F32, BT_SHAPE(N), NULL, NULL);
        OK(bt_block(bt_call1(stepping(true), &x, 1)));
        for (int i = 0; i < N; i++) assert_true((double)lent[i] == 0);
    }
}

/* The argument is an output, or a variable's new value, as it is; or a view of it is. */
static void passed_through(void **state) {
    (void)state;
    EACH_SETTING(s) {
        begin(settings[s]);
        BT_SCOPE {
            bt_array *in = bt_input(BT_F32, N), *out[] = {in, bt_mul(in, bt_num(3)), bt_reshape(in, N / 2, 2)};
            bt_shared *w = bt_shared_new(filled(0), NULL);
            bt_function *f = bt_function_new(&in, 1, out, 3, &(bt_update){w, in}, 1);
            OK(bt_function_donate(f, 0));
            for (int i = 1; i < 4; i++) {
                bt_array *x = filled(i), *got[3];
                OK(bt_call(f, &x, 1, got, 3));
                HAS(got[0], i);
                HAS(got[1], 3 * i);
                HAS(bt_reshape(got[2], N), i);
                HAS(bt_value(w), i);
                assert_int_equal(bt_peek_status(x), BT_INVALID_ARGUMENT);
            }
        }
    }
}

/* --- use after the call --------------------------------------------------------------------------------------------------- */

static void uses_are_errors(void **state) {
    (void)state;
    EACH_SETTING(s) {
        begin(settings[s]);
        BT_SCOPE {
            bt_function *f = stepping(true), *g = stepping(true);
            bt_array *x = filled(3), *y = bt_call1(f, &x, 1), *again;
            int line = __LINE__ - 1;
            static float got[N];
            double item;
            int64_t first = 0;
            DONATED(bt_read(x, got, sizeof got), line);
            DONATED(bt_eval(x), line);
            DONATED(bt_block(x), line);
            DONATED(bt_item_at(x, &first, &item), line);
            DONATED(bt_write(x, got, sizeof got), line);
            DONATED(bt_call(f, &x, 1, &again, 1), line);
            DONATED(bt_call(g, &x, 1, &again, 1), line);
            DONATED(bt_peek_status(again), line);
            DONATED(bt_block(bt_add(x, y)), line);
            DONATED(bt_block(bt_reshape(x, N / 2, 2)), line);
            DONATED(bt_shared_status(bt_shared_new(x, NULL)), line);
            DONATED(bt_block(bt_grad1(bt_sum(y, BT_ALL, false), x)), line);
            assert_null(bt_map(x));
            assert_int_equal(bt_dtype_of(x), BT_F32);
            assert_int_equal(bt_count(x), N);
            bt_retain(x);
            DONATED(bt_eval(x), line);
            bt_release(x);
            HAS(y, 7);
        }
    }
}

static void refused_calls_take_nothing(void **state) {
    (void)state;
    EACH_SETTING(s) {
        begin(settings[s]);
        BT_SCOPE {
            bt_function *f = two_outputs(), *g = stepping(true);
            bt_array *x = filled(3), *twice[] = {x, x}, *pair[] = {x, bt_full(1, BT_F32, 7)}, *out[2];
            assert_int_equal(bt_call(f, twice, 2, out, 2), BT_INVALID_ARGUMENT);
            assert_non_null(strstr(bt_error_text(), "argument 1 is donated, and it is argument 2 too"));
            HAS(x, 3);
            assert_int_equal(bt_call(f, pair, 2, out, 2), BT_INVALID_ARGUMENT);
            HAS(x, 3);
            HAS(pair[1] = bt_full(1, BT_F32, N), 1);
            assert_int_equal(bt_call(f, pair, 2, out, 1), BT_INVALID_ARGUMENT);
            assert_int_equal(bt_call(f, pair, 1, out, 2), BT_INVALID_ARGUMENT);
            assert_int_equal(bt_call(f, (bt_array *[]){x, NULL}, 2, out, 2), BT_INVALID_ARGUMENT);
            HAS(x, 3);
            OK(bt_block(bt_call1(g, &x, 1)));
            assert_int_equal(bt_function_donate(g, 0), BT_FAILED_PRECONDITION);
            assert_int_equal(bt_function_donate(f, 2), BT_OUT_OF_RANGE);
            assert_int_equal(bt_function_donate(f, -1), BT_OUT_OF_RANGE);
            assert_int_equal(bt_function_donate(NULL, 0), BT_INVALID_ARGUMENT);
        }
    }
}

/* A call inside of another function donates nothing: neither what has a value nor what has none. */
static void recorded_calls_donate_nothing(void **state) {
    (void)state;
    begin("");
    BT_SCOPE {
        bt_function *f = two_outputs();
        bt_array *constant = filled(3), *in = bt_input(BT_F32, N), *out[2];
        OK(bt_call(f, (bt_array *[]){in, constant}, 2, out, 2));
        bt_function *outer = bt_function_new(&in, 1, out, 2, NULL, 0);
        for (int i = 0; i < 3; i++) {
            bt_array *x = filled(4), *got[2];
            OK(bt_call(outer, &x, 1, got, 2));
            HAS(got[0], 7);
            HAS(x, 4);
            HAS(constant, 3);
        }
    }
}

/* --- gradients ------------------------------------------------------------------------------------------------------------ */

static void gradients_are_cut(void **state) {
    (void)state;
    static const char *const ways[] = {"", "kernels=interpreter", "explain=on", "sync=on"};
    for (int s = 0; s < 4; s++)
        for (int computed = 0; computed < 2; computed++) {
            begin(ways[s]);
            BT_SCOPE {
                bt_shared *w = bt_shared_new(filled(2), NULL);
                bt_array *in = bt_input(BT_F32, N), *out = bt_mul(bt_mul(in, in), bt_value(w));
                bt_function *f = bt_function_new(&in, 1, &out, 1, NULL, 0);
                OK(bt_function_donate(f, 0));
                bt_array *a = filled(3), *x = bt_mul(a, bt_num(1)), *g;
                if (computed) OK(bt_block(x));
                bt_array *y = bt_call1(f, &x, 1);
                char place[64];
                snprintf(place, sizeof place, "donate_test.c:%d: bt_call with a donated argument", __LINE__ - 2);
                bt_array *loss = bt_sum(bt_mul(y, y), BT_ALL, false);
                assert_int_equal(bt_grad(loss, &a, 1, &g), BT_FAILED_PRECONDITION);
                if (!strstr(bt_error_text(), place)) fail_msg("%s: %s", ways[s], bt_error_text());
                assert_int_equal(bt_grad_shared(loss, &w, 1, &g), BT_FAILED_PRECONDITION);
                if (!strstr(bt_error_text(), place)) fail_msg("%s: %s", ways[s], bt_error_text());
                HAS(bt_grad1(loss, y), 36); /* from there on */
                HAS(y, 18);
            }
        }
}

/* --- threads -------------------------------------------------------------------------------------------------------------- */

enum { THREADS = 8 };

typedef struct user {
    bt_function *function;
    bt_array *x;
    int number;
    char failed[256];
} user;

/* Calls, reads or computes with the array that others donate at the same time: its value, or the error. */
static void *use_it(void *data) {
    user *my = data;
    static _Thread_local float got[N];
    BT_SCOPE {
        bt_array *y = my->number % 3 == 0   ? bt_call1(my->function, &my->x, 1)
                      : my->number % 3 == 1 ? bt_add(my->x, bt_num(4))
                                            : my->x;
        bt_status status = bt_read(y, got, sizeof got);
        double wanted = my->number % 3 == 2 ? 3 : 7;
        if (status != BT_OK && (status != BT_INVALID_ARGUMENT || !strstr(bt_error_text(), "donated")))
            snprintf(my->failed, sizeof my->failed, "%d: %s", my->number, bt_error_text());
        for (int i = 0; i < N && status == BT_OK && !*my->failed; i++)
            if ((double)got[i] != wanted)
                snprintf(my->failed, sizeof my->failed, "%d: [%d] is %g", my->number, i, (double)got[i]);
    }
    return NULL;
}

static void many_threads_donate_one_array(void **state) {
    (void)state;
    static const char *const on[] = {"", "devices=sim:gpu", "kernels=interpreter"};
    for (int s = 0; s < 3; s++) {
        begin(on[s]);
        BT_SCOPE {
            bt_function *f = stepping(true);
            (void)is_passed(f, filled(3), 7);
            for (int round = 0; round < 30; round++)
                BT_SCOPE {
                    bt_array *x = filled(3);
                    pthread_t threads[THREADS];
                    user users[THREADS];
                    for (int t = 0; t < THREADS; t++) {
                        users[t] = (user){.function = f, .x = x, .number = t};
                        assert_int_equal(pthread_create(&threads[t], NULL, use_it, &users[t]), 0);
                    }
                    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
                    for (int t = 0; t < THREADS; t++)
                        if (*users[t].failed) fail_msg("%s", users[t].failed);
                    assert_int_equal(bt_peek_status(x), BT_INVALID_ARGUMENT);
                }
        }
    }
}

/* Each replica donates what it has. */
static void in_replicas(void **state) {
    (void)state;
    begin("devices=sim:gpu*2");
    BT_SCOPE {
        bt_strategy *both = bt_mirrored((const char *[]){"gpu:0", "gpu:1"}, 2);
        for (int i = 0; i < 3; i++)
            for (int r = 0; r < 2; r++)
                BT_REPLICA(both, r) {
                    bt_function *f = stepping(true);
                    bt_array *x = filled(r + i);
                    if (!is_passed(f, x, 2 * (r + i) + 1)) fail_msg("replica %d, call %d", r, i);
                    assert_int_equal(bt_peek_status(x), BT_INVALID_ARGUMENT);
                }
        BT_STRATEGY(both) {
            bt_shared *w = bt_shared_new(filled(5), NULL);
            for (int r = 0; r < 2; r++)
                BT_REPLICA(both, r) {
                    assert_false(is_passed(stepping(true), bt_value(w), 11));
                    HAS(bt_value(w), 5);
                }
        }
    }
}

/* --- faults --------------------------------------------------------------------------------------------------------------- */

/* Moves the donated state and two variables on two devices. */
static bt_function *training(bt_shared **a, bt_shared **b) {
    *a = bt_shared_new(filled(1), "gpu:0");
    *b = bt_shared_new(filled(1), "gpu:1");
    bt_array *in = bt_input(BT_F32, N), *out = bt_add(in, bt_value(*a));
    bt_update updates[] = {{*a, bt_add(bt_value(*a), bt_num(1))}, {*b, bt_add(bt_value(*b), bt_num(1))}};
    bt_function *f = bt_function_new(&in, 1, &out, 1, updates, 2);
    OK(bt_function_donate(f, 0));
    return f;
}

static double first_of(bt_array *x) {
    static float got[N];
    if (bt_read(x, got, sizeof got) != BT_OK) return -1;
    for (int i = 1; i < N; i++) assert_true(got[i] == got[0]);
    return (double)got[0];
}

/* At each fault: the variables are all old or all new, and the state is the new one, or has failed with its result, or is untouched. */
static void commands_fail(void **state) {
    (void)state;
    static const char *const entries[] = {"launch", "alloc", "peer_copy", "record", "wait", "upload", "download"};
    for (size_t e = 0; e < sizeof entries / sizeof *entries; e++)
        for (int n = 1; n <= 16; n++) {
            begin("devices=sim:gpu*2@1M");
            bt_set_log_sink(NULL, NULL);
            BT_SCOPE {
                bt_shared *a, *b;
                bt_function *f = training(&a, &b);
                bt_array *x = filled(10);
                double value = 10, step = 1;
                char fault[40];
                snprintf(fault, sizeof fault, "%s:%d", entries[e], n);
                OK(bt_set_flag("sim_fault", fault));
                for (int i = 0; i < 5; i++) {
                    bt_array *next;
                    bt_status status = bt_call(f, &x, 1, &next, 1);
                    if (status != BT_OK) {
                        double kept = first_of(x);
                        if (kept >= 0 && kept != value) fail_msg("%s: the state is %g, not %g", fault, kept, value);
                        continue;
                    }
                    assert_int_equal(bt_peek_status(x), BT_INVALID_ARGUMENT);
                    double got = first_of(next), now = first_of(bt_value(a));
                    if (now < 0) now = first_of(bt_value(a)); /* each fault comes once */
                    if (got >= 0 && got != value + step) fail_msg("%s: %g, not %g", fault, got, value + step);
                    if (now >= 0) step = now;
                    value = got >= 0 ? got : value;
                    x = got >= 0 ? next : filled(value);
                    if (bti_array_error(x)) x = filled(value);
                }
                bt_synchronize();
                OK(bt_set_flag("sim_fault", ""));
                double has_a = first_of(bt_value(a)), has_b = first_of(bt_value(b));
                if (has_a < 0 || has_a != has_b) fail_msg("%s: %g and %g", fault, has_a, has_b);
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_result_takes_the_memory, end),
        cmocka_unit_test_teardown(a_loop_stays_in_its_memory, end),
        cmocka_unit_test_teardown(several_arguments, end),
        cmocka_unit_test_teardown(what_no_result_takes_is_freed, end),
        cmocka_unit_test_teardown(others_keep_the_value, end),
        cmocka_unit_test_teardown(mapped_memory_stays, end),
        cmocka_unit_test_teardown(passed_through, end),
        cmocka_unit_test_teardown(uses_are_errors, end),
        cmocka_unit_test_teardown(refused_calls_take_nothing, end),
        cmocka_unit_test_teardown(recorded_calls_donate_nothing, end),
        cmocka_unit_test_teardown(gradients_are_cut, end),
        cmocka_unit_test_teardown(many_threads_donate_one_array, end),
        cmocka_unit_test_teardown(in_replicas, end),
        cmocka_unit_test_teardown(commands_fail, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

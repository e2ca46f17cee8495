// labels: threads valgrind
/* Calls that run by plans made before: the same for the user as recording each, whatever is given, read, set, asked of them. */
#include <pthread.h>

#include "support/support.h"

/* --- what is given ---------------------------------------------------------------------------------------------------- */

static void sizes_change(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, -1), *y = bt_sum(bt_mul(x, x), BT_ALL, false);
        bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
        for (int i = 0; i < 60; i++) /* more than are kept */
            BT_SCOPE {
                int n = i % 12;
                bt_array *given = bt_full(2, BT_F32, n);
                READS(bt_call1(f, &given, 1), 4 * n);
            }
    }
}

static bt_function *weighted(void) { /* a - 2 b, [2, 3] */
    bt_array *in[] = {bt_input(BT_F32, 2, 3), bt_input(BT_F32, 2, 3)}, *out = bt_sub(in[0], bt_mul(bt_num(2), in[1]));
    return bt_function_new(in, 2, &out, 1, NULL, 0);
}

static void one_array_is_two_arguments_or_a_view_or_a_value(void **state) {
    fresh("");
    BT_SCOPE {
        bt_function *f = weighted();
        bt_array *a = BT_ARRAY(float, (2, 3), 1, 2, 3, 4, 5, 6), *b = bt_ones(BT_F32, 2, 3);
        bt_array *tall = BT_ARRAY(float, (3, 2), 1, 4, 2, 5, 3, 6), *turned = bt_transpose(tall);
        bt_shared *w = bt_shared_new(a, NULL);
        for (int i = 0; i < 3; i++) {
            READS(bt_call1(f, (bt_array *[]){a, a}, 2), -1, -2, -3, -4, -5, -6);
            READS(bt_call1(f, (bt_array *[]){a, b}, 2), -1, 0, 1, 2, 3, 4);
            READS(bt_call1(f, (bt_array *[]){turned, b}, 2), -1, 0, 1, 2, 3, 4);
            READS(bt_call1(f, (bt_array *[]){b, turned}, 2), -1, -3, -5, -7, -9, -11);
            READS(bt_call1(f, (bt_array *[]){bt_value(w), bt_value(w)}, 2), -1, -2, -3, -4, -5, -6);
            READS(bt_call1(f, (bt_array *[]){bt_broadcast_to(bt_ones(BT_F32, 3), 2, 3), b}, 2), -1, -1, -1, -1, -1, -1);
        }
    }
}

static void arrays_are_values(void **state) {
    fresh("");
    BT_SCOPE {
        bt_function *f = weighted();
        bt_array *a = bt_ones(BT_F32, 2, 3), *b = bt_zeros(BT_F32, 2, 3);
        bt_array *before = bt_call1(f, (bt_array *[]){a, b}, 2);
        OK(bt_write(a, (const float[]){1, 2, 3, 4, 5, 6}, 24));
        bt_array *after = bt_call1(f, (bt_array *[]){a, b}, 2);
        READS(before, 1, 1, 1, 1, 1, 1);
        READS(after, 1, 2, 3, 4, 5, 6);
        OK(bt_write(before, (const float[]){0, 0, 0, 0, 0, 0}, 24));
        READS(bt_call1(f, (bt_array *[]){a, b}, 2), 1, 2, 3, 4, 5, 6);
    }
}

static void scalars_are_weak_or_not(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *in[] = {bt_input(BT_F32, 2), bt_input_shape(BT_F32, (bt_shape){0})}, *out = bt_mul(in[0], in[1]);
        bt_function *f = bt_function_new(in, 2, &out, 1, NULL, 0);
        bt_array *x = BT_ARRAY(float, (2), 1, 2);
        for (int i = 0; i < 5; i++) READS(bt_call1(f, (bt_array *[]){x, bt_num(i)}, 2), i, 2 * i);
        READS(bt_call1(f, (bt_array *[]){x, bt_f32(7)}, 2), 7, 14);
        POISONED(bt_call1(f, (bt_array *[]){x, bt_f64(7)}, 2), BT_INVALID_ARGUMENT, HERE(0), "argument 2 is float64");
        POISONED(bt_call1(f, (bt_array *[]){bt_num(7), bt_num(7)}, 2), BT_INVALID_ARGUMENT, "argument 1 is float32 ()");
        bt_array *bad = bt_add(x, bt_ones(BT_F32, 3));
        POISONED(bt_call1(f, (bt_array *[]){bad, bt_num(7)}, 2), BT_INVALID_ARGUMENT, "bt_add");
        bt_array *s = bt_num(3), *y = bt_sum(bt_call1(f, (bt_array *[]){x, s}, 2), BT_ALL, false);
        READS(bt_grad1(y, s), 3);
    }
}

/* --- what comes out ----------------------------------------------------------------------------------------------------- */

static void outputs_may_be_inputs_values_constants_and_views(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 2, 2), *constant = bt_full(9, BT_F32, 2), *sum = bt_add(x, x);
        bt_shared *w = bt_shared_new(BT_ARRAY(float, (2), 1, 2), NULL);
        bt_array *out[] = {x, bt_value(w), constant, bt_transpose(x), sum, sum, bt_transpose(sum), bt_num(5)};
        bt_function *f = bt_function_new(&x, 1, out, COUNT(out), NULL, 0);
        bt_array *given = BT_ARRAY(float, (2, 2), 1, 2, 3, 4), *y[COUNT(out)];
        for (int i = 0; i < 3; i++) {
            OK(bt_call(f, &given, 1, y, COUNT(y)));
            READS(y[0], 1, 2, 3, 4);
            READS(y[1], 1 + i, 2);
            READS(y[2], 9, 9);
            READS(y[3], 1, 3, 2, 4);
            READS(y[4], 2, 4, 6, 8);
            READS(y[5], 2, 4, 6, 8);
            READS(y[6], 2, 6, 4, 8);
            READS(y[7], 5);
            READS(bt_grad1(bt_sum(bt_mul(y[5], y[5]), BT_ALL, false), y[4]), 4, 8, 12, 16);
            OK(bt_set(w, BT_ARRAY(float, (2), (float)(2 + i), 2)));
        }
    }
}

static void updates_may_be_inputs_values_and_constants(void **state) {
    fresh("");
    BT_SCOPE {
        bt_shared *a = bt_shared_new(bt_full(1, BT_F32, 2), NULL), *b = bt_shared_new(bt_full(2, BT_F32, 2), NULL),
                  *c = bt_shared_new(bt_full(3, BT_F32, 2), NULL), *d = bt_shared_new(bt_full(4, BT_F32, 2), NULL);
        bt_array *x = bt_input(BT_F32, 2);
        bt_update updates[] = {{a, bt_value(b)}, {b, bt_value(a)}, {c, x}, {d, bt_full(7, BT_F32, 2)}};
        bt_function *f = bt_function_new(&x, 1, NULL, 0, updates, 4);
        for (int i = 1; i < 6; i++) {
            bt_array *given = bt_full(i, BT_F32, 2);
            OK(bt_call(f, &given, 1, NULL, 0));
            READS(bt_value(a), 1 + i % 2, 1 + i % 2);
            READS(bt_value(b), 2 - i % 2, 2 - i % 2);
            READS(bt_value(c), i, i);
            READS(bt_value(d), 7, 7);
        }
    }
}

/* --- gradients ------------------------------------------------------------------------------------------------------------ */

static void gradients_flow_through_calls(void **state) {
    fresh("");
    BT_SCOPE {
        bt_shared *w = bt_shared_new(bt_full(3, BT_F32, 2), NULL);
        bt_array *x = bt_input(BT_F32, 2), *h = bt_mul(x, bt_value(w)), *y = bt_mul(h, h);
        bt_function *f = bt_function_new(&x, 1, (bt_array *[]){h, y}, 2, NULL, 0);
        bt_array *given = BT_ARRAY(float, (2), 1, 2), *out[2];
        OK(bt_call(f, &given, 1, out, 2));
        bt_array *loss = bt_sum(out[1], BT_ALL, false);
        READS(bt_grad1(loss, given), 18, 36); /* 2 x w^2 */
        READS(bt_grad1(loss, w), 6, 24);      /* 2 x^2 w */
        READS(bt_grad1(loss, out[0]), 6, 12); /* 2 h */
        READS(bt_grad1(loss, out[1]), 1, 1);
        bt_array *again[2];
        OK(bt_call(f, &out[1], 1, again, 2)); /* of its own result: h = 3 y, y = 81 x^4 ... */
        READS(bt_grad1(bt_sum(again[0], BT_ALL, false), given), 54, 108);
        OK(bt_call(f, &given, 1, out, 2));
        bt_retain(out[0]); /* gradients end there, and are to be had of it */
        loss = bt_sum(out[1], BT_ALL, false);
        READS(bt_grad1(loss, out[0]), 6, 12);
        FAILS(bt_grad(loss, &given, 1, &(bt_array *){NULL}), BT_FAILED_PRECONDITION, "bt_retain made an array forget");
        bt_release(out[0]);
    }
}

static void a_loss_of_a_step_with_updates_has_gradients(void **state) {
    fresh("");
    BT_SCOPE {
        bt_shared *w = bt_shared_new(bt_full(3, BT_F32, 2), NULL);
        bt_array *x = bt_input(BT_F32, 2), *loss = bt_sum(bt_mul(bt_mul(x, x), bt_value(w)), BT_ALL, false);
        bt_update update = {w, bt_sub(bt_value(w), bt_grad1(loss, w))};
        bt_function *f = bt_function_new(&x, 1, &loss, 1, &update, 1);
        bt_array *given = BT_ARRAY(float, (2), 1, 2);
        bt_array *first = bt_call1(f, &given, 1), *second = bt_call1(f, &given, 1);
        READS(first, 15);
        READS(second, -2);
        READS(bt_grad1(first, given), 6, 12);
        READS(bt_grad1(second, given), 4, -4);
        READS(bt_grad1(second, w), 1, 4);
        READS(bt_value(w), 1, -5);
    }
}

static void a_function_made_of_results_reads_variables_anew(void **state) {
    fresh("");
    BT_SCOPE {
        bt_shared *w = bt_shared_new(bt_full(3, BT_F32, 2), NULL);
        bt_array *x = bt_input(BT_F32, 2), *y = bt_mul(x, bt_value(w)), *given = BT_ARRAY(float, (2), 1, 2);
        bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
        bt_array *made = bt_call1(f, &given, 1), *more = bt_add(made, bt_num(1));
        bt_function *g = bt_function_new(NULL, 0, &more, 1, NULL, 0);
        READS(bt_call1(g, NULL, 0), 4, 7);
        OK(bt_set(w, bt_full(10, BT_F32, 2)));
        READS(bt_call1(g, NULL, 0), 11, 21);
        READS(made, 3, 6);
    }
}

static void a_long_chain_of_calls_overflows_no_stack(void **state) {
    fresh("");
    bt_array *last = NULL;
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 1), *y = bt_add(x, bt_num(1));
        bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
        last = bt_zeros(BT_F32, 1);
        for (int i = 0; i < 20000; i++) {
            bt_array *next = bt_call1(f, &last, 1);
            last = next;
        }
        READS(last, 20000);
    }
}

/* --- failures --------------------------------------------------------------------------------------------------------------- */

static bt_function *count_twice(bt_shared **a, bt_shared **b) { /* both by x; gives their sum before */
    *a = bt_shared_new(bt_zeros(BT_F32, 4), NULL);
    *b = bt_shared_new(bt_zeros(BT_F32, 4), NULL);
    bt_array *x = bt_input(BT_F32, 4), *sum = bt_sum(bt_add(bt_value(*a), bt_value(*b)), BT_ALL, false);
    bt_update updates[] = {{*a, bt_add(bt_value(*a), x)},
                           {*b, bt_cumsum(bt_mul(bt_cumsum(x, 0, false), bt_num(0)), 0, false)}};
    updates[1].value = bt_add(bt_value(*b), bt_add(updates[1].value, x));
    return bt_function_new(&x, 1, &sum, 1, updates, 2);
}

static void a_fault_at_any_launch_sets_all_or_none(void **state) {
    for (int fault = 1; fault <= 20; fault++) {
        fresh("devices=sim:gpu@64M");
        BT_SCOPE {
            bt_shared *a, *b;
            bt_function *f = count_twice(&a, &b);
            bt_array *one = BT_ARRAY(float, (4), 1, 1, 1, 1);
            char text[40];
            snprintf(text, sizeof text, "launch:%d", fault);
            OK(bt_set_flag("sim_fault", text));
            for (int call = 0; call < 4; call++) {
                (void)bt_call1(f, &one, 1); /* may tell of the one before */
                bt_synchronize();
                float of_a[4], of_b[4];
                OK(bt_read(bt_value(a), of_a, sizeof of_a));
                OK(bt_read(bt_value(b), of_b, sizeof of_b));
                assert_memory_equal(of_a, of_b, sizeof of_a);
                assert_true(of_a[0] >= (float)(call - 1) && of_a[0] <= (float)(call + 1));
            }
            OK(bt_set_flag("sim_fault", ""));
            bt_error_clear();
        }
    }
}

static void memory_that_is_short_is_told_and_may_be_there_later(void **state) {
    fresh("devices=sim:gpu@16M");
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 1 << 20), *y = bt_add(x, bt_num(1));
        bt_shared *w = bt_shared_new(bt_zeros(BT_F32, 1), NULL);
        bt_update update = {w, bt_add(bt_value(w), bt_slice_axis(x, 0, 0, 1, 1))};
        bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0), *g = bt_function_new(&x, 1, &y, 1, &update, 1);
        bt_array *given = bt_full(1, BT_F32, 1 << 20);
        OK(bt_block(given));
        BT_SCOPE {
            bt_array *held[8]; /* 4 MiB each: three fit */
            int good = 0;
            for (int i = 0; i < 8; i++) {
                held[i] = bt_call1(f, &given, 1);
                bt_status status = bt_block(held[i]);
                if (status != BT_OK) FAILS(status, BT_RESOURCE_EXHAUSTED, "bt_add: out of memory on GPU:0");
                good += status == BT_OK;
            }
            assert_int_equal(good, 3);
            (void)!bt_block(bt_call1(g, &given, 1));
            bt_error_clear();
        }
        (void)bt_call1(g, &given, 1); /* tells, if the set was lost */
        bt_synchronize();
        double before = bt_item(bt_value(w));
        OK(bt_block(bt_call1(g, &given, 1)));
        READS(bt_value(w), before + 1);
    }
}

/* --- threads, devices --------------------------------------------------------------------------------------------------------- */

enum { THREADS = 8, CALLS = 200 };

static void *call_weighted(void *f) {
    for (int i = 0; i < CALLS; i++)
        BT_SCOPE {
            bt_array *given[] = {bt_full(i, BT_F32, 2, 3), bt_full(i % 7, BT_F32, 2, 3)};
            float got[6];
            if (bt_read(bt_call1(f, given, 2), got, sizeof got) != BT_OK || got[5] != (float)(i - 2 * (i % 7)))
                return f;
        }
    return NULL;
}

/* The evaluation of what was made of them gives back the call's nodes, under the graph's lock. */
static void results_end_while_something_of_them_is_computed(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 2);
        bt_array *outs[2] = {bt_add(x, x), bt_mul(x, x)};
        bt_function *f = bt_function_new(&x, 1, outs, 2, NULL, 0);
        for (int i = 0; i < 3; i++) { /* recorded, made ready, run by its plan */
            bt_array *z = NULL;
            BT_SCOPE {
                bt_array *given = bt_full(3, BT_F32, 2), *results[2];
                OK(bt_call(f, &given, 1, results, 2));
                z = bt_retain(bt_add(results[0], results[1]));
            }
            OK(bt_block(z));
            BT_SCOPE
                READS(z, 15, 15);
            bt_release(z);
        }
    }
}

static void many_threads_call_one_function(void **state) {
    static const char *const settings[] = {"", "devices=sim:gpu*2@64M", "kernels=interpreter"};
    for (int s = 0; s < COUNT(settings); s++) {
        fresh(settings[s]);
        BT_SCOPE {
            bt_function *f = weighted();
            pthread_t threads[THREADS];
            for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, call_weighted, f), 0);
            for (int i = 0; i < THREADS; i++) {
                void *failed;
                pthread_join(threads[i], &failed);
                assert_null(failed);
            }
        }
    }
}

static void blocks_around_calls_are_as_ever(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE {
        bt_function *f = weighted();
        bt_array *a = NULL, *b = bt_ones(BT_F32, 2, 3);
        BT_ON("gpu:1") a = BT_ARRAY(float, (2, 3), 5, 5, 5, 5, 5, 5);
        for (int i = 0; i < 3; i++) {
            bt_array *y = NULL;
            BT_ON("gpu:1") y = bt_call1(f, (bt_array *[]){a, b}, 2);
            READS(y, 3, 3, 3, 3, 3, 3);
            assert_ptr_equal(bt_device_of(y), device("gpu:0")); /* where it was made for */
            log_forget();
            BT_TRANSFERS(BT_TRANSFERS_LOG) READS(bt_call1(f, (bt_array *[]){a, b}, 2), 3, 3, 3, 3, 3, 3);
            assert_int_equal(log_count("Copying float32 (2, 3) from GPU:1 to GPU:0"), 1);
        }
    }
}

static void a_function_over_several_devices(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE {
        bt_shared *a = bt_shared_new(bt_full(2, BT_F32, 2, 2), "gpu:0"),
                  *b = bt_shared_new(bt_full(3, BT_F32, 2, 2), "gpu:1");
        bt_array *x = bt_input(BT_F32, 2, 2), *on_a = bt_matmul(x, bt_value(a)), *on_b = bt_matmul(x, bt_value(b));
        bt_update update = {b, bt_add(bt_value(b), bt_num(1))};
        bt_function *f = bt_function_new(&x, 1, (bt_array *[]){on_a, on_b}, 2, &update, 1);
        bt_array *one = bt_ones(BT_F32, 2, 2), *out[2];
        for (int i = 0; i < 20; i++)
            BT_SCOPE {
                OK(bt_call(f, &one, 1, out, 2));
                READS(out[0], 4, 4, 4, 4);
                READS(out[1], 6 + 2 * i, 6 + 2 * i, 6 + 2 * i, 6 + 2 * i);
                assert_ptr_equal(bt_device_of(out[1]), device("gpu:1"));
            }
    }
}

static void a_function_is_released_while_it_runs(void **state) {
    fresh("devices=sim:gpu*2@64M,sim_latency_us=500");
    BT_SCOPE {
        bt_array *y = NULL;
        BT_SCOPE {
            bt_array *x = bt_input(BT_F32, 2), *far = bt_to(bt_exp2(x), "gpu:1"), *out = bt_add(far, far);
            bt_function *f = bt_function_new(&x, 1, &out, 1, NULL, 0);
            bt_array *given = BT_ARRAY(float, (2), 1, 2);
            for (int i = 0; i < 10; i++) y = bt_call1(f, &given, 1);
            bt_keep(y);
        }
        READS(y, 4, 8);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_change),
        cmocka_unit_test(one_array_is_two_arguments_or_a_view_or_a_value),
        cmocka_unit_test(arrays_are_values),
        cmocka_unit_test(scalars_are_weak_or_not),
        cmocka_unit_test(outputs_may_be_inputs_values_constants_and_views),
        cmocka_unit_test(updates_may_be_inputs_values_and_constants),
        cmocka_unit_test(gradients_flow_through_calls),
        cmocka_unit_test(a_loss_of_a_step_with_updates_has_gradients),
        cmocka_unit_test(a_function_made_of_results_reads_variables_anew),
        cmocka_unit_test(a_long_chain_of_calls_overflows_no_stack),
        cmocka_unit_test(a_fault_at_any_launch_sets_all_or_none),
        cmocka_unit_test(memory_that_is_short_is_told_and_may_be_there_later),
        cmocka_unit_test(results_end_while_something_of_them_is_computed),
        cmocka_unit_test(many_threads_call_one_function),
        cmocka_unit_test(blocks_around_calls_are_as_ever),
        cmocka_unit_test(a_function_over_several_devices),
        cmocka_unit_test(a_function_is_released_while_it_runs),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}

// labels: threads
/* Functions: unknown sizes, functions within functions, updates; and gradients that do not depend on when work runs. */
#include <pthread.h>

#include "support/support.h"

static bt_function *softmax_of_unknown(void) {
    bt_array *x = bt_input(BT_F32, -1), *y = bt_softmax(x, 0);
    return bt_function_new(&x, 1, &y, 1, NULL, 0);
}

static void a_function_is_called_within_another(void **state) {
    fresh("");
    BT_SCOPE {
        bt_function *inner = softmax_of_unknown();
        bt_array *x = bt_input(BT_F32, -1), *sum = bt_sum(bt_call1(inner, &x, 1), BT_ALL, false);
        bt_function *outer = bt_function_new(&x, 1, &sum, 1, NULL, 0);
        for (int n = 1; n < 4; n++) {
            bt_array *given = bt_full(7, BT_F32, n);
            READS(bt_call1(outer, &given, 1), 1);
        }
    }
}

static void sizes_that_arguments_do_not_give_are_named(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, -1), *y = bt_reshape(x, -1, 7);
        bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
        bt_array *six = bt_ones(BT_F32, 6), *seven = bt_ones(BT_F32, 7);
        POISONED(bt_call1(f, &six, 1), BT_INVALID_ARGUMENT, "function_test.c:28: bt_reshape", "do not fit");
        READS(bt_call1(f, &seven, 1), 1, 1, 1, 1, 1, 1, 1);

        bt_array *part = bt_slice_axis(x, 0, 1, 3, 1), *greatest = bt_max(x, BT_ALL, false);
        bt_function *parts = bt_function_new(&x, 1, &part, 1, NULL, 0),
                    *most = bt_function_new(&x, 1, &greatest, 1, NULL, 0);
        bt_array *two = bt_ones(BT_F32, 2), *none = bt_zeros(BT_F32, 0);
        POISONED(bt_call1(parts, &two, 1), BT_INVALID_ARGUMENT, "slice of shapes (2,)");
        READS(bt_call1(parts, &six, 1), 1, 1);
        POISONED(bt_call1(most, &none, 1), BT_INVALID_ARGUMENT, "max of shapes (0,)");
    }
}

static void unknown_sizes_take_no_memory_for_good(void **state) {
    fresh("");
    int64_t first = 0;
    for (int i = 0; i < 100; i++)
        BT_SCOPE {
            int64_t symbol = bt_shape_of(bt_input(BT_F32, -1)).size[0];
            if (i == 0) first = symbol;
            assert_true(symbol == first); /* nobody holds the one before */
        }
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, -1), *y = bt_input(BT_F32, -1);
        assert_true(bt_shape_of(x).size[0] != bt_shape_of(y).size[0]);
    }
}

static void updates_are_checked(void **state) {
    fresh("");
    BT_SCOPE {
        bt_shared *w = bt_shared_new(bt_zeros(BT_F32, 2), NULL);
        bt_array *x = bt_input(BT_F32, 2), *next = bt_add(bt_value(w), x);
        bt_update twice[] = {{w, next}, {w, x}};
        assert_int_not_equal(bt_function_status(bt_function_new(&x, 1, &next, 1, twice, 2)), BT_OK);
        SAYS(bt_error_text(), "updates 1 and 2 are of the same variable");
        assert_int_not_equal(bt_function_status(bt_function_new(((bt_array *[]){x, x}), 2, &next, 1, NULL, 0)), BT_OK);
        SAYS(bt_error_text(), "inputs 1 and 2 are the same");
        FAILS(bt_set(w, next), BT_FAILED_PRECONDITION, "depends on a function's input");
        bt_function *f = bt_function_new(&x, 1, &next, 1, twice, 1);
        POISONED(bt_call1(f, &x, 1), BT_FAILED_PRECONDITION, "cannot be recorded into another");
        READS(bt_value(w), 0, 0);
    }
}

/* What was recorded stays in the function, also when an array of it is computed and forgets how it was made. */
static void a_function_forgets_nothing(void **state) {
    fresh("");
    BT_SCOPE {
        bt_shared *w = bt_shared_new(bt_ones(BT_F32, 2), NULL);
        bt_array *twice = bt_retain(bt_mul(bt_value(w), bt_num(2))), *y = bt_add(twice, bt_num(1));
        bt_function *f = bt_function_new(NULL, 0, &y, 1, NULL, 0);
        READS(twice, 2, 2);
        bt_release(twice);
        OK(bt_set(w, bt_full(5, BT_F32, 2)));
        READS(bt_call1(f, NULL, 0), 11, 11);
    }
}

enum { THREADS = 8, CALLS = 200 };

static void *call_often(void *function) {
    for (int i = 0; i < CALLS; i++)
        BT_SCOPE
            if (bt_call(function, NULL, 0, NULL, 0) != BT_OK) return function;
    bt_synchronize();
    return NULL;
}

static void concurrent_calls_lose_no_update(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_shared *w = bt_shared_new(bt_zeros(BT_F32, 1), NULL);
        bt_update more = {w, bt_add(bt_value(w), bt_num(1))};
        bt_function *f = bt_function_new(NULL, 0, NULL, 0, &more, 1);
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, call_often, f), 0);
        for (int i = 0; i < THREADS; i++) {
            void *failed;
            pthread_join(threads[i], &failed);
            assert_null(failed);
        }
        READS(bt_value(w), THREADS * CALLS);
    }
}

/* The gradient is the same whether the work ran before it was asked for or not. */
static void gradients_do_not_depend_on_when_work_runs(void **state) {
    for (int evaluated = 0; evaluated < 2; evaluated++) {
        fresh("");
        BT_SCOPE {
            bt_array *x = BT_ARRAY(float, (2), 3, 4), *square = bt_mul(x, x), *loss = bt_sum(square, BT_ALL, false);
            if (evaluated) OK(bt_block(loss));
            READS(bt_grad1(loss, x), 6, 8);

            bt_array *kept = bt_retain(bt_mul(x, x)), *of_kept = bt_sum(bt_mul(kept, kept), BT_ALL, false);
            if (evaluated) OK(bt_block(of_kept));
            FAILS(bt_grad(of_kept, &x, 1, &(bt_array *){NULL}), BT_FAILED_PRECONDITION,
                  "bt_retain made an array forget");
            READS(bt_grad1(of_kept, kept), 18, 32);
            FAILS(bt_grad(bt_retain(of_kept), &kept, 1, &(bt_array *){NULL}), BT_FAILED_PRECONDITION, "retained");
            bt_release(of_kept);
            bt_release(kept);

            bt_shared *w = bt_shared_new(square, NULL); /* a variable leaves the array what it was */
            OK(bt_set(w, square));
            if (evaluated) OK(bt_block(bt_value(w)));
            READS(bt_grad1(bt_sum(square, BT_ALL, false), x), 6, 8);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_is_called_within_another),
        cmocka_unit_test(sizes_that_arguments_do_not_give_are_named),
        cmocka_unit_test(unknown_sizes_take_no_memory_for_good),
        cmocka_unit_test(updates_are_checked),
        cmocka_unit_test(a_function_forgets_nothing),
        cmocka_unit_test(concurrent_calls_lose_no_update),
        cmocka_unit_test(gradients_do_not_depend_on_when_work_runs),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}

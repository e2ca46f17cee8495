// labels: threads
/* Calls that set different variables do not wait for each other; those that set the same one lose no update. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include <berth.h>

#include "function/updating.h"

enum { THREADS = 8, CALLS = 200 };

static bt_function *adding(bt_shared *const *variables, int count) {
    bt_update updates[2];
    bt_array *sum = NULL;
    for (int i = 0; i < count; i++) {
        bt_array *value = bt_add(bt_value(variables[i]), bt_f32(1));
        updates[i] = (bt_update){variables[i], value};
        sum = value;
    }
    return bt_function_new(NULL, 0, &sum, 1, updates, count);
}

typedef struct caller {
    bt_function *function;
    int calls;
    atomic_bool done;
    bt_status status;
} caller;

static void *call(void *argument) {
    caller *my = argument;
    for (int i = 0; i < my->calls && my->status == BT_OK; i++)
        BT_SCOPE
            my->status = bt_block(bt_call1(my->function, NULL, 0));
    atomic_store(&my->done, true);
    return NULL;
}

static double value_of(bt_shared *variable) {
    double value = -1;
    BT_SCOPE
        value = bt_item(bt_value(variable));
    return value;
}

static void a_call_waits_for_calls_that_set_its_variables(void **state) {
    (void)state;
    BT_SCOPE {
        bt_shared *variables[] = {bt_shared_new(bt_f32(0), NULL), bt_shared_new(bt_f32(0), NULL)};
        bt_function *first = adding(variables, 1), *both = adding(variables, 2), *second = adding(variables + 1, 1);
        caller apart = {.function = second, .calls = 1}, overlapping = {.function = both, .calls = 1};
        pthread_t thread;
        bti_updating_begin(first);
        assert_int_equal(pthread_create(&thread, NULL, call, &apart), 0);
        pthread_join(thread, NULL);
        assert_int_equal(apart.status, BT_OK);
        assert_int_equal(pthread_create(&thread, NULL, call, &overlapping), 0);
        struct timespec rest = {0, 50000000};
        nanosleep(&rest, NULL);
        assert_false(atomic_load(&overlapping.done));
        bti_updating_end(first);
        pthread_join(thread, NULL);
        assert_int_equal(overlapping.status, BT_OK);
        assert_float_equal(value_of(variables[0]), 1, 0);
        assert_float_equal(value_of(variables[1]), 2, 0);
    }
}

static void no_update_is_lost(void **state) {
    (void)state;
    BT_SCOPE {
        bt_shared *variables[] = {bt_shared_new(bt_f32(0), NULL), bt_shared_new(bt_f32(0), NULL)};
        bt_shared *turned[] = {variables[1], variables[0]};
        bt_function *functions[] = {adding(variables, 2), adding(turned, 2), adding(variables, 1),
                                    adding(variables + 1, 1)};
        caller callers[THREADS];
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++) {
            callers[i] = (caller){.function = functions[i % 4], .calls = CALLS};
            assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < THREADS; i++) assert_int_equal(callers[i].status, BT_OK);
        for (int v = 0; v < 2; v++) assert_float_equal(value_of(variables[v]), THREADS / 4 * 3 * CALLS, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_waits_for_calls_that_set_its_variables),
        cmocka_unit_test(no_update_is_lost),
    };
    return cmocka_run_group_tests_name("updating", tests, NULL, NULL);
}

// labels: threads
/* Every public call is safe from any thread: eight threads on shared arrays, on their own, on one variable, on one graph. */
#include <pthread.h>
#include <stdatomic.h>

#include "support/support.h"

enum { THREADS = 8 };

typedef struct job {
    int number;
    void *shared;
    const char *failure; /* first thing that went wrong; cmocka's asserts are for the main thread */
} job;

#define MUST(condition)                                               \
    do {                                                              \
        if (!(condition)) {                                           \
            my->failure = #condition;                                 \
            fprintf(stderr, "%s: %s\n", #condition, bt_error_text()); \
            return NULL;                                              \
        }                                                             \
    } while (0)

static void together(void *(*run)(void *), void *shared) {
    pthread_t threads[THREADS];
    job jobs[THREADS];
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (job){i, shared, NULL};
        assert_int_equal(pthread_create(&threads[i], NULL, run, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        if (jobs[i].failure) fail_msg("thread %d: %s", i, jobs[i].failure);
}

static float first(bt_array *x) {
    float values[16] = {-1};
    return bt_read(x, values, (size_t)bt_count(x) * sizeof(float)) == BT_OK ? values[0] : -1;
}

/* --- arrays --------------------------------------------------------------------------------------------------------------- */

static void *own_arrays(void *argument) {
    job *my = argument;
    for (int round = 0; round < 20; round++) {
        BT_SCOPE {
            bt_array *x = bt_full(my->number, BT_F32, 16), *y = x;
            for (int i = 0; i < 10; i++) y = bt_add(y, bt_ones(BT_F32, 16));
            MUST(first(y) == (float)my->number + 10);
            BT_ON(my->number % 2 ? "gpu:0" : "gpu:1") y = bt_mul(y, bt_num(2));
            MUST(first(bt_to(y, "cpu")) == 2 * ((float)my->number + 10));
        }
    }
    return NULL;
}

static void threads_compute_on_their_own_arrays(void **state) {
    fresh("devices=sim:gpu*2@64M");
    together(own_arrays, NULL);
    assert_int_equal(bt_live_arrays(), 0);
    assert_int_equal(memory("gpu:0").used + memory("gpu:1").used + memory("cpu").used, 0);
}

static void *shared_arrays(void *argument) {
    job *my = argument;
    bt_array **arrays = my->shared;
    for (int round = 0; round < 20; round++) {
        BT_SCOPE {
            bt_array *sum = bt_add(arrays[0], bt_to(arrays[1], "gpu:0"));
            MUST(first(bt_add(sum, bt_f32((float)my->number))) == 3 + (float)my->number);
            MUST(first(bt_matmul(arrays[2], arrays[2])) == 4 * 4);
            bt_array *mine = bt_retain(arrays[my->number % 3]);
            MUST(bt_size(mine, 0) >= 4);
            bt_release(mine);
        }
    }
    return NULL;
}

static void threads_compute_on_shared_arrays(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE {
        bt_array *arrays[3] = {NULL};
        BT_ON("gpu:0") arrays[0] = bt_ones(BT_F32, 16);
        BT_ON("gpu:1") arrays[1] = bt_add(bt_ones(BT_F32, 16), bt_num(1));
        arrays[2] = bt_full(2, BT_F32, 4, 4);
        together(shared_arrays, arrays);
    }
    assert_int_equal(bt_live_arrays(), 0);
}

/* All evaluate one graph that nobody has evaluated before. */
typedef struct graph {
    bt_array *nodes[64];
    pthread_barrier_t start;
} graph;

static void *overlapping(void *argument) {
    job *my = argument;
    graph *g = my->shared;
    pthread_barrier_wait(&g->start);
    for (int i = 0; i < 64; i++) {
        int at = (i * 7 + my->number * 11) % 64;
        MUST(first(g->nodes[at]) == (float)(at + 1));
    }
    return NULL;
}

static void threads_evaluate_overlapping_graphs(void **state) {
    fresh("devices=sim:gpu*2@64M");
    for (int round = 0; round < 10; round++) {
        BT_SCOPE {
            graph g;
            pthread_barrier_init(&g.start, NULL, THREADS);
            for (int i = 0; i < 64; i++)
                BT_ON(i / 8 % 2 ? "gpu:0" : "gpu:1")
                    g.nodes[i] = i ? bt_add(g.nodes[i - 1], bt_ones(BT_F32, 4)) : bt_ones(BT_F32, 4);
            together(overlapping, &g);
            pthread_barrier_destroy(&g.start);
        }
    }
    assert_int_equal(bt_live_arrays(), 0);
}

static void *one_poisoned(void *argument) {
    job *my = argument;
    bt_array *bad = my->shared;
    for (int round = 0; round < 50; round++) {
        BT_SCOPE {
            float value;
            MUST(bt_read(bt_add(bad, bt_num(1)), &value, sizeof value) == BT_INVALID_ARGUMENT);
            MUST(strstr(bt_error_text(), "threads_test.c"));
            bt_error_clear();
            BT_ON(my->number % 2 ? "gpu:0" : "gpu:7") { /* one thread's block is not another's */
                bt_array *x = bt_ones(BT_F32, 1);
                MUST(bt_read(x, &value, sizeof value) == (my->number % 2 ? BT_OK : BT_NOT_FOUND));
            }
        }
        MUST(bt_error_status() == (my->number % 2 ? BT_OK : BT_NOT_FOUND)); /* nor is its error */
    }
    return NULL;
}

static void errors_and_blocks_are_per_thread(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE
        together(one_poisoned, bt_add(bt_ones(BT_F32, 2), bt_ones(BT_F32, 3)));
    assert_int_equal(bt_live_arrays(), 0);
}

/* --- variables and functions ---------------------------------------------------------------------------------------------- */

static void *count_up(void *argument) {
    job *my = argument;
    bt_shared **w = my->shared;
    for (int round = 0; round < 50; round++) {
        BT_SCOPE {
            float now[4];
            MUST(bt_read(bt_value(w[0]), now, sizeof now) == BT_OK);
            MUST(now[0] == now[1] && now[1] == now[2] && now[2] == now[3]); /* never half of a set */
            MUST(bt_set(w[0], bt_add(bt_value(w[0]), bt_ones(BT_F32, 4))) == BT_OK);
            MUST(bt_set(w[1 + my->number], bt_full(round, BT_F32, 4)) == BT_OK);
            MUST(first(bt_value(w[1 + my->number])) == (float)round);
        }
    }
    return NULL;
}

static void threads_read_and_set_variables(void **state) {
    fresh("devices=sim:gpu*2@64M");
    bt_shared *w[1 + THREADS];
    BT_SCOPE {
        for (int i = 0; i <= THREADS; i++) w[i] = bt_shared_new(bt_zeros(BT_F32, 4), i % 2 ? "gpu:0" : "gpu:1");
        together(count_up, w);
        float last = first(bt_value(w[0]));
        assert_true(last >= 50 && last <= 50 * THREADS); /* a set is not an atomic addition */
    }
}

static void *call_often(void *argument) {
    job *my = argument;
    bt_function *f = my->shared;
    for (int round = 0; round < 50; round++) {
        BT_SCOPE {
            bt_array *x = bt_full(my->number, BT_F32, my->number + 1);
            MUST(first(bt_call1(f, &x, 1)) == (float)my->number * 2 + 1);
        }
    }
    return NULL;
}

static void threads_call_one_function(void **state) {
    fresh("devices=sim:gpu*2@64M");
    bt_function *f;
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, -1), *y = bt_add(bt_mul(x, bt_num(2)), bt_ones(BT_F32, 1));
        f = bt_function_retain(bt_function_new(&x, 1, &y, 1, NULL, 0));
        assert_non_null(f);
    }
    together(call_often, f);
    bt_function_release(f);
    assert_int_equal(bt_live_arrays(), 0);
}

static void *build_or_set(void *argument) {
    job *my = argument;
    bt_shared *w = my->shared;
    for (int round = 0; round < 50; round++) {
        BT_SCOPE {
            if (my->number % 2) {
                MUST(bt_set(w, bt_add(bt_value(w), bt_ones(BT_F32, 2))) == BT_OK);
                continue;
            }
            bt_array *x = bt_input(BT_F32, 2), *y = bt_sub(bt_value(w), bt_value(w)), *zero = bt_zeros(BT_F32, 2);
            bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
            MUST(f && first(bt_call1(f, &zero, 1)) == 0);
        }
    }
    return NULL;
}

static void threads_make_functions_of_a_variable_that_others_set(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE
        together(build_or_set, bt_shared_new(bt_zeros(BT_F32, 2), "gpu:1"));
}

/* --- scopes and the end of threads ---------------------------------------------------------------------------------------- */

static void *leave_all_behind(void *argument) {
    job *my = argument;
    bt_array *x = bt_ones(BT_F32, 4); /* of the thread's outermost scope */
    bti_scope_guard open = bti_scope_begin(__FILE__, __LINE__);
    (void)open;
    for (int i = 0; i < 100; i++) x = bt_add(x, bt_ones(BT_F32, 4));
    MUST(bt_eval(x) == BT_OK);
    bt_array *pending = bt_mul(x, x);
    MUST(bt_rank(pending) == 1);
    (void)bt_add(x, bt_ones(BT_F32, 3)); /* an error in the record */
    return NULL;
}

static void the_end_of_a_thread_releases_what_it_held(void **state) {
    fresh("devices=sim:gpu*2@64M");
    together(leave_all_behind, NULL);
    bt_synchronize();
    assert_int_equal(bt_live_arrays(), 0);
    assert_int_equal(memory("gpu:0").used, 0);
    OK(bt_shutdown()); /* no thread holds a scope any more */
}

static void *keep_one(void *argument) {
    job *my = argument;
    bt_array **slots = my->shared;
    BT_SCOPE
        bt_assign(&slots[my->number], bt_full(my->number, BT_F32, 4)); /* recorded, not computed */
    return NULL;
}

static void retained_arrays_outlive_their_thread(void **state) {
    fresh("devices=sim:gpu*2@64M");
    bt_array *slots[THREADS] = {NULL};
    together(keep_one, slots);
    for (int i = 0; i < THREADS; i++) {
        assert_true(first(slots[i]) == (float)i);
        bt_assign(&slots[i], NULL);
    }
    assert_int_equal(bt_live_arrays(), 0);
}

/* --- settings and questions ----------------------------------------------------------------------------------------------- */

static void *ask_and_set(void *argument) {
    job *my = argument;
    for (int round = 0; round < 50; round++) {
        bt_device *found;
        MUST(bt_device_find(my->number % 2 ? "gpu:1" : "cpu", &found) == BT_OK);
        bt_memory_info info = BT_MEMORY_INFO_INIT;
        MUST(bt_memory(found, &info) == BT_OK);
        MUST(bt_set_flag("transfers", my->number % 2 ? "log" : "copy") == BT_OK);
        char text[64];
        MUST(bt_get_flag("transfers", text, sizeof text) == BT_OK);
        MUST(!strcmp(text, "log") || !strcmp(text, "copy"));
        BT_SCOPE
            MUST(first(bt_to(bt_full(round, BT_F32, 4), bt_device_name(found))) == (float)round);
        bt_memory_trim(found);
        bt_synchronize();
    }
    return NULL;
}

static void threads_ask_set_and_trim(void **state) {
    fresh("devices=sim:gpu*2@64M");
    together(ask_and_set, NULL);
}

static void *first_of_all(void *argument) {
    job *my = argument;
    BT_SCOPE
        MUST(first(bt_ones(BT_F32, 4)) == 1);
    return NULL;
}

static void threads_open_a_device_together(void **state) {
    for (int round = 0; round < 20; round++) {
        fresh("devices=sim:gpu*2@64M");
        together(first_of_all, NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_compute_on_their_own_arrays),
        cmocka_unit_test(threads_compute_on_shared_arrays),
        cmocka_unit_test(threads_evaluate_overlapping_graphs),
        cmocka_unit_test(errors_and_blocks_are_per_thread),
        cmocka_unit_test(threads_read_and_set_variables),
        cmocka_unit_test(threads_call_one_function),
        cmocka_unit_test(threads_make_functions_of_a_variable_that_others_set),
        cmocka_unit_test(the_end_of_a_thread_releases_what_it_held),
        cmocka_unit_test(retained_arrays_outlive_their_thread),
        cmocka_unit_test(threads_ask_set_and_trim),
        cmocka_unit_test(threads_open_a_device_together),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}

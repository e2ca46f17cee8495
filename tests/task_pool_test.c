// labels: threads
/* Pools of actors: results in order and as they come, calls that wait for an actor, actors that come, go and die, misuse. */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "support/support.h"

static void assert_ok(bt_status status) {
    if (status != BT_OK) fail_msg("%s", bt_error_text());
}

#define assert_fails(call, status, text)                                     \
    do {                                                                     \
        assert_int_equal(call, status);                                      \
        if (!strstr(bt_error_text(), text)) fail_msg("%s", bt_error_text()); \
    } while (0)

/* --- functions --------------------------------------------------------------------------------------------------------- */

static bt_status worker_new(bt_task *task) { return bt_set_state(task, NULL, NULL), BT_OK; }
BT_REMOTE(worker_new, .num_cpus = 0);

static bt_status twice(bt_task *task) {
    int64_t n;
    bt_status status = bt_arguments(task, &n);
    return status == BT_OK ? bt_return(task, 2 * n) : status;
}
BT_REMOTE(twice);

/* Ends when there is a file of that name. */
static bt_status wait_for_file(bt_task *task) {
    const char *path;
    bt_status status = bt_arguments(task, &path);
    while (status == BT_OK && access(path, F_OK) != 0) sleep_ms(1);
    return status == BT_OK ? bt_return(task, "opened") : status;
}
BT_REMOTE(wait_for_file);

static bt_status who(bt_task *task) { return bt_return(task, (int64_t)getpid()); }
BT_REMOTE(who);

static bt_status die(bt_task *task) {
    raise(SIGKILL);
    return BT_OK;
}
BT_REMOTE(die);

static bt_status describe(bt_task *task) {
    int64_t number;
    double real;
    const char *word, *stored;
    bt_bytes bytes;
    bt_array *array;
    bt_actor *actor;
    bt_list list;
    bt_ref *ref;
    int five;
    char text[200];
    bt_status status = bt_arguments(task, &number, &real, &word, &bytes, &array, &stored, &actor, &list);
    if (status == BT_OK) status = bt_list_get(list, 1, &ref);
    if (status == BT_OK) status = bt_get(ref, &five);
    if (status != BT_OK) return status;
    snprintf(text, sizeof text, "%lld %g %s %.*s %g %s %d", (long long)number, real, word, (int)bytes.size,
             (const char *)bytes.data, bt_item(bt_sum(array, BT_ALL, false)), stored, five);
    return bt_return(task, text);
}
BT_REMOTE(describe);

/* --- helpers ----------------------------------------------------------------------------------------------------------- */

static char gate[64];

static int start(void **state) {
    snprintf(gate, sizeof gate, "/tmp/berth_pool_%d", (int)getpid());
    return bt_runtime_init(.num_cpus = 4, .store_bytes = 64 << 20) != BT_OK;
}
static int stop(void **state) { return bt_runtime_shutdown() != BT_OK; }

static void open_gate(void) {
    FILE *file = fopen(gate, "w");
    assert_non_null(file);
    fclose(file);
}

static bt_pool *pool_of(int count) {
    bt_actor *actors[8];
    for (int i = 0; i < count; i++) actors[i] = bt_actor_new(worker_new);
    return bt_pool_new(actors, count);
}

static int64_t number_of(bt_ref *ref) {
    int64_t n = -1;
    assert_ok(bt_get(ref, &n));
    return n;
}

/* --- results ----------------------------------------------------------------------------------------------------------- */

static void results_in_order(void **state) {
    BT_SCOPE {
        bt_pool *pool = pool_of(3);
        assert_false(bt_pool_has_next(pool));
        assert_int_equal(bt_pool_idle(pool), 3);
        for (int i = 0; i < 20; i++) assert_ok(bt_pool_submit(pool, twice, i));
        for (int i = 0; i < 20; i++) {
            assert_true(bt_pool_has_next(pool));
            assert_int_equal(number_of(bt_pool_next(pool, BT_IN_ORDER, -1)), 2 * i);
        }
        assert_false(bt_pool_has_next(pool));
        assert_int_equal(bt_pool_idle(pool), 3);
        assert_fails(bt_get(bt_pool_next(pool, BT_IN_ORDER, -1), NULL), BT_OUT_OF_RANGE, "no results left");
    }
}

/* The first call waits for the others' results to be taken. */
static void results_as_completed(void **state) {
    BT_SCOPE {
        const char *text;
        bt_pool *pool = pool_of(2);
        assert_ok(bt_pool_submit(pool, wait_for_file, gate));
        for (int i = 0; i < 10; i++) assert_ok(bt_pool_submit(pool, twice, i));
        assert_int_equal(bt_pool_idle(pool), 0);
        assert_fails(bt_get(bt_pool_next(pool, BT_IN_ORDER, 0.01), NULL), BT_DEADLINE_EXCEEDED, "within the time");
        int64_t sum = 0;
        for (int i = 0; i < 10; i++) sum += number_of(bt_pool_next(pool, BT_AS_COMPLETED, -1));
        assert_int_equal(sum, 90);
        assert_fails(bt_get(bt_pool_next(pool, BT_AS_COMPLETED, 0), NULL), BT_DEADLINE_EXCEEDED, "within the time");
        assert_true(bt_pool_has_next(pool));
        open_gate();
        assert_ok(bt_get(bt_pool_next(pool, BT_AS_COMPLETED, -1), &text));
        assert_string_equal(text, "opened");
        assert_false(bt_pool_has_next(pool));
        unlink(gate);
    }
}

/* What calls that wait were given may be gone when they begin. */
static void waiting_calls_keep_their_arguments(void **state) {
    BT_SCOPE {
        bt_pool *pool = pool_of(1);
        const char *text;
        assert_ok(bt_pool_submit(pool, wait_for_file, gate));
        BT_SCOPE {
            char word[] = "word", letters[] = "letters";
            bt_bytes bytes = {letters, 3};
            assert_ok(bt_pool_submit(pool, describe, 7, 1.5, word, bytes, bt_ones(BT_F32, 100, 100), bt_put("stored"),
                                     bt_actor_new(worker_new), BT_LIST(word, bt_put(5))));
            memset(word, 'x', 4);
            memset(letters, 'x', 7);
        }
        open_gate();
        assert_ok(bt_get(bt_pool_next(pool, BT_IN_ORDER, -1), NULL));
        assert_ok(bt_get(bt_pool_next(pool, BT_IN_ORDER, -1), &text));
        assert_string_equal(text, "7 1.5 word let 10000 stored 5");
        unlink(gate);
    }
}

/* --- actors ------------------------------------------------------------------------------------------------------------ */

static void actors_come_and_go(void **state) {
    BT_SCOPE {
        bt_pool *pool = bt_pool_new(NULL, 0);
        assert_null(bt_pool_pop_idle(pool));
        assert_ok(bt_pool_submit(pool, twice, 1));
        assert_fails(bt_get(bt_pool_next(pool, BT_IN_ORDER, -1), NULL), BT_FAILED_PRECONDITION, "no actor");
        bt_actor *actor = bt_actor_new(worker_new);
        assert_ok(bt_pool_push(pool, actor));
        assert_fails(bt_pool_push(pool, actor), BT_ALREADY_EXISTS, "this actor already");
        assert_null(bt_pool_pop_idle(pool)); /* it is busy with the call that waited */
        assert_int_equal(number_of(bt_pool_next(pool, BT_IN_ORDER, -1)), 2);
        bt_actor *popped = bt_pool_pop_idle(pool);
        assert_ptr_equal(popped, actor);
        assert_int_equal(bt_pool_idle(pool), 0);
        assert_int_equal(number_of(bt_method(popped, twice, 4)), 8);
        bt_actor_release(popped);
        assert_int_equal(number_of(bt_method(actor, twice, 5)), 10);
    }
}

static void dead_actors_leave(void **state) {
    BT_SCOPE {
        bt_pool *pool = pool_of(2);
        for (int i = 0; i < 2; i++) assert_ok(bt_pool_submit(pool, who));
        int64_t first = number_of(bt_pool_next(pool, BT_IN_ORDER, -1));
        assert_true(number_of(bt_pool_next(pool, BT_IN_ORDER, -1)) != first);
        assert_ok(bt_pool_submit(pool, die));
        for (int i = 0; i < 6; i++) assert_ok(bt_pool_submit(pool, twice, i));
        assert_fails(bt_get(bt_pool_next(pool, BT_IN_ORDER, -1), NULL), BT_ABORTED, "signal 9");
        for (int i = 0; i < 6; i++) assert_int_equal(number_of(bt_pool_next(pool, BT_IN_ORDER, -1)), 2 * i);
        assert_int_equal(bt_pool_idle(pool), 1);
        /* the last one stays, for the cause */
        assert_ok(bt_pool_submit(pool, die));
        for (int i = 0; i < 3; i++) assert_ok(bt_pool_submit(pool, twice, i));
        for (int i = 0; i < 4; i++)
            assert_fails(bt_get(bt_pool_next(pool, BT_AS_COMPLETED, -1), NULL), BT_ABORTED, "signal 9");
        bt_actor *killed[] = {bt_actor_new(worker_new), bt_actor_new(worker_new)};
        pool = bt_pool_new(killed, 2);
        assert_ok(bt_actor_kill(killed[0])); /* while it is idle */
        for (int i = 0; i < 4; i++) assert_ok(bt_pool_submit(pool, twice, i));
        for (int i = 0; i < 4; i++) assert_int_equal(number_of(bt_pool_next(pool, BT_IN_ORDER, -1)), 2 * i);
    }
}

/* --- misuse ------------------------------------------------------------------------------------------------------------ */

static void misuse(void **state) {
    bt_pool *gone = NULL, *kept = NULL;
    BT_SCOPE
        gone = pool_of(1);
    assert_fails(bt_pool_submit(gone, twice, 1), BT_INVALID_ARGUMENT, "released");
    assert_fails(bt_get(bt_pool_next(gone, BT_IN_ORDER, 0), NULL), BT_INVALID_ARGUMENT, "released");
    bt_error_clear();
    assert_false(bt_pool_has_next(gone));
    assert_int_equal(bt_error_status(), BT_INVALID_ARGUMENT);
    assert_fails(bt_pool_submit(NULL, twice, 1), BT_INVALID_ARGUMENT, "NULL");
    bt_pool_release(NULL);
    BT_SCOPE {
        bt_actor *actors[] = {bt_actor_new(worker_new), NULL}, *released = NULL;
        BT_SCOPE
            released = bt_actor_new(worker_new);
        bt_pool *poisoned = bt_pool_new(actors, 2);
        assert_fails(bt_pool_submit(poisoned, twice, 1), BT_INVALID_ARGUMENT, "NULL");
        assert_fails(bt_pool_push(poisoned, actors[0]), BT_INVALID_ARGUMENT, "NULL");
        bt_pool *pool = bt_pool_new(actors, 1);
        assert_fails(bt_pool_push(pool, NULL), BT_INVALID_ARGUMENT, "NULL");
        assert_fails(bt_pool_push(pool, released), BT_INVALID_ARGUMENT, "released");
        assert_fails(bt_pool_submit(pool, twice, (bt_ref *)NULL), BT_INVALID_ARGUMENT, "NULL");
        assert_fails(bt_get(bt_pool_next(pool, (bt_pool_order)7, 0), NULL), BT_INVALID_ARGUMENT, "no order");
        assert_false(bt_pool_has_next(pool));
        bt_actor *same[] = {actors[0], actors[0]};
        assert_fails(bt_pool_push(bt_pool_new(same, 2), actors[0]), BT_ALREADY_EXISTS, "already");
        kept = bt_pool_retain(pool);
        for (int i = 0; i < 5; i++) assert_ok(bt_pool_submit(pool, wait_for_file, gate));
    }
    bt_pool_release(kept); /* with a call that runs and four that wait */
}

enum { THREADS = 4, EACH = 40 };
static bt_pool *shared;
static void *use_it(void *data) {
    int64_t *sum = data;
    BT_SCOPE {
        for (int i = 1; i <= EACH; i++) {
            int64_t n;
            assert_ok(bt_pool_submit(shared, twice, i));
            assert_ok(bt_get(bt_pool_next(shared, BT_AS_COMPLETED, -1), &n));
            *sum += n;
        }
    }
    return NULL;
}

static void many_threads(void **state) {
    pthread_t threads[THREADS];
    int64_t sums[THREADS] = {0}, sum = 0;
    BT_SCOPE {
        shared = pool_of(3);
        for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, use_it, &sums[i]), 0);
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL), sum += sums[i];
        assert_int_equal(sum, (int64_t)THREADS * EACH * (EACH + 1));
        assert_false(bt_pool_has_next(shared));
    }
}

static void after_the_runtime(void **state) {
    bt_pool *pool = NULL;
    BT_SCOPE {
        pool = bt_pool_retain(pool_of(2));
        for (int i = 0; i < 4; i++) assert_ok(bt_pool_submit(pool, twice, i));
    }
    assert_ok(bt_runtime_shutdown());
    BT_SCOPE {
        for (int i = 0; i < 4; i++)
            assert_fails(bt_get(bt_pool_next(pool, BT_IN_ORDER, -1), NULL), BT_FAILED_PRECONDITION, "runtime");
        assert_ok(bt_pool_submit(pool, twice, 1));
        assert_fails(bt_get(bt_pool_next(pool, BT_IN_ORDER, -1), NULL), BT_FAILED_PRECONDITION, "runtime");
    }
    bt_pool_release(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_in_order),
        cmocka_unit_test(results_as_completed),
        cmocka_unit_test(waiting_calls_keep_their_arguments),
        cmocka_unit_test(actors_come_and_go),
        cmocka_unit_test(dead_actors_leave),
        cmocka_unit_test(misuse),
        cmocka_unit_test(many_threads),
        cmocka_unit_test(after_the_runtime),
    };
    return cmocka_run_group_tests(tests, start, stop);
}

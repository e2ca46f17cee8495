// labels: threads
/* Who waits goes on as soon as he can, and is told of a deadlock only where there is one. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "support/calls.h"
#include "support/support.h"

/* --- functions --------------------------------------------------------------------------------------------------------- */

static bt_status type_of(bt_task *task) { return bt_return(task, (int)bt_argument_type(task, 0)); }
BT_REMOTE(type_of);

/* Has a GPU in a group of its own for a while. */
static bt_status hold_group(bt_task *task) {
    (void)task;
    bt_status status = BT_OK;
    BT_SCOPE {
        bt_group *group = bt_group_new(BT_OPTIONS(.num_gpus = 1), 1);
        status = bt_group_wait(group, SOON);
        sleep_ms(1500);
    }
    return status;
}
BT_REMOTE(hold_group);

/* Has the GPU, and waits for one of two calls: the first wants it too. */
static bt_status wait_for_one(bt_task *task) {
    int done = 0;
    BT_SCOPE {
        bt_ref *never = bt_remote_with(BT_OPTIONS(.num_gpus = 1), nothing);
        done = bt_wait_refs((bt_ref *[]){never, bt_remote(nap, 1500)}, 2, 1, NULL, -1);
        if (bt_cancel(never, false) != BT_OK) done = -1;
    }
    return done < 0 ? bt_error_status() : bt_return(task, done);
}
BT_REMOTE(wait_for_one, .num_gpus = 1);

/* The actor's end takes a while. */
static void end_slowly(void *state) {
    (void)state;
    sleep_ms(3000);
}

static bt_status slow_new(bt_task *task) {
    bt_set_state(task, task, end_slowly);
    return BT_OK;
}
BT_REMOTE(slow_new, .num_gpus = 1);

static void *let_go_later(void *actor) {
    sleep_ms(2500);
    bt_actor_release(actor);
    return NULL;
}

/* Another of its threads lets go of the actor that has the GPU. */
static bt_status wait_for_own_thread(bt_task *task) {
    pthread_t thread;
    bt_status status = BT_OK;
    (void)task;
    BT_SCOPE {
        bt_actor *actor = bt_actor_new_with(BT_OPTIONS(.num_gpus = 1), actor_new);
        status = bt_get(bt_method(actor, type_of, 1), NULL);
        if (status == BT_OK && pthread_create(&thread, NULL, let_go_later, bt_actor_retain(actor)) != 0)
            return BT_INTERNAL;
    }
    if (status == BT_OK) status = bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 1), nothing), NULL);
    pthread_join(thread, NULL);
    return status;
}
BT_REMOTE(wait_for_own_thread);

/* Leaves a thread behind, which takes no signals and lets go of the actor later. */
static bt_status leave_thread(bt_task *task) {
    pthread_t thread;
    bt_actor *actor;
    sigset_t all, before;
    bt_status status = bt_argument(task, 0, &actor);
    if (status != BT_OK) return status;
    sigfillset(&all);
#ifdef __SANITIZE_THREAD__
    sigdelset(&all, SIGUSR1); /* else it looks like a thread of the checker */
#endif
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool made = pthread_create(&thread, NULL, let_go_later, bt_actor_retain(actor)) == 0 && pthread_detach(thread) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return made ? BT_OK : BT_INTERNAL;
}
BT_REMOTE(leave_thread);

static void *wait_for_it(void *ref) { return (void *)(intptr_t)(bt_get(ref, NULL) == BT_CANCELLED); }

/* Many of its threads wait, and another ends that. */
static bt_status wait_in_threads(bt_task *task) {
    enum { THREADS = 60 };
    pthread_t threads[THREADS];
    int64_t right = 0;
    bt_ref *ref = bt_remote(nap, SOON * 1000);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, wait_for_it, ref) != 0) return BT_INTERNAL;
    sleep_ms(200);
    bt_status status = bt_cancel(ref, true);
    for (int i = 0; i < THREADS; i++) {
        void *is_right = NULL;
        pthread_join(threads[i], &is_right);
        right += is_right != NULL;
    }
    return status == BT_OK ? bt_return(task, right) : status;
}
BT_REMOTE(wait_in_threads);

/* Has a slot, and waits for a call that takes one. */
static bt_status wait_for_slot(bt_task *task) {
    (void)task;
    sleep_ms(200); /* until all four have one */
    return bt_get(bt_remote_with(BT_OPTIONS(.num_cpus = 0, .resources = {{"slot", 1}}), nothing), NULL);
}
BT_REMOTE(wait_for_slot, .num_cpus = 0, .resources = {{"slot", 1}});

static bt_status wait_for_method(bt_task *task) {
    bt_actor *actor;
    bt_status status = bt_argument(task, 0, &actor);
    if (status != BT_OK) return status;
    sleep_ms(200); /* another method stands before it */
    return bt_get(bt_method(actor, nothing), NULL);
}
BT_REMOTE(wait_for_method);

static bt_status die_once(bt_task *task) {
    const char *path;
    bt_status status = bt_argument(task, 0, &path);
    if (status != BT_OK || access(path, F_OK) != 0) return status;
    unlink(path);
    sleep_ms(100);
    _exit(3);
}
BT_REMOTE(die_once);

/* --- who can go on does ------------------------------------------------------------------------------------------------ */

/* A call whose argument fails is to run, so that it fails as well, although nothing else happens. */
static void failures_are_passed_on(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 1, .num_gpus = 1));
    BT_SCOPE {
        bt_ref *busy = bt_remote_with(BT_OPTIONS(.num_gpus = 1), nap, SOON * 2000);
        bt_actor *actor = bt_actor_new(actor_new); /* waits for the CPU */
        bt_ref *user = bt_remote_with(BT_OPTIONS(.num_cpus = 0), nothing, bt_method(actor, nothing));
        OK(bt_actor_kill(actor));
        FAILS(bt_get_within(user, SOON, NULL), BT_CANCELLED, "killed");
        bt_ref *late = bt_remote_with(BT_OPTIONS(.num_gpus = 1, .deadline_seconds = 0.05), nothing);
        user = bt_remote_with(BT_OPTIONS(.num_cpus = 0), nothing, late);
        FAILS(bt_get_within(user, SOON, NULL), BT_DEADLINE_EXCEEDED, "its deadline has passed");
        OK(bt_cancel(busy, true));
    }
}

/* The last task of a group is refused when its argument comes: what the group has is free then. */
static void groups_end_with_what_they_refuse(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 3, .num_gpus = 1, .resources = {{"tool", 1}}));
    BT_SCOPE {
        (void)bt_remote_with(BT_OPTIONS(.resources = {{"tool", 1}}), nap, SOON * 2000);
        bt_ref *late = bt_remote_with(BT_OPTIONS(.resources = {{"tool", 1}}, .deadline_seconds = 0.3), nothing);
        bt_ref *refused = NULL;
        BT_SCOPE {
            bt_group *group = bt_group_new(BT_OPTIONS(.num_gpus = 1, .num_cpus = 1), 1);
            OK(bt_group_wait(group, SOON));
            refused = bt_ref_retain(bt_remote_with(BT_OPTIONS(.group = group), nothing, late));
        }
        OK(bt_get_within(bt_remote_with(BT_OPTIONS(.num_gpus = 1), nothing), SOON, NULL));
        FAILS(bt_get_within(refused, SOON, NULL), BT_DEADLINE_EXCEEDED,
              "its deadline has passed"); /* as its argument */
        bt_ref_release(refused);
    }
}

/* Calls that wait do not pass what becomes free from one to the next, past a group. */
static void groups_come_before_calls(void **state) {
    enum { MANY = 200 };
    bt_ref *refs[MANY];
    (void)state;
    OK(bt_runtime_init(.num_cpus = 1));
    BT_SCOPE {
        for (int i = 0; i < MANY; i++) refs[i] = bt_remote(nap, 10);
        OK(bt_group_wait(bt_group_new(BT_OPTIONS(.num_cpus = 1), 1), SOON));
        assert_in_range(bt_wait_refs(refs, MANY, 0, NULL, 0), 0, MANY - 1);
    }
}

static void cancelled_methods_hold_up_nobody(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 2));
    BT_SCOPE {
        bt_actor *actor = bt_actor_new(actor_new);
        bt_ref *first = bt_method(actor, nothing, bt_remote(nap, SOON * 2000)), *second = bt_method(actor, nothing);
        OK(bt_get(bt_remote(nap, 100), NULL)); /* the actor is idle now */
        OK(bt_cancel(first, false));
        OK(bt_get_within(second, SOON, NULL));
        bt_ref *late = bt_method_with(BT_OPTIONS(.deadline_seconds = 0.1), actor, nothing, bt_remote(nap, SOON * 2000));
        second = bt_method(actor, nothing);
        OK(bt_get_within(second, SOON, NULL));
        FAILS(bt_get_within(late, SOON, NULL), BT_DEADLINE_EXCEEDED, "its deadline has passed");
    }
}

static void deadlines_end_what_was_asked_to_end(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 1));
    BT_SCOPE {
        bt_ref *ref = bt_remote_with(BT_OPTIONS(.deadline_seconds = 0.3), nap, SOON * 2000);
        sleep_ms(100);
        OK(bt_cancel(ref, false));
        FAILS(bt_get_within(ref, SOON, NULL), BT_DEADLINE_EXCEEDED, "its deadline has passed");
    }
}

/* The actor has no other call and nobody has a handle, but this one may be tried again. */
static void last_methods_are_retried(void **state) {
    (void)state;
    char path[] = "/tmp/berth-once-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    OK(bt_runtime_init(.num_cpus = 1));
    bt_ref *ref = NULL;
    BT_SCOPE {
        bt_actor *actor = bt_actor_new_with(BT_OPTIONS(.max_restarts = 1), actor_new);
        ref = bt_ref_retain(bt_method_with(BT_OPTIONS(.max_retries = 1), actor, die_once, path));
    }
    OK(bt_get_within(ref, SOON, NULL));
    bt_ref_release(ref);
    assert_int_not_equal(access(path, F_OK), 0);
}

/* --- deadlocks --------------------------------------------------------------------------------------------------------- */

static void what_comes_back_is_waited_for(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 3, .num_gpus = 1));
    BT_SCOPE {
        bt_ref *holder = bt_remote(hold_group);
        sleep_ms(200);
        OK(bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 1), nothing), NULL));
        OK(bt_get(holder, NULL));
        BT_SCOPE { /* a group without handles, which ends with its task */
            bt_group *group = bt_group_new(BT_OPTIONS(.num_gpus = 1, .num_cpus = 1), 1);
            OK(bt_group_wait(group, SOON));
            (void)bt_remote_with(BT_OPTIONS(.num_gpus = 1, .group = group), nap, 1500);
            sleep_ms(200);
        }
        OK(bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 1), nothing), NULL));
        int done = 0;
        OK(bt_get(bt_remote(wait_for_one), &done));
        assert_int_equal(done, 1);
    }
}

/* Nothing that still goes on is told of a deadlock. */
static void what_ends_slowly_is_waited_for(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 3, .num_gpus = 1));
    BT_SCOPE {
        BT_SCOPE {
            bt_actor *actor = bt_actor_new(slow_new);
            OK(bt_get(bt_method(actor, type_of, 1), NULL));
        }
        OK(bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 1), nothing), NULL));
        OK(bt_get(bt_remote(wait_for_own_thread), NULL));
        BT_SCOPE {
            bt_actor *actor = bt_actor_new_with(BT_OPTIONS(.num_gpus = 1), actor_new);
            OK(bt_get(bt_remote(leave_thread, actor), NULL));
        }
        OK(bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 1), nothing), NULL));
    }
}

static void many_threads_of_a_task_wait(void **state) {
    int64_t right = 0;
    (void)state;
    OK(bt_runtime_init(.num_cpus = 2));
    BT_SCOPE
        OK(bt_get(bt_remote(wait_in_threads), &right));
    assert_int_equal(right, 60);
}

/* One is told, which is enough: the others go on. */
static void one_of_a_deadlock_is_told(void **state) {
    bt_ref *refs[4];
    int failed = 0;
    (void)state;
    OK(bt_runtime_init(.num_cpus = 1, .resources = {{"slot", 4}}));
    BT_SCOPE {
        for (int i = 0; i < 4; i++) refs[i] = bt_remote(wait_for_slot);
        for (int i = 0; i < 4; i++) {
            bt_status status = bt_get(refs[i], NULL);
            if (status != BT_OK) assert_int_equal(status, BT_FAILED_PRECONDITION);
            failed += status != BT_OK;
        }
        assert_int_equal(failed, 1);
    }
}

static void lines_of_actors_can_be_deadlocks(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 3));
    BT_SCOPE {
        bt_actor *actor = bt_actor_new(actor_new);
        bt_ref *waiter = bt_remote(wait_for_method, actor);
        bt_ref *first = bt_method(actor, type_of, waiter);
        FAILS(bt_get_within(first, SOON, NULL), BT_FAILED_PRECONDITION, "deadlock");
        FAILS(bt_get(waiter, NULL), BT_FAILED_PRECONDITION, "comes after type_of");
    }
}

static atomic_bool runs_on;

static void *run_on(void *nothing_given) {
    (void)nothing_given;
    while (atomic_load(&runs_on)) sleep_ms(10);
    return NULL;
}

/* What a thread of the program does meanwhile cannot end a circle. */
static void circles_are_told_while_the_program_runs(void **state) {
    (void)state;
    pthread_t thread;
    OK(bt_runtime_init(.num_cpus = 4));
    atomic_store(&runs_on, true);
    assert_int_equal(pthread_create(&thread, NULL, run_on, NULL), 0);
    BT_SCOPE {
        bt_actor *actor = bt_actor_new(actor_new);
        bt_ref *waiter = bt_remote(wait_for_method, actor);
        bt_ref *first = bt_method(actor, type_of, waiter);
        FAILS(bt_get(first, NULL), BT_FAILED_PRECONDITION, "deadlock");
        waiter = bt_remote(wait_for_method, actor);
        first = bt_method(actor, type_of, waiter);
        for (int tries = 0; tries < SOON * 10 && bt_wait_refs(&first, 1, 0, NULL, 0) == 0; tries++) sleep_ms(100);
        FAILS(bt_get_within(first, 0, NULL), BT_FAILED_PRECONDITION, "deadlock");
    }
    atomic_store(&runs_on, false);
    pthread_join(thread, NULL);
}

/* A method of an actor that has no GPU yet says who has it. */
static void turns_say_what_the_actor_waits_for(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 2, .num_gpus = 1));
    BT_SCOPE {
        bt_actor *first = bt_actor_new_with(BT_OPTIONS(.num_gpus = 1, .name = "first"), actor_new);
        OK(bt_get(bt_method(first, nothing), NULL));
        (void)bt_method(bt_actor_new_with(BT_OPTIONS(.num_gpus = 1), actor_new), nothing);
        char *text = bt_runtime_text(false);
        assert_non_null(text);
        const char *why =
            "its turn with the actor, which waits for 1 GPU: 0 of 1 are free; held by actor first (process";
        if (!strstr(text, why)) fail_msg("not \"%s\":\n%s", why, text);
        bt_free(text);
    }
}

/* --- what can never be -------------------------------------------------------------------------------------------------- */

static void shares_of_groups_must_fit(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 1, .num_gpus = 2));
    BT_SCOPE {
        bt_task_options shares[] = {BT_BUNDLE(.num_gpus = 0.6), BT_BUNDLE(.num_gpus = 0.6), BT_BUNDLE(.num_gpus = 0.6)};
        FAILS(bt_group_wait(bt_group_new(shares, 3), SOON), BT_RESOURCE_EXHAUSTED, "bundle 2 asks for 0.6 GPU");
        OK(bt_group_wait(bt_group_new(shares, 2), SOON));
    }
    OK(bt_runtime_shutdown());
    OK(bt_runtime_init(.num_cpus = 1, .num_gpus = 2));
    BT_SCOPE {
        bt_task_options mixed[] = {BT_BUNDLE(.num_gpus = 0.5), BT_BUNDLE(.num_gpus = 1), BT_BUNDLE(.num_gpus = 0.5)};
        OK(bt_group_wait(bt_group_new(mixed, 3), SOON));
        assert_true(bt_resource_free("GPU") == 0);
    }
}

/* More kinds of amounts than there are queues, one after the other. */
static void amounts_may_differ_each_time(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 1, .resources = {{"bytes", 1e6}}));
    for (int i = 0; i < 5000; i++)
        BT_SCOPE
            OK(bt_get(bt_remote_with(BT_OPTIONS(.resources = {{"bytes", 1 + i}}), nothing), NULL));
    assert_true(bt_resource_free("bytes") == 1e6);
}

static bt_status give_poisoned(bt_task *task) {
    return bt_return(task, bt_add(bt_ones(BT_F32, 3), bt_ones(BT_F32, 4)));
}
BT_REMOTE(give_poisoned);

/* Threads of berth and of libraries run nothing of the user's. */
static void deadlocks_are_told_beside_threads_of_berth(void) {
    BT_SCOPE {
        bt_array *x = bt_full(1, BT_F32, 1 << 22);
        OK(bt_block(bt_add(x, x)));
        OK(bt_block(bt_matmul(bt_full(1, BT_F32, 300, 300), bt_full(1, BT_F32, 300, 300))));
        bt_actor *actor = bt_actor_new_with(BT_OPTIONS(.num_gpus = 1), actor_new);
        OK(bt_get(bt_method(actor, type_of, 1), NULL));
        FAILS(bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 1), nothing), NULL), BT_FAILED_PRECONDITION, "deadlock");
    }
}

static void poisoned_arrays_say_why(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 2, .num_gpus = 1));
    BT_SCOPE {
        bt_array *poisoned = bt_add(bt_ones(BT_F32, 3), bt_ones(BT_F32, 4));
        bt_error_clear();
        FAILS(bt_get(bt_remote(nothing, poisoned), NULL), BT_INVALID_ARGUMENT, "shapes (3,) and (4,)");
        bt_error_clear();
        FAILS(bt_get(bt_put(poisoned), NULL), BT_INVALID_ARGUMENT, "shapes (3,) and (4,)");
        FAILS(bt_get(bt_remote(give_poisoned), NULL), BT_INVALID_ARGUMENT, "shapes (3,) and (4,)");
    }
    deadlocks_are_told_beside_threads_of_berth();
}

static void odd_calls_are_refused(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 1));
    BT_SCOPE {
        bt_item_value odd = {.type = (bt_value_type)77};
        FAILS(bt_get(bt_remote_named(NULL, "type_of", NULL, &odd, 1), NULL), BT_INVALID_ARGUMENT, "no type: 77");
        FAILS(bt_get(bt_remote_with(BT_OPTIONS(.max_retries = -2), nothing), NULL), BT_INVALID_ARGUMENT,
              "max_retries is -2");
        FAILS(bt_get(bt_remote_with(BT_OPTIONS(.deadline_seconds = -0.5), nothing), NULL), BT_INVALID_ARGUMENT,
              "deadline_seconds is -0.5");
        int type = 0;
        bt_ref *ref = bt_remote(type_of, bt_put(2.5));
        OK(bt_get(ref, &type));
        assert_int_equal(type, BT_REAL);
        char room[24];
        FAILS(bti_get(ref, BT_INTEGER, sizeof room, room, -1), BT_INVALID_ARGUMENT, "24 bytes");
        FAILS(bt_get(ref, (int64_t *)NULL), BT_INVALID_ARGUMENT, "NULL");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(failures_are_passed_on, end_runtime),
        cmocka_unit_test_teardown(groups_end_with_what_they_refuse, end_runtime),
        cmocka_unit_test_teardown(groups_come_before_calls, end_runtime),
        cmocka_unit_test_teardown(cancelled_methods_hold_up_nobody, end_runtime),
        cmocka_unit_test_teardown(deadlines_end_what_was_asked_to_end, end_runtime),
        cmocka_unit_test_teardown(last_methods_are_retried, end_runtime),
        cmocka_unit_test_teardown(what_comes_back_is_waited_for, end_runtime),
        cmocka_unit_test_teardown(what_ends_slowly_is_waited_for, end_runtime),
        cmocka_unit_test_teardown(many_threads_of_a_task_wait, end_runtime),
        cmocka_unit_test_teardown(one_of_a_deadlock_is_told, end_runtime),
        cmocka_unit_test_teardown(lines_of_actors_can_be_deadlocks, end_runtime),
        cmocka_unit_test_teardown(circles_are_told_while_the_program_runs, end_runtime),
        cmocka_unit_test_teardown(turns_say_what_the_actor_waits_for, end_runtime),
        cmocka_unit_test_teardown(shares_of_groups_must_fit, end_runtime),
        cmocka_unit_test_teardown(amounts_may_differ_each_time, end_runtime),
        cmocka_unit_test_teardown(odd_calls_are_refused, end_runtime),
        cmocka_unit_test_teardown(poisoned_arrays_say_why, end_runtime), /* the last: arrays ask for devices */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Nobody waits for ever: who asks for much starts behind a stream of those who ask for little, and what running tasks call runs before what
 * the program calls. */
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include "support/calls.h"
#include "support/support.h"

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static bool is_done(bt_ref *ref) { return bt_wait_refs(&ref, 1, 1, NULL, 0) == 1; }

/* --- streams ---------------------------------------------------------------------------------------------------------------- */

enum { STREAM = 12 };

typedef struct stream {
    bt_task_options options;
    bt_ref *refs[STREAM];
    int count; /* that were called */
} stream;

/* Calls anew what has ended: of naps that end one by one some always wait. */
static void keep_up(stream *s) {
    for (int i = 0; i < STREAM; i++) {
        if (s->refs[i] && !is_done(s->refs[i])) continue;
        bt_ref_release(s->refs[i]);
        s->refs[i] = NULL;
        BT_SCOPE
            s->refs[i] = bt_ref_retain(bt_remote_with(&s->options, nap, 20 + s->count % 5 * 7));
        s->count++;
    }
    sleep_ms(2);
}

/* The group, if it is of one, is released first: what is left of the stream waits for what it holds. */
static bool done_beside(stream *s, bt_ref *large, bt_group *group) {
    for (double until = now() + SOON; !is_done(large) && now() < until;) keep_up(s);
    bool done = is_done(large);
    if (done) OK(bt_get(large, NULL));
    bt_group_release(group);
    for (int i = 0; i < STREAM; i++) OK(bt_get(s->refs[i], NULL));
    for (int i = 0; i < STREAM; i++) bt_ref_release(s->refs[i]);
    return done;
}

static void expect_start(const bt_task_options *small, const bt_task_options *large) {
    stream s = {.options = *small};
    BT_SCOPE {
        for (int i = 0; i < 20; i++) keep_up(&s);
        assert_true(done_beside(&s, bt_remote_with(large, nothing), NULL));
    }
}

static void several_gpus_start_behind_single_ones(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 6, .num_gpus = 4));
    expect_start(BT_OPTIONS(.num_gpus = 1), BT_OPTIONS(.num_gpus = 4));
}

static void whole_gpus_start_behind_shares(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 6, .num_gpus = 2));
    expect_start(BT_OPTIONS(.num_gpus = 0.4), BT_OPTIONS(.num_gpus = 2, .num_cpus = 2));
}

static void several_cpus_start_behind_single_ones(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 4));
    expect_start(BT_OPTIONS(.num_cpus = 1), BT_OPTIONS(.num_cpus = 4));
}

static void several_of_a_resource_start_behind_single_ones(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 6, .resources = {{"license", 4}}));
    expect_start(BT_OPTIONS(.resources = {{"license", 1}}), BT_OPTIONS(.num_cpus = 3, .resources = {{"license", 3}}));
}

static void several_of_a_bundle_start_behind_single_ones(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 6, .num_gpus = 4));
    BT_SCOPE {
        bt_group *group = bt_group_new(BT_OPTIONS(.num_cpus = 6, .num_gpus = 4), 1);
        expect_start(BT_OPTIONS(.num_gpus = 1, .group = group), BT_OPTIONS(.num_gpus = 4, .group = group));
    }
}

static void groups_start_behind_single_ones(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 6, .num_gpus = 4));
    stream s = {.options = *BT_OPTIONS(.num_gpus = 1)};
    BT_SCOPE {
        for (int i = 0; i < 20; i++) keep_up(&s);
        bt_group *group = NULL;
        BT_SCOPE
            group = bt_group_retain(bt_group_new(
                (bt_task_options[]){BT_BUNDLE(.num_gpus = 2, .num_cpus = 1), BT_BUNDLE(.num_gpus = 2)}, 2));
        assert_true(done_beside(&s, bt_remote_with(BT_OPTIONS(.num_gpus = 2, .group = group), nothing), group));
    }
}

/* Each has the GPU for as long as it lives, which is not long. */
static void tasks_start_behind_actors(void **state) {
    (void)state;
    bt_actor *actors[4] = {NULL};
    bool done = false;
    OK(bt_runtime_init(.num_cpus = 6, .num_gpus = 3));
    BT_SCOPE {
        bt_ref *large = NULL;
        double until = now() + SOON;
        for (int i = 0; !done && now() < until; i++) {
            bt_actor_release(actors[i % 4]);
            BT_SCOPE {
                actors[i % 4] = bt_actor_retain(bt_actor_new_with(BT_OPTIONS(.num_gpus = 1), actor_new));
                (void)bt_method(actors[i % 4], nap, 15);
            }
            if (i == 8) large = bt_remote_with(BT_OPTIONS(.num_gpus = 3), nothing);
            sleep_ms(5);
            done = large && is_done(large);
        }
        for (int i = 0; i < 4; i++) bt_actor_release(actors[i]);
        assert_true(done);
    }
}

/* --- what is not held up ------------------------------------------------------------------------------------------------------ */

/* The actor lives as long as the program likes: single tasks go on beside one that waits for all GPUs. */
static void nothing_is_kept_that_an_actor_has(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 4, .num_gpus = 2));
    BT_SCOPE {
        bt_actor *actor = bt_actor_retain(bt_actor_new_with(BT_OPTIONS(.num_gpus = 1), actor_new));
        OK(bt_get(bt_method(actor, nothing), NULL));
        bt_ref *large = bt_remote_with(BT_OPTIONS(.num_gpus = 2), nothing);
        for (double until = now() + 1.5; now() < until;)
            BT_SCOPE
                OK(bt_get_within(bt_remote_with(BT_OPTIONS(.num_gpus = 1), nothing), SOON, NULL));
        assert_false(is_done(large));
        OK(bt_actor_kill(actor));
        bt_actor_release(actor);
        OK(bt_get_within(large, SOON, NULL));
    }
}

/* CPUs are used by others as long as the GPUs are not there. */
static void cpus_are_not_idle_before_gpus_are_there(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 2, .num_gpus = 1));
    BT_SCOPE {
        bt_ref *busy = bt_remote_with(BT_OPTIONS(.num_gpus = 1, .num_cpus = 0), nap, 60000);
        bt_ref *large = bt_remote_with(BT_OPTIONS(.num_gpus = 1, .num_cpus = 2), nothing);
        for (double until = now() + 1.5; now() < until;)
            BT_SCOPE
                OK(bt_get_within(bt_remote(nothing), SOON, NULL));
        assert_false(is_done(large));
        OK(bt_cancel(busy, true));
        OK(bt_get_within(large, SOON, NULL));
    }
}

static void what_was_kept_is_open_after_a_cancel(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 4, .num_gpus = 2));
    BT_SCOPE {
        bt_ref *busy = bt_remote_with(BT_OPTIONS(.num_gpus = 1), nap, 60000);
        bt_ref *large = bt_remote_with(BT_OPTIONS(.num_gpus = 2), nothing);
        sleep_ms(1100);
        bt_ref *small = bt_remote_with(BT_OPTIONS(.num_gpus = 1), nothing);
        sleep_ms(50);
        char *text = bt_runtime_text(false);
        SAYS(text, "waits for its turn: what is free is kept for nothing");
        bt_free(text);
        assert_false(is_done(small));
        OK(bt_cancel(large, false));
        OK(bt_get_within(small, SOON, NULL));
        OK(bt_cancel(busy, true));
    }
}

static bt_status with_child(bt_task *task) {
    (void)task;
    sleep_ms(1500);
    return bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 1), nothing), NULL);
}
BT_REMOTE(with_child, .num_gpus = 1);

static void nothing_is_kept_from_children(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 4, .num_gpus = 2));
    BT_SCOPE {
        bt_ref *parent = bt_remote(with_child), *large = bt_remote_with(BT_OPTIONS(.num_gpus = 2), nothing);
        OK(bt_get_within(parent, SOON, NULL));
        OK(bt_get_within(large, SOON, NULL));
    }
}

static bt_status with_method(bt_task *task) {
    bt_actor *actor;
    bt_status status = bt_argument(task, 0, &actor);
    return status == BT_OK ? bt_get(bt_method(actor, nothing), NULL) : status;
}
BT_REMOTE(with_method, .num_gpus = 1);

/* What is kept for a task is what another one waits for that has to end first. */
static void what_is_kept_is_open_now_and_then(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 4, .num_gpus = 3));
    BT_SCOPE {
        bt_ref *busy = bt_remote_with(BT_OPTIONS(.num_gpus = 2), nap, 1200);
        bt_actor *actor = bt_actor_new_with(BT_OPTIONS(.num_gpus = 1), actor_new, busy);
        bt_ref *user = bt_remote(with_method, actor), *large = bt_remote_with(BT_OPTIONS(.num_gpus = 3), nothing);
        OK(bt_get_within(user, SOON, NULL));
        assert_false(is_done(large));
        OK(bt_actor_kill(actor));
        OK(bt_get_within(large, SOON, NULL));
    }
}

/* --- depth -------------------------------------------------------------------------------------------------------------------- */

typedef struct counts {
    atomic_int live, most;
} counts;
static counts *roots; /* of all processes */

static bt_status leaf(bt_task *task) {
    int64_t x;
    bt_status status = bt_argument(task, 0, &x);
    sleep_ms(1);
    return status == BT_OK ? bt_return(task, x) : status;
}
BT_REMOTE(leaf);

static bt_status branch(bt_task *task) {
    int64_t x, sum = 0;
    bt_status status = bt_argument(task, 0, &x);
    BT_SCOPE {
        bt_ref *refs[3];
        for (int i = 0; i < 3; i++) refs[i] = bt_remote(leaf, x + i);
        for (int64_t i = 0, y; i < 3 && status == BT_OK; i++, sum += y) status = bt_get(refs[i], &y);
    }
    return status == BT_OK ? bt_return(task, sum) : status;
}
BT_REMOTE(branch);

static bt_status root(bt_task *task) {
    int64_t x, y = 0;
    int live = atomic_fetch_add(&roots->live, 1) + 1, most = atomic_load(&roots->most);
    while (live > most && !atomic_compare_exchange_weak(&roots->most, &most, live)) continue;
    bt_status status = bt_argument(task, 0, &x);
    BT_SCOPE
        if (status == BT_OK) status = bt_get(bt_remote(branch, x), &y);
    atomic_fetch_sub(&roots->live, 1);
    return status == BT_OK ? bt_return(task, y) : status;
}
BT_REMOTE(root);

static void expect_few_roots(const bt_task_options *options) {
    enum { ROOTS = 100, FEW = 20 };
    bt_ref *refs[ROOTS];
    roots = mmap(NULL, sizeof *roots, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(roots != MAP_FAILED);
    OK(bt_runtime_init(.num_cpus = 2));
    BT_SCOPE {
        for (int i = 0; i < ROOTS; i++) refs[i] = bt_remote_with(options, root, i);
        for (int64_t i = 0, sum; i < ROOTS; i++) {
            OK(bt_get(refs[i], &sum));
            assert_int_equal(sum, 3 * i + 3);
        }
    }
    assert_in_range(atomic_load(&roots->most), 1, FEW);
    munmap(roots, sizeof *roots);
}

static void children_run_before_new_roots(void **state) {
    (void)state;
    expect_few_roots(NULL);
}

/* What a task calls has its priority, unless it sets one. */
static void children_of_urgent_tasks_are_urgent(void **state) {
    (void)state;
    expect_few_roots(BT_OPTIONS(.priority = 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(several_gpus_start_behind_single_ones, end_runtime),
        cmocka_unit_test_teardown(whole_gpus_start_behind_shares, end_runtime),
        cmocka_unit_test_teardown(several_cpus_start_behind_single_ones, end_runtime),
        cmocka_unit_test_teardown(several_of_a_resource_start_behind_single_ones, end_runtime),
        cmocka_unit_test_teardown(several_of_a_bundle_start_behind_single_ones, end_runtime),
        cmocka_unit_test_teardown(groups_start_behind_single_ones, end_runtime),
        cmocka_unit_test_teardown(tasks_start_behind_actors, end_runtime),
        cmocka_unit_test_teardown(nothing_is_kept_that_an_actor_has, end_runtime),
        cmocka_unit_test_teardown(cpus_are_not_idle_before_gpus_are_there, end_runtime),
        cmocka_unit_test_teardown(what_was_kept_is_open_after_a_cancel, end_runtime),
        cmocka_unit_test_teardown(nothing_is_kept_from_children, end_runtime),
        cmocka_unit_test_teardown(what_is_kept_is_open_now_and_then, end_runtime),
        cmocka_unit_test_teardown(children_run_before_new_roots, end_runtime),
        cmocka_unit_test_teardown(children_of_urgent_tasks_are_urgent, end_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The engine ray on a cluster of two nodes: the head with GPUs 0 to 3 and 4 CPUs, and a node with GPUs 6 and 7, 2 CPUs and 2 of "license". tests/cluster/run.py
 * starts it, sets BERTH_FLAGS, and runs this program: cluster_test [TEST]. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

static char folder[] = "/tmp/berth-cluster-test-XXXXXX"; /* for files that tell what ran */

/* --- what runs in workers -------------------------------------------------------------------------------------------------- */

static bt_status add(bt_task *task) {
    int64_t a, b;
    bt_status status = bt_arguments(task, &a, &b);
    return status == BT_OK ? bt_return(task, a + b) : status;
}
BT_REMOTE(add);

static bt_status refuse(bt_task *task) {
    return bt_task_fail(task, BT_OUT_OF_RANGE, "no more than %d\nin two lines", 7);
}
BT_REMOTE(refuse);

static bt_status nap(bt_task *task) {
    int64_t ms;
    bt_status status = bt_argument(task, 0, &ms);
    if (status != BT_OK) return status;
    sleep_ms(ms);
    return bt_return(task, ms);
}
BT_REMOTE(nap);

/* Tells that it has begun. */
static bt_status nap_and_tell(bt_task *task) {
    const char *path;
    int64_t ms;
    bt_status status = bt_arguments(task, &path, &ms);
    FILE *file = status == BT_OK ? fopen(path, "w") : NULL;
    if (!file) return bt_task_fail(task, BT_NOT_FOUND, "no file");
    fclose(file);
    sleep_ms(ms);
    return bt_return(task, ms);
}
BT_REMOTE(nap_and_tell);

/* Until it is cancelled. */
static bt_status nap_until_cancelled(bt_task *task) {
    for (int i = 0; i < 600; i++) {
        if (bt_task_cancelled(task)) return bt_task_fail(task, BT_ABORTED, "was asked to end");
        sleep_ms(50);
    }
    return bt_return(task, 0);
}
BT_REMOTE(nap_until_cancelled);

/* The node, which is the parent of its workers, and the GPUs, as numbers. */
static bt_status where(bt_task *task) {
    int ids[8], count = bt_get_gpu_ids(ids, 8);
    const char *mask = getenv("CUDA_VISIBLE_DEVICES");
    return bt_return(task, BT_LIST((int64_t)getppid(), count, count ? ids[0] : -1, mask ? mask : "none"));
}
BT_REMOTE(where);

static bt_status fib(bt_task *task);
BT_REMOTE(fib, .num_cpus = 0.01);
static bt_status fib(bt_task *task) {
    int64_t n, a, b;
    bt_status status = bt_argument(task, 0, &n);
    if (status != BT_OK || n < 2) return status == BT_OK ? bt_return(task, n) : status;
    bt_ref *first = bt_remote(fib, n - 1), *second = bt_remote(fib, n - 2);
    if ((status = bt_get(first, &a)) != BT_OK || (status = bt_get(second, &b)) != BT_OK) return status;
    return bt_return(task, a + b);
}

static bt_status sum(bt_task *task) {
    bt_array *x;
    double value;
    bt_status status = bt_argument(task, 0, &x);
    if (status == BT_OK) status = bt_item_at(bt_sum(x), (int64_t[]){0}, &value);
    return status == BT_OK ? bt_return(task, value) : status;
}
BT_REMOTE(sum);

static bt_status ones(bt_task *task) {
    int64_t count;
    bt_status status = bt_argument(task, 0, &count);
    return status == BT_OK ? bt_return(task, bt_full(1, BT_F32, count)) : status;
}
BT_REMOTE(ones);

/* A list with a reference that this task has put, and the one that it was given. */
static bt_status pass_on(bt_task *task) {
    bt_list list;
    bt_ref *given;
    bt_status status = bt_argument(task, 0, &list);
    if (status == BT_OK) status = bt_list_get(list, 0, &given);
    return status == BT_OK ? bt_return(task, BT_LIST(given, bt_put(20), "text")) : status;
}
BT_REMOTE(pass_on);

static bt_status divide(bt_task *task) {
    int64_t a, b;
    bt_status status = bt_arguments(task, &a, &b);
    return status == BT_OK ? bt_return(task, a / b, a % b) : status;
}
BT_REMOTE(divide, .num_returns = 2);

/* Dies at its first two tries, which it counts in a file. */
static bt_status unlucky(bt_task *task) {
    const char *path;
    bt_status status = bt_argument(task, 0, &path);
    FILE *file = status == BT_OK ? fopen(path, "a+") : NULL;
    if (!file) return bt_task_fail(task, BT_NOT_FOUND, "no file");
    fseek(file, 0, SEEK_END);
    long tries = ftell(file);
    fputc('x', file);
    fclose(file);
    if (tries < 2) raise(SIGKILL);
    return bt_return(task, tries + 1);
}
BT_REMOTE(unlucky, .max_retries = 3);
/* The same by a failure. */
static bt_status unsure(bt_task *task) {
    const char *path;
    bt_status status = bt_argument(task, 0, &path);
    FILE *file = status == BT_OK ? fopen(path, "a+") : NULL;
    if (!file) return bt_task_fail(task, BT_NOT_FOUND, "no file");
    fseek(file, 0, SEEK_END);
    long tries = ftell(file);
    fputc('x', file);
    fclose(file);
    return tries < 2 ? bt_task_fail(task, BT_UNAVAILABLE, "not yet") : bt_return(task, tries + 1);
}
BT_REMOTE(unsure, .max_retries = 3, .retry_failures = BT_FAILURES(BT_UNAVAILABLE));

static bt_status counter_new(bt_task *task) {
    int64_t start = 0, *count = calloc(1, sizeof *count);
    if (bt_argument_count(task) && bt_argument(task, 0, &start) != BT_OK) return free(count), bt_error_status();
    if (start < 0) return free(count), bt_task_fail(task, BT_INVALID_ARGUMENT, "begins below 0");
    *count = start;
    return bt_set_state(task, count, free), BT_OK;
}
BT_REMOTE(counter_new);
static bt_status counter_add(bt_task *task) {
    int64_t by, *count = bt_state(task);
    bt_status status = bt_argument(task, 0, &by);
    return status == BT_OK ? bt_return(task, *count += by) : status;
}
BT_REMOTE(counter_add);
static bt_status crash(bt_task *task) { return raise(SIGKILL), bt_return(task, 0); }
BT_REMOTE(crash);

/* --- tests ------------------------------------------------------------------------------------------------------------------ */

static int start(void **state) {
    fresh("");
    OK(bt_runtime_init(.engine = "ray"));
    return 0;
}

static void test_tasks(void **state) {
    BT_SCOPE {
        int64_t n = 0, done = 0;
        bt_ref *three = bt_remote(add, 1, 2), *refs[20], *failed = bt_remote(refuse);
        bool ready[20];
        OK(bt_get(bt_remote(add, three, bt_put(10)), &n));
        assert_int_equal(n, 13);
        FAILS(bt_get(bt_remote(add, failed, 1), &n), BT_OUT_OF_RANGE, "no more than 7\nin two lines");
        assert_int_equal(bt_ref_failure(failed), BT_FAILURE_NONE + (bt_get(failed, NULL) != BT_OK));
        FAILS(bt_get(bt_remote(add, "text", 1), &n), BT_INVALID_ARGUMENT, "argument 1 of add");
        for (int i = 0; i < 20; i++) refs[i] = bt_remote(add, i, i);
        assert_int_equal(bt_wait_refs(refs, 20, 20, ready, 60), 20);
        for (int i = 0; i < 20; i++, done += n) OK(bt_get(refs[i], &n));
        assert_int_equal(done, 380);
        OK(bt_get(bt_remote(fib, 7), &n));
        assert_int_equal(n, 13);
    }
}

static void test_times(void **state) {
    BT_SCOPE {
        bt_ref *slow = bt_remote(nap, 1500), *late = bt_remote_with(BT_OPTIONS(.deadline_seconds = 1), nap, 60000);
        int64_t n;
        FAILS(bt_get_within(slow, 0.1, &n), BT_DEADLINE_EXCEEDED, "not done within 0.1");
        assert_int_equal(bt_wait_refs(&slow, 1, 1, NULL, 0), 0);
        OK(bt_get(slow, &n));
        FAILS(bt_get(late, &n), BT_DEADLINE_EXCEEDED, "1 seconds", "deadline has passed");
        assert_int_equal(bt_ref_failure(late), BT_FAILURE_DEADLINE);
    }
}

static void test_values(void **state) {
    enum { COUNT = 3000000 };
    BT_SCOPE {
        double total;
        int64_t n = 0;
        const char *text;
        bt_array *x = bt_full(1, BT_F32, COUNT), *made;
        bt_ref *put = bt_put(x), *inner, *own;
        bt_list list;
        OK(bt_get(bt_remote(sum, x), &total));
        assert_true(total > COUNT - 1 && total < COUNT + 1);
        OK(bt_get(bt_remote(sum, put), &total));
        assert_true(total > COUNT - 1 && total < COUNT + 1);
        bt_ref *large = bt_remote(ones, COUNT);
        OK(bt_get(bt_remote(sum, large), &total));
        OK(bt_get(large, &made));
        assert_int_equal(bt_count(made), COUNT);
        OK(bt_get(bt_remote(pass_on, BT_LIST(bt_put(10))), &list));
        OK(bt_list_get(list, 0, &inner));
        OK(bt_list_get(list, 1, &own));
        OK(bt_list_get(list, 2, &text));
        assert_string_equal(text, "text");
        OK(bt_get(bt_remote(add, inner, own), &n));
        assert_int_equal(n, 30);
        bt_ref *quotient = bt_remote(divide, 17, 5), *remainder = bt_result(quotient, 1);
        OK(bt_get(remainder, &n));
        assert_int_equal(n, 2);
        OK(bt_get(quotient, &n));
        assert_int_equal(n, 3);
        FAILS(bt_get(bt_result(quotient, 2), &n), BT_OUT_OF_RANGE, "result 2 of a call that has 2");
        bt_actor *counter = bt_actor_new(counter_new, 5); /* a handle travels */
        (void)counter;
    }
}

/* SPEC 9: one actor per GPU is one loop. */
static void test_actor_per_gpu(void **state) {
    enum { GPUS = 6 };
    BT_SCOPE {
        bt_actor *actors[GPUS];
        bool seen[8] = {false};
        int64_t nodes[GPUS], first = 0;
        assert_true(bt_resource_total("GPU") > 5.9);
        for (int i = 0; i < GPUS; i++) actors[i] = bt_actor_new_with(BT_OPTIONS(.num_gpus = 1), counter_new);
        for (int i = 0; i < GPUS; i++) {
            bt_list list;
            int64_t count, id;
            const char *mask;
            char wanted[16];
            OK(bt_get(bt_method(actors[i], where), &list));
            OK(bt_list_get(list, 0, &nodes[i]));
            OK(bt_list_get(list, 1, &count));
            OK(bt_list_get(list, 2, &id));
            OK(bt_list_get(list, 3, &mask));
            assert_int_equal(count, 1);
            assert_in_range(id, 0, 7);
            assert_false(seen[id]); /* no GPU is handed out twice */
            seen[id] = true;
            snprintf(wanted, sizeof wanted, "%d", (int)id);
            assert_string_equal(mask, wanted);
            first += nodes[i] == nodes[0];
        }
        assert_true(seen[0] && seen[3] && seen[6] && seen[7] && !seen[4] && !seen[5]);
        assert_true(first == 2 || first == 4); /* on both nodes */
        bt_actor *too_many = bt_actor_new_with(BT_OPTIONS(.num_gpus = 7), counter_new);
        FAILS(bt_actor_status(too_many), BT_RESOURCE_EXHAUSTED, "asks for 7 GPU", "has 6");
        too_many = bt_actor_new_with(BT_OPTIONS(.num_gpus = 5), counter_new);
        FAILS(bt_actor_status(too_many), BT_RESOURCE_EXHAUSTED, "asks for", "5 GPU on one node", "4 GPU");
    }
}

static void expect_gpus(bt_ref *ref, int64_t wanted, const char *wanted_mask) {
    bt_list list;
    int64_t count;
    const char *mask;
    OK(bt_get(ref, &list));
    OK(bt_list_get(list, 1, &count));
    OK(bt_list_get(list, 3, &mask));
    assert_int_equal(count, wanted);
    if (wanted_mask) assert_string_equal(mask, wanted_mask);
}

static void test_gpus_of_tasks(void **state) {
    BT_SCOPE {
        expect_gpus(bt_remote_with(BT_OPTIONS(.num_gpus = 4), where), 4, "0,1,2,3");
        expect_gpus(bt_remote_with(BT_OPTIONS(.num_gpus = 0.5), where), 1, NULL);
        expect_gpus(bt_remote_with(BT_OPTIONS(.num_gpus = 0), where), 0, "");
        FAILS(bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 1.5), where), NULL), BT_INVALID_ARGUMENT, "1.5 GPUs");
    }
}

static void test_resources(void **state) {
    BT_SCOPE {
        bt_list list;
        int64_t with, without;
        assert_true(bt_resource_total("license") > 1.9 && bt_resource_total("nothing") != bt_resource_total("nothing"));
        OK(bt_get(bt_remote_with(BT_OPTIONS(.resources = {{"license", 1}}), where), &list));
        OK(bt_list_get(list, 0, &with));
        OK(bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 4), where), &list)); /* which only the head has */
        OK(bt_list_get(list, 0, &without));
        assert_true(with != without);
        bt_ref *ref = bt_remote_with(BT_OPTIONS(.resources = {{"license", 3}}), where);
        FAILS(bt_get(ref, NULL), BT_RESOURCE_EXHAUSTED, "asks for 3 license; the runtime has 2");
        ref = bt_remote_with(BT_OPTIONS(.resources = {{"other", 1}}), where);
        FAILS(bt_get(ref, NULL), BT_NOT_FOUND, "no resource \"other\"");
        OK(bt_runtime_shutdown());
        FAILS(bt_runtime_init(.engine = "ray", .num_gpus = 9), BT_RESOURCE_EXHAUSTED, "asks for 9 GPU", "has 6");
    }
}

static void test_groups(void **state) {
    BT_SCOPE {
        bt_list list;
        int64_t nodes[2];
        bt_group *group = bt_group_new(
            (bt_task_options[]){BT_BUNDLE(.num_gpus = 1, .strategy = BT_GROUP_STRICT_SPREAD), BT_BUNDLE(.num_gpus = 1)},
            2);
        OK(bt_group_wait(group, 60));
        for (int i = 0; i < 2; i++) {
            OK(bt_get(bt_remote_with(BT_OPTIONS(.group = group, .bundle = i, .num_gpus = 1), where), &list));
            OK(bt_list_get(list, 0, &nodes[i]));
        }
        assert_true(nodes[0] != nodes[1]);
        FAILS(bt_get(bt_remote_with(BT_OPTIONS(.group = group, .num_gpus = 2), where), NULL), BT_RESOURCE_EXHAUSTED,
              "asks for 2 GPU", "has 1");
        FAILS(bt_get(bt_remote_with(BT_OPTIONS(.group = group, .bundle = 2), where), NULL), BT_OUT_OF_RANGE,
              "bundle 2");
        bt_group *never = bt_group_new((bt_task_options[]){BT_BUNDLE(.num_gpus = 5)}, 1);
        FAILS(bt_group_wait(never, 1), BT_RESOURCE_EXHAUSTED, "5 GPU");
        never = bt_group_new((bt_task_options[]){BT_BUNDLE(.num_cpus = 1, .strategy = BT_GROUP_STRICT_SPREAD),
                                                 BT_BUNDLE(.num_cpus = 1), BT_BUNDLE(.num_cpus = 1)},
                             3);
        FAILS(bt_group_wait(never, 1), BT_RESOURCE_EXHAUSTED, "3 bundles on different nodes", "has 2");
        bt_group *all = bt_group_new((bt_task_options[]){BT_BUNDLE(.num_gpus = 4), BT_BUNDLE(.num_gpus = 2)}, 2);
        FAILS(bt_group_wait(all, 0.5), BT_DEADLINE_EXCEEDED, "within 0.5 seconds"); /* the first group has some */
        bt_group_release(bt_group_retain(group));
    }
}

static void test_10000_tasks(void **state) {
    enum { COUNT = 10000 };
    bt_ref **refs = calloc(COUNT, sizeof(bt_ref *));
    assert_non_null(refs);
    BT_SCOPE {
        int64_t n, total = 0;
        for (int i = 0; i < COUNT; i++) refs[i] = bt_remote(add, i, 1);
        for (int i = 0; i < COUNT; i++, total += n) OK(bt_get(refs[i], &n));
        assert_int_equal(total, (int64_t)COUNT * (COUNT + 1) / 2);
    }
    free(refs);
}

static void test_actors(void **state) {
    BT_SCOPE {
        int64_t n = 0;
        bt_actor *counter = bt_actor_new_with(BT_OPTIONS(.max_restarts = 1), counter_new, 100);
        for (int i = 0; i < 10; i++) OK(bt_get(bt_method(counter, counter_add, 1), &n));
        assert_int_equal(n, 110);
        OK(bt_actor_status(counter));
        FAILS(bt_get(bt_method(counter, crash), &n), BT_ABORTED);
        OK(bt_get(bt_method(counter, counter_add, 1), &n));
        assert_int_equal(n, 101); /* begins anew */
        bt_ref *dead = bt_method(counter, crash);
        FAILS(bt_get(dead, &n), BT_ABORTED, "died");
        assert_int_equal(bt_ref_failure(dead), BT_FAILURE_PROCESS_DIED);
        FAILS(bt_get(bt_method(counter, counter_add, 1), &n), BT_ABORTED);
        FAILS(bt_actor_status(counter), BT_ABORTED);
        bt_actor *bad = bt_actor_new(counter_new, -1);
        FAILS(bt_get(bt_method(bad, counter_add, 1), &n), BT_INVALID_ARGUMENT, "begins below 0");
        bt_actor *killed = bt_actor_new(counter_new);
        OK(bt_get(bt_method(killed, counter_add, 1), &n));
        OK(bt_actor_kill(killed));
        bt_ref *late = bt_method(killed, counter_add, 1), *inner;
        FAILS(bt_get(late, &n), BT_CANCELLED, "killed");
        bt_list list; /* a reference that was refused travels, too */
        OK(bt_get(bt_remote(pass_on, BT_LIST(late)), &list));
        OK(bt_list_get(list, 0, &inner));
        FAILS(bt_get(inner, &n), BT_CANCELLED, "killed");
    }
}

static void test_named_actors(void **state) {
    BT_SCOPE {
        int64_t n = 0;
        char name[64];
        snprintf(name, sizeof name, "named-%d", (int)getpid());
        assert_null(bt_actor_find(name));
        assert_int_equal(bt_error_status(), BT_NOT_FOUND);
        bt_actor *counter = bt_actor_new_with(BT_OPTIONS(.name = name), counter_new, 5);
        bt_actor *found = bt_actor_find(name), *twice = bt_actor_new_with(BT_OPTIONS(.name = name), counter_new);
        FAILS(bt_actor_status(twice), BT_ALREADY_EXISTS, name);
        OK(bt_get(bt_method(found, counter_add, 1), &n));
        bt_actor *same = bt_actor_new_with(BT_OPTIONS(.name = name, .get_if_exists = true), counter_new);
        OK(bt_get(bt_method(same, counter_add, 1), &n));
        assert_int_equal(n, 7);
        OK(bt_actor_status(counter));
    }
}

/* Another program finds it, after the first has ended. */
static void test_detached_actors(void **state) {
    char name[64];
    int64_t n = 0;
    snprintf(name, sizeof name, "detached-%d", (int)getpid());
    BT_SCOPE {
        bt_actor *counter = bt_actor_new_with(BT_OPTIONS(.name = name, .detached = true), counter_new, 5);
        OK(bt_get(bt_method(counter, counter_add, 1), &n));
    }
    OK(bt_runtime_shutdown());
    start(state);
    BT_SCOPE {
        bt_actor *found = bt_actor_find(name);
        OK(bt_get(bt_method(found, counter_add, 1), &n));
        assert_int_equal(n, 7);
        OK(bt_actor_kill(found));
    }
}

static void test_cancel(void **state) {
    BT_SCOPE {
        bt_ref *running = bt_remote_with(BT_OPTIONS(.num_cpus = 4), nap, 60000);
        bt_ref *waiting = bt_remote_with(BT_OPTIONS(.num_cpus = 4), add, 1, 1);
        sleep_ms(1000);
        OK(bt_cancel(waiting, false));
        FAILS(bt_get(waiting, NULL), BT_CANCELLED);
        assert_int_equal(bt_ref_failure(waiting), BT_FAILURE_CANCELLED);
        OK(bt_cancel(running, true));
        FAILS(bt_get(running, NULL), BT_CANCELLED);
        bt_ref *asked = bt_remote(nap_until_cancelled);
        FAILS(bt_get_within(asked, 2, NULL), BT_DEADLINE_EXCEEDED);
        OK(bt_cancel(asked, false));
        FAILS(bt_get_within(asked, 20, NULL), BT_CANCELLED);
        bt_actor *counter = bt_actor_new(counter_new);
        FAILS(bt_cancel(bt_method(counter, nap, 2000), true), BT_INVALID_ARGUMENT, "bt_actor_kill");
    }
}

static void test_retries(void **state) {
    BT_SCOPE {
        char path[100];
        int64_t n = 0;
        snprintf(path, sizeof path, "%s/deaths", folder);
        OK(bt_get(bt_remote(unlucky, path), &n));
        assert_int_equal(n, 3);
        snprintf(path, sizeof path, "%s/failures", folder);
        OK(bt_get(bt_remote(unsure, path), &n));
        assert_int_equal(n, 3);
        bt_ref *once = bt_remote(crash);
        FAILS(bt_get(once, &n), BT_ABORTED, "died");
        assert_int_equal(bt_ref_failure(once), BT_FAILURE_PROCESS_DIED);
        snprintf(path, sizeof path, "%s/once", folder);
        once = bt_remote_with(BT_OPTIONS(.max_retries = 0), unsure, path);
        FAILS(bt_get(once, &n), BT_UNAVAILABLE, "not yet");
    }
}

/* Workers that begin after the file is gone get the module from Ray. */
static void test_modules_travel(void **state) {
    char command[300], path[100];
    snprintf(path, sizeof path, "%s/module.so", folder);
    snprintf(command, sizeof command, "cp %s/modules/task_module.so %s", BERTH_BUILD_DIR, path);
    assert_int_equal(system(command), 0);
    OK(bt_module_load(path));
    BT_SCOPE {
        int64_t n = 0;
        bt_item_value fourteen[] = {BT_ITEM(14)};
        bt_actor *early = bt_actor_new(counter_new);
        OK(bt_get(bt_method(early, counter_add, 1), &n));
        OK(bt_get(bt_remote_named(path, "thrice", NULL, fourteen, 1), &n));
        assert_int_equal(n, 42);
        assert_int_equal(unlink(path), 0);
        bt_ref *there =
            bt_remote_named(path, "thrice", BT_OPTIONS(.num_gpus = 1), fourteen, 1); /* a process of its own */
        OK(bt_get(there, &n));
        assert_int_equal(n, 42);
        bt_actor *late = bt_actor_new(counter_new);
        OK(bt_get(bt_method_named(late, path, "thrice", NULL, fourteen, 1), &n));
        OK(bt_get(bt_method_named(early, path, "thrice", NULL, fourteen, 1), &n));
        assert_int_equal(n, 42);
        FAILS(bt_get(bt_remote_named(path, "fourfold", NULL, fourteen, 1), &n), BT_NOT_FOUND,
              "no function \"fourfold\"");
    }
}

static void test_streams_are_refused(void **state);
static bt_status count_up(bt_task *task) { return bt_yield(task, 1); }
BT_REMOTE(count_up);
static void test_streams_are_refused(void **state) {
    BT_SCOPE
        FAILS(bt_get(bt_remote(count_up), NULL), BT_UNIMPLEMENTED, "bt_yield", "streams");
}

static void test_views(void **state) {
    char *text = bt_runtime_text(true), *table = bt_runtime_text(false);
    SAYS(text, "\"nodes\"");
    SAYS(table, "GPU");
    bt_free(text);
    bt_free(table);
}

/* run.py kills the second node once "ready" is there, and makes another one. */
static void node_dies(void **state) {
    enum { COUNT = 24 };
    BT_SCOPE {
        bt_ref *refs[COUNT], *there;
        int64_t n;
        char path[100];
        snprintf(path, sizeof path, "%s/begun", folder);
        there = bt_remote_with(BT_OPTIONS(.resources = {{"license", 1}}), nap_and_tell, path, 600000);
        for (int i = 0; i < COUNT; i++) refs[i] = bt_remote_with(BT_OPTIONS(.max_retries = 3), nap, 1000);
        for (int i = 0; i < 600 && access(path, F_OK) != 0; i++) sleep_ms(100);
        puts("ready");
        fflush(stdout);
        for (int i = 0; i < COUNT; i++) OK(bt_get_within(refs[i], 120, &n));
        bt_status status = bt_get_within(there, 120, &n);
        assert_int_equal(status, BT_ABORTED);
        assert_true(bt_failure_is_retryable(bt_ref_failure(there)));
    }
}

/* run.py kills this program, or its bridge. */
static void is_killed(void **state) {
    bt_ref *ref = bt_remote(nap, 60000);
    puts("ready");
    fflush(stdout);
    FAILS(bt_get(ref, NULL), BT_UNAVAILABLE, "the bridge to Ray", "has ended");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end_runtime)
        TEST(test_tasks),       TEST(test_times),         TEST(test_values),
        TEST(test_actors),      TEST(test_named_actors),  TEST(test_detached_actors),
        TEST(test_cancel),      TEST(test_retries),       TEST(test_gpus_of_tasks),
        TEST(test_groups),      TEST(test_resources),     TEST(test_modules_travel),
        TEST(test_views),       TEST(test_actor_per_gpu), TEST(test_streams_are_refused),
        TEST(test_10000_tasks),
    };
    const struct CMUnitTest dies[] = {TEST(node_dies)}, killed[] = {TEST(is_killed)};
    if (!mkdtemp(folder)) return 1;
    int failed;
    if (argc > 1 && !strcmp(argv[1], "node_dies"))
        failed = cmocka_run_group_tests(dies, NULL, fresh_end);
    else if (argc > 1 && !strcmp(argv[1], "is_killed"))
        failed = cmocka_run_group_tests(killed, NULL, fresh_end);
    else {
        if (argc > 1) cmocka_set_test_filter(argv[1]);
        failed = cmocka_run_group_tests(tests, NULL, fresh_end);
    }
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 || failed;
}

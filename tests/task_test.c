// labels: threads
/* Functions and actors in processes of their own: calls, references, failures, actors, groups, as a program uses them. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "support/support.h"

/* --- functions --------------------------------------------------------------------------------------------------------- */

static bt_status add(bt_task *task) {
    int64_t a, b;
    bt_status status = bt_arguments(task, &a, &b);
    return status == BT_OK ? bt_return(task, a + b) : status;
}
BT_REMOTE(add);

static bt_status describe(bt_task *task) {
    char text[400] = "";
    for (int i = 0; i < bt_argument_count(task); i++) {
        int64_t integer;
        double real;
        const char *word;
        bt_bytes bytes;
        char *end = text + strlen(text);
        size_t left = sizeof text - strlen(text);
        switch (bt_argument_type(task, i)) {
        case BT_INTEGER:
            if (bt_argument(task, i, &integer) == BT_OK) snprintf(end, left, "%lld;", (long long)integer);
            break;
        case BT_REAL:
            if (bt_argument(task, i, &real) == BT_OK) snprintf(end, left, "%g;", real);
            break;
        case BT_TEXT_VALUE:
            if (bt_argument(task, i, &word) == BT_OK) snprintf(end, left, "%s;", word);
            break;
        case BT_BYTES:
            if (bt_argument(task, i, &bytes) == BT_OK) snprintf(end, left, "%zu bytes;", bytes.size);
            break;
        default: snprintf(end, left, "?;");
        }
    }
    return bt_return(task, text);
}
BT_REMOTE(describe);

static bt_status nap(bt_task *task) {
    int64_t ms;
    bt_status status = bt_argument(task, 0, &ms);
    if (status != BT_OK) return status;
    sleep_ms(ms);
    return bt_return(task, ms);
}
BT_REMOTE(nap);

static bt_status refuse(bt_task *task) { return bt_task_fail(task, BT_OUT_OF_RANGE, "no more than %d", 7); }
BT_REMOTE(refuse);

static bt_status give_nothing(bt_task *task) {
    (void)task;
    return BT_OK;
}
BT_REMOTE(give_nothing);

static bt_status crash(bt_task *task) {
    (void)task;
    fprintf(stderr, "the last words\n");
    raise(SIGSEGV);
    return BT_OK;
}
BT_REMOTE(crash);

static bt_status leave(bt_task *task) {
    (void)task;
    _exit(3);
}
BT_REMOTE(leave);

/* Dies until the file that is named has `times` bytes. */
static bt_status die_first(bt_task *task) {
    const char *path;
    int64_t times;
    bt_status status = bt_argument(task, 0, &path);
    if (status == BT_OK) status = bt_argument(task, 1, &times);
    if (status != BT_OK) return status;
    FILE *file = fopen(path, "a+");
    if (!file) return bt_task_fail(task, BT_NOT_FOUND, "no file");
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    if (size < times) {
        fputc('x', file);
        fclose(file);
        raise(SIGKILL);
    }
    fclose(file);
    return bt_return(task, size);
}
BT_REMOTE(die_first);

static bt_status fibonacci(bt_task *task); /* it calls itself: declared first */
BT_REMOTE(fibonacci);
static bt_status fibonacci(bt_task *task) {
    int64_t n, a, b;
    bt_status status = bt_argument(task, 0, &n);
    if (status != BT_OK || n < 2) return status == BT_OK ? bt_return(task, n) : status;
    bt_ref *first = bt_remote(fibonacci, n - 1), *second = bt_remote(fibonacci, n - 2);
    status = bt_get(first, &a);
    if (status == BT_OK) status = bt_get(second, &b);
    return status == BT_OK ? bt_return(task, a + b) : status;
}

/* --- calls ------------------------------------------------------------------------------------------------------------- */

static void calls_give_references(void **state) {
    (void)state;
    int64_t n;
    OK(bt_runtime_init(.num_cpus = 2));
    BT_SCOPE {
        OK(bt_get(bt_remote(add, 1, 2), &n));
        assert_int_equal(n, 3);
        const char *text;
        char many[300];
        memset(many, 'a', sizeof many);
        OK(bt_get(bt_remote(describe, -5, 2.5, "word", ((bt_bytes){many, sizeof many})), &text));
        assert_string_equal(text, "-5;2.5;word;300 bytes;");
        bt_ref *refs[200];
        for (int i = 0; i < 200; i++) refs[i] = bt_remote(add, i, i ? refs[i - 1] : bt_put(1000));
        OK(bt_get(refs[199], &n));
        assert_int_equal(n, 1000 + 199 * 200 / 2);
        double real;
        OK(bt_get(refs[0], &real)); /* widened */
        assert_true(real == 1000);
        FAILS(bt_get(refs[0], &text), BT_INVALID_ARGUMENT, "is an integer, not a text");
        uint32_t large;
        uint8_t tiny;
        OK(bt_get(bt_remote(add, 3000000000, 1), &large));
        assert_true(large == 3000000001u);
        FAILS(bt_get(bt_remote(add, 256, 0), &tiny), BT_OUT_OF_RANGE, "1 bytes without sign");
        FAILS(bt_get(bt_remote(add, -1, 0), &large), BT_OUT_OF_RANGE, "-1");
        OK(bt_get(bt_remote(give_nothing), NULL));
        FAILS(bt_get(bt_remote(give_nothing), &n), BT_INVALID_ARGUMENT, "is nothing, not an integer");
        FAILS(bt_get(bt_remote(add, 1, bt_remote(give_nothing)), &n), BT_INVALID_ARGUMENT,
              "argument 2 of add is nothing");
        int8_t small;
        FAILS(bt_get(refs[0], &small), BT_OUT_OF_RANGE, "does not fit into 1 bytes");
    }
}

static void failures_are_told(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 2));
    BT_SCOPE {
        bt_ref *refused = bt_remote(refuse);
        FAILS(bt_get(refused, NULL), BT_OUT_OF_RANGE, "no more than 7");
        FAILS(bt_get(bt_remote(add, 1, refused), NULL), BT_OUT_OF_RANGE, "no more than 7"); /* the first cause */
        FAILS(bt_get(bt_remote(add, 1), NULL), BT_OUT_OF_RANGE, "add wants argument 2");
        FAILS(bt_get(bt_remote(crash), NULL), BT_ABORTED, "signal 11");
        FAILS(bt_get(bt_remote(crash), NULL), BT_ABORTED, "the last words");
        FAILS(bt_get(bt_remote(leave), NULL), BT_ABORTED, "exit code 3");
        FAILS(bt_get(bt_remote(add, 1, (const char *)NULL), NULL), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_get(bt_remote_named(NULL, "nowhere", NULL, NULL, 0), NULL), BT_NOT_FOUND, "no function \"nowhere\"");
        FAILS(bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 3), add, 1, 2), NULL), BT_RESOURCE_EXHAUSTED,
              "asks for 3 GPU; the runtime has 0");
        FAILS(bt_get(bt_remote_with(BT_OPTIONS(.num_cpus = -1), add, 1, 2), NULL), BT_INVALID_ARGUMENT, "no amount");
        FAILS(bt_get(bt_remote_with(BT_OPTIONS(.resources = {{"glue", 1}}), add, 1, 2), NULL), BT_NOT_FOUND,
              "\"glue\"");
        int64_t n;
        OK(bt_get(bt_remote(add, 1, 2), &n));
    }
}

static void without_a_runtime_calls_fail(void **state) {
    (void)state;
    BT_SCOPE {
        FAILS(bt_get(bt_remote(add, 1, 2), NULL), BT_FAILED_PRECONDITION, "bt_runtime_init");
        OK(bt_runtime_init(.num_cpus = 1));
        FAILS(bt_runtime_init(.num_cpus = 1), BT_ALREADY_EXISTS, "already");
        bt_ref *ref = bt_remote(add, 1, 2);
        OK(bt_get(ref, NULL));
        OK(bt_runtime_shutdown());
        FAILS(bt_get(ref, NULL), BT_FAILED_PRECONDITION, "shut down");
    }
}

static void released_references_are_refused(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 1));
    bt_ref *ref;
    bt_group *group;
    bool ready;
    BT_SCOPE {
        ref = bt_remote(add, 1, 2);
        group = bt_group_new(&(bt_task_options){.size = sizeof(bt_task_options), .num_cpus = 1}, 1);
        OK(bt_get(ref, NULL));
    }
    BT_SCOPE {
        FAILS(bt_get(ref, NULL), BT_INVALID_ARGUMENT, "the reference made at",
              "was released at the end of its scope at ");
        FAILS(bt_get(bt_remote(add, ref, 2), NULL), BT_INVALID_ARGUMENT, "the reference made at");
        FAILS(bt_group_wait(group, 1), BT_INVALID_ARGUMENT, "the group was released at the end of its scope at ");
        assert_int_equal(bt_wait_refs(&ref, 1, 1, &ready, 0), -1);
        SAYS(bt_error_text(), "the reference made at");
        bt_error_clear();
        bt_ref_release(ref);
        SAYS(bt_error_text(), "bt_ref_release: the reference made at");
    }
}

static void *wait_in_a_thread(void *ref) {
    bt_status status = bt_get(ref, NULL);
    return (void *)(intptr_t)status;
}

static void shutdown_ends_waits(void **state) {
    (void)state;
    pthread_t thread;
    void *status;
    OK(bt_runtime_init(.num_cpus = 1));
    BT_SCOPE {
        assert_int_equal(pthread_create(&thread, NULL, wait_in_a_thread, bt_remote(nap, 60000)), 0);
        sleep_ms(50);
        OK(bt_runtime_shutdown());
        assert_int_equal(pthread_join(thread, &status), 0);
        assert_true((bt_status)(intptr_t)status != BT_OK);
    }
}

static void retries_run_it_again(void **state) {
    (void)state;
    char path[] = "/tmp/berth_task_test_XXXXXX";
    int64_t n;
    int file = mkstemp(path);
    assert_true(file >= 0);
    OK(bt_runtime_init(.num_cpus = 2));
    BT_SCOPE {
        OK(bt_get(bt_remote_with(BT_OPTIONS(.max_retries = 3), die_first, (const char *)path, 3), &n));
        assert_int_equal(n, 3);
        FAILS(bt_get(bt_remote_with(BT_OPTIONS(.max_retries = 1), die_first, (const char *)path, 9), NULL), BT_ABORTED,
              "signal 9");
    }
    close(file);
    unlink(path);
}

static void nested_calls_lend_their_cpus(void **state) {
    (void)state;
    int64_t n;
    OK(bt_runtime_init(.num_cpus = 1));
    BT_SCOPE {
        OK(bt_get(bt_remote(fibonacci, 7), &n));
        assert_int_equal(n, 13);
        assert_true(bt_resource_total("CPU") == 1);
    }
}

static void waiting_for_some(void **state) {
    (void)state;
    bool ready[4];
    OK(bt_runtime_init(.num_cpus = 4));
    BT_SCOPE {
        bt_ref *refs[4] = {bt_remote(nap, SOON * 1000), bt_remote(nap, 1), bt_remote(refuse), bt_put(4)};
        assert_int_equal(bt_wait_refs(refs, 4, 3, ready, SOON), 3);
        assert_false(ready[0]);
        assert_true(ready[1] && ready[2] && ready[3]);
        assert_int_equal(bt_wait_refs(refs, 4, 4, ready, 0.05), 3);
        FAILS(bt_get_within(refs[0], 0.05, NULL), BT_DEADLINE_EXCEEDED, "within 0.05");
        assert_int_equal(bt_wait_refs(refs, 4, 5, ready, 0), -1);
        OK(bt_cancel(refs[0], true));
        FAILS(bt_get(refs[0], NULL), BT_CANCELLED, "cancelled");
    }
}

static bt_status ask_until_cancelled(bt_task *task) {
    for (int i = 0; i < 2000 && !bt_task_cancelled(task); i++) sleep_ms(5);
    return bt_task_cancelled(task) ? bt_task_fail(task, BT_UNKNOWN, "stopped") : bt_return(task, 1);
}
BT_REMOTE(ask_until_cancelled);

static void cancelling(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 1));
    BT_SCOPE {
        bt_ref *runs = bt_remote(ask_until_cancelled), *waits = bt_remote(add, 1, 2),
               *depends = bt_remote(add, waits, 1);
        assert_int_equal(bt_wait_refs(&runs, 1, 1, NULL, 0.1), 0);
        OK(bt_cancel(waits, false));
        FAILS(bt_get(waits, NULL), BT_CANCELLED, "before it began");
        OK(bt_cancel(runs, false));
        FAILS(bt_get(runs, NULL), BT_CANCELLED, "stopped");
        FAILS(bt_get(depends, NULL), BT_CANCELLED, "before it began");
        OK(bt_cancel(runs, true)); /* done: nothing happens */
        int64_t n;
        OK(bt_get(bt_remote(add, 2, 2), &n));
        assert_int_equal(n, 4);
    }
}

static void deadlines(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 1));
    BT_SCOPE {
        bt_ref *runs = bt_remote_with(BT_OPTIONS(.deadline_seconds = 0.1), nap, 60000);
        bt_ref *waits = bt_remote_with(BT_OPTIONS(.deadline_seconds = 0.05), add, 1, 2);
        bt_ref *in_time = bt_remote_with(BT_OPTIONS(.deadline_seconds = 60), add, 1, 2);
        FAILS(bt_get(waits, NULL), BT_DEADLINE_EXCEEDED, "deadline");
        FAILS(bt_get(runs, NULL), BT_DEADLINE_EXCEEDED, "deadline");
        OK(bt_get(in_time, NULL));
    }
}

static bt_status when(bt_task *task) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return bt_return(task, (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
}
BT_REMOTE(when);

static atomic_int *gate; /* shared with all workers */
static bt_status pass_gate(bt_task *task) {
    while (!atomic_load(gate)) sleep_ms(1);
    return bt_return(task, 1);
}
BT_REMOTE(pass_gate);

static void priorities_go_first(void **state) {
    (void)state;
    int64_t low, high, first;
    gate = mmap(NULL, sizeof *gate, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(gate != MAP_FAILED);
    OK(bt_runtime_init(.num_cpus = 1));
    BT_SCOPE {
        bt_ref *busy = bt_remote(pass_gate), *a = bt_remote(when), *b = bt_remote(when);
        bt_ref *urgent = bt_remote_with(BT_OPTIONS(.priority = 5), when);
        atomic_store(gate, 1);
        OK(bt_get(busy, NULL));
        OK(bt_get(a, &first));
        OK(bt_get(b, &low));
        OK(bt_get(urgent, &high));
        assert_true(high < first && first < low);
    }
    munmap(gate, sizeof *gate);
}

/* --- actors ------------------------------------------------------------------------------------------------------------ */

static bt_status counter_new(bt_task *task) {
    int64_t *count = malloc(sizeof *count);
    if (!count) return BT_RESOURCE_EXHAUSTED;
    bt_status status = bt_argument(task, 0, count);
    bt_set_state(task, count, free);
    return status;
}
BT_REMOTE(counter_new);

static bt_status counter_add(bt_task *task) {
    int64_t n, *count = bt_state(task);
    bt_status status = bt_argument(task, 0, &n);
    return status == BT_OK ? bt_return(task, *count += n) : status;
}
BT_REMOTE(counter_add);

static bt_status counter_crash(bt_task *task) {
    (void)task;
    raise(SIGKILL);
    return BT_OK;
}
BT_REMOTE(counter_crash);

static bt_status add_to(bt_task *task) {
    bt_actor *actor;
    int64_t n;
    bt_status status = bt_argument(task, 0, &actor);
    if (status == BT_OK) status = bt_get(bt_method(actor, counter_add, 100), &n);
    return status == BT_OK ? bt_return(task, n) : status;
}
BT_REMOTE(add_to);

static void actors_keep_state(void **state) {
    (void)state;
    int64_t n;
    OK(bt_runtime_init(.num_cpus = 2));
    BT_SCOPE {
        bt_actor *a = bt_actor_new(counter_new, 5), *b = bt_actor_new(counter_new, 50);
        bt_ref *refs[100];
        for (int i = 0; i < 100; i++) refs[i] = bt_method(i % 2 ? a : b, counter_add, 1);
        for (int i = 0; i < 100; i++) {
            OK(bt_get(refs[i], &n));
            assert_int_equal(n, (i % 2 ? 5 : 50) + i / 2 + 1);
        }
        OK(bt_get(bt_remote(add_to, a), &n));
        assert_int_equal(n, 155);
        OK(bt_actor_status(a));
        OK(bt_actor_kill(a));
        FAILS(bt_get(bt_method(a, counter_add, 1), NULL), BT_CANCELLED, "killed");
        bt_actor *busy = bt_actor_new(counter_new, 1);
        bt_ref *runs = bt_method(busy, nap, 60000);
        assert_int_equal(bt_wait_refs(&runs, 1, 1, NULL, 0.1), 0);
        OK(bt_actor_kill(busy));
        FAILS(bt_get(runs, NULL), BT_CANCELLED, "killed");
        OK(bt_get(bt_method(b, counter_add, 1), &n));
        assert_int_equal(n, 101);
    }
}

static void many_actors_at_once(void **state) {
    (void)state;
    int64_t n;
    OK(bt_runtime_init(.num_cpus = 2));
    BT_SCOPE {
        bt_actor *actors[50];
        for (int i = 0; i < 50; i++) actors[i] = bt_actor_new(counter_new, i);
        for (int i = 0; i < 50; i++) {
            OK(bt_get(bt_method(actors[i], counter_add, 1), &n));
            assert_int_equal(n, i + 1);
        }
    }
}

static void actors_die_and_come_again(void **state) {
    (void)state;
    int64_t n;
    OK(bt_runtime_init(.num_cpus = 2));
    BT_SCOPE {
        bt_actor *mortal = bt_actor_new(counter_new, 1);
        bt_ref *crashed = bt_method(mortal, counter_crash), *after = bt_method(mortal, counter_add, 1);
        FAILS(bt_get(crashed, NULL), BT_ABORTED, "signal 9");
        FAILS(bt_get(after, NULL), BT_ABORTED, "signal 9");
        FAILS(bt_actor_status(mortal), BT_ABORTED, "signal 9");
        bt_actor *again = bt_actor_new_with(BT_OPTIONS(.max_restarts = 1), counter_new, 10);
        OK(bt_get(bt_method(again, counter_add, 5), &n));
        assert_int_equal(n, 15);
        crashed = bt_method(again, counter_crash), after = bt_method(again, counter_add, 1);
        FAILS(bt_get(crashed, NULL), BT_ABORTED, "signal 9");
        OK(bt_get(after, &n));
        assert_int_equal(n, 11); /* its state is new */
        FAILS(bt_get(bt_method(again, counter_crash), NULL), BT_ABORTED, "signal 9");
        FAILS(bt_get(bt_method(again, counter_add, 1), NULL), BT_ABORTED, "signal 9");
        FAILS(bt_get(bt_method(bt_actor_new(counter_new), counter_add, 1), NULL), BT_OUT_OF_RANGE, "wants argument 1");
    }
}

static void actors_have_names(void **state) {
    (void)state;
    int64_t n;
    OK(bt_runtime_init(.num_cpus = 2));
    BT_SCOPE {
        bt_actor *a = bt_actor_new_with(BT_OPTIONS(.name = "counter"), counter_new, 1);
        OK(bt_get(bt_method(bt_actor_find("counter"), counter_add, 1), &n));
        assert_int_equal(n, 2);
        FAILS(bt_actor_status(bt_actor_new_with(BT_OPTIONS(.name = "counter"), counter_new, 1)), BT_ALREADY_EXISTS,
              "\"counter\"");
        assert_null(bt_actor_find("nobody"));
        FAILS(bt_error_status(), BT_NOT_FOUND, "\"nobody\"");
        OK(bt_actor_kill(a));
        assert_null(bt_actor_find("counter"));
    }
}

static void actors_hold_gpus(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 2, .num_gpus = 2));
    BT_SCOPE {
        bt_ref *waits = NULL;
        FAILS(bt_actor_status(bt_actor_new_with(BT_OPTIONS(.num_gpus = 3), counter_new, 1)), BT_RESOURCE_EXHAUSTED,
              "asks for 3 GPU; the runtime has 2");
        BT_SCOPE {
            bt_actor *a = bt_actor_new_with(BT_OPTIONS(.num_gpus = 2), counter_new, 1);
            OK(bt_get(bt_method(a, counter_add, 1), NULL));
            assert_true(bt_resource_free("GPU") == 0);
            assert_true(bt_resource_free("CPU") == 2); /* to be started only */
            waits = bt_ref_retain(bt_remote_with(BT_OPTIONS(.num_gpus = 1), add, 1, 2));
            assert_int_equal(bt_wait_refs(&waits, 1, 1, NULL, 0.1), 0);
        }
        OK(bt_get(waits, NULL)); /* the actor ended with its handle */
        bt_ref_release(waits);
    }
}

/* --- deadlocks --------------------------------------------------------------------------------------------------------- */

static bt_status wants_gpus(bt_task *task);
BT_REMOTE(wants_gpus, .num_gpus = 1);
static bt_status wants_gpus(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    if (status == BT_OK && n) status = bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 1), wants_gpus, n - 1), NULL);
    return status == BT_OK ? bt_return(task, n) : status;
}

static bt_status call_me(bt_task *task) {
    bt_actor *self;
    bt_status status = bt_argument(task, 0, &self);
    return status == BT_OK ? bt_get(bt_method(self, counter_add, 1), NULL) : status;
}
BT_REMOTE(call_me);

static void deadlocks_are_errors(void **state) {
    (void)state;
    int64_t n;
    OK(bt_runtime_init(.num_cpus = 2, .num_gpus = 2));
    BT_SCOPE {
        OK(bt_get(bt_remote(wants_gpus, 1), &n));
        FAILS(bt_get(bt_remote(wants_gpus, 2), NULL), BT_FAILED_PRECONDITION, "deadlock");
        BT_SCOPE { /* nobody but who waits could let the actor go */
            bt_actor *holder = bt_actor_new_with(BT_OPTIONS(.num_gpus = 2), counter_new, 0);
            OK(bt_get(bt_method(holder, counter_add, 1), NULL));
            bt_actor *waits = bt_actor_new_with(BT_OPTIONS(.num_gpus = 1), counter_new, 0);
            FAILS(bt_get(bt_method(waits, counter_add, 1), NULL), BT_FAILED_PRECONDITION, "deadlock");
            FAILS(bt_group_wait(bt_group_new((bt_task_options[]){BT_BUNDLE(.num_gpus = 1)}, 1), -1),
                  BT_FAILED_PRECONDITION, "deadlock");
        }
        bt_ref *twice = bt_remote(nap, 1300); /* long enough for a look; that each waits for two is no trouble */
        for (int i = 0; i < 40; i++) twice = bt_remote(add, twice, twice);
        OK(bt_get(twice, &n));
        assert_int_equal(n, (int64_t)1300 << 40);
        bt_actor *a = bt_actor_new(counter_new, 0);
        FAILS(bt_get(bt_method(a, call_me, a), NULL), BT_FAILED_PRECONDITION, "deadlock");
        OK(bt_get(bt_method(a, counter_add, 1), &n));
    }
}

static void keep_line(const char *line, void *kept) { snprintf(kept, 1000, "%s", line); }

static void waits_are_told(void **state) {
    (void)state;
    char line[1000] = "";
    OK(bt_runtime_init(.num_cpus = 2, .num_gpus = 2));
    bt_set_log_sink(keep_line, line);
    BT_SCOPE {
        bt_actor *holder = bt_actor_new_with(BT_OPTIONS(.num_gpus = 2, .name = "holder"), counter_new, 1);
        OK(bt_get(bt_method(holder, counter_add, 1), NULL));
        bt_ref *waits = bt_remote_with(BT_OPTIONS(.num_gpus = 1), add, 1, 2);
        FAILS(bt_get_within(waits, 1.3, NULL), BT_DEADLINE_EXCEEDED, "1.3");
        if (!strstr(line, "add waits for 1 GPU: 0 of 2 are free; held by actor holder")) fail_msg("\"%s\"", line);
    }
    bt_set_log_sink(NULL, NULL);
}

/* --- groups ------------------------------------------------------------------------------------------------------------ */

static void groups_take_all_or_nothing(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 4, .num_gpus = 4));
    BT_SCOPE {
        bt_task_options bundles[] = {BT_BUNDLE(.num_gpus = 2, .num_cpus = 1), BT_BUNDLE(.num_gpus = 2, .num_cpus = 1)};
        bt_ref *on_it = NULL;
        FAILS(
            bt_group_wait(bt_group_new((bt_task_options[]){BT_BUNDLE(.num_gpus = 3), BT_BUNDLE(.num_gpus = 2)}, 2), 1),
            BT_RESOURCE_EXHAUSTED, "asks for 5 GPU; the runtime has 4");
        BT_SCOPE {
            bt_group *group = bt_group_new(bundles, 2), *second = bt_group_new(bundles, 2);
            OK(bt_group_wait(group, SOON));
            assert_true(bt_resource_free("GPU") == 0);
            FAILS(bt_group_wait(second, 0.05), BT_DEADLINE_EXCEEDED, "0.05");
            FAILS(bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 3, .group = group), add, 1, 2), NULL),
                  BT_RESOURCE_EXHAUSTED, "its bundle has 2");
            FAILS(bt_get(bt_remote_with(BT_OPTIONS(.group = group, .bundle = 2), add, 1, 2), NULL), BT_OUT_OF_RANGE,
                  "bundle 2");
            int64_t n;
            OK(bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 2, .group = group, .bundle = 1), add, 1, 2), &n));
            on_it = bt_ref_retain(bt_remote_with(BT_OPTIONS(.num_gpus = 1, .group = group), nap, 200));
        }
        OK(bt_get(on_it, NULL)); /* ends first */
        bt_ref_release(on_it);
        bt_group *third = bt_group_new(bundles, 2);
        OK(bt_group_wait(third, SOON));
    }
}

int main(void) {
    alarm(4 * SOON); /* nothing hangs */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(calls_give_references, end_runtime),
        cmocka_unit_test_teardown(failures_are_told, end_runtime),
        cmocka_unit_test_teardown(without_a_runtime_calls_fail, end_runtime),
        cmocka_unit_test_teardown(released_references_are_refused, end_runtime),
        cmocka_unit_test_teardown(shutdown_ends_waits, end_runtime),
        cmocka_unit_test_teardown(retries_run_it_again, end_runtime),
        cmocka_unit_test_teardown(nested_calls_lend_their_cpus, end_runtime),
        cmocka_unit_test_teardown(waiting_for_some, end_runtime),
        cmocka_unit_test_teardown(cancelling, end_runtime),
        cmocka_unit_test_teardown(deadlines, end_runtime),
        cmocka_unit_test_teardown(priorities_go_first, end_runtime),
        cmocka_unit_test_teardown(actors_keep_state, end_runtime),
        cmocka_unit_test_teardown(many_actors_at_once, end_runtime),
        cmocka_unit_test_teardown(actors_die_and_come_again, end_runtime),
        cmocka_unit_test_teardown(actors_have_names, end_runtime),
        cmocka_unit_test_teardown(actors_hold_gpus, end_runtime),
        cmocka_unit_test_teardown(deadlocks_are_errors, end_runtime),
        cmocka_unit_test_teardown(waits_are_told, end_runtime),
        cmocka_unit_test_teardown(groups_take_all_or_nothing, end_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* bt_runtime_init in programs that have threads, or open devices: the nest is the program, started again. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <errno.h>
#include <unistd.h>

#include "support/programs.h"

static int constructed, set_by_main;
static char seen_preload[200], seen_argument[100];
__attribute__((constructor)) static void construct(int argc, char **argv) {
    const char *preload = getenv("LD_PRELOAD");
    constructed++;
    snprintf(seen_preload, sizeof seen_preload, "%s", preload ? preload : "none");
    snprintf(seen_argument, sizeof seen_argument, "%s", argc > 1 ? argv[1] : "none");
}

static bt_status twice(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    return status == BT_OK ? bt_return(task, 2 * n) : status;
}
BT_REMOTE(twice);

/* What a worker knows of the program. */
static bt_status look(bt_task *task) {
    char text[500];
    const char *preload = getenv("LD_PRELOAD"), *marker = getenv("BERTH_NEST");
    snprintf(text, sizeof text, "constructed %d, main %d, preload %s, then %s, marker %s, argument %s, own %s",
             constructed, set_by_main, seen_preload, preload ? preload : "none", marker ? marker : "none",
             seen_argument, getenv("SET_BY_MAIN") ? getenv("SET_BY_MAIN") : "none");
    return bt_return(task, (const char *)text);
}
BT_REMOTE(look);

static bt_status fill(bt_task *task) {
    static char bytes[200000];
    memset(bytes, 7, sizeof bytes);
    return bt_return(task, ((bt_bytes){bytes, sizeof bytes}));
}
BT_REMOTE(fill);

static bt_status count_new(bt_task *task) {
    bt_set_state(task, calloc(1, sizeof(int64_t)), free);
    return BT_OK;
}
BT_REMOTE(count_new);

static bt_status count(bt_task *task) {
    int64_t *state = bt_state(task);
    return bt_return(task, ++*state);
}
BT_REMOTE(count);

static void *sleep_on(void *unused) {
    sleep(1000);
    return unused;
}

static int start_thread(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, sleep_on, NULL) == 0);
    return 0;
}

static int runs(void) {
    BT_SCOPE {
        bt_ref *refs[20];
        int64_t n;
        bt_bytes bytes;
        for (int i = 0; i < 20; i++) refs[i] = bt_remote(twice, i);
        for (int i = 0; i < 20; i++) CHECK(bt_get(refs[i], &n) == BT_OK && n == 2 * i);
        CHECK(bt_get(bt_remote(fill), &bytes) == BT_OK && bytes.size == 200000);
        CHECK(((const char *)bytes.data)[199999] == 7);
        bt_actor *actor = bt_actor_new(count_new);
        (void)bt_method(actor, count);
        CHECK(bt_get(bt_method(actor, count), &n) == BT_OK && n == 2);
    }
    return 0;
}

static bool a_child_is_seen(void) { return wait(NULL) > 0 || errno != ECHILD; }

static int with_threads(void) {
    CHECK(start_thread() == 0);
    set_by_main = 1;
    setenv("SET_BY_MAIN", "here", 1);
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    CHECK(runs() == 0);
    BT_SCOPE {
        const char *text = "";
        CHECK(bt_get(bt_remote(look), &text) == BT_OK);
        const char *expected =
            "constructed 1, main 0, preload none, then none, marker none, argument with_threads, own here";
        if (strcmp(text, expected) != 0) return fprintf(stderr, "%s\n", text), 1;
    }
    CHECK(!a_child_is_seen());
    CHECK(bt_runtime_shutdown() == BT_OK);
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK); /* once more */
    CHECK(runs() == 0);
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

static int as_reaper(void) {
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    CHECK(start_thread() == 0);
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    CHECK(!a_child_is_seen());
    int is = 0;
    CHECK(prctl(PR_GET_CHILD_SUBREAPER, &is) == 0 && is == 1);
    CHECK(runs() == 0);
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

static int with_devices(void) {
    BT_SCOPE {
        bt_array *a = bt_add(bt_f32(1), bt_f32(2));
        CHECK(bt_block(a) == BT_OK);
        CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
        CHECK(runs() == 0);
    }
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

static int killed(void) {
    CHECK(start_thread() == 0);
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    CHECK(runs() == 0);
    tell_ready(getpid());
    sleep(100);
    return 1;
}
static void kill_it(int pid) { kill(pid, SIGKILL); }

static int ends(void) {
    CHECK(start_thread() == 0);
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    return runs();
}

static int nest_dies(void) {
    CHECK(start_thread() == 0);
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    CHECK(runs() == 0);
    char *text = bt_runtime_text(true), *at = text ? strstr(text, "\"nest_pid\": ") : NULL;
    CHECK(at != NULL);
    pid_t nest = atoi(at + 12);
    bt_free(text);
    CHECK(nest > 0 && kill(nest, SIGKILL) == 0);
    BT_SCOPE {
        double until = seconds_now() + SOON; /* a worker that is not killed yet may still take a call */
        while (bt_get(bt_remote(twice, 1), NULL) == BT_OK && seconds_now() < until) sleep_seconds(0.001);
        CHECK_FAILS(bt_get(bt_remote_with(BT_OPTIONS(.num_cpus = 0), twice, 1), NULL), BT_ABORTED, "the runtime");
    }
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

int main(int argc, char **argv) {
    static const test_program programs[] = {
        {.name = "with_threads", .run = with_threads, .times = 5},
        {.name = "as_reaper", .run = as_reaper},
        {.name = "with_devices", .run = with_devices},
        {.name = "program_killed", .run = killed, .drive = kill_it, .ends_by = SIGKILL},
        {.name = "program_ends", .run = ends},
        {.name = "nest_dies", .run = nest_dies},
    };
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}

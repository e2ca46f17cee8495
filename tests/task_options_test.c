/* Options of calls beside resources: retries without limit, by default and after failures, actors that are got or made, threads. */
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <berth/task.h>

#include "support/programs.h"

/* --- functions --------------------------------------------------------------------------------------------------------- */

/* A place that counts calls, in a file with a name of the test's. */
static int count_in(const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", getenv("TMPDIR"), name);
    FILE *file = fopen(path, "a+");
    if (!file) return -1;
    fputc('x', file);
    fseek(file, 0, SEEK_END);
    int count = (int)ftell(file);
    fclose(file);
    return count;
}

static void forget_count(const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", getenv("TMPDIR"), name);
    unlink(path);
}

/* Dies until it is called that often. */
static bt_status die_until(bt_task *task) {
    int64_t times;
    const char *name;
    bt_status status = bt_arguments(task, &name, &times);
    if (status != BT_OK) return status;
    int count = count_in(name);
    if (count < times) raise(SIGKILL);
    return bt_return(task, count);
}
BT_REMOTE(die_until);

/* Returns that failure until it is called that often. */
static bt_status fail_until(bt_task *task) {
    int64_t times, status_number;
    const char *name;
    bt_status status = bt_arguments(task, &name, &times, &status_number);
    if (status != BT_OK) return status;
    int count = count_in(name);
    if (count < times) return bt_task_fail(task, (bt_status)status_number, "call %d", count);
    return bt_return(task, count);
}
BT_REMOTE(fail_until);

static bt_status fail_until_on_gpu(bt_task *task) { return fail_until(task); }
BT_REMOTE(fail_until_on_gpu, .num_gpus = 1, .max_retries = 3,
          .retry_failures = BT_FAILURES(BT_UNAVAILABLE, BT_ABORTED));

static bt_status keep_failing(bt_task *task) {
    count_in("keep_failing");
    return BT_UNAVAILABLE;
}
BT_REMOTE(keep_failing, .max_retries = -1, .retry_failures = BT_ANY_FAILURE);

static bt_status service_new(bt_task *task) {
    static int64_t calls;
    if (count_in("services") < 0) return BT_INTERNAL;
    return bt_set_state(task, &calls, NULL), BT_OK;
}
BT_REMOTE(service_new, .num_cpus = 0);

static bt_status service_call(bt_task *task) { return bt_return(task, ++*(int64_t *)bt_state(task)); }
BT_REMOTE(service_call);

static bt_status service_fails_until(bt_task *task) {
    int64_t times, *calls = bt_state(task);
    bt_status status = bt_arguments(task, &times);
    if (status != BT_OK) return status;
    return ++*calls < times ? BT_UNAVAILABLE : bt_return(task, *calls);
}
BT_REMOTE(service_fails_until);

static bt_status use_service(bt_task *task) {
    int64_t n;
    bt_actor *service = bt_actor_new_with(BT_OPTIONS(.name = "service", .get_if_exists = true), service_new);
    bt_status status = bt_get(bt_method(service, service_call), &n);
    return status == BT_OK ? bt_return(task, n) : status;
}
BT_REMOTE(use_service);

/* GCC's OpenMP reads the variable when it is loaded; -1: it is not installed. */
static int openmp_threads(void) {
    int (*most)(void) = NULL;
    *(void **)&most = dlsym(RTLD_DEFAULT, "omp_get_max_threads");
    return most ? most() : -1;
}

static bt_status threads(bt_task *task) {
    char text[64];
    const char *variable = getenv("OMP_NUM_THREADS");
    snprintf(text, sizeof text, "%s %d", variable ? variable : "none", openmp_threads());
    setenv("OMP_NUM_THREADS", "77", 1);
    return bt_return(task, text);
}
BT_REMOTE(threads);

/* A tree of calls of that depth, whose leaves run until they are cancelled; `deaf`: for ever. Counts the calls that were told. */
static bt_status tree(bt_task *task);
BT_REMOTE(tree, .num_cpus = 0);
static bt_status tree(bt_task *task) {
    int64_t depth;
    bool deaf;
    bt_status status = bt_arguments(task, &depth, &deaf);
    if (status != BT_OK) return status;
    count_in("begun");
    if (!depth) {
        while (deaf || !bt_task_cancelled(task)) sleep_seconds(0.001);
    } else {
        bt_ref *low[] = {bt_remote(tree, depth - 1, deaf), bt_remote(tree, depth - 1, deaf)};
        for (int i = 0; i < 2; i++) status = bt_get(low[i], NULL);
    }
    if (!bt_task_cancelled(task)) return status;
    count_in("told");
    return bt_task_fail(task, BT_ABORTED, "told");
}

static bt_status tree_by_method(bt_task *task) {
    bt_actor *service;
    int64_t n;
    bt_status status = bt_arguments(task, &service);
    count_in("begun");
    bt_ref *runs = bt_method(service, tree, 0, false), *waits = bt_method(service, service_call);
    if (status == BT_OK) status = bt_get(runs, NULL);
    return status == BT_OK ? bt_get(waits, &n) : status;
}
BT_REMOTE(tree_by_method);

static bt_status give(bt_task *task) {
    int64_t status_number;
    bt_status status = bt_arguments(task, &status_number);
    return status == BT_OK ? (bt_status)status_number : status;
}
BT_REMOTE(give);

/* --- retries ----------------------------------------------------------------------------------------------------------- */

#define CHECK_NUMBER(ref, expected)                                                               \
    do {                                                                                          \
        int64_t number = -1;                                                                      \
        if (bt_get(ref, &number) != BT_OK || number != (expected)) {                              \
            fprintf(stderr, "line %d: %lld: %s\n", __LINE__, (long long)number, bt_error_text()); \
            return 1;                                                                             \
        }                                                                                         \
    } while (0)

static int retries_after_deaths(void) {
    CHECK(bt_runtime_init(.num_cpus = 2, .max_retries = 2) == BT_OK);
    BT_SCOPE {
        CHECK_NUMBER(bt_remote(die_until, "default", 3), 3);
        CHECK_FAILS(bt_get(bt_remote(die_until, "too_often", 4), NULL), BT_ABORTED, "signal 9");
        CHECK_FAILS(bt_get(bt_remote_with(BT_OPTIONS(.max_retries = 0), die_until, "none", 2), NULL), BT_ABORTED,
                    "signal 9");
        CHECK_NUMBER(bt_remote_with(BT_OPTIONS(.max_retries = -1), die_until, "always", 8), 8);
        CHECK_FAILS(bt_get(bt_remote_with(BT_OPTIONS(.max_retries = -2), give, 0), NULL), BT_INVALID_ARGUMENT,
                    "-1 is without limit");
        bt_actor *service = bt_actor_new_with(BT_OPTIONS(.max_restarts = -1), service_new);
        for (int i = 0; i < 4; i++) {
            char name[20];
            snprintf(name, sizeof name, "restart_%d", i);
            CHECK_FAILS(bt_get(bt_method(service, die_until, name, 2), NULL), BT_ABORTED,
                        "signal 9"); /* methods have none */
            forget_count(name);
        }
        CHECK_NUMBER(bt_method_with(BT_OPTIONS(.max_retries = -1), service, die_until, "method", 5), 5);
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    CHECK_FAILS(bt_runtime_init(.max_retries = -3), BT_INVALID_ARGUMENT, "-1 is without limit");
    static const char *const names[] = {"default", "too_often", "none", "always", "method", "services"};
    for (int i = 0; i < 6; i++) forget_count(names[i]);
    return 0;
}

static int retries_after_failures(void) {
    CHECK(bt_runtime_init(.num_cpus = 2, .num_gpus = 8) == BT_OK);
    BT_SCOPE {
        const bt_task_options *again =
            BT_OPTIONS(.max_retries = 3, .retry_failures = BT_FAILURES(BT_UNAVAILABLE, BT_INTERNAL));
        CHECK_NUMBER(bt_remote_with(again, fail_until, "again", 4, BT_UNAVAILABLE), 4);
        CHECK_NUMBER(bt_remote_with(again, fail_until, "other", 2, BT_INTERNAL), 2);
        CHECK_FAILS(bt_get(bt_remote_with(again, fail_until, "too_often", 5, BT_UNAVAILABLE), NULL), BT_UNAVAILABLE,
                    "call 4");
        CHECK_FAILS(bt_get(bt_remote_with(again, fail_until, "not_that", 2, BT_NOT_FOUND), NULL), BT_NOT_FOUND,
                    "call 1");
        CHECK_NUMBER(bt_remote_with(BT_OPTIONS(.max_retries = 1, .retry_failures = BT_ANY_FAILURE), fail_until, "any",
                                    2, BT_UNAUTHENTICATED),
                     2);
        CHECK_FAILS(bt_get(bt_remote_with(BT_OPTIONS(.max_retries = 3), fail_until, "unset", 2, BT_UNAVAILABLE), NULL),
                    BT_UNAVAILABLE, "call 1");
        CHECK_NUMBER(bt_remote(fail_until_on_gpu, "gpu", 4, BT_UNAVAILABLE), 4);
        CHECK_FAILS(bt_get(bt_remote(fail_until_on_gpu, "gpu_too_often", 5, BT_ABORTED), NULL), BT_ABORTED, "call 4");
        bt_actor *service = bt_actor_new(service_new);
        CHECK_NUMBER(bt_method_with(BT_OPTIONS(.max_retries = 9, .retry_failures = BT_FAILURES(BT_UNAVAILABLE)),
                                    service, service_fails_until, 6),
                     6);
        CHECK_NUMBER(bt_method(service, service_call), 7);
        /* one that is cancelled is not run again */
        bt_ref *endless = bt_remote(keep_failing);
        CHECK(bt_get_within(endless, 0.05, NULL) == BT_DEADLINE_EXCEEDED);
        CHECK(bt_cancel(endless, false) == BT_OK);
        CHECK(bt_get(endless, NULL) == BT_CANCELLED);
        for (int i = 0; i < 20; i++) CHECK(bt_get(bt_remote(give, 0), NULL) == BT_OK);
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    static const char *const names[] = {"again", "other", "too_often",     "not_that", "any",
                                        "unset", "gpu",   "gpu_too_often", "services", "keep_failing"};
    for (int i = 0; i < 10; i++) forget_count(names[i]);
    return 0;
}

static int statuses_that_functions_return(void) {
    CHECK(bt_runtime_init(.num_cpus = 1) == BT_OK);
    BT_SCOPE {
        for (int status = 1; status <= BT_UNAUTHENTICATED; status++)
            CHECK((int)bt_get(bt_remote(give, status), NULL) == status);
        CHECK_FAILS(bt_get(bt_remote(give, 17), NULL), BT_UNKNOWN, "17, which is no status");
        CHECK_FAILS(bt_get(bt_remote(give, -1), NULL), BT_UNKNOWN, "-1, which is no status");
        CHECK(bt_get(bt_remote(give, 0), NULL) == BT_OK);
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    return 0;
}

/* --- cancelling -------------------------------------------------------------------------------------------------------- */

static int length_of(const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", getenv("TMPDIR"), name);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    fseek(file, 0, SEEK_END);
    int length = (int)ftell(file);
    fclose(file);
    return length;
}
static bool has_begun(int count) { return length_of("begun") >= count; }
static bool was_told(int count) { return length_of("told") >= count; }

static int calls_are_cancelled_with_those_they_made(void) {
    enum { CALLS = 7 };
    CHECK(bt_runtime_init(.num_cpus = 4) == BT_OK);
    BT_SCOPE {
        bt_ref *other = bt_remote(tree, 0, false), *trunk = bt_remote(tree, 2, false);
        CHECK(comes_true(has_begun, CALLS + 1, SOON));
        CHECK(bt_cancel_all(trunk, false) == BT_OK);
        CHECK(bt_get(trunk, NULL) == BT_CANCELLED);
        CHECK(comes_true(was_told, CALLS, SOON));
        CHECK(bt_get_within(other, 0.05, NULL) == BT_DEADLINE_EXCEEDED); /* the program made it */
        CHECK(length_of("told") == CALLS);
        trunk = bt_remote(tree, 2, true);
        CHECK(comes_true(has_begun, 2 * CALLS + 1, SOON));
        CHECK(bt_cancel_all(trunk, true) == BT_OK); /* all seven processes are ended */
        CHECK(bt_get(trunk, NULL) == BT_CANCELLED);
        CHECK(bt_cancel_all(trunk, true) == BT_OK); /* it is done */
        /* a method that runs is asked, one that waits never begins, and the actor lives */
        bt_actor *service = bt_actor_new(service_new);
        trunk = bt_remote(tree_by_method, service);
        CHECK(comes_true(has_begun, 2 * CALLS + 3, SOON));
        CHECK(bt_cancel_all(trunk, true) == BT_OK);
        CHECK(bt_get(trunk, NULL) == BT_CANCELLED);
        CHECK_NUMBER(bt_method(service, service_call), 1);
        CHECK(bt_cancel(other, false) == BT_OK && bt_get(other, NULL) == BT_CANCELLED);
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    forget_count("begun"), forget_count("told"), forget_count("services");
    return 0;
}

/* --- actors ------------------------------------------------------------------------------------------------------------ */

static int actors_are_got_or_made(void) {
    enum { CALLS = 24 };
    CHECK(bt_runtime_init(.num_cpus = 8) == BT_OK);
    BT_SCOPE {
        const bt_task_options *shared = BT_OPTIONS(.name = "mine", .get_if_exists = true);
        bt_actor *first = bt_actor_new_with(shared, service_new), *second = bt_actor_new_with(shared, service_new);
        CHECK_NUMBER(bt_method(first, service_call), 1);
        CHECK_NUMBER(bt_method(second, service_call), 2);
        CHECK(bt_actor_status(bt_actor_new_with(BT_OPTIONS(.name = "mine"), service_new)) == BT_ALREADY_EXISTS);
        CHECK(bt_actor_kill(first) == BT_OK);
        CHECK_NUMBER(bt_method(bt_actor_new_with(shared, service_new), service_call), 1); /* a new one */
        CHECK_FAILS(bt_actor_status(bt_actor_new_with(BT_OPTIONS(.get_if_exists = true), service_new)),
                    BT_INVALID_ARGUMENT, ".name is not");
        CHECK_FAILS(bt_actor_status(bt_actor_new_with(BT_OPTIONS(.detached = true), service_new)), BT_UNIMPLEMENTED,
                    "ends all processes with it");
        CHECK(bt_actor_status(bt_actor_new_with(BT_OPTIONS(.name = "big", .get_if_exists = true, .num_cpus = 99),
                                                service_new)) == BT_RESOURCE_EXHAUSTED);
    }
    forget_count("services");
    BT_SCOPE { /* many at once: one is made, and lives as long as somebody has a handle */
        bt_actor *keeper = bt_actor_new_with(BT_OPTIONS(.name = "service", .get_if_exists = true), service_new);
        CHECK(bt_actor_status(keeper) == BT_OK);
        bool seen[CALLS + 1] = {0};
        bt_ref *uses[CALLS];
        for (int i = 0; i < CALLS; i++) uses[i] = bt_remote(use_service);
        for (int i = 0; i < CALLS; i++) {
            int64_t n = 0;
            if (bt_get(uses[i], &n) != BT_OK) fprintf(stderr, "%s\n", bt_error_text());
            CHECK(n >= 1 && n <= CALLS && !seen[n]);
            seen[n] = true;
        }
        CHECK(count_in("services") == 2);
    }
    BT_SCOPE { /* of tasks alone: each gets one that works, made by it or by another */
        bt_ref *uses[CALLS];
        for (int i = 0; i < CALLS; i++) uses[i] = bt_remote(use_service);
        for (int i = 0; i < CALLS; i++) {
            bt_status status = bt_get(uses[i], NULL);
            if (status != BT_OK) fprintf(stderr, "%s\n", bt_error_text());
            CHECK(status == BT_OK);
        }
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    forget_count("services");
    return 0;
}

/* --- threads ----------------------------------------------------------------------------------------------------------- */

/* Of the variable and of OpenMP. */
#define CHECK_THREADS(expected, ...)                                                          \
    do {                                                                                      \
        char both[40];                                                                        \
        const char *text = "";                                                                \
        snprintf(both, sizeof both, "%d %d", expected, openmp_threads() < 0 ? -1 : expected); \
        bt_status got = bt_get(bt_remote_with(BT_OPTIONS(__VA_ARGS__), threads), &text);      \
        if (got != BT_OK || strcmp(text, both) != 0) {                                        \
            fprintf(stderr, "line %d: \"%s\": %s\n", __LINE__, text, bt_error_text());        \
            return 1;                                                                         \
        }                                                                                     \
    } while (0)

static int threads_are_those_of_the_cpus(void) {
    unsetenv("OMP_NUM_THREADS");
    dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL);
    CHECK(bt_runtime_init(.num_cpus = 4) == BT_OK);
    BT_SCOPE {
        CHECK_THREADS(1, .priority = 1);
        CHECK_THREADS(1, .priority = 1); /* what the function changed is put back */
        CHECK_THREADS(3, .num_cpus = 3);
        CHECK_THREADS(1, .num_cpus = 0.5);
        CHECK_THREADS(2, .num_cpus = 2.7);
        CHECK(bt_get(bt_remote_with(BT_OPTIONS(.num_cpus = 0), threads), NULL) == BT_OK);
        CHECK_THREADS(4, .num_cpus = 4);
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    return 0;
}

static int threads_that_the_user_chose(void) {
    setenv("OMP_NUM_THREADS", "5", 1);
    dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL);
    CHECK(bt_runtime_init(.num_cpus = 4) == BT_OK);
    BT_SCOPE {
        CHECK_THREADS(5, .num_cpus = 3);
        CHECK_THREADS(5, .num_cpus = 2);
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    return 0;
}

static int engines_have_names(void) {
    CHECK_FAILS(bt_runtime_init(.engine = "steam"), BT_NOT_FOUND, "no engine \"steam\"; known: local");
    CHECK(bt_set_flag("task_engine", "wind") == BT_OK);
    CHECK_FAILS(bt_runtime_init(.num_cpus = 1), BT_NOT_FOUND, "no engine \"wind\"");
    CHECK(bt_runtime_init(.num_cpus = 1, .engine = "local") == BT_OK);
    return bt_runtime_shutdown() != BT_OK;
}

int main(int argc, char **argv) {
    static const test_program programs[] = {
        {.name = "retries_after_deaths", .run = retries_after_deaths},
        {.name = "retries_after_failures", .run = retries_after_failures},
        {.name = "statuses_that_functions_return", .run = statuses_that_functions_return},
        {.name = "calls_are_cancelled_with_those_they_made", .run = calls_are_cancelled_with_those_they_made},
        {.name = "actors_are_got_or_made", .run = actors_are_got_or_made},
        {.name = "threads_are_those_of_the_cpus", .run = threads_are_those_of_the_cpus},
        {.name = "threads_that_the_user_chose", .run = threads_that_the_user_chose},
        {.name = "engines_have_names", .run = engines_have_names},
    };
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}

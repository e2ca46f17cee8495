/* How many processes there are: a cap on calls that run at once, which calls that wait inside do not use up; forks that fail. */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/support.h"

typedef struct shared {
    atomic_int live, most;
    atomic_int forks_to_fail; /* in the nest */
    atomic_int open;          /* until then `gate` runs */
} shared;
static shared *all; /* of all processes */

/* In the place of the system's: the nest's forks can be made to fail. */
__attribute__((visibility("default"))) pid_t fork(void) {
    pid_t (*real)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
    if (all && atomic_load(&all->forks_to_fail) > 0) {
        atomic_fetch_sub(&all->forks_to_fail, 1);
        errno = EAGAIN;
        return -1;
    }
    return real();
}

static int begin(void **state) {
    (void)state;
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return all == MAP_FAILED ? -1 : 0;
}

static int end(void **state) {
    munmap(all, sizeof *all);
    all = NULL;
    return end_runtime(state);
}

static bt_status counted(bt_task *task) {
    int64_t ms;
    bt_status status = bt_argument(task, 0, &ms);
    int live = atomic_fetch_add(&all->live, 1) + 1, most = atomic_load(&all->most);
    while (live > most && !atomic_compare_exchange_weak(&all->most, &most, live)) continue;
    if (status == BT_OK) sleep_ms(ms);
    atomic_fetch_sub(&all->live, 1);
    return status;
}
BT_REMOTE(counted, .num_cpus = 0);

static bt_status gate(bt_task *task) {
    (void)task;
    while (!atomic_load(&all->open)) sleep_ms(1);
    return BT_OK;
}
BT_REMOTE(gate, .num_cpus = 0);

static void expect_most(int calls, int ms, int most) {
    bt_ref *refs[400];
    BT_SCOPE {
        for (int i = 0; i < calls; i++) refs[i] = bt_remote(counted, ms);
        for (int i = 0; i < calls; i++) OK(bt_get_within(refs[i], SOON, NULL));
    }
    assert_in_range(atomic_load(&all->most), 2, most);
}

static void calls_for_nothing_do_not_run_all_at_once(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 2));
    expect_most(400, 20, 64);
}

static void a_program_says_how_many_run_at_once(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 2, .max_processes = 5));
    expect_most(60, 5, 5);
}

static void odd_numbers_of_processes_are_refused(void **state) {
    (void)state;
    FAILS(bt_runtime_init(.max_processes = -1), BT_INVALID_ARGUMENT, "max_processes is -1");
}

/* Calls that have GPUs have processes of their own. */
static void idle_workers_are_not_in_the_way(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 4, .num_gpus = 1, .max_processes = 2));
    BT_SCOPE {
        bt_ref *refs[4];
        for (int i = 0; i < 4; i++) refs[i] = bt_remote(counted, 10);
        for (int i = 0; i < 4; i++) OK(bt_get_within(refs[i], SOON, NULL));
        for (int i = 0; i < 4; i++)
            OK(bt_get_within(bt_remote_with(BT_OPTIONS(.num_gpus = 1), counted, 1), SOON, NULL));
    }
}

static void who_waits_for_a_process_is_told_so(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 2, .max_processes = 2));
    BT_SCOPE {
        bt_ref *refs[3];
        for (int i = 0; i < 3; i++) refs[i] = bt_remote(gate);
        char *text = bt_runtime_text(true);
        SAYS(text, "waits for a process: 2 calls run, the most that may (bt_runtime_init, .max_processes)");
        bt_free(text);
        atomic_store(&all->open, 1);
        for (int i = 0; i < 3; i++) OK(bt_get_within(refs[i], SOON, NULL));
    }
}

/* Calls itself, so many times, and waits for that. */
static bt_status deeper(bt_task *task) {
    int64_t left, below = 0;
    bt_status status = bt_argument(task, 0, &left);
    bt_item_value argument = {.type = BT_INTEGER, .as.integer = left - 1};
    if (status == BT_OK && left > 0)
        BT_SCOPE
            status = bti_get(bt_remote_named(NULL, "deeper", NULL, &argument, 1), BT_INTEGER, sizeof below, &below, -1);
    return status == BT_OK ? bt_return(task, below + 1) : status;
}
BT_REMOTE(deeper);

/* Many more than the cap wait inside, and do not hold up what they wait for. */
static void calls_that_wait_inside_are_not_counted(void **state) {
    (void)state;
    enum { DEPTH = 300 };
    int64_t depth = 0;
    OK(bt_runtime_init(.num_cpus = 1, .max_processes = 1));
    BT_SCOPE
        OK(bt_get(bt_remote(deeper, DEPTH), &depth));
    assert_int_equal(depth, DEPTH + 1);
}

static void a_fork_that_fails_is_tried_again(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 4, .num_gpus = 1));
    BT_SCOPE {
        bt_ref *refs[8];
        atomic_store(&all->forks_to_fail, 3);
        for (int i = 0; i < 8; i++) refs[i] = bt_remote_with(BT_OPTIONS(.num_cpus = 1), counted, 5);
        for (int i = 0; i < 8; i++) OK(bt_get_within(refs[i], SOON, NULL));
        atomic_store(&all->forks_to_fail, 1);
        OK(bt_get_within(bt_remote_with(BT_OPTIONS(.num_gpus = 1), counted, 1), SOON, NULL));
        assert_true(atomic_load(&all->forks_to_fail) <= 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(calls_for_nothing_do_not_run_all_at_once), TEST(a_program_says_how_many_run_at_once),
        TEST(odd_numbers_of_processes_are_refused),     TEST(idle_workers_are_not_in_the_way),
        TEST(who_waits_for_a_process_is_told_so),       TEST(calls_that_wait_inside_are_not_counted),
        TEST(a_fork_that_fails_is_tried_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

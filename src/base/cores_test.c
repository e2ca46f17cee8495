// labels: threads
// env: BERTH_FLAGS=threads=4
/* The executor of more helpers than there may be cores: who does a piece is chance, that each is done once is not. */
#include "base/cores.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <berth/flags.h>
#include <cmocka.h>

#include "base/flags.h"

enum { COUNT = 1000 };

typedef struct record {
    atomic_int done[COUNT], wrong;
    atomic_int running, most;
    int64_t grain;
    pthread_t caller;
    bool alone; /* no other thread may do anything */
} record;

static void note(void *context, int64_t begin, int64_t end) {
    record *r = context;
    int running = atomic_fetch_add(&r->running, 1) + 1, most = atomic_load(&r->most);
    while (running > most && !atomic_compare_exchange_weak(&r->most, &most, running)) {
    }
    if (begin % r->grain || end - begin > r->grain || (end - begin < r->grain && end != COUNT))
        atomic_store(&r->wrong, 1);
    if (r->alone && !pthread_equal(pthread_self(), r->caller)) atomic_store(&r->wrong, 2);
    for (int64_t i = begin; i < end; i++) atomic_fetch_add(&r->done[i], 1);
    atomic_fetch_sub(&r->running, 1);
}

static bool all_once(record *r) {
    for (int i = 0; i < COUNT; i++)
        if (atomic_load(&r->done[i]) != 1) return false;
    return atomic_load(&r->wrong) == 0;
}

static bool run(int64_t grain, bool alone) {
    record r = {.grain = grain, .caller = pthread_self(), .alone = alone};
    bti_parallel(COUNT, grain, note, &r);
    return all_once(&r);
}

static void every_piece_once(void **state) {
    for (int64_t grain = 1; grain <= COUNT + 1; grain += grain / 3 + 1) assert_true(run(grain, false));
    bti_parallel(0, 1, note, NULL);
}

static void nested(void *context, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
        if (!run(7, true)) atomic_fetch_add((atomic_int *)context, 1);
}

static void nested_calls_stay_on_their_thread(void **state) {
    atomic_int wrong = 0;
    bti_parallel(50, 1, nested, &wrong);
    assert_int_equal(atomic_load(&wrong), 0);
}

static void meet(void *context, int64_t begin, int64_t end) {
    atomic_int *here = context;
    atomic_fetch_add(here, 1);
    for (int i = 0; i < 200000 && atomic_load(here) < 4; i++) usleep(100);
}

static void helpers_come(void **state) {
    atomic_int here = 0;
    bti_parallel(4, 1, meet, &here); /* ends early only when four threads are in it at once */
    assert_int_equal(atomic_load(&here), 4);
}

static void slow(void *context, int64_t begin, int64_t end) {
    usleep(300);
    note(context, begin, end);
}

static void limits_hold(void **state) {
    assert_int_equal(bti_cores_limit(1), 0);
    assert_true(run(10, true));
    assert_int_equal(bti_cores_limit(2), 1);
    record r = {.grain = 10};
    bti_parallel(COUNT, 10, slow, &r);
    assert_true(all_once(&r));
    assert_true(atomic_load(&r.most) <= 2);
    assert_int_equal(bti_cores_limit(0), 2);
    assert_int_equal(bt_set_flag("threads", "1"), BT_OK);
    assert_int_equal(bti_cores(), 1);
    assert_true(run(10, true));
    assert_int_equal(bt_set_flag("threads", "4"), BT_OK);
    assert_int_equal(bti_cores(), 4);
}

static void *call_often(void *wrong) {
    for (int i = 0; i < 300; i++)
        if (!run(1 + i % 40, false)) atomic_fetch_add((atomic_int *)wrong, 1);
    return NULL;
}

static void many_callers(void **state) {
    pthread_t threads[8];
    atomic_int wrong = 0;
    for (int i = 0; i < 8; i++) assert_int_equal(pthread_create(&threads[i], NULL, call_often, &wrong), 0);
    for (int i = 0; i < 20; i++) bti_cores_shutdown(); /* helpers go and come beneath them */
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&wrong), 0);
}

static void shut_down_and_again(void **state) {
    for (int i = 0; i < 50; i++) {
        assert_true(run(5, false));
        bti_cores_shutdown();
        if (i % 2) bti_cores_shutdown();
    }
}

static void a_child_begins_anew(void **state) {
#ifdef __SANITIZE_THREAD__
    skip(); /* it lets no thread be made after a fork */
#endif
    assert_true(run(5, false));
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        alarm(120);
        atomic_int here = 0;
        bool good = run(5, false);
        bti_parallel(4, 1, meet, &here);
        bti_cores_shutdown();
        _exit(good && atomic_load(&here) == 4 && run(5, false) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(run(5, false));
}

static void cores_are_counted(void **state) {
    assert_int_equal(bt_set_flag("threads", "0"), BT_OK);
    assert_true(bti_cores() >= 1 && bti_cores() <= sysconf(_SC_NPROCESSORS_CONF));
    assert_int_equal(bt_set_flag("threads", "4"), BT_OK);
}

static int end(void **state) {
    bti_cores_shutdown();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_piece_once),    cmocka_unit_test(nested_calls_stay_on_their_thread),
        cmocka_unit_test(helpers_come),        cmocka_unit_test(limits_hold),
        cmocka_unit_test(many_callers),        cmocka_unit_test(shut_down_and_again),
        cmocka_unit_test(a_child_begins_anew), cmocka_unit_test(cores_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}

// labels: threads
/* Queues, what runs on whose thread, memory that is in use until its last reader is done, and errors of work that failed. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <berth/ops.h>
#include <berth/view.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "exec/exec.h"
#include "exec/queue.h"
#include "support/settings.h"

/* --- queues --------------------------------------------------------------------------------------------------------------- */

enum { A, B };

typedef struct note {
    bti_queue_entry entry;
    int number;
    int wait_device; /* -1: for nobody */
    uint64_t wait_number;
    bool flies;
} note;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ran[64], ran_count;
static pthread_t ran_on[64];

static int settled[64], settled_count;

static void settle(bti_queue_entry *entry) {
    settled[settled_count++] = ((note *)entry)->number;
    free(entry);
}

static bool write_down(bti_queue_entry *entry, bool may_complete) {
    note *n = (note *)entry;
    if (n->wait_device >= 0) bti_run_queue_wait(n->wait_device, n->wait_number);
    pthread_mutex_lock(&lock);
    ran_on[ran_count] = pthread_self();
    ran[ran_count++] = n->number;
    pthread_mutex_unlock(&lock);
    if (n->flies || !may_complete) return false;
    free(n);
    return true;
}

static uint64_t submit(int device, int number, int wait_device, uint64_t wait_number) {
    note *n = malloc(sizeof *n);
    *n = (note){
        {.run = write_down, .settle = settle, .alone = wait_device >= 0}, number, wait_device, wait_number, false};
    return bti_run_queue_submit(device, &n->entry);
}

static uint64_t submit_flying(int device, int number) {
    note *n = malloc(sizeof *n);
    *n = (note){{.run = write_down, .settle = settle}, number, -1, 0, true};
    return bti_run_queue_submit(device, &n->entry);
}

static void expect_ran(int count, const int *numbers) {
    assert_int_equal(ran_count, count);
    for (int i = 0; i < count; i++) assert_int_equal(ran[i], numbers[i]);
}

static void an_idle_queue_runs_on_the_waiting_thread(void **state) {
    begin("");
    ran_count = 0;
    uint64_t first = submit(A, 1, -1, 0), last = 0;
    assert_int_equal(first, bti_run_queue_submitted(A));
    for (int i = 2; i <= 5; i++) last = submit(A, i, -1, 0);
    assert_int_equal(ran_count, 0); /* nobody asked yet */
    bti_run_queue_wait(A, first + 1);
    expect_ran(2, (int[]){1, 2}); /* in order, and no more than asked */
    assert_int_equal(bti_run_queue_completed(A), first + 1);
    bti_run_queue_wait(A, last);
    expect_ran(5, (int[]){1, 2, 3, 4, 5});
    for (int i = 0; i < 5; i++) assert_true(pthread_equal(ran_on[i], pthread_self()));
    bti_run_queue_wait(A, first); /* long done */
}

static void a_kicked_queue_runs_behind(void **state) {
    begin("");
    ran_count = 0;
    uint64_t last = 0;
    for (int i = 1; i <= 20; i++) last = submit(A, i, -1, 0);
    bti_run_queue_kick(A);
    while (bti_run_queue_completed(A) < last) sched_yield(); /* without waiting */
    for (int i = 0; i < 20; i++) {
        assert_int_equal(ran[i], i + 1);
        assert_false(pthread_equal(ran_on[i], pthread_self()));
    }
    bti_run_queue_stop(A);
    submit(A, 21, -1, 0);
    bti_run_queue_kick(A); /* and again after the thread was ended */
    bti_run_queue_wait(A, last + 1);
    assert_int_equal(ran[20], 21);
    bti_run_queue_stop(A);
}

static void tasks_wait_for_other_queues(void **state) {
    begin("");
    for (int kicked = 0; kicked < 2; kicked++) {
        ran_count = 0;
        uint64_t number = submit(A, 1, -1, 0);
        for (int i = 2; i <= 9; i++) { /* each waits for the one before, on the other queue */
            int device = i % 2 ? A : B;
            number = submit(device, i, 1 - device, number);
        }
        if (kicked) bti_exec_kick();
        bti_run_queue_wait(A, number);
        expect_ran(9, (int[]){1, 2, 3, 4, 5, 6, 7, 8, 9});
    }
    bti_exec_shutdown();
}

static void work_in_flight_is_settled_in_order(void **state) {
    begin("");
    ran_count = settled_count = 0;
    uint64_t first = submit_flying(A, 0);
    for (int i = 1; i < 20; i++) submit_flying(A, i);
    bti_run_queue_issue(A, first + 4);
    assert_int_equal(ran_count, 5);
    assert_int_equal(settled_count, 0);
    assert_int_equal(bti_run_queue_completed(A), first - 1);
    bti_run_queue_wait(A, first + 2); /* launched already: nothing more is for its sake */
    assert_int_equal(ran_count, 5);
    assert_int_equal(settled_count, 3);
    bti_run_queue_issue(A, first + 19); /* so many in flight that the first must be waited for */
    assert_int_equal(ran_count, 20);
    assert_int_equal(settled_count, 20 - BTI_IN_FLIGHT);
    submit(A, 20, -1, 0); /* complete at once, but not before those */
    submit(A, 21, B, 0);  /* alone */
    bti_run_queue_issue(A, first + 20);
    assert_int_equal(settled_count, 20 - BTI_IN_FLIGHT + 1);
    bti_run_queue_issue(A, first + 21);
    assert_int_equal(settled_count, 21);
    assert_int_equal(bti_run_queue_completed(A), first + 21);
    for (int i = 0; i < 21; i++) assert_int_equal(settled[i], i);
    settled_count = 0;
    uint64_t last = submit_flying(A, 0);
    bti_run_queue_kick(A);
    while (bti_run_queue_completed(A) < last) sched_yield();
    bti_run_queue_stop(A);
    assert_int_equal(settled_count, 1);
}

/* --- completion ----------------------------------------------------------------------------------------------------------- */

typedef struct late {
    bti_queue_entry entry;
    atomic_bool *complete;
    int number;
} late;

static atomic_int polled;

static bool fly(bti_queue_entry *entry, bool may_complete) {
    (void)entry, (void)may_complete;
    return false;
}

static bool is_complete(bti_queue_entry *entry) {
    atomic_fetch_add(&polled, 1);
    return atomic_load(((late *)entry)->complete);
}

static void wait_until_complete(bti_queue_entry *entry) {
    while (!atomic_load(((late *)entry)->complete)) sched_yield();
    settled[settled_count++] = ((late *)entry)->number;
    free(entry);
}

static uint64_t submit_late(int number, atomic_bool *complete, bool watched) {
    late *l = malloc(sizeof *l);
    *l = (late){{.run = fly, .settle = wait_until_complete, .poll = is_complete, .watched = watched}, complete, number};
    return bti_run_queue_submit(A, &l->entry);
}

/* Without anybody who waits; and the thread that looks sleeps where nothing is in flight. */
static void completion_is_noticed(void **state) {
    begin("");
    atomic_bool complete[3] = {false};
    uint64_t last = 0;
    settled_count = 0;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++) atomic_store(&complete[i], false);
        for (int i = 0; i < 3; i++) last = submit_late(i, &complete[i], true);
        bti_run_queue_issue(A, last);
        atomic_store(&complete[1], true); /* the second is not looked at before the first is */
        usleep(20000);
        assert_int_equal(bti_run_queue_completed(A), last - 3);
        atomic_store(&complete[0], true);
        while (bti_run_queue_completed(A) < last - 1) sched_yield();
        usleep(20000);
        assert_int_equal(bti_run_queue_completed(A), last - 1);
        atomic_store(&complete[2], true);
        while (bti_run_queue_completed(A) < last) sched_yield();
        int asked = atomic_load(&polled);
        usleep(20000);
        assert_int_equal(atomic_load(&polled), asked);
        bti_run_queues_stop(); /* and another thread comes */
    }
    for (int i = 0; i < 6; i++) assert_int_equal(settled[i], i % 3);
}

/* What the poller does not ask is noticed when somebody else asks, and by who waits. */
static void completion_is_asked_for(void **state) {
    begin("");
    atomic_bool complete[3] = {false};
    uint64_t last = 0;
    for (int i = 0; i < 3; i++) last = submit_late(i, &complete[i], false);
    bti_run_queue_issue(A, last);
    atomic_store(&complete[0], true);
    atomic_store(&complete[1], true);
    usleep(20000);
    assert_int_equal(bti_run_queue_completed(A), last - 3);
    bti_run_queue_poll(A);
    assert_int_equal(bti_run_queue_completed(A), last - 1);
    bti_run_queue_poll(A);
    assert_int_equal(bti_run_queue_completed(A), last - 1);
    atomic_store(&complete[2], true);
    bti_run_queue_wait(A, last);
}

/* Of entries in flight: the event of the first one from there on that has one; what has none is waited for. */
static void points_are_events_of_work_in_flight(void **state) {
    begin("");
    atomic_bool complete[4] = {false};
    bti_event event = {0};
    uint64_t last = 0;
    for (int i = 0; i < 4; i++) {
        late *l = malloc(sizeof *l);
        *l = (late){{.run = fly, .settle = wait_until_complete, .poll = is_complete}, &complete[i], i};
        l->entry.event = (bti_event){100 + (uint64_t)i};
        l->entry.has_event = i == 0 || i == 2;
        last = bti_run_queue_submit(A, &l->entry);
    }
    const uint64_t first = last - 3;
    settled_count = 0;
    assert_true(bti_run_queue_point(A, first, &event)); /* which it runs first */
    assert_int_equal(event.value, 100);
    assert_int_equal(bti_run_queue_issued(A), first);
    bti_run_queue_issue(A, last);
    assert_true(bti_run_queue_point(A, first + 1, &event));
    assert_int_equal(event.value, 102);
    assert_true(bti_run_queue_point(A, first + 2, &event));
    assert_int_equal(event.value, 102);
    assert_int_equal(settled_count, 0);
    for (int i = 0; i < 4; i++) atomic_store(&complete[i], true);
    assert_false(bti_run_queue_point(A, last, &event)); /* it has waited */
    assert_int_equal(settled_count, 4);
    assert_false(bti_run_queue_point(A, first, &event));
}

static void *wait_for(void *number);

/* While threads wait for work in flight others launch, and wait for what is launched. */
static void who_waits_is_in_nobodys_way(void **state) {
    begin("");
    atomic_bool first_done = false, second_done = false;
    ran_count = 0;
    uint64_t first = submit_late(0, &first_done, true), second = 0;
    pthread_t threads[3];
    bti_run_queue_issue(A, first);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, wait_for, &first);
    usleep(10000);
    for (int i = 0; i < 5; i++) second = submit_flying(A, i);
    bti_run_queue_issue(A, second); /* does not wait for the first */
    assert_int_equal(ran_count, 5);
    second = submit_late(1, &second_done, true);
    pthread_create(&threads[2], NULL, wait_for, &second);
    while (bti_run_queue_issued(A) < second) sched_yield();
    assert_int_equal(bti_run_queue_completed(A), first - 1);
    atomic_store(&first_done, true);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL); /* the second is not complete */
    atomic_store(&second_done, true);
    pthread_join(threads[2], NULL);
    assert_int_equal(bti_run_queue_completed(A), second);
}

static void *wait_for(void *number) {
    bti_run_queue_wait(A, *(uint64_t *)number);
    return NULL;
}

static void many_may_wait(void **state) {
    begin("");
    ran_count = 0;
    pthread_t threads[8];
    uint64_t numbers[8];
    for (int i = 0; i < 8; i++) numbers[i] = submit(A, i, -1, 0);
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, wait_for, &numbers[7 - i]);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    expect_ran(8, (int[]){0, 1, 2, 3, 4, 5, 6, 7});
}

/* --- arrays --------------------------------------------------------------------------------------------------------------- */

static bt_array *numbers(float first) { return bt_from(((const float[]){first, first + 1}), BT_F32, BT_SHAPE(2)); }

static void expect(bt_array *x, float first, float second) {
    float got[2];
    OK(bt_read(x, got, sizeof got));
    assert_true(got[0] == first && got[1] == second);
}

static void expect_error(bt_array *x, bt_status status, int line, const char *text) {
    float got[2];
    char place[40];
    snprintf(place, sizeof place, "exec_test.c:%d: ", line);
    for (int i = 0; i < 2; i++) { /* it sticks */
        assert_int_equal(bt_read(x, got, sizeof got), status);
        if (strncmp(bt_error_text(), place, strlen(place)) || !strstr(bt_error_text(), text))
            fail_msg("\"%s\" is not \"%s...%s\"", bt_error_text(), place, text);
    }
}

static void plans_run_on_all_devices_they_name(void **state) {
    begin("devices=sim:gpu*3@64M");
    BT_SCOPE {
        bt_array *x = numbers(1), *c[3];
        for (int i = 0; i < 3; i++)
            BT_ON(i == 0 ? "gpu:0" : i == 1 ? "gpu:1" : "gpu:2") c[i] = bt_mul(x, bt_full(i, BT_F32, 2));
        bt_array *sum = NULL;
        BT_ON("cpu") sum = bt_add_n(c, 3);
        expect(sum, 3, 6);
        expect(bt_to(bt_to(bt_to(sum, "gpu:2"), "gpu:1"), "gpu:0"), 3, 6);
    }
    bt_synchronize();
    assert_int_equal(bti_buffers_alive(), 0);
}

/* The memory of x is free for others at once, but for the host only when the slow copy out of it is done. */
static void memory_in_use_by_a_copy_is_not_written(void **state) {
    begin("devices=sim:gpu*2@64M,sim_latency_us=3000");
    for (int round = 0; round < 3; round++) {
        BT_SCOPE {
            bt_array *there = NULL, *twice = NULL;
            BT_SCOPE {
                bt_array *x = bt_add(numbers(1), bt_full(0, BT_F32, 2));
                there = bt_keep(bt_to(x, "gpu:1"));
                twice = bt_keep(bt_add(x, x));
                OK(bt_eval(there));
                OK(bt_eval(twice));
            }
            for (int i = 0; i < 8; i++)
                BT_SCOPE(void) numbers(100); /* from the host, into what is free */
            BT_SCOPE
                OK(bt_eval(bt_full(50, BT_F32, 2)));
            expect(there, 1, 2);
            expect(twice, 2, 4);
        }
    }
}

/* --- errors --------------------------------------------------------------------------------------------------------------- */

static void an_error_sticks_and_flows_and_stops_there(void **state) {
    begin("devices=sim:gpu*2@64M,fuse=off,sim_fault=launch:2");
    BT_SCOPE {
        bt_array *x = numbers(1), *good = bt_neg(x), *bad = bt_exp(x), *fine = bt_abs(x);
        int line = __LINE__ - 1;
        bt_array *worse = bt_add(bad, x), *far = NULL;
        BT_ON("gpu:1") far = bt_add(worse, worse);
        OK(bt_eval_all(((bt_array *[]){good, bad, fine, worse, far}), 5));
        expect_error(bad, BT_INTERNAL, line, "bt_exp: injected fault: call 2 of launch on GPU:0");
        expect_error(worse, BT_INTERNAL, line, "bt_exp: injected fault");
        expect_error(far, BT_INTERNAL, line, "bt_exp: injected fault");
        expect(good, -1, -2);
        expect(fine, 1, 2);
        expect_error(bt_mul(bad, bad), BT_INTERNAL, line, "bt_exp: injected fault"); /* what comes later of it */
        expect(bt_exp2(x), 2, 4);                                                    /* and what does not */
    }
    bt_synchronize(); /* queues let go when they have done */
    assert_int_equal(bti_buffers_alive(), 0);
}

static void an_error_names_the_line_that_enqueued_it(void **state) {
    for (int behind = 0; behind < 2; behind++) { /* the thread that waits, or the queue's */
        begin("devices=sim:gpu*2@64M,sim_fault=gpu1/launch:1+");
        BT_SCOPE {
            bt_array *y = NULL;
            BT_ON("gpu:1") y = bt_neg(numbers(1));
            int line = __LINE__ - 1;
            if (behind) OK(bt_eval(y));
            if (behind) bt_synchronize();
            expect_error(y, BT_INTERNAL, line, "bt_neg: injected fault: call 1 of launch on GPU:1 (flag sim_fault)");
        }
    }
}

static void a_copy_that_fails_is_an_error_of_the_array(void **state) {
    begin("devices=sim:gpu*2@64M,sim_fault=peer_copy:1");
    BT_SCOPE {
        bt_array *x = numbers(1), *y = bt_to(x, "gpu:1");
        assert_int_equal(bt_block(y), BT_INTERNAL);
        assert_non_null(strstr(bt_error_text(), "peer_copy on GPU:1"));
        expect(x, 1, 2);
        expect(bt_to(x, "gpu:1"), 1, 2); /* another copy of it works */
    }
}

static void a_read_that_fails_may_be_tried_again(void **state) {
    begin("devices=sim:gpu*2@64M,sim_fault=download:1");
    BT_SCOPE {
        bt_array *x = numbers(1);
        float got[2];
        assert_int_equal(bt_read(x, got, sizeof got), BT_INTERNAL);
        expect(x, 1, 2);
    }
}

static void an_upload_that_fails_poisons(void **state) {
    begin("devices=sim:gpu*2@64M,sim_fault=upload:1");
    BT_SCOPE {
        bt_array *x = numbers(1);
        int line = __LINE__ - 1;
        (void)line;
        float got[2];
        assert_int_equal(bt_read(x, got, sizeof got), BT_INTERNAL);
        assert_non_null(strstr(bt_error_text(), "bt_from: injected fault: call 1 of upload"));
        expect(numbers(2), 2, 3);
    }
    bt_synchronize(); /* queues let go when they have done */
    assert_int_equal(bti_buffers_alive(), 0);
}

static void a_device_that_fails_behind_our_back_fails_all_of_the_task(void **state) {
    begin("devices=sim:gpu*2@64M,sim_fault=wait:1");
    BT_SCOPE {
        bt_array *x = numbers(1), *a = bt_neg(x);
        int line_a = __LINE__ - 1;
        bt_array *b = bt_abs(x);
        OK(bt_eval_all(((bt_array *[]){a, b}), 2));
        expect_error(a, BT_INTERNAL, line_a, "bt_neg: injected fault: call 1 of wait");
        expect_error(b, BT_INTERNAL, line_a + 2, "bt_abs: injected fault: call 1 of wait");
        expect(bt_neg(x), -1, -2);
    }
}

static void who_runs_the_work_of_others_keeps_its_own_record(void **state) {
    begin("devices=sim:gpu*2@64M,sim_fault=launch:1");
    BT_SCOPE {
        bt_array *x = numbers(1);
        bt_array *both[] = {bt_exp(x), bt_neg(x)}; /* one plan; the first fails */
        bt_error_clear();
        OK(bt_eval_all(both, 2));
        expect(both[1], -1, -2);
        assert_int_equal(bt_error_status(), BT_OK);
        assert_int_not_equal(bt_block(both[0]), BT_OK);
    }
}

static void memory_that_a_device_refuses_is_a_report(void **state) {
    begin("devices=sim:gpu*2@64M,sim_fault=alloc:2+");
    BT_SCOPE {
        bt_array *x = numbers(1), *big = bt_cumsum(bt_broadcast_to(x, 1 << 20, 2), 0, false);
        expect(x, 1, 2);
        assert_int_equal(bt_block(big), BT_RESOURCE_EXHAUSTED);
        assert_non_null(
            strstr(bt_error_text(), "bt_cumsum: out of memory on GPU:0: asked for 8 MiB for float32 (1048576, 2)"));
        assert_non_null(strstr(bt_error_text(), "\n  the device: "));
        assert_non_null(strstr(bt_error_text(), "of alloc on GPU:0"));
        OK(bt_set_flag("sim_fault", ""));
        OK(bt_block(big)); /* it was not the array's fault */
    }
}

static void with_sync_each_operation_runs_at_once(void **state) {
    begin("devices=sim:gpu*2@64M,sync=on,sim_fault=launch:2");
    BT_SCOPE {
        bt_array *x = numbers(1), *good = bt_neg(x);
        assert_int_equal(bt_peek_status(good), BT_OK);
        bt_array *bad = bt_neg(good);
        assert_int_equal(bt_peek_status(bad), BT_INTERNAL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_queue_runs_on_the_waiting_thread),
        cmocka_unit_test(a_kicked_queue_runs_behind),
        cmocka_unit_test(tasks_wait_for_other_queues),
        cmocka_unit_test(work_in_flight_is_settled_in_order),
        cmocka_unit_test(many_may_wait),
        cmocka_unit_test(completion_is_noticed),
        cmocka_unit_test(completion_is_asked_for),
        cmocka_unit_test(points_are_events_of_work_in_flight),
        cmocka_unit_test(who_waits_is_in_nobodys_way),
        cmocka_unit_test(plans_run_on_all_devices_they_name),
        cmocka_unit_test(memory_in_use_by_a_copy_is_not_written),
        cmocka_unit_test(an_error_sticks_and_flows_and_stops_there),
        cmocka_unit_test(an_error_names_the_line_that_enqueued_it),
        cmocka_unit_test(a_copy_that_fails_is_an_error_of_the_array),
        cmocka_unit_test(a_read_that_fails_may_be_tried_again),
        cmocka_unit_test(an_upload_that_fails_poisons),
        cmocka_unit_test(a_device_that_fails_behind_our_back_fails_all_of_the_task),
        cmocka_unit_test(who_runs_the_work_of_others_keeps_its_own_record),
        cmocka_unit_test(memory_that_a_device_refuses_is_a_report),
        cmocka_unit_test(with_sync_each_operation_runs_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}

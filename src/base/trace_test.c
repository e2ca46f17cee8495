// labels: threads valgrind
/* The recorder: nothing while off, everything while on, from many threads, in bounded memory. */
#include "base/trace.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"

static bti_trace_log collect(uint64_t since) {
    bti_trace_log log;
    assert_true(bti_trace_collect(since, &log));
    return log;
}

static void note(const char *name) {
    uint64_t start = bti_trace_begin();
    bti_trace_end(BTI_TRACE_PLAN, name, start);
}

static void test_off_records_nothing(void **state) {
    assert_false(bti_trace_on());
    assert_int_equal(bti_trace_begin(), 0);
    note("before");
    uint64_t early = bti_trace_now();
    bti_trace_memory(0, 100);
    bti_trace_copy(early, bti_trace_now(), 0, 1, 4);
    bti_trace_start();
    bti_trace_end(BTI_TRACE_PLAN, "begun while off", 0);
    bti_trace_log log = collect(0);
    assert_int_equal(log.events.count, 0);
    assert_int_equal(log.dropped, 0);
    bti_trace_log_free(&log);
    bti_trace_stop();
}

static void test_what_is_kept(void **state) {
    bti_trace_start();
    int depth = bti_call_begin("bt_test");
    bti_call_set_place((bti_place){.site = {"folder/main.c", 7}, .name = "bt_test"});
    uint64_t start = bti_trace_begin();
    bti_trace_span(BTI_TRACE_COMPILE, "a name that is longer than the room that there is for it", start, start + 50);
    bti_trace_copy(start + 1, bti_trace_now(), 2, BTI_TRACE_HOST, 4096);
    bti_call_end(depth);
    bti_trace_memory(3, 12345);
    bti_trace_name_device(2, "GPU:1");
    bti_trace_log log = collect(start);
    assert_int_equal(log.events.count, 3);
    const bti_trace_event *event = log.events.items;
    assert_int_equal(event[0].kind, BTI_TRACE_COMPILE);
    assert_int_equal(event[0].end_ns - event[0].start_ns, 50);
    assert_int_equal(strlen(event[0].name), sizeof event[0].name - 1);
    assert_string_equal(event[0].operations[0], "bt_test");
    assert_string_equal(event[0].file, "folder/main.c");
    assert_int_equal(event[0].line, 7);
    assert_int_equal(event[1].kind, BTI_TRACE_COPY);
    assert_int_equal(event[1].device, 2);
    assert_int_equal(event[1].to, BTI_TRACE_HOST);
    assert_int_equal(event[1].written_bytes, 4096);
    assert_int_equal(event[2].kind, BTI_TRACE_MEMORY);
    assert_int_equal(event[2].written_bytes, 12345);
    assert_string_equal(log.devices[2], "GPU:1");
    assert_int_equal(log.threads.count, 1);
    assert_true(log.threads.items[0].main);
    assert_int_equal(event[0].thread, log.threads.items[0].number);
    bti_trace_log_free(&log);
    log = collect(start + 1);
    assert_int_equal(log.events.count, 2);
    bti_trace_log_free(&log);
    bti_trace_stop();
    bti_trace_start();
    log = collect(0);
    assert_int_equal(log.events.count, 0); /* the last stop forgot */
    bti_trace_log_free(&log);
    bti_trace_stop();
}

static void test_recordings_nest(void **state) {
    bti_trace_start();
    note("outer");
    bti_trace_start();
    uint64_t since = bti_trace_now();
    note("inner");
    bti_trace_log log = collect(since);
    assert_int_equal(log.events.count, 1);
    assert_string_equal(log.events.items[0].name, "inner");
    bti_trace_log_free(&log);
    bti_trace_stop();
    assert_true(bti_trace_on());
    log = collect(0);
    assert_int_equal(log.events.count, 2);
    bti_trace_log_free(&log);
    bti_trace_stop();
    assert_false(bti_trace_on());
}

static void test_bounded(void **state) {
    bti_trace_set_most(1000);
    bti_trace_start();
    for (int i = 0; i < 1500; i++) note("one of many");
    bti_trace_log log = collect(0);
    assert_int_equal(log.events.count, 1000);
    assert_int_equal(log.dropped, 500);
    bti_trace_log_free(&log);
    bti_trace_stop();
    bti_trace_set_most(0);
}

static void test_short_memory_drops(void **state) {
    bti_trace_start();
    for (uint64_t nth = 1; nth < 4; nth++) {
        bti_alloc_fail_at(nth, true);
        for (int i = 0; i < 600; i++) note("perhaps");
        bti_trace_log log;
        bool collected = bti_trace_collect(0, &log);
        bti_alloc_fail_at(0, false);
        if (collected) bti_trace_log_free(&log);
    }
    bti_trace_log log = collect(0);
    assert_int_equal(log.events.count + log.dropped, 1800);
    assert_true(log.dropped > 0);
    bti_trace_log_free(&log);
    bti_trace_stop();
}

/* --- threads -------------------------------------------------------------------------------------------------------- */

enum { THREADS = 4, NOTES = 3000 };
static atomic_bool enough;

static void *write_notes(void *device) {
    bti_trace_serve((int)(intptr_t)device);
    for (int i = 0; i < NOTES; i++) note("from a thread");
    return NULL;
}

static void *collect_again_and_again(void *unused) {
    while (!atomic_load(&enough)) {
        bti_trace_log log;
        if (!bti_trace_collect(0, &log)) return "out of memory";
        for (size_t i = 1; i < log.events.count; i++)
            if (log.events.items[i - 1].start_ns > log.events.items[i].start_ns) return "not in order";
        bti_trace_log_free(&log);
    }
    return NULL;
}

static void test_many_threads(void **state) {
    pthread_t threads[THREADS], collector;
    bti_trace_start();
    atomic_store(&enough, false);
    pthread_create(&collector, NULL, collect_again_and_again, NULL);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, write_notes, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    atomic_store(&enough, true);
    void *failure;
    pthread_join(collector, &failure);
    assert_null(failure);
    bti_trace_log log = collect(0);
    assert_int_equal(log.events.count, THREADS * NOTES);
    int served = 0;
    for (size_t i = 0; i < log.threads.count; i++) {
        int serves = log.threads.items[i].serves;
        if (serves >= 0) served |= 1 << serves;
    }
    assert_int_equal(served, (1 << THREADS) - 1);
    bti_trace_log_free(&log);
    bti_trace_stop();
}

static void *start_and_stop(void *unused) {
    for (int i = 0; i < 200; i++) {
        bti_trace_start();
        note("mine");
        bti_trace_log log;
        if (!bti_trace_collect(0, &log)) return "out of memory";
        bool there = log.events.count > 0;
        bti_trace_log_free(&log);
        bti_trace_stop();
        if (!there) return "lost";
    }
    return NULL;
}

static void test_starts_and_stops_at_once(void **state) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, start_and_stop, NULL);
    for (int i = 0; i < THREADS; i++) {
        void *failure;
        pthread_join(threads[i], &failure);
        assert_null(failure);
    }
    assert_false(bti_trace_on());
}

/* --- the file of the flag, and forks -------------------------------------------------------------------------------- */

static char written_to[64];
static size_t written_events;
static bt_status keep(const bti_trace_log *log, const char *path) {
    snprintf(written_to, sizeof written_to, "%s", path);
    written_events = log->events.count;
    return BT_OK;
}

static void test_file(void **state) {
    bti_trace_record_into(BTI_TRACE_FILE, "one", keep);
    note("first");
    bti_trace_record_into(BTI_TRACE_FILE, "one", keep);
    assert_string_equal(written_to, "");
    bti_trace_record_into(BTI_TRACE_FILE, "two", keep);
    assert_string_equal(written_to, "one");
    assert_int_equal(written_events, 1);
    bti_trace_record_into(BTI_TRACE_FILE, "", keep);
    assert_string_equal(written_to, "two");
    assert_int_equal(written_events, 0);
    assert_false(bti_trace_on());
}

static void test_a_child_records_nothing(void **state) {
    bti_trace_start();
    note("of the parent");
    pid_t child = fork();
    if (child == 0) {
        note("of the child");
        bti_trace_log log;
        bool good = !bti_trace_on() && bti_trace_collect(0, &log) && log.events.count == 0;
        bti_trace_start();
        good = good && !bti_trace_on();
        bti_trace_stop();
        bti_trace_record_into(BTI_TRACE_FILE, "child", keep);
        _exit(good && !bti_trace_on() ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    bti_trace_log log = collect(0);
    assert_int_equal(log.events.count, 1);
    bti_trace_log_free(&log);
    bti_trace_stop();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off_records_nothing),      cmocka_unit_test(test_what_is_kept),
        cmocka_unit_test(test_recordings_nest),          cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_short_memory_drops),       cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_starts_and_stops_at_once), cmocka_unit_test(test_file),
        cmocka_unit_test(test_a_child_records_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

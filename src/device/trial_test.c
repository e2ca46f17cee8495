/* Drivers whose libraries hang, crash, end the process or behave, tried in a child; and what is remembered of it. */
#include "device/test_support.h"

#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "device/trial.h"
#include "device/verdict.h"
#include "cache/folder.h"

static int probes; /* in this process */

static bt_status behave(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason) {
    (void)kinds, (void)facts, (void)capacity, (void)reason;
    probes++;
    *count = 0;
    return BT_OK;
}
static bt_status hang(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason) {
    (void)kinds, (void)facts, (void)capacity, (void)count, (void)reason;
    fprintf(stderr, "waiting for the card\n");
    while (count) pause();
    return BT_OK;
}
static bt_status crash(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason) {
    (void)kinds, (void)facts, (void)capacity, (void)count, (void)reason;
    raise(SIGKILL); /* as a SIGSEGV, but for sanitizers, which catch those */
    return BT_OK;
}
static bt_status quit(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason) {
    (void)kinds, (void)facts, (void)capacity, (void)count, (void)reason;
    printf("no licence\n");
    fflush(stdout);
    exit(3);
}

static char folder[64], mark[80];
static bool told; /* by a handler of the program's own, which a copy of it must not run */
static void at_exit(void) {
    if (told) unlink(mark);
}

static void begin_trials(const char *flags) {
    char all[200];
    snprintf(all, sizeof all, "cache=%s,%s", folder, flags);
    begin(all, NULL);
}

static void expect_trial(const bti_driver *driver, bool good, const char *words) {
    bti_str reason = {0};
    bti_str unready = {0};
    assert_int_equal(bti_trial(driver, BTI_KIND(BT_GPU), &reason, &unready), good);
    bti_str_free(&unready);
    if (!strstr(bti_str_text(&reason), words)) fail_msg("\"%s\" does not say \"%s\"", bti_str_text(&reason), words);
    bti_str_free(&reason);
}

static void a_hanging_library_costs_a_wait(void **state) {
    (void)state;
    const bti_driver driver = {.name = "hanging", .probe = hang, .third_party = true};
    begin_trials("probe_seconds=2");
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    expect_trial(&driver, false, "gave no answer in 2 seconds (flag probe_seconds); it said: waiting for the card");
    begin_trials("probe_seconds=100"); /* what was found is remembered: no wait */
    expect_trial(&driver, false, "(an earlier result; `berth doctor` tries again)");
    clock_gettime(CLOCK_MONOTONIC, &to);
    assert_true(to.tv_sec - from.tv_sec < 50);
    begin_trials("probe=child,probe_seconds=0.2");
    expect_trial(&driver, false, "gave no answer in 0.2 seconds");
}

static void a_crash_and_an_exit_are_told(void **state) {
    (void)state;
    const bti_driver crashing = {.name = "crashing", .probe = crash, .third_party = true};
    const bti_driver quitting = {.name = "quitting", .probe = quit, .third_party = true};
    begin_trials("probe=auto");
    told = true;
    FILE *file = fopen(mark, "w");
    assert_non_null(file);
    fclose(file);
    expect_trial(&crashing, false, "crashing: its library, tried in a process of its own, crashed (Killed)");
    expect_trial(&quitting, false, "ended the process with status 3; it said: no licence");
    assert_int_equal(access(mark, F_OK), 0);
    told = false;
    unlink(mark);
}

static void what_behaves_is_tried_once(void **state) {
    (void)state;
    const bti_driver driver = {.name = "good", .probe = behave, .third_party = true};
    char path[100];
    begin_trials("probe=auto");
    expect_trial(&driver, true, "");
    assert_int_equal(probes, 0); /* the child's counter is another */
    snprintf(path, sizeof path, "%s/probe-good-%u", folder, BTI_KIND(BT_GPU));
    assert_int_equal(access(path, F_OK), 0);
    bti_str reason = {0};
    assert_int_equal(bti_verdict_find("good", BTI_KIND(BT_GPU), &reason), BTI_GOOD);
    setenv("CUDA_TRIAL_TEST", "1", 1); /* another environment: another verdict */
    assert_int_equal(bti_verdict_find("good", BTI_KIND(BT_GPU), &reason), BTI_NO_VERDICT);
    unsetenv("CUDA_TRIAL_TEST");
    FILE *file = fopen(path, "a"); /* a library that is not the same any more */
    fprintf(file, "1 1 /bin/sh\n");
    fclose(file);
    assert_int_equal(bti_verdict_find("good", BTI_KIND(BT_GPU), &reason), BTI_NO_VERDICT);
    bti_str_free(&reason);
    unlink(path);
    begin_trials("probe=direct");
    const bti_driver hanging = {.name = "hanging", .probe = hang, .third_party = true};
    expect_trial(&hanging, true, "");
}

/* --- opened ------------------------------------------------------------------------------------------------------ */

static bt_status three(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason) {
    (void)kinds, (void)capacity, (void)reason;
    for (int i = 0; i < 3; i++) facts[i] = (bti_device_facts){.kind = BT_GPU, .ordinal = 10 + i};
    *count = 3;
    return BT_OK;
}
static const char *third; /* how the third one behaves */
static bt_status open_one(int ordinal, const bti_allocator *allocator, void **device) {
    void *block;
    uint64_t address;
    static int opened;
    opened = ordinal;
    *device = &opened;
    assert_int_equal(allocator->alloc(0, 64, &address, &block), BT_RESOURCE_EXHAUSTED);
    if (ordinal == 11) return bti_fail(BT_UNAVAILABLE, "held by another process");
    while (ordinal == 12 && !strcmp(third, "hang")) pause();
    if (ordinal == 12 && !strcmp(third, "crash")) raise(SIGKILL);
    return BT_OK;
}
static void close_one(void *device) { (void)device; }
static bt_status memory_of(void *device, size_t *free_bytes, size_t *total_bytes) {
    (void)device;
    *free_bytes = (size_t)3 << 20;
    *total_bytes = (size_t)5 << 20;
    return BT_OK;
}
static void describe(void *device, bti_str *text) { bti_str_addf(text, "library 7 of %d\nanother\n", *(int *)device); }

static void expect_told(const bti_str *records, int ordinal, const char *lines) {
    char *text = bti_trial_details(records, ordinal);
    if (!lines)
        assert_null(text);
    else
        assert_string_equal(text, lines);
    bti_free(text);
}

static void devices_are_opened_in_a_child(void **state) {
    (void)state;
    const bti_driver driver = {.name = "three",
                               .probe = three,
                               .open = open_one,
                               .close = close_one,
                               .memory = memory_of,
                               .describe = describe,
                               .third_party = true};
    static const char *const thirds[] = {"well", "hang", "crash"};
    static const char *const ends[] = {"", "gave no answer in 3 seconds", "crashed (Killed)"};
    for (int i = 0; i < 3; i++) {
        bti_str lines = {0}, reason = {0};
        third = thirds[i];
        begin_trials("probe=open,probe_seconds=3"); /* on a busy machine too */
        bti_trial_open(&driver, BTI_KIND(BT_GPU), &lines, &reason);
        expect_told(&lines, 10, "opened: 3 of 5 MiB of memory are free\nlibrary 7 of 10\nanother\n");
        expect_told(&lines, 11, "cannot be opened: held by another process\n");
        expect_told(&lines, 12, i ? NULL : "opened: 3 of 5 MiB of memory are free\nlibrary 7 of 12\nanother\n");
        expect_told(&lines, 13, NULL);
        assert_int_equal(reason.length > 0, i > 0);
        assert_non_null(strstr(bti_str_text(&reason), ends[i]));
        bti_str_free(&lines);
        bti_str_free(&reason);
    }
    bti_str lines = {0}, reason = {0};
    begin_trials("probe=child");
    bti_trial_open(&driver, BTI_KIND(BT_GPU), &lines, &reason);
    assert_int_equal(lines.length + reason.length, 0);
}

static int make_folder(void **state) {
    (void)state;
    atexit(at_exit);
    snprintf(folder, sizeof folder, "/tmp/berth-trial-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(mark, sizeof mark, "%s/mark", folder);
    return 0;
}
static int remove_folder(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, end)
    const struct CMUnitTest tests[] = {
        TEST(a_hanging_library_costs_a_wait),
        TEST(a_crash_and_an_exit_are_told),
        TEST(what_behaves_is_tried_once),
        TEST(devices_are_opened_in_a_child),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

// timeout: 300
/* Memory on each kind of device while the nth allocation of the host fails, from opening on: never a crash, a hang or a leak,
 * of the device's memory neither; what stood there before stays as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <berth/ops.h>
#include <berth/view.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/test_depth.h"
#include "device/pool.h"
#include "device/table.h"
#include "exec/exec.h"

#define ALL_UP_TO 120 /* allocations that are all made to fail; of the rest some */
#define SAMPLES 30
#define SAMPLES_SLOW 12 /* where opening the device takes long */

typedef struct kind {
    const char *label, *devices, *name;
    bool is_slow;
} kind;
static const kind kinds[] = {
    {"cpu", "", "cpu", false}, {"sim", "sim:gpu*1@64M", "gpu:0", false}, {"opencl", "", "opencl0:0", true}};

static char note[100];

static void ignore_line(const char *line, void *data) { (void)line, (void)data; }

/* Everything as in a new process; the limit lets 3 MiB in and no more. */
static void start_afresh(const kind *of) {
    char flags[200];
    if (bt_shutdown() != BT_OK) fail_msg("after %s: %s", note, bt_error_text());
    snprintf(flags, sizeof flags, "devices=%s,default_device=%s,memory_limit=4M,memory_preallocate=1M", of->devices,
             of->name);
    setenv("BERTH_FLAGS", flags, 1);
    bti_flags_reset();
    bt_error_clear();
    bt_set_log_sink(ignore_line, NULL);
}

static bt_device *first_of(const kind *of) {
    bt_device *device;
    if (bt_device_find(of->name, &device) != BT_OK) fail_msg("%s: %s", note, bt_error_text());
    return device;
}

/* BT_OK says that everything came out right; what cannot fit must not. */
static bt_status work(void) {
    BT_SCOPE {
        float sum;
        bt_array *x = bt_add(bt_full(2, BT_F32, 1 << 18), bt_num(1));
        BTI_TRY(bt_eval(x));
        BTI_TRY(bt_read(bt_sum(x, BT_ALL, false), &sum, sizeof sum));
        if (sum != 3 << 18) fail_msg("%s: the sum is %g", note, (double)sum);
        bt_memory_trim(bt_device_of(x));
        bt_status status = bt_eval(bt_add(bt_full(2, BT_F32, 4, 1 << 18), bt_num(1)));
        if (status != BT_RESOURCE_EXHAUSTED) fail_msg("%s: 4 MiB more: %s", note, bt_status_name(status));
        BTI_TRY(bt_eval(bt_mul(x, x)));
    }
    return BT_OK;
}

static void check_status(bt_status status) {
    if (status == BT_OK) return;
    if (status != BT_RESOURCE_EXHAUSTED || !*bt_error_text())
        fail_msg("%s: %s: %s", note, bt_status_name(status), bt_error_text());
}

static void check_books(const kind *of, size_t used) {
    bt_memory_info info = BT_MEMORY_INFO_INIT;
    bt_device *device = first_of(of);
    bt_synchronize();
    bt_memory_trim(device);
    if (bt_memory(device, &info) != BT_OK) fail_msg("%s: %s", note, bt_error_text());
    if (info.used != used || info.scratch)
        fail_msg("%s: %zu bytes in use, %zu of them scratch, before %zu", note, info.used, info.scratch, used);
    if (info.used + info.cached > 4 << 20) fail_msg("%s: past the limit", note);
    const char *wrong = device->pool ? bti_pool_verify(device->pool) : NULL;
    if (wrong) fail_msg("%s: %s", note, wrong);
}

static void one_fails(const kind *of, uint64_t n, bool and_after) {
    snprintf(note, sizeof note, "%s, %s %llu", of->label, and_after ? "no allocation from" : "allocation",
             (unsigned long long)n);
    start_afresh(of);
    bti_alloc_fail_at(n, and_after); /* opening the device may fail too */
    bt_status status = work();
    bti_alloc_fail_at(0, false);
    check_status(status);
    start_afresh(of); /* as settings that could not be read stay unread */
    BT_SCOPE {
        float values[2];
        bt_array *stands = bt_add(BT_ARRAY(float, (2), 5, 6), bt_num(0));
        assert_int_equal(bt_eval(stands), BT_OK);
        bt_synchronize();
        bt_memory_trim(first_of(of));
        bt_memory_info before = BT_MEMORY_INFO_INIT;
        assert_int_equal(bt_memory(first_of(of), &before), BT_OK);
        bti_alloc_fail_at(n, and_after);
        status = work();
        bti_alloc_fail_at(0, false);
        check_status(status);
        check_books(of, before.used);
        if (work() != BT_OK) fail_msg("%s, then again: %s", note, bt_error_text());
        assert_int_equal(bt_read(stands, values, sizeof values), BT_OK);
        assert_true(values[0] == 5 && values[1] == 6);
    }
}

static void the_nth_allocation_fails(void **state) {
    const kind *of = *state;
    start_afresh(of);
    if (bt_device_find(of->name, &(bt_device *){NULL}) != BT_OK) {
        print_message("%s: skipped: %s\n", of->label, bt_error_text());
        skip();
    }
    bti_alloc_fail_at(0, false);
    if (work() != BT_OK) fail_msg("%s: %s", of->label, bt_error_text());
    bool few = of->is_slow && !test_is_long();
    uint64_t count = bti_alloc_count(), all = few ? 0 : ALL_UP_TO, samples = few ? SAMPLES_SLOW : SAMPLES;
    if (test_is_short()) all = 0, samples = few ? 3 : SAMPLES_SLOW;
    uint64_t step = 1 + (count > all ? (count - all) / samples : 0);
    for (uint64_t n = 1; n <= count + 1; n += n < all ? 1 : step) one_fails(of, n, false);
    for (uint64_t n = 1; n <= count; n += 1 + count / samples) one_fails(of, n, true);
}

static int end(void **state) {
    (void)state;
    int failed = bt_shutdown() != BT_OK;
    bt_set_log_sink(NULL, NULL);
    unsetenv("BERTH_FLAGS");
    bti_flags_reset();
    return failed;
}

int main(void) {
    struct CMUnitTest tests[sizeof kinds / sizeof *kinds];
    int count = 0;
    const char *told = getenv("BERTH_TEST_DEVICES");
    setenv("POCL_DEVICES", "pthread pthread", 0);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (!told || !*told || strstr(told, kinds[k].label))
            tests[count++] =
                (struct CMUnitTest){kinds[k].label, the_nth_allocation_fails, NULL, NULL, (void *)(uintptr_t)&kinds[k]};
    return _cmocka_run_group_tests("faults_memory", tests, (size_t)count, NULL, end);
}

// labels: slow-asan
/* Copies into the host's memory beside what a device of OpenCL's does: after what makes their bytes, and before what comes later. */
#include <berth.h>

#include "support/opencl_product.h"
#include "support/settings.h"

static bti_cl_device *device;

enum { SMALL = 4096, LARGE = 64 << 20, FILLS = 40 };

static bool is_complete(bti_event event) {
    bool done;
    OK(bti_driver_opencl.query(device, event, &done));
    return done;
}

/* The copy is complete while the device still works on what was launched behind it, and has not been begun before what was launched in front. */
static void launches_go_on(void **state) {
    (void)state;
    uint64_t small, large;
    unsigned char got[SMALL];
    bti_event made, last;
    bti_work_end end;
    OK(bti_cl_alloc(device, SMALL, &small));
    OK(bti_cl_alloc(device, LARGE, &large));
    for (int round = 1; round <= 3; round++) {
        memset(got, 0, sizeof got);
        for (int i = 0; i < 3; i++) OK(bti_cl_fill(device, large, i, LARGE));
        OK(bti_cl_fill(device, small, round, SMALL));
        OK(bti_driver_opencl.record(device, &made));
        OK(bti_driver_opencl.fetch(device, got, small, made, SMALL, &end));
        for (int i = 0; i < FILLS; i++) OK(bti_cl_fill(device, large, i, LARGE));
        OK(bti_driver_opencl.record(device, &last));
        OK(bti_driver_opencl.wait(device, end.event));
        for (int i = 0; i < SMALL; i++) assert_int_equal(got[i], round);
        assert_false(is_complete(last));
        OK(bti_driver_opencl.wait(device, last));
    }
    bti_cl_free(device, large, LARGE);
    bti_cl_free(device, small, SMALL);
}

/* The host's kernels read what has arrived, though the device is slow to make it; and what was copied may be forgotten at once. */
static void the_host_reads_what_has_arrived(void **state) {
    (void)state;
    enum { PARTS = 6, LENGTH = 1 << 18 };
    begin("default_device=acc:0");
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, LENGTH), *parts[PARTS], *here = x;
        for (int i = 0; i < PARTS; i++) {
            for (int k = 0; k < 5; k++) here = bt_flip(bt_add(here, bt_num(1)), BT_AXES(0));
            parts[i] = bt_mul(bt_to(here, "cpu"), bt_num(2));
        }
        bt_function *f = bt_function_new(&x, 1, parts, PARTS, NULL, 0);
        float *values = malloc(LENGTH * sizeof *values);
        for (int call = 0; call < 3; call++)
            BT_SCOPE {
                bt_array *given = bt_full(call, BT_F32, LENGTH), *got[PARTS];
                OK(bt_call(f, &given, 1, got, PARTS));
                for (int i = 0; i < PARTS; i++) {
                    OK(bt_read(got[i], values, LENGTH * sizeof *values));
                    for (int k = 0; k < LENGTH; k++) assert_true(values[k] == (float)(2 * (call + 5 * (i + 1))));
                }
            }
        free(values);
        bt_function_release(f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(launches_go_on),
                                       cmocka_unit_test(the_host_reads_what_has_arrived)};
    device = open_first();
    if (!device) return 77;
    int rc = cmocka_run_group_tests(tests, NULL, end);
    bti_driver_opencl.close(device);
    return rc;
}

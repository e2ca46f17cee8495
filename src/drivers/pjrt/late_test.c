// timeout: 300
/* Errors that a real plugin reports late. The shim of tests/pjrt, whose path is the environment's BERTH_PJRT_PLUGIN, makes an upload end with an error after it was accepted; what comes of
 * the runs that read it is XLA's. */
#include <dlfcn.h>

#include "support/pjrt.h"

static bti_pjrt_device *devices[BTI_PJRT_DEVICES];
static int device_count;
static void (*fail_upload)(int code);

static const char add_text[] = "func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {\n"
                               "  %0 = stablehlo.add %a, %b : tensor<4xf32>\n"
                               "  return %0 : tensor<4xf32>\n"
                               "}\n";
static const char add_in_place_text[] =
    "func.func @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<4xf32>) -> tensor<4xf32> {\n"
    "  %0 = stablehlo.add %a, %b : tensor<4xf32>\n"
    "  return %0 : tensor<4xf32>\n"
    "}\n";
static const char cause[] = "the shim was told to fail this upload";

/* Its status, or that of the event after it. */
static bt_status launch_and_wait(bti_pjrt_device *device, void *program, const uint64_t *addresses) {
    bti_event event;
    bt_status status = pjrt->launch_segment(device, program, addresses, NULL);
    if (status == BT_OK) status = pjrt->record(device, &event);
    return status == BT_OK ? pjrt->wait(device, event) : status;
}

static void load_sum(bti_pjrt_device *device, const char *text, void **program) {
    const bti_type types[] = {FLOATS(4), FLOATS(4), FLOATS(4)};
    OK(load_segment(device, text, 2, 1, types, text == add_in_place_text ? (int[]){0, -1} : NULL, program));
}

/* A transfer begins with the first segment that reads the bytes. */
static void a_run_reads_a_failed_upload(void **state) {
    (void)state;
    const float a[] = {1, 2, 3, 4}, sum[] = {2, 4, 6, 8};
    float got[4];
    void *program;
    bti_pjrt_device *device = devices[0];
    load_sum(device, add_text, &program);
    uint64_t x = new_array(device, a, sizeof a), y = new_array(device, a, sizeof a), z = new_memory(device, sizeof a);
    fail_upload(BT_DATA_LOSS);
    FAILS(launch_and_wait(device, program, (uint64_t[]){x, x, z}), BT_INTERNAL, cause);
    FAILS(launch_and_wait(device, program, (uint64_t[]){x, y, z}), BT_INTERNAL, cause);
    FAILS(pjrt->download(device, got, x, sizeof got), BT_DATA_LOSS, cause); /* its own code; runs have one of XLA's */
    OK(launch_and_wait(device, program, (uint64_t[]){y, y, z}));            /* what did not read it goes on */
    expect_floats(device, z, sum, 4);
    OK(pjrt->upload(device, x, a, sizeof a));
    OK(launch_and_wait(device, program, (uint64_t[]){x, y, z}));
    expect_floats(device, z, sum, 4);
    pjrt->free(device, x, sizeof a);
    pjrt->free(device, y, sizeof a);
    pjrt->free(device, z, sizeof a);
    pjrt->program_free(device, NULL, program);
}

/* Runs that read the results of a failed one fail with its cause, behind XLA's words for each of them; so do copies to other devices. */
static void errors_go_on_with_results(void **state) {
    (void)state;
    enum { LENGTH = 200 };
    const float a[] = {1, 2, 3, 4}, sum[] = {2, 4, 6, 8};
    float got[4];
    void *program;
    bti_pjrt_device *device = devices[0], *other = devices[device_count - 1];
    load_sum(device, add_in_place_text, &program);
    uint64_t x = new_array(device, a, sizeof a), y = new_array(device, a, sizeof a),
             there = new_memory(other, sizeof a);
    fail_upload(BT_DATA_LOSS);
    for (int i = 0; i < LENGTH; i++) FAILS(launch_and_wait(device, program, (uint64_t[]){x, y, x}), BT_INTERNAL, cause);
    FAILS(pjrt->download(device, got, x, sizeof got), BT_INTERNAL, cause);
    bt_status status = pjrt->peer_copy(other, there, device, x, sizeof a);
    if (status == BT_OK) status = pjrt->download(other, got, there, sizeof got);
    FAILS(status, BT_INTERNAL, cause);
    OK(pjrt->upload(device, x, a, sizeof a));
    OK(launch_and_wait(device, program, (uint64_t[]){x, y, x}));
    expect_floats(device, x, sum, 4);
    pjrt->free(device, x, sizeof a);
    pjrt->free(device, y, sizeof a);
    pjrt->free(other, there, sizeof a);
    pjrt->program_free(device, NULL, program);
}

/* UNAVAILABLE is the device's end and that of no other. */
static void an_unavailable_device_is_lost(void **state) {
    (void)state;
    const float a[] = {1, 2, 3, 4}, sum[] = {2, 4, 6, 8};
    float got[4];
    void *program;
    bti_pjrt_device *device = devices[device_count - 1];
    load_sum(device, add_text, &program);
    uint64_t x = new_array(device, a, sizeof a), z = new_memory(device, sizeof a);
    fail_upload(BT_UNAVAILABLE);
    FAILS(launch_and_wait(device, program, (uint64_t[]){x, x, z}), BT_INTERNAL, cause);
    FAILS(pjrt->download(device, got, x, sizeof got), BT_UNAVAILABLE, cause);
    FAILS(launch_and_wait(device, program, (uint64_t[]){x, x, z}), BT_UNAVAILABLE, "is lost since an earlier failure");
    pjrt->free(device, x, sizeof a);
    pjrt->free(device, z, sizeof a);
    if (device_count > 1) {
        x = new_array(devices[0], a, sizeof a), z = new_memory(devices[0], sizeof a);
        OK(launch_and_wait(devices[0], program, (uint64_t[]){x, x, z}));
        expect_floats(devices[0], z, sum, 4);
        pjrt->free(devices[0], x, sizeof a);
        pjrt->free(devices[0], z, sizeof a);
    }
    pjrt->program_free(device, NULL, program);
}

int main(void) {
    const char *path = getenv("BERTH_PJRT_PLUGIN");
    static probed found;
    char flag[BTI_PJRT_PATH];
    void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    *(void **)&fail_upload = library ? dlsym(library, "berth_shim_fail_upload") : NULL;
    if (!fail_upload) {
        printf("skipped: the environment's BERTH_PJRT_PLUGIN does not name the shim of tests/pjrt\n");
        return 77;
    }
    snprintf(flag, sizeof flag, "acc:%s", path);
    set_plugins(flag);
    device_count = probe_devices(&found);
    if (!device_count) return printf("%s", bti_str_text(&found.reason)), 1;
    bti_str_free(&found.reason);
    for (int d = 0; d < device_count; d++) devices[d] = open_device(found.facts[d].ordinal);
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_run_reads_a_failed_upload),
                                       cmocka_unit_test(errors_go_on_with_results),
                                       cmocka_unit_test(an_unavailable_device_is_lost)};
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    for (int d = 0; d < device_count; d++) pjrt->close(devices[d]);
    return rc;
}

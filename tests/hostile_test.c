// timeout: 120
/* Drivers' libraries that hang, crash, abort or exit when they are opened: what a program that asks for the device is told, and
 * `berth doctor`; both live on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>

#include "command.h"

#define FAKES BERTH_BUILD_DIR "/fakes/hostile"

/* Runs COMMAND with that library in the place of libcuda.so.1 or libOpenCL.so.1; its exit code. */
static int run(const char *how, const char *command, const char *arguments) {
    return run_line("BERTH_FAKE_HOSTILE=%s OCL_ICD_VENDORS=" FAKES " LD_LIBRARY_PATH=" FAKES
                    " BERTH_FLAGS=cache=off,probe_seconds=1,cuda_path=" FAKES " timeout 60 %s %s 2>&1",
                    how, command, arguments);
}

static const struct {
    const char *how, *end;
} manners[] = {{"hang", "gave no answer in 1 seconds (flag probe_seconds); it said: about to hang"},
               {"crash", "crashed (Segmentation fault); it said: about to crash"},
               {"abort", "crashed (Aborted); it said: about to abort"},
               {"exit", "ended the process with status 3; it said: about to exit"}};
enum { MANNERS = sizeof manners / sizeof *manners };

static char own[400];

static void expect(const char *driver, const char *end) {
    char text[300];
    snprintf(text, sizeof text, "%s: its library, tried in a process of its own, %s", driver, end);
    assert_says(text);
}

static void a_program_gets_the_reason(void **state) {
    (void)state;
    for (int i = 0; i < MANNERS; i++) {
        assert_int_equal(run(manners[i].how, own, "gpu:0"), 0);
        assert_says("NOT_FOUND: hostile_test.c:");
        assert_says("no device \"gpu:0\": cuda: its library, tried in a process of its own, ");
        expect("cuda", manners[i].end);
        assert_says("device:GPU:0 unknown device. cuda: its library, tried in a process of its own, ");
        assert_says("the CPU works: 3");
        assert_int_equal(run(manners[i].how, own, "acc:0"), 0);
        assert_says("no device \"acc:0\": opencl: its library, tried in a process of its own, ");
        expect("opencl", manners[i].end);
        assert_says("unknown device. opencl: its library, tried in a process of its own, ");
        assert_says("the CPU works: 3");
        assert_int_equal(run(manners[i].how, own, "opencl0:0"), 0);
        assert_says("no OpenCL device \"opencl0:0\": opencl: its library, tried in a process of its own, ");
    }
}

static void doctor_tells(void **state) {
    (void)state;
    for (int i = 0; i < MANNERS; i++) {
        assert_int_equal(run(manners[i].how, BERTH_BUILD_DIR "/berth", "doctor"), 0);
        expect("cuda", manners[i].end);
        expect("opencl", manners[i].end);
        assert_int_equal(run(manners[i].how, BERTH_BUILD_DIR "/berth", "doctor --json"), 0);
        expect("cuda", manners[i].end);
        expect("opencl", manners[i].end);
    }
}

/* A program that asks for the device, finds out why it is not there, and goes on. */
static int ask(const char *name) {
    bt_device *device;
    char *reason = NULL;
    bt_status status = bt_device_find(name, &device);
    printf("%s: %s\n", bt_status_name(status), bt_error_text());
    bt_error_clear();
    BT_SCOPE {
        BT_ON(name) printf("placed: %g\n", bt_item(bt_f32(1)));
    }
    printf("%s\n", bt_error_text());
    bt_error_clear();
    bt_functional(strstr(name, "gpu") ? BT_GPU : BT_ACC, &reason);
    printf("%s\n", reason);
    bt_free(reason);
    BT_SCOPE
        printf("the CPU works: %g\n", bt_item(bt_add(bt_f32(1), bt_f32(2))));
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_gets_the_reason),
        cmocka_unit_test(doctor_tells),
    };
    if (argc > 1) return ask(argv[1]);
    snprintf(own, sizeof own, "%s", argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

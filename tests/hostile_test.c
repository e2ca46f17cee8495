// timeout: 120
/* Drivers' libraries that hang, crash, abort or exit when they are opened: what a program that asks for the device is told, and
 * `berth doctor`; both live on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <berth.h>

#include "command.h"

#define FAKES BERTH_BUILD_DIR "/fakes/hostile"
#define ALL BERTH_BUILD_DIR "/fakes"
#define BARE BERTH_BUILD_DIR "/fakes/without_nvrtc"
#define MACHINE BERTH_BUILD_DIR "/fakes/broken_machine.json"
#define CARD "\"name\": \"NVIDIA A\", \"memory\": 67108864, \"capability\": [8, 0]"

/* Runs COMMAND with that library in the place of libcuda.so.1 or libOpenCL.so.1; its exit code. */
static int run(const char *how, const char *command, const char *arguments) {
    return run_line("BERTH_FAKE_HOSTILE=%s OCL_ICD_VENDORS=" FAKES " LD_LIBRARY_PATH=" FAKES
                    " BERTH_FLAGS=cache=off,probe_seconds=1,cuda_path=" FAKES " timeout 60 %s %s 2>&1",
                    how, command, arguments);
}

static char own[400];

static const struct {
    const char *how, *end;
} manners[] = {{"hang", "gave no answer in 1 seconds (flag probe_seconds); it said: about to hang"},
               {"crash", "crashed (Segmentation fault); it said: about to crash"},
               {"abort", "crashed (Aborted); it said: about to abort"},
               {"exit", "ended the process with status 3; it said: about to exit"}};
enum { MANNERS = sizeof manners / sizeof *manners };

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

/* The libraries of tests/fakes in that folder, on such a machine. */
static int run_machine(const char *machine, const char *folder, const char *flags) {
    FILE *file = fopen(MACHINE, "w");
    assert_non_null(file);
    fputs(machine, file);
    fclose(file);
    int code = run_line("BERTH_FAKE_MACHINE=" MACHINE " OCL_ICD_VENDORS=/nonexistent LD_LIBRARY_PATH=%s"
                        " BERTH_FLAGS=cache=off,cuda_path=%s%s timeout 60 %s default 2>&1",
                        folder, folder, flags, own);
    unlink(MACHINE);
    return code;
}

/* A driver of NVIDIA's that is there and cannot be used is told of once, and the default device is the CPU. */
static void the_default_falls_back_in_words(void **state) {
    (void)state;
    static const char notice[] = "An NVIDIA GPU may be present on this machine, but it cannot be used: ",
                      end[] = ". Falling back to cpu. (`berth doctor` tells more";
    for (int i = 0; i < MANNERS; i++) {
        assert_int_equal(run(manners[i].how, own, "default"), 0);
        assert_int_equal(count_said(notice), 1);
        assert_says(manners[i].end);
        assert_says(end);
        assert_says("default: CPU:0");
    }
    static const struct {
        const char *machine, *cause;
    } broken[] = {
        {"{\"devices\": [{" CARD "}], \"fail\": {\"cuInit\": [1, 999]}}", "cuInit: CUDA_ERROR_UNKNOWN (999)"},
        {"{\"devices\": [{" CARD "}], \"fail\": {\"cuInit\": [1, 803]}}", "cuInit: CUDA_ERROR"},
        {"{\"cuda\": 11040, \"devices\": [{" CARD "}]}", "the driver is too old: it is of CUDA 11.4"},
        {"{\"devices\": [{" CARD "}], \"fail\": {\"nvmlInit_v2\": [1, 18], \"cuInit\": [1, 803]}}",
         "the kernel driver and its libraries are of different versions"},
        {"{\"devices\": [{" CARD "}], \"fail\": {\"nvmlInit_v2\": [1, 4], \"cuInit\": [1, 100]}}",
         "may this user open /dev/nvidiactl"},
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        assert_int_equal(run_machine(broken[i].machine, ALL, ""), 0);
        assert_int_equal(count_said(notice), 1);
        assert_says(broken[i].cause);
        assert_says(end);
        assert_says("default: CPU:0");
        assert_int_equal(run_machine(broken[i].machine, ALL, ",gpu_notice=off"), 0);
        assert_int_equal(count_said(notice), 0);
        assert_says("default: CPU:0");
        assert_int_equal(run_machine(broken[i].machine, ALL, ",default_device=cpu"), 0);
        assert_int_equal(count_said(notice), 0);
    }
    (void)!mkdir(BARE, 0700);
    (void)!symlink(ALL "/libcuda.so.1", BARE "/libcuda.so.1");
    (void)!symlink(ALL "/libnvidia-ml.so.1", BARE "/libnvidia-ml.so.1");
    assert_int_equal(run_machine("{\"devices\": [{" CARD "}]}", BARE, ""), 0);
    assert_int_equal(count_said(notice), 1);
    assert_says("NVRTC is not available");
    assert_says("default: CPU:0");
    /* nothing is broken there */
    assert_int_equal(run_machine("{\"devices\": []}", ALL, ""), 0);
    assert_int_equal(count_said(notice), 0);
    assert_int_equal(run_machine(broken[0].machine, ALL, ",devices=sim:gpu*1"), 0);
    assert_int_equal(count_said(notice), 0);
    assert_says("default: GPU:0");
    assert_int_equal(run_machine("{\"devices\": [{" CARD "}]}", ALL, ""), 0);
    assert_int_equal(count_said(notice), 0);
    assert_says("default: GPU:0");
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

/* What a program sees that names no device, and uses the default again and again. */
static int use_default(void) {
    printf("default: %s\n", bt_device_name(bt_default_device()));
    if (bt_device_kind(bt_default_device()) != BT_CPU) return 0;
    for (int i = 0; i < 3; i++)
        BT_SCOPE
            printf("%g\n", bt_item(bt_add(bt_f32(1), bt_f32(2))));
    if (bt_shutdown() != BT_OK) return 1;
    printf("%s\n", bt_device_name(bt_default_device()));
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_gets_the_reason),
        cmocka_unit_test(doctor_tells),
        cmocka_unit_test(the_default_falls_back_in_words),
    };
    if (argc > 1) return strcmp(argv[1], "default") ? ask(argv[1]) : use_default();
    snprintf(own, sizeof own, "%s", argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

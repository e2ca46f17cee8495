// timeout: 120
/* Devices of PJRT plugins as programs see them, on the stub plugin: names, the default device, plugins that hang or abort, and `berth doctor`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <berth.h>

#include "command.h"

#define STUB BERTH_BUILD_DIR "/fakes/libpjrt_stub.so"
#define BERTH BERTH_BUILD_DIR "/berth"

static char own[400];

/* Runs COMMAND with the stub's settings and the flags; its exit code. */
static int run(const char *settings, const char *flags, const char *command, const char *arguments) {
    return run_line("BERTH_FAKE_PJRT='%s' OCL_ICD_VENDORS=/nonexistent BERTH_FLAGS='cache=off,probe_seconds=2,%s' "
                    "timeout 60 %s %s 2>&1",
                    settings, flags, command, arguments);
}

/* --- a program ------------------------------------------------------------------------------------------------------------------ */

static void show(const char *name) {
    bt_device *device;
    if (bt_device_find(name, &device) == BT_OK)
        printf("%s: %s, %s, %s\n", name, bt_device_name(device), bt_device_description(device),
               bt_device_driver(device));
    else
        printf("%s: %s\n", name, bt_error_text());
}

static int program(void) {
    printf("%d TPUs, %d accelerators\n", bt_device_count(BT_TPU), bt_device_count(BT_ACC));
    printf("tried: %s\n", bt_device_name(bt_try_tpu_gpu(1)));
    printf("default: %s\n", bt_device_name(bt_default_device()));
    show("TPU:0"), show("tpu:1"), show("tpu"), show("/job:localhost/replica:0/task:0/device:TPU:1"), show("tpu:2"),
        show("acc:0");
    BT_SCOPE
        BT_ON("cpu") printf("the CPU works: %g\n", bt_item(bt_add(bt_f32(1), bt_f32(2))));
    return bt_shutdown() == BT_OK ? 0 : 1;
}

/* --- tests ------------------------------------------------------------------------------------------------------------------------ */

static void devices_have_names(void **state) {
    (void)state;
    assert_int_equal(run("{}", "default_device=cpu,pjrt_plugins=tpu:" STUB, own, "run"), 0);
    assert_says("2 TPUs, 0 accelerators\ntried: TPU:1\ndefault: CPU:0\n");
    assert_says("TPU:0: TPU:0, Stub v1, pjrt\ntpu:1: TPU:1, Stub v1, pjrt\ntpu: TPU:0, Stub v1, pjrt\n");
    assert_says("device:TPU:1: TPU:1, Stub v1, pjrt\n");
    assert_says("tpu:2: ");
    assert_says("the CPU works: 3");
    assert_int_equal(run("{\"devices\": 1}", "pjrt_plugins=acc:" STUB, own, "run"), 0);
    assert_says("0 TPUs, 1 accelerators\ntried: CPU:0\ndefault: CPU:0\n");
    assert_says("acc:0: ACC:0, Stub v1, pjrt\n");
    assert_int_equal(run("{}", "pjrt_plugins=tpu:" STUB, BERTH, "devices"), 0);
    assert_says("*  TPU:0");
}

/* Two plugins of one kind: their devices are numbered on. */
static void plugins_of_one_kind(void **state) {
    (void)state;
    assert_int_equal(run_line("cp " STUB " " BERTH_BUILD_DIR "/fakes/pjrt_second.so"), 0);
    assert_int_equal(run("{}",
                         "default_device=cpu,pjrt_plugins=tpu:" STUB ";tpu:" BERTH_BUILD_DIR "/fakes/pjrt_second.so",
                         own, "run"),
                     0);
    assert_says("4 TPUs");
    assert_says("tpu:2: TPU:2, Stub v1, pjrt\n");
    unlink(BERTH_BUILD_DIR "/fakes/pjrt_second.so");
}

static void plugins_that_hang_or_abort(void **state) {
    (void)state;
    static const struct {
        const char *settings, *end;
    } manners[] = {{"{\"hang\": \"start\"}",
                    "gave no answer in 2 seconds (flag probe_seconds); it said: the stub hangs at its start"},
                   {"{\"hang\": \"client\"}",
                    "gave no answer in 2 seconds (flag probe_seconds); it said: the stub hangs at its client"},
                   {"{\"abort\": \"start\"}", "crashed (Aborted); it said: the stub aborts at its start"},
                   {"{\"abort\": \"client\"}", "crashed (Aborted); it said: the stub aborts at its client"}};
    for (size_t i = 0; i < sizeof manners / sizeof *manners; i++) {
        char words[300];
        assert_int_equal(run(manners[i].settings, "pjrt_plugins=tpu:" STUB, own, "run"), 0);
        snprintf(words, sizeof words, "no device \"TPU:0\": ");
        assert_says(words);
        snprintf(words, sizeof words, "pjrt: its library, tried in a process of its own, %s", manners[i].end);
        assert_says(words);
        assert_says("default: CPU:0");
        assert_says("the CPU works: 3");
    }
}

static void doctor_tells(void **state) {
    (void)state;
    assert_int_equal(run("{\"limit\": 1073741824, \"used\": 1048576}", "pjrt_plugins=tpu:" STUB, BERTH, "doctor"), 0);
    assert_says("TPU:0: Stub v1 (driver pjrt stub version 7 of two lines)");
    assert_says("opened: 1023 of 1024 MiB of memory are free");
    assert_says("plugin: " STUB ", version 0.81 of the PJRT C API\n");
    assert_says("platform: stub, stub version 7 of two lines; 2 devices\n");
    assert_says("programs: 0 compiled in 0.000 s, 0 shared between devices\n");
    assert_says("arrays fetched to get another type or length: 0\n");
    assert_int_equal(run("{\"minor\": 40}", "pjrt_plugins=tpu:" STUB, BERTH, "doctor"), 0);
    assert_says("pjrt: " STUB ": it has version 0.40 of the PJRT C API; 0.57 or a later 0.x is needed");
    assert_int_equal(run("{}", "pjrt_plugins=none", BERTH, "doctor"), 0);
    assert_silent_on("libpjrt_stub");
    assert_int_equal(run("{}", "pjrt_plugins=cpu:/x", BERTH, "doctor"), 0);
    assert_says(
        "pjrt: flag pjrt_plugins=\"cpu:/x\": a plugin is named by the kind of its devices, tpu: or acc:, and its path");
}

int main(int count, char **arguments) {
    if (count > 1) return program();
    snprintf(own, sizeof own, "%s", arguments[0]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(devices_have_names), cmocka_unit_test(plugins_of_one_kind),
                                       cmocka_unit_test(plugins_that_hang_or_abort), cmocka_unit_test(doctor_tells)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* bt_device_energy: fake GPUs and fake powercap trees, simulated devices, gaps, memory that is short. */
#include "support/cuda_machine.h"

#include <berth.h>

#include "base/clock.h"
#include "device/device.h"
#include "drivers/cpu/energy.h"
#include "support/powercap.h"

#define CARD(letter, more) \
    "{\"name\": \"NVIDIA " letter "\", \"pci\": \"0000:0" letter ":00.0\", \"memory\": 67108864" more "}"

static void begin(const char *json) {
    OK(bt_shutdown());
    machine(json, NULL);
}

static int end(void **state) {
    OK(bt_shutdown());
    drop_powercap();
    bti_cpu_energy_set_time(0);
    return no_machine(state);
}

static double joules_of(const bt_device *device) {
    double joules;
    char *reason;
    bool known = bt_device_energy(device, &joules, &reason);
    if (!known) fail_msg("%s", reason);
    assert_null(reason);
    return joules;
}

static void expect_unknown(const bt_device *device, const char *text) {
    double joules = 7;
    char *reason;
    bt_error_clear();
    assert_false(bt_device_energy(device, &joules, &reason));
    expect_text(reason, text);
    assert_true(joules == 0);
    assert_int_equal(bt_error_status(), BT_OK); /* it is no error */
    bt_free(reason);
    assert_false(bt_device_energy(device, &joules, NULL));
}

static void gpus(void **state) {
    (void)state;
    begin("{\"devices\": [" CARD("1", ", \"millijoules\": [5000, 250]") "," CARD("2", "") "]}");
    bt_device *first = bt_device_get(BT_GPU, 0);
    assert_true(joules_of(first) == 5);
    assert_true(joules_of(first) == 5.25);
    expect_unknown(bt_device_get(BT_GPU, 1), "NVML does not report the energy of NVIDIA 2");
    assert_int_equal(fake.contexts_made(), 0);
    bt_device_info info = BT_DEVICE_INFO_INIT;
    OK(bt_device_describe(first, &info));
    assert_false(info.opened);
    double joules;
    char *reason;
    assert_false(bt_device_energy(NULL, &joules, &reason));
    expect_text(reason, "needs a device");
    bt_free(reason);
    assert_false(bt_device_energy(first, NULL, NULL));
    assert_true(joules == 0);
}

/* After the driver was loaded again. */
static void counters_are_set_back(void **state) {
    (void)state;
    begin("{\"devices\": [" CARD("1", ", \"millijoules\": [5000, -1000]") "]}");
    bt_device *device = bt_device_get(BT_GPU, 0);
    joules_of(device);
    expect_unknown(device, "was set back");
}

static void parts_of_one_card(void **state) {
    (void)state;
    begin("{\"devices\": [" CARD("1", ", \"millijoules\": [5000, 250]") "," CARD("2", "") "]}");
    OK(bt_set_logical_devices(bt_device_get(BT_GPU, 0), (size_t[]){0, 0}, 2));
    bt_device *a = bt_device_get(BT_GPU, 0), *b = bt_device_get(BT_GPU, 1), *other = bt_device_get(BT_GPU, 2);
    assert_true(bti_device_same_hardware(a, b) && !bti_device_same_hardware(a, other));
    assert_true(joules_of(a) == 5 && joules_of(b) == 5.25);
}

static void without_counters(void **state) {
    (void)state;
    begin("{\"devices\": []}");
    OK(bt_set_devices("sim:gpu*1"));
    expect_unknown(bt_device_get(BT_GPU, 0), "GPU:0 is simulated");
    OK(bt_set_flag("powercap", "/tmp/berth-there-is-no-such-folder"));
    expect_unknown(bt_device_get(BT_CPU, 0), "virtual machines have none");
}

/* The counter goes round while nobody looks: that difference is not known, the next one is. */
static void gaps(void **state) {
    (void)state;
    begin("{\"devices\": []}");
    new_powercap();
    put_zone("intel-rapl:0", "package-0", 1000, 10);
    OK(bt_set_flag("powercap", powercap));
    bt_device *cpu = bt_device_get(BT_CPU, 0);
    bti_cpu_energy_set_time(bti_now_ns() - (uint64_t)10000000000);
    double first = joules_of(cpu);
    put_joules("intel-rapl:0", 12);
    assert_true(joules_of(cpu) - first > 1.99);
    bti_cpu_energy_set_time(0);
    double joules;
    char *reason;
    assert_false(bt_device_energy(cpu, &joules, &reason));
    expect_text(reason, "may have gone round more than once");
    bt_free(reason);
    joules_of(cpu);
}

static void memory_may_be_short(void **state) {
    (void)state;
    begin("{\"devices\": [" CARD("1", ", \"millijoules\": [5000, 250]") "]}");
    new_powercap();
    put_zone("intel-rapl:0", "package-0", 1000, 10);
    OK(bt_set_flag("powercap", powercap));
    const bt_device *devices[] = {bt_device_get(BT_GPU, 0), bt_device_get(BT_CPU, 0)};
    for (int d = 0; d < 2; d++) joules_of(devices[d]);
    for (int d = 0; d < 2; d++) {
        for (uint64_t n = 1;; n++) {
            double joules;
            char *reason;
            bti_alloc_fail_at(n, false);
            bool known = bt_device_energy(devices[d], &joules, &reason), over = bti_alloc_count() < n;
            bti_alloc_fail_at(0, false);
            bt_free(reason);
            assert_true(known || joules == 0);
            if (over) break;
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus),
        cmocka_unit_test(counters_are_set_back),
        cmocka_unit_test(parts_of_one_card),
        cmocka_unit_test(without_counters),
        cmocka_unit_test(gaps),
        cmocka_unit_test(memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}

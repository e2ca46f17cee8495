/* The energy of GPUs by NVML, on fake machines. Processes: probe_test.c. */
#include "support/cuda_machine.h"

static bti_str reason;

static int end(void **state) {
    bti_str_free(&reason);
    return no_machine(state);
}

static void begin_machine(const char *json, const char *without) {
    bti_device_facts facts[8];
    int count = 0;
    bti_str why = {0};
    machine(json, without);
    OK(bti_driver_cuda.probe(1u << BT_GPU, facts, 8, &count, &why));
    bti_str_free(&why);
    bti_str_free(&reason);
}

static double joules_of(int ordinal) {
    double joules = -1;
    uint64_t since_ns = 1;
    if (!bti_cuda_energy(ordinal, &joules, &since_ns, &reason)) fail_msg("%s", reason.text);
    assert_int_equal(since_ns, 0);
    assert_int_equal(fake.contexts_made(), 0);
    return joules;
}

static void expect_unknown(int ordinal, const char *text) {
    double joules;
    uint64_t since_ns;
    bt_error_clear();
    bti_str_free(&reason);
    assert_false(bti_cuda_energy(ordinal, &joules, &since_ns, &reason));
    expect_text(reason.text, text);
    assert_null(strchr(reason.text, '\n'));
    assert_int_equal(bt_error_status(), BT_OK);
}

#define WITH_COUNTERS                                                                                        \
    "{\"devices\": [{\"name\": \"NVIDIA A\", \"pci\": \"0000:81:00.0\", \"memory\": 1048576, "               \
    "\"millijoules\": [5000, 250]}, {\"name\": \"NVIDIA B\", \"pci\": \"0000:3b:00.0\", "                    \
    "\"memory\": 1048576, \"millijoules\": [7000, 0]}, {\"name\": \"NVIDIA C\", \"pci\": \"0000:90:00.0\", " \
    "\"memory\": 1048576}]"

static void counters_are_read(void **state) {
    (void)state;
    begin_machine(WITH_COUNTERS "}", NULL);
    assert_true(joules_of(0) == 7); /* in the order of the bus */
    assert_true(joules_of(1) == 5);
    assert_true(joules_of(1) == 5.25);
    expect_unknown(2, "NVML does not report the energy of NVIDIA C: it is counted from the generation Volta on");
    expect_unknown(3, "GPU 3 no longer exists");
}

static void failures_are_told(void **state) {
    (void)state;
    begin_machine(WITH_COUNTERS ", \"fail\": {\"nvmlDeviceGetTotalEnergyConsumption\": [2, 15]}}", NULL);
    joules_of(1);
    expect_unknown(1, "NVML does not report the energy of NVIDIA A: GPU is lost");
    assert_true(joules_of(1) == 5.25); /* the fake's counter stood still */
    begin_machine(WITH_COUNTERS ", \"fail\": {\"nvmlInit_v2\": [1, 9]}}", NULL);
    expect_unknown(0, "the energy of NVIDIA B");
    begin_machine(WITH_COUNTERS "}", "nvidia-ml");
    expect_unknown(0, "NVML is not available");
}

static void parts_of_a_card_have_no_counter(void **state) {
    (void)state;
    bti_device_facts facts[8];
    int count = 0;
    begin_machine(
        "{\"devices\": [{\"name\": \"NVIDIA S\", \"pci\": \"0000:10:00.0\", \"mig\": true, \"memory\": 1048576, "
        "\"millijoules\": [1, 1], \"instances\": [{\"name\": \"NVIDIA S MIG 1g\", "
        "\"uuid\": \"MIG-cccccccc-0000-0000-0000-000000000031\", \"memory\": 1048576}]}]}",
        NULL);
    OK(bti_cuda_list_partitions(facts, 8, &count, &reason));
    assert_int_equal(count, 1);
    expect_unknown(facts[0].ordinal, "not for instances of MIG");
}

static void memory_may_be_short(void **state) {
    (void)state;
    begin_machine(WITH_COUNTERS "}", NULL);
    joules_of(0);
    for (uint64_t n = 1;; n++) {
        double joules = 0;
        uint64_t since_ns;
        bti_alloc_fail_at(n, false);
        bool known = bti_cuda_energy(2, &joules, &since_ns, &reason);
        bool over = bti_alloc_count() < n;
        bti_alloc_fail_at(0, false);
        assert_false(known);
        bti_str_free(&reason);
        if (over) break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_are_read),
        cmocka_unit_test(failures_are_told),
        cmocka_unit_test(parts_of_a_card_have_no_counter),
        cmocka_unit_test(memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}

/* Enumeration on fake machines: which GPUs are listed, in which order, and their numbers in libcuda. No context is created. */
#include "support/cuda_machine.h"

static bti_device_facts facts[64];
static bti_str reason;

static int probe(const char *mask) {
    int count = 0;
    if (mask)
        setenv("CUDA_VISIBLE_DEVICES", mask, 1);
    else
        unsetenv("CUDA_VISIBLE_DEVICES");
    bti_str_free(&reason);
    OK(bti_driver_cuda.probe(1u << BT_GPU, facts, 64, &count, &reason));
    assert_int_equal(fake.contexts_made(), 0);
    return count;
}

static int end(void **state) {
    bti_str_free(&reason);
    unsetenv("CUDA_VISIBLE_DEVICES");
    return no_machine(state);
}

static void expect_card(int ordinal, char letter, int cuda_ordinal) {
    bti_device_facts found;
    int number;
    assert_int_equal(facts[ordinal].ordinal, ordinal);
    assert_int_equal(facts[ordinal].description[7], letter);
    OK(bti_cuda_find(ordinal, &found, &number));
    assert_string_equal(found.uuid, facts[ordinal].uuid);
    assert_int_equal(number, cuda_ordinal);
    assert_int_equal(fake.contexts_made(), 0);
}

static void cards_are_in_pci_order(void **state) {
    (void)state;
    machine("{\"driver\": \"580.65.06\", \"no_context\": true, \"devices\": [" CARD_A "," CARD_B "]}", NULL);
    assert_int_equal(probe(NULL), 2);
    assert_string_equal(facts[0].description, "NVIDIA B");
    assert_string_equal(facts[0].pci_bus_id, "0000:3b:00.0");
    assert_string_equal(facts[0].uuid, "GPU-bbbbbbbb-0000-0000-0000-000000000002");
    assert_string_equal(facts[0].driver_version, "580.65.06");
    assert_int_equal(facts[0].memory_bytes, 134217728);
    assert_int_equal(facts[0].capability_major, 9);
    assert_int_equal(facts[1].capability_major, 8);
    assert_int_equal(facts[1].kind, BT_GPU);
    expect_card(0, 'B', 1);
    expect_card(1, 'A', 0);
}

static void libcudas_order_changes_nothing(void **state) {
    (void)state;
    machine("{\"order\": [1, 0], \"devices\": [" CARD_A "," CARD_B "]}", NULL);
    assert_int_equal(probe(NULL), 2);
    expect_card(0, 'B', 0);
    expect_card(1, 'A', 1);
    machine("{\"order\": [0, 1], \"devices\": [" CARD_A "," CARD_B "]}", NULL);
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    assert_int_equal(probe(NULL), 2);
    expect_card(0, 'B', 0);
    expect_card(1, 'A', 1);
    unsetenv("CUDA_DEVICE_ORDER");
}

static void masks_do_not_change_the_list(void **state) {
    (void)state;
    machine("{\"devices\": [" CARD_A "," CARD_B "]}", NULL);
    assert_int_equal(probe("0"), 2);
    expect_card(0, 'B', 0);
    bti_device_facts found;
    int number;
    expect_error(bti_cuda_find(1, &found, &number), BT_UNAVAILABLE, "libcuda does not show NVIDIA A");
    machine("{\"devices\": [" CARD_A "," CARD_B "]}", NULL);
    assert_int_equal(probe("GPU-aaaa,GPU-bbbb"), 2);
    expect_card(0, 'B', 1);
    expect_card(1, 'A', 0);
    machine("{\"devices\": [" CARD_A "," CARD_B "]}", NULL);
    assert_int_equal(probe(""), 2);
}

static void without_nvml_libcuda_lists(void **state) {
    (void)state;
    machine("{\"devices\": [" CARD_A "," CARD_B "]}", "nvidia-ml");
    assert_int_equal(probe(NULL), 2);
    expect_text(reason.text, "NVML is not available");
    assert_true(facts[0].masked);
    assert_string_equal(facts[0].uuid, "GPU-bbbbbbbb-0000-0000-0000-000000000002");
    assert_string_equal(facts[0].driver_version, "CUDA 13.0");
    expect_card(0, 'B', 1);
    expect_card(1, 'A', 0);
    machine("{\"devices\": [" CARD_A "," CARD_B "]}", "nvidia-ml"); /* the mask's own order stays */
    assert_int_equal(probe("1,0"), 2);
    expect_card(0, 'A', 0);
    machine("{\"devices\": [" CARD_A "," CARD_B "]}", "nvidia-ml");
    assert_int_equal(probe("-1"), 0);
    expect_text(reason.text, "CUDA_VISIBLE_DEVICES hides them all");
    bt_device_process process;
    int count;
    expect_error(bti_cuda_processes(0, &process, 1, &count), BT_UNIMPLEMENTED, "NVML is not available");
}

static void eight_cards(void **state) {
    (void)state;
    char json[4000] = "{\"no_context\": true, \"devices\": [";
    for (int i = 0; i < 8; i++)
        snprintf(json + strlen(json), sizeof json - strlen(json),
                 "%s{\"name\": \"NVIDIA %c\", \"uuid\": \"GPU-%08x-0000-0000-0000-000000000000\", \"pci\": "
                 "\"0000:%02x:00.0\", \"memory\": 1048576}",
                 i ? "," : "", 'a' + i, i + 1, 0xf0 - 16 * i);
    strcat(json, "]}");
    machine(json, NULL);
    assert_int_equal(probe(NULL), 8);
    for (int i = 0; i < 8; i++) expect_card(i, (char)('a' + 7 - i), 7 - i);
    int count;
    OK(bti_driver_cuda.probe(1u << BT_GPU, facts, 3, &count, &reason));
    assert_int_equal(count, 8);
    OK(bti_driver_cuda.probe(1u << BT_CPU, facts, 3, &count, &reason));
    assert_int_equal(count, 0);
}

static void what_is_missing_is_told(void **state) {
    (void)state;
    machine("{\"devices\": [" CARD_A "]}", "libcuda.so.1");
    assert_int_equal(probe(NULL), 1);
    bti_device_facts found;
    int number;
    expect_error(bti_cuda_find(0, &found, &number), BT_UNAVAILABLE, "libcuda is not available");
    expect_error(bti_cuda_find(0, &found, &number), BT_UNAVAILABLE, "comes with NVIDIA's driver");
    machine("{\"devices\": [" CARD_A "], \"fail\": {\"nvmlInit_v2\": [1, 9], \"cuInit\": [1, 999]}}", NULL);
    assert_int_equal(probe(NULL), 0);
    expect_text(reason.text, "nvmlInit: Driver Not Loaded");
    expect_text(reason.text, "cuInit: CUDA_ERROR_UNKNOWN (999)");
    machine("{\"devices\": [" CARD_A "], \"fail\": {\"nvmlInit_v2\": [1, 18], \"cuInit\": [1, 803]}}", NULL);
    assert_int_equal(probe(NULL), 0);
    expect_text(reason.text, "restart the machine after the upgrade");
    machine("{\"devices\": []}", NULL);
    assert_int_equal(probe(NULL), 0);
    expect_text(reason.text, "NVML lists no GPU");
}

static void a_lost_card_is_left_out(void **state) {
    (void)state;
    machine("{\"devices\": [" CARD_A "," CARD_B "], \"fail\": {\"nvmlDeviceGetUUID\": [2, 15]}}", NULL);
    assert_int_equal(probe(NULL), 1);
    assert_string_equal(facts[0].description, "NVIDIA A");
    expect_text(reason.text, "GPU is lost");
}

static void an_old_driver_is_refused(void **state) {
    (void)state;
    machine("{\"cuda\": 11080, \"devices\": [" CARD_A "]}", NULL);
    assert_int_equal(probe(NULL), 1);
    bti_device_facts found;
    int number;
    expect_error(bti_cuda_find(0, &found, &number), BT_UNAVAILABLE, "the driver is too old: it is of CUDA 11.8");
}

static void split_cards_are_libcudas(void **state) {
    (void)state;
    machine("{\"devices\": [{\"name\": \"NVIDIA H100 MIG 1g.10gb\", \"uuid\": "
            "\"MIG-0123abcd-0000-0000-0000-000000000007\", "
            "\"memory\": 1048576, \"mig\": true}]}",
            NULL);
    assert_int_equal(probe(NULL), 1);
    assert_string_equal(facts[0].uuid, "MIG-0123abcd-0000-0000-0000-000000000007");
    assert_true(facts[0].masked);
    expect_text(reason.text, "split by MIG");
}

/* For a process that is given one: each instance, and the GPUs that are not split, in the order of the bus. */
static void instances_can_be_handed_out(void **state) {
    (void)state;
    bt_device_process processes[4];
    int count = 0;
    machine("{\"devices\": [" CARD_A
            ", {\"name\": \"NVIDIA S\", \"uuid\": \"GPU-cccccccc-0000-0000-0000-000000000003\", "
            "\"pci\": \"0000:10:00.0\", \"mig\": true, \"instances\": ["
            "{\"name\": \"NVIDIA S MIG 1g\", \"uuid\": \"MIG-cccccccc-0000-0000-0000-000000000031\", \"memory\": "
            "1048576}, null, "
            "{\"uuid\": \"MIG-cccccccc-0000-0000-0000-000000000033\", \"memory\": 2097152, "
            "\"processes\": [{\"pid\": 33, \"bytes\": 5}]}]}]}",
            NULL);
    bti_str_free(&reason);
    OK(bti_cuda_list_partitions(facts, 8, &count, &reason));
    assert_int_equal(count, 3);
    assert_string_equal(facts[0].uuid, "MIG-cccccccc-0000-0000-0000-000000000031");
    assert_string_equal(facts[0].description, "NVIDIA S MIG 1g");
    assert_int_equal(facts[0].memory_bytes, 1048576);
    assert_string_equal(facts[1].uuid, "MIG-cccccccc-0000-0000-0000-000000000033");
    assert_string_equal(facts[2].uuid, "GPU-aaaaaaaa-0000-0000-0000-000000000001");
    for (int i = 0; i < 3; i++) assert_false(facts[i].masked);
    OK(bti_cuda_processes(facts[1].ordinal, processes, 4, &count));
    assert_int_equal(count, 1);
    assert_int_equal(processes[0].pid, 33);
    OK(bti_cuda_processes(facts[0].ordinal, processes, 4, &count));
    assert_int_equal(count, 0);
    machine("{\"devices\": [" CARD_A "," CARD_B "]}", NULL);
    OK(bti_cuda_list_partitions(facts, 8, &count, &reason));
    assert_int_equal(count, 2);
    assert_int_equal(facts[0].ordinal, 0); /* as probe lists them */
}

static void processes_are_named(void **state) {
    (void)state;
    bt_device_process processes[4];
    int count;
    machine("{\"devices\": [" CARD_A "," CARD_B "]}", NULL);
    assert_int_equal(probe(NULL), 2);
    OK(bti_cuda_processes(0, processes, 4, &count));
    assert_int_equal(count, 1);
    assert_int_equal(processes[0].pid, 4711);
    assert_int_equal(processes[0].bytes, 3145728);
    OK(bti_cuda_processes(1, processes, 4, &count));
    assert_int_equal(count, 0);
    machine("{\"devices\": [{\"memory\": 1000, \"processes\": [{\"pid\": 5, \"bytes\": 50, \"type\": \"C+G\"}, "
            "{\"pid\": 6}, "
            "{\"pid\": 7, \"bytes\": 70, \"type\": \"G\"}]}]}",
            NULL);
    OK(bti_cuda_processes(0, processes, 4, &count));
    assert_int_equal(count, 3); /* who computes and draws is one */
    for (int i = 0; i < count; i++)
        assert_int_equal(processes[i].bytes, processes[i].pid == 6 ? 0 : processes[i].pid * 10);
    OK(bti_cuda_processes(0, NULL, 0, &count));
    assert_int_equal(count, 3);
    machine("{\"devices\": [{\"memory\": 1000}], \"fail\": {\"nvmlDeviceGetComputeRunningProcesses_v3\": [1, 15]}}",
            NULL);
    expect_error(bti_cuda_processes(0, processes, 4, &count), BT_UNAVAILABLE, "NVML does not report which processes");
    machine("{\"devices\": [{\"memory\": 1000}], \"fail\": {\"nvmlDeviceGetComputeRunningProcesses_v3\": [1, 4]}}",
            NULL);
    expect_error(bti_cuda_processes(0, processes, 4, &count), BT_UNIMPLEMENTED, "NVML does not report which processes");
}

/* More than the room that is asked with first; and no memory for them. */
static void many_processes_are_all_named(void **state) {
    (void)state;
    static bt_device_process processes[100];
    char json[8000];
    int length = snprintf(json, sizeof json, "{\"devices\": [{\"memory\": 1000000, \"processes\": ["), count;
    for (int i = 0; i < 100; i++)
        length += snprintf(json + length, sizeof json - (size_t)length, "%s{\"pid\": %d, \"bytes\": %d}", i ? "," : "",
                           i + 1, i * 10);
    snprintf(json + length, sizeof json - (size_t)length, "]}]}");
    machine(json, NULL);
    OK(bti_cuda_processes(0, processes, 50, &count));
    assert_int_equal(count, 100);
    OK(bti_cuda_processes(0, processes, 100, &count));
    for (int i = 0; i < 100; i++) assert_int_equal(processes[i].bytes, (processes[i].pid - 1) * 10);
    for (uint64_t n = 1;; n++) {
        bti_alloc_fail_at(n, false);
        bt_status status = bti_cuda_processes(0, processes, 100, &count);
        bool over = bti_alloc_count() < n;
        bti_alloc_fail_at(0, false);
        if (over) break;
        assert_int_equal(status, BT_RESOURCE_EXHAUSTED);
        assert_int_equal(count, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cards_are_in_pci_order),
        cmocka_unit_test(libcudas_order_changes_nothing),
        cmocka_unit_test(masks_do_not_change_the_list),
        cmocka_unit_test(without_nvml_libcuda_lists),
        cmocka_unit_test(eight_cards),
        cmocka_unit_test(what_is_missing_is_told),
        cmocka_unit_test(a_lost_card_is_left_out),
        cmocka_unit_test(an_old_driver_is_refused),
        cmocka_unit_test(split_cards_are_libcudas),
        cmocka_unit_test(instances_can_be_handed_out),
        cmocka_unit_test(processes_are_named),
        cmocka_unit_test(many_processes_are_all_named),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}

/* Cards of a fake machine as programs see them: names, masks, memory, copies of arrays, a lost device. */
#include "support/cuda_machine.h"

#include <berth.h>

static void begin(const char *json, const char *without, const char *mask) {
    OK(bt_shutdown());
    machine(json, without);
    if (mask)
        setenv("CUDA_VISIBLE_DEVICES", mask, 1);
    else
        unsetenv("CUDA_VISIBLE_DEVICES");
}

static int end(void **state) {
    OK(bt_shutdown());
    unsetenv("CUDA_VISIBLE_DEVICES");
    return no_machine(state);
}

#define TWO "{\"order\": [0, 1], \"devices\": [" CARD_A "," CARD_B "]}"

static void expect_cards(const char *mask, const char *letters) {
    begin(TWO, NULL, mask);
    assert_int_equal(bt_device_count(BT_GPU), strlen(letters));
    for (int i = 0; letters[i]; i++) {
        bt_device_info info = BT_DEVICE_INFO_INIT;
        OK(bt_device_describe(bt_device_get(BT_GPU, i), &info));
        assert_int_equal(info.description[7], letters[i]);
        assert_string_equal(info.driver, "cuda");
    }
    assert_int_equal(fake.contexts_made(), 0);
    for (int i = 0; letters[i]; i++) { /* opened, it is the card that was listed: its memory tells */
        size_t bytes = letters[i] == 'A' ? 67108864 : 134217728 - 3145728;
        bt_memory_info memory = BT_MEMORY_INFO_INIT;
        char name[16];
        snprintf(name, sizeof name, "gpu:%d", i);
        BT_SCOPE {
            bt_array *x = NULL;
            BT_ON("cpu") x = BT_ARRAY(float, (3), 1, 2, 3);
            OK(bt_eval(bt_to(x, name)));
            OK(bt_memory(bt_device_get(BT_GPU, i), &memory));
        }
        if (memory.device_free > bytes || memory.device_free < bytes / 2)
            fail_msg("GPU:%d has %zu bytes free", i, memory.device_free);
    }
}

static void masks_choose_and_renumber(void **state) {
    (void)state;
    expect_cards(NULL, "BA");
    expect_cards("1", "A"); /* in PCI bus order, whatever libcuda's is */
    expect_cards("0", "B");
    expect_cards("1,0", "AB");
    expect_cards("GPU-aaaa", "A");
    expect_cards("GPU-bbbb,GPU-aaaa", "BA");
    expect_cards("", "");
    expect_cards("-1", "");
    expect_cards("0,7,1", "B");
    setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST", 1);
    expect_cards("1", "A");
    assert_string_equal(getenv("CUDA_DEVICE_ORDER"), "FASTEST_FIRST");
    unsetenv("CUDA_DEVICE_ORDER");
}

static void without_nvml_libcudas_mask_holds(void **state) {
    (void)state;
    begin(TWO, "nvidia-ml", "1");
    assert_int_equal(bt_device_count(BT_GPU), 1);
    bt_device_info info = BT_DEVICE_INFO_INIT;
    OK(bt_device_describe(bt_device_get(BT_GPU, 0), &info));
    assert_string_equal(info.description, "NVIDIA A");
}

static void the_reason_says_what_was_tried(void **state) {
    (void)state;
    char *reason;
    begin("{\"devices\": []}", NULL, NULL);
    assert_false(bt_functional(BT_GPU, &reason));
    expect_text(reason, "NVML lists no GPU");
    bt_free(reason);
    begin("{\"devices\": [" CARD_A "], \"fail\": {\"nvmlInit_v2\": [1, 9], \"cuInit\": [1, 999]}}", NULL, NULL);
    assert_false(bt_functional(BT_GPU, &reason));
    expect_text(reason, "nvmlInit: Driver Not Loaded");
    expect_text(reason, "cuInit: CUDA_ERROR_UNKNOWN (999)");
    bt_free(reason);
    begin(TWO, "nvrtc", NULL);
    BT_SCOPE {
        float values[3];
        bt_array *x = bt_to(BT_ARRAY(float, (3), 1, 2, 3), "gpu:0");
        expect_error(bt_read(x, values, sizeof values), BT_UNAVAILABLE, "NVRTC is not available");
    }
}

static void arrays_move(void **state) {
    (void)state;
    enum { COUNT = 3000000 }; /* more than the staging */
    float *values = malloc(COUNT * sizeof *values), *back = calloc(COUNT, sizeof *back);
    for (int i = 0; i < COUNT; i++) values[i] = (float)i;
    begin(TWO, NULL, NULL);
    BT_SCOPE {
        bt_array *x = NULL;
        BT_ON("cpu") x = bt_from(values, BT_F32, BT_SHAPE(COUNT));
        bt_array *there = bt_to(bt_to(x, "gpu:0"), "gpu:1");
        OK(bt_read(there, back, COUNT * sizeof *back));
        assert_memory_equal(values, back, COUNT * sizeof *back);
        expect_text(fake.log(), "copy peer 12000000");
    }
    free(values);
    free(back);
}

/* The texts are ours, the launches real; only what a kernel does is missing there. */
static void kernels_are_launched(void **state) {
    (void)state;
    begin(TWO, NULL, NULL);
    BT_SCOPE {
        bt_array *x = NULL;
        BT_ON("cpu") x = bt_full(3, BT_F32, 1000, 8);
        BT_ON("gpu:1") OK(bt_block(bt_sum(bt_mul(bt_to(x, "gpu:1"), bt_num(2)), BT_ALL, false)));
        expect_text(fake.log(), "compile mul+sum.cu --gpu-architecture=sm_80");
        expect_text(fake.log(), "launch bti_");
    }
}

static void one_lost_device_leaves_the_rest(void **state) {
    (void)state;
    float back[3] = {0};
    begin("{\"late\": [1, 719], \"devices\": [" CARD_A "," CARD_B "]}", NULL, NULL);
    BT_SCOPE {
        bt_array *x = NULL, *y = NULL;
        BT_ON("cpu") x = BT_ARRAY(float, (3), 1, 2, 3), y = BT_ARRAY(float, (3), 7, 8, 9);
        bt_array *lost = bt_to(x, "gpu:0");
        expect_error(bt_read(lost, back, sizeof back), BT_INTERNAL, "(719)");
        bt_array *later = bt_to(y, "gpu:0");
        expect_error(bt_read(later, back, sizeof back), BT_UNAVAILABLE, "NVIDIA B is lost to this process since");
        OK(bt_read(bt_to(x, "gpu:1"), back, sizeof back));
        assert_true(back[2] == 3);
        OK(bt_read(bt_add(x, x), back, sizeof back));
    }
}

static void sum_over_both(bt_array **parts) {
    bt_strategy *s = bt_mirrored(NULL, 0);
    assert_int_equal(bt_strategy_count(s), 2);
    for (int r = 0; r < 2; r++) {
        bt_array *x = NULL;
        BT_ON("cpu") x = BT_ARRAY(float, (3), 1, 2, (float)r);
        parts[r] = bt_to(x, r ? "gpu:1" : "gpu:0");
    }
    bt_all_reduce(s, parts);
}

static void sums_go_by_nccl(void **state) {
    (void)state;
    float back[3] = {0};
    bt_array *parts[2];
    begin(TWO, NULL, NULL);
    BT_SCOPE {
        sum_over_both(parts);
        for (int r = 0; r < 2; r++) {
            OK(bt_read(parts[r], back, sizeof back));
            assert_true(back[0] == 2 && back[1] == 4 && back[2] == 1);
        }
        expect_text(fake.log(), "fold 2");
    }
    begin(TWO, "nccl", NULL); /* without it: the first one's sum, the kernel of which is missing there */
    BT_SCOPE {
        sum_over_both(parts);
        OK(bt_block(parts[1]));
        assert_null(strstr(fake.log(), "fold 2"));
        OK(bt_set_flag("collectives", "driver"));
        sum_over_both(parts);
        expect_error(bt_block(parts[0]), BT_FAILED_PRECONDITION, "libnccl2");
    }
    static const char *const calls[] = {"ncclGroupStart", "ncclAllReduce", "ncclGroupEnd"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char json[1200];
        snprintf(json, sizeof json, "{\"fail\": {\"%s\": [1, 1]}, \"devices\": [" CARD_A "," CARD_B "]}", calls[i]);
        begin(json, NULL, NULL);
        BT_SCOPE {
            sum_over_both(parts);
            for (int r = 0; r < 2; r++) expect_error(bt_block(parts[r]), BT_INTERNAL, calls[i]);
            sum_over_both(parts);
            for (int r = 0; r < 2; r++) OK(bt_block(parts[r]));
        }
    }
    begin("{\"fail\": {\"ncclCommInitAll\": [1, 1]}, \"devices\": [" CARD_A "," CARD_B "]}", NULL, NULL);
    BT_SCOPE { /* known before: by copies */
        sum_over_both(parts);
        for (int r = 0; r < 2; r++) OK(bt_block(parts[r]));
        assert_null(strstr(fake.log(), "fold 2"));
    }
}

static void opened_in_a_child_they_tell(void **state) {
    (void)state;
    begin(TWO, "cublasLt", NULL);
    OK(bt_set_flag("probe", "open"));
    for (int i = 0; i < 2; i++) {
        bt_device_info info = BT_DEVICE_INFO_INIT;
        OK(bt_device_describe(bt_device_get(BT_GPU, i), &info));
        expect_text(info.details, i ? "opened: 64 of 64 MiB" : "opened: 125 of 128 MiB");
        expect_text(info.details, i ? "compute capability 8.0" : "compute capability 9.0");
        expect_text(info.details, "NCCL 2.28.3");
        expect_text(info.details, "(matrix products): not there:");
        assert_false(info.opened);
    }
    assert_int_equal(fake.contexts_made(), 0); /* in this process */
    begin(TWO, "nvrtc", NULL);
    OK(bt_set_flag("probe", "open"));
    bt_device_info info = BT_DEVICE_INFO_INIT;
    OK(bt_device_describe(bt_device_get(BT_GPU, 0), &info));
    expect_text(info.details, "cannot be opened: NVRTC is not available");
}

/* A machine whose one card other processes share. */
#define SHARED_CARD(processes)                                                                               \
    "{\"devices\": [{\"name\": \"NVIDIA S\", \"memory\": 134217728, \"capability\": [9, 0], \"processes\": " \
    "[" processes "]}]}"

static void processes_are_listed_largest_first(void **state) {
    (void)state;
    bt_device_process processes[4];
    int count = -1;
    begin(SHARED_CARD("{\"pid\": 7}, {\"pid\": 5, \"bytes\": 1048576}, {\"pid\": 4711, \"bytes\": 3145728}, "
                      "{\"pid\": 4, \"bytes\": 1048576}"),
          NULL, NULL);
    bt_device *gpu = bt_device_get(BT_GPU, 0);
    OK(bt_device_processes(gpu, processes, 4, &count));
    assert_int_equal(count, 4);
    static const int64_t pids[] = {4711, 4, 5, 7};
    for (int i = 0; i < 4; i++) assert_int_equal(processes[i].pid, pids[i]);
    assert_int_equal(processes[0].bytes, 3145728);
    assert_int_equal(processes[3].bytes, 0); /* not told */
    processes[1].pid = -1;
    OK(bt_device_processes(gpu, processes, 1, &count));
    assert_int_equal(count, 4);
    assert_int_equal(processes[0].pid, 4711);
    assert_int_equal(processes[1].pid, -1);
    OK(bt_device_processes(gpu, NULL, 0, &count));
    assert_int_equal(count, 4);
    assert_int_equal(fake.contexts_made(), 0); /* asking opens nothing */
    expect_error(bt_device_processes(gpu, NULL, 1, &count), BT_INVALID_ARGUMENT, "bt_device_processes");
    assert_int_equal(count, 0);
    expect_error(bt_device_processes(gpu, processes, -1, &count), BT_INVALID_ARGUMENT, "bt_device_processes");
    expect_error(bt_device_processes(NULL, processes, 1, &count), BT_INVALID_ARGUMENT, "bt_device_processes");
    expect_error(bt_device_processes(gpu, processes, 1, NULL), BT_INVALID_ARGUMENT, "bt_device_processes");
    count = 3;
    expect_error(bt_device_processes(bt_device_get(BT_CPU, 0), processes, 4, &count), BT_UNIMPLEMENTED, "`cpu`");
    assert_int_equal(count, 0);
    for (uint64_t n = 1; n <= 4; n++) {
        bti_alloc_fail_at(n, false);
        bt_status status = bt_device_processes(gpu, processes, 4, &count);
        bti_alloc_fail_at(0, false);
        if (status != BT_OK) assert_int_equal(status, BT_RESOURCE_EXHAUSTED);
        assert_int_equal(count, status == BT_OK ? 4 : 0);
    }
    begin(TWO, "nvidia-ml", NULL);
    expect_error(bt_device_processes(bt_device_get(BT_GPU, 0), processes, 4, &count), BT_UNIMPLEMENTED,
                 "NVML is not available");
}

static void out_of_memory_is_reported_with_others(void **state) {
    (void)state;
    char json[400];
    snprintf(json, sizeof json,
             SHARED_CARD("{\"pid\": %d, \"bytes\": 9}, {\"pid\": 7}, {\"pid\": 4711, \"bytes\": 3145728}"), getpid());
    begin(json, NULL, NULL);
    BT_SCOPE {
        char *values = calloc(1, 160 << 20);
        bt_array *x = NULL;
        BT_ON("cpu") x = bt_from(values, BT_U8, BT_SHAPE(160 << 20));
        expect_error(bt_eval(bt_to(x, "gpu:0")), BT_RESOURCE_EXHAUSTED,
                     "\n  held by other processes:\n    3 MiB  process 4711\n    unknown size  process 7");
        snprintf(json, sizeof json, "process %d\n", getpid());
        assert_null(strstr(bt_error_text(), json));
        expect_text(bt_error_text(), "of 128 MiB are free"); /* what the device said remains */
        free(values);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_choose_and_renumber),
        cmocka_unit_test(without_nvml_libcudas_mask_holds),
        cmocka_unit_test(the_reason_says_what_was_tried),
        cmocka_unit_test(arrays_move),
        cmocka_unit_test(kernels_are_launched),
        cmocka_unit_test(one_lost_device_leaves_the_rest),
        cmocka_unit_test(sums_go_by_nccl),
        cmocka_unit_test(opened_in_a_child_they_tell),
        cmocka_unit_test(processes_are_listed_largest_first),
        cmocka_unit_test(out_of_memory_is_reported_with_others),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}

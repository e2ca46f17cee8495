/* Names, context names and placement over simulated devices. */
#include "device/test_support.h"

static void every_spelling_finds_the_device(void **state) {
    (void)state;
    begin("devices=sim:gpu*2;sim:tpu*1", NULL);
    expect_find("cpu", "CPU:0");
    expect_find("/physical_device:CPU:0", "CPU:0");
    expect_find("/job:localhost/replica:0/task:0/device:GPU:1", "GPU:1");
    expect_find("cuda1", "GPU:1");
    expect_find("cuda", "GPU:0");
    expect_find("tpu:0", "TPU:0");
    expect_find("GPU-51000000-0000-0000-0000-000000000001", "GPU:1");
    expect_find("51000000-0000-0000-0000-000000000001", "GPU:1");
    bt_device *device;
    expect_error(bt_device_find("GPU-51", &device), BT_NOT_FOUND, "begins the UUIDs of GPU:0 and GPU:1");
    expect_error(bt_device_find("GPU-52", &device), BT_NOT_FOUND, "no device with the UUID");
    expect_error(bt_device_find("0000:3b:00.0", &device), BT_NOT_FOUND, "no device on the PCI bus");
    expect_error(bt_device_find("opencl7:7", &device), BT_NOT_FOUND, "no OpenCL device");
    expect_error(bt_device_find("gpu:2", &device), BT_NOT_FOUND, "there are GPU:0 to GPU:1");
    expect_error(bt_device_find("tpu:1", &device), BT_NOT_FOUND, "there is only TPU:0");
    expect_error(bt_device_find("/job:worker/gpu:0", &device), BT_NOT_FOUND, "this process is /job:localhost");
    expect_error(bt_device_find("dev0", &device), BT_NOT_FOUND, "no map is set");
    expect_error(bt_device_find("gpu:x", &device), BT_INVALID_ARGUMENT, "not a device name");
}

static void contexts_from_the_flag(void **state) {
    (void)state;
    begin("devices=sim:gpu*2,contexts=dev0->cuda0;dev1->cuda1; left -> /GPU:1 ;", NULL);
    assert_string_equal(log_text, "");
    expect_find("dev1", "GPU:1");
    assert_string_equal(log_text, "Mapped name dev0 to device cuda0: Simulated GPU\n"
                                  "Mapped name dev1 to device cuda1: Simulated GPU\n"
                                  "Mapped name left to device /GPU:1: Simulated GPU\n");
    expect_find("LEFT", "GPU:1");
    expect_find("dev0", "GPU:0");
    bt_device *device;
    expect_error(bt_device_find("dev2", &device), BT_NOT_FOUND,
                 "context name \"dev2\" is not mapped; mapped are dev0, dev1, left");
    begin("devices=sim:gpu*2,contexts=dev0->cuda0,print_active_device=off", NULL);
    expect_find("dev0", "GPU:0");
    assert_string_equal(log_text, "");
}

static void bad_contexts_name_the_rule(void **state) {
    (void)state;
    begin("devices=sim:gpu*2", NULL);
    OK(bt_set_contexts("good->cuda1"));
    static const struct {
        const char *map;
        bt_status status;
        const char *why;
    } cases[] = {
        {"cuda7->cuda0", BT_INVALID_ARGUMENT, "it may not begin with \"cuda\""},
        {"CUDAx->cuda0", BT_INVALID_ARGUMENT, "it may not begin with \"cuda\""},
        {"opencl0->cuda0", BT_INVALID_ARGUMENT, "it may not begin with \"opencl\""},
        {"a->b->cuda0", BT_INVALID_ARGUMENT, "it may not contain \"->\""},
        {"->cuda0", BT_INVALID_ARGUMENT, "it is empty"},
        {"dev0", BT_INVALID_ARGUMENT, "not of the form name->device"},
        {"dev0->", BT_INVALID_ARGUMENT, "it is empty"},
        {"dev0->dev1", BT_INVALID_ARGUMENT, "is not the name of a device"},
        {"dev0->cudax", BT_INVALID_ARGUMENT, "cuda, cudaN or cuda:N"},
        {"dev0->cuda0;dev0->cuda1", BT_INVALID_ARGUMENT, "it is mapped twice"},
        {"gpu->cuda0", BT_INVALID_ARGUMENT, "it reads as the name of a device"},
        {"dev0->cuda0;dev1->cuda2", BT_NOT_FOUND,
         "context dev1 is mapped to a device that is absent: no device \"cuda2\""},
        {"dev0->opencl7:7", BT_NOT_FOUND, "absent: no OpenCL device \"opencl7:7\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        log_text[0] = '\0';
        expect_error(bt_set_contexts(cases[i].map), cases[i].status, cases[i].why);
        assert_string_equal(log_text, "");
        expect_find("good", "GPU:1"); /* all or nothing */
    }
    OK(bt_set_contexts(""));
    bt_device *device;
    expect_error(bt_device_find("good", &device), BT_NOT_FOUND, "no map is set");
}

static void faults_in_flags_come_with_the_first_query(void **state) {
    (void)state;
    bt_device *device;
    static const struct {
        const char *flags, *why;
    } cases[] = {
        {"memmory_limit=1G", "did you mean \"memory_limit\"?"},
        {"devices=sim:gpu*x", "devices cannot be \"sim:gpu*x\""},
        {"contexts=cuda7->cpu", "it may not begin with \"cuda\""},
        {"contexts=dev0->tpu:9", "mapped to a device that is absent"},
        {"default_device=tpu:9", "no device \"tpu:9\""},
        {"sim_fault=lunch:1", "it takes ENTRY:NTH"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(cases[i].flags, NULL);
        assert_int_equal(bt_device_count(BT_CPU), 1); /* counting is never an error */
        assert_int_equal(bt_error_status(), BT_OK);
        bt_status status = bt_device_find("cpu", &device);
        assert_true(status != BT_OK);
        expect_error(status, status, cases[i].why);
        expect_error(bti_device_open(0), status, cases[i].why);
    }
}

static void placement(void **state) {
    (void)state;
    int id;
    bool softened;
    begin("devices=sim:gpu*2", NULL);
    OK(bti_device_place("gpu:1", &id, &softened));
    assert_ptr_equal(bti_device_at(id), bt_device_get(BT_GPU, 1));
    assert_false(softened);
    expect_error(bti_device_place("/device:GPU:2", &id, &softened), BT_NOT_FOUND,
                 "Error copying tensor to device: /job:localhost/replica:0/task:0/device:GPU:2. "
                 "/job:localhost/replica:0/task:0/device:GPU:2 unknown device.");
    OK(bt_set_flag("soft_placement", "on"));
    OK(bti_device_place("/device:GPU:2", &id, &softened));
    assert_ptr_equal(bti_device_at(id), bt_device_get(BT_GPU, 0));
    assert_true(softened);
    OK(bti_device_place("tpu:3", &id, &softened));
    assert_int_equal(id, bti_cpu_device_id());
    assert_string_equal(log_text, "Soft placement: /job:localhost/replica:0/task:0/device:GPU:2 unknown device; using "
                                  "/job:localhost/replica:0/task:0/device:GPU:0\n"
                                  "Soft placement: /job:localhost/replica:0/task:0/device:TPU:3 unknown device; using "
                                  "/job:localhost/replica:0/task:0/device:CPU:0\n");
    expect_error(bti_device_place("dev9", &id, &softened), BT_NOT_FOUND, "nor a mapped context name");
    expect_error(bti_device_place("gpu:", &id, &softened), BT_INVALID_ARGUMENT, "not a device name");
}

static void the_default_device(void **state) {
    (void)state;
    begin("devices=sim:gpu*2,default_device=gpu:1", NULL);
    assert_string_equal(bt_device_name(bt_default_device()), "GPU:1");
    OK(bt_set_default_device("cpu"));
    assert_string_equal(bt_device_name(bt_default_device()), "CPU:0");
    expect_error(bt_set_default_device("gpu:9"), BT_NOT_FOUND, "no device \"gpu:9\"");
    assert_string_equal(bt_device_name(bt_default_device()), "CPU:0");
    OK(bt_set_default_device(NULL));
    assert_string_equal(bt_device_name(bt_default_device()), "GPU:0");
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, end)
    const struct CMUnitTest tests[] = {
        TEST(every_spelling_finds_the_device),
        TEST(contexts_from_the_flag),
        TEST(bad_contexts_name_the_rule),
        TEST(faults_in_flags_come_with_the_first_query),
        TEST(placement),
        TEST(the_default_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

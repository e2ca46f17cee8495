// labels: threads
/* The registry as programs see it: simulated devices, the mask, replacing, forks, threads. */
#include "device/test_support.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void simulated_devices_stand_in(void **state) {
    (void)state;
    begin("devices=sim:gpu*4", NULL);
    assert_int_equal(bt_device_count(BT_GPU), 4);
    assert_int_equal(bt_device_count(BT_CPU), 1);
    assert_int_equal(bt_device_count(BT_TPU), 0);
    assert_string_equal(bt_device_driver(bt_device_get(BT_CPU, 0)), "cpu");
    bt_device *gpu = bt_device_get(BT_GPU, 3);
    bt_device_info info = BT_DEVICE_INFO_INIT;
    OK(bt_device_describe(gpu, &info));
    assert_string_equal(info.name, "GPU:3");
    assert_string_equal(info.long_name, "/job:localhost/replica:0/task:0/device:GPU:3");
    assert_string_equal(info.description, "Simulated GPU");
    assert_string_equal(info.driver, "sim");
    assert_string_equal(info.driver_version, "1");
    assert_string_equal(info.uuid, "GPU-51000000-0000-0000-0000-000000000003");
    assert_int_equal(info.memory_bytes, 1024 * MIB);
    assert_false(info.opened);
    assert_null(bt_device_get(BT_GPU, 4));
    assert_non_null(strstr(bt_error_text(), "no device \"GPU:4\": there are GPU:0 to GPU:3"));
    bt_device *devices[8];
    assert_int_equal(bt_device_list(BT_GPU, devices, 2), 4);
    assert_int_equal(bt_try_all_gpus(devices, 8), 4);
    char *text = bt_device_list_text(devices, 2, false);
    assert_string_equal(text, "[GPU:0, GPU:1]");
    bt_free(text);
    text = bt_device_list_text(devices, 1, true);
    assert_string_equal(text, "[/job:localhost/replica:0/task:0/device:GPU:0]");
    bt_free(text);
    assert_ptr_equal(bt_try_tpu_gpu(2), devices[2]);
    assert_string_equal(bt_device_name(bt_try_tpu_gpu(7)), "CPU:0");
    assert_string_equal(bt_device_name(bt_default_device()), "GPU:0");
    char *reason;
    assert_true(bt_functional(BT_GPU, &reason));
    assert_non_null(strstr(reason, "GPU:0: Simulated GPU (driver sim 1)"));
    bt_free(reason);
    assert_false(bt_functional(BT_TPU, &reason));
    assert_non_null(strstr(reason, "no TPU is visible"));
    bt_free(reason);
}

static void kinds_and_memories_differ(void **state) {
    (void)state;
    begin("devices=sim:cpu*2;sim:gpu*1@512M;sim:gpu*2@64K;sim:tpu,sim_memory=2M", NULL);
    assert_int_equal(bt_device_count(BT_CPU), 2);
    assert_int_equal(bt_device_count(BT_GPU), 3);
    assert_string_equal(bt_device_driver(bt_device_get(BT_CPU, 1)), "sim");
    assert_string_equal(bt_device_name(bt_default_device()), "TPU:0");
    bt_memory_info memory = BT_MEMORY_INFO_INIT;
    OK(bt_memory(bt_device_get(BT_GPU, 0), &memory));
    assert_int_equal(memory.total, 512 * MIB);
    OK(bt_memory(bt_device_get(BT_GPU, 2), &memory));
    assert_int_equal(memory.total, 64 << 10);
    OK(bt_memory(bt_device_get(BT_TPU, 0), &memory));
    assert_int_equal(memory.total, 2 * MIB);
    static const char *const bad[] = {"sim:gpu*x",    "sim:gpu*-1", "sim:gpu*33",           "gpu*2",
                                      "sim:fpga*1",   "sim:cpu*0",  "sim:gpu*2@",           "sim:gpu@1",
                                      "sim:gpu*2@-4", "sim:gpu2",   "sim:gpu*20;sim:gpu*20"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_error(bt_set_devices(bad[i]), BT_INVALID_ARGUMENT, "devices cannot be");
}

static void without_gpus_calls_fall_back(void **state) {
    (void)state;
    begin("devices=sim:gpu*0", NULL);
    bt_device *devices[2];
    assert_int_equal(bt_device_count(BT_GPU), 0);
    assert_int_equal(bt_try_all_gpus(devices, 2), 1);
    assert_string_equal(bt_device_name(devices[0]), "CPU:0");
    assert_string_equal(bt_device_name(bt_default_device()), "CPU:0");
    bt_device *device;
    expect_error(bt_device_find("gpu", &device), BT_NOT_FOUND, "there is no GPU (bt_functional");
    assert_null(device);
}

static void the_mask_selects_and_numbers_anew(void **state) {
    (void)state;
    begin("devices=sim:gpu*4", "2,0");
    assert_int_equal(bt_device_count(BT_GPU), 2);
    bt_device_info info = BT_DEVICE_INFO_INIT;
    OK(bt_device_describe(bt_device_get(BT_GPU, 0), &info));
    assert_string_equal(info.uuid, "GPU-51000000-0000-0000-0000-000000000002");
    char *reason;
    assert_true(bt_functional(BT_GPU, &reason));
    assert_non_null(strstr(reason, "CUDA_VISIBLE_DEVICES=\"2,0\" shows 2 of 4 GPUs"));
    bt_free(reason);
    assert_string_equal(log_text, "");
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    assert_int_equal(bt_device_count(BT_GPU), 2);
    assert_int_equal(bt_device_count(BT_GPU), 2);
    assert_string_equal(log_text,
                        "CUDA_VISIBLE_DEVICES changed from 2,0 to 1 after the devices were first asked for; that "
                        "has no effect\n");
    begin("devices=sim:gpu*4", "-1");
    assert_int_equal(bt_device_count(BT_GPU), 0);
    begin("devices=sim:gpu*4", "");
    assert_int_equal(bt_device_count(BT_GPU), 0);
}

static void devices_can_be_replaced_until_opened(void **state) {
    (void)state;
    begin(NULL, NULL);
    bt_device *cpu = bt_device_get(BT_CPU, 0);
    OK(bt_set_devices("sim:gpu*2"));
    assert_int_equal(bt_device_count(BT_GPU), 2);
    bt_device *old = bt_device_get(BT_GPU, 1);
    OK(bt_set_devices("sim:gpu*3;sim:tpu*1"));
    assert_int_equal(bt_device_count(BT_GPU), 3);
    assert_int_equal(bt_device_count(BT_TPU), 1);
    assert_ptr_equal(bt_device_get(BT_CPU, 0), cpu);
    assert_string_equal(bt_device_name(old), "GPU:1"); /* the pointer stays valid, the device is no longer there */
    expect_error(bti_device_open(bti_device_id(old)), BT_FAILED_PRECONDITION, "was replaced");
    OK(bti_device_open(bti_device_id(bt_device_get(BT_GPU, 2))));
    expect_error(bt_set_devices("sim:gpu*1"), BT_FAILED_PRECONDITION, "GPU:2 was opened already");
    OK(bt_set_devices("sim:tpu*2"));
    assert_int_equal(bt_device_count(BT_TPU), 2);
    expect_error(bt_set_flag("devices", "sim:gpu*1"), BT_FAILED_PRECONDITION, "before the first device query");
}

static void a_forked_child_is_told(void **state) {
    (void)state;
    begin("devices=sim:gpu*1", NULL);
    int id = bti_device_id(bt_device_get(BT_GPU, 0));
    pid_t child = fork(); /* before the first use: fine */
    if (!child) _exit(bti_device_open(id) == BT_OK ? 0 : 1);
    int code;
    waitpid(child, &code, 0);
    assert_true(WIFEXITED(code) && WEXITSTATUS(code) == 0);
    OK(bti_device_open(id));
    child = fork();
    if (!child) {
        bool told =
            bti_device_open(id) == BT_UNAVAILABLE && strstr(bt_error_text(), "forked after a device was opened");
        _exit(told && bt_device_count(BT_GPU) == 1 ? 0 : 1);
    }
    waitpid(child, &code, 0);
    assert_true(WIFEXITED(code) && WEXITSTATUS(code) == 0);
    OK(bti_device_check_fork());
}

static void *ask(void *data) {
    bt_device *device;
    bti_block *block;
    bti_program *program;
    bti_program_source source = {.op = BTI_OP_add, .dtype_count = 3, .dtypes = {BT_F32, BT_F32, BT_F32}};
    for (int i = 0; i < 50; i++) {
        if (bt_device_find(i % 2 ? "dev1" : "gpu:0", &device) != BT_OK) return data;
        int id = bti_device_id(device);
        if (bti_block_alloc(id, 1000, 0, false, &block) != BT_OK) return data;
        bool made;
        if (bti_device_program(id, &source, &program, &made) != BT_OK) return data;
        if (!made) bti_program_made(program, BT_OK);
        bti_program_release(program);
        bt_memory_info memory = BT_MEMORY_INFO_INIT;
        if (bt_memory(device, &memory) != BT_OK || memory.used < 1000) return data;
        bti_block_free(block, 0);
        if (i % 10 == 0) (void)!bt_set_contexts("dev1->cuda1");
        if (i % 10 == 5) (void)!bt_set_default_device(i % 2 ? "cpu" : "gpu:1");
        (void)bti_default_device_id();
    }
    return NULL;
}

static void many_threads_ask_at_once(void **state) {
    (void)state;
    for (int round = 0; round < 5; round++) {
        begin("devices=sim:gpu*2,contexts=dev1->cuda1", NULL);
        pthread_t threads[4];
        void *failed;
        for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, ask, threads), 0);
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], &failed);
            assert_null(failed);
        }
    }
}

static void host_memory_may_fail_at_any_point(void **state) {
    (void)state;
    for (uint64_t nth = 1; nth < 80; nth++) {
        begin("devices=sim:gpu*2,contexts=dev0->cuda0;dev1->cuda1,default_device=cuda1", NULL);
        bti_alloc_fail_at(nth, false);
        bt_device *device;
        bti_block *block = NULL;
        (void)!bt_device_find("dev1", &device);
        (void)!bti_block_alloc(bti_default_device_id(), 1000, 0, false, &block);
        bti_block_free(block, 0);
        bti_alloc_fail_at(0, false);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, end)
    const struct CMUnitTest tests[] = {
        TEST(simulated_devices_stand_in),
        TEST(kinds_and_memories_differ),
        TEST(without_gpus_calls_fall_back),
        TEST(the_mask_selects_and_numbers_anew),
        TEST(devices_can_be_replaced_until_opened),
        TEST(a_forked_child_is_told),
        TEST(many_threads_ask_at_once),
        TEST(host_memory_may_fail_at_any_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

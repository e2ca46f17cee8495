/* Which devices there are by a program's choice: visible ones, several on one card, and the lists as TensorFlow prints them. */
#include "support/support.h"

#define PRINTS(call, text)                   \
    do {                                     \
        BT_TEXT printed_ = (call);           \
        assert_non_null(printed_);           \
        assert_string_equal(printed_, text); \
    } while (0)

#define GPU_OF(what, name, number) what "(name='/" name ":GPU:" number "', device_type='GPU')"

static void lists_as_tensorflow_prints_them(void **state) {
    (void)state;
    fresh("devices=sim:gpu*2");
    PRINTS(bt_physical_devices_text(BT_CPU), "[PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')]");
    PRINTS(bt_physical_devices_text(BT_GPU), "[" GPU_OF("PhysicalDevice", "physical_device",
                                                        "0") ", " GPU_OF("PhysicalDevice", "physical_device", "1") "]");
    PRINTS(bt_logical_devices_text(BT_GPU),
           "[" GPU_OF("LogicalDevice", "device", "0") ", " GPU_OF("LogicalDevice", "device", "1") "]");
    PRINTS(bt_logical_devices_text(BT_TPU), "[]");
    assert_null(bt_physical_devices_text((bt_kind)99));
    SAYS(bt_error_text(), "99 is not a kind of device");
}

static void visible_ones_are_numbered_anew(void **state) {
    (void)state;
    fresh("devices=sim:gpu*3@4M");
    bt_device *gpus[3], *some[2];
    assert_int_equal(bt_device_list(BT_GPU, gpus, 3), 3);
    some[0] = gpus[2];
    some[1] = gpus[0];
    OK(bt_set_visible_devices(BT_GPU, some, 2));
    assert_int_equal(bt_device_count(BT_GPU), 2);
    assert_null(bt_device_get(BT_GPU, 2));
    PRINTS(bt_logical_devices_text(BT_GPU),
           "[" GPU_OF("LogicalDevice", "device", "0") ", " GPU_OF("LogicalDevice", "device", "1") "]");
    BT_TEXT of_machine = bt_physical_devices_text(BT_GPU);
    SAYS(of_machine, "GPU:2"); /* the machine has what it had */
    BT_SCOPED;
    bt_array *x = bt_to(bt_uniform(bt_key(0), BT_F32, 4), "gpu:1");
    OK(bt_block(x));
    FAILS(bt_set_visible_devices(BT_GPU, NULL, 0), BT_FAILED_PRECONDITION,
          "bt_set_visible_devices: GPU:0 was opened already");
    FAILS(bt_set_logical_devices(bt_device_get(BT_GPU, 0), (size_t[]){1, 2}, 2), BT_FAILED_PRECONDITION,
          "opened already");
}

static void none_is_visible(void **state) {
    (void)state;
    fresh("devices=sim:gpu*2");
    OK(bt_set_visible_devices(BT_GPU, NULL, 0));
    assert_int_equal(bt_device_count(BT_GPU), 0);
    assert_int_equal(bt_device_kind(bt_default_device()), BT_CPU);
    BT_SCOPED;
    READS(bt_gpu(bt_ones(BT_F32, 1)), 1);
}

static void several_on_one_card(void **state) {
    (void)state;
    fresh("devices=sim:gpu*2@64M");
    OK(bt_set_logical_devices(bt_device_get(BT_GPU, 0), (size_t[]){8 * MIB, 16 * MIB}, 2));
    assert_int_equal(bt_device_count(BT_GPU), 3);
    PRINTS(bt_physical_devices_text(BT_GPU), "[" GPU_OF("PhysicalDevice", "physical_device",
                                                        "0") ", " GPU_OF("PhysicalDevice", "physical_device", "1") "]");
    BT_SCOPED;
    bt_array *sum = NULL;
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "gpu:%d", i);
        bt_array *x = bt_to(bt_full(i + 1, BT_F32, 4), name);
        READS(x, i + 1, i + 1, i + 1, i + 1);
        sum = sum ? bt_add(sum, bt_to(x, "gpu:0")) : x;
    }
    READS(sum, 6, 6, 6, 6); /* copied from each to the first */
    BT_ON("gpu:0")
        assert_int_equal(bt_block(bt_uniform(bt_key(0), BT_F32, 3 << 20)), BT_RESOURCE_EXHAUSTED); /* 12 MiB */
    BT_ON("gpu:2") OK(bt_block(bt_uniform(bt_key(0), BT_F32, 3 << 20)));
}

static void several_train_as_one(void **state) {
    (void)state;
    fresh("devices=sim:gpu*1");
    OK(bt_set_logical_devices(bt_device_get(BT_GPU, 0), (size_t[]){0, 0}, 2));
    BT_SCOPED;
    bt_strategy *both = bt_mirrored(NULL, 0);
    assert_int_equal(bt_strategy_count(both), 2);
    bt_layer *model = NULL;
    BT_STRATEGY(both) model = bt_dense(3, 1, NULL, bt_key(0));
    bt_array *x = bt_uniform(bt_key(1), BT_F32, 8, 3), *y = bt_zeros(BT_I32, 8);
    OK(bt_fit(model, bt_sgd(0.1), x, y, BT_FIT_OPTIONS(.strategy = both, .quiet = true), NULL));
}

/* Of a driver that is no simulation: OpenCL's devices on the CPU (PoCL). */
static void devices_of_a_driver(void **state) {
    (void)state;
    setenv("POCL_DEVICES", "pthread pthread", 1);
    fresh("devices=sim:gpu*1");
    bt_device *all[2], *only = NULL;
    if (bt_device_list(BT_ACC, all, 2) < 2) {
        print_message("skipped: there are no two devices of OpenCL's\n");
        return;
    }
    OK(bt_set_visible_devices(BT_ACC, &all[1], 1));
    assert_int_equal(bt_device_list(BT_ACC, &only, 1), 1);
    OK(bt_set_logical_devices(only, (size_t[]){32 * MIB, 0}, 2));
    assert_int_equal(bt_device_count(BT_ACC), 2);
    BT_SCOPED;
    bt_array *x, *y;
    BT_ON("acc:0") x = bt_add(bt_ones(BT_F32, 3), 1);
    BT_ON("acc:1") y = bt_add(bt_ones(BT_F32, 3), 2);
    READS(bt_add(bt_cpu(x), bt_cpu(y)), 5, 5, 5);
    READS(bt_add(bt_to(x, "acc:1"), y), 5, 5, 5);
    BT_ON("acc:0") assert_int_equal(bt_block(bt_uniform(bt_key(0), BT_F32, 12 << 20)), BT_RESOURCE_EXHAUSTED);
}

static void what_is_refused(void **state) {
    (void)state;
    fresh("devices=sim:gpu*2");
    bt_device *gpus[2], *cpu = bt_device_get(BT_CPU, 0);
    (void)bt_device_list(BT_GPU, gpus, 2);
    FAILS(bt_set_visible_devices(BT_CPU, &cpu, 1), BT_UNIMPLEMENTED, "the CPU is always there");
    FAILS(bt_set_visible_devices((bt_kind)77, NULL, 0), BT_INVALID_ARGUMENT, "77 is not a kind");
    FAILS(bt_set_visible_devices(BT_GPU, &cpu, 1), BT_INVALID_ARGUMENT, "CPU:0 is no GPU");
    FAILS(bt_set_visible_devices(BT_GPU, (bt_device *[]){gpus[0], gpus[0]}, 2), BT_INVALID_ARGUMENT,
          "GPU:0 is in the list twice");
    FAILS(bt_set_visible_devices(BT_GPU, (bt_device *[]){NULL}, 1), BT_INVALID_ARGUMENT,
          "device 1 of the list is NULL");
    FAILS(bt_set_visible_devices(BT_GPU, NULL, 1), BT_INVALID_ARGUMENT, "");
    FAILS(bt_set_logical_devices(NULL, (size_t[]){1}, 1), BT_INVALID_ARGUMENT, "the device is NULL");
    FAILS(bt_set_logical_devices(cpu, (size_t[]){1}, 1), BT_UNIMPLEMENTED, "the CPU");
    FAILS(bt_set_logical_devices(gpus[0], NULL, 1), BT_INVALID_ARGUMENT, "limits");
    FAILS(bt_set_logical_devices(gpus[0], (size_t[]){1}, 0), BT_INVALID_ARGUMENT, "0 devices");
    FAILS(bt_set_logical_devices(gpus[0], (size_t[]){1}, 1000), BT_FAILED_PRECONDITION, "64 devices");
    assert_int_equal(bt_device_count(BT_GPU), 2);
    OK(bt_set_visible_devices(BT_GPU, gpus, 1));
    FAILS(bt_set_visible_devices(BT_GPU, gpus, 2), BT_INVALID_ARGUMENT, "was replaced; ask for the devices again");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_as_tensorflow_prints_them),
        cmocka_unit_test(visible_ones_are_numbered_anew),
        cmocka_unit_test(none_is_visible),
        cmocka_unit_test(several_on_one_card),
        cmocka_unit_test(several_train_as_one),
        cmocka_unit_test(devices_of_a_driver),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}

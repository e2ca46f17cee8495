/* GPUs of AMD and Intel, as files of a machine that is not there tell, and which variable chooses among a vendor's GPUs. */
#include "device/vendor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char root[64];

static void sh(const char *line) {
    char whole[1000];
    snprintf(whole, sizeof whole, "cd '%s' && { %s; }", root, line);
    assert_int_equal(system(whole), 0);
}

static void clear_environment(void) {
    static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES",
                                        "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",  "ONEAPI_DEVICE_SELECTOR"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
}

static int set_up(void **state) {
    (void)state;
    clear_environment();
    snprintf(root, sizeof root, "/tmp/berth-vendor-XXXXXX");
    return !mkdtemp(root);
}

static int tear_down(void **state) {
    (void)state;
    char line[100];
    clear_environment();
    snprintf(line, sizeof line, "rm -rf --one-file-system '%s'", root);
    return system(line);
}

#define NODES "sys/class/kfd/kfd/topology/nodes"

static void amd_gpus_are_nodes_with_simd_units(void **state) {
    (void)state;
    bti_amd_gpu gpus[4];
    assert_int_equal(bti_amd_list(root, gpus, 4), 0);
    sh("mkdir -p " NODES "/0 " NODES "/1/mem_banks/0 " NODES "/2 " NODES "/3");
    sh("printf 'cpu_cores_count 64\\nsimd_count 0\\n' > " NODES "/0/properties");
    sh("printf 'cpu_cores_count 0\\nsimd_count 416\\nunique_id 16045690984833335023\\nlocation_id 12800\\ndomain 1\\n' "
       "> " NODES "/1/properties");
    sh("printf 'heap_type 1\\nsize_in_bytes 68702699520\\n' > " NODES "/1/mem_banks/0/properties");
    sh("printf 'simd_count 80\\nunique_id 0\\nlocation_id 256\\n' > " NODES
       "/3/properties");                              /* of 2 nothing can be read */
    assert_int_equal(bti_amd_list(root, gpus, 4), 0); /* a container without the device */
    sh("mkdir dev; : > dev/kfd");
    assert_int_equal(bti_amd_list(root, gpus, 4), 2);
    assert_string_equal(gpus[0].uuid, "GPU-deadbeefdeadbeef");
    assert_string_equal(gpus[0].place, "0001:32:00.0");
    assert_true(gpus[0].memory_bytes == 68702699520u);
    assert_string_equal(gpus[1].uuid, "");
    assert_string_equal(gpus[1].place, "0000:01:00.0");
    assert_int_equal(bti_amd_list(root, gpus, 1), 2);
    assert_int_equal(bti_amd_list(root, NULL, 0), 2);
}

static void intel_gpus_are_render_nodes(void **state) {
    (void)state;
    assert_false(bti_intel_find(root, false));
    sh("mkdir -p sys/class/drm/renderD128 sys/devices/0000:00:02.0 && ln -s ../../../devices/0000:00:02.0 "
       "sys/class/drm/renderD128/device && echo 0x10de > sys/devices/0000:00:02.0/vendor");
    assert_false(bti_intel_find(root, false));
    sh("echo 0x8086 > sys/devices/0000:00:02.0/vendor");
    assert_true(bti_intel_find(root, false));
    assert_false(bti_intel_find(root, true)); /* a part of the processor */
    sh("mkdir -p sys/class/drm/renderD129 sys/devices/0000:3a:00.0 && ln -s ../../../devices/0000:3a:00.0 "
       "sys/class/drm/renderD129/device && echo 0x8086 > sys/devices/0000:3a:00.0/vendor");
    assert_true(bti_intel_find(root, true));
}

static void expect(bti_vendor vendor, const char *variable, const char *list) {
    bti_mask mask = bti_mask_of(vendor);
    assert_string_equal(mask.variable, variable);
    if (list)
        assert_string_equal(mask.list, list);
    else
        assert_null(mask.list);
}

static void the_variable_that_is_read_last_of_those_set(void **state) {
    (void)state;
    expect(BTI_NVIDIA, "CUDA_VISIBLE_DEVICES", NULL);
    expect(BTI_UNKNOWN_VENDOR, "CUDA_VISIBLE_DEVICES", NULL);
    expect(BTI_AMD, "ROCR_VISIBLE_DEVICES", NULL);
    expect(BTI_INTEL, "ZE_AFFINITY_MASK", NULL);
    setenv("ROCR_VISIBLE_DEVICES", "2,GPU-deadbeefdeadbeef", 1);
    expect(BTI_AMD, "ROCR_VISIBLE_DEVICES", "2,GPU-deadbeefdeadbeef");
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    expect(BTI_AMD, "CUDA_VISIBLE_DEVICES", "1");
    setenv("HIP_VISIBLE_DEVICES", "0", 1);
    expect(BTI_AMD, "HIP_VISIBLE_DEVICES", "0");
    expect(BTI_NVIDIA, "CUDA_VISIBLE_DEVICES", "1");
    setenv("ZE_AFFINITY_MASK", "0,1", 1);
    setenv("ONEAPI_DEVICE_SELECTOR", "level_zero:gpu", 1); /* a kind of devices, all of it */
    expect(BTI_INTEL, "ZE_AFFINITY_MASK", "0,1");
    setenv("ONEAPI_DEVICE_SELECTOR", "level_zero:1,0", 1);
    expect(BTI_INTEL, "ONEAPI_DEVICE_SELECTOR", "1,0");
}

static void is(const char *variable, const char *value) {
    const char *got = getenv(variable);
    if ((got && !value) || (!got && value) || (got && strcmp(got, value)))
        fail_msg("%s is %s, not %s", variable, got ? got : "unset", value ? value : "unset");
}

static void set(bti_vendor vendor, const char *list) {
    bti_mask mask = bti_mask_of(vendor);
    bti_mask_set(&mask, list);
}

static void one_vendors_variable_is_set(void **state) {
    (void)state;
    set(BTI_NVIDIA, "1,2");
    is("CUDA_VISIBLE_DEVICES", "1,2");
    is("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    is("HIP_VISIBLE_DEVICES", NULL);
    is("ROCR_VISIBLE_DEVICES", NULL);
    is("ZE_AFFINITY_MASK", NULL);
    clear_environment();
    set(BTI_AMD, "1,2");
    is("ROCR_VISIBLE_DEVICES", "1,2");
    is("HIP_VISIBLE_DEVICES", NULL); /* it would count among those that ROCR shows */
    is("CUDA_VISIBLE_DEVICES", NULL);
    clear_environment();
    setenv("HIP_VISIBLE_DEVICES", "3,1", 1);
    setenv("ROCR_VISIBLE_DEVICES", "4,5,6,7", 1);
    set(BTI_AMD, "1");
    is("HIP_VISIBLE_DEVICES", "1");
    is("ROCR_VISIBLE_DEVICES", "4,5,6,7");
    set(BTI_AMD, "");
    is("ROCR_VISIBLE_DEVICES", "");
    clear_environment();
    set(BTI_INTEL, "0.1");
    is("ZE_AFFINITY_MASK", "0.1");
    clear_environment();
    setenv("ONEAPI_DEVICE_SELECTOR", "level_zero:1,0", 1);
    set(BTI_INTEL, "0");
    is("ONEAPI_DEVICE_SELECTOR", "level_zero:0");
    is("ZE_AFFINITY_MASK", NULL);
    set(BTI_INTEL, "");
    is("ZE_AFFINITY_MASK", "1000000");
    clear_environment();
    set(BTI_UNKNOWN_VENDOR, "1");
    is("CUDA_VISIBLE_DEVICES", "1");
    is("HIP_VISIBLE_DEVICES", "1");
    is("ZE_AFFINITY_MASK", "1");
    is("ROCR_VISIBLE_DEVICES", NULL);
    clear_environment();
    set(BTI_UNKNOWN_VENDOR, "");
    is("CUDA_VISIBLE_DEVICES", "");
    is("HIP_VISIBLE_DEVICES", NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(amd_gpus_are_nodes_with_simd_units, set_up, tear_down),
        cmocka_unit_test_setup_teardown(intel_gpus_are_render_nodes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_variable_that_is_read_last_of_those_set, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_vendors_variable_is_set, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

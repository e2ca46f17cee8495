/* What masks name, and how GPUs are counted. */
#include "task/gpu_use.h"
#include "task/gpus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/flags.h"
#include "device/vendor.h"

/* "2 5 6" of "2,5,6"; what stands in `names` too. */
static void expect_mask(const char *mask, const char *numbers, const char *names) {
    int32_t number[4];
    char name[4][BTI_GPU_NAME], got[2][512] = {"", ""};
    int count = bti_gpus_of_mask(mask, number, name, 4);
    for (int i = 0; i < count; i++) {
        sprintf(got[0] + strlen(got[0]), "%s%d", i ? " " : "", number[i]);
        sprintf(got[1] + strlen(got[1]), "%s%s", i ? "," : "", name[i]);
    }
    if (strcmp(got[0], numbers) || strcmp(got[1], names))
        fail_msg("\"%s\" names %s (%s), not %s (%s)", mask, got[0], got[1], numbers, names);
}

static void masks_name_gpus(void **state) {
    char longest[300];
    (void)state;
    expect_mask("2,5,6", "2 5 6", "2,5,6");
    expect_mask("6,0", "6 0", "6,0");
    expect_mask("", "", "");
    expect_mask(" ", "", "");
    expect_mask("-1", "", "");
    expect_mask("x", "", "");
    expect_mask("1,", "1", "1");
    expect_mask(",1", "", "");
    expect_mask("1,,2", "1", "1");
    expect_mask("1,-1,2", "1", "1");
    expect_mask(" 1 , 2x", "1 2", "1,2");
    expect_mask("3,3", "", "");
    expect_mask("3,03", "", "");
    expect_mask("0,1,2,3,4,5", "0 1 2 3", "0,1,2,3"); /* no more room */
    expect_mask("99999999999999999999", "", "");
    expect_mask("GPU-a,gpu-b", "0 1", "GPU-a,gpu-b");
    expect_mask("GPU-a,GPU-A", "", "");
    expect_mask("GPU-", "", "");
    expect_mask("GPU-a,1", "0", "GPU-a");
    expect_mask("1,GPU-a", "1", "1");
    expect_mask("MIG-a, MIG-GPU-b/1/0 ", "0 1", "MIG-a,MIG-GPU-b/1/0");
    expect_mask("MIG-a,GPU-b", "0", "MIG-a");
    memset(longest, 'a', sizeof longest);
    memcpy(longest, "GPU-", 4);
    longest[sizeof longest - 1] = '\0';
    expect_mask(longest, "", "");
}

static bti_state runtime;

static bt_status count(const char *flags, const char *mask, int asked) {
    setenv("BERTH_FLAGS", flags, 1);
    bti_flags_reset();
    if (mask)
        setenv("CUDA_VISIBLE_DEVICES", mask, 1);
    else
        unsetenv("CUDA_VISIBLE_DEVICES");
    memset(&runtime, 0, sizeof runtime);
    return bti_gpus_count(&runtime, asked, 0);
}

static void gpus_are_counted(void **state) {
    (void)state;
    assert_int_equal(count("devices=sim:gpu*5", NULL, 0), BT_OK);
    assert_int_equal(runtime.gpu_count, 0);
    assert_int_equal(count("devices=sim:gpu*5", NULL, 64), BT_OK);
    assert_int_equal(runtime.gpu_count, 64);
    assert_string_equal(runtime.gpu_name[63], "63");
    assert_int_equal(count("devices=sim:gpu*5", NULL, BT_DETECT), BT_OK);
    assert_int_equal(runtime.gpu_count, 5);
    assert_false(runtime.gpu_users_listed);
    assert_int_equal(count("devices=sim:gpu*5", "4,1,7,0", BT_DETECT), BT_OK);
    assert_int_equal(runtime.gpu_count, 2);
    assert_int_equal(runtime.gpu_number[0], 4);
    assert_int_equal(runtime.gpu_number[1], 1);
    assert_int_equal(count("devices=sim:gpu*0", NULL, BT_DETECT), BT_OK);
    assert_int_equal(runtime.gpu_count, 0);
    assert_int_equal(count("", "2,5", 3), BT_INVALID_ARGUMENT);
    assert_int_equal(count("", NULL, 65), BT_INVALID_ARGUMENT);
    assert_int_equal(count("", NULL, -2), BT_INVALID_ARGUMENT);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no process is left */
}

/* --- whose GPUs ---------------------------------------------------------------------------------------------------------- */

static char root[64];

static void sh(const char *line) {
    char whole[700];
    snprintf(whole, sizeof whole, "cd '%s' && { %s; }", root, line);
    assert_int_equal(system(whole), 0);
}

/* What a task with these GPUs of `runtime` sees: each variable's value. */
static const char *shown(uint64_t gpus, bool hides) {
    static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                        "ZE_AFFINITY_MASK"};
    static char text[400];
    int ends[2];
    bti_queue queue = {.amounts.of[1] = BTI_UNIT};
    bti_task_record task = {.gpus = gpus, .hides_gpus = hides, .queue = &queue};
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        bti_gpus_show(&runtime, &task);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            dprintf(ends[1], "%s[%s]", i ? " " : "", getenv(names[i]) ? getenv(names[i]) : "unset");
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t n; (n = read(ends[0], text + length, sizeof text - 1 - length)) > 0;) length += (size_t)n;
    text[length] = '\0';
    close(ends[0]);
    waitpid(child, NULL, 0);
    return text;
}

#define NODES "sys/class/kfd/kfd/topology/nodes"

static void gpus_of_each_vendor_are_shown_by_its_variable(void **state) {
    (void)state;
    char leases[80];
    snprintf(root, sizeof root, "/tmp/berth-gpus-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(leases, sizeof leases, "%s/leases", root);
    setenv("BERTH_LEASES", leases, 1);
    bti_vendor_root = root;
    assert_int_equal(count("", NULL, 2), BT_OK);  /* a machine without files of a GPU */
    if (runtime.gpu_vendor == BTI_NVIDIA) skip(); /* this machine has NVIDIA's driver */
    assert_string_equal(shown(2, false), "[1] [unset] [1] [1]");
    assert_string_equal(shown(0, true), "[] [unset] [unset] [unset]");
    assert_string_equal(shown(0, false), "[unset] [unset] [unset] [unset]");
    sh("mkdir -p dev " NODES "/0 " NODES "/1 " NODES "/2 && : > dev/kfd");
    sh("printf 'simd_count 80\nunique_id 10\n' | tee " NODES "/0/properties > " NODES "/1/properties");
    sh("printf 'simd_count 80\nunique_id 11\n' > " NODES "/1/properties");
    sh("printf 'simd_count 80\nunique_id 12\n' > " NODES "/2/properties");
    assert_int_equal(count("", NULL, BT_DETECT), BT_OK);
    assert_int_equal(runtime.gpu_count, 3);
    assert_string_equal(shown(6, false), "[unset] [1,2] [unset] [unset]");
    assert_string_equal(shown(0, true), "[unset] [] [unset] [unset]");
    assert_int_equal(runtime.leases_taken, 3);
    sh("test -f leases/berth-GPU-000000000000000c.lock");
    bti_gpus_leave(&runtime);
    setenv("HIP_VISIBLE_DEVICES", "1", 1); /* of those that ROCR shows */
    setenv("ROCR_VISIBLE_DEVICES", "GPU-000000000000000c,0", 1);
    assert_int_equal(count("", NULL, BT_DETECT), BT_OK);
    assert_int_equal(runtime.gpu_count, 1);
    assert_int_equal(runtime.gpu_number[0], 1);
    assert_string_equal(shown(1, false), "[unset] [GPU-000000000000000c,0] [1] [unset]");
    bti_gpus_leave(&runtime);
    assert_int_equal(count("", NULL, 2), BT_INVALID_ARGUMENT);
    assert_non_null(strstr(bt_error_text(), "num_gpus is 2, but HIP_VISIBLE_DEVICES=\"1\" shows 1"));
    unsetenv("HIP_VISIBLE_DEVICES");
    unsetenv("ROCR_VISIBLE_DEVICES");
    assert_int_equal(count("devices=sim:gpu*2", NULL, 2), BT_OK); /* another vendor's are hidden */
    assert_string_equal(shown(1, false), "[0] [] [unset] [unset]");
    assert_int_equal(count("", NULL, 0), BT_OK);
    assert_string_equal(shown(0, true), "[] [] [unset] [unset]");
    bti_vendor_root = "";
    sh("cd / && rm -rf --one-file-system \"$OLDPWD\"");
}

static int end(void **state) {
    (void)state;
    unsetenv("BERTH_FLAGS");
    bti_flags_reset();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_name_gpus),
        cmocka_unit_test(gpus_are_counted),
        cmocka_unit_test(gpus_of_each_vendor_are_shown_by_its_variable),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}

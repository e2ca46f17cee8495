/* What masks name, and how GPUs are counted. */
#include "task/gpus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/flags.h"

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
    assert_false(runtime.gpus_told);
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
    };
    return cmocka_run_group_tests(tests, NULL, end);
}

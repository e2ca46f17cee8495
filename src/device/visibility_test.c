/* Runs the table of docs/visibility.md. */
#include "device/visibility.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifndef BERTH_SOURCE_DIR
#define BERTH_SOURCE_DIR "."
#endif

static const char *const uuids[] = {
    "GPU-51000000-0000-0000-0000-000000000000", "GPU-51000000-0000-0000-0000-000000000001",
    "GPU-51000000-0000-0000-0000-000000000002", "GPU-51000000-0000-0000-0000-000000000003"};

static void check_row(const char *mask, const char *expected) {
    int visible[4];
    char shown[64] = "";
    int count = bti_visible_devices(mask, uuids, 4, visible);
    for (int i = 0; i < count; i++) sprintf(shown + strlen(shown), "%s%d", i ? " " : "", visible[i]);
    if (!count) strcpy(shown, "none");
    if (strcmp(shown, expected)) fail_msg("mask \"%s\" shows %s, not %s", mask ? mask : "unset", shown, expected);
}

static void table_of_cases(void **state) {
    (void)state;
    FILE *file = fopen(BERTH_SOURCE_DIR "/docs/visibility.md", "r");
    assert_non_null(file);
    char line[512];
    int rows = 0;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "| `", 3) && strncmp(line, "| unset", 7)) continue;
        char *mask = NULL, *rest;
        if (line[2] == '`') {
            mask = line + 3;
            rest = strchr(mask, '`');
            assert_non_null(rest);
            *rest++ = '\0';
        } else {
            rest = line + 7;
        }
        char *expected = strchr(rest, '|') + 2, *end = strchr(expected, '|') - 1;
        *end = '\0';
        check_row(mask, expected);
        rows++;
    }
    fclose(file);
    assert_true(rows > 40);
}

static void a_unique_beginning_of_a_uuid_is_enough(void **state) {
    (void)state;
    static const char *const three[] = {"GPU-aa10", "GPU-ab20", ""};
    int visible[3];
    assert_int_equal(bti_visible_devices("GPU-aB,GPU-AA1", three, 3, visible), 2);
    assert_int_equal(visible[0], 1);
    assert_int_equal(visible[1], 0);
    assert_int_equal(bti_visible_devices("GPU-a", three, 3, visible), 0);
    assert_int_equal(bti_visible_devices("2", three, 3, visible), 1);
}

static void instances_are_a_sort_of_their_own(void **state) {
    (void)state;
    static const char *const parts[] = {"MIG-aa", "MIG-ab", "GPU-c"};
    int visible[3];
    assert_int_equal(bti_visible_devices("MIG-ab,mig-aa", parts, 3, visible), 2);
    assert_int_equal(visible[0], 1);
    assert_int_equal(visible[1], 0);
    assert_int_equal(bti_visible_devices("MIG-ab,GPU-c", parts, 3, visible), 1);
    assert_int_equal(bti_visible_devices("GPU-c,MIG-ab", parts, 3, visible), 1);
    assert_int_equal(visible[0], 2);
    assert_int_equal(bti_visible_devices("MIG-ab,MIG-ab", parts, 3, visible), 0);
    assert_int_equal(bti_visible_devices("MIG-a", parts, 3, visible), 0);
}

static void no_devices_stay_none(void **state) {
    (void)state;
    int visible[1];
    assert_int_equal(bti_visible_devices(NULL, NULL, 0, visible), 0);
    assert_int_equal(bti_visible_devices("0", NULL, 0, visible), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_of_cases),
        cmocka_unit_test(a_unique_beginning_of_a_uuid_is_enough),
        cmocka_unit_test(instances_are_a_sort_of_their_own),
        cmocka_unit_test(no_devices_stay_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

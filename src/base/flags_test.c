#include "base/flags.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/flagtext.h"

static char log_text[4000];
static void keep_line(const char *line, void *data) {
    (void)data;
    if (strlen(log_text) + strlen(line) + 2 < sizeof log_text) strcat(strcat(log_text, line), "\n");
}

static int start(void **state) {
    (void)state;
    unsetenv("BERTH_FLAGS");
    unsetenv("BERTH_SYNC");
    bti_flags_reset();
    log_text[0] = '\0';
    bt_set_log_sink(keep_line, NULL);
    bt_error_clear();
    return 0;
}

static int end(void **state) {
    start(state);
    bt_set_log_sink(NULL, NULL);
    return 0;
}

static void expect_flag(const char *name, const char *expected) {
    char text[256];
    assert_int_equal(bt_get_flag(name, text, sizeof text), BT_OK);
    assert_string_equal(text, expected);
}

static void expect_refused(const char *name, const char *value, bt_status status, const char *text) {
    bt_status got = bt_set_flag(name, value);
    if (got != status) fail_msg("%s=%s: %s, not %s", name, value, bt_status_name(got), bt_status_name(status));
    if (!strstr(bt_error_text(), text)) fail_msg("\"%s\" does not say \"%s\"", bt_error_text(), text);
}

static void defaults_are_as_the_table_writes_them(void **state) {
    (void)state;
    for (int i = 0; i < bt_flag_count(); i++) {
        bt_flag_info info = BT_FLAG_INFO_INIT;
        assert_int_equal(bt_flag_describe(i, &info), BT_OK);
        expect_flag(info.name, info.default_value);
        assert_string_equal(info.origin, "default");
        assert_true(strlen(info.doc) > 10);
        assert_true(!strcmp(info.type, "text") == !*info.range);
        if (strcmp(info.when, "any time") == 0) assert_int_equal(bt_set_flag(info.name, info.default_value), BT_OK);
    }
    bt_flag_info info = BT_FLAG_INFO_INIT;
    assert_int_equal(bt_flag_describe(-1, &info), BT_OUT_OF_RANGE);
    assert_int_equal(bt_flag_describe(bt_flag_count(), &info), BT_OUT_OF_RANGE);
    assert_true(bti_flag_bool(BTI_FLAG_memory_growth));
    assert_int_equal(bti_flag_int(BTI_FLAG_flush_nodes), 10000);
    assert_int_equal(bti_flag_bytes(BTI_FLAG_sim_memory), 1 << 30);
    assert_int_equal(bti_flag_choice(BTI_FLAG_transfers), BTI_TRANSFERS_COPY);
}

static void values_of_every_type(void **state) {
    (void)state;
    static const struct {
        const char *name, *value, *reads;
    } cases[] = {
        {"soft_placement", "ON", "on"},
        {"soft_placement", "0", "off"},
        {"soft_placement", "True", "on"},
        {"Soft-Placement", " no ", "off"},
        {"memory_limit", "8G", "8G"},
        {"memory_limit", "8GiB", "8G"},
        {"memory_limit", "512mb", "512M"},
        {"memory_limit", "1.5G", "1536M"},
        {"memory_limit", "1024", "1K"},
        {"memory_limit", "1000", "1000"},
        {"memory_limit", "1000b", "1000"},
        {"memory_limit", "0", "0"},
        {"memory_limit", "0.5k", "512"},
        {"memory_fraction", "0.4", "0.4"},
        {"memory_fraction", "4e-1", "0.4"},
        {"memory_fraction", "1", "1"},
        {"memory_fraction", ".25", "0.25"},
        {"flush_nodes", "+12", "12"},
        {"transfers", "Log", "log"},
        {"transfers", "error", "error"},
        {"placement", "tensorflow", "tensorflow"},
        {"random_layout", "partitionable", "partitionable"},
        {"default_device", "gpu:1", "gpu:1"},
        {"default_device", "", ""},
        {"sim_latency_us", "2.5", "2.5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (bt_set_flag(cases[i].name, cases[i].value) != BT_OK) fail_msg("%s", bt_error_text());
        expect_flag(cases[i].name, cases[i].reads);
    }
    assert_true(bti_flag_float(BTI_FLAG_memory_fraction) == 0.25);
    assert_int_equal(bti_flag_choice(BTI_FLAG_transfers), BTI_TRANSFERS_ERROR);
    assert_int_equal(bti_flag_choice(BTI_FLAG_placement), BTI_PLACEMENT_TENSORFLOW);
    assert_int_equal(bti_flag_choice(BTI_FLAG_random_layout), BTI_RANDOM_PARTITIONABLE);
    char tiny[4];
    assert_int_equal(bt_get_flag("placement", tiny, sizeof tiny), BT_OK);
    assert_string_equal(tiny, "ten");
}

static void bad_values_say_what_is_allowed(void **state) {
    (void)state;
    expect_refused("soft_placement", "maybe", BT_INVALID_ARGUMENT, "it takes on or off");
    expect_refused("soft_placement", "", BT_INVALID_ARGUMENT, "it takes on or off");
    expect_refused("transfers", "move", BT_INVALID_ARGUMENT, "it takes copy, log or error");
    expect_refused("memory_fraction", "1.5", BT_INVALID_ARGUMENT, "it takes 0 to 1");
    expect_refused("memory_fraction", "nan", BT_INVALID_ARGUMENT, "it takes 0 to 1");
    expect_refused("memory_fraction", "1e999", BT_INVALID_ARGUMENT, "it takes 0 to 1");
    expect_refused("memory_fraction", "0,4", BT_INVALID_ARGUMENT, "it takes 0 to 1");
    expect_refused("memory_limit", "lots", BT_INVALID_ARGUMENT, "such as 8G, 512M or 1GiB");
    expect_refused("memory_limit", "-1", BT_INVALID_ARGUMENT, "bytes");
    expect_refused("memory_limit", "8Gi", BT_INVALID_ARGUMENT, "bytes");
    expect_refused("memory_limit", "8GG", BT_INVALID_ARGUMENT, "bytes");
    expect_refused("memory_limit", "99999999999999999999", BT_INVALID_ARGUMENT, "bytes");
    expect_refused("memory_limit", "17000000000G", BT_INVALID_ARGUMENT, "bytes");
    expect_refused("flush_nodes", "0", BT_INVALID_ARGUMENT, "it takes 1 to 1e+09");
    expect_refused("flush_nodes", "1.5", BT_INVALID_ARGUMENT, "it takes 1 to");
    expect_refused("flush_nodes", "9223372036854775808", BT_INVALID_ARGUMENT, "it takes 1 to");
    expect_refused("flush_nodes", "99999999999999999999999", BT_INVALID_ARGUMENT, "it takes 1 to");
    expect_flag("flush_nodes", "10000");
    assert_int_equal(bt_set_flag(NULL, "1"), BT_INVALID_ARGUMENT);
    assert_int_equal(bt_set_flag("sync", NULL), BT_INVALID_ARGUMENT);
}

static void a_misspelt_flag_names_the_nearest(void **state) {
    (void)state;
    expect_refused("memmory_limit", "8G", BT_NOT_FOUND,
                   "unknown flag \"memmory_limit\"; did you mean \"memory_limit\"?");
    expect_refused("softplacement", "on", BT_NOT_FOUND, "did you mean \"soft_placement\"?");
    expect_refused("Memory_Grwth", "on", BT_NOT_FOUND, "did you mean \"memory_growth\"?");
    expect_refused("", "on", BT_NOT_FOUND, "unknown flag \"\"");
    char text[8];
    assert_int_equal(bt_get_flag("synch", text, sizeof text), BT_NOT_FOUND);
    assert_non_null(strstr(bt_error_text(), "did you mean \"sync\"?"));
}

static void the_environment_is_read_at_first_use(void **state) {
    (void)state;
    setenv("BERTH_FLAGS", " soft_placement = on , contexts=dev0->cuda0;dev1->cuda1,,memory_limit=2G,memory_limit=3G,",
           1);
    bti_flags_reset();
    assert_true(bti_flag_bool(BTI_FLAG_soft_placement));
    expect_flag("contexts", "dev0->cuda0;dev1->cuda1");
    expect_flag("memory_limit", "3G");
    assert_int_equal(bt_check_flags(), BT_OK);
    bt_flag_info info = BT_FLAG_INFO_INIT;
    assert_int_equal(bt_flag_describe(BTI_FLAG_soft_placement, &info), BT_OK);
    assert_string_equal(info.origin, "BERTH_FLAGS");
    assert_int_equal(bt_set_flag("soft_placement", "off"), BT_OK);
    assert_int_equal(bt_flag_describe(BTI_FLAG_soft_placement, &info), BT_OK);
    assert_string_equal(info.origin, "program");
    assert_false(bti_flag_bool(BTI_FLAG_soft_placement));
    assert_string_equal(log_text, "");
}

static void the_program_wins_even_when_it_comes_first(void **state) {
    (void)state;
    setenv("BERTH_FLAGS", "transfers=log", 1);
    bti_flags_reset();
    assert_int_equal(bt_set_flag("transfers", "error"), BT_OK);
    expect_flag("transfers", "error");
}

static void a_fault_in_the_environment_is_kept_and_logged_once(void **state) {
    (void)state;
    setenv("BERTH_FLAGS", "memmory_limit=8G,strict=on,transfers=move,lonely", 1);
    bti_flags_reset();
    assert_true(bti_flag_bool(BTI_FLAG_strict)); /* the good ones hold */
    assert_true(bti_flag_bool(BTI_FLAG_strict));
    assert_string_equal(
        log_text, "BERTH_FLAGS: unknown flag \"memmory_limit\"; did you mean \"memory_limit\"?\n"
                  "BERTH_FLAGS: flag \"transfers\" cannot be \"move\": it takes copy, log or error\n"
                  "BERTH_FLAGS: \"lonely\" has no value; write name=value, and join what is in one value by \";\"\n");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(bt_check_flags(), BT_NOT_FOUND);
        assert_non_null(strstr(bt_error_text(), "did you mean \"memory_limit\"?"));
    }
}

static void flags_are_separated_by_commas(void **state) {
    (void)state;
    setenv("BERTH_FLAGS", "soft_placement=on; transfers=log", 1);
    bti_flags_reset();
    assert_int_equal(bt_check_flags(), BT_INVALID_ARGUMENT);
    assert_non_null(strstr(bt_error_text(), "separated by \",\", not by \";\": write \",transfers=...\""));
    setenv("BERTH_FLAGS", "devices=sim:gpu*2;strict=on", 1);
    bti_flags_reset();
    assert_int_equal(bt_check_flags(), BT_INVALID_ARGUMENT);
    assert_non_null(strstr(bt_error_text(), "write \",strict=...\""));
    assert_false(bti_flag_bool(BTI_FLAG_strict));
}

static void berth_sync(void **state) {
    (void)state;
    setenv("BERTH_SYNC", "1", 1);
    bti_flags_reset();
    assert_true(bti_flag_bool(BTI_FLAG_sync));
    bt_flag_info info = BT_FLAG_INFO_INIT;
    assert_int_equal(bt_flag_describe(BTI_FLAG_sync, &info), BT_OK);
    assert_string_equal(info.origin, "BERTH_SYNC");
    setenv("BERTH_FLAGS", "sync=off", 1);
    bti_flags_reset();
    assert_false(bti_flag_bool(BTI_FLAG_sync));
}

static void too_late_is_refused(void **state) {
    (void)state;
    assert_int_equal(bt_set_flag("devices", "sim:gpu*2"), BT_OK);
    bti_flags_pass(BTI_BEFORE_QUERY);
    expect_refused("devices", "sim:gpu*4", BT_FAILED_PRECONDITION, "must be set before the first device query");
    assert_int_equal(bt_set_flag("memory_limit", "1G"), BT_OK);
    bti_flags_pass(BTI_BEFORE_OPEN);
    expect_refused("memory_limit", "2G", BT_FAILED_PRECONDITION, "before the first use of a device");
    assert_int_equal(bt_set_flag("transfers", "log"), BT_OK);
    expect_flag("memory_limit", "1G");
    bti_flags_pass(BTI_ANY_TIME);
    assert_int_equal(bt_set_flag("memory_limit", "2G"), BT_OK);
}

static void changes_are_counted(void **state) {
    (void)state;
    uint64_t before = bti_flag_changes(BTI_FLAG_sim_fault);
    assert_false(bti_flag_bool(BTI_FLAG_sim_fault));
    assert_int_equal(bt_set_flag("sim_fault", "launch:1"), BT_OK);
    assert_true(bti_flag_bool(BTI_FLAG_sim_fault));
    assert_int_equal(bti_flag_changes(BTI_FLAG_sim_fault), before + 1);
}

static void written_floats_read_back(void **state) {
    (void)state;
    static const double values[] = {0, 1, 0.4, 0.1, 1.0 / 3, 1e-7, 123456789.125, 1e15, 0.30000000000000004};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char text[64];
        double back;
        bti_write_float(text, sizeof text, values[i]);
        assert_true(bti_read_float(text, strlen(text), &back));
        assert_true(fabs(back - values[i]) <= 1e-15 * fabs(values[i]));
    }
}

static void memory_may_fail_at_any_point(void **state) {
    (void)state;
    setenv("BERTH_FLAGS", "memmory_limit=8G,contexts=dev0->cuda0,transfers=move", 1);
    for (uint64_t nth = 1; nth < 60; nth++) {
        bti_flags_reset();
        bti_alloc_fail_at(nth, false);
        bt_status status = bt_check_flags();
        assert_true(status == BT_NOT_FOUND || status == BT_RESOURCE_EXHAUSTED);
        bti_free(bti_flag_text(BTI_FLAG_contexts));
        (void)!bt_set_flag("default_device", "gpu:0");
        bti_alloc_fail_at(0, false);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
    const struct CMUnitTest tests[] = {
        TEST(defaults_are_as_the_table_writes_them),
        TEST(values_of_every_type),
        TEST(bad_values_say_what_is_allowed),
        TEST(a_misspelt_flag_names_the_nearest),
        TEST(the_environment_is_read_at_first_use),
        TEST(the_program_wins_even_when_it_comes_first),
        TEST(a_fault_in_the_environment_is_kept_and_logged_once),
        TEST(flags_are_separated_by_commas),
        TEST(berth_sync),
        TEST(too_late_is_refused),
        TEST(changes_are_counted),
        TEST(written_floats_read_back),
        TEST(memory_may_fail_at_any_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

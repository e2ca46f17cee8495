/* The energy of the CPUs, from fake powercap trees: what is added, what goes round, what cannot be read, and nonsense. */
#include "drivers/cpu/energy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <berth/flags.h>

#include "support/powercap.h"

#define SECOND ((uint64_t)1000000000)

static uint64_t now_ns = 100 * SECOND, since_ns;
static bti_str reason;

static void expect_reason(const char *part) {
    if (!strstr(bti_str_text(&reason), part)) fail_msg("\"%s\" does not say \"%s\"", bti_str_text(&reason), part);
}

static bool read_at(double seconds_later, double *joules) {
    bti_str_free(&reason);
    now_ns += (uint64_t)(seconds_later * 1e9);
    bti_cpu_energy_set_time(now_ns);
    return bti_cpu_energy(0, joules, &since_ns, &reason);
}

static double joules_at(double seconds_later) {
    double joules = -1;
    if (!read_at(seconds_later, &joules)) fail_msg("%s", reason.text);
    return joules;
}

static void expect_unknown(const char *text) {
    double joules;
    assert_false(read_at(1, &joules));
    expect_reason(text);
    assert_null(strchr(reason.text, '\n'));
}

/* Of two processors, one with memory that is counted apart. */
static int begin(void **state) {
    (void)state;
    new_powercap();
    put_zone("intel-rapl:0", "package-0", 1000, 100);
    put_zone("intel-rapl:0:0", "core", 1000, 50);
    put_zone("intel-rapl:0:1", "uncore", 1000, 20);
    put_zone("intel-rapl:0:2", "dram", 1000, 10);
    put_zone("intel-rapl:1", "package-1", 1000, 200);
    put_zone("intel-rapl:2", "psys", 1000, 400);
    put_zone("intel-rapl-mmio:0", "package-0", 1000, 100);
    assert_int_equal(bt_set_flag("powercap", powercap), BT_OK);
    return 0;
}

static int end(void **state) {
    (void)state;
    drop_powercap();
    bti_str_free(&reason);
    bti_cpu_energy_set_time(0);
    return bt_set_flag("powercap", "") != BT_OK;
}

static void parts_are_not_added_twice(void **state) {
    (void)state;
    double first = joules_at(0);
    static const char *const contained[] = {"intel-rapl:0:0", "intel-rapl:0:1", "intel-rapl:2", "intel-rapl-mmio:0"};
    for (size_t i = 0; i < sizeof contained / sizeof *contained; i++) put_joules(contained[i], 900);
    assert_true(joules_at(1) == first);
    put_joules("intel-rapl:0", 101);
    put_joules("intel-rapl:0:2", 10.5);
    put_joules("intel-rapl:1", 203);
    assert_true(joules_at(1) - first > 4.4999 && joules_at(0) - first < 4.5001);
}

static void counters_go_round(void **state) {
    (void)state;
    put_joules("intel-rapl:0", 999);
    double first = joules_at(0);
    uint64_t begun = now_ns;
    put_joules("intel-rapl:0", 2);
    double second = joules_at(1);
    assert_true(second - first > 2.9999 && second - first < 3.0001);
    assert_true(since_ns <= begun); /* nothing is missing */
    joules_at(1.9);
    assert_true(since_ns <= begun);
    joules_at(3); /* 1000 J at 500 W: it may have gone round twice */
    assert_true(since_ns == now_ns);
}

static void missing_rights_are_told(void **state) {
    (void)state;
    char path[200];
    bool is_root = !geteuid(); /* who reads everything */
    snprintf(path, sizeof path, "%s/intel-rapl:1/energy_uj", powercap);
    assert_int_equal(chmod(powercap, 0755), 0);
    assert_int_equal(chmod(path, 0), 0);
    if (is_root) assert_int_equal(seteuid(65534), 0);
    expect_unknown("may be read by root only");
    expect_reason("sudo chmod a+r");
    if (is_root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(path, 0600), 0);
    joules_at(1);
}

static void nothing_to_read_is_told(void **state) {
    (void)state;
    char missing[100];
    drop_powercap();
    new_powercap();
    assert_int_equal(bt_set_flag("powercap", powercap), BT_OK);
    expect_unknown("shows no processor");
    put_zone("intel-rapl:0", "psys", 1000, 1);
    expect_unknown("shows no processor");
    snprintf(missing, sizeof missing, "%s/not there", powercap);
    assert_int_equal(bt_set_flag("powercap", missing), BT_OK);
    expect_unknown("No such file or directory");
    char lengthy[700];
    memset(lengthy, 'x', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = '\0';
    assert_int_equal(bt_set_flag("powercap", lengthy), BT_OK);
    expect_unknown("too long");
}

static void nonsense_is_told(void **state) {
    (void)state;
    static const char *const nonsense[] = {
        "",        "\n",
        "-1\n",    " 12\n",
        "12 13\n", "0x12\n",
        "1e3\n",   "99999999999999999999999\n",
        "\x1b[2J", "12345678901234567890123456789012345678901234567890123456789012345678901234567890\n"};
    double first = joules_at(0);
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        put_text("intel-rapl:1", "energy_uj", nonsense[i]);
        expect_unknown("which is no number of microjoules");
        assert_null(strchr(reason.text, '\x1b'));
    }
    put_joules("intel-rapl:1", 1001);
    expect_unknown("above its greatest value");
    put_joules("intel-rapl:1", 210);
    assert_true(joules_at(1) > first);
    assert_true(since_ns == now_ns); /* what it used meanwhile is not known */
    put_text("intel-rapl:0", "max_energy_range_uj", "none");
    put_text("intel-rapl:1", "energy_uj", "?");
    expect_unknown("no number");
    put_joules("intel-rapl:1", 210);
    expect_unknown("max_energy_range_uj says \"none\"");
}

/* A processor that is switched off, a pipe that would never answer, and more zones than fit. */
static void trees_may_change(void **state) {
    (void)state;
    char path[200];
    joules_at(0);
    snprintf(path, sizeof path, "%s/intel-rapl:1/energy_uj", powercap);
    assert_int_equal(unlink(path), 0);
    expect_unknown("cannot be read");
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_unknown("says \"\"");
    assert_int_equal(unlink(path), 0);
    put_joules("intel-rapl:1", 1);
    joules_at(1);
    for (int i = 3; i < 70; i++) {
        char zone[40];
        snprintf(zone, sizeof zone, "intel-rapl:%d", i);
        put_zone(zone, "package-9", 1000, 1);
    }
    joules_at(1); /* those that were listed */
    assert_int_equal(bt_set_flag("powercap", "/"), BT_OK);
    expect_unknown("shows no processor");
    assert_int_equal(bt_set_flag("powercap", powercap), BT_OK);
    expect_unknown("more than 64 zones");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_are_not_added_twice, begin, end),
        cmocka_unit_test_setup_teardown(counters_go_round, begin, end),
        cmocka_unit_test_setup_teardown(missing_rights_are_told, begin, end),
        cmocka_unit_test_setup_teardown(nothing_to_read_is_told, begin, end),
        cmocka_unit_test_setup_teardown(nonsense_is_told, begin, end),
        cmocka_unit_test_setup_teardown(trees_may_change, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

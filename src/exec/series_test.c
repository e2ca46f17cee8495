/* Loops whose steps the device runs by itself, beside the same loops launched step by step: the same bits, and which loops these are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "device/table.h"
#include "support/settings.h"

/* --- the driver of the CPU, counted ----------------------------------------------------------------------------------- */

static bti_driver counted;
static void (*launch_series)(void *device, bti_series *series); /* the driver's */
static int64_t calls, steps_run;

static void count_series(void *device, bti_series *series) {
    launch_series(device, series);
    calls++;
    steps_run += series->run;
}

static void begin_counted(const char *flags, bool with_series) {
    begin(flags);
    bt_device *cpu = bti_registry_at(bti_cpu_device_id());
    counted = *cpu->driver;
    launch_series = counted.launch_series;
    counted.launch_series = with_series ? count_series : NULL;
    cpu->driver = &counted;
    calls = steps_run = 0;
}

/* --- bodies ------------------------------------------------------------------------------------------------------------- */

enum { CARRIED = 3, ROWS = 3, COLUMNS = 2, SIZE = ROWS * COLUMNS };

/* Each changes two arrays [3, 2] and may read the number of the step, and a row [3, 2]. */
typedef void change(bt_array **c, bt_array *row);

static void both_scaled(bt_array **c, bt_array *row) {
    c[0] = bt_add(bt_mul(c[0], bt_num(0.75)), row), c[1] = bt_sin(c[1]);
}
static void exchanged(bt_array **c, bt_array *row) {
    bt_array *first = c[0];
    c[0] = bt_add(c[1], row), c[1] = bt_mul(first, bt_num(0.5));
}
static void one_of_two(bt_array **c, bt_array *row) {
    bt_array *first = c[0];
    c[0] = bt_add(bt_mul(first, bt_num(0.5)), row), c[1] = bt_sub(bt_cos(first), c[1]);
}
static void read_after_it_is_written(bt_array **c, bt_array *row) {
    bt_array *first = c[0];
    c[0] = bt_tanh(bt_add(first, row));
    c[1] = bt_add(bt_mul(bt_cos(c[1]), bt_sum(c[0], BT_ALL, false)), first);
}
static void turned(bt_array **c, bt_array *row) {
    c[0] = bt_add(bt_sin(c[1]), bt_reshape(bt_transpose(bt_sub(c[0], row)), ROWS, COLUMNS));
    c[0] = bt_tanh(c[0]);
}
static void summed_columns(bt_array **c, bt_array *row) {
    c[1] = bt_tanh(bt_add(bt_add(c[1], row), bt_sum(c[1], BT_AXES(0), true)));
}
static void drawn(bt_array **c, bt_array *row) {
    bt_array *key = bt_add(bt_key(7), bt_cast(c[2], BT_U32));
    c[0] = bt_add(bt_mul(c[0], bt_num(0.5)), bt_mul(row, bt_uniform(key, BT_F32, ROWS, COLUMNS)));
}
static void unchanged(bt_array **c, bt_array *row) { (void)c, (void)row; }

static void multiplied(bt_array **c, bt_array *row) {
    c[0] = bt_tanh(bt_add(bt_matmul(c[0], bt_ones(BT_F32, COLUMNS, COLUMNS)), row));
}
static void row_set(bt_array **c, bt_array *row) {
    c[0] = bt_update_slice_axis(c[0], bt_sum(row, BT_AXES(0), true), bt_mod(c[2], bt_i32(ROWS)), 0);
}
static int callbacks;
static void note_callback(const bt_elements *value, void *data) {
    (void)value, (void)data;
    callbacks++;
}
static void told(bt_array **c, bt_array *row) { c[0] = bt_add(bt_debug_callback(note_callback, NULL, c[0]), row); }
static void negated(bt_array *const *args, bt_array **results, void *data) {
    (void)data;
    results[0] = bt_neg(args[0]);
}
static void halved(bt_array *const *args, bt_array **results, void *data) {
    (void)data;
    results[0] = bt_mul(args[0], bt_num(0.5));
}
static void branched(bt_array **c, bt_array *row) {
    bt_array *sum = bt_add(c[0], row);
    (void)bt_cond(bt_gt(bt_sum(sum, BT_ALL, false), bt_num(0)), negated, halved, NULL, &sum, 1, c, 1);
}
static void decay(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)x, (void)y, (void)data;
    carry[0] = bt_mul(carry[0], bt_num(0.875));
}
enum { INNER = 9 };
static void nested(bt_array **c, bt_array *row) {
    c[0] = bt_add(c[0], row);
    (void)bt_scan(decay, NULL, INNER, c, 1, NULL, 0, NULL, 0);
}
static void large(bt_array **c, bt_array *row) { /* is cut over cores */
    bt_array *much = bt_sin(bt_add(bt_arange(0, 1 << 18, 1, BT_F32), bt_sum(c[0], BT_ALL, false)));
    c[0] = bt_add(row, bt_max(much, BT_ALL, false));
}
static void many(bt_array **c, bt_array *row) { /* more launches than a series has */
    for (int i = 0; i < BTI_SERIES_LAUNCHES + 1; i++)
        c[0] = bt_tanh(bt_add(row, bt_sum(c[0], i % 2 ? BT_AXES(0) : BT_AXES(1), true)));
}

typedef enum runs { RUNS, RUNS_INNER, RUNS_NONE } runs;
typedef struct body {
    const char *name;
    change *change;
    runs runs;
} body;
static const body bodies[] = {{"both_scaled", both_scaled, RUNS},
                              {"exchanged", exchanged, RUNS},
                              {"one_of_two", one_of_two, RUNS},
                              {"read_after_it_is_written", read_after_it_is_written, RUNS},
                              {"turned", turned, RUNS},
                              {"summed_columns", summed_columns, RUNS},
                              {"drawn", drawn, RUNS},
                              {"unchanged", unchanged, RUNS},
                              {"multiplied", multiplied, RUNS_NONE},
                              {"row_set", row_set, RUNS_NONE},
                              {"told", told, RUNS_NONE},
                              {"branched", branched, RUNS_NONE},
                              {"nested", nested, RUNS_INNER},
                              {"large", large, RUNS_NONE},
                              {"many", many, RUNS_NONE}};

/* --- loops -------------------------------------------------------------------------------------------------------------- */

typedef enum way { SCAN, SCAN_REVERSE, SCAN_READS, SCAN_WRITES, SCAN_CARRIES, WHILE, WHILE_MOST, WAYS } way;

typedef struct loop {
    const body *body;
    way way;
    int steps;
} loop;

static bool reads_rows(way w) { return w <= SCAN_READS; }
static bool writes_rows(way w) { return w <= SCAN_REVERSE || w == SCAN_WRITES; }

static void while_step(bt_array **carry, void *data) {
    const loop *l = data;
    l->body->change(carry, bt_mul(carry[1], bt_num(0.25)));
    carry[2] = bt_add(carry[2], bt_i32(1));
}
static void scan_step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    const loop *l = data;
    bt_array *row = reads_rows(l->way) ? x[0] : bt_mul(carry[1], bt_num(0.25));
    l->body->change(carry, row);
    carry[2] = bt_add(carry[2], bt_i32(1));
    if (writes_rows(l->way)) y[0] = bt_sub(carry[1], row);
}
static bt_array *is_below(bt_array *const *carry, void *data) {
    const loop *l = data; /* with a bound of steps, the test never ends it */
    return bt_lt(carry[2], bt_i32(l->way == WHILE_MOST ? 1 << 30 : l->steps));
}

typedef struct results {
    float carried[2][SIZE];
    int32_t count;
    float *rows; /* [steps][SIZE]; of scans */
    int64_t calls, steps_run;
    uint64_t copied;
    int callbacks;
} results;

static bt_status record(const loop *l, bt_array **carry, bt_array **rows) {
    bt_array *xs;
    carry[0] = bt_uniform(bt_key(1), BT_F32, ROWS, COLUMNS), carry[1] = bt_uniform(bt_key(2), BT_F32, ROWS, COLUMNS);
    carry[2] = bt_i32(0);
    switch (l->way) {
    case WHILE: return bt_while(is_below, while_step, (void *)l, 0, carry, CARRIED);
    case WHILE_MOST: return bt_while(is_below, while_step, (void *)l, l->steps, carry, CARRIED);
    default: break;
    }
    xs = bt_sub(bt_uniform(bt_key(3), BT_F32, l->steps, ROWS, COLUMNS), bt_num(0.5));
    return (l->way == SCAN_REVERSE ? bt_scan_reverse : bt_scan)(scan_step, (void *)l, l->steps, carry, CARRIED, &xs,
                                                                reads_rows(l->way), rows, writes_rows(l->way));
}

static bt_status run(const loop *l, results *r) {
    bt_status status = BT_OK;
    int64_t calls_before = calls, run_before = steps_run;
    uint64_t copied = bti_device_copied(bti_cpu_device_id(), -1);
    callbacks = 0;
    BT_SCOPE {
        bt_array *carry[CARRIED], *rows = NULL;
        status = record(l, carry, &rows);
        for (int i = 0; i < 2 && status == BT_OK; i++) status = bt_read(carry[i], r->carried[i], sizeof *r->carried);
        if (status == BT_OK) status = bt_read(carry[2], &r->count, sizeof r->count);
        if (status == BT_OK && rows) status = bt_read(rows, r->rows, (size_t)l->steps * SIZE * sizeof *r->rows);
    }
    r->calls = calls - calls_before;
    r->steps_run = steps_run - run_before;
    r->copied = bti_device_copied(bti_cpu_device_id(), -1) - copied;
    r->callbacks = callbacks;
    return status;
}

static results new_results(int steps) { return (results){.rows = calloc((size_t)steps * SIZE + 1, sizeof(float))}; }

static void expect_same(const loop *l, const results *got, const results *wanted, const char *flags) {
    bool same = !memcmp(got->carried, wanted->carried, sizeof got->carried) && got->count == wanted->count &&
                !memcmp(got->rows, wanted->rows, (size_t)l->steps * SIZE * sizeof *got->rows);
    if (!same || got->copied != wanted->copied || got->callbacks != wanted->callbacks)
        fail_msg("%s, way %d, %d steps, \"%s\": bits %d, %llu and %llu bytes copied, %d and %d callbacks",
                 l->body->name, l->way, l->steps, flags, same, (unsigned long long)got->copied,
                 (unsigned long long)wanted->copied, got->callbacks, wanted->callbacks);
}

/* The first two steps are launched, and one after each 1024. */
static int64_t series_steps(int64_t steps, int64_t least) {
    int64_t all = 0;
    for (int64_t t = 2, more; (more = steps - t) >= least; t += more + 1) {
        if (more > 1024) more = 1024;
        all += more;
    }
    return all;
}

static void expect_run(const loop *l, const results *r, const char *flags) {
    int64_t wanted = 0;
    if (l->body->runs == RUNS) wanted = series_steps(l->steps, l->way == WHILE ? 0 : 5);
    if (l->body->runs == RUNS_INNER) wanted = l->steps * series_steps(INNER, 5);
    if (r->steps_run != wanted)
        fail_msg("%s, way %d, %d steps, \"%s\": the device ran %lld steps, not %lld", l->body->name, l->way, l->steps,
                 flags, (long long)r->steps_run, (long long)wanted);
}

static void compare(const loop *l, const char *flags, bool runs_as_usual) {
    results wanted = new_results(l->steps), got = new_results(l->steps);
    begin_counted(flags, false);
    OK(run(l, &wanted));
    assert_int_equal(calls, 0);
    begin_counted(flags, true);
    OK(run(l, &got));
    expect_same(l, &got, &wanted, flags);
    if (runs_as_usual) expect_run(l, &got, flags);
    free(wanted.rows);
    free(got.rows);
}

static void all_bodies_in_all_ways(void **state) {
    for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++)
        for (way w = 0; w < WAYS; w++) compare(&(loop){&bodies[b], w, 11}, "kernels=blocks", true);
}

static void compiled_code_too(void **state) {
    for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++)
        compare(&(loop){&bodies[b], b % 2 ? SCAN : WHILE, 7}, "kernels=compiled", true);
}

static void all_numbers_of_steps(void **state) {
    static const int around[] = {64, 65, 66, 67, 1025, 1026, 1027, 1028, 1029, 1030, 1031, 2051, 2052, 2053, 2056};
    for (int steps = 0; steps < 9; steps++)
        for (way w = 0; w < (steps ? WAYS : WHILE_MOST); w++) /* at most 0 steps: any number */
            for (int b = 0; b < 3; b++) compare(&(loop){&bodies[b], w, steps}, "kernels=blocks", true);
    for (size_t n = 0; n < sizeof around / sizeof *around; n++)
        for (way w = 0; w < WAYS; w++) compare(&(loop){&bodies[n % 3], w, around[n]}, "kernels=blocks", true);
}

/* A kernel per operation: several launches in each step. */
static void several_launches(void **state) {
    for (way w = 0; w < WAYS; w++) compare(&(loop){&bodies[1], w, 20}, "kernels=blocks,fuse=off", true);
}

/* --- what has the steps launched one by one ------------------------------------------------------------------------------- */

static void not_while_kernels_are_checked(void **state) {
    results r = new_results(20);
    begin_counted("check_kernels=on", true);
    OK(run(&(loop){&bodies[0], SCAN, 20}, &r));
    assert_int_equal(r.steps_run, 0);
    assert_true(r.calls > 0);
    OK(bt_set_flag("check_kernels", "off"));
    OK(bt_set_flag("kernels", "blocks"));
    OK(run(&(loop){&bodies[0], SCAN, 20}, &r));
    assert_int_equal(r.steps_run, series_steps(20, 5));
    free(r.rows);
}

/* A profile counts each launch. */
static void not_while_a_trace_is_recorded(void **state) {
    const loop l = {&bodies[0], WHILE, 20};
    results wanted = new_results(20), got = new_results(20);
    begin_counted("kernels=blocks", true);
    OK(run(&l, &wanted));
    bt_profile *profile = bt_profile_start();
    char *text = NULL;
    OK(run(&l, &got));
    OK(bt_profile_stop(profile, NULL, &text));
    expect_same(&l, &got, &wanted, "profile");
    assert_int_equal(got.calls, 0);
    const char *row = strstr(text, "\n  lt ");
    if (!row || atoi(row + strlen("\n  lt ")) != 21) fail_msg("not 21 tests in %s", text);
    bt_free(text);
    OK(run(&l, &got));
    expect_run(&l, &got, "after a profile");
    free(wanted.rows);
    free(got.rows);
}

/* Kernels run in blocks, and count for it, until compiling them pays. */
static void not_before_it_is_settled_what_runs(void **state) {
    enum { MANY = 200000 };
    results r = new_results(0);
    begin_counted("kernels=auto,cache=off", true);
    OK(run(&(loop){&bodies[0], WHILE, 500}, &r));
    assert_int_equal(r.steps_run, 0);
    assert_true(r.calls >= 7 && r.calls <= 9); /* not before each step */
    OK(run(&(loop){&bodies[0], WHILE, MANY}, &r));
    assert_int_equal(r.count, MANY);
    assert_true(r.steps_run > 0 && r.steps_run < MANY - 500);
    free(r.rows);
}

static void not_on_other_devices(void **state) {
    results wanted = new_results(20), got = new_results(20);
    const loop l = {&bodies[0], SCAN, 20};
    begin_counted("kernels=blocks", true);
    OK(run(&l, &wanted));
    begin("devices=sim:gpu*1,kernels=blocks");
    calls = steps_run = 0;
    OK(run(&l, &got));
    got.copied = wanted.copied; /* here results are */
    expect_same(&l, &got, &wanted, "sim");
    assert_int_equal(got.calls, 0);
    free(wanted.rows);
    free(got.rows);
}

/* Each allocation fails once: the loop fails, or has its results. */
static void memory_is_short(void **state) {
    const loop l = {&bodies[1], SCAN, 20};
    results wanted = new_results(20), got = new_results(20);
    begin_counted("kernels=blocks", true);
    OK(run(&l, &wanted));
    int64_t without = 0;
    bool failed = true;
    for (uint64_t nth = 1; failed; nth++) {
        bti_alloc_fail_at(nth, false);
        bt_status status = run(&l, &got);
        failed = bti_alloc_count() >= nth;
        bti_alloc_fail_at(0, false);
        if (status == BT_OK) {
            expect_same(&l, &got, &wanted, "memory");
            without += got.calls == 0;
        } else
            assert_int_equal(status, BT_RESOURCE_EXHAUSTED);
        bt_error_clear();
    }
    assert_true(without > 0); /* once it was the memory of the series */
    free(wanted.rows);
    free(got.rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(all_bodies_in_all_ways, end),
        cmocka_unit_test_teardown(compiled_code_too, end),
        cmocka_unit_test_teardown(all_numbers_of_steps, end),
        cmocka_unit_test_teardown(several_launches, end),
        cmocka_unit_test_teardown(not_while_kernels_are_checked, end),
        cmocka_unit_test_teardown(not_while_a_trace_is_recorded, end),
        cmocka_unit_test_teardown(not_before_it_is_settled_what_runs, end),
        cmocka_unit_test_teardown(not_on_other_devices, end),
        cmocka_unit_test_teardown(memory_is_short, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Series of launches: where their operands lie in each step, where they end, and when the driver runs none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "drivers/cpu/engine.h"

/* out = in + in */
static void *load_doubling(void) {
    void *loaded;
    bti_kernel k = {.inner = 1, .input_count = 1, .output_count = 1, .instr_count = 2};
    k.instrs[0] = (bti_instr){.op = BTI_OP_leaf, .dtype = BT_F32};
    k.instrs[1] = (bti_instr){.op = BTI_OP_add, .dtype = BT_F32};
    k.operands[0] = (bti_kernel_operand){.dtype = BT_F32, .moves = 1, .unit = 1};
    k.operands[1] = (bti_kernel_operand){.dtype = BT_F32, .moves = 1, .unit = 1, .value = 1};
    assert_int_equal(bti_cpu_program_load(NULL, &(bti_program_source){.kernel = &k}, &loaded), BT_OK);
    return loaded;
}
static void free_program(void *loaded) {
    bti_cpu_program_free(NULL, &(bti_program_source){.kernel = bti_cpu_program_kernel(loaded)}, loaded);
}

static uint64_t at(const void *memory) { return (uint64_t)(uintptr_t)memory; }

/* Of one launch of one element, from x to y and from y to x by turns. */
static bti_series *new_series(void *loaded, const float *x, const float *y, int64_t most) {
    bti_series *series = bti_alloc(sizeof *series + sizeof *series->launches);
    assert_non_null(series);
    *series = (bti_series){.launch_count = 1, .tested = -1, .most = most};
    series->launches[0] = (bti_series_launch){.program = loaded,
                                              .operand_count = 2,
                                              .box = {.extent = {1}, .stride = {{4}, {4}}},
                                              .address = {{at(x), at(y)}, {at(y), at(x)}}};
    return series;
}

static void set(const char *flag, const char *value) { assert_int_equal(bt_set_flag(flag, value), BT_OK); }

static void what_is_carried_lies_in_two_places(void **state) {
    set("kernels", "blocks");
    void *loaded = load_doubling();
    for (int64_t steps = 0; steps < 6; steps++) {
        float x = 1, y = 0;
        bti_series *series = new_series(loaded, &x, &y, steps);
        bti_cpu_launch_series(NULL, series);
        assert_int_equal(series->run, steps);
        assert_false(series->ended);
        assert_true((steps % 2 ? y : x) == (float)(1 << steps));
        bti_free(series);
    }
    free_program(loaded);
}

static void rows_follow_one_another(void **state) {
    float from[] = {1, 2, 3, 4, 5, 6}, to[6] = {0};
    set("kernels", "blocks");
    void *loaded = load_doubling();
    bti_series *series = new_series(loaded, from, to, 5);
    bti_series_launch *launch = &series->launches[0];
    launch->moves = true;
    launch->move[0] = launch->move[1] = 2 * sizeof *from;
    launch->address[1][0] = at(&from[1]);
    launch->address[1][1] = at(&to[1]);
    bti_cpu_launch_series(NULL, series);
    assert_int_equal(series->run, 5);
    assert_memory_equal(to, ((float[]){2, 4, 6, 8, 10, 0}), sizeof to);
    bti_free(series);
    free_program(loaded);
}

/* A step's launches come before its test, or after it. */
static void a_test_ends_it(void **state) {
    set("kernels", "blocks");
    void *loaded = load_doubling();
    for (int tested = 0; tested < 2; tested++) {
        float x = 1;
        uint8_t byte = 1;
        bti_series *series = new_series(loaded, &x, &x, 3);
        series->launches[0].address[1][0] = series->launches[0].address[1][1] = at(&x);
        series->tested = tested;
        series->test = at(&byte);
        bti_cpu_launch_series(NULL, series);
        assert_int_equal(series->run, 3);
        assert_false(series->ended);
        assert_true(x == 8);
        byte = 0;
        x = 1;
        bti_cpu_launch_series(NULL, series);
        assert_int_equal(series->run, 0);
        assert_true(series->ended);
        assert_true(x == (tested ? 2 : 1));
        bti_free(series);
    }
    free_program(loaded);
}

/* It ends when the lowest byte of what a step makes is 0. */
static void a_test_is_read_in_each_step(void **state) {
    float x = 0x1p-148f; /* of the bits 2 */
    set("kernels", "blocks");
    void *loaded = load_doubling();
    bti_series *series = new_series(loaded, &x, &x, 100);
    series->launches[0].address[1][0] = series->launches[0].address[1][1] = at(&x);
    series->tested = 1;
    series->test = at(&x);
    bti_cpu_launch_series(NULL, series);
    assert_true(series->ended);
    assert_int_equal(series->run, 6);
    assert_true(x == 0x1p-141f);
    bti_free(series);
    free_program(loaded);
}

static int64_t steps_run(void *loaded, int64_t extent) {
    static float x[1 << 18], y[1 << 18];
    bti_series *series = new_series(loaded, x, y, 4);
    series->launches[0].box.extent[0] = extent;
    bti_cpu_launch_series(NULL, series);
    int64_t run = series->run;
    bti_free(series);
    return run;
}

static void what_may_change_is_left_to_launches(void **state) {
    bti_text_wanted wanted;
    bti_str no_text = {.failed = true};
    float x[1] = {0}, y[1];
    bti_box box = {.extent = {1}, .address = {at(x), at(y)}, .stride = {{4}, {4}}};
    void *loaded = load_doubling();
    set("kernels", "blocks");
    assert_int_equal(steps_run(loaded, 1), 4);
    assert_int_equal(steps_run(loaded, 1 << 18), 0); /* cut over cores */
    set("check_kernels", "on");
    assert_int_equal(steps_run(loaded, 1), 0);
    set("check_kernels", "off");
    set("kernels", "compiled");
    assert_int_equal(steps_run(loaded, 1), 0); /* it lacks a text */
    assert_int_equal(bti_cpu_launch_kernel(NULL, loaded, &box), BT_FAILED_PRECONDITION);
    assert_int_equal(steps_run(loaded, 1), 0);
    assert_true(bti_cpu_text_lacked(NULL, loaded, &wanted));
    assert_int_equal(bti_cpu_text_give(NULL, loaded, &wanted, &no_text), BT_OK);
    assert_int_equal(steps_run(loaded, 1), 4); /* there is none: blocks run for good */
    set("kernels", "auto");
    free_program(loaded);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_carried_lies_in_two_places),
        cmocka_unit_test(rows_follow_one_another),
        cmocka_unit_test(a_test_ends_it),
        cmocka_unit_test(a_test_is_read_in_each_step),
        cmocka_unit_test(what_may_change_is_left_to_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What launches take on a card by its model, beside figures that were computed by hand. */
#include "drivers/sim/sim_estimate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/flags.h"

static bti_sim_model model_of(const char *text) {
    bti_sim_model model = {0};
    size_t used;
    assert_int_equal(bti_sim_model_parse(text, strlen(text), &model, &used), BT_OK);
    assert_int_equal(used, strlen(text));
    return model;
}

static bti_operand dense(bt_dtype dtype, int rank, int64_t rows, int64_t columns) {
    bti_operand operand = {.dtype = dtype, .rank = rank, .shape = {rows, columns}, .stride = {columns, 1}};
    if (rank == 1) operand.stride[0] = 1;
    return operand;
}

static double ns_of_work(const bti_sim_model *model, const bti_work *work, int precision) {
    bti_sim_demand demand = bti_sim_demand_of_work(model, work, precision);
    return bti_sim_nanoseconds(model, &demand);
}

static double ns_of_product(const bti_sim_model *model, bt_dtype dtype, int64_t side, int precision) {
    bti_operand operand = dense(dtype, 2, side, side), inputs[2] = {operand, operand};
    return ns_of_work(model, &(bti_work){.op = BTI_OP_matmul, .input_count = 2, .inputs = inputs, .output = operand},
                      precision);
}

static void expect_near(double got, double wanted, double part) {
    if (got < wanted * (1 - part) || got > wanted * (1 + part)) fail_msg("%g ns, not %g", got, wanted);
}

/* 2 * 4096**3 operations at 67, 989 TFLOP/s...; the 1024 tiles of 128 x 128 are 8 waves of 132 multiprocessors, of 1056 tiles. Split along the inner
 * axis there are 16 times as many: 125 waves, 0.7 % above. */
static void products_reach_the_rate(void **state) {
    (void)state;
    bti_sim_model h200 = model_of("h200"), a100 = model_of("a100");
    const double operations = 2.0 * 4096 * 4096 * 4096, waves = 125 * 132 / 16384.0;
    expect_near(ns_of_product(&h200, BT_F32, 4096, BTI_MATMUL_HIGHEST), 1000 + operations / 67e3 * waves, 1e-9);
    expect_near(ns_of_product(&h200, BT_BF16, 4096, BTI_MATMUL_HIGHEST), 1000 + operations / 989e3 * waves, 1e-9);
    expect_near(ns_of_product(&h200, BT_F32, 4096, BTI_MATMUL_TF32), 1000 + operations / 494e3 * waves, 1e-9);
    expect_near(ns_of_product(&h200, BT_F64, 4096, BTI_MATMUL_HIGHEST), 1000 + operations / 67e3 * waves, 1e-9);
    expect_near(ns_of_product(&a100, BT_F32, 4096, BTI_MATMUL_HIGHEST), 1000 + operations / 19.5e3, 0.02);
    /* One tile keeps one multiprocessor busy: 1 / 132 of the rate. */
    expect_near(ns_of_product(&h200, BT_F32, 128, BTI_MATMUL_HIGHEST), 1000 + 2.0 * 128 * 128 * 128 / 67e3 * 132, 1e-9);
    /* What no library does takes four times as long. */
    expect_near(ns_of_product(&h200, BT_I32, 4096, BTI_MATMUL_HIGHEST), 1000 + operations / 67e3 * 4 * waves, 1e-9);
}

static void moves_reach_the_bandwidth(void **state) {
    (void)state;
    bti_sim_model h200 = model_of("h200"), rtx4090 = model_of("rtx4090");
    const int64_t count = 64 << 20;
    bti_operand x = dense(BT_F32, 1, count, 1), inputs[2] = {x, x};
    const bti_work add = {.op = BTI_OP_add, .input_count = 2, .inputs = inputs, .output = x};
    expect_near(ns_of_work(&h200, &add, 0), 1000 + 12.0 * (double)count / 4800, 1e-9);
    expect_near(ns_of_work(&rtx4090, &add, 0), 1000 + 12.0 * (double)count / 1008, 1e-9);
    inputs[1].stride[0] = 0; /* one element for all */
    expect_near(ns_of_work(&h200, &add, 0), 1000 + 8.0 * (double)count / 4800, 1e-3);
    bti_operand every_ninth = x;
    every_ninth.stride[0] = 9; /* each in a sector of its own */
    const bti_work copy = {.op = BTI_OP_copy, .input_count = 1, .inputs = &every_ninth, .output = x};
    expect_near(ns_of_work(&h200, &copy, 0), 1000 + 36.0 * (double)count / 4800, 1e-3);
    bti_sim_demand fill = bti_sim_demand_of_move(&h200, 0, 480e6);
    expect_near(bti_sim_nanoseconds(&h200, &fill), 1000 + 100e3, 1e-9);
}

/* Few elements: the start, and one load. */
static void little_work_takes_the_start(void **state) {
    (void)state;
    bti_sim_model h200 = model_of("h200");
    bti_operand x = dense(BT_F32, 1, 100, 1);
    const bti_work neg = {.op = BTI_OP_neg, .input_count = 1, .inputs = &x, .output = x};
    expect_near(ns_of_work(&h200, &neg, 0), 1000 + 600, 1e-9);
    bti_sim_model slow = model_of("h200{load_ns=900/start_ns=5000}");
    expect_near(ns_of_work(&slow, &neg, 0), 5000 + 900, 1e-9);
}

static void float64_is_slower(void **state) {
    (void)state;
    bti_sim_model h200 = model_of("h200"), rtx4090 = model_of("rtx4090");
    const int64_t count = 16 << 20;
    bti_operand x = dense(BT_F64, 1, count, 1);
    const bti_work sin64 = {.op = BTI_OP_sin, .input_count = 1, .inputs = &x, .output = x};
    /* 40 operations at 1/64 of 128 x 128 x 2.52e9 in a second; on h200 the memory takes longer. */
    const double instructions = (double)count * (40 * 64 + 2 + 8 / 2.0);
    expect_near(ns_of_work(&rtx4090, &sin64, 0), 1000 + instructions / (128 * 128 * 2.52), 1e-9);
    expect_near(ns_of_work(&h200, &sin64, 0), 1000 + 16.0 * (double)count / 4800, 1e-9);
}

/* A row or a few leave multiprocessors idle unless they are cut in parts, which takes a second kernel. */
static void long_rows_are_cut(void **state) {
    (void)state;
    bti_sim_model h200 = model_of("h200");
    const int64_t count = 64 << 20;
    bti_operand x = dense(BT_F32, 1, count, 1), one = dense(BT_F32, 1, 1, 1);
    const bti_attr whole = {.fold = {1}};
    const bti_work sum = {.op = BTI_OP_sum, .input_count = 1, .inputs = &x, .output = one, .attr = &whole};
    bti_sim_demand demand = bti_sim_demand_of_work(&h200, &sum, 0);
    assert_true(demand.kernels == 2);
    assert_true(demand.doubles == 2.0 * (double)count); /* summed in float64 */
    expect_near(bti_sim_nanoseconds(&h200, &demand), 2000 + 4.0 * (double)count / 4800, 0.05);
    bti_operand rows = dense(BT_F32, 2, 65536, 1024), sums = dense(BT_F32, 2, 65536, 1);
    const bti_attr last = {.fold = {2}};
    demand = bti_sim_demand_of_work(
        &h200, &(bti_work){.op = BTI_OP_sum, .input_count = 1, .inputs = &rows, .output = sums, .attr = &last}, 0);
    assert_true(demand.kernels == 1);
}

/* Boxes of one launch run side by side: the starts are not added up. */
static void boxes_share_a_start(void **state) {
    (void)state;
    bti_sim_model h200 = model_of("h200");
    bti_operand x = dense(BT_F32, 1, 1000, 1);
    const bti_work neg = {.op = BTI_OP_neg, .input_count = 1, .inputs = &x, .output = x};
    bti_sim_demand all = bti_sim_demand_of_work(&h200, &neg, 0), one = all;
    for (int i = 0; i < 9; i++) bti_sim_demand_add(&all, &one);
    assert_true(all.bytes == 10 * one.bytes);
    expect_near(bti_sim_nanoseconds(&h200, &all), 1600, 1e-9);
}

static void figures_are_read(void **state) {
    (void)state;
    bti_sim_model model;
    size_t used;
    model = model_of("A100{units=64/link=0/Memory=24.5}");
    assert_true(model.units == 64 && model.link == 0 && model.memory == 24.5 && model.bandwidth == 2039);
    assert_string_equal(model.description, "NVIDIA A100 by a model with units=64/link=0/Memory=24.5");
    assert_int_equal(bti_sim_model_parse("gpu*4", 5, &model, &used), BT_OK);
    assert_int_equal(used, 0);
    static const char *const bad[] = {"h200{units}",    "h200{units=}",     "h200{units=0}", "h200{unit=3}",
                                      "h200{units=-1}", "h200{units=1e99}", "h200{units=3",  "h200{=3}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (bti_sim_model_parse(bad[i], strlen(bad[i]), &model, &used) != BT_INVALID_ARGUMENT)
            fail_msg("%s is accepted", bad[i]);
    bt_error_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_reach_the_rate),
        cmocka_unit_test(moves_reach_the_bandwidth),
        cmocka_unit_test(little_work_takes_the_start),
        cmocka_unit_test(float64_is_slower),
        cmocka_unit_test(long_rows_are_cut),
        cmocka_unit_test(boxes_share_a_start),
        cmocka_unit_test(figures_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

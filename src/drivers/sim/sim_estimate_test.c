/* What launches take on a card and on cores by their models, beside figures that were computed by hand. */
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

/* --- cores ----------------------------------------------------------------------------------------------------------------- */

#define CORES                                                                                                      \
    "zen3{clock=2/lanes=10/bandwidth=10/unit_bandwidth=0/cache=1/cache_bandwidth=30/start_ns=100/product_ns=1000/" \
    "f32=0.1/"                                                                                                     \
    "load_ns=80/"

/* Operands of an addition, each in memory of its own. */
static double ns_of_add(const char *figures, int64_t count) {
    bti_sim_model model = model_of(figures);
    bti_operand x = dense(BT_F32, 1, count, 1), y = x, out = x;
    y.address = 1 << 30, out.address = 2u << 30;
    return ns_of_work(
        &model, &(bti_work){.op = BTI_OP_add, .input_count = 2, .inputs = (bti_operand[]){x, y}, .output = out}, 0);
}

static void cores_reach_the_bandwidth(void **state) {
    (void)state;
    const int64_t many = 4 << 20, fewer = 1 << 20;
    expect_near(ns_of_add(CORES "units=1}", many), 100 + 12.0 * (double)many / 10, 1e-9);
    /* Of 8 bytes that are read and 4 that are written the more take longer, if a core takes 4 bytes of one way in a nanosecond. */
    expect_near(ns_of_add(CORES "units=1/unit_bandwidth=4}", many), 100 + 8.0 * (double)many / 4, 1e-9);
    expect_near(ns_of_add(CORES "units=2/unit_bandwidth=4}", many), 100 + 12.0 * (double)many / 10, 1e-9);
    /* So little is written that it goes through the caches, which read what is there before. */
    expect_near(ns_of_add(CORES "units=1}", fewer), 100 + 16.0 * (double)fewer / 10, 1e-9);
    /* What the cache has room for is in no memory; of what is written three times as much is moved. */
    expect_near(ns_of_add(CORES "units=1/cache=32}", fewer), 100 + (8 + 3 * 4) * (double)fewer / 30, 1e-9);
    bti_sim_model model = model_of(CORES "units=1}");
    bti_sim_demand fill = bti_sim_demand_of_move(&model, 0, 48e6);
    expect_near(bti_sim_nanoseconds(&model, &fill), 100 + 2 * 48e6 / 10, 1e-9);
}

/* exp of 16 Mi elements that the cache has, at 10 instructions in half a nanosecond on each core. A loaded vector is half an instruction, a stored one is one. */
static void cores_share_instructions(void **state) {
    (void)state;
    const double count = 16 << 20, each = (44 + 1.5) / (10 * 2.0);
    bti_operand x = dense(BT_F32, 1, 16 << 20, 1);
    const bti_work work = {.op = BTI_OP_exp, .input_count = 1, .inputs = &x, .output = x};
    bti_sim_model one = model_of(CORES "units=1/bandwidth=1000}"), four = model_of(CORES "units=4/bandwidth=1000}");
    expect_near(ns_of_work(&one, &work, 0), 100 + count * each, 1e-3);
    expect_near(ns_of_work(&four, &work, 0), 100 + count * each / 4, 1e-3);
    bti_sim_demand few = bti_sim_demand_of_work(&four,
                                                &(bti_work){.op = BTI_OP_exp,
                                                            .input_count = 1,
                                                            .inputs = (bti_operand[]){dense(BT_F32, 1, 800, 1)},
                                                            .output = dense(BT_F32, 1, 800, 1)},
                                                0);
    expect_near(bti_sim_nanoseconds(&four, &few), 100 + 800 * each + 25 / 2.0,
                1e-3); /* one core, and a line is begun */
}

/* A call of the library, and its rate, whatever the strides: operands whose rows compete for the cache are moved before. */
static void cores_compute_products(void **state) {
    (void)state;
    bti_sim_model core = model_of(CORES "units=1/bandwidth=1000/cache_bandwidth=1000}");
    const double of_1000 = 2e9 / 100, of_512 = 2.0 * 512 * 512 * 512 / 100, of_16 = 2.0 * 16 * 16 * 16 / 100;
    const double moved = 3.0 * 4 / 4 / 20; /* an instruction for each element of the three matrices */
    expect_near(ns_of_product(&core, BT_F32, 1000, BTI_MATMUL_HIGHEST), 1100 + of_1000 + moved * 1e6, 1e-3);
    expect_near(ns_of_product(&core, BT_F32, 512, BTI_MATMUL_HIGHEST), 1100 + of_512 + moved * 512 * 512, 1e-3);
    expect_near(ns_of_product(&core, BT_F32, 16, BTI_MATMUL_HIGHEST), 100 + 3 * of_16 + moved * 256, 1e-3);
    bti_operand x = dense(BT_F32, 2, 512, 512), turned = x;
    turned.stride[0] = 1, turned.stride[1] = 512;
    const bti_work by_turned = {
        .op = BTI_OP_matmul, .input_count = 2, .inputs = (bti_operand[]){x, turned}, .output = x};
    expect_near(ns_of_work(&core, &by_turned, BTI_MATMUL_HIGHEST), 1100 + of_512 + moved * 512 * 512, 1e-3);
}

/* An update over what it changes moves the change. */
static void updates_in_place_move_what_changes(void **state) {
    (void)state;
    bti_sim_model core = model_of(CORES "units=1/bandwidth=1000/cache_bandwidth=1000}");
    bti_operand table = dense(BT_F32, 2, 1000000, 16), row = dense(BT_F32, 2, 1, 16), start = dense(BT_I64, 1, 1, 1);
    const bti_attr attr = {.axis = {0}};
    double ns[2];
    for (int apart = 0; apart < 2; apart++) {
        bti_operand out = table;
        out.address = table.address + (apart ? 1 << 30 : 0);
        ns[apart] = ns_of_work(&core,
                               &(bti_work){.op = BTI_OP_update_slice,
                                           .input_count = 3,
                                           .inputs = (bti_operand[]){table, start, row},
                                           .output = out,
                                           .attr = &attr},
                               0);
    }
    assert_true(ns[0] < 1000 && ns[1] > 1e5);
}

/* A load for each row, of which a core waits for four at once. */
static void cores_wait_for_rows(void **state) {
    (void)state;
    bti_sim_model core = model_of(CORES "units=1/bandwidth=1000/warps=4}");
    const int64_t count = 100000;
    bti_operand table = dense(BT_F32, 2, 1000000, 16), rows = dense(BT_I32, 1, count, 1),
                out = dense(BT_F32, 2, count, 16);
    const bti_attr attr = {.axis = {0}};
    const bti_work take = {
        .op = BTI_OP_take, .input_count = 2, .inputs = (bti_operand[]){table, rows}, .output = out, .attr = &attr};
    expect_near(ns_of_work(&core, &take, 0), 100 + 80.0 / 4 * (double)count, 1e-9);
}

/* --- models ---------------------------------------------------------------------------------------------------------------- */

static void figures_are_read(void **state) {
    (void)state;
    bti_sim_model model;
    size_t used;
    model = model_of("A100{units=64/link=0/Memory=24.5}");
    assert_true(model.units == 64 && model.link == 0 && model.memory == 24.5 && model.bandwidth == 2039);
    assert_string_equal(model.description, "NVIDIA A100 by a model with units=64/link=0/Memory=24.5");
    model = model_of("zen3{record_ns=0/submit_ns=0/product_ns=0/cache=0/unit_bandwidth=0}");
    assert_true(model.kind == BT_CPU && model.record_ns == 0 && model.submit_ns == 0 && model.cache == 0);
    assert_true(model_of("zen3").record_ns > 0 && model_of("h200").record_ns == 0);
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
        cmocka_unit_test(products_reach_the_rate),     cmocka_unit_test(moves_reach_the_bandwidth),
        cmocka_unit_test(little_work_takes_the_start), cmocka_unit_test(float64_is_slower),
        cmocka_unit_test(long_rows_are_cut),           cmocka_unit_test(boxes_share_a_start),
        cmocka_unit_test(cores_reach_the_bandwidth),   cmocka_unit_test(cores_share_instructions),
        cmocka_unit_test(cores_compute_products),      cmocka_unit_test(updates_in_place_move_what_changes),
        cmocka_unit_test(cores_wait_for_rows),         cmocka_unit_test(figures_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

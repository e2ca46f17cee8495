// timeout: 900
/* Running sums, sorts and scatters that are cut into chunks, tiles and pieces, by the OpenCL that is installed, against the
 * interpreter: sizes around the borders of these. Sums are of quarters, so that they are exact in any order. Devices that are
 * CPUs run what GPUs do too. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/test_depth.h"
#include "support/opencl_device.h"

typedef struct line_case {
    int64_t shape[2];
    int axis;
} line_case;

/* Tiles are 2048 elements, of sorts 4096, half of that of keys of 8 bytes, and again where threads run one after the other; a line has
 * at most 1024 chunks of whole tiles, columns have chunks of 128. */
static const line_case line_cases[] = {
    {{1, 1}, 1},    {{1000, 1}, 1},    {{700, 8}, 1},   {{300, 9}, 1},    {{513, 17}, 1}, {{7, 1023}, 1},
    {{3, 1025}, 1}, {{3, 2047}, 1},    {{3, 2048}, 1},  {{2, 2049}, 1},   {{2, 4096}, 1}, {{3, 6007}, 1},
    {{2053, 3}, 0}, {{128, 8}, 0},     {{129, 40}, 0},  {{1031, 9}, 0},   {{0, 3}, 0},    {{3, 0}, 1},
    {{2, 4095}, 1}, {{2, 4097}, 1},    {{19, 256}, 1},  {{33, 255}, 1},   {{2, 8193}, 1}, {{1, 70001}, 1},
    {{5003, 2}, 0}, {{1, 1048577}, 1}, {{2, 65537}, 1}, {{1, 2097157}, 1}};
enum { LINE_CASES = sizeof line_cases / sizeof *line_cases, LONG_CASE = 1 << 20 };

static void running_of(bti_op op, bt_dtype dtype, bool with_long) {
    program p = load(op, 1, &dtype, dtype);
    for (int i = 0; i < LINE_CASES; i++) {
        const line_case *of = &line_cases[i];
        if (of->shape[1] > LONG_CASE && !with_long && !test_is_long()) continue;
        int64_t attr[2] = {of->axis, i % 2};
        value x = make(dtype, 2, of->shape, DENSE), y = make(dtype, 2, of->shape, DENSE);
        fill(x.memory, x.bytes, dtype, false);
        expect_the_same(&p, 1, &x, &y, attr, 2);
        drop(&x), drop(&y);
    }
    unload(&p);
}

static void running_sums(void **state) {
    running_of(BTI_OP_cumsum, BT_F32, false);
    running_of(BTI_OP_cummin, BT_F16, false);
    running_of(BTI_OP_cumprod, BT_I32, false);
    with_groups(true);
    static const bt_dtype dtypes[] = {BT_F32, BT_I64, BT_BF16, BT_I8, BT_F64, BT_F16};
    for (int i = 0; i < (test_is_long() ? 6 : 2); i++) running_of(BTI_OP_cumsum, dtypes[i], i == 1);
    running_of(BTI_OP_cummax, BT_F32, false);
    with_groups(false);
}

/* Which results are read: values, indices, both, by turns. */
static void orders_of(bti_op op, bt_dtype dtype, bool with_long) {
    program p = load(op, 1, &dtype, dtype);
    for (int i = 0; i < LINE_CASES; i++) {
        const line_case *of = &line_cases[i];
        int64_t length = of->shape[of->axis], few[] = {1, 5, 300, length};
        if (length > LONG_CASE && !with_long && !test_is_long()) continue;
        value x = make(dtype, 2, of->shape, DENSE);
        fill(x.memory, x.bytes, dtype, true);
        int64_t k = few[i % 4] < length ? few[i % 4] : length;
        expect_the_same_order(&p, &x, of->axis, k, (unsigned)(1 + i % 3), DENSE);
        drop(&x);
    }
    unload(&p);
}

static void sorts(void **state) {
    static const bt_dtype dtypes[] = {BT_F32, BT_I8, BT_F64, BT_I64, BT_F16, BT_BF16, BT_U32, BT_BOOL};
    for (int as_gpu = 0; as_gpu < 2; as_gpu++) {
        if (as_gpu) with_groups(true);
        for (int i = 0; i < (test_is_long() ? 8 : 2 + !as_gpu); i++) {
            orders_of(BTI_OP_sort, dtypes[i], i == 1 && !as_gpu);
            orders_of(BTI_OP_top_k, dtypes[i], i == 1 && !as_gpu);
        }
        if (as_gpu) with_groups(false);
    }
}

/* All keys are equal, in the order of the elements; all are NaN. */
static void equal_keys(void **state) {
    bt_dtype dtype = BT_F32;
    program sort = load(BTI_OP_sort, 1, &dtype, dtype), top_k = load(BTI_OP_top_k, 1, &dtype, dtype);
    for (int i = 0; i < 4; i++) {
        int64_t shape[2] = {2, i % 2 ? 2048 : 9001};
        value x = make(dtype, 2, shape, DENSE);
        for (size_t k = 0; k < x.bytes / sizeof(float); k++) ((float *)(void *)x.memory)[k] = i < 2 ? -3 : (float)NAN;
        expect_the_same_order(&sort, &x, 1, 0, 3, DENSE);
        expect_the_same_order(&top_k, &x, 1, 100, 3, DENSE);
        drop(&x);
    }
    unload(&sort), unload(&top_k);
}

/* A thread that goes along a chunk adds in the order of a group, to the bit. */
static void sums_of_threads_and_groups(void **state) {
    bt_dtype dtype = BT_F64;
    program p = load(BTI_OP_cumsum, 1, &dtype, dtype);
    for (int i = 0; i < LINE_CASES; i++) {
        const line_case *of = &line_cases[i];
        if (of->axis != 1 || of->shape[1] > LONG_CASE || !of->shape[1]) continue;
        value x = make(dtype, 2, of->shape, DENSE), y[2];
        for (size_t k = 0; k < x.bytes / sizeof(double); k++)
            ((double *)(void *)x.memory)[k] = (double)random_bits() / 1e9 - 3;
        bti_operand there = carried(&x);
        for (int as_gpu = 0; as_gpu < 2; as_gpu++) {
            y[as_gpu] = make(dtype, 2, of->shape, DENSE);
            bti_work work = {.op = BTI_OP_cumsum,
                             .input_count = 1,
                             .inputs = &there,
                             .output = carried(&y[as_gpu]),
                             .attr = &(bti_attr){.running = {1, i % 2}}};
            if (as_gpu) with_groups(true);
            launch_program(&p, &work);
            if (as_gpu) with_groups(false);
            assert_int_equal(on.driver->sync(on.device), BT_OK);
            assert_int_equal(on.driver->download(on.device, y[as_gpu].memory, y[as_gpu].on_device, y[as_gpu].bytes),
                             BT_OK);
            on.driver->free(on.device, y[as_gpu].on_device, y[as_gpu].bytes);
        }
        const char *first[2];
        for (int k = 0; k < 2; k++) first[k] = (const char *)(uintptr_t)y[k].operand.address;
        assert_memory_equal(first[0], first[1], (size_t)(of->shape[0] * of->shape[1]) * sizeof(double));
        on.driver->free(on.device, x.on_device, x.bytes);
        drop(&x), drop(&y[0]), drop(&y[1]);
    }
    unload(&p);
}

/* --- by index ------------------------------------------------------------------------------------------------------- */

/* [outer][length][inner], and the number of indices. Pieces are 64 indices; their sums are folded by 64. */
static const int64_t scatters[][4] = {
    {1, 3, 1, 63},   {1, 3, 1, 64},    {1, 3, 1, 65},     {2, 5, 3, 129},  {1, 1, 7, 2048},   {1, 2, 1, 2049},
    {3, 1, 2, 4096}, {1, 4, 1, 4097},  {2, 300, 2, 1000}, {1, 7, 1, 5000}, {1, 70000, 1, 90}, {2, 3, 1, 20011},
    {1, 9, 1, 9000}, {1, 1, 1, 70001}, {1, 2, 1, 300007}, {4, 0, 2, 100},  {2, 5, 2, 0}};
enum { SCATTERS = sizeof scatters / sizeof *scatters };

static void scatter_of(bti_op op, bt_dtype dtype, bt_dtype index) {
    program p = load(op, 3, (bt_dtype[]){dtype, index, dtype}, dtype);
    for (int s = 0; s < SCATTERS; s++) {
        const int64_t *of = scatters[s];
        int64_t many[3] = {of[0], of[3], of[2]}, attr = 1;
        if (of[3] > 100000 && op != BTI_OP_scatter_add && !test_is_long()) continue;
        value x = make(dtype, 3, of, DENSE), y = make(dtype, 3, of, DENSE), z = make(dtype, 3, many, DENSE);
        value i = op == BTI_OP_scatter_add ? make(index, 1, &of[3], DENSE) : make(index, 3, many, DENSE);
        fill_indices(&i, of[1], s % 3 != 0);
        expect_the_same(&p, 3, (value[]){x, i, z}, &y, &attr, 1);
        drop(&x), drop(&i), drop(&y), drop(&z);
    }
    unload(&p);
}

static void scatters_in_pieces(void **state) {
    with_groups(true);
    scatter_of(BTI_OP_scatter_add, BT_F32, BT_I32);
    scatter_of(BTI_OP_scatter_axis, BT_F32, BT_I64);
    scatter_of(BTI_OP_scatter_set, BT_I32, BT_I32);
    scatter_of(BTI_OP_scatter_max, BT_BF16, BT_I64);
    if (test_is_long()) {
        scatter_of(BTI_OP_scatter_add, BT_I8, BT_I64);
        scatter_of(BTI_OP_scatter_axis, BT_F64, BT_I32);
        scatter_of(BTI_OP_scatter_axis, BT_BOOL, BT_I32);
    }
    with_groups(false);
}

/* A row's indices begin just before or after the border of a piece, or of a piece of pieces. */
static void pieces_begin_anywhere(void **state) {
    static const int64_t before[] = {1, 63, 64, 65, 4031, 4032, 4064, 4095, 4096, 4097, 4160, 8150, 8193};
    program p = load(BTI_OP_scatter_add, 3, (bt_dtype[]){BT_F32, BT_I32, BT_F32}, BT_F32);
    with_groups(true);
    for (size_t k = 0; k < sizeof before / sizeof *before; k++) {
        int64_t rows = 3, count = before[k] + 13000, attr = 0;
        value x = make(BT_F32, 1, &rows, DENSE), y = make(BT_F32, 1, &rows, DENSE);
        value i = make(BT_I32, 1, &count, DENSE), z = make(BT_F32, 1, &count, DENSE);
        int32_t *index = (int32_t *)(uintptr_t)i.operand.address;
        for (int64_t n = 0; n < count; n++) index[n] = n < before[k] ? 0 : n < count - 300 ? 1 : 2;
        expect_the_same(&p, 3, (value[]){x, i, z}, &y, &attr, 1);
        drop(&x), drop(&i), drop(&y), drop(&z);
    }
    with_groups(false);
    unload(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running_sums),       cmocka_unit_test(sorts),
        cmocka_unit_test(equal_keys),         cmocka_unit_test(sums_of_threads_and_groups),
        cmocka_unit_test(scatters_in_pieces), cmocka_unit_test(pieces_begin_anywhere)};
    if (!open_first()) return 77;
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    close_first();
    return rc;
}

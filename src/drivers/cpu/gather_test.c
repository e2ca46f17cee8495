// labels: threads
// env: BERTH_FLAGS=threads=2,kernels=auto
/* Data movement on the cores, compared with the interpreter bit by bit, for operands of any layout. */
#include "drivers/cpu/gather.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/cores.h"
#include "base/test_depth.h"
#include "drivers/cpu/engine.h"
#include "ir/dtype.h"
#include "reference/interp.h"
#include "reference/operand.h"
#include "support/attr.h"

typedef enum layout { PLAIN, TURNED, GAPS, BACKWARDS, LAYOUTS } layout;

static uint64_t random_state = 1;
static uint64_t random_bits(void) {
    return (random_state = random_state * 6364136223846793005u + 1442695040888963407u) >> 20;
}

/* Random bits; of floats numbers and one kind of NaN, for which of two comes out of a sum is not said. */
static void fill(char *memory, size_t bytes, bt_dtype dtype) {
    size_t size = bt_dtype_size(dtype);
    for (size_t i = 0; i + size <= bytes; i += size) {
        uint64_t bits = random_bits();
        double number = (double)(int64_t)(bits % 4001) / 8 - 250;
        if (dtype == BT_BOOL) bits &= 1;
        if (bti_dtype_is_float(dtype) && bits % 64 == 0) bits = bti_missing(dtype);
        if (bti_dtype_is_float(dtype) && bits != bti_missing(dtype))
            bti_lane_block_write(BTI_LANE_F64, &number, dtype, memory + i, 0, 1);
        else
            memcpy(memory + i, &bits, size);
    }
}

/* An operand of random elements with its memory, which is `bytes` long and freed by the caller. TURNED: the axes lie in the
 * opposite order. */
static bti_operand make(bt_dtype dtype, int rank, const int64_t *shape, layout how, char **memory, size_t *bytes) {
    bti_operand o = {.dtype = dtype, .rank = rank};
    int64_t count = how == GAPS ? 2 : 1, last = 0;
    for (int i = 0; i < rank; i++) {
        int axis = how == TURNED ? i : rank - 1 - i;
        o.shape[axis] = shape[axis];
        o.stride[axis] = how == BACKWARDS ? -count : count;
        if (how == BACKWARDS && shape[axis] > 0) last += (shape[axis] - 1) * count;
        count *= shape[axis] + (how == GAPS);
    }
    *bytes = (size_t)(count + 8) * bt_dtype_size(dtype);
    *memory = bti_alloc_aligned(64, *bytes);
    assert_non_null(*memory);
    fill(*memory, *bytes, dtype);
    o.address = (uint64_t)(uintptr_t)(*memory + last * (int64_t)bt_dtype_size(dtype));
    return o;
}

/* Runs it as the interpreter does and as we do, into memory of equal bytes before. */
static void expect_the_same(bti_work *work, const int64_t *shape, int rank, bt_dtype dtype, layout how) {
    char *should, *is;
    size_t bytes;
    work->output = make(dtype, rank, shape, how, &should, &bytes);
    uint64_t offset = work->output.address - (uint64_t)(uintptr_t)should;
    is = bti_alloc_aligned(64, bytes);
    assert_non_null(is);
    memcpy(is, should, bytes);
    assert_int_equal(bti_interpret(work), BT_OK);
    work->output.address = (uint64_t)(uintptr_t)is + offset;
    assert_int_equal(bti_cpu_launch(NULL, NULL, work), BT_OK);
    if (memcmp(is, should, bytes))
        fail_msg("%s of %s, layout %d differs", bti_op_info(work->op)->name, bt_dtype_name(dtype), (int)how);
    bti_free(should), bti_free(is);
}

static const bt_dtype dtypes[] = {BT_BOOL, BT_F16, BT_F32, BT_F64, BT_I8, BT_U32, BT_BF16};
enum { DTYPES = 7 };

static void copies(void **state) {
    static const int64_t shapes[][4] = {{1, 1, 1, 1},     {3, 4, 5, 6},     {2, 1, 70, 65}, {1, 130, 1, 200},
                                        {16, 16, 16, 16}, {2, 3, 400, 129}, {0, 3, 2, 1}};
    for (int d = 0; d < DTYPES; d++)
        for (int s = 0; s < 7; s++)
            for (int from = 0; from < LAYOUTS; from++)
                for (int to = 0; to < LAYOUTS; to++) {
                    if (!test_is_drawn(5)) continue;
                    char *memory;
                    size_t bytes;
                    bti_operand x = make(dtypes[d], 4, shapes[s], (layout)from, &memory, &bytes);
                    bti_work work = {.op = BTI_OP_copy, .input_count = 1, .inputs = &x};
                    expect_the_same(&work, shapes[s], 4, dtypes[d], (layout)to);
                    int64_t other[] = {shapes[s][0] * shapes[s][1], shapes[s][2] * shapes[s][3]};
                    work.op = BTI_OP_reshape;
                    expect_the_same(&work, other, 2, dtypes[d], (layout)to);
                    bti_free(memory);
                }
}

/* Indices of which some count from the end and some are out of range. */
static bti_operand indices(bt_dtype dtype, int rank, const int64_t *shape, int64_t choices, bool all_in,
                           char **memory) {
    size_t bytes;
    bti_operand y = make(dtype, rank, shape, PLAIN, memory, &bytes);
    for (size_t i = 0; i < bytes / bt_dtype_size(dtype); i++) {
        int64_t range = all_in ? choices : choices + 2,
                index = (int64_t)(random_bits() % (uint64_t)(2 * range)) - range;
        if (dtype == BT_I32)
            ((int32_t *)(void *)*memory)[i] = (int32_t)index;
        else
            ((int64_t *)(void *)*memory)[i] = index;
    }
    return y;
}

static void by_index(void **state) {
    static const int64_t shapes[][3] = {{20, 40, 50}, {7, 1, 9}, {100, 2, 64}, {1, 200, 5}};
    for (int d = 0; d < DTYPES; d++)
        for (int s = 0; s < 4; s++)
            for (int axis = 0; axis < 3; axis++)
                for (int how = 0; how < LAYOUTS; how++) {
                    if (!test_is_drawn(5)) continue;
                    char *memory[3];
                    size_t bytes;
                    int64_t count = 133, shape[3];
                    memcpy(shape, shapes[s], sizeof shape);
                    bt_dtype index = how % 2 ? BT_I64 : BT_I32;
                    bti_operand inputs[3];
                    inputs[0] = make(dtypes[d], 3, shape, (layout)how, &memory[0], &bytes);
                    inputs[1] = indices(index, 1, &count, shape[axis], false, &memory[1]);
                    bti_work work = {
                        .op = BTI_OP_take, .input_count = 2, .inputs = inputs, .attr = &(bti_attr){.axis = {axis}}};
                    shape[axis] = count;
                    expect_the_same(&work, shape, 3, dtypes[d], PLAIN);
                    expect_the_same(&work, shape, 3, dtypes[d], GAPS);
                    inputs[2] = make(dtypes[d], 3, shape, (layout)how, &memory[2], &bytes);
                    work.op = BTI_OP_scatter_add, work.input_count = 3;
                    expect_the_same(&work, shapes[s], 3, dtypes[d], PLAIN);
                    bti_free(memory[1]);
                    inputs[1] = indices(index, 3, shape, shapes[s][axis], true, &memory[1]);
                    work.op = BTI_OP_scatter_axis;
                    expect_the_same(&work, shapes[s], 3, dtypes[d], PLAIN);
                    work.op = BTI_OP_gather_axis, work.input_count = 2;
                    expect_the_same(&work, shape, 3, dtypes[d], (layout)how);
                    for (int i = 0; i < 3; i++) bti_free(memory[i]);
                }
}

/* Of inputs that do not stay in a core's cache: rows are fetched ahead. */
static void by_index_from_afar(void **state) {
    static const int64_t shapes[][2] = {{300007, 1}, {140000, 2}, {17601, 15}, {17001, 17}};
    for (int s = 0; s < 4; s++)
        for (int64_t taken = 1; taken < 100000; taken = taken * 31 + 1)
            for (int how = 0; how < LAYOUTS; how++) {
                char *memory[2];
                size_t bytes;
                int64_t shape[] = {taken, shapes[s][1]};
                bti_operand x = make(BT_F32, 2, shapes[s], (layout)how, &memory[0], &bytes);
                bti_operand inputs[] = {x, indices(BT_I32, 1, &taken, shapes[s][0], false, &memory[1])};
                bti_work work = {
                    .op = BTI_OP_take, .input_count = 2, .inputs = inputs, .attr = &(bti_attr){.axis = {0}}};
                expect_the_same(&work, shape, 2, BT_F32, PLAIN);
                for (int i = 0; i < 2; i++) bti_free(memory[i]);
            }
}

static void updated(void **state) {
    static const int64_t shapes[][3] = {{20, 40, 50}, {7, 3, 9}, {100, 2, 64}};
    for (int d = 0; d < DTYPES; d++)
        for (int s = 0; s < 3; s++)
            for (int axis = 0; axis < 3; axis++)
                for (int how = 0; how < LAYOUTS; how++) {
                    char *memory[3];
                    size_t bytes;
                    int64_t one = 1, shape[3];
                    memcpy(shape, shapes[s], sizeof shape);
                    bti_operand inputs[3];
                    inputs[0] = make(dtypes[d], 3, shape, (layout)how, &memory[0], &bytes);
                    inputs[1] = indices(how % 2 ? BT_I64 : BT_I32, 1, &one, shape[axis], false, &memory[1]);
                    shape[axis] = 1 + shape[axis] / 3;
                    inputs[2] = make(dtypes[d], 3, shape, (layout)((how + 1) % LAYOUTS), &memory[2], &bytes);
                    bti_work work = {.op = BTI_OP_update_slice,
                                     .input_count = 3,
                                     .inputs = inputs,
                                     .attr = &(bti_attr){.axis = {axis}}};
                    expect_the_same(&work, shapes[s], 3, dtypes[d], how % 2 ? GAPS : PLAIN);
                    for (int i = 0; i < 3; i++) bti_free(memory[i]);
                }
}

static void along_an_axis(void **state) {
    static const int64_t shapes[][3] = {{20, 40, 50}, {7, 1, 9}, {700, 2, 33}, {1, 1, 3000}};
    for (int d = 0; d < DTYPES; d++)
        for (int s = 0; s < 4; s++)
            for (int axis = 0; axis < 3; axis++)
                for (int how = 0; how < LAYOUTS; how++) {
                    if (!test_is_drawn(2) || dtypes[d] == BT_BOOL) continue;
                    char *memory;
                    size_t bytes;
                    bti_operand x = make(dtypes[d], 3, shapes[s], (layout)how, &memory, &bytes);
                    static const bti_op ops[] = {BTI_OP_cumsum, BTI_OP_cumprod, BTI_OP_cummax, BTI_OP_cummin};
                    bti_attr attr = attr_of(BTI_OP_cumsum, 2, (int64_t[]){axis, how % 2});
                    bti_work work = {.op = ops[(d + s + how) % 4], .input_count = 1, .inputs = &x, .attr = &attr};
                    expect_the_same(&work, shapes[s], 3, dtypes[d], PLAIN);
                    bti_free(memory);
                }
}

static void joined(void **state) {
    for (int d = 0; d < DTYPES; d++)
        for (int axis = 0; axis < 3; axis++)
            for (int how = 0; how < LAYOUTS; how++) {
                char *memory[4];
                size_t bytes;
                bti_operand x[4];
                int64_t shape[] = {40, 50, 60}, one = 1;
                bti_attr attr = {.axis = {axis}};
                for (int i = 0; i < 3; i++) {
                    shape[axis] = 10 + 25 * i;
                    x[i] = make(dtypes[d], 3, shape, (layout)((how + i) % LAYOUTS), &memory[i], &bytes);
                }
                shape[axis] = 10 + 35 + 60;
                bti_work work = {.op = BTI_OP_concat, .input_count = 3, .inputs = x, .attr = &attr};
                expect_the_same(&work, shape, 3, dtypes[d], PLAIN);
                attr = (bti_attr){.pad = {{axis, 2, 3}}};
                for (int i = 0; i < 3; i++) shape[i] = x[0].shape[i] + attr.pad.before[i] + 4;
                bti_free(memory[1]);
                x[1] = make(dtypes[d], 0, &one, PLAIN, &memory[1], &bytes);
                work.op = BTI_OP_pad, work.input_count = 2;
                expect_the_same(&work, shape, 3, dtypes[d], (layout)how);
                for (int i = 0; i < 3; i++) bti_free(memory[i]);
            }
}

static int end(void **state) {
    bti_cores_shutdown();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies),  cmocka_unit_test(by_index),      cmocka_unit_test(by_index_from_afar),
        cmocka_unit_test(updated), cmocka_unit_test(along_an_axis), cmocka_unit_test(joined)};
    return cmocka_run_group_tests(tests, NULL, end);
}

// labels: threads
// env: BERTH_FLAGS=threads=2
/* Scatters, compared with the interpreter bit by bit: by any number of threads, for repeated indices and those out of range, for rows of
 * any length, for what is added where it repeats or lies apart. */
#include "drivers/cpu/scatter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <berth/flags.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/cores.h"
#include "base/test_depth.h"
#include "ir/dtype.h"
#include "reference/interp.h"
#include "reference/operand.h"

static uint64_t random_state = 7;
static uint64_t random_bits(void) {
    return (random_state = random_state * 6364136223846793005u + 1442695040888963407u) >> 20;
}

/* Dense, of numbers that are rounded where they are added. */
static bti_operand make(bt_dtype dtype, int rank, const int64_t *shape) {
    bti_operand o = {.dtype = dtype, .rank = rank};
    memcpy(o.shape, shape, (size_t)rank * sizeof *shape);
    bti_operand_make_dense(&o);
    int64_t count = bti_operand_count(&o), size = (int64_t)bt_dtype_size(dtype);
    char *memory = bti_alloc_aligned(64, (size_t)(count + 1) * (size_t)size);
    assert_non_null(memory);
    for (int64_t i = 0; i < count; i++) {
        double number = (double)(random_bits() % 4001) / 7 - 285;
        bti_lane_block_write(BTI_LANE_F64, &number, dtype, memory + i * size, 0, 1);
    }
    o.address = (uint64_t)(uintptr_t)memory;
    return o;
}

/* Of the two on either side of the range one each; else a few repeat often. */
static void draw_indices(bti_operand *y, int64_t choices) {
    for (int64_t i = 0; i < bti_operand_count(y); i++) {
        int64_t few = random_bits() % 3 ? choices : 1 + choices / 50,
                index = (int64_t)(random_bits() % (uint64_t)(2 * few + 2)) - few - 1;
        if (y->dtype == BT_I32)
            ((int32_t *)(void *)bti_address(y))[i] = (int32_t)index;
        else
            ((int64_t *)(void *)bti_address(y))[i] = index;
    }
}

static bti_operand copy_of(const bti_operand *x) {
    bti_operand copy = make(x->dtype, x->rank, x->shape);
    bti_copy_operand(&copy, x);
    return copy;
}

static void expect_equal(const bti_operand *is, const bti_operand *should, const char *what, int threads) {
    if (memcmp(bti_address(is), bti_address(should), (size_t)bti_operand_count(should) * bt_dtype_size(should->dtype)))
        fail_msg("%s of %s by %d threads differs", what, bt_dtype_name(should->dtype), threads);
}

/* As the interpreter does it, and by 1 to 4 threads; `in_place`: over the first input. */
static void check(bti_op op, bti_operand *inputs, int axis, bool in_place) {
    bti_work work = {.op = op, .input_count = 3, .inputs = inputs, .attr = &(bti_attr){.axis = {axis}}};
    bti_operand should = make(inputs->dtype, inputs->rank, inputs->shape);
    work.output = should;
    assert_int_equal(bti_interpret(&work), BT_OK);
    for (int threads = 1; threads <= 4; threads++) {
        bti_operand given[3] = {copy_of(inputs), inputs[1], inputs[2]};
        char flag[] = {'0' + (char)threads, '\0'};
        assert_int_equal(bt_set_flag("threads", flag), BT_OK);
        work.inputs = given;
        work.output = in_place ? given[0] : make(inputs->dtype, inputs->rank, inputs->shape);
        assert_int_equal(bti_cpu_scatter(&work), BT_OK);
        expect_equal(&work.output, &should, bti_op_info(op)->name, threads);
        if (!in_place) bti_free(bti_address(&work.output));
        bti_free(bti_address(&given[0]));
    }
    bti_free(bti_address(&should));
}

typedef struct scatter_case {
    int64_t shape[3]; /* of the output */
    int64_t count;    /* indices */
    int axis;
} scatter_case;

static const bti_op along[] = {BTI_OP_scatter_axis, BTI_OP_scatter_set, BTI_OP_scatter_max, BTI_OP_scatter_min};

static const scatter_case cases[] = {
    {{1, 3000, 16}, 9000, 1}, {{1, 300, 700}, 900, 1}, {{1, 40, 4000}, 300, 1}, {{1, 90, 129}, 4000, 1},
    {{1, 5000, 1}, 40000, 1}, {{3, 900, 5}, 9000, 1},  {{70, 6, 40}, 50, 1},    {{5, 2, 3000}, 40, 1},
    {{400, 3, 2}, 30000, 0},  {{6, 50, 300}, 2000, 2}, {{1, 1, 16}, 30000, 1},  {{1, 2, 2000}, 500, 1},
    {{1, 400, 3}, 20000, 1},  {{1, 900, 8}, 300, 1},   {{2, 30, 32}, 4000, 1},  {{1, 9, 16}, 0, 1},
    {{2, 5, 0}, 7, 1},        {{0, 5, 8}, 7, 1},       {{3, 0, 9}, 30000, 1},   {{1, 9, 33}, 1, 1},
    {{1, 300, 256}, 257, 1},
};
enum { CASES = sizeof cases / sizeof *cases };

static void rows(void **state) {
    for (int d = 0; d < BTI_COMPUTED_DTYPES; d++)
        for (int c = 0; c < CASES; c++)
            for (int how = 0; how < 4; how++) {
                if (!test_is_drawn(5)) continue;
                const scatter_case *of = &cases[c];
                int64_t shape[3] = {of->shape[0], of->shape[1], of->shape[2]};
                shape[of->axis] = of->count;
                bti_operand inputs[3] = {make((bt_dtype)d, 3, of->shape),
                                         make(how % 2 ? BT_I64 : BT_I32, 1, &of->count), make((bt_dtype)d, 3, shape)};
                draw_indices(&inputs[1], of->shape[of->axis]);
                if (how == 1) inputs[2].stride[2] = 0;                              /* it repeats along rows, */
                if (how == 2) memset(inputs[2].stride, 0, sizeof inputs[2].stride); /* everywhere, */
                if (how == 3) inputs[2].stride[of->axis] = 0;                       /* for each index */
                check(BTI_OP_scatter_add, inputs, of->axis, how % 2);
                for (int i = 0; i < 3; i++) bti_free(bti_address(&inputs[i]));
            }
}

static void along_an_axis(void **state) {
    for (int d = 0; d < BTI_COMPUTED_DTYPES; d++)
        for (int c = 0; c < CASES; c++)
            for (int how = 0; how < 2; how++) {
                if (!test_is_drawn(5)) continue;
                const scatter_case *of = &cases[c];
                int64_t shape[3] = {of->shape[0], of->shape[1], of->shape[2]};
                shape[of->axis] = of->count / 8;
                bti_operand inputs[3] = {make((bt_dtype)d, 3, of->shape), make(how ? BT_I64 : BT_I32, 3, shape),
                                         make((bt_dtype)d, 3, shape)};
                draw_indices(&inputs[1], of->shape[of->axis]);
                if (how) inputs[2].stride[0] = 0;
                check(along[random_bits() % 4], inputs, of->axis, how);
                for (int i = 0; i < 3; i++) bti_free(bti_address(&inputs[i]));
            }
}

/* Indices of rows, repeated over the other axes. */
static void repeated_over_rows(void **state) {
    for (int d = 0; d < BTI_COMPUTED_DTYPES; d++)
        for (int c = 0; c < CASES; c++)
            for (int k = 0; k < 4; k++) {
                if (!test_is_drawn(5)) continue;
                const scatter_case *of = &cases[c];
                int64_t shape[3] = {of->shape[0], of->shape[1], of->shape[2]};
                shape[of->axis] = of->count;
                bti_operand inputs[3] = {make((bt_dtype)d, 3, of->shape), make(k % 2 ? BT_I64 : BT_I32, 1, &of->count),
                                         make((bt_dtype)d, 3, shape)};
                draw_indices(&inputs[1], of->shape[of->axis]);
                inputs[1].rank = 3;
                memcpy(inputs[1].shape, shape, sizeof shape);
                memset(inputs[1].stride, 0, sizeof inputs[1].stride);
                inputs[1].stride[of->axis] = 1;
                check(along[k], inputs, of->axis, k % 2);
                for (int i = 0; i < 3; i++) bti_free(bti_address(&inputs[i]));
            }
}

/* Turned updates are copied to scratch; without memory for it they are added element by element. */
static void without_memory(void **state) {
    int64_t shape[] = {500, 24}, turned[] = {24, 6000}, count = 6000;
    bti_operand inputs[3] = {make(BT_F32, 2, shape), make(BT_I32, 1, &count), make(BT_F32, 2, turned)};
    draw_indices(&inputs[1], shape[0]);
    inputs[2].shape[0] = count, inputs[2].shape[1] = 24;
    inputs[2].stride[0] = 1, inputs[2].stride[1] = count;
    check(BTI_OP_scatter_add, inputs, 0, false);
    bti_operand should = make(BT_F32, 2, shape), is = make(BT_F32, 2, shape);
    bti_work work = {.op = BTI_OP_scatter_add,
                     .input_count = 3,
                     .inputs = inputs,
                     .output = should,
                     .attr = &(bti_attr){.axis = {0}}};
    assert_int_equal(bti_interpret(&work), BT_OK);
    work.output = is;
    bti_alloc_fail_at(1, false);
    assert_int_equal(bti_cpu_scatter(&work), BT_OK);
    bti_alloc_fail_at(0, false);
    expect_equal(&is, &should, "scatter_add without memory", 2);
    for (int i = 0; i < 3; i++) bti_free(bti_address(&inputs[i]));
    bti_free(bti_address(&should)), bti_free(bti_address(&is));
}

static int end(void **state) {
    bti_cores_shutdown();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows), cmocka_unit_test(along_an_axis),
                                       cmocka_unit_test(repeated_over_rows), cmocka_unit_test(without_memory)};
    return cmocka_run_group_tests(tests, NULL, end);
}

/* Operands of random numbers, for tests of what computes with memory. */
#ifndef BERTH_TESTS_OPERANDS_H
#define BERTH_TESTS_OPERANDS_H

#include "base/alloc.h"
#include "ir/dtype.h"
#include "reference/operand.h"

static uint64_t random_state = 1;

/* -1 to 1 */
static double chance(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 11) * 0x1p-53 * 2 - 1;
}

/* Of numbers that `number` gives, dense or, `apart`, of every second element of each axis but the first. */
static bti_operand make_operand(bt_dtype dtype, int rank, const int64_t *shape, bool apart,
                                double (*number)(bt_dtype dtype)) {
    bti_operand o = {.dtype = dtype, .rank = rank};
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        o.shape[i] = shape[i];
        o.stride[i] = apart && i ? 2 * step : step;
        step *= apart && i ? 2 * shape[i] : shape[i];
    }
    size_t size = bt_dtype_size(dtype);
    char *memory = bti_alloc_aligned(64, (size_t)step * size);
    assert_non_null(memory);
    for (int64_t i = 0; i < step; i++) {
        double value = number(dtype);
        bti_lane_block_write(BTI_LANE_F64, &value, dtype, memory + (size_t)i * size, 0, 1);
    }
    o.address = (uint64_t)(uintptr_t)memory;
    return o;
}

static void drop(const bti_operand *o) { bti_free(bti_address(o)); }

#endif

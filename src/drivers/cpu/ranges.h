/* Work that is cut along one axis into ranges, which run on the cores. */
#ifndef BTI_DRIVERS_CPU_RANGES_H
#define BTI_DRIVERS_CPU_RANGES_H

#include <stdatomic.h>

#include "ir/work.h"

enum { BTI_RANGE_INPUTS = 3 };

/* axis[i]: the axis that is cut, in input i (the last: in the output), or -1 if all of the operand takes part in each range. `run` computes
 * the work of a range, and fails only for want of memory. */
typedef struct bti_ranges {
    const bti_work *work;
    bt_status (*run)(const bti_work *work);
    int axis[BTI_RANGE_INPUTS + 1];
    atomic_int status;
} bti_ranges;

/* Whole where the output's axis is -1 or has one position. Fails like `run`. */
bt_status bti_run_ranges(bti_ranges *ranges);

/* Work along lines of `axis`: cuts another axis, the longest, so that a line is never cut. `same`: bit i: input i has the output's other
 * axes. */
bt_status bti_run_lines(const bti_work *work, bt_status (*run)(const bti_work *work), int axis, unsigned same);

#endif

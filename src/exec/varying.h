/* Sizes that vary: what segments have in common that differ in sizes alone (the flag pad_sizes). */
#ifndef BTI_EXEC_VARYING_H
#define BTI_EXEC_VARYING_H

#include "ir/plan.h"

/* Of one segment. Empty, or freed by bti_varying_free. */
typedef struct bti_varying {
    uint32_t *axes; /* by value of the plan: a mask of the axes whose sizes vary; NULL: no size does */
    uint32_t *
        numbers; /* by inner step: 1 of a number that varies, and of a scan of as many steps; a mask of axes of a slice or a pad that begins elsewhere; behind axes[] */
    uint64_t key; /* of segments that differ in these alone */
} bti_varying;

/* Remembers the segment. What varies: what was once another size, or number, in one that does the same; the latest 256 are known. A segment that has an axis of size 0, or one above 2^30, varies in none. */
bt_status bti_varying_see(const bti_plan *plan, const bti_step *segment, bti_varying *varying);
void bti_varying_free(bti_varying *varying);
/* Such segments have an operation without a rule for sizes that vary: from now on nothing varies in them. */
void bti_varying_give_up(const bti_varying *varying);

#endif

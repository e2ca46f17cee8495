/* How much of its list of cases a test runs: everything with BERTH_TEST_LONG, little with BERTH_TEST_SHORT (under valgrind and
 * sanitizers), else a draw. */
#ifndef BTI_BASE_TEST_DEPTH_H
#define BTI_BASE_TEST_DEPTH_H

#include <stdbool.h>
#include <stdlib.h>

static inline bool test_is_long(void) { return getenv("BERTH_TEST_LONG") != NULL; }
static inline bool test_is_short(void) { return !test_is_long() && getenv("BERTH_TEST_SHORT"); }

/* True for one call in `every`; for each call of a long test. With an `every` that divides none of the lengths of the loops around the
 * call, the draw meets each value, and each pair of values, of these loops. */
static inline bool test_is_drawn(int every) {
    static int calls;
    return test_is_long() || calls++ % (test_is_short() ? 11 * every : every) == 0;
}

#endif

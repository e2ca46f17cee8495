/* What the tests of kept plans share: settings as in a new process, and how many plans were made. */
#ifndef BTI_ARRAY_PLAN_TEST_H
#define BTI_ARRAY_PLAN_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <berth.h>

#include "array/plan_cache.h"
#include "base/alloc.h"
#include "base/flags.h"

#define OK(call) expect_ok((call), __LINE__)
static inline void expect_ok(bt_status status, int line) {
    if (status != BT_OK) fail_msg("line %d: %s", line, bt_error_text());
}

static inline void restart(const char *flags) {
    assert_int_equal(bt_shutdown(), BT_OK);
    setenv("BERTH_FLAGS", flags, 1);
    bti_flags_reset();
    bt_error_clear();
}

static inline int finish(void **state) {
    (void)state;
    bti_alloc_fail_at(0, false);
    restart("");
    return 0;
}

static inline uint64_t made(void) { return bti_plan_cache_count().made; }

#endif

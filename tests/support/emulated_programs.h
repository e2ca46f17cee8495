/* Programs on emulated GPUs (fakes/emulated.c) that go every way through the driver of CUDA: what they leave out of its order, the
 * emulator's watch of memory notices. Skipped where there is no NVRTC. BERTH_TEST_FILTER is a pattern of the names of the programs to
 * run (* and ?). Included once by a test. */
#ifndef BERTH_TESTS_SUPPORT_EMULATED_PROGRAMS_H
#define BERTH_TESTS_SUPPORT_EMULATED_PROGRAMS_H

#include <math.h>

#include "support/support.h"

#define LARGE ((int64_t)5 << 19) /* float32s: several times the driver's pinned buffers */

static inline float *numbers(int64_t count, float first) {
    float *made = test_malloc((size_t)count * sizeof *made);
    for (int64_t i = 0; i < count; i++) made[i] = first + (float)(i % 509);
    return made;
}

static inline void begin_with(const char *flags) {
    fresh(flags);
    OK(bt_set_default_device("gpu:0"));
}

static inline void begin(void) { begin_with(""); }

/* Elements i of x are scale * (first + i % 509) + shift. */
static inline void expect_line(bt_array *x, int64_t count, float first, float scale, float shift) {
    float *got = test_malloc((size_t)count * sizeof *got);
    OK(bt_read(x, got, (size_t)count * sizeof *got));
    for (int64_t i = 0; i < count; i++) {
        float want = scale * (first + (float)(i % 509)) + shift;
        if (got[i] != want) fail_msg("element %lld is %g, not %g", (long long)i, (double)got[i], (double)want);
    }
    test_free(got);
}

#define RUN_EMULATED(tests) (begin_emulated(), cmocka_run_group_tests(tests, NULL, fresh_end))
static inline void begin_emulated(void) {
    setenv("BERTH_TEST_DEVICES", "cuda-emulated", 1);
    restart_emulated();
    if (getenv("BERTH_TEST_FILTER")) cmocka_set_test_filter(getenv("BERTH_TEST_FILTER"));
}

#endif

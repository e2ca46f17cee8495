/* Where a call stands in the caller's source, after longjmps and exceptions that left the arguments of a call. */
#include <setjmp.h>

#include "support/support.h"

static jmp_buf out;

static bt_array *leave_by_longjmp(void) { longjmp(out, 1); }

/* The line that the next error names; `line`: where it is made. */
static int line_of_error(void) {
    const char *colon = strchr(bt_error_text(), ':');
    return colon ? atoi(colon + 1) : -1;
}
#define ERROR_NAMES_ITS_LINE()                                  \
    do {                                                        \
        assert_int_equal(bt_device_get(BT_GPU, 77) != NULL, 0); \
        assert_int_equal(line_of_error(), __LINE__);            \
    } while (0)

static void a_longjmp_out_of_an_argument(void **state) {
    BT_SCOPE {
        for (volatile int i = 0; i < 100; i++) {
            if (setjmp(out) == 0) (void)bt_neg(leave_by_longjmp());
            ERROR_NAMES_ITS_LINE();
        }
    }
}

static __attribute__((noinline)) void leave_deeply(int depth) {
    volatile char room[64] = {0};
    if (depth == 0) (void)leave_by_longjmp();
    if (depth >= 0) (void)bt_neg((leave_deeply(depth - 1), bt_num(room[0])));
}

static void longjmps_out_of_many_frames(void **state) {
    BT_SCOPE {
        for (volatile int i = 0; i < 100; i++) {
            if (setjmp(out) == 0) leave_deeply(i);
            ERROR_NAMES_ITS_LINE();
        }
    }
}

/* Calls of other lines that are left, each once. */
#define LEFT \
    if (setjmp(out) == 0) (void)bt_neg(leave_by_longjmp())
static void many_calls_of_one_function(void **state) {
    BT_SCOPE {
        // clang-format off
        LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT;
        LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT;
        LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT;
        LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT; LEFT;
        // clang-format on
        ERROR_NAMES_ITS_LINE();
    }
}

/* Calls inside of calls, in functions inside of functions: the innermost and the outermost know their lines. */
static __attribute__((noinline)) int nested(int depth) {
    if (depth == 0) return 0;
    int wrong = 0;
    bt_device *none = bt_device_get((wrong = nested(depth - 1), BT_GPU), 77);
    assert_null(none);
    return wrong + ((depth < 30 || depth > 190) && line_of_error() != __LINE__ - 2);
}

static void deep_nests(void **state) {
    BT_SCOPE {
        assert_int_equal(nested(200), 0);
        bt_array *x = bt_reshape(bt_neg(bt_neg(bt_ones(BT_F32, 3))), 2);
        FAILS(bt_block(x), BT_INVALID_ARGUMENT, "");
        assert_int_equal(line_of_error(), __LINE__ - 2);
        ERROR_NAMES_ITS_LINE();
    }
}

/* Asked for before the call that fails, and after others that failed. */
static void texts_outlive_the_next_failure(void **state) {
    bt_device *device = NULL;
    FAILS(bt_device_find("gpu:70", &device), BT_NOT_FOUND, "gpu:70");
    const char *first = bt_error_text();
    char copy[512];
    snprintf(copy, sizeof copy, "%s", first);
    for (int i = 0; i < 10; i++) assert_int_not_equal((bt_device_find)("no device at all", &device), BT_OK);
    assert_string_equal(first, copy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deep_nests), /* before calls are left */
        cmocka_unit_test(a_longjmp_out_of_an_argument),
        cmocka_unit_test(longjmps_out_of_many_frames),
        cmocka_unit_test(many_calls_of_one_function),
        cmocka_unit_test(texts_outlive_the_next_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

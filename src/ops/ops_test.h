/* What the tests of composed operations share. */
#ifndef BTI_OPS_OPS_TEST_H
#define BTI_OPS_OPS_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>

#define F32(shape, ...) BT_ARRAY(float, shape, __VA_ARGS__)
#define I32(shape, ...) BT_ARRAY(int32_t, shape, __VA_ARGS__)
#define U8(shape, ...) BT_ARRAY(uint8_t, shape, __VA_ARGS__)
#define ALL(...) ((bt_array *[]){__VA_ARGS__})
#define SIZES(...) ((const int64_t[]){__VA_ARGS__})

static inline bt_array *vector(void) { return F32((3), 1, 2, 3); }
static inline bt_array *matrix(void) { return F32((2, 3), 1, 2, 3, 4, 5, 6); }
static inline bt_array *truths(void) { return BT_ARRAY(bool, (2), true, false); }
static inline bt_array *image(void) { return bt_ones(BT_F32, 1, 2, 4, 4); }
static inline bt_array *two_zeros(void) { return bt_zeros(BT_U32, 2); }
static inline bt_array *deep(void) { return bt_zeros(BT_F32, 1, 1, 1, 1, 1, 1, 1, 1); }
static inline bt_shape rank_9(void) { return BT_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1); }

/* The error names the call and the caller's place, and says `part`. */
static inline void expect_refusal(bt_array *x, const char *name, const char *part, const char *file, int line) {
    assert_non_null(x);
    bt_error_clear();
    bt_status status = bt_block(x);
    const char *text = bt_error_text();
    if (status == BT_OK || !strstr(text, name) || !strstr(text, part) || !strstr(text, file))
        fail_msg("line %d: %s, \"%s\"; expected \"%s\" ... \"%s\"", line, bt_status_name(status), text, name, part);
}

#define BAD(name, expression, part) \
    BT_SCOPE                        \
    expect_refusal(expression, " bt_" #name ": ", part, &strrchr("/" __FILE__, '/')[1], __LINE__)

#endif

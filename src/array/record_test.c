/* Arrays in memory that is lent to them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>

#include "array/handle.h"
#include "base/flags.h"

enum { COUNT = 1000 };

static _Alignas(64) float lent[COUNT];
static int ended;

static void end(void *lender) { ++*(int *)lender; }

static void begin(const char *flags) {
    assert_int_equal(bt_shutdown(), BT_OK);
    setenv("BERTH_FLAGS", flags, 1);
    bti_flags_reset();
    bt_error_clear();
    ended = 0;
    for (int i = 0; i < COUNT; i++) lent[i] = (float)i;
}

static int finish(void **state) {
    begin("");
    return 0;
}

static void elements_are_used_where_they_lie(void **state) {
    begin("");
    double sum = 0, first = 0;
    bt_array *kept = NULL;
    BT_SCOPE {
        bt_array *x = bti_from_lent(lent, BT_F32, BT_SHAPE(COUNT), end, &ended);
        lent[0] = 7; /* it is no copy */
        assert_int_equal(bt_item_at(x, (int64_t[]){0}, &first), BT_OK);
        sum = bt_item(bt_sum(bt_add(x, bt_num(1)), BT_ALL, false));
        bt_assign(&kept, bt_slice(x, (int64_t[]){0}, (int64_t[]){10}, (int64_t[]){1}));
        assert_int_equal(ended, 0);
    }
    assert_true(first > 6.5 && first < 7.5);
    assert_true(sum > 500506.5 && sum < 500507.5);
    BT_SCOPE
        assert_true(bt_item(bt_sum(kept, BT_ALL, false)) > 51.5);
    bt_assign(&kept, NULL);
    bt_synchronize();
    assert_int_equal(ended, 1);
}

static void what_is_written_leaves_the_lent_elements_alone(void **state) {
    begin("");
    BT_SCOPE {
        static const float other[COUNT] = {3};
        bt_array *x = bti_from_lent(lent, BT_F32, BT_SHAPE(COUNT), end, &ended);
        assert_int_equal(bt_write(x, other, sizeof other), BT_OK);
        assert_int_equal(bt_block(x), BT_OK);
    }
    assert_int_equal(ended, 1);
    assert_true(lent[5] > 4.5);
}

static void other_devices_copy_them(void **state) {
    begin("devices=sim:gpu*1@1G");
    BT_SCOPE {
        bt_array *x = NULL;
        BT_ON("gpu:0") x = bti_from_lent(lent, BT_F32, BT_SHAPE(COUNT), end, &ended);
        assert_int_equal(ended, 1);
        memset(lent, 0, sizeof lent);
        assert_true(bt_item(bt_sum(x, BT_ALL, false)) > 499499.5);
    }
}

static void poisoned_ones_give_them_back(void **state) {
    begin("");
    BT_SCOPE {
        assert_int_equal(bt_peek_status(bti_from_lent(NULL, BT_F32, BT_SHAPE(COUNT), end, &ended)),
                         BT_INVALID_ARGUMENT);
        assert_int_equal(ended, 1);
        assert_int_equal(bt_peek_status(bti_from_lent(lent, BT_F32, BT_SHAPE(-5), end, &ended)), BT_INVALID_ARGUMENT);
    }
    assert_int_equal(ended, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(elements_are_used_where_they_lie, finish),
        cmocka_unit_test_teardown(what_is_written_leaves_the_lent_elements_alone, finish),
        cmocka_unit_test_teardown(other_devices_copy_them, finish),
        cmocka_unit_test_teardown(poisoned_ones_give_them_back, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

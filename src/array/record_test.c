/* Arrays made of the host's memory: copied, or lent to them; bools that are neither 0 nor 1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
        bt_array *x = bt_from_lent(lent, BT_F32, BT_SHAPE(COUNT), end, &ended);
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
        bt_array *x = bt_from_lent(lent, BT_F32, BT_SHAPE(COUNT), end, &ended);
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
        BT_ON("gpu:0") x = bt_from_lent(lent, BT_F32, BT_SHAPE(COUNT), end, &ended);
        assert_int_equal(ended, 1);
        memset(lent, 0, sizeof lent);
        assert_true(bt_item(bt_sum(x, BT_ALL, false)) > 499499.5);
    }
}

static void poisoned_ones_give_them_back(void **state) {
    begin("");
    BT_SCOPE {
        assert_int_equal(bt_peek_status(bt_from_lent(NULL, BT_F32, BT_SHAPE(COUNT), end, &ended)), BT_INVALID_ARGUMENT);
        assert_int_equal(ended, 1);
        assert_int_equal(bt_peek_status(bt_from_lent(lent, BT_F32, BT_SHAPE(-5), end, &ended)), BT_INVALID_ARGUMENT);
    }
    assert_int_equal(ended, 2);
}

/* --- bools ------------------------------------------------------------------------------------------------------------ */

enum { BOOLS = 4099 };

static unsigned char odd[BOOLS];

static void expect_bools(bt_array *x) {
    static unsigned char read[BOOLS];
    memset(read, 7, sizeof read);
    assert_int_equal(bt_read(x, read, sizeof read), BT_OK);
    int64_t count = 0;
    for (int i = 0; i < BOOLS; i++) {
        if (read[i] != (odd[i] != 0)) fail_msg("element %d, given as %d, is %d", i, odd[i], read[i]);
        count += read[i];
    }
    assert_int_equal(bt_item(bt_sum(x, BT_ALL, false)), count);
    assert_int_equal(bt_item(bt_sum(bt_cast(x, BT_I32), BT_ALL, false)), count);
    assert_int_equal(bt_item(bt_sum(bt_cast(bt_eq(x, bt_ones(BT_BOOL, BOOLS)), BT_I32), BT_ALL, false)), count);
    assert_int_equal(bt_item(bt_sum(bt_cast(bt_logical_not(x), BT_I32), BT_ALL, false)), BOOLS - count);
}

static void written_files_are_read(bt_array *x) {
    char safe[] = "/tmp/berth-bools-XXXXXX", plain[] = "/tmp/berth-bools-XXXXXX";
    close(mkstemp(safe));
    close(mkstemp(plain));
    const char *const name = "x";
    bt_tensors *tensors = NULL;
    assert_int_equal(bt_save(safe, &name, &x, 1, NULL), BT_OK);
    assert_int_equal(bt_tensors_open(safe, &tensors), BT_OK);
    expect_bools(bt_tensors_get(tensors, name));
    bt_tensors_close(tensors);
    assert_int_equal(bt_save_npy(plain, x), BT_OK);
    expect_bools(bt_load_npy(plain));
    unlink(safe);
    unlink(plain);
}

static void bools_are_zero_or_one(void **state) {
    for (int i = 0; i < BOOLS; i++) odd[i] = (unsigned char)(i % 3 ? 0 : i % 7 + 1);
    static const char *const flags[] = {"", "devices=sim:gpu*2"};
    for (int f = 0; f < 2; f++) {
        begin(flags[f]);
        BT_SCOPE {
            bt_shape shape = BT_SHAPE(BOOLS);
            bt_array *x = bt_from(odd, BT_BOOL, shape), *written = bt_zeros(BT_BOOL, BOOLS);
            expect_bools(x);
            assert_int_equal(bt_write(written, odd, BOOLS), BT_OK);
            expect_bools(written);
            expect_bools(bt_from(bt_map(written), BT_BOOL, shape));
            expect_bools(bt_from_lent(odd, BT_BOOL, shape, end, &ended));
            if (f == 1)
                BT_ON("gpu:1") expect_bools(bt_from(odd, BT_BOOL, shape));
            bt_shared *variable = bt_shared_new(bt_from(odd, BT_BOOL, shape), NULL);
            expect_bools(bt_value(variable));
            written_files_are_read(x);
        }
        assert_int_equal(ended, 1);
    }
}

/* Memory that kernels cannot count on is copied, and free at once. */
static void unaligned_memory_is_copied(void **state) {
    begin("");
    BT_SCOPE {
        bt_array *x = NULL, *empty = NULL;
        BT_ON("cpu") x = bt_from_lent(lent + 1, BT_F32, BT_SHAPE(COUNT - 1), end, &ended);
        assert_int_equal(ended, 1);
        lent[1] = 77;
        float got[COUNT - 1];
        assert_int_equal(bt_read(x, got, sizeof got), BT_OK);
        for (int i = 0; i < COUNT - 1; i++) assert_int_equal((int)got[i], i + 1);
        BT_ON("cpu") empty = bt_from_lent(NULL, BT_F32, BT_SHAPE(0, 3), end, &ended);
        assert_int_equal(bt_count(bt_exp(empty)), 0);
        assert_int_equal(bt_peek_status(bt_from_lent(lent, BT_F32, BT_SHAPE(COUNT), NULL, NULL)), BT_OK);
    }
    assert_int_equal(ended, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unaligned_memory_is_copied),
        cmocka_unit_test_teardown(elements_are_used_where_they_lie, finish),
        cmocka_unit_test_teardown(what_is_written_leaves_the_lent_elements_alone, finish),
        cmocka_unit_test_teardown(other_devices_copy_them, finish),
        cmocka_unit_test_teardown(poisoned_ones_give_them_back, finish),
        cmocka_unit_test_teardown(bools_are_zero_or_one, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// labels: threads valgrind
/* Arrays that lie in the store: how long they last, and that they are no copies. */

#include "support/support.h"

enum { COUNT = 1 << 20, BYTES = 4 * COUNT, STORE_BYTES = 40 << 20 };

static bt_status make(bt_task *task) {
    int64_t value;
    if (bt_argument(task, 0, &value) != BT_OK) return bt_error_status();
    return bt_return(task, bt_full((double)value, BT_F32, COUNT));
}
BT_REMOTE(make);

static bt_status sum(bt_task *task) {
    bt_array *x;
    if (bt_argument(task, 0, &x) != BT_OK) return bt_error_status();
    return bt_return(task, bt_item(bt_sum(x, BT_ALL, false)));
}
BT_REMOTE(sum);

/* What is computed of an array of the store outlives it: the array is given back when the result forgets how it was made. */
static bt_array *double_of_stored(bt_array *(*get)(void *from), void *from) {
    bt_array *y = NULL, *kept = NULL;
    BT_SCOPE {
        BT_SCOPE {
            bt_array *x = get(from);
            y = bt_keep(bt_add(x, x));
        }
        if (bt_block(y) == BT_OK) kept = bt_retain(y);
    }
    return kept;
}

static bt_array *get_argument(void *task) {
    bt_array *x = NULL;
    return bt_argument(task, 0, &x) == BT_OK ? x : NULL;
}

static bt_array *get_value(void *ref) {
    bt_array *x = NULL;
    return bt_get(ref, &x) == BT_OK ? x : NULL;
}

static bt_status sum_of_double(bt_task *task) {
    bt_array *kept = double_of_stored(get_argument, task);
    if (!kept) return bt_error_status();
    double value = 0;
    BT_SCOPE
        value = bt_item(bt_sum(kept, BT_ALL, false));
    bt_release(kept);
    return bt_return(task, value);
}
BT_REMOTE(sum_of_double);

static void forget(void *state) { bt_release(state); }

/* An actor that keeps its argument. */
static bt_status keeper_new(bt_task *task) {
    bt_array *x;
    if (bt_argument(task, 0, &x) != BT_OK) return bt_error_status();
    bt_set_state(task, bt_retain(x), forget);
    return BT_OK;
}
BT_REMOTE(keeper_new);

static bt_status keeper_sum(bt_task *task) { return bt_return(task, bt_item(bt_sum(bt_state(task), BT_ALL, false))); }
BT_REMOTE(keeper_sum);

static size_t used_bytes(void) {
    bt_device *device;
    bt_memory_info info = BT_MEMORY_INFO_INIT;
    OK(bt_device_find("cpu:0", &device));
    OK(bt_memory(device, &info));
    return info.used;
}

static void is_near(double value, double wanted) { assert_true(value > wanted - 0.5 && value < wanted + 0.5); }

/* One after the other in one runtime: arrays start threads, and no second one can begin after them. */
static void arrays_lie_in_the_store(void **state) {
    bt_array *kept = NULL, *last = NULL;
    double value = 0;
    OK(bt_runtime_init(.num_cpus = 2, .store_bytes = STORE_BYTES));
    BT_SCOPE {
        bt_array *x = NULL;
        OK(bt_get(bt_remote(make, 3), &x));
        bt_assign(&kept, x);
    }
    assert_true(used_bytes() < BYTES); /* no copy, and its reference is gone */
    BT_SCOPE
        is_near(bt_item(bt_sum(kept, BT_ALL, false)), 3.0 * COUNT);
    bt_assign(&kept, NULL);
    for (int i = 0; i < 30; i++) { /* more than there is room for at once */
        BT_SCOPE {
            bt_array *x = NULL;
            OK(bt_get(bt_put(bt_full(i, BT_F32, COUNT)), &x));
            OK(bt_get(bt_remote(sum, x), &value));
            is_near(value, (double)i * COUNT);
            OK(bt_get(bt_remote(sum, bt_remote(make, i)), &value));
            is_near(value, (double)i * COUNT);
        }
    }
    BT_SCOPE {
        OK(bt_get(bt_remote(sum_of_double, bt_full(2, BT_F32, COUNT)), &value));
        is_near(value, 4.0 * COUNT);
        bt_array *doubled = double_of_stored(get_value, bt_put(bt_full(3, BT_F32, COUNT)));
        assert_non_null(doubled);
        is_near(bt_item(bt_sum(doubled, BT_ALL, false)), 6.0 * COUNT);
        bt_release(doubled);
    }
    BT_SCOPE {
        bt_actor *keeper;
        BT_SCOPE
            keeper = bt_actor_retain(bt_actor_new(keeper_new, bt_remote(make, 5)));
        OK(bt_get(bt_method(keeper, keeper_sum), &value));
        is_near(value, 5.0 * COUNT);
        for (int i = 0; i < 8; i++) OK(bt_get(bt_remote(make, 6), NULL)); /* nothing lands where its array lies */
        OK(bt_get(bt_method(keeper, keeper_sum), &value));
        is_near(value, 5.0 * COUNT);
        bt_actor_release(keeper);
    }
    BT_SCOPE {
        bt_array *x = NULL;
        OK(bt_get(bt_remote(make, 7), &x));
        bt_assign(&last, x);
    }
    OK(bt_runtime_shutdown());
    BT_SCOPE
        is_near(bt_item(bt_sum(last, BT_ALL, false)), 7.0 * COUNT);
    bt_assign(&last, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(arrays_lie_in_the_store)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Calls with several results: each is a value of its own, so the calls that follow get what they need and nothing else.
#include <berth.h>
#include <stdio.h>

// The least and the greatest of some numbers, and how many there are.
static bt_status bounds(bt_task *task) {
    bt_list numbers;
    double least = 0, greatest = 0, x;
    bt_status status = bt_arguments(task, &numbers);
    for (int i = 0; i < bt_list_count(numbers) && status == BT_OK; i++) {
        status = bt_list_get(numbers, i, &x);
        if (i == 0 || x < least) least = x;
        if (i == 0 || x > greatest) greatest = x;
    }
    return status == BT_OK ? bt_return(task, least, greatest, bt_list_count(numbers)) : status;
}
BT_REMOTE(bounds, .num_returns = 3);

static bt_status difference(bt_task *task) {
    double a, b;
    bt_status status = bt_arguments(task, &a, &b);
    return status == BT_OK ? bt_return(task, b - a) : status;
}
BT_REMOTE(difference);

int main(void) {
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        double width;
        int count;
        bt_ref *least = bt_remote(bounds, BT_LIST(3.0, -1.5, 4.0, 1.0, 5.5)); // the first result
        bt_ref *greatest = bt_result(least, 1);
        if (bt_get(bt_remote(difference, least, greatest), &width) != BT_OK ||
            bt_get(bt_result(least, 2), &count) != BT_OK)
            return puts(bt_error_text()), 1;
        printf("%d numbers, %g apart\n", count, width);
    }
    return bt_runtime_shutdown();
}

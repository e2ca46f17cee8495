// Four calls of one function: they run at the same time, each in a worker process; then their results, in order.
#include <berth.h>
#include <stdio.h>

static bt_status square(bt_task *task) {
    int x;
    bt_status status = bt_arguments(task, &x);
    return status == BT_OK ? bt_return(task, x * x) : status;
}
BT_REMOTE(square);

int main(void) {
    if (bt_runtime_init(.num_cpus = 4) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        bt_ref *results[4];
        for (int i = 0; i < 4; i++) results[i] = bt_remote(square, i); // returns at once
        for (int i = 0; i < 4; i++) {
            int y;
            if (bt_get(results[i], &y) != BT_OK) return puts(bt_error_text()), 1; // waits
            printf("%d\n", y);
        }
    }
    return bt_runtime_shutdown();
}

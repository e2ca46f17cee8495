// A pool hands calls to whichever of its actors is idle. Results come in the order of the calls, or as they are done.
#include <berth.h>
#include <stdio.h>

static bt_status worker_new(bt_task *task) { return bt_set_state(task, NULL, NULL), BT_OK; }
BT_REMOTE(worker_new);

static bt_status twice(bt_task *task) {
    int x;
    bt_status status = bt_arguments(task, &x);
    return status == BT_OK ? bt_return(task, 2 * x) : status;
}
BT_REMOTE(twice);

int main(void) {
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        bt_actor *actors[] = {bt_actor_new(worker_new), bt_actor_new(worker_new)};
        bt_pool *pool = bt_pool_new(actors, 2);
        int y, sum = 0;
        for (int x = 1; x <= 6; x++) // two run, four wait in the pool
            if (bt_pool_submit(pool, twice, x) != BT_OK) return puts(bt_error_text()), 1;
        for (int i = 0; i < 3; i++) {
            if (bt_get(bt_pool_next(pool, BT_IN_ORDER, -1), &y) != BT_OK) return puts(bt_error_text()), 1;
            printf("%d\n", y);
        }
        while (bt_pool_has_next(pool)) {
            if (bt_get(bt_pool_next(pool, BT_AS_COMPLETED, -1), &y) != BT_OK) return puts(bt_error_text()), 1;
            sum += y;
        }
        printf("the others: %d\n", sum);
    }
    return bt_runtime_shutdown();
}

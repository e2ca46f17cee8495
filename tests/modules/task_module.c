/* Functions in a shared object, which programs load and workers open. */
#include <berth.h>

static bt_status thrice(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    return status == BT_OK ? bt_return(task, 3 * n) : status;
}
BT_REMOTE(thrice);

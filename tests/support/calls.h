/* Functions of tasks that several tests call. */
#ifndef BERTH_TESTS_SUPPORT_CALLS_H
#define BERTH_TESTS_SUPPORT_CALLS_H

#include <berth.h>
#include <time.h>

static bt_status nap(bt_task *task) {
    int64_t ms;
    bt_status status = bt_argument(task, 0, &ms);
    if (status == BT_OK) nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
    return status;
}
BT_REMOTE(nap);

static bt_status nothing(bt_task *task) {
    (void)task;
    return BT_OK;
}
BT_REMOTE(nothing);

static bt_status actor_new(bt_task *task) {
    bt_set_state(task, NULL, NULL);
    return BT_OK;
}
BT_REMOTE(actor_new);

#endif

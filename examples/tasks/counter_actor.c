// An actor: a process with a state, here a number. Its methods run one at a time, in the order of the calls.
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>

static bt_status counter_new(bt_task *task) {
    int *count = calloc(1, sizeof *count);
    bt_set_state(task, count, free);
    return count ? BT_OK : bt_task_fail(task, BT_RESOURCE_EXHAUSTED, "no memory");
}
BT_REMOTE(counter_new);

static bt_status counter_increase(bt_task *task) {
    int by, *count = bt_state(task);
    bt_status status = bt_arguments(task, &by);
    if (status == BT_OK) *count += by;
    return status;
}
BT_REMOTE(counter_increase);

static bt_status counter_get(bt_task *task) { return bt_return(task, *(int *)bt_state(task)); }
BT_REMOTE(counter_get);

// A handle to the actor can be an argument: this function runs in another process and counts on.
static bt_status count_to_five(bt_task *task) {
    bt_actor *counter;
    bt_status status = bt_arguments(task, &counter);
    for (int i = 0; i < 5 && status == BT_OK; i++) status = bt_get(bt_method(counter, counter_increase, 1), NULL);
    return status;
}
BT_REMOTE(count_to_five);

int main(void) {
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        int first, last;
        bt_actor *counter = bt_actor_new(counter_new);
        for (int i = 0; i < 10; i++) bt_method(counter, counter_increase, 1);
        if (bt_get(bt_method(counter, counter_get), &first) != BT_OK) return puts(bt_error_text()), 1;
        if (bt_get(bt_remote(count_to_five, counter), NULL) != BT_OK) return puts(bt_error_text()), 1;
        if (bt_get(bt_method(counter, counter_get), &last) != BT_OK) return puts(bt_error_text()), 1;
        printf("%d, then %d\n", first, last);
    }
    return bt_runtime_shutdown();
}

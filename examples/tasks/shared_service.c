// An actor that is made by whoever needs it first. All tasks ask for it by its name; one of them makes it, the others get it, and it
// lives as long as somebody has a handle.
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>

enum { TASKS = 6 };

static bt_status counter_new(bt_task *task) {
    int *count = calloc(1, sizeof *count);
    bt_set_state(task, count, free);
    return count ? BT_OK : bt_task_fail(task, BT_RESOURCE_EXHAUSTED, "no memory");
}
BT_REMOTE(counter_new, .name = "counter", .get_if_exists = true);

static bt_status counter_add(bt_task *task) {
    int by, *count = bt_state(task);
    bt_status status = bt_arguments(task, &by);
    return status == BT_OK ? bt_return(task, *count += by) : status;
}
BT_REMOTE(counter_add);

static bt_status work(bt_task *task) {
    int i;
    bt_status status = bt_arguments(task, &i);
    return status == BT_OK ? bt_get(bt_method(bt_actor_new(counter_new), counter_add, i), NULL) : status;
}
BT_REMOTE(work);

int main(void) {
    if (bt_runtime_init(.num_cpus = 3) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        int sum;
        bt_ref *calls[TASKS];
        bt_actor *counter = bt_actor_new(counter_new); // keeps it alive between the tasks
        for (int i = 0; i < TASKS; i++) calls[i] = bt_remote(work, i);
        for (int i = 0; i < TASKS; i++)
            if (bt_get(calls[i], NULL) != BT_OK) return puts(bt_error_text()), 1;
        if (bt_get(bt_method(counter, counter_add, 0), &sum) != BT_OK) return puts(bt_error_text()), 1;
        printf("%d\n", sum);
    }
    return bt_runtime_shutdown();
}

// A worker takes items from a queue. It asks for the next item before it works on the one that it has, so that it never waits for the
// queue's answer.
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>

enum { ITEMS = 20 };

static bt_status queue_new(bt_task *task) {
    int *given = calloc(1, sizeof *given);
    bt_set_state(task, given, free);
    return given ? BT_OK : bt_task_fail(task, BT_RESOURCE_EXHAUSTED, "no memory");
}
BT_REMOTE(queue_new);

// The next item, -1 when there is none.
static bt_status queue_next(bt_task *task) {
    int *given = bt_state(task);
    return bt_return(task, *given < ITEMS ? ++*given : -1);
}
BT_REMOTE(queue_next);

static bt_status worker(bt_task *task) {
    bt_actor *queue;
    int item, count = 0, sum = 0;
    bt_status status = bt_arguments(task, &queue);
    if (status != BT_OK) return status;
    bt_ref *next = bt_method(queue, queue_next);
    while ((status = bt_get(next, &item)) == BT_OK && item >= 0) {
        next = bt_method(queue, queue_next); // comes while the item is worked on
        sum += item * item;
        count++;
    }
    if (status != BT_OK) return status;
    char text[80];
    snprintf(text, sizeof text, "%d items, sum of squares %d", count, sum);
    return bt_return(task, text);
}
BT_REMOTE(worker);

int main(void) {
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        const char *text;
        if (bt_get(bt_remote(worker, bt_actor_new(queue_new)), &text) != BT_OK) return puts(bt_error_text()), 1;
        puts(text);
    }
    return bt_runtime_shutdown();
}

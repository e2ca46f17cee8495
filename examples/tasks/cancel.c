// Calls that are not wanted any more: one that waits never starts, one that runs is asked to stop or its process is ended, one that takes too
// long is given up.
#include <berth.h>
#include <stdio.h>
#include <unistd.h>

// Works until it is cancelled.
static bt_status search(bt_task *task) {
    while (!bt_task_cancelled(task)) usleep(1000);
    return bt_task_fail(task, BT_CANCELLED, "gave up the search");
}
BT_REMOTE(search);

static bt_status deaf(bt_task *task) {
    while (usleep(1000) == 0) continue;
    return bt_return(task, 0);
}
BT_REMOTE(deaf);

static void show(const char *what, bt_ref *ref) {
    bt_status status = bt_get(ref, NULL);
    printf("%s: %s\n", what, bt_status_name(status));
}

int main(void) {
    if (bt_runtime_init(.num_cpus = 1) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        bt_ref *runs = bt_remote(search), *waits = bt_remote(search);
        if (bt_get_within(runs, 0.05, NULL) != BT_DEADLINE_EXCEEDED) return 1; // it goes on
        if (bt_cancel(waits, false) != BT_OK || bt_cancel(runs, false) != BT_OK) return puts(bt_error_text()), 1;
        show("waits", waits);
        show("runs", runs);
        bt_ref *killed = bt_remote(deaf);
        if (bt_get_within(killed, 0.05, NULL) != BT_DEADLINE_EXCEEDED) return 1;
        if (bt_cancel(killed, true) != BT_OK) return puts(bt_error_text()), 1; // force
        show("deaf", killed);
        show("late", bt_remote_with(BT_OPTIONS(.deadline_seconds = 0.05), deaf));
    }
    return bt_runtime_shutdown();
}

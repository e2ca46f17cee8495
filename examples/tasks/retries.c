// What happens when processes die: a call is repeated as often as its option says, an actor is made again with a new state, and what
// cannot be mended is an error that says why.
#include <berth.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

// Dies at its first two tries, which it counts in a file.
static bt_status unlucky(bt_task *task) {
    FILE *file = fopen("tries", "a+");
    if (!file) return bt_task_fail(task, BT_NOT_FOUND, "no file");
    fseek(file, 0, SEEK_END);
    int tries = (int)ftell(file);
    fputc('x', file);
    fclose(file);
    if (tries < 2) raise(SIGKILL);
    return bt_return(task, tries + 1);
}
BT_REMOTE(unlucky, .max_retries = 3);

static bt_status counter_new(bt_task *task) {
    int *count = calloc(1, sizeof *count);
    bt_set_state(task, count, free);
    return count ? BT_OK : bt_task_fail(task, BT_RESOURCE_EXHAUSTED, "no memory");
}
BT_REMOTE(counter_new, .max_restarts = 1);

static bt_status count(bt_task *task) { return bt_return(task, ++*(int *)bt_state(task)); }
BT_REMOTE(count);

static bt_status crash(bt_task *task) { return raise(SIGKILL), bt_return(task, 0); }
BT_REMOTE(crash);

static void show(bt_ref *ref) {
    int n;
    if (bt_get(ref, &n) == BT_OK)
        printf("%d\n", n);
    else
        puts(bt_error_text());
}

int main(void) {
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        show(bt_remote(unlucky));
        show(bt_remote(crash));
        bt_actor *counter = bt_actor_new(counter_new);
        show(bt_method(counter, count));
        show(bt_method(counter, count));
        show(bt_method(counter, crash));
        show(bt_method(counter, count)); // begins anew
        show(bt_method(counter, crash)); // once too often
        show(bt_method(counter, count));
        remove("tries");
    }
    return bt_runtime_shutdown();
}

// A program that makes calls faster than they run. It waits whenever ten are pending, so that a stream without an end needs no more memory
// than a short one.
#include <berth.h>
#include <stdio.h>

enum { CALLS = 100, MOST_PENDING = 10 };

static bt_status work(bt_task *task) {
    int i;
    bt_status status = bt_arguments(task, &i);
    return status == BT_OK ? bt_return(task, 2 * i) : status;
}
BT_REMOTE(work);

// Takes the results that are there, at least one, and moves the others to the front; the number of those.
static int take_results(bt_ref **pending, int count, int wanted, int *sum) {
    bool ready[MOST_PENDING];
    int left = 0;
    if (bt_wait_refs(pending, count, wanted, ready, -1) < 0) return -1;
    for (int i = 0; i < count; i++) {
        int result = 0;
        if (!ready[i]) {
            pending[left++] = pending[i];
            continue;
        }
        if (bt_get(pending[i], &result) != BT_OK) return -1;
        bt_ref_release(pending[i]); // its memory is free again, before the scope ends
        *sum += result;
    }
    return left;
}

int main(void) {
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        bt_ref *pending[MOST_PENDING];
        int count = 0, most = 0, sum = 0;
        for (int i = 0; i < CALLS; i++) {
            if (count == MOST_PENDING && (count = take_results(pending, count, 1, &sum)) < 0)
                return puts(bt_error_text()), 1;
            pending[count++] = bt_remote(work, i);
            most = count > most ? count : most;
        }
        if (take_results(pending, count, count, &sum) != 0) return puts(bt_error_text()), 1;
        printf("sum %d, never more than %d pending\n", sum, most);
    }
    return bt_runtime_shutdown();
}

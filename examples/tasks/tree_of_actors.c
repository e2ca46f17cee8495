// A tree of actors: each supervisor makes three workers, gives each its part of the work, and adds up what they find. Workers end with
// their supervisor, which alone holds them.
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORKERS = 3 };

static bt_status worker_new(bt_task *task) { return bt_set_state(task, NULL, NULL), BT_OK; }
BT_REMOTE(worker_new);

// How many primes there are from `first` to `last`.
static bt_status worker_count(bt_task *task) {
    int first, last, count = 0;
    bt_status status = bt_arguments(task, &first, &last);
    if (status != BT_OK) return status;
    for (int n = first < 2 ? 2 : first; n <= last; n++) {
        int d = 2;
        while (d * d <= n && n % d) d++;
        count += d * d > n;
    }
    return bt_return(task, count);
}
BT_REMOTE(worker_count);

static void supervisor_release(void *state) {
    bt_actor **workers = state;
    for (int i = 0; i < WORKERS; i++) bt_actor_release(workers[i]);
    free(workers);
}

static bt_status supervisor_new(bt_task *task) {
    bt_actor **workers = calloc(WORKERS, sizeof *workers);
    if (!workers) return bt_task_fail(task, BT_RESOURCE_EXHAUSTED, "no memory");
    for (int i = 0; i < WORKERS; i++) workers[i] = bt_actor_retain(bt_actor_new(worker_new));
    bt_set_state(task, workers, supervisor_release);
    return BT_OK;
}
BT_REMOTE(supervisor_new);

static bt_status supervisor_count(bt_task *task) {
    bt_actor **workers = bt_state(task);
    bt_ref *counts[WORKERS];
    int first, last, sum = 0;
    bt_status status = bt_arguments(task, &first, &last);
    if (status != BT_OK) return status;
    for (int i = 0; i < WORKERS; i++)
        counts[i] = bt_method(workers[i], worker_count, first + (last - first + 1) * i / WORKERS,
                              first + (last - first + 1) * (i + 1) / WORKERS - 1);
    for (int i = 0; i < WORKERS && status == BT_OK; i++) {
        int count = 0;
        status = bt_get(counts[i], &count);
        sum += count;
    }
    return status == BT_OK ? bt_return(task, sum) : status;
}
BT_REMOTE(supervisor_count);

int main(void) {
    if (bt_runtime_init(.num_cpus = 4) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        bt_actor *low = bt_actor_new(supervisor_new), *high = bt_actor_new(supervisor_new);
        bt_ref *below = bt_method(low, supervisor_count, 1, 5000),
               *above = bt_method(high, supervisor_count, 5001, 10000);
        int a, b;
        if (bt_get(below, &a) != BT_OK || bt_get(above, &b) != BT_OK) return puts(bt_error_text()), 1;
        printf("%d + %d = %d primes up to 10000\n", a, b, a + b);
    }
    return bt_runtime_shutdown();
}

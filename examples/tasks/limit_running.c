// A resource of the program's own limits how many calls run at once: of sixteen CPUs, twelve could be in use, but each call takes 1 of 3
// units of memory. A gauge counts how many are inside.
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>

enum { CALLS = 12 };

typedef struct gauge {
    int inside, most;
} gauge;

static bt_status gauge_new(bt_task *task) {
    gauge *g = calloc(1, sizeof *g);
    bt_set_state(task, g, free);
    return g ? BT_OK : bt_task_fail(task, BT_RESOURCE_EXHAUSTED, "no memory");
}
BT_REMOTE(gauge_new);

static bt_status gauge_move(bt_task *task) {
    gauge *g = bt_state(task);
    int by;
    bt_status status = bt_arguments(task, &by);
    if (status != BT_OK) return status;
    g->inside += by;
    if (g->inside > g->most) g->most = g->inside;
    return bt_return(task, g->most);
}
BT_REMOTE(gauge_move);

static bt_status load(bt_task *task) {
    bt_actor *meter;
    bt_status status = bt_arguments(task, &meter);
    if (status == BT_OK) status = bt_get(bt_method(meter, gauge_move, 1), NULL);
    if (status == BT_OK) status = bt_get(bt_method(meter, gauge_move, -1), NULL);
    return status;
}
BT_REMOTE(load, .resources = {{"memory", 1}});

int main(void) {
    if (bt_runtime_init(.num_cpus = 16, .resources = {{"memory", 3}}) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        bt_ref *loads[CALLS];
        int most;
        bt_actor *meter = bt_actor_new(gauge_new);
        for (int i = 0; i < CALLS; i++) loads[i] = bt_remote(load, meter);
        for (int i = 0; i < CALLS; i++)
            if (bt_get(loads[i], NULL) != BT_OK) return puts(bt_error_text()), 1;
        if (bt_get(bt_method(meter, gauge_move, 0), &most) != BT_OK) return puts(bt_error_text()), 1;
        printf("%d calls, %s at once\n", CALLS, most <= 3 ? "at most 3" : "more than 3");
    }
    return bt_runtime_shutdown();
}

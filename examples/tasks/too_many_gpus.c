// A function and an actor that want more GPUs than the runtime was given: errors at once, which name both numbers.
#include <berth.h>
#include <stdio.h>

static bt_status train(bt_task *task) { return bt_return(task, 1); }
BT_REMOTE(train, .num_gpus = 4);

static bt_status trainer(bt_task *task) { return bt_set_state(task, NULL, NULL), BT_OK; }
BT_REMOTE(trainer, .num_gpus = 3);

int main(void) {
    if (bt_runtime_init(.num_cpus = 2, .num_gpus = 2) != BT_OK) return fprintf(stderr, "%s\n", bt_error_text()), 1;
    BT_SCOPE {
        if (bt_get(bt_remote(train), NULL) != BT_OK) puts(bt_error_text());
        if (bt_actor_status(bt_actor_new(trainer)) != BT_OK) puts(bt_error_text());
    }
    return bt_runtime_shutdown() != BT_OK;
}

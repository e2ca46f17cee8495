// A function and an actor that are handed GPUs, in processes of their own; the runtime is told of three, whether or not they are there. After
// Ray's "Using Ray with GPUs".
#include <berth.h>
#include <stdio.h>

static bt_status use_gpu(bt_task *task) {
    char text[80];
    int count = bt_get_gpu_ids(NULL, 0);
    snprintf(text, sizeof text, "I am allowed to use %d GPU%s.", count, count == 1 ? "" : "s");
    return bt_return(task, (const char *)text);
}
BT_REMOTE(use_gpu, .num_gpus = 1);

static bt_status gpu_actor(bt_task *task) { return bt_set_state(task, NULL, NULL), BT_OK; }
BT_REMOTE(gpu_actor, .num_gpus = 1);

int main(void) {
    if (bt_runtime_init(.num_cpus = 10, .num_gpus = 3) != BT_OK) return fprintf(stderr, "%s\n", bt_error_text()), 1;
    BT_SCOPE {
        const char *text;
        if (bt_get(bt_remote(use_gpu), &text) == BT_OK) puts(text);
        if (bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 2), use_gpu), &text) == BT_OK) puts(text);
        bt_actor *actor = bt_actor_new(gpu_actor);
        if (bt_get(bt_method(actor, use_gpu), &text) == BT_OK) printf("An actor: %s\n", text);
    }
    return bt_runtime_shutdown() != BT_OK;
}

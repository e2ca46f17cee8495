// Which GPUs a task was handed: their numbers, and CUDA_VISIBLE_DEVICES, which holds the same, so that inside they are 0, 1, 2. Says
// nothing, asks for none, for one, for three. After Ray's "Using Ray with GPUs".
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>

static bt_status say(bt_task *task) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char text[200];
    int ids[8], count = bt_get_gpu_ids(ids, 8);
    int length = snprintf(text, sizeof text, "%d GPUs [", count);
    for (int i = 0; i < count; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%s%d", i ? ", " : "", ids[i]);
    snprintf(text + length, sizeof text - (size_t)length, "], CUDA_VISIBLE_DEVICES is %s%s%s", visible ? "\"" : "",
             visible ? visible : "as it was: unset", visible ? "\"" : "");
    return bt_return(task, (const char *)text);
}

static bt_status says_nothing(bt_task *task) { return say(task); }
static bt_status without(bt_task *task) { return say(task); }
static bt_status with_one(bt_task *task) { return say(task); }
static bt_status with_three(bt_task *task) { return say(task); }
BT_REMOTE(says_nothing);
BT_REMOTE(without, .num_gpus = 0);
BT_REMOTE(with_one, .num_gpus = 1);
BT_REMOTE(with_three, .num_gpus = 3);

static void print(bt_ref *ref) {
    const char *text;
    puts(bt_get(ref, &text) == BT_OK ? text : bt_error_text());
}

int main(void) {
    if (bt_runtime_init(.num_cpus = 4, .num_gpus = 3) != BT_OK) return fprintf(stderr, "%s\n", bt_error_text()), 1;
    BT_SCOPE {
        print(bt_remote(says_nothing));
        print(bt_remote(without));
        print(bt_remote(with_three));
    }
    BT_SCOPE
        print(bt_remote(with_one));
    return bt_runtime_shutdown() != BT_OK;
}

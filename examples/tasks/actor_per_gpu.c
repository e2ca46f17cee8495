// One actor per GPU is one loop: each keeps its part of the numbers on its GPU, which it knows as gpu:0, and sums it there.
#include <berth.h>
#include <stdio.h>

enum { GPUS = 4 };

// The state: numbers of this part, on the GPU.
static void release(void *part) { bt_release(part); }

static bt_status part_new(bt_task *task) {
    int64_t part, count;
    bt_status status = bt_argument(task, 0, &part);
    if (status == BT_OK) status = bt_argument(task, 1, &count);
    if (status != BT_OK) return status;
    bt_array *numbers;
    BT_ON("gpu:0") numbers = bt_arange((double)(part * count), (double)((part + 1) * count), 1, BT_F64);
    bt_set_state(task, bt_retain(numbers), release);
    return bt_block(numbers);
}
BT_REMOTE(part_new, .num_gpus = 1);

static bt_status part_sum(bt_task *task) { return bt_return(task, bt_item(bt_sum(bt_state(task)))); }
static bt_status part_gpu(bt_task *task) {
    int id = -1;
    bt_get_gpu_ids(&id, 1);
    return bt_return(task, id);
}
BT_REMOTE(part_sum);
BT_REMOTE(part_gpu);

int main(void) {
    if (bt_runtime_init(.num_cpus = 4, .num_gpus = GPUS) != BT_OK) return fprintf(stderr, "%s\n", bt_error_text()), 1;
    BT_SCOPE {
        bt_actor *actors[GPUS];
        bt_ref *sums[GPUS], *ids[GPUS];
        double total = 0;
        for (int i = 0; i < GPUS; i++) actors[i] = bt_actor_new(part_new, i, 1000);
        for (int i = 0; i < GPUS; i++)
            sums[i] = bt_method(actors[i], part_sum), ids[i] = bt_method(actors[i], part_gpu);
        for (int i = 0; i < GPUS; i++) {
            double sum = 0;
            int id = -1;
            if (bt_get(sums[i], &sum) != BT_OK || bt_get(ids[i], &id) != BT_OK)
                return fprintf(stderr, "%s\n", bt_error_text()), 1;
            printf("GPU %d: %.0f\n", id, sum);
            total += sum;
        }
        printf("all: %.0f\n", total);
    }
    return bt_runtime_shutdown() != BT_OK;
}

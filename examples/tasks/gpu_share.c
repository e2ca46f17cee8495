// Two tasks on one GPU, each with half of it and of its memory: what does not fit into the half is refused.
#include <berth.h>
#include <stdio.h>

// A sum of `count` numbers on the task's GPU, which it knows as gpu:0.
static bt_status sum(bt_task *task) {
    int64_t count;
    double result;
    bt_status status = bt_argument(task, 0, &count);
    if (status != BT_OK) return status;
    bt_array *x;
    BT_ON("gpu:0") x = bt_arange(0, (double)count, 1, BT_F64);
    if ((status = bt_block(x)) != BT_OK) return bt_task_fail(task, status, "%lld numbers do not fit", (long long)count);
    result = bt_item(bt_sum(x));
    return bt_return(task, result);
}
BT_REMOTE(sum, .num_gpus = 0.5);

int main(void) {
    double result = 0;
    if (bt_runtime_init(.num_cpus = 2, .num_gpus = 1) != BT_OK) return fprintf(stderr, "%s\n", bt_error_text()), 1;
    BT_SCOPE {
        bt_ref *small = bt_remote(sum, 2 << 20), *large = bt_remote(sum, 6 << 20); // 16 and 48 of 64 MiB
        if (bt_get(small, &result) == BT_OK) printf("the sum is %.0f\n", result);
        if (bt_get(large, &result) != BT_OK) puts(bt_error_text());
    }
    return bt_runtime_shutdown() != BT_OK;
}

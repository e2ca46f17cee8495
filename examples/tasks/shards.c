// Ray's data parallelism by hand: an actor per GPU trains on its shard of the data; after each round a task averages the weights, which
// travel as references. No process but the actors ever sees the data.
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORKERS = 2, ROWS = 64, ROUNDS = 40 };

typedef struct trainer {
    bt_array *x, *y;
    bt_shared *weights;
} trainer;

static void trainer_release(void *state) {
    trainer *t = state;
    bt_release(t->x);
    bt_release(t->y);
    bt_shared_release(t->weights);
    free(t);
}

// Rows of y = x * (2, -1, 0.5), its own part of them, on its GPU.
static bt_status trainer_new(bt_task *task) {
    int64_t shard;
    bt_status status = bt_argument(task, 0, &shard);
    trainer *t = calloc(1, sizeof *t);
    if (status != BT_OK || !t)
        return free(t), status != BT_OK ? status : bt_task_fail(task, BT_RESOURCE_EXHAUSTED, "no memory");
    BT_ON("gpu:0") { // the one it was given, whichever that is
        bt_array *truth = BT_ARRAY(float, (3, 1), 2, -1, 0.5);
        t->x = bt_keep(bt_uniform(bt_key(100 + (uint64_t)shard), BT_F32, ROWS, 3));
        t->y = bt_keep(bt_matmul(t->x, truth));
        t->weights = bt_shared_retain(bt_shared_new(bt_zeros(BT_F32, 3, 1), NULL));
    }
    bt_set_state(task, t, trainer_release);
    return bt_block(t->y);
}
BT_REMOTE(trainer_new, .num_gpus = 1);

// Begins with the average of all, takes some steps on its own rows, returns its weights.
static bt_status trainer_round(bt_task *task) {
    trainer *t = bt_state(task);
    bt_array *average;
    bt_status status = bt_argument(task, 0, &average);
    if (status == BT_OK) status = bt_set(t->weights, bt_gpu(average));
    for (int step = 0; step < 5 && status == BT_OK; step++)
        BT_SCOPE {
            bt_array *loss = bt_mse(bt_matmul(t->x, bt_value(t->weights)), t->y);
            status = bt_set(t->weights, bt_sub(bt_value(t->weights), bt_mul(0.3, bt_grad1(loss, t->weights))));
        }
    return status == BT_OK ? bt_return(task, bt_cpu(bt_value(t->weights))) : status;
}
BT_REMOTE(trainer_round);

static bt_status average(bt_task *task) {
    bt_array *sum = NULL;
    int count = bt_argument_count(task);
    for (int i = 0; i < count; i++) {
        bt_array *weights;
        bt_status status = bt_argument(task, i, &weights);
        if (status != BT_OK) return status;
        sum = sum ? bt_add(sum, weights) : weights;
    }
    return bt_return(task, bt_div(sum, count));
}
BT_REMOTE(average, .num_gpus = 0); // on the CPU: the GPUs are the trainers'

int main(void) {
    if (bt_runtime_init(.num_cpus = 2, .num_gpus = WORKERS) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        bt_actor *trainers[WORKERS];
        bt_ref *weights = bt_put(BT_ARRAY(float, (3, 1), 0, 0, 0)), *mine[WORKERS];
        for (int i = 0; i < WORKERS; i++) trainers[i] = bt_actor_new(trainer_new, i);
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < WORKERS; i++) mine[i] = bt_method(trainers[i], trainer_round, weights);
            weights = bt_remote(average, mine[0], mine[1]); // waits for both, by itself
        }
        bt_array *found;
        if (bt_get(weights, &found) != BT_OK) return puts(bt_error_text()), 1;
        bt_print(bt_div(bt_round(bt_mul(found, 100)), 100));
    }
    return bt_runtime_shutdown();
}

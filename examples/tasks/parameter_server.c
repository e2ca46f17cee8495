// A parameter server: an actor keeps the weights of a line; workers compute gradients, each on its own rows, from a reference to the weights
// of the round. Weights and gradients lie in the store; the program passes references alone.
#include <berth.h>
#include <stdio.h>

enum { WORKERS = 3, ROWS = 32, ROUNDS = 120 };

static void server_release(void *weights) { bt_release(weights); }

static bt_status server_new(bt_task *task) {
    bt_set_state(task, bt_retain(bt_zeros(BT_F32, 2, 1)), server_release);
    return BT_OK;
}
BT_REMOTE(server_new);

// One step along the mean of the gradients; the new weights.
static bt_status server_apply(bt_task *task) {
    bt_array *sum = NULL, *weights = bt_state(task);
    int count = bt_argument_count(task);
    for (int i = 0; i < count; i++) {
        bt_array *gradient;
        bt_status status = bt_argument(task, i, &gradient);
        if (status != BT_OK) return status;
        sum = sum ? bt_add(sum, gradient) : gradient;
    }
    bt_array *after = sum ? bt_sub(weights, bt_mul(0.5 / count, sum)) : weights;
    bt_set_state(task, bt_retain(after), server_release); // releases the old ones
    return bt_return(task, after);
}
BT_REMOTE(server_apply);

// Of the mean squared error of y = 2 x + 1 over this worker's rows.
static bt_status gradient(bt_task *task) {
    int worker;
    bt_array *weights;
    bt_status status = bt_arguments(task, &worker, &weights);
    if (status != BT_OK) return status;
    bt_array *x = bt_uniform(bt_key((uint64_t)worker), BT_F32, ROWS, 1), *ones = bt_ones(BT_F32, ROWS, 1);
    bt_array *rows = bt_concat((bt_array *[]){x, ones}, 2, 1), *y = bt_add(bt_mul(2, x), ones);
    bt_array *error = bt_sub(bt_matmul(rows, weights), y);
    return bt_return(task, bt_mul(2.0 / ROWS, bt_matmul(bt_transpose(rows), error)));
}
BT_REMOTE(gradient);

int main(void) {
    if (bt_runtime_init(.num_cpus = WORKERS) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        bt_actor *server = bt_actor_new(server_new);
        bt_ref *weights = bt_method(server, server_apply), *g[WORKERS];
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < WORKERS; i++) g[i] = bt_remote(gradient, i, weights);
            weights = bt_method(server, server_apply, g[0], g[1], g[2]); // begins when all three are there
        }
        bt_array *found;
        if (bt_get(weights, &found) != BT_OK) return puts(bt_error_text()), 1;
        bt_print(bt_div(bt_round(bt_mul(found, 10)), 10));
    }
    return bt_runtime_shutdown();
}

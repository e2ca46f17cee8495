/* Mirrored steps of dense layers, one after the other, the last one into a trace: overlap.py runs it.
 *     overlap TRACE LAYERS WIDTH ROWS given|spread
 * given: each GPU has its rows already, and the step is written by hand; spread: bt_train_step spreads a batch that the first GPU has. */
#include <berth.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, STEPS = 3 };

static bt_array *loss_of(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    return bt_mean(bt_square(bt_sub(bt_apply(model, x), y)), BT_ALL, false);
}

static bt_layer *make_model(bt_strategy *gpus, int layers, int64_t width) {
    bt_layer *each[MOST], *model = NULL;
    BT_STRATEGY(gpus) {
        for (int i = 0; i < layers; i++)
            each[i] = bt_dense(width, width, i + 1 < layers ? bt_tanh : NULL, bt_key((uint64_t)i));
        model = bt_chain_of(each, layers);
    }
    return model;
}

/* x and y: one for each GPU. */
static bt_status step_by_hand(bt_strategy *gpus, bt_layer *model, bt_optimizer *optimizer, bt_array **x, bt_array **y,
                              bt_array **loss) {
    bt_shared *parameters[2 * MOST], *reversed[2 * MOST];
    bt_array *grads[8][2 * MOST], *of_one[8];
    int count = bt_parameters(model, parameters, 2 * MOST), replicas = bt_strategy_count(gpus);
    bt_status status = BT_OK;
    for (int r = 0; r < replicas && status == BT_OK; r++)
        BT_REPLICA(gpus, r) {
            bt_array *own = loss_of(model, x[r], y[r], NULL);
            if (r == 0) *loss = own;
            status = bt_grad_shared(own, parameters, count, grads[r]);
        }
    for (int p = 0; p < count && status == BT_OK; p++) {
        reversed[count - 1 - p] = parameters[p];
        for (int r = 0; r < replicas; r++) of_one[r] = grads[r][p];
        bt_all_reduce(gpus, of_one);
        for (int r = 0; r < replicas; r++) grads[r][p] = of_one[r];
    }
    for (int r = 0; r < replicas && status == BT_OK; r++) {
        bt_array *newest_first[2 * MOST];
        for (int p = 0; p < count; p++) newest_first[p] = grads[r][count - 1 - p];
        BT_REPLICA(gpus, r) status = bt_optimizer_step(optimizer, reversed, newest_first, count);
    }
    return status;
}

static bt_status run(int layers, int64_t width, int64_t rows, bool spread, const char *trace) {
    bt_status status = BT_OK;
    bt_strategy *gpus = bt_mirrored(NULL, 0);
    int count = bt_strategy_count(gpus), parts = spread ? 1 : count;
    bt_layer *model = make_model(gpus, layers, width);
    bt_optimizer *optimizer = bt_sgd(0.01);
    bt_array *x[8], *y[8], *loss = NULL;
    for (int r = 0; r < parts; r++)
        BT_REPLICA(gpus, r) {
            x[r] = bt_normal(bt_key(100 + (uint64_t)r), BT_F32, rows * (count / parts), width);
            y[r] = bt_zeros(BT_F32, rows * (count / parts), width);
            (void)!bt_eval_all((bt_array *[]){x[r], y[r]}, 2);
        }
    for (int i = 0; i < STEPS && status == BT_OK; i++)
        BT_SCOPE {
            float value = 0;
            bt_synchronize();
            bt_profile *profile = i == STEPS - 1 ? bt_profile_start() : NULL;
            if (spread)
                loss = bt_train_step(gpus, model, optimizer, loss_of, NULL, x[0], y[0]);
            else
                status = step_by_hand(gpus, model, optimizer, x, y, &loss);
            if (status == BT_OK) status = bt_read(loss, &value, sizeof value);
            if (profile && status == BT_OK) status = bt_profile_stop(profile, trace, NULL);
        }
    return status;
}

int main(int count, char **argument) {
    if (count != 6 || atoi(argument[2]) < 1 || atoi(argument[2]) > MOST) {
        fprintf(stderr, "overlap TRACE LAYERS WIDTH ROWS given|spread\n");
        return 2;
    }
    bt_status status = BT_OK;
    BT_SCOPE
        status =
            run(atoi(argument[2]), atoll(argument[3]), atoll(argument[4]), !strcmp(argument[5], "spread"), argument[1]);
    if (status == BT_OK) return 0;
    fprintf(stderr, "%s\n", bt_error_text());
    return 1;
}

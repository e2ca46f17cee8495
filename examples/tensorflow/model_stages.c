// One model in four stages on four GPUs, each batch in micro-batches that follow each other through them. After the guides on model and pipeline parallel training.
#include <berth.h>
#include <stdio.h>

static bt_array *mse(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    return bt_mse(bt_apply(model, x), y);
}

typedef struct training {
    bt_strategy *strategy;
    bt_layer *model;
    bt_optimizer *optimizer;
    bt_array *x, *y;
    double loss;
} training;

static void one_step(void *data) {
    training *t = data;
    BT_SCOPE {
        t->loss = bt_item(bt_train_step(t->strategy, t->model, t->optimizer, mse, NULL, t->x, t->y));
        bt_synchronize();
    }
}

// The loss of the third step; its time, of simulated cards in virtual time.
static double train(bt_layer *layers, int micro_batches, double *seconds) {
    training t = {.strategy = bt_pipelined(micro_batches), .optimizer = bt_sgd(0.02)};
    t.model = bt_layer_to_stages(layers, NULL, 0, NULL); // all GPUs; without any, the CPU
    t.x = bt_normal(bt_key(1), BT_F32, 512, 128);
    t.y = bt_sin(t.x);
    for (int step = 0; step < 3; step++) *seconds = bt_time(one_step, &t);
    return t.loss;
}

int main(void) {
    BT_SCOPED;
    bt_layer *layers[8], *stages;
    for (int i = 0; i < 8; i++) layers[i] = bt_dense(128, 128, bt_tanh, bt_key((uint64_t)i));
    bt_layer *model = bt_chain_of(layers, 8);

    stages = bt_layer_to_stages(model, NULL, 0, NULL);
    bt_shared *parameters[16];
    int count = bt_parameters(stages, parameters, 16);
    for (int i = 0; i < count; i += 4) // a weight and a bias each
        printf("%s is on %s\n", bt_shared_name(parameters[i]), bt_device_name(bt_device_of(bt_value(parameters[i]))));

    double whole, parts, loss = train(model, 1, &whole), same = train(model, 8, &parts);
    printf("the same loss but for rounding: %s\n", loss - same < 1e-5 && same - loss < 1e-5 ? "yes" : "no");
    if (bt_device_count(BT_GPU) > 1) // (8 + 3) / 32 of it, if nothing but the bubble cost time
        printf("eight micro-batches take less than half of the time: %s\n", parts < whole / 2 ? "yes" : "no");
}

// A model on every GPU that learns y = 3x + 2: its variables mirrored, each batch split. After TensorFlow's MirroredStrategy.
#include <berth.h>
#include <stdio.h>

static bt_array *mse(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    return bt_mse(bt_apply(model, x), y);
}

int main(void) {
    bt_strategy *gpus = bt_mirrored(NULL, 0); // all of them; without any, the CPU
    bt_layer *model;
    BT_STRATEGY(gpus) model = bt_dense(1, 1, NULL, bt_key(0));
    bt_optimizer *descent = bt_sgd(0.2);

    bt_array *x = bt_reshape(bt_linspace(-1, 1, 7, BT_F32), 7, 1); // 4 rows for one GPU, 3 for the other
    bt_array *y = bt_add(bt_mul(3, x), 2);
    printf("replicas: %d\n", bt_strategy_count(gpus));
    for (int step = 0; step <= 100; step++)
        BT_SCOPE {
            double loss = bt_item(bt_train_step(gpus, model, descent, mse, NULL, x, y));
            if (step % 50 == 0) printf("step %3d: loss %.6f\n", step, loss);
        }
    bt_print(bt_round(bt_apply(model, BT_ARRAY(float, (1, 1), 10)))); // 3 * 10 + 2
}

// A training loop of one's own over every GPU: a function for each part of the batch, sums over them, one update. After
// TensorFlow's "Custom training with tf.distribute.Strategy": strategy.run and strategy.reduce.
#include <berth.h>
#include <stdio.h>

enum { ROWS = 90, CLASSES = 3, PARAMETERS = 4 };

typedef struct classifier {
    bt_layer *model;
    bt_shared *parameters[PARAMETERS];
} classifier;

enum { LOSS, RIGHT, GRADIENTS, OUTPUTS = GRADIENTS + PARAMETERS };

// The rows of one replica, on its device.
static bt_status step(const bt_part *part, bt_array *const *inputs, bt_array **outputs, void *data) {
    (void)part;
    classifier *c = data;
    bt_array *logits = bt_apply(c->model, inputs[0]);
    outputs[LOSS] = bt_cross_entropy(logits, inputs[1]);
    outputs[RIGHT] = bt_sum(bt_eq(bt_argmax(logits, 1), inputs[1]));
    return bt_part_gradients(outputs[LOSS], c->parameters, PARAMETERS, outputs + GRADIENTS);
}

int main(void) {
    BT_SCOPED;
    bt_strategy *gpus = bt_mirrored(NULL, 0); // all of them; without any, the CPU
    classifier c;
    BT_STRATEGY(gpus) c.model = bt_chain(bt_dense(2, 16, bt_tanh, bt_key(1)), bt_dense(16, CLASSES, NULL, bt_key(2)));
    bt_parameters(c.model, c.parameters, PARAMETERS);
    bt_optimizer *adam = bt_adam(0.05);

    bt_array *y = bt_mod(bt_arange(0, ROWS, 1, BT_I32), CLASSES); // three clouds of points
    bt_array *angle = bt_mul(y, 6.2831853 / CLASSES);
    bt_array *x = bt_stack((bt_array *[]){bt_cos(angle), bt_sin(angle)}, 2, 1);
    x = bt_cast(bt_add(x, bt_mul(bt_normal(bt_key(3), BT_F32, ROWS, 2), 0.2)), BT_F32);

    for (int i = 0; i <= 40; i++) {
        BT_SCOPED;
        bt_parts *parts = bt_strategy_run(gpus, step, &c, (bt_array *[]){x, y}, 2, OUTPUTS);
        if (i == 0)
            for (int p = 0; p < bt_parts_count(parts); p++)
                printf("%s: rows %lld to %lld\n", bt_device_name(bt_device_of(bt_parts_value(parts, LOSS, p))),
                       (long long)bt_parts_part(parts, p).first_row,
                       (long long)(bt_parts_part(parts, p).first_row + bt_parts_part(parts, p).rows - 1));
        double loss = bt_item(bt_parts_reduce(parts, BT_REDUCE_MEAN, LOSS)); // weighted by rows
        double right = bt_item(bt_parts_reduce(parts, BT_REDUCE_SUM, RIGHT));
        if (bt_parts_update(parts, adam, c.parameters, PARAMETERS, GRADIENTS) != BT_OK) {
            fprintf(stderr, "%s\n", bt_error_text());
            return 1;
        }
        if (i % 20 == 0) printf("step %2d: loss %.3f, %.0f of %d right\n", i, loss, right, ROWS);
    }
}

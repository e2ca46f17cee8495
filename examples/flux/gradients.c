// A linear model, its loss and its gradients, on the GPU and on the CPU: bt_gpu and bt_cpu move what they are given, and
// bt_gpu without a GPU leaves it where it is. After Flux's "GPU Support".
#include <berth.h>
#include <stdio.h>

static void run(bt_array *move(bt_array *)) {
    bt_array *W = move(bt_reshape(bt_arange(0, 10, 1, BT_F32), 2, 5));
    bt_array *b = move(BT_ARRAY(float, (2), 0.5, -0.5));
    bt_array *x = move(BT_ARRAY(float, (5), 1, 2, 3, 4, 5));
    bt_array *y = move(BT_ARRAY(float, (2), 40, 115));

    bt_array *predicted = bt_add(bt_matmul(W, x), b);
    bt_array *loss = bt_sum(bt_square(bt_sub(predicted, y)));
    bt_array *grads[2];
    bt_grad(loss, (bt_array *[]){W, b}, 2, grads);
    printf("%s: loss %g\n", bt_device_name(bt_device_of(loss)), bt_item(loss));
    bt_print(grads[0]);
    bt_print(grads[1]);
}

int main(void) {
    BT_SCOPE
        run(bt_gpu);
    BT_SCOPE
        run(bt_cpu);
}

// A layer moved to the GPU whole, and a chain moved parameter by parameter with bt_fmap. Without a GPU both stay, and the
// program runs all the same. After Flux's "GPU Support": gpu and fmap on layers.
#include <berth.h>
#include <stdio.h>

static bt_array *to_gpu(bt_array *parameter, void *data) {
    (void)data;
    return bt_gpu(parameter);
}

static void show(bt_layer *model, bt_array *x) {
    BT_TEXT summary = bt_summary(model);
    bt_array *y = bt_apply(model, x);
    printf("%s%s: (%d, %d)\n", summary, bt_device_name(bt_device_of(y)), (int)bt_size(y, 0), (int)bt_size(y, 1));
}

int main(void) {
    bt_layer *dense, *chain;
    BT_ON("cpu") {
        dense = bt_dense(10, 5, bt_sigmoid, bt_key(0));
        chain = bt_chain(bt_dense(10, 5, bt_sigmoid, bt_key(1)), bt_dense(5, 2, NULL, bt_key(2)),
                         bt_lambda("softmax", bt_softmax_last));
    }
    bt_layer *dense_there = bt_layer_gpu(dense), *chain_there = bt_fmap(to_gpu, NULL, chain);
    bt_array *x = bt_gpu(bt_uniform(bt_key(3), BT_F32, 3, 10)); // 3 rows of 10 features
    show(dense_there, x);
    show(chain_there, x);

    bt_array *here = bt_apply(chain, bt_cpu(x)), *there = bt_cpu(bt_apply(chain_there, x));
    bt_array *close = bt_lt(bt_abs(bt_sub(here, there)), 1e-6);
    printf("the same on the CPU: %s\n", bt_item(bt_all(close)) == 1 ? "yes" : "no");
}

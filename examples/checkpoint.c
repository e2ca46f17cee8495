// Memory of training for time: the backward pass computes blocks of layers again instead of keeping their results.
#include <berth.h>
#include <stdio.h>
#include <string.h>

enum { LAYERS = 64, ROWS = 256, WIDTH = 32 };

typedef struct block {
    bt_array *w;
    int layers;
} block;

static bt_array *run_block(bt_array *const *args, int count, void *data) {
    const block *b = data;
    bt_array *h = args[0];
    (void)count;
    for (int i = 0; i < b->layers; i++) h = bt_tanh(bt_matmul(h, b->w));
    return h;
}

// The gradient by w of a chain of layers in such blocks, as a function.
static bt_function *gradient_of_chain(int layers_in_block) {
    bt_array *x = bt_input(BT_F32, ROWS, WIDTH), *w = bt_input(BT_F32, WIDTH, WIDTH), *h = x, *gradient;
    block b = {w, layers_in_block};
    for (int i = 0; i < LAYERS; i += b.layers)
        h = layers_in_block < LAYERS ? bt_checkpoint(run_block, &b, &h, 1) : run_block(&h, 1, &b);
    gradient = bt_grad1(bt_mean(bt_mul(h, h)), w);
    return bt_function_new((bt_array *[]){x, w}, 2, &gradient, 1, NULL, 0);
}

int main(void) {
    static float kept[WIDTH * WIDTH], again[WIDTH * WIDTH];
    BT_SCOPE {
        bt_array *args[2] = {bt_normal(bt_key(1), BT_F32, ROWS, WIDTH), bt_normal(bt_key(2), BT_F32, WIDTH, WIDTH)};
        if (bt_eval_all(args, 2) != BT_OK) return 1;
        for (int layers = LAYERS; layers >= 4; layers /= 4) {
            bt_function *f = gradient_of_chain(layers);
            bt_peak peak[8];
            int count = 8;
            if (bt_peak_call(f, args, NULL, 2, peak, &count) != BT_OK)
                return 1; // what it will need, without running it
            printf("blocks of %2d layers: %4zu KiB\n", layers, (peak[count - 1].peak - peak[count - 1].in_use) >> 10);
            if (bt_read(bt_call1(f, args, 2), layers == LAYERS ? kept : again, sizeof kept) != BT_OK) return 1;
            if (layers < LAYERS) puts(memcmp(kept, again, sizeof kept) ? "other bits" : "the same bits");
        }
    }
}

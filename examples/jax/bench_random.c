// n uniform numbers (n is the argument) through **2 - 0.5 and **3 - 0.2: all on one device, then with the step in the middle
// on a second one. After Dive into Deep Learning's and JAX's timings of work on GPUs.
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct work {
    int64_t n;
    const char *middle; // the device of the step in the middle
} work;

static bt_array *compute(const work *w) {
    bt_array *x, *y, *z;
    BT_ON("gpu:0") x = bt_uniform(bt_key(0), BT_F32, w->n);
    BT_ON(w->middle) y = bt_sub(bt_pow(x, 2), 0.5);
    BT_ON("gpu:0") z = bt_sub(bt_pow(y, 3), 0.2);
    return z;
}

static void run(void *data) {
    BT_SCOPE
        if (bt_block(compute(data)) != BT_OK) fprintf(stderr, "%s\n", bt_error_text());
}

int main(int argc, char **argv) {
    work one = {argc > 1 ? atoll(argv[1]) : 100000, "gpu:0"}, two = {one.n, "gpu:1"};
    if (bt_device_count(BT_GPU) < 2) {
        fprintf(stderr, "needs two GPUs: BERTH_FLAGS=devices=sim:gpu*2\n");
        return 1;
    }
    for (int i = 0; i < 2; i++) {
        BT_TEXT time = bt_timeit(run, i ? &two : &one, 3, 0, NULL);
        printf("%d device%s: %s\n", i + 1, i ? "s" : "", time);
    }
    printf("mean %.2f\n", bt_item(bt_mean(compute(&two))));
    printf("equal: %s\n", bt_item(bt_all(bt_eq(compute(&one), compute(&two)))) == 1 ? "yes" : "no");
}

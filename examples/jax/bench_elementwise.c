// How long x**0.5 - log(|x|) takes over n numbers from 0 to 100 (n is the argument), waiting included. After JAX's "%timeit"
// with block_until_ready.
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>

static bt_array *f(int64_t n) {
    bt_array *x = bt_linspace(0, 100, n, BT_F32);
    return bt_sub(bt_pow(x, 0.5), bt_log(bt_abs(x)));
}

static void run(void *n) {
    BT_SCOPE
        if (bt_block(f(*(int64_t *)n)) != BT_OK) fprintf(stderr, "%s\n", bt_error_text());
}

int main(int argc, char **argv) {
    int64_t n = argc > 1 ? atoll(argv[1]) : 100000;
    BT_TEXT time = bt_timeit(run, &n, 3, 0, NULL);
    printf("%s\n", time);
    printf("least value %.4f\n", bt_item(bt_min(f(101)))); // 2 - log(4), at x = 4
}

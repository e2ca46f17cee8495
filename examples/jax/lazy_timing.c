// Calls record and return; reading waits for the work. The argument is the size of the matrices. After Dive into Deep
// Learning's "Asynchronous computation" and JAX's block_until_ready.
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    int64_t n = argc > 1 ? atoll(argv[1]) : 512;
    bt_array *x = bt_uniform(bt_key(0), BT_F32, n, n);
    if (bt_block(x) != BT_OK) fprintf(stderr, "%s\n", bt_error_text());

    double start = now();
    bt_array *y = bt_sum(bt_matmul(x, x));
    double recorded = now();
    double value = bt_item(y);
    double read = now();
    printf("recorded in %.0f µs, read %.3g after %.1f ms\n", 1e6 * (recorded - start), value, 1e3 * (read - recorded));
    printf("recording took less than a tenth of reading: %s\n",
           recorded - start < 0.1 * (read - recorded) ? "yes" : "no");
}

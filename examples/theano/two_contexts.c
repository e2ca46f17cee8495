// One function, two devices: two products at the same time, on shared variables with a target. The argument is the size of
// the matrices; dev0 and dev1 are mapped in BERTH_FLAGS. After Theano's "A simple graph on two GPUs".
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>

// A function without inputs that gives a @ b on each of two devices.
static bt_function *products(int64_t n, const char *first, const char *second) {
    const char *devices[2] = {first, second};
    bt_shared *a[2], *b[2];
    bt_array *out[2];
    for (int i = 0; i < 2; i++) {
        a[i] = bt_shared_new(bt_uniform(bt_key(1), BT_F32, n, n), devices[i]);
        b[i] = bt_shared_new(bt_uniform(bt_key(2), BT_F32, n, n), devices[i]);
        out[i] = bt_matmul(bt_value(a[i]), bt_value(b[i]));
    }
    return bt_function_new(NULL, 0, out, 2, NULL, 0);
}

static void run(void *function) {
    BT_SCOPE {
        bt_array *out[2];
        if (bt_call(function, NULL, 0, out, 2) != BT_OK || bt_eval_all(out, 2) != BT_OK)
            fprintf(stderr, "%s\n", bt_error_text());
    }
}

int main(int argc, char **argv) {
    int64_t n = argc > 1 ? atoll(argv[1]) : 256;
    bt_function *two = products(n, "dev0", "dev1"), *one = products(n, "dev0", "dev0");
    if (bt_function_status(two) != BT_OK || bt_function_status(one) != BT_OK) {
        fprintf(stderr, "%s\nmap both: BERTH_FLAGS=\"contexts=dev0->cuda0;dev1->cuda1\"\n", bt_error_text());
        return 1;
    }

    bt_array *out[2];
    bt_call(two, NULL, 0, out, 2);
    for (int i = 0; i < 2; i++) printf("product %d on %s\n", i, bt_device_name(bt_device_of(out[i])));
    printf("equal: %s\n", bt_item(bt_all(bt_eq(out[0], out[1]))) == 1 ? "yes" : "no");

    run(one); // both are warm now
    double alone = bt_time(run, one), together = bt_time(run, two);
    printf("two devices: %.2f times as fast as one\n", alone / together);
}

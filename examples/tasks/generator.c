// A call that yields: its items are there while it still runs, and are freed once they were read.
#include <berth.h>
#include <stdio.h>

// Prime numbers below a limit.
static bt_status primes(bt_task *task) {
    int limit;
    bt_status status = bt_arguments(task, &limit);
    for (int n = 2; n < limit && status == BT_OK; n++) {
        int d = 2;
        while (d * d <= n && n % d) d++;
        if (d * d > n) status = bt_yield(task, n);
    }
    return status;
}
BT_REMOTE(primes);

static bt_status square(bt_task *task) {
    int x;
    bt_status status = bt_arguments(task, &x);
    return status == BT_OK ? bt_return(task, x * x) : status;
}
BT_REMOTE(square);

int main(void) {
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        bt_ref *stream = bt_remote(primes, 30), *prime;
        while ((prime = bt_stream_next(&stream, -1)) != NULL) {
            int x, y;
            if (bt_get(prime, &x) != BT_OK || bt_get(bt_remote(square, prime), &y) != BT_OK)
                return puts(bt_error_text()), 1;
            printf("%d squared is %d\n", x, y);
        }
    }
    return bt_runtime_shutdown();
}

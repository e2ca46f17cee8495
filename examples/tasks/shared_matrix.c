// A matrix is put into the store once. Calls get a reference to it and read it where it lies: nothing is copied. The result of one call is
// an argument of the next, which starts when it is there.
#include <berth.h>
#include <stdio.h>

static bt_status sum(bt_task *task) {
    bt_array *matrix;
    bt_status status = bt_arguments(task, &matrix);
    return status == BT_OK ? bt_return(task, bt_item(bt_sum(matrix))) : status;
}
BT_REMOTE(sum);

static bt_status scale(bt_task *task) {
    bt_array *matrix;
    double factor;
    bt_status status = bt_arguments(task, &matrix, &factor);
    return status == BT_OK ? bt_return(task, bt_mul(matrix, factor)) : status;
}
BT_REMOTE(scale);

int main(void) {
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        double plain, scaled;
        bt_ref *ones = bt_put(bt_ones(BT_F32, 1000, 1000));
        bt_ref *threes = bt_remote(scale, ones, 3.0);
        if (bt_get(bt_remote(sum, ones), &plain) != BT_OK) return puts(bt_error_text()), 1;
        if (bt_get(bt_remote(sum, threes), &scaled) != BT_OK) return puts(bt_error_text()), 1;
        printf("%g %g\n", plain, scaled);
    }
    return bt_runtime_shutdown();
}

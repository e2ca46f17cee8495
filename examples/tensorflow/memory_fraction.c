// At most 0.4 of a GPU's memory: what does not fit is refused with a report, and what was there before stays intact. After
// TensorFlow's per_process_gpu_memory_fraction.
#include <berth.h>
#include <stdio.h>

int main(void) {
    if (bt_set_memory_fraction(NULL, 0.4) != BT_OK) return 1; // 40 of 100 MiB, on every device
    bt_array *x = bt_arange(0, 2 << 20, 1, BT_F32);           // 8 MiB
    if (bt_block(x) != BT_OK) fprintf(stderr, "%s\n", bt_error_text());

    bt_array *y = bt_tile(x, BT_SHAPE(5)); // 40 MiB more
    if (bt_block(y) != BT_OK) fprintf(stderr, "%s: %s\n", bt_status_name(bt_error_status()), bt_error_text());

    printf("the last element of x is %.0f\n", bt_item(bt_max(x)));
}

// Batches on demand: the next one moves to the GPU while this one computes, and no more of them than fit into a bound of bytes lie there.
// After Flux's CuIterator. feed_batches and feed_whole do the same work in other ways.
#include "feed.h"

int main(void) {
    BT_SCOPED;
    bt_array *x, *w = bt_gpu(bt_full(1.0 / COLUMNS, BT_F32, COLUMNS, COLUMNS));
    BT_ON("cpu") x = bt_uniform(bt_key(0), BT_F32, ROWS, COLUMNS);
    bt_dataset *data = bt_dataset_arrays((const char *[]){"x"}, &x, 1);
    bt_device *gpu = bt_device_of(w);
    bt_loader *loader = bt_loader_new(data, .batch = BATCH, .shuffle = bt_key(1), .device = bt_device_name(gpu),
                                      .ahead_bytes = 1 << 20);

    bt_profile *profile = bt_profile_start();
    bt_batch batch = BT_BATCH_INIT;
    double sum = 0;
    while (bt_loader_next(loader, &batch)) {
        BT_SCOPED;
        sum += bt_item(work(batch.arrays[0], w));
    }
    BT_CHECK(bt_loader_status(loader));
    BT_CHECK(bt_profile_stop(profile, "feed.json", NULL)); // `berth trace feed.json` draws it
    show_trace("feed.json");
    printf("mean %.4f\n", sum / (ROWS / BATCH));
}

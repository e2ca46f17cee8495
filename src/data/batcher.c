#include "data/batcher.h"

#include <berth/ops.h>
#include <berth/random.h>

#include "base/alloc.h"

void bti_made_release(bti_made *made) {
    for (int i = 0; made->arrays && i < 2 * made->columns; i++) bt_release(made->arrays[i]);
    bti_free(made->arrays);
    bti_error_release(made->error);
    *made = (bti_made){0};
}

/* --- opening ---------------------------------------------------------------------------------------------------------- */

static const bt_dataset *arrays_of(const bt_dataset *dataset) {
    return dataset->kind == BTI_DATASET_SELECT ? dataset->of : dataset;
}

bool bti_batcher_can_record(const bt_dataset *dataset) { return arrays_of(dataset)->kind == BTI_DATASET_ARRAYS; }

bool bti_batcher_is_on_host(const bt_dataset *dataset) {
    const bt_dataset *d = arrays_of(dataset);
    for (int c = 0; c < d->count; c++) {
        bt_device *device = d->arrays ? bt_device_of(d->arrays[c]) : NULL;
        if (device && bt_device_kind(device) != BT_CPU) return false;
    }
    return true;
}

bool bti_batcher_is_on(const bt_dataset *dataset, const bt_device *device) {
    const bt_dataset *d = arrays_of(dataset);
    for (int c = 0; c < d->count; c++)
        if (!d->arrays || bt_device_of(d->arrays[c]) != device) return false;
    return true;
}

bt_status bti_batcher_open(bti_batcher *b, uint64_t keep_bytes) {
    if (b->recorded) return BT_OK;
    return bti_gatherer_open(b->dataset, b->device, keep_bytes > SIZE_MAX ? SIZE_MAX : (size_t)keep_bytes,
                             &b->gatherer);
}

static void drop_order(bti_row_order *order) {
    bt_assign(&order->array, NULL);
    order->rows = NULL;
}

static void forget_order(bti_batcher *b) {
    for (int c = 0; c < BT_MAX_COLUMNS; c++) bt_assign(&b->orders[c], NULL);
    drop_order(&b->order);
}

void bti_batcher_close(bti_batcher *b) {
    forget_order(b);
    drop_order(&b->prepared);
    bti_gatherer_close(&b->gatherer);
    bt_dataset_release(b->dataset);
    *b = (bti_batcher){0};
}

/* --- the order of an epoch ---------------------------------------------------------------------------------------------- */

static bt_array *permutation_of(const bti_batcher *b, int64_t epoch) {
    bt_array *key = bt_from(b->key, BT_U32, BT_SHAPE(2));
    return bt_permutation(bt_fold_in(key, (uint32_t)epoch), b->dataset->rows);
}

static bt_status make_order(const bti_batcher *b, int64_t epoch, bti_row_order *order) {
    bt_status status = BT_OK;
    drop_order(order);
    BT_SCOPE
        BT_ON("cpu") {
            bt_array *rows = permutation_of(b, epoch);
            status = bt_block(rows);
            if (status == BT_OK && !(order->rows = bt_map(rows))) status = bt_error_status();
            if (status == BT_OK) bt_assign(&order->array, rows);
        }
    return status;
}

void bti_batcher_prepare(bti_batcher *b) {
    bti_errors_aside aside = bti_errors_aside_begin();
    b->prepared_epoch = b->epoch + 1;
    if (make_order(b, b->prepared_epoch, &b->prepared) != BT_OK) drop_order(&b->prepared);
    bti_errors_aside_end(aside);
}

/* The numbers of the arrays' rows, on the device of the block. NULL: in order. */
static bt_array *order_here(const bti_batcher *b, int64_t epoch) {
    const bt_dataset *d = b->dataset;
    bt_array *order = b->shuffled ? permutation_of(b, epoch) : NULL;
    if (d->kind != BTI_DATASET_SELECT) return order;
    bt_array *selected = bt_from(d->selected, BT_I64, BT_SHAPE(d->rows));
    return order ? bt_take(selected, order, 0) : selected;
}

/* One order for the device of each column, made on that of the first. */
static bt_status record_order(bti_batcher *b, int64_t epoch) {
    const bt_dataset *d = arrays_of(b->dataset);
    bt_status status = BT_OK;
    BT_SCOPE {
        bt_array *order = NULL;
        BT_ON(bt_device_long_name(bt_device_of(d->arrays[0]))) order = order_here(b, epoch);
        for (int c = 0; c < d->count && order; c++)
            bt_assign(&b->orders[c], c ? bt_to(order, bt_device_long_name(bt_device_of(d->arrays[c]))) : order);
        if (order) status = bt_peek_status(order) == BT_OK ? BT_OK : bt_block(order);
    }
    return status;
}

bt_status bti_batcher_order(bti_batcher *b, int64_t epoch) {
    forget_order(b);
    b->epoch = epoch;
    if (b->recorded) return record_order(b, epoch);
    if (!b->shuffled) return BT_OK;
    if (!b->prepared.rows || b->prepared_epoch != epoch) return make_order(b, epoch, &b->order);
    b->order = b->prepared;
    b->prepared = (bti_row_order){0};
    return BT_OK;
}

/* --- batches ------------------------------------------------------------------------------------------------------------ */

/* Rows of each array, taken on its own device, so that only the batch is moved. */
static bt_status record_batch(const bti_batcher *b, int64_t first, int64_t rows, bt_array **arrays) {
    const bt_dataset *d = arrays_of(b->dataset);
    for (int c = 0; c < d->count; c++) {
        bt_array *x = d->arrays[c], *order = b->orders[c];
        BT_ON(bt_device_long_name(bt_device_of(x)))
            arrays[c] = order ? bt_take(x, bt_slice_axis(order, 0, first, first + rows, 1), 0)
                              : bt_slice_axis(x, 0, first, first + rows, 1);
        if (bt_peek_status(arrays[c]) != BT_OK) return bt_block(arrays[c]);
    }
    return BT_OK;
}

static bt_status start_batch(const bti_batcher *b, bt_array **arrays, int count) {
    const char *device = b->device ? bt_device_long_name(b->device) : NULL;
    for (int i = 0; i < count && device; i++)
        if (arrays[i]) arrays[i] = bt_to(arrays[i], device);
    return b->starts ? bt_eval_all(arrays, count) : BT_OK;
}

static bt_status make_batch(const bti_batcher *b, bti_example_maker *maker, bti_made *made) {
    bt_array *arrays[2 * BT_MAX_COLUMNS] = {0};
    int columns = b->dataset->count;
    int64_t first = made->number * b->batch;
    made->rows = b->dataset->rows - first < b->batch ? b->dataset->rows - first : b->batch;
    if (b->recorded)
        BTI_TRY(record_batch(b, first, made->rows, arrays));
    else
        BTI_TRY(bti_gather_rows(&b->gatherer, maker, b->order.rows, first, made->rows, arrays, arrays + columns));
    BTI_TRY(start_batch(b, arrays, 2 * columns));
    made->arrays = bti_calloc(2 * (size_t)columns, sizeof *made->arrays);
    if (!made->arrays) return bti_no_memory();
    made->columns = columns;
    for (int i = 0; i < 2 * columns; i++) {
        made->arrays[i] = arrays[i] ? bt_retain(arrays[i]) : NULL;
        if (arrays[i]) made->bytes += (uint64_t)bt_count(arrays[i]) * bt_dtype_size(bt_dtype_of(arrays[i]));
    }
    return BT_OK;
}

void bti_batcher_make(const bti_batcher *b, bti_example_maker *maker, int64_t number, bti_made *made) {
    *made = (bti_made){.number = number};
    BT_SCOPE
        if (make_batch(b, maker, made) != BT_OK) made->error = bti_error_last();
}

uint64_t bti_batcher_least_bytes(const bti_batcher *b) {
    uint64_t bytes = 0;
    for (int c = 0; c < b->dataset->count; c++)
        if (bti_column_ragged_axis(&b->dataset->columns[c]) < 0) bytes += bti_column_bytes(&b->dataset->columns[c]);
    return bytes * (uint64_t)b->batch;
}

#include "train/rows.h"

#include "base/error.h"
#include "data/loader.h"

bt_status bti_rows_check(const char *what, bt_array *x, bt_array *y) {
    if (!x || !y) return bti_fail(BT_INVALID_ARGUMENT, "the %sarray %s is NULL", what, x ? "y" : "x");
    if (bt_peek_status(x) != BT_OK || bt_peek_status(y) != BT_OK)
        return bt_block(bt_peek_status(x) != BT_OK ? x : y); /* the first cause */
    if (bt_rank(x) >= 1 && bt_rank(y) >= 1 && bt_size(x, 0) == bt_size(y, 0) && bt_size(x, 0) >= 1) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "%sx has %lld rows and y %lld; they must be as many, and at least one", what,
                    (long long)bt_size(x, 0), (long long)bt_size(y, 0));
}

bt_loader *bti_rows_loader(bt_array *x, bt_array *y, int64_t batch, const uint32_t *key) {
    bt_dataset *data = bt_dataset_arrays((const char *const[]){"x", "y"}, (bt_array *const[]){x, y}, 2);
    return bti_loader_new_by_words(data, BT_LOADER(.batch = batch), key);
}

#include "data/dataset.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/quote.h"

/* --- the handle ------------------------------------------------------------------------------------------------------- */

static void clear_dataset(void *object) {
    bt_dataset *d = object;
    for (int i = 0; i < d->count; i++) {
        if (d->columns) bti_free((void *)(uintptr_t)d->columns[i].name);
        if (d->arrays) bt_release(d->arrays[i]);
        if (d->mapped) bti_mapped_close(&d->mapped[i]);
    }
    bti_free(d->columns);
    bti_free(d->arrays);
    bti_free(d->mapped);
    bti_free(d->selected);
    bt_dataset_release(d->of);
}

static bt_dataset dataset_without_memory = {.head = BTI_NO_MEMORY};
static const bti_handle_class dataset_class = {BTI_OWNED_DATASET, sizeof(bt_dataset), clear_dataset,
                                               &dataset_without_memory};

bt_dataset *bti_dataset_own(bt_dataset *dataset, bt_status status) {
    if (status == BT_OK) return bti_scope_own(&dataset_class, dataset);
    bt_dataset_release(dataset);
    return bti_scope_own(&dataset_class, NULL);
}

bt_dataset *bt_dataset_retain(bt_dataset *dataset) {
    return bti_handle_retain(&dataset_class, dataset, "bt_dataset_retain");
}
void bt_dataset_release(bt_dataset *dataset) { bti_handle_release(&dataset_class, dataset, "bt_dataset_release"); }
bt_status bt_dataset_status(const bt_dataset *dataset) {
    return bti_handle_check(BTI_OWNED_DATASET, dataset, "bt_dataset_status");
}

/* --- columns ---------------------------------------------------------------------------------------------------------- */

int bti_column_ragged_axis(const bt_column *column) {
    for (int d = 0; d < column->shape.rank; d++)
        if (column->shape.size[d] == BT_RAGGED) return d;
    return -1;
}

size_t bti_column_bytes(const bt_column *column) {
    size_t bytes = bt_dtype_size(column->dtype);
    for (int d = 0; d < column->shape.rank; d++) bytes *= (size_t)column->shape.size[d];
    return bytes;
}

int bti_dataset_find(const bt_dataset *dataset, const char *name) {
    for (int i = 0; i < dataset->count; i++)
        if (!strcmp(dataset->columns[i].name, name)) return i;
    return -1;
}

bt_status bti_dataset_check_list(const void *list, int count, const char *what) {
    if (count < 1 || count > BT_MAX_COLUMNS)
        return bti_fail(BT_INVALID_ARGUMENT, "%d columns; there may be 1 to %d", count, BT_MAX_COLUMNS);
    return list ? BT_OK : bti_fail(BT_INVALID_ARGUMENT, "the list of %s is NULL", what);
}

static bt_status check_shape(const bt_column *column, int number) {
    size_t bytes = bt_dtype_size(column->dtype);
    int ragged = 0;
    if (!bytes) return bti_fail(BT_INVALID_ARGUMENT, "column %d: %d is no dtype", number, (int)column->dtype);
    if (column->shape.rank < 0 || column->shape.rank >= BT_MAX_RANK)
        return bti_fail(BT_INVALID_ARGUMENT, "column %d: examples of %d axes; at most %d are allowed", number,
                        column->shape.rank, BT_MAX_RANK - 1);
    for (int d = 0; d < column->shape.rank; d++) {
        int64_t size = column->shape.size[d];
        if (size == BT_RAGGED && ++ragged == 1) continue;
        if (size < 0)
            return bti_fail(BT_INVALID_ARGUMENT,
                            size == BT_RAGGED ? "column %d: axis %d is the second ragged one (%lld)"
                                              : "column %d: the size of axis %d is %lld",
                            number, d, (long long)size);
        if (!bti_mul_size(bytes, (size_t)size, &bytes) || bytes > PTRDIFF_MAX)
            return bti_fail(BT_INVALID_ARGUMENT, "column %d: its sizes overflow", number);
    }
    return BT_OK;
}

static bt_status copy_name(bt_dataset *d, const char *name) {
    char number[16];
    snprintf(number, sizeof number, "%d", d->count);
    if (!name) name = number;
    if (!*name) return bti_fail(BT_INVALID_ARGUMENT, "the name of column %d is empty", d->count);
    if (bti_dataset_find(d, name) >= 0)
        return bti_fail(BT_ALREADY_EXISTS, "two columns have the name \"%s\"", bti_quote(name).text);
    char *copy = bti_strdup(name);
    if (!copy) return bti_no_memory();
    d->columns[d->count++].name = copy;
    return BT_OK;
}

bt_dataset *bti_dataset_new(bti_dataset_kind kind, const bt_column *columns, int count) {
    if (bti_dataset_check_list(columns, count, "columns") != BT_OK) return NULL;
    bt_dataset *d = bti_owned_new(BTI_OWNED_DATASET, sizeof *d);
    bt_status status = d && (d->columns = bti_calloc((size_t)count, sizeof *columns)) ? BT_OK : bti_no_memory();
    if (d) d->kind = kind;
    for (int i = 0; i < count && status == BT_OK; i++) {
        status = check_shape(&columns[i], i);
        if (status != BT_OK) break;
        d->columns[i] = columns[i];
        d->columns[i].name = NULL;
        status = copy_name(d, columns[i].name);
    }
    if (status == BT_OK) return d;
    bt_dataset_release(d);
    return NULL;
}

/* --- asking ----------------------------------------------------------------------------------------------------------- */

int64_t bt_dataset_rows(const bt_dataset *dataset) {
    return bti_handle_check(BTI_OWNED_DATASET, dataset, "bt_dataset_rows") == BT_OK ? dataset->rows : -1;
}
int bt_dataset_columns(const bt_dataset *dataset) {
    return bti_handle_check(BTI_OWNED_DATASET, dataset, "bt_dataset_columns") == BT_OK ? dataset->count : -1;
}
const bt_column *bt_dataset_column(const bt_dataset *dataset, int index) {
    if (bti_handle_check(BTI_OWNED_DATASET, dataset, "bt_dataset_column") != BT_OK) return NULL;
    return index >= 0 && index < dataset->count ? &dataset->columns[index] : NULL;
}

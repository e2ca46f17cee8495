/* Data sets that have examples of their own: arrays, .npy files, a CSV file, a function of the program's. */
#include <string.h>

#include <berth/ops.h>

#include "base/alloc.h"
#include "data/dataset.h"
#include "file/csv.h"

/* [N, ...] as examples of [...]. */
static bt_column column_of(const char *name, bt_dtype dtype, bt_shape shape) {
    bt_column column = {.name = name, .dtype = dtype, .shape.rank = shape.rank - 1};
    for (int d = 1; d < shape.rank; d++) column.shape.size[d - 1] = shape.size[d];
    return column;
}

/* --- arrays ----------------------------------------------------------------------------------------------------------- */

static bt_status check_array(bt_array *x, int number, int64_t *rows) {
    if (!x) return bti_fail(BT_INVALID_ARGUMENT, "array %d is NULL", number);
    bti_error *error = bti_array_error(x);
    if (error) return bti_fail_with(error);
    if (bt_rank(x) < 1) return bti_fail(BT_INVALID_ARGUMENT, "array %d is a scalar; it has no examples", number);
    bt_shape shape = bt_shape_of(x);
    for (int d = 0; d < shape.rank; d++)
        if (bt_size(x, d) < 0)
            return bti_fail(BT_INVALID_ARGUMENT, "the size of axis %d of array %d is unknown", d, number);
    if (number == 0) *rows = shape.size[0];
    if (shape.size[0] == *rows) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "array %d has %lld rows and array 0 has %lld; they must be as many", number,
                    (long long)shape.size[0], (long long)*rows);
}

static bt_status keep_arrays(bt_dataset *d, bt_array *const *arrays) {
    d->arrays = bti_calloc((size_t)d->count, sizeof *d->arrays);
    if (!d->arrays) return bti_no_memory();
    for (int i = 0; i < d->count; i++) d->arrays[i] = bt_retain(arrays[i]);
    return BT_OK;
}

bt_dataset *bt_dataset_arrays(const char *const *names, bt_array *const *arrays, int count) {
    BTI_CALL("bt_dataset_arrays");
    bt_column columns[BT_MAX_COLUMNS];
    int64_t rows = 0;
    bt_status status = bti_dataset_check_list(arrays, count, "arrays");
    for (int i = 0; i < count && status == BT_OK; i++) {
        status = check_array(arrays[i], i, &rows);
        if (status == BT_OK)
            columns[i] = column_of(names ? names[i] : NULL, bt_dtype_of(arrays[i]), bt_shape_of(arrays[i]));
    }
    bt_dataset *d = status == BT_OK ? bti_dataset_new(BTI_DATASET_ARRAYS, columns, count) : NULL;
    if (d) d->rows = rows;
    return bti_dataset_own(d, d ? keep_arrays(d, arrays) : bt_error_status());
}

/* --- .npy files ------------------------------------------------------------------------------------------------------- */

/* files: [count], taken over. */
static bt_dataset *dataset_of_files(const char *const *names, bti_mapped *files, int count) {
    bt_column columns[BT_MAX_COLUMNS];
    for (int i = 0; i < count; i++) {
        columns[i] = column_of(names ? names[i] : NULL, files[i].dtype, files[i].shape);
        if (files[i].shape.size[0] == files[0].shape.size[0]) continue;
        (void)!bti_fail(BT_INVALID_ARGUMENT, "%s has %lld rows and %s has %lld; they must be as many",
                        files[i].file.path, (long long)files[i].shape.size[0], files[0].file.path,
                        (long long)files[0].shape.size[0]);
        return NULL;
    }
    bt_dataset *d = bti_dataset_new(BTI_DATASET_FILES, columns, count);
    if (!d) return NULL;
    d->rows = files[0].shape.size[0];
    d->mapped = files;
    return d;
}

bt_dataset *bt_dataset_npy(const char *const *names, const char *const *paths, int count) {
    BTI_CALL("bt_dataset_npy");
    bt_dataset *d = NULL;
    bt_status status = bti_dataset_check_list(paths, count, "paths");
    bti_mapped *files = status == BT_OK ? bti_calloc((size_t)count, sizeof *files) : NULL;
    if (status == BT_OK && !files) status = bti_no_memory();
    for (int i = 0; i < count && status == BT_OK; i++) status = bti_mapped_open(paths[i], &files[i]);
    if (status == BT_OK) d = dataset_of_files(names, files, count);
    for (int i = 0; files && !d && i < count; i++) bti_mapped_close(&files[i]);
    if (!d) bti_free(files);
    return bti_dataset_own(d, d ? BT_OK : bt_error_status());
}

/* --- CSV -------------------------------------------------------------------------------------------------------------- */

static int64_t numbers_of(const bt_column *column) {
    return (int64_t)(bti_column_bytes(column) / bt_dtype_size(column->dtype));
}

/* The column of the table [N, columns] that begins at `first`, as [N, ...]. */
static bt_status cut_column(bt_array *table, const bt_column *column, int64_t first, bt_array **cut) {
    bt_array *numbers = bt_slice_axis(table, 1, first, first + numbers_of(column), 1);
    bt_shape shape = {.rank = column->shape.rank + 1, .size = {bt_size(table, 0)}};
    for (int d = 0; d < column->shape.rank; d++) shape.size[d + 1] = column->shape.size[d];
    *cut = bt_reshape_to(bt_cast(numbers, column->dtype), shape);
    return bt_block(*cut);
}

static bt_status cut_table(bt_dataset *d, bt_array *table, const char *path) {
    bt_array *arrays[BT_MAX_COLUMNS];
    int64_t first = 0, wanted = 0;
    for (int i = 0; i < d->count; i++) wanted += numbers_of(&d->columns[i]);
    if (wanted != bt_size(table, 1))
        return bti_fail(BT_INVALID_ARGUMENT, "%s has %lld numbers in a line; the columns take %lld", path,
                        (long long)bt_size(table, 1), (long long)wanted);
    for (int i = 0; i < d->count; i++) {
        BTI_TRY(cut_column(table, &d->columns[i], first, &arrays[i]));
        first += numbers_of(&d->columns[i]);
    }
    d->rows = bt_size(table, 0);
    return keep_arrays(d, arrays);
}

static bt_array *load_table(const bt_dataset *d, const char *path) {
    bti_csv_column columns[BT_MAX_COLUMNS];
    for (int i = 0; i < d->count; i++)
        columns[i] = (bti_csv_column){d->columns[i].name, d->columns[i].dtype, numbers_of(&d->columns[i])};
    return bti_load_csv_columns(path, columns, d->count);
}

bt_dataset *bt_dataset_csv(const char *path, const bt_column *columns, int count) {
    BTI_CALL("bt_dataset_csv");
    bt_dataset *d = bti_dataset_new(BTI_DATASET_ARRAYS, columns, count);
    bt_status status = d ? BT_OK : bt_error_status();
    for (int i = 0; i < count && status == BT_OK; i++)
        if (bti_column_ragged_axis(&columns[i]) >= 0)
            status = bti_fail(BT_INVALID_ARGUMENT, "column %d is ragged; lines of a CSV file are equally long", i);
    BT_SCOPE {
        bt_array *table = NULL;
        if (status == BT_OK)
            BT_ON("cpu") table = load_table(d, path);
        if (status == BT_OK) status = bt_block(table);
        if (status == BT_OK)
            BT_ON("cpu") status = cut_table(d, table, path);
    }
    return bti_dataset_own(d, status);
}

/* --- functions of the program's ----------------------------------------------------------------------------------------- */

bt_dataset *bt_dataset_callback(int64_t rows, const bt_column *columns, int count, bt_example_fn *fn, void *data) {
    BTI_CALL("bt_dataset_callback");
    bt_dataset *d = NULL;
    if (!fn)
        (void)!bti_fail(BT_INVALID_ARGUMENT, "the function is NULL");
    else if (rows < 0)
        (void)!bti_fail(BT_INVALID_ARGUMENT, "%lld examples", (long long)rows);
    else
        d = bti_dataset_new(BTI_DATASET_CALLBACK, columns, count);
    if (!d) return bti_dataset_own(NULL, bt_error_status());
    d->rows = rows;
    d->make = fn;
    d->data = data;
    return bti_dataset_own(d, BT_OK);
}

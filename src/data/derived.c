/* Data sets that are made of others. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <berth/ops.h>
#include <berth/random.h>

#include "base/alloc.h"
#include "base/quote.h"
#include "data/batcher.h"

static bt_status check_chain(bt_dataset *dataset, const char *name) {
    BTI_TRY(bti_handle_check(BTI_OWNED_DATASET, dataset, name));
    int length = 1;
    for (const bt_dataset *d = dataset; d->of; d = d->of) length++;
    if (length < BTI_MAX_CHAIN) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "more than %d data sets, each made of the one before", BTI_MAX_CHAIN);
}

/* --- maps --------------------------------------------------------------------------------------------------------------- */

bt_dataset *bt_dataset_map(bt_dataset *dataset, const bt_column *columns, int count, bt_example_map_fn *fn,
                           void *data) {
    BTI_CALL("bt_dataset_map");
    bt_dataset *d = NULL;
    if (check_chain(dataset, "bt_dataset_map") == BT_OK) {
        if (!fn)
            (void)!bti_fail(BT_INVALID_ARGUMENT, "the function is NULL");
        else
            d = bti_dataset_new(BTI_DATASET_MAP, columns, count);
    }
    if (!d) return bti_dataset_own(NULL, bt_error_status());
    d->rows = dataset->rows;
    d->of = bt_dataset_retain(dataset);
    d->map = fn;
    d->data = data;
    return bti_dataset_own(d, BT_OK);
}

/* --- selections --------------------------------------------------------------------------------------------------------- */

/* rows: numbers of `dataset`'s examples, taken over. NULL with the cause in the error record. */
static bt_dataset *new_selection(bt_dataset *dataset, int64_t *rows, int64_t count) {
    bt_dataset *of = dataset->kind == BTI_DATASET_SELECT ? dataset->of : dataset;
    bt_dataset *d = bti_dataset_new(BTI_DATASET_SELECT, dataset->columns, dataset->count);
    if (!d) {
        bti_free(rows);
        return NULL;
    }
    for (int64_t i = 0; i < count && of != dataset; i++) rows[i] = dataset->selected[rows[i]];
    d->of = bt_dataset_retain(of);
    d->selected = rows;
    d->rows = count;
    return d;
}

/* NULL with the cause in the error record. */
static int64_t *new_rows(int64_t count) {
    size_t bytes;
    int64_t *rows = bti_mul_size((size_t)count, sizeof *rows, &bytes) ? bti_alloc(bytes) : NULL;
    if (!rows) (void)!bti_no_memory();
    return rows;
}

static bt_status check_rows(const bt_dataset *dataset, const int64_t *rows, int64_t count) {
    if (count < 0 || (count && !rows))
        return bti_fail(BT_INVALID_ARGUMENT, count < 0 ? "%lld examples" : "the list of %lld examples is NULL",
                        (long long)count);
    for (int64_t i = 0; i < count; i++)
        if (rows[i] < 0 || rows[i] >= dataset->rows)
            return bti_fail(BT_OUT_OF_RANGE, "entry %lld is example %lld; there are %lld", (long long)i,
                            (long long)rows[i], (long long)dataset->rows);
    return BT_OK;
}

bt_dataset *bt_dataset_select(bt_dataset *dataset, const int64_t *rows, int64_t count) {
    BTI_CALL("bt_dataset_select");
    bt_dataset *d = NULL;
    int64_t *copy = NULL;
    bt_status status = check_chain(dataset, "bt_dataset_select");
    if (status == BT_OK) status = check_rows(dataset, rows, count);
    if (status == BT_OK) copy = new_rows(count);
    if (copy && count) memcpy(copy, rows, (size_t)count * sizeof *copy);
    if (copy) d = new_selection(dataset, copy, count);
    return bti_dataset_own(d, d ? BT_OK : bt_error_status());
}

/* --- splits ------------------------------------------------------------------------------------------------------------- */

static bt_status read_order(bt_array *key, int64_t count, int64_t *order) {
    bt_status status = BT_OK;
    for (int64_t i = 0; i < count; i++) order[i] = i;
    if (!key) return BT_OK;
    BT_SCOPE
        BT_ON("cpu")
            status = bt_read(bt_cast(bt_permutation(bt_cpu(key), count), BT_I64), order, (size_t)count * sizeof *order);
    return status;
}

static int64_t integer_at(const void *element, bt_dtype dtype) {
    int64_t value = 0;
    memcpy(&value, element, bt_dtype_size(dtype)); /* little-endian; which bits stand for a label does not matter */
    return value;
}

/* labels: [rows], of the examples in their own order. */
static bt_status read_labels(bt_dataset *d, const char *name, int64_t *labels) {
    int c = bti_dataset_find(d, name);
    if (c < 0) return bti_fail(BT_NOT_FOUND, "the data set has no column \"%s\"", bti_quote(name).text);
    const bt_column *column = &d->columns[c];
    if (column->dtype > BT_I64 || column->shape.rank)
        return bti_fail(BT_INVALID_ARGUMENT, "column \"%s\" is no label: single integers or bools are",
                        bti_quote(name).text);
    bti_leaf leaf;
    bti_example_maker maker = {.leaf = &leaf};
    void *data[BT_MAX_COLUMNS];
    bt_shape shape[BT_MAX_COLUMNS];
    bt_status status = bti_leaf_open(d, &leaf);
    for (int64_t i = 0; i < d->rows && status == BT_OK; i++) {
        bti_scratch_reset(&maker.of_example);
        status = bti_example_view(&maker, d, i, data, shape);
        if (status == BT_OK) labels[i] = integer_at(data[c], column->dtype);
    }
    bti_example_maker_free(&maker);
    bti_leaf_close(&leaf);
    return status;
}

typedef struct labelled {
    int64_t label, place; /* in the order */
} labelled;

static int by_label(const void *a, const void *b) {
    const labelled *x = a, *y = b;
    if (x->label != y->label) return x->label < y->label ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* chosen: [rows], which places of the order the first part has: the first ones of each label. labels NULL: the first ones. */
static bt_status choose_first(double fraction, const int64_t *order, const int64_t *labels, int64_t rows,
                              bool *chosen) {
    labelled *sorted = bti_alloc((size_t)rows * sizeof *sorted);
    if (!sorted) return bti_no_memory();
    for (int64_t i = 0; i < rows; i++) sorted[i] = (labelled){labels ? labels[order[i]] : 0, i};
    qsort(sorted, (size_t)rows, sizeof *sorted, by_label);
    for (int64_t begin = 0, end; begin < rows; begin = end) {
        for (end = begin; end < rows && sorted[end].label == sorted[begin].label;) end++;
        int64_t first = llround(fraction * (double)(end - begin));
        for (int64_t i = begin; i < end; i++) chosen[sorted[i].place] = i < begin + first;
    }
    bti_free(sorted);
    return BT_OK;
}

/* The examples at the places of the order that are, or are not, chosen. */
static bt_dataset *new_part(bt_dataset *d, const int64_t *order, const bool *chosen, bool which) {
    int64_t count = 0, *rows = new_rows(d->rows);
    if (!rows) return NULL;
    for (int64_t i = 0; i < d->rows; i++)
        if (chosen[i] == which) rows[count++] = order[i];
    return new_selection(d, rows, count);
}

static bt_status split_rows(bt_dataset *d, double fraction, bt_array *key, const char *labels, bt_dataset *parts[2]) {
    int64_t *order = new_rows(d->rows), *of_rows = labels ? new_rows(d->rows) : NULL;
    bool *chosen = bti_calloc((size_t)d->rows + 1, sizeof *chosen);
    bt_status status = order && chosen && (!labels || of_rows) ? BT_OK : bti_no_memory();
    if (status == BT_OK) status = read_order(key, d->rows, order);
    if (status == BT_OK && labels) status = read_labels(d, labels, of_rows);
    if (status == BT_OK) status = choose_first(fraction, order, of_rows, d->rows, chosen);
    for (int i = 0; i < 2 && status == BT_OK; i++) {
        parts[i] = new_part(d, order, chosen, i == 0);
        if (!parts[i]) status = bt_error_status();
    }
    bti_free(order);
    bti_free(of_rows);
    bti_free(chosen);
    return status;
}

bt_status bt_dataset_split(bt_dataset *dataset, double fraction, bt_array *key, const char *labels, bt_dataset **first,
                           bt_dataset **second) {
    BTI_CALL("bt_dataset_split");
    bt_dataset *parts[2] = {NULL, NULL};
    if (!first || !second) return bti_fail(BT_INVALID_ARGUMENT, "a place for a data set is NULL");
    bt_status status = check_chain(dataset, "bt_dataset_split");
    if (status == BT_OK && !(fraction >= 0 && fraction <= 1))
        status = bti_fail(BT_INVALID_ARGUMENT, "the fraction is %g; it must be 0 to 1", fraction);
    if (status == BT_OK) status = split_rows(dataset, fraction, key, labels, parts);
    *first = bti_dataset_own(parts[0], status);
    *second = bti_dataset_own(parts[1], status);
    return status;
}

/* --- all at once -------------------------------------------------------------------------------------------------------- */

/* A ragged column is followed by its sizes. */
static bt_dataset *dataset_of_batch(const bt_dataset *d, const bti_made *made) {
    bt_array *arrays[2 * BT_MAX_COLUMNS];
    const char *names[2 * BT_MAX_COLUMNS];
    char *made_names[BT_MAX_COLUMNS] = {0};
    int count = 0;
    for (int c = 0; c < d->count; c++) {
        names[count] = d->columns[c].name;
        arrays[count++] = made->arrays[c];
        if (!made->arrays[d->count + c]) continue;
        if (asprintf(&made_names[c], "%s.size", d->columns[c].name) < 0) made_names[c] = NULL;
        names[count] = made_names[c];
        arrays[count++] = made->arrays[d->count + c];
    }
    bt_dataset *all = bt_dataset_arrays(names, arrays, count);
    for (int c = 0; c < d->count; c++) free(made_names[c]);
    return all;
}

bt_dataset *bt_dataset_to(bt_dataset *dataset, const char *device) {
    BTI_CALL("bt_dataset_to");
    bti_made made = {0};
    bt_device *found = NULL;
    bt_status status = bti_handle_check(BTI_OWNED_DATASET, dataset, "bt_dataset_to");
    if (status == BT_OK && !device) status = bti_fail(BT_INVALID_ARGUMENT, "the device is NULL");
    if (status == BT_OK) status = bt_device_find(device, &found);
    if (status != BT_OK) return bti_dataset_own(NULL, status);
    bti_batcher b = {.dataset = bt_dataset_retain(dataset),
                     .batch = dataset->rows,
                     .batches = 1,
                     .recorded = bti_batcher_can_record(dataset),
                     .device = found,
                     .starts = true};
    bti_example_maker maker = {0};
    status = bti_batcher_open(&b, 0);
    if (status == BT_OK) status = bti_batcher_order(&b, 0);
    if (status == BT_OK) bti_batcher_make(&b, &maker, 0, &made);
    if (made.error) status = bti_fail_with(made.error);
    bt_dataset *all = status == BT_OK ? dataset_of_batch(dataset, &made) : bti_dataset_own(NULL, status);
    bti_made_release(&made);
    bti_example_maker_free(&maker);
    bti_batcher_close(&b);
    return all;
}

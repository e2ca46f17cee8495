#include "data/gather.h"

#include <string.h>

#include "base/alloc.h"
#include "base/quote.h"

/* --- opening ---------------------------------------------------------------------------------------------------------- */

static bt_status read_pad(const bt_column *column, unsigned char *pad) {
    bt_status status = BT_OK;
    BT_SCOPE
        BT_ON("cpu") {
            bt_array *value = bt_full_shape(column->pad, column->dtype, BT_SHAPE());
            status = bt_read(value, pad, bt_dtype_size(column->dtype));
        }
    return status;
}

bt_status bti_gatherer_open(bt_dataset *dataset, bt_device *store_device, size_t keep_bytes, bti_gatherer *gatherer) {
    *gatherer = (bti_gatherer){.dataset = dataset};
    gatherer->store = bti_batch_memory_new(store_device, keep_bytes);
    if (!gatherer->store) return bti_no_memory();
    for (int c = 0; c < dataset->count; c++)
        if (bti_column_ragged_axis(&dataset->columns[c]) >= 0)
            BTI_TRY(read_pad(&dataset->columns[c], gatherer->pad[c]));
    return bti_leaf_open(dataset, &gatherer->leaf);
}

void bti_gatherer_close(bti_gatherer *gatherer) {
    bti_leaf_close(&gatherer->leaf);
    bti_batch_memory_close(gatherer->store);
    *gatherer = (bti_gatherer){0};
}

/* --- rows in memory ----------------------------------------------------------------------------------------------------- */

typedef struct job {
    const bti_gatherer *of;
    bti_example_maker *maker;
    const int32_t *rows;
    int64_t first, count;
    bti_piece *pieces[BT_MAX_COLUMNS];  /* of the arrays; NULL: not taken, or given back */
    bti_piece *lengths[BT_MAX_COLUMNS]; /* of the sizes */
    int64_t longest[BT_MAX_COLUMNS];    /* of ragged columns */
} job;

/* The number of example i of the batch, in the data set that the selection, if it is one, is of. */
static int64_t row_of(const job *j, int64_t i) {
    int64_t row = j->rows ? j->rows[j->first + i] : j->first + i;
    const bt_dataset *d = j->of->dataset;
    return d->kind == BTI_DATASET_SELECT ? d->selected[row] : row;
}

/* Sizes of single numbers are copied without a call. */
static inline void copy_row(unsigned char *to, const unsigned char *from, size_t bytes) {
    switch (bytes) {
    case 1: *to = *from; break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    case 8: memcpy(to, from, 8); break;
    default: memcpy(to, from, bytes);
    }
}

/* Rows are read in no order that a processor foresees. While one of up to LONG_ROW bytes is copied, line by line, the one some rows further
 * is fetched into the second cache; longer ones are copied at full speed without. The figures are measured (decision 0065). */
enum { LINE = 64, LONG_ROW = 16 << 10, BYTES_AHEAD = 12 << 10, LEAST_AHEAD = 4, MOST_AHEAD = 32 };

static inline void copy_row_and_fetch(unsigned char *to, const unsigned char *from, const unsigned char *next,
                                      size_t bytes) {
    size_t at = 0;
    for (; at + LINE <= bytes; at += LINE) {
        __builtin_prefetch(next + at, 0, 2);
        memcpy(to + at, from + at, LINE);
    }
    if (at < bytes) {
        __builtin_prefetch(next + at, 0, 2);
        copy_row(to + at, from + at, bytes - at);
    }
}

static int64_t rows_ahead(size_t bytes) {
    int64_t rows = bytes ? (int64_t)(BYTES_AHEAD / bytes) : MOST_AHEAD;
    return rows < LEAST_AHEAD ? LEAST_AHEAD : rows > MOST_AHEAD ? MOST_AHEAD : rows;
}

static void gather_column(const job *j, const unsigned char *base, size_t bytes, unsigned char *to) {
    int64_t ahead = rows_ahead(bytes);
    for (int64_t i = 0; i < j->count;) {
        int64_t row = row_of(j, i), run = 1;
        while (i + run < j->count && row_of(j, i + run) == row + run) run++; /* neighbours in one copy */
        const unsigned char *from = base + (size_t)row * bytes;
        unsigned char *at = to + (size_t)i * bytes;
        if (run == 1 && bytes <= LONG_ROW && i + ahead < j->count)
            copy_row_and_fetch(at, from, base + (size_t)row_of(j, i + ahead) * bytes, bytes);
        else
            copy_row(at, from, (size_t)run * bytes);
        i += run;
    }
}

static bt_status take_pieces(job *j, const bt_dataset *d) {
    for (int c = 0; c < d->count; c++) {
        bool ragged = bti_column_ragged_axis(&d->columns[c]) >= 0;
        size_t bytes;
        if (ragged && !(j->lengths[c] = bti_piece_take(j->of->store, (size_t)j->count * sizeof(int32_t))))
            return BT_RESOURCE_EXHAUSTED;
        if (ragged) continue;
        if (!bti_mul_size(bti_column_bytes(&d->columns[c]), (size_t)j->count, &bytes))
            return bti_fail(BT_RESOURCE_EXHAUSTED, "the bytes of a batch of %lld examples overflow",
                            (long long)j->count);
        if (!(j->pieces[c] = bti_piece_take(j->of->store, bytes))) return BT_RESOURCE_EXHAUSTED;
    }
    return BT_OK;
}

static bt_status gather_columns(job *j) {
    const bt_dataset *leaf = j->of->leaf.dataset;
    for (int c = 0; c < leaf->count && leaf->kind == BTI_DATASET_FILES; c++)
        BTI_TRY(bti_mapped_check(&leaf->mapped[c]));
    for (int c = 0; c < leaf->count; c++)
        gather_column(j, j->of->leaf.base[c], bti_column_bytes(&leaf->columns[c]), j->pieces[c]->data);
    return BT_OK;
}

/* --- examples that functions make -------------------------------------------------------------------------------------- */

/* A ragged column of an example, in the maker's memory. */
typedef struct ragged {
    const void *data;
    int64_t size;
} ragged;

static bt_status make_examples(job *j, const bt_dataset *d, ragged *parts) {
    void *data[BT_MAX_COLUMNS];
    bt_shape shape[BT_MAX_COLUMNS];
    if (d->kind == BTI_DATASET_MAP && j->of->leaf.dataset->kind == BTI_DATASET_FILES)
        for (int c = 0; c < j->of->leaf.dataset->count; c++) BTI_TRY(bti_mapped_check(&j->of->leaf.dataset->mapped[c]));
    for (int64_t i = 0; i < j->count; i++) {
        for (int c = 0; c < d->count; c++) {
            data[c] = NULL;
            if (j->pieces[c]) data[c] = (char *)j->pieces[c]->data + (size_t)i * bti_column_bytes(&d->columns[c]);
        }
        BTI_TRY(bti_example_fill(j->maker, d, row_of(j, i), data, shape));
        for (int c = 0; c < d->count; c++) {
            int axis = bti_column_ragged_axis(&d->columns[c]);
            if (axis < 0) continue;
            int64_t size = shape[c].size[axis];
            if (size > INT32_MAX)
                return bti_fail(BT_OUT_OF_RANGE, "example %lld: column \"%s\" has size %lld", (long long)row_of(j, i),
                                bti_quote(d->columns[c].name).text, (long long)size);
            parts[i * d->count + c] = (ragged){data[c], size};
            ((int32_t *)j->lengths[c]->data)[i] = (int32_t)size;
            if (size > j->longest[c]) j->longest[c] = size;
        }
    }
    return BT_OK;
}

/* Examples of [before, size, behind] to [count, before, longest, behind], the rest of which is `pad`. behind: in bytes. */
static void stack_ragged(const job *j, const bt_column *column, int c, int columns, const ragged *parts) {
    int axis = bti_column_ragged_axis(column);
    size_t element = bt_dtype_size(column->dtype), before = 1, behind = element, longest = (size_t)j->longest[c];
    for (int d = 0; d < column->shape.rank; d++)
        *(d < axis ? &before : &behind) *= d == axis ? 1 : (size_t)column->shape.size[d];
    unsigned char *to = j->pieces[c]->data;
    for (int64_t i = 0; i < j->count; i++) {
        const ragged *part = &parts[i * columns + c];
        size_t bytes = (size_t)part->size * behind;
        for (size_t b = 0; b < before; b++, to += longest * behind) {
            if (bytes) memcpy(to, (const char *)part->data + b * bytes, bytes);
            for (size_t at = bytes; at < longest * behind; at += element) copy_row(to + at, j->of->pad[c], element);
        }
    }
}

static bt_status stack_columns(job *j, const bt_dataset *d, const ragged *parts) {
    for (int c = 0; c < d->count; c++) {
        const bt_column *column = &d->columns[c];
        int axis = bti_column_ragged_axis(column);
        if (axis < 0) continue;
        size_t bytes = (size_t)j->count * bt_dtype_size(column->dtype);
        bool fits = true;
        for (int k = 0; k < column->shape.rank; k++)
            fits = fits && bti_mul_size(bytes, (size_t)(k == axis ? j->longest[c] : column->shape.size[k]), &bytes);
        if (!fits) return bti_fail(BT_RESOURCE_EXHAUSTED, "the bytes of a padded batch overflow");
        if (!(j->pieces[c] = bti_piece_take(j->of->store, bytes))) return BT_RESOURCE_EXHAUSTED;
        stack_ragged(j, column, c, d->count, parts);
    }
    return BT_OK;
}

static bt_status gather_examples(job *j, const bt_dataset *d) {
    ragged *parts = bti_calloc((size_t)j->count * (size_t)d->count, sizeof *parts);
    bt_status status = parts ? make_examples(j, d, parts) : bti_no_memory();
    if (status == BT_OK) status = stack_columns(j, d, parts);
    bti_free(parts);
    bti_scratch_reset(&j->maker->of_batch);
    return status;
}

/* --- as arrays ---------------------------------------------------------------------------------------------------------- */

/* The piece is lent to the array, which gives it back. */
static bt_array *lend_piece(bti_piece **piece, bt_dtype dtype, bt_shape shape) {
    bti_piece *lent = *piece;
    *piece = NULL;
    return bt_from_lent(lent->data, dtype, shape, bti_piece_give, lent);
}

static bt_status lend_columns(job *j, const bt_dataset *d, bt_array **arrays, bt_array **sizes) {
    for (int c = 0; c < d->count; c++) {
        const bt_column *column = &d->columns[c];
        bt_shape shape = {.rank = column->shape.rank + 1, .size = {j->count}};
        for (int k = 0; k < column->shape.rank; k++)
            shape.size[k + 1] = column->shape.size[k] == BT_RAGGED ? j->longest[c] : column->shape.size[k];
        BT_DEFAULT("cpu") {
            arrays[c] = lend_piece(&j->pieces[c], column->dtype, shape);
            sizes[c] = j->lengths[c] ? lend_piece(&j->lengths[c], BT_I32, BT_SHAPE(j->count)) : NULL;
        }
        if (bt_peek_status(arrays[c]) != BT_OK) return bt_block(arrays[c]);
        if (sizes[c] && bt_peek_status(sizes[c]) != BT_OK) return bt_block(sizes[c]);
    }
    return BT_OK;
}

bt_status bti_gather_rows(const bti_gatherer *gatherer, bti_example_maker *maker, const int32_t *rows, int64_t first,
                          int64_t count, bt_array **arrays, bt_array **sizes) {
    job j = {.of = gatherer, .maker = maker, .rows = rows, .first = first, .count = count};
    const bt_dataset *d = gatherer->dataset;
    maker->leaf = &gatherer->leaf;
    if (d->kind == BTI_DATASET_SELECT) d = d->of;
    bt_status status = take_pieces(&j, d);
    if (status == BT_OK) status = d == gatherer->leaf.dataset && !d->make ? gather_columns(&j) : gather_examples(&j, d);
    if (status == BT_OK) status = lend_columns(&j, d, arrays, sizes);
    for (int c = 0; c < d->count; c++) {
        if (j.pieces[c]) bti_piece_give(j.pieces[c]);
        if (j.lengths[c]) bti_piece_give(j.lengths[c]);
    }
    return status;
}

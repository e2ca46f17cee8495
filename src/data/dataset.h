/* What a data set is inside. A chain of data sets: maps and selections, each of another, and at its end a leaf, which has examples of its own. */
#ifndef BTI_DATA_DATASET_H
#define BTI_DATA_DATASET_H

#include <berth/data.h>

#include "array/handle.h"
#include "data/mapped.h"

typedef enum bti_dataset_kind {
    BTI_DATASET_ARRAYS,   /* leaf: arrays, wherever they are */
    BTI_DATASET_FILES,    /* leaf: .npy files, mapped */
    BTI_DATASET_CALLBACK, /* leaf: a function of the program's */
    BTI_DATASET_MAP,      /* a function of the program's, of each example of `of` */
    BTI_DATASET_SELECT    /* examples of `of`, which is no selection itself */
} bti_dataset_kind;

struct bt_dataset {
    bti_owned head;
    bti_dataset_kind kind;
    int64_t rows;
    int count; /* of columns; their names are its own */
    bt_column *columns;
    bt_dataset *of;     /* MAP, SELECT: retained */
    int64_t *selected;  /* SELECT: [rows], numbers of examples of `of` */
    bt_array **arrays;  /* ARRAYS: [count], retained */
    bti_mapped *mapped; /* FILES: [count] */
    bt_example_fn *make;
    bt_example_map_fn *map;
    void *data; /* of make and map */
};

/* INVALID_ARGUMENT: the caller's list of `what` is NULL, or has not 1 to BT_MAX_COLUMNS entries. */
bt_status bti_dataset_check_list(const void *list, int count, const char *what);
/* A new data set with these columns, which are checked and copied; NULL with the cause in the error record. Its kind and rows are the caller's
 * to set. Ends in bti_dataset_own. */
bt_dataset *bti_dataset_new(bti_dataset_kind kind, const bt_column *columns, int count);
/* Gives it to the innermost scope; when status is not BT_OK, releases it and gives a poisoned one instead. */
bt_dataset *bti_dataset_own(bt_dataset *dataset, bt_status status);

/* The place of the ragged axis of a column's shape; -1: none. */
int bti_column_ragged_axis(const bt_column *column);
/* Bytes of one example of a column that is not ragged. */
size_t bti_column_bytes(const bt_column *column);
/* -1: there is none of that name. */
int bti_dataset_find(const bt_dataset *dataset, const char *name);

#endif

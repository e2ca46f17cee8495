/* The pickles inside PyTorch's .pt files, read by a machine that knows plain data, dicts, lists, tuples and what describes tensors, and
 * nothing else: no name in a pickle is ever called. */
#ifndef BTI_FILE_PICKLE_H
#define BTI_FILE_PICKLE_H

#include <berth/array.h>

#include "base/vec.h"
#include "file/io.h"

typedef enum bti_pickle_kind {
    BTI_PICKLE_NONE, /* also what is of no interest: integers of more than 64 bits, dtypes, functions by themselves */
    BTI_PICKLE_BOOL,
    BTI_PICKLE_INT,
    BTI_PICKLE_REAL,
    BTI_PICKLE_TEXT,
    BTI_PICKLE_TUPLE,
    BTI_PICKLE_LIST,
    BTI_PICKLE_DICT,
    BTI_PICKLE_GLOBAL,
    BTI_PICKLE_STORAGE,
    BTI_PICKLE_TENSOR,
} bti_pickle_kind;

typedef struct bti_pickle_value {
    bti_pickle_kind kind;
    int global;       /* GLOBAL: its row */
    int first, last;  /* TUPLE, LIST, DICT (keys and values in turn): cells; -1: it is empty */
    int count;        /* of them */
    bt_dtype dtype;   /* STORAGE; BT_DTYPE_COUNT: bytes */
    const char *text; /* TEXT; STORAGE: its key. `length` bytes in the pickle */
    size_t length;
    int64_t integer; /* BOOL, INT; STORAGE: its elements; TENSOR: index of `tensors` */
    double real;
} bti_pickle_value;

typedef struct bti_pickle_cell {
    int value, next; /* indices; next: -1 at the end */
} bti_pickle_cell;

typedef struct bti_pickle_tensor {
    int storage; /* value */
    bt_dtype dtype;
    int64_t offset; /* in elements */
    int rank;       /* may be above 8 */
    bt_shape shape; /* the first 8 sizes */
    int64_t stride[BT_MAX_RANK];
    bool conj, neg; /* the storage has the conjugate, the negative of the elements */
} bti_pickle_tensor;

typedef struct bti_pickle {
    BTI_VEC(bti_pickle_value) values;
    BTI_VEC(bti_pickle_cell) cells;
    BTI_VEC(bti_pickle_tensor) tensors;
    int root; /* value */
} bti_pickle;

/* Runs the pickle of a file in memory, which must stay as long as the result. To be freed, also after an error. UNIMPLEMENTED: it
 * needs something else, which the error names. */
bt_status bti_pickle_load(bti_pickle *pickle, const bti_file *file);
void bti_pickle_free(bti_pickle *pickle);

#endif

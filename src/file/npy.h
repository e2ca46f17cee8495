/* .npy: one array, as a file or as a member of a .npz. */
#ifndef BTI_FILE_NPY_H
#define BTI_FILE_NPY_H

#include <berth/file.h>

#include "base/quote.h"
#include "base/str.h"
#include "file/io.h"

typedef struct bti_npy {
    const bti_file *file;
    uint64_t data_begin;
    bt_dtype dtype;   /* BT_DTYPE_COUNT: berth has no such dtype */
    bti_quoted descr; /* of it, and then where it stands in the file */
    uint64_t descr_begin;
    bool big_endian, fortran_order;
    bt_shape shape; /* the first 8 sizes; the rank may be above 8 */
} bti_npy;

/* Any header; for bti_npy_read only one that bti_npy_read_header takes. */
bt_status bti_npy_read_any_header(bti_npy *npy, const bti_file *file);
/* One of a dtype and rank that berth has. */
bt_status bti_npy_read_header(bti_npy *npy, const bti_file *file);
/* The array, on the device that bt_from would choose; poisoned on errors. */
bt_array *bti_npy_read(const bti_npy *npy);
/* What NumPy writes before the elements; the caller frees the text. */
bt_status bti_npy_header(bt_dtype dtype, bt_shape shape, bti_str *text);

#endif

/* .npy: one array, as a file or as a member of a .npz. */
#ifndef BTI_FILE_NPY_H
#define BTI_FILE_NPY_H

#include <berth/file.h>

#include "base/str.h"
#include "file/io.h"

typedef struct bti_npy {
    const bti_file *file;
    uint64_t data_begin;
    bt_dtype dtype;
    bool big_endian, fortran_order;
    bt_shape shape;
} bti_npy;

bt_status bti_npy_read_header(bti_npy *npy, const bti_file *file);
/* The array, on the device that bt_from would choose; poisoned on errors. */
bt_array *bti_npy_read(const bti_npy *npy);
/* What NumPy writes before the elements; the caller frees the text. */
bt_status bti_npy_header(bt_dtype dtype, bt_shape shape, bti_str *text);

#endif

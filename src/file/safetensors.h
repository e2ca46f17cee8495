/* The header of a safetensors file (huggingface.co/docs/safetensors): 8 bytes with its length, little-endian; JSON of that
 * length; the data. Checked in full before any tensor is read. */
#ifndef BTI_FILE_SAFETENSORS_H
#define BTI_FILE_SAFETENSORS_H

#include <berth/file.h>
#include <jansson.h>

#include "array/handle.h"
#include "file/io.h"

#define BTI_SAFETENSORS_MAX_HEADER 100000000u
#define BTI_SAFETENSORS_METADATA "__metadata__"

/* A dtype of the format. The table has the order of the official writer, which writes tensors with the last dtype first. */
typedef struct bti_tensor_dtype {
    const char *name;
    unsigned bits;
    bt_dtype dtype; /* BT_DTYPE_COUNT: berth has no such dtype */
} bti_tensor_dtype;
const bti_tensor_dtype *bti_tensor_dtype_of(bt_dtype dtype);

typedef struct bti_tensor {
    const char *name; /* points into the header */
    const bti_tensor_dtype *dtype;
    int rank;       /* may be above 8 */
    bt_shape shape; /* the first 8 sizes */
    uint64_t begin; /* in the file */
    uint64_t bytes;
} bti_tensor;

struct bt_tensors {
    bti_owned head;
    bti_file file;
    json_t *header;
    bti_tensor *tensors; /* in the order of the data */
    int *by_name;        /* indices of `tensors`, sorted by name */
    int count;
};

/* NULL when there is none of that name. */
const bti_tensor *bti_tensors_find(const bt_tensors *tensors, const char *name);
/* As bt_tensors_get, of a tensor that was found. */
bt_array *bti_tensors_read(const bt_tensors *tensors, const bti_tensor *tensor);

#endif

/* An open archive of named arrays, and the formats that it can have. */
#ifndef BTI_FILE_TENSORS_H
#define BTI_FILE_TENSORS_H

#include <berth/file.h>

#include "array/handle.h"
#include "file/io.h"
#include "file/names.h"
#include "file/zip.h"

/* What is known of a tensor before its elements are read. */
typedef struct bti_tensor {
    const char *dtype_name; /* as the file has it */
    bt_dtype dtype;         /* BT_DTYPE_COUNT: berth has no such dtype */
    int rank;               /* may be above 8 */
    bt_shape shape;         /* the first 8 sizes */
} bti_tensor;

/* A format: its functions. All but `clear` may be called by several threads at once. `index` is that of a name. */
typedef struct bti_archive_format {
    const char *name; /* "safetensors" */
    bt_status (*describe)(const bt_tensors *tensors, int index, bti_tensor *tensor);
    /* on the device that bt_from would choose; poisoned on errors */
    bt_array *(*read)(const bt_tensors *tensors, int index);
    const char *(*metadata)(const bt_tensors *tensors, const char *key); /* borrowed; NULL when absent */
    const char *(*metadata_name)(const bt_tensors *tensors, int index);  /* borrowed; NULL past the last */
    void (*clear)(void *content);
} bti_archive_format;

struct bt_tensors {
    bti_owned head;
    bti_file file;
    bti_zip zip; /* of formats that are zip archives */
    bti_names names;
    const bti_archive_format *format; /* NULL until the format is known */
    void *content;                    /* the format's own, freed by its `clear` */
};

/* For formats without metadata. */
const char *bti_no_metadata(const bt_tensors *tensors, const char *key);
const char *bti_no_metadata_name(const bt_tensors *tensors, int index);

/* Each sets names, format and content of an opened file; what it has set is cleared by bt_tensors_close, also after an error. */
bt_status bti_open_safetensors(bt_tensors *tensors);
bt_status bti_open_shards(bt_tensors *tensors);
bt_status bti_open_npz(bt_tensors *tensors); /* zip is read */
bt_status bti_open_pt(bt_tensors *tensors, int pickle_member);
bt_status bti_open_npy(bt_tensors *tensors); /* one array, "" */
bt_status bti_open_bson(bt_tensors *tensors);
/* What a BSON file says; NULL for other formats. Borrowed. */
const struct bti_julia *bti_bson_content(const bt_tensors *tensors);

/* Opens a file by one of these, or by a function that chooses one. */
bt_status bti_tensors_open_as(const char *path, bt_status (*open_file)(bt_tensors *), bt_tensors **tensors);

#endif

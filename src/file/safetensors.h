/* The header of a safetensors file (huggingface.co/docs/safetensors): 8 bytes with its length, little-endian; JSON of that
 * length; the data. Checked in full before any tensor is read. */
#ifndef BTI_FILE_SAFETENSORS_H
#define BTI_FILE_SAFETENSORS_H

#include <berth/dtype.h>
#include <jansson.h>

#include "file/io.h"

#define BTI_SAFETENSORS_MAX_HEADER 100000000u
#define BTI_SAFETENSORS_METADATA "__metadata__"

/* A dtype of the format, named in messages about other formats too. The table has the order of the official writer, which writes tensors with the last dtype first. */
typedef struct bti_tensor_dtype {
    const char *name;
    unsigned bits;
    bt_dtype dtype; /* BT_DTYPE_COUNT: berth has no such dtype */
} bti_tensor_dtype;
const bti_tensor_dtype *bti_tensor_dtype_of(bt_dtype dtype);

/* The object of a JSON text that stands at this offset of a file; *json is the caller's, also after an error. */
bt_status bti_parse_json(const bti_file *file, uint64_t offset, const char *text, size_t length, json_t **json);

/* The name of text `index` of an object, in the order of its members; NULL past the last, or for another value. */
const char *bti_json_text_name(json_t *object, int index);

/* --- writing -------------------------------------------------------------------------------------------------------- */

/* A file's header and arrays, in the order of the data. */
typedef struct bti_safetensors {
    struct bti_safetensors_entry *entries;
    int count;
    json_t *header;
} bti_safetensors;

/* Checks the arguments of bt_save. *file is to be freed, also after an error. The arrays and names must outlive it. */
bt_status bti_safetensors_prepare(bti_safetensors *file, const char *const *names, bt_array *const *arrays, int count,
                                  const char *const *metadata);
/* Writes all of the file, whose arrays are computed or about to be. */
bt_status bti_safetensors_write(const bti_safetensors *file, bti_writer *writer);
void bti_safetensors_free(bti_safetensors *file);

#endif

/* Writes safetensors: the bytes that the official writer gives for the same arrays. */
#include "file/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include <berth/file.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/quote.h"

typedef struct bti_safetensors_entry {
    const char *name;
    bt_array *array;
    const bti_tensor_dtype *dtype;
} entry;

/* Widest dtypes first, so that all data are aligned. */
static int by_dtype_and_name(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->dtype != y->dtype) return x->dtype > y->dtype ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bt_status bad_name(const char *name, const char *why) {
    return bti_fail(BT_INVALID_ARGUMENT, "the name \"%s\" %s", bti_quote(name).text, why);
}

static bt_status list_entries(entry *entries, const char *const *names, bt_array *const *arrays, int count) {
    for (int i = 0; i < count; i++) {
        if (!names[i]) return bti_fail(BT_INVALID_ARGUMENT, "name %d of %d is NULL", i + 1, count);
        if (!strcmp(names[i], BTI_SAFETENSORS_METADATA)) return bad_name(names[i], "belongs to the format");
        if (!arrays[i]) return bti_fail(BT_INVALID_ARGUMENT, "the array of \"%s\" is NULL", bti_quote(names[i]).text);
        BTI_TRY(bt_peek_status(arrays[i]) == BT_OK ? BT_OK : bt_block(arrays[i]));
        if (bt_dtype_of(arrays[i]) == BT_C128)
            return bti_fail(
                BT_UNIMPLEMENTED,
                "the array of \"%s\" is complex128, which safetensors has not; save bt_real and bt_imag of it",
                bti_quote(names[i]).text);
        entries[i] = (entry){names[i], arrays[i], bti_tensor_dtype_of(bt_dtype_of(arrays[i]))};
    }
    qsort(entries, (size_t)count, sizeof *entries, by_dtype_and_name);
    return BT_OK;
}

static bool add_metadata(json_t *header, const char *const *metadata) {
    if (!metadata || !metadata[0]) return true;
    json_t *pairs = json_object();
    if (!pairs || json_object_set_new(header, BTI_SAFETENSORS_METADATA, pairs)) return false;
    for (; metadata[0]; metadata += 2)
        if (!metadata[1] || json_object_set_new(pairs, metadata[0], json_string(metadata[1]))) return false;
    return true;
}

static json_t *shape_json(bt_array *array) {
    bt_shape shape = bt_shape_of(array);
    json_t *sizes = json_array();
    for (int i = 0; i < shape.rank; i++)
        if (json_array_append_new(sizes, json_integer(shape.size[i]))) return json_decref(sizes), NULL;
    return sizes;
}

static bt_status describe_tensors(const entry *entries, int count, json_t *header) {
    json_int_t at = 0;
    for (int i = 0; i < count; i++) {
        json_int_t bytes = (json_int_t)bt_count(entries[i].array) * (json_int_t)(entries[i].dtype->bits / 8);
        if (json_object_get(header, entries[i].name)) return bad_name(entries[i].name, "is given twice");
        json_t *described = json_pack("{s:s, s:o, s:[I,I]}", "dtype", entries[i].dtype->name, "shape",
                                      shape_json(entries[i].array), "data_offsets", at, at + bytes);
        if (!described) return bti_no_memory();
        if (json_object_set_new(header, entries[i].name, described)) return bad_name(entries[i].name, "is not UTF-8");
        at += bytes;
    }
    return BT_OK;
}

/* The length and the header, which spaces bring to a multiple of 8 bytes. */
static bt_status write_safetensors_header(bti_writer *writer, const json_t *header) {
    char *text = json_dumps(header, JSON_COMPACT);
    if (!text) return bti_no_memory();
    size_t length = strlen(text), padding = -length & 7;
    bt_status status = BT_OK;
    if (length + padding > BTI_SAFETENSORS_MAX_HEADER)
        status = bti_fail(BT_OUT_OF_RANGE, "names and shapes take %zu bytes; a safetensors header has at most %u",
                          length, BTI_SAFETENSORS_MAX_HEADER);
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)(length + padding) >> 8 * i);
    if (status == BT_OK) status = bti_writer_add(writer, bytes, sizeof bytes);
    if (status == BT_OK) status = bti_writer_add(writer, text, length);
    if (status == BT_OK) status = bti_writer_add(writer, "        ", padding);
    free(text);
    return status;
}

bt_status bti_safetensors_prepare(bti_safetensors *file, const char *const *names, bt_array *const *arrays, int count,
                                  const char *const *metadata) {
    *file = (bti_safetensors){0};
    if (count < 0 || (count && (!names || !arrays)))
        return bti_fail(BT_INVALID_ARGUMENT, "%d arrays, names %s, arrays %s", count, names ? "given" : "NULL",
                        arrays ? "given" : "NULL");
    *file = (bti_safetensors){bti_calloc((size_t)count + 1, sizeof *file->entries), count, json_object()};
    if (!file->entries || !file->header) return bti_no_memory();
    BTI_TRY(list_entries(file->entries, names, arrays, count));
    if (!add_metadata(file->header, metadata))
        return bti_fail(BT_INVALID_ARGUMENT, "metadata are pairs of UTF-8 texts, NULL after the last pair");
    return describe_tensors(file->entries, count, file->header);
}

bt_status bti_safetensors_write(const bti_safetensors *file, bti_writer *writer) {
    BTI_TRY(write_safetensors_header(writer, file->header));
    for (int i = 0; i < file->count; i++) BTI_TRY(bti_writer_add_array(writer, file->entries[i].array));
    return BT_OK;
}

void bti_safetensors_free(bti_safetensors *file) {
    json_decref(file->header);
    bti_free(file->entries);
    *file = (bti_safetensors){0};
}

bt_status bt_save(const char *path, const char *const *names, bt_array *const *arrays, int count,
                  const char *const *metadata) {
    BTI_PUBLIC("bt_save");
    bti_safetensors file;
    bti_writer writer = {.fd = -1};
    bt_status status = bti_safetensors_prepare(&file, names, arrays, count, metadata);
    if (status == BT_OK) status = bt_eval_all(arrays, count);
    if (status == BT_OK) status = bti_writer_open(&writer, path);
    if (status == BT_OK) status = bti_safetensors_write(&file, &writer);
    if (status == BT_OK) status = bti_writer_commit(&writer);
    bti_writer_discard(&writer);
    bti_safetensors_free(&file);
    return status;
}

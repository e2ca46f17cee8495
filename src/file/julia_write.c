#include "file/julia_write.h"

#include <stdio.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/quote.h"

bt_status bti_put_refuse(bti_julia_writer *w, const char *what) {
    if (w->status != BT_OK) return w->status;
    const char *path = bti_str_text(&w->path);
    w->status = bti_fail(BT_UNIMPLEMENTED, "%s%s %s", w->path.length ? "layer " : "the model",
                         w->path.length ? bti_quote(path).text : "", what);
    return w->status;
}

/* --- elements --------------------------------------------------------------------------------------------------------------- */

static bool counts(bti_julia_writer *w, const char *key, size_t bytes) {
    if (!w->at) w->bytes += 1 + strlen(key) + 1 + bytes;
    return !w->at || w->failed;
}
void bti_put_text(bti_julia_writer *w, const char *key, const char *text) {
    if (!counts(w, key, 4 + strlen(text) + 1)) w->failed = !bson_append_utf8(w->at, key, -1, text, -1);
}
void bti_put_integer(bti_julia_writer *w, const char *key, int64_t integer) {
    if (!counts(w, key, 8)) w->failed = !bson_append_int64(w->at, key, -1, integer);
}
void bti_put_real(bti_julia_writer *w, const char *key, double real) {
    if (!counts(w, key, 8)) w->failed = !bson_append_double(w->at, key, -1, real);
}
void bti_put_bool(bti_julia_writer *w, const char *key, bool value) {
    if (!counts(w, key, 1)) w->failed = !bson_append_bool(w->at, key, -1, value);
}
void bti_put_nothing(bti_julia_writer *w, const char *key) {
    if (!counts(w, key, 0)) w->failed = !bson_append_null(w->at, key, -1);
}
static void put_bytes(bti_julia_writer *w, const char *key, const void *bytes, size_t count) {
    if (!counts(w, key, 5 + count))
        w->failed = !bson_append_binary(w->at, key, -1, BSON_SUBTYPE_BINARY, bytes, (uint32_t)count);
}

void bti_put_begin(bti_julia_writer *w, bti_put_level *l, const char *key, bool array) {
    l->above = w->at;
    l->items = 0;
    if (counts(w, key, 5)) return;
    w->failed = array ? !bson_append_array_begin(w->at, key, -1, &l->own)
                      : !bson_append_document_begin(w->at, key, -1, &l->own);
    if (!w->failed) w->at = &l->own;
}
void bti_put_end(bti_julia_writer *w, bti_put_level *l) {
    if (w->failed || !w->at) return;
    w->failed = !bson_append_document_end(l->above, &l->own);
    w->at = l->above;
}
bti_put_item bti_put_key(bti_put_level *l) {
    bti_put_item key;
    snprintf(key.text, sizeof key.text, "%d", l->items++);
    return key;
}

/* --- types ------------------------------------------------------------------------------------------------------------------ */

void bti_put_begin_type(bti_julia_writer *w, bti_put_level *type, bti_put_level *parameters, const char *key,
                        const char *module, const char *name) {
    bti_put_level path;
    bti_put_begin(w, type, key, false);
    bti_put_text(w, "tag", "datatype");
    bti_put_begin(w, &path, "name", true);
    bti_put_text(w, "0", module);
    bti_put_text(w, "1", name);
    bti_put_end(w, &path);
    bti_put_begin(w, parameters, "params", true);
}
void bti_put_end_type(bti_julia_writer *w, bti_put_level *type, bti_put_level *parameters) {
    bti_put_end(w, parameters);
    bti_put_end(w, type);
}
void bti_put_type(bti_julia_writer *w, const char *key, const char *module, const char *name) {
    bti_put_level type, parameters;
    bti_put_begin_type(w, &type, &parameters, key, module, name);
    bti_put_end_type(w, &type, &parameters);
}
void bti_put_array_type(bti_julia_writer *w, const char *key, bt_dtype dtype, int rank) {
    bti_put_level type, parameters;
    bti_put_begin_type(w, &type, &parameters, key, "Core", "Array");
    bti_put_type(w, "0", "Core", bti_julia_dtype_name(dtype));
    bti_put_integer(w, "1", rank);
    bti_put_end_type(w, &type, &parameters);
}

/* --- values --- */

void bti_put_singleton(bti_julia_writer *w, const char *key, const char *module, const char *name) {
    bti_put_level struct_, data;
    bti_put_begin(w, &struct_, key, false);
    bti_put_text(w, "tag", "struct");
    bti_put_type(w, "type", module, name);
    bti_put_begin(w, &data, "data", true);
    bti_put_end(w, &data);
    bti_put_end(w, &struct_);
}
void bti_put_float32(bti_julia_writer *w, const char *key, double real) {
    bti_put_level struct_;
    float value = (float)real;
    bti_put_begin(w, &struct_, key, false);
    bti_put_text(w, "tag", "struct");
    bti_put_type(w, "type", "Core", "Float32");
    put_bytes(w, "data", &value, sizeof value);
    bti_put_end(w, &struct_);
}

void bti_put_tuple(bti_julia_writer *w, const char *key, bt_shape sizes, int repeats, int64_t unless) {
    bti_put_level tuple, data;
    bti_put_begin(w, &tuple, key, false);
    bti_put_text(w, "tag", "tuple");
    bti_put_begin(w, &data, "data", true);
    for (int d = sizes.rank - 1; d >= 0; d--)
        for (int i = 0; i < repeats; i++)
            bti_put_integer(w, bti_put_key(&data).text, sizes.size[d] ? sizes.size[d] : unless);
    bti_put_end(w, &data);
    bti_put_end(w, &tuple);
}

/* Reverses the order of the elements of each kernel, all but the first two axes of [out, in, K...]. */
static void flip(char *bytes, bt_shape shape, size_t element) {
    size_t kernel = element, total = element;
    for (int d = 0; d < shape.rank; d++) total *= (size_t)shape.size[d];
    for (int d = 2; d < shape.rank; d++) kernel *= (size_t)shape.size[d];
    for (size_t at = 0; kernel && at + kernel <= total; at += kernel)
        for (size_t low = 0, high = kernel - element; low < high; low += element, high -= element) {
            char swapped[8];
            memcpy(swapped, bytes + at + low, element);
            memcpy(bytes + at + low, bytes + at + high, element);
            memcpy(bytes + at + high, swapped, element);
        }
}

static void put_elements(bti_julia_writer *w, bt_array *value, size_t bytes) {
    char *data = bti_alloc(bytes);
    if (!data) w->status = bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory: %zu bytes to write an array", bytes);
    if (w->status == BT_OK) w->status = bt_read(value, data, bytes);
    if (w->status == BT_OK && bt_rank(value) > 2) flip(data, bt_shape_of(value), bt_dtype_size(bt_dtype_of(value)));
    if (w->status == BT_OK) put_bytes(w, "data", data, bytes);
    bti_free(data);
}

void bti_put_array(bti_julia_writer *w, const char *key, bt_array *value) {
    bti_put_level array, sizes;
    if (w->status == BT_OK) w->status = bti_fail_with(bti_array_error(value));
    if (w->status != BT_OK) return;
    bt_shape shape = bt_shape_of(value);
    const char *dtype = bti_julia_dtype_name(bt_dtype_of(value));
    char what[100];
    snprintf(what, sizeof what, "has values of %s, which Julia has not", bt_dtype_name(bt_dtype_of(value)));
    if (!dtype) (void)!bti_put_refuse(w, what);
    if (w->status != BT_OK) return;
    bti_put_begin(w, &array, key, false);
    bti_put_text(w, "tag", "array");
    bti_put_type(w, "type", "Core", dtype);
    bti_put_begin(w, &sizes, "size", true);
    for (int d = shape.rank - 1; d >= 0; d--) bti_put_integer(w, bti_put_key(&sizes).text, shape.size[d]);
    bti_put_end(w, &sizes);
    size_t bytes = (size_t)bt_count(value) * bt_dtype_size(bt_dtype_of(value));
    if (w->at)
        put_elements(w, value, bytes);
    else
        (void)counts(w, "data", 5 + bytes);
    bti_put_end(w, &array);
}

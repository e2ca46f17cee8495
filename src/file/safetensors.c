#include "file/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/quote.h"
#include "file/tensors.h"

static const bti_tensor_dtype dtypes[] = {
    {"BOOL", 8, BT_BOOL},
    {"F4", 4, BT_DTYPE_COUNT},
    {"F6_E2M3", 6, BT_DTYPE_COUNT},
    {"F6_E3M2", 6, BT_DTYPE_COUNT},
    {"U8", 8, BT_U8},
    {"I8", 8, BT_I8},
    {"F8_E5M2", 8, BT_F8E5M2},
    {"F8_E4M3", 8, BT_F8E4M3},
    {"F8_E8M0", 8, BT_DTYPE_COUNT},
    {"I16", 16, BT_I16},
    {"U16", 16, BT_U16},
    {"F16", 16, BT_F16},
    {"BF16", 16, BT_BF16},
    {"I32", 32, BT_I32},
    {"U32", 32, BT_U32},
    {"F32", 32, BT_F32},
    {"C64", 64, BT_C64},
    {"F64", 64, BT_F64},
    {"I64", 64, BT_I64},
    {"U64", 64, BT_U64},
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static const bti_tensor_dtype *tensor_dtype_named(const char *name) {
    for (int i = 0; i < DTYPES; i++)
        if (!strcmp(dtypes[i].name, name)) return &dtypes[i];
    return NULL;
}
const bti_tensor_dtype *bti_tensor_dtype_of(bt_dtype dtype) {
    static const bti_tensor_dtype beside = {"C128", 128, BT_C128}; /* other archives have it, safetensors does not */
    if (dtype == BT_C128) return &beside;
    for (int i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == dtype && dtype != BT_DTYPE_COUNT) return &dtypes[i];
    return NULL;
}

typedef struct tensor {
    const char *name; /* points into the header */
    const bti_tensor_dtype *dtype;
    int rank;       /* may be above 8 */
    bt_shape shape; /* the first 8 sizes */
    uint64_t begin; /* in the file */
    uint64_t bytes;
} tensor;

typedef struct content {
    json_t *header;
    tensor *tensors; /* in the order of the data */
    int count;
} content;

/* --- checking ------------------------------------------------------------------------------------------------------- */

typedef struct header {
    const bti_file *file;
    const char *text; /* at byte 8 of the file */
    size_t length;
} header;

/* The position of the entry `name` in the file, for messages. */
static uint64_t find_entry_place(const header *h, const char *name) {
    size_t length = strlen(name);
    const char *from = h->text, *end = h->text + h->length, *found;
    for (; length && (found = memmem(from, (size_t)(end - from), name, length)); from = found + 1) {
        const char *after = found + length;
        if (found == h->text || found[-1] != '"' || after == end || *after++ != '"') continue;
        while (after < end && *after == ' ') after++;
        if (after < end && *after == ':') return 8 + (uint64_t)(found - 1 - h->text);
    }
    return 8;
}

static bt_status bad_entry(const header *h, const char *name, const char *reason) {
    return bti_file_damaged(h->file, find_entry_place(h, name), "tensor \"%s\": %s", bti_quote(name).text, reason);
}

static bool read_offset(const json_t *number, uint64_t *value) {
    if (!json_is_integer(number) || json_integer_value(number) < 0) return false;
    *value = (uint64_t)json_integer_value(number);
    return true;
}

static bt_status check_shape(const header *h, const json_t *sizes, tensor *t, uint64_t *bits) {
    if (!json_is_array(sizes)) return bad_entry(h, t->name, "its shape is no list");
    size_t rank = json_array_size(sizes);
    if (rank > 1000) return bad_entry(h, t->name, "its shape has more than 1000 sizes");
    t->rank = t->shape.rank = (int)rank;
    *bits = t->dtype->bits;
    for (size_t i = 0; i < rank; i++) {
        uint64_t size;
        if (!read_offset(json_array_get(sizes, i), &size))
            return bad_entry(h, t->name, "a size of its shape is no whole number >= 0");
        if (i < BT_MAX_RANK) t->shape.size[i] = (int64_t)size;
        if (__builtin_mul_overflow(*bits, size, bits)) return bad_entry(h, t->name, "its shape overflows");
    }
    return BT_OK;
}

static bt_status check_entry(const header *h, const char *name, const json_t *entry, tensor *t) {
    t->name = name;
    if (!json_is_object(entry)) return bad_entry(h, name, "its entry is no object");
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!dtype) return bad_entry(h, name, "it has no dtype");
    t->dtype = tensor_dtype_named(dtype);
    if (!t->dtype)
        return bti_file_damaged(h->file, find_entry_place(h, name), "tensor \"%s\": unknown dtype \"%s\"",
                                bti_quote(name).text, bti_quote(dtype).text);
    uint64_t bits = 0, begin, end, data_bytes = h->file->size - 8 - h->length;
    BTI_TRY(check_shape(h, json_object_get(entry, "shape"), t, &bits));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 || !read_offset(json_array_get(offsets, 0), &begin) ||
        !read_offset(json_array_get(offsets, 1), &end))
        return bad_entry(h, name, "its data_offsets are no pair of whole numbers >= 0");
    if (begin > end || end > data_bytes)
        return bti_file_damaged(h->file, find_entry_place(h, name),
                                "tensor \"%s\": its data_offsets [%llu, %llu] are not within the %llu bytes of data",
                                bti_quote(name).text, (unsigned long long)begin, (unsigned long long)end,
                                (unsigned long long)data_bytes);
    if (bits % 8 || bits / 8 != end - begin)
        return bti_file_damaged(h->file, find_entry_place(h, name),
                                "tensor \"%s\": its dtype and shape take %llu bytes, its data_offsets hold %llu",
                                bti_quote(name).text, (unsigned long long)(bits / 8),
                                (unsigned long long)(end - begin));
    t->begin = 8 + h->length + begin;
    t->bytes = end - begin;
    return BT_OK;
}

static bt_status check_metadata(const header *h, json_t *metadata) {
    if (!json_is_object(metadata))
        return bti_file_damaged(h->file, find_entry_place(h, BTI_SAFETENSORS_METADATA), "__metadata__ is no object");
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value))
            return bti_file_damaged(h->file, find_entry_place(h, key), "metadata \"%s\" is no text",
                                    bti_quote(key).text);
    }
    return BT_OK;
}

static int compare_places(const void *a, const void *b) {
    const tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Checks that the tensors lie one after the other, without gap or overlap, up to the end of the file. */
static bt_status check_data(const header *h, const tensor *tensors, int count) {
    uint64_t at = 8 + h->length;
    for (int i = 0; i < count; at += tensors[i++].bytes) {
        if (tensors[i].begin == at) continue;
        return bti_file_damaged(h->file, tensors[i].begin, "the data of tensor \"%s\" begin here, %s at byte %llu",
                                bti_quote(tensors[i].name).text,
                                tensors[i].begin > at ? "after a gap that begins" : "within those before, which end",
                                (unsigned long long)at);
    }
    if (at != h->file->size)
        return bti_file_damaged(h->file, at, "%llu bytes after the last tensor's data",
                                (unsigned long long)(h->file->size - at));
    return BT_OK;
}

/* --- opening -------------------------------------------------------------------------------------------------------- */

static bt_status take_entries(content *c, const header *h) {
    c->tensors = bti_calloc(json_object_size(c->header) + 1, sizeof *c->tensors);
    if (!c->tensors) return bti_no_memory();
    const char *name;
    json_t *entry;
    json_object_foreach(c->header, name, entry) {
        if (!strcmp(name, BTI_SAFETENSORS_METADATA))
            BTI_TRY(check_metadata(h, entry));
        else
            BTI_TRY(check_entry(h, name, entry, &c->tensors[c->count++]));
    }
    qsort(c->tensors, (size_t)c->count, sizeof *c->tensors, compare_places);
    return check_data(h, c->tensors, c->count);
}

bt_status bti_parse_json(const bti_file *file, uint64_t offset, const char *text, size_t length, json_t **json) {
    json_error_t error;
    if (text[0] != '{') return bti_file_damaged(file, offset, "the header does not begin with {");
    *json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!*json && (!*error.text || json_error_code(&error) == json_error_out_of_memory))
        return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory: %s has %zu bytes of JSON", file->path, length);
    if (!*json)
        return bti_file_damaged(file, offset + (error.position > 0 ? (uint64_t)error.position : 0),
                                "the header is no JSON: %s", bti_quote(error.text).text);
    return json_is_object(*json) ? BT_OK : bti_file_damaged(file, offset, "the header is no object");
}

const char *bti_json_text_name(json_t *object, int index) {
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at))
        if (json_is_string(json_object_iter_value(at)) && !index--) return json_object_iter_key(at);
    return NULL;
}

static bt_status parse_header(content *c, const header *h) {
    BTI_TRY(bti_parse_json(h->file, 8, h->text, h->length, &c->header));
    return take_entries(c, h);
}

static bt_status read_safetensors_header(const bti_file *file, content *c) {
    uint64_t size = file->size, length = 0;
    unsigned char bytes[8];
    if (size < 8)
        return bti_file_damaged(file, size, "too short for a safetensors file, which begins with 8 bytes of length");
    BTI_TRY(bti_file_read(file, 0, bytes, sizeof bytes));
    for (int i = 7; i >= 0; i--) length = length << 8 | bytes[i];
    if (length > BTI_SAFETENSORS_MAX_HEADER)
        return bti_file_damaged(file, 0, "a header of %llu bytes; at most %u are allowed", (unsigned long long)length,
                                BTI_SAFETENSORS_MAX_HEADER);
    if (length > size - 8)
        return bti_file_damaged(file, 0, "a header of %llu bytes in a file of %llu", (unsigned long long)length,
                                (unsigned long long)size);
    if (length < 2)
        return bti_file_damaged(file, 0, "a header of %llu bytes; the least is {}", (unsigned long long)length);
    char *text = bti_alloc((size_t)length);
    if (!text) return bti_no_memory();
    bt_status status = bti_file_read(file, 8, text, (size_t)length);
    if (status == BT_OK) status = parse_header(c, &(header){file, text, (size_t)length});
    bti_free(text);
    return status;
}

/* --- the format ------------------------------------------------------------------------------------------------------ */

static const tensor *tensor_at(const bt_tensors *t, int index) {
    return &((const content *)t->content)->tensors[index];
}

static bt_status describe_tensor(const bt_tensors *t, int index, bti_tensor *described) {
    const tensor *of = tensor_at(t, index);
    *described = (bti_tensor){of->dtype->name, of->dtype->dtype, of->rank, of->shape};
    return BT_OK;
}

static bt_array *read_tensor(const bt_tensors *t, int index) {
    const tensor *of = tensor_at(t, index);
    bt_dtype dtype = of->dtype->dtype;
    if (dtype == BT_DTYPE_COUNT)
        return bti_poisonf(BT_UNIMPLEMENTED, "%s: tensor \"%s\" has dtype %s, which berth has not", t->file.path,
                           bti_quote(of->name).text, of->dtype->name);
    if (of->rank > BT_MAX_RANK)
        return bti_poisonf(BT_UNIMPLEMENTED, "%s: tensor \"%s\" has %d dimensions; berth has up to %d", t->file.path,
                           bti_quote(of->name).text, of->rank, BT_MAX_RANK);
    void *data = bti_alloc((size_t)of->bytes);
    if (!data)
        return bti_poisonf(BT_RESOURCE_EXHAUSTED, "out of host memory: %llu bytes of tensor \"%s\"",
                           (unsigned long long)of->bytes, bti_quote(of->name).text);
    bt_status status = bti_file_read(&t->file, of->begin, data, (size_t)of->bytes);
    if (status == BT_OK && dtype == BT_BOOL)
        status = bti_file_check_bools(&t->file, of->begin, data, (size_t)of->bytes);
    bt_array *array = status == BT_OK ? bt_from(data, dtype, of->shape) : bti_file_poison();
    bti_free(data);
    return array;
}

static const char *find_metadata(const bt_tensors *t, const char *key) {
    const content *c = t->content;
    return json_string_value(json_object_get(json_object_get(c->header, BTI_SAFETENSORS_METADATA), key));
}

static const char *header_metadata_name(const bt_tensors *t, int index) {
    return bti_json_text_name(json_object_get(((const content *)t->content)->header, BTI_SAFETENSORS_METADATA), index);
}

static void clear_content(void *object) {
    content *c = object;
    json_decref(c->header);
    bti_free(c->tensors);
    bti_free(c);
}

static const bti_archive_format safetensors = {"safetensors", describe_tensor,      read_tensor,
                                               find_metadata, header_metadata_name, clear_content};

bt_status bti_open_safetensors(bt_tensors *t) {
    content *c = t->content = bti_calloc(1, sizeof *c);
    if (!c) return bti_no_memory();
    t->format = &safetensors;
    BTI_TRY(read_safetensors_header(&t->file, c));
    if (!bti_names_make(&t->names, c->count)) return bti_no_memory();
    for (int i = 0; i < c->count; i++) t->names.names[i] = c->tensors[i].name;
    (void)bti_names_sort(&t->names); /* JSON_REJECT_DUPLICATES */
    return BT_OK;
}

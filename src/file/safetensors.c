#include "file/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/quote.h"

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
    {"C64", 64, BT_DTYPE_COUNT},
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
    for (int i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == dtype && dtype != BT_DTYPE_COUNT) return &dtypes[i];
    return NULL;
}

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

static bt_status check_shape(const header *h, const json_t *sizes, bti_tensor *tensor, uint64_t *bits) {
    if (!json_is_array(sizes)) return bad_entry(h, tensor->name, "its shape is no list");
    size_t rank = json_array_size(sizes);
    if (rank > 1000) return bad_entry(h, tensor->name, "its shape has more than 1000 sizes");
    tensor->rank = tensor->shape.rank = (int)rank;
    *bits = tensor->dtype->bits;
    for (size_t i = 0; i < rank; i++) {
        uint64_t size;
        if (!read_offset(json_array_get(sizes, i), &size))
            return bad_entry(h, tensor->name, "a size of its shape is no whole number >= 0");
        if (i < BT_MAX_RANK) tensor->shape.size[i] = (int64_t)size;
        if (__builtin_mul_overflow(*bits, size, bits)) return bad_entry(h, tensor->name, "its shape overflows");
    }
    return BT_OK;
}

static bt_status check_entry(const header *h, const char *name, const json_t *entry, bti_tensor *tensor) {
    tensor->name = name;
    if (!json_is_object(entry)) return bad_entry(h, name, "its entry is no object");
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!dtype) return bad_entry(h, name, "it has no dtype");
    tensor->dtype = tensor_dtype_named(dtype);
    if (!tensor->dtype)
        return bti_file_damaged(h->file, find_entry_place(h, name), "tensor \"%s\": unknown dtype \"%s\"",
                                bti_quote(name).text, bti_quote(dtype).text);
    uint64_t bits = 0, begin, end, data_bytes = h->file->size - 8 - h->length;
    BTI_TRY(check_shape(h, json_object_get(entry, "shape"), tensor, &bits));
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
    tensor->begin = 8 + h->length + begin;
    tensor->bytes = end - begin;
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
    const bti_tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Checks that the tensors lie one after the other, without gap or overlap, up to the end of the file. */
static bt_status check_data(const header *h, const bti_tensor *tensors, int count) {
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

static int compare_names(const void *a, const void *b, void *tensors) {
    return strcmp(((bti_tensor *)tensors)[*(const int *)a].name, ((bti_tensor *)tensors)[*(const int *)b].name);
}

static bt_status take_entries(bt_tensors *t, const header *h) {
    size_t room = json_object_size(t->header) + 1;
    t->tensors = bti_calloc(room, sizeof *t->tensors);
    t->by_name = bti_calloc(room, sizeof *t->by_name);
    if (!t->tensors || !t->by_name) return bti_no_memory();
    const char *name;
    json_t *entry;
    json_object_foreach(t->header, name, entry) {
        if (!strcmp(name, BTI_SAFETENSORS_METADATA))
            BTI_TRY(check_metadata(h, entry));
        else
            BTI_TRY(check_entry(h, name, entry, &t->tensors[t->count++]));
    }
    qsort(t->tensors, (size_t)t->count, sizeof *t->tensors, compare_places);
    BTI_TRY(check_data(h, t->tensors, t->count));
    for (int i = 0; i < t->count; i++) t->by_name[i] = i;
    qsort_r(t->by_name, (size_t)t->count, sizeof *t->by_name, compare_names, t->tensors);
    return BT_OK;
}

static bt_status parse_header(bt_tensors *t, const header *h) {
    if (h->text[0] != '{') return bti_file_damaged(h->file, 8, "the header does not begin with {");
    json_error_t error;
    t->header = json_loadb(h->text, h->length, JSON_REJECT_DUPLICATES, &error);
    if (!t->header) {
        if (!*error.text || json_error_code(&error) == json_error_out_of_memory)
            return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory: %s has a header of %zu bytes", h->file->path,
                            h->length);
        uint64_t position = error.position > 0 ? (uint64_t)error.position : 0;
        return bti_file_damaged(h->file, 8 + position, "the header is no JSON: %s", bti_quote(error.text).text);
    }
    if (!json_is_object(t->header)) return bti_file_damaged(h->file, 8, "the header is no object");
    return take_entries(t, h);
}

static bt_status read_safetensors_header(bt_tensors *t) {
    uint64_t size = t->file.size, length = 0;
    unsigned char bytes[8];
    if (size < 8)
        return bti_file_damaged(&t->file, size,
                                "too short for a safetensors file, which begins with 8 bytes of length");
    BTI_TRY(bti_file_read(&t->file, 0, bytes, sizeof bytes));
    for (int i = 7; i >= 0; i--) length = length << 8 | bytes[i];
    if (length > BTI_SAFETENSORS_MAX_HEADER || length > size - 8)
        BTI_TRY(bti_file_check_format(&t->file,
                                      "safetensors; in Python, safetensors.torch.save_file(model.state_dict(), "
                                      "\"model.safetensors\") makes one"));
    if (length > BTI_SAFETENSORS_MAX_HEADER)
        return bti_file_damaged(&t->file, 0, "a header of %llu bytes; at most %u are allowed",
                                (unsigned long long)length, BTI_SAFETENSORS_MAX_HEADER);
    if (length > size - 8)
        return bti_file_damaged(&t->file, 0, "a header of %llu bytes in a file of %llu", (unsigned long long)length,
                                (unsigned long long)size);
    if (length < 2)
        return bti_file_damaged(&t->file, 0, "a header of %llu bytes; the least is {}", (unsigned long long)length);
    char *text = bti_alloc((size_t)length);
    if (!text) return bti_no_memory();
    bt_status status = bti_file_read(&t->file, 8, text, (size_t)length);
    if (status == BT_OK) status = parse_header(t, &(header){&t->file, text, (size_t)length});
    bti_free(text);
    return status;
}

static void clear_tensors(void *object) {
    bt_tensors *t = object;
    bti_file_close(&t->file);
    json_decref(t->header);
    bti_free(t->tensors);
    bti_free(t->by_name);
}

static const bti_handle_class tensors_class = {BTI_OWNED_TENSORS, sizeof(bt_tensors), clear_tensors, NULL};

bt_status bt_tensors_open(const char *path, bt_tensors **tensors) {
    BTI_PUBLIC("bt_tensors_open");
    if (!tensors) return bti_fail(BT_INVALID_ARGUMENT, "where to put the tensors is NULL");
    *tensors = NULL;
    bt_tensors *t = bti_owned_new(BTI_OWNED_TENSORS, sizeof *t);
    if (!t) return bti_no_memory();
    bt_status status = bti_file_open(path, &t->file);
    if (status == BT_OK) status = read_safetensors_header(t);
    if (status != BT_OK) {
        bt_tensors_close(t);
        return status;
    }
    *tensors = t;
    return BT_OK;
}

void bt_tensors_close(bt_tensors *t) { bti_handle_release(&tensors_class, t, "bt_tensors_close"); }

/* --- asking --------------------------------------------------------------------------------------------------------- */

/* NULL gives no cause. */
static bool tensors_are_open(const bt_tensors *t, const char *name) {
    return t && bti_handle_check(BTI_OWNED_TENSORS, t, name) == BT_OK;
}

int bt_tensors_count(const bt_tensors *t) { return tensors_are_open(t, "bt_tensors_count") ? t->count : 0; }

const char *bt_tensors_name(const bt_tensors *t, int index) {
    return tensors_are_open(t, "bt_tensors_name") && index >= 0 && index < t->count ? t->tensors[index].name : NULL;
}

const char *bt_tensors_metadata(const bt_tensors *t, const char *key) {
    if (!key || !tensors_are_open(t, "bt_tensors_metadata")) return NULL;
    return json_string_value(json_object_get(json_object_get(t->header, BTI_SAFETENSORS_METADATA), key));
}

const bti_tensor *bti_tensors_find(const bt_tensors *t, const char *name) {
    int low = 0, high = t->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        const bti_tensor *tensor = &t->tensors[t->by_name[middle]];
        int order = strcmp(name, tensor->name);
        if (order == 0) return tensor;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

bt_array *bti_tensors_read(const bt_tensors *t, const bti_tensor *tensor) {
    bt_dtype dtype = tensor->dtype->dtype;
    if (dtype == BT_DTYPE_COUNT)
        return bti_poisonf(BT_UNIMPLEMENTED, "%s: tensor \"%s\" has dtype %s, which berth has not", t->file.path,
                           bti_quote(tensor->name).text, tensor->dtype->name);
    if (tensor->rank > BT_MAX_RANK)
        return bti_poisonf(BT_UNIMPLEMENTED, "%s: tensor \"%s\" has %d dimensions; berth has up to %d", t->file.path,
                           bti_quote(tensor->name).text, tensor->rank, BT_MAX_RANK);
    void *data = bti_alloc((size_t)tensor->bytes); /* no more than the file holds */
    if (!data)
        return bti_poisonf(BT_RESOURCE_EXHAUSTED, "out of host memory: %llu bytes of tensor \"%s\"",
                           (unsigned long long)tensor->bytes, bti_quote(tensor->name).text);
    bt_status status = bti_file_read(&t->file, tensor->begin, data, (size_t)tensor->bytes);
    if (status == BT_OK && dtype == BT_BOOL)
        status = bti_file_check_bools(&t->file, tensor->begin, data, (size_t)tensor->bytes);
    bt_array *array = status == BT_OK ? bt_from(data, dtype, tensor->shape) : bti_file_poison();
    bti_free(data);
    return array;
}

bt_array *bt_tensors_get(bt_tensors *t, const char *name) {
    BTI_PUBLIC("bt_tensors_get");
    bti_error *error = bti_handle_error(BTI_OWNED_TENSORS, t, "bt_tensors_get");
    if (error) BTI_RETURN(bti_poison(bti_error_retain(error)));
    if (!name) BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "the name is NULL"));
    const bti_tensor *tensor = bti_tensors_find(t, name);
    if (!tensor)
        BTI_RETURN(bti_poisonf(BT_NOT_FOUND, "%s holds no tensor \"%s\"; it holds %d others", t->file.path,
                               bti_quote(name).text, t->count));
    BTI_RETURN(bti_tensors_read(t, tensor));
}

#include "task/value.h"

#include <stdio.h>
#include <string.h>

#include "base/cores.h"
#include "task/engine.h"

static uint64_t aligned(uint64_t at) { return (at + 63) / 64 * 64; }

/* Where the bytes of a value whose head stands at `at` begin. */
static uint64_t data_at(uint64_t at, bt_value_type type, int rank) {
    at += sizeof(bti_packed_value);
    return type == BT_ARRAY_VALUE ? aligned(at + (uint64_t)rank * 8) : at;
}

/* A list longer than this has a table of where its values stand, so that finding one does not pass all before it. */
enum { SHORT_LIST = 16 };

static uint64_t first_at(int64_t count) { return 8 + (count > SHORT_LIST ? (uint64_t)count * 8 : 0); }

static uint64_t bytes_of(const bt_item_value *value) {
    switch (value->type) {
    case BT_TEXT_VALUE: return strlen(value->as.text) + 1;
    case BT_BYTES: return value->as.bytes.size;
    case BT_ARRAY_VALUE: return (uint64_t)bt_count(value->as.array) * bt_dtype_size(bt_dtype_of(value->as.array));
    default: return 0;
    }
}

static int rank_of(const bt_item_value *value) { return value->type == BT_ARRAY_VALUE ? bt_rank(value->as.array) : 0; }

static uint64_t end_of(uint64_t at, const bt_item_value *value) {
    return (data_at(at, value->type, rank_of(value)) + bytes_of(value) + 7) / 8 * 8;
}

uint64_t bti_pack_bytes(const bt_item_value *values, int count) {
    uint64_t at = first_at(count);
    for (int i = 0; i < count; i++) at = end_of(at, &values[i]);
    return at;
}

static bt_status put(const bt_item_value *value, char *packed, uint64_t at) {
    bti_packed_value head = {.type = (uint8_t)value->type, .rank = (uint8_t)rank_of(value)};
    char *data = packed + data_at(at, value->type, head.rank);
    uint64_t bytes = head.as.bytes = bytes_of(value);
    bt_status status = BT_OK;
    switch (value->type) {
    case BT_INTEGER: head.as.integer = value->as.integer; break;
    case BT_REAL: head.as.real = value->as.real; break;
    case BT_REFERENCE: head.as.id = bti_ref_id(value->as.ref); break;
    case BT_ACTOR_VALUE: head.as.id = bti_actor_id(value->as.actor); break;
    case BT_TEXT_VALUE: memcpy(data, value->as.text, bytes); break;
    case BT_BYTES:
        if (bytes) bti_copy_bytes(data, value->as.bytes.data, bytes);
        break;
    case BT_ARRAY_VALUE: {
        bt_shape shape = bt_shape_of(value->as.array);
        head.dtype = (uint8_t)bt_dtype_of(value->as.array);
        memcpy(packed + at + sizeof head, shape.size, head.rank * sizeof *shape.size);
        status = bt_read(value->as.array, data, bytes);
        break;
    }
    default: break;
    }
    memcpy(packed + at, &head, sizeof head);
    return status;
}

bt_status bti_pack(const bt_item_value *values, int count, char *packed) {
    uint64_t at = first_at(count);
    memcpy(packed, &(int64_t){count}, 8);
    for (int i = 0; i < count; i++) {
        if (count > SHORT_LIST) memcpy(packed + 8 + (uint64_t)i * 8, &at, 8);
        BTI_TRY(put(&values[i], packed, at));
        at = end_of(at, &values[i]);
    }
    return BT_OK;
}

uint64_t bti_values_bytes(const bti_values *values) {
    return values->packed ? values->bytes : bti_pack_bytes(values->items, values->count);
}

bt_status bti_values_pack(const bti_values *values, char *packed) {
    if (!values->packed) return bti_pack(values->items, values->count, packed);
    bti_copy_bytes(packed, values->packed, values->bytes);
    return BT_OK;
}

int bti_packed_count(const char *packed) { return (int)*(const int64_t *)(const void *)packed; }

static bool has_bytes(uint8_t type) { return type == BT_TEXT_VALUE || type == BT_BYTES || type == BT_ARRAY_VALUE; }

bti_unpacked_value bti_unpack(const char *packed, int index) {
    bti_unpacked_value value = {.head.type = BT_NOTHING};
    int count = packed ? bti_packed_count(packed) : 0;
    if (index >= count) return value;
    uint64_t at = first_at(count);
    if (count > SHORT_LIST) memcpy(&at, packed + 8 + (uint64_t)index * 8, 8);
    for (int i = count > SHORT_LIST ? index : 0;; i++) {
        memcpy(&value.head, packed + at, sizeof value.head);
        value.size = (const int64_t *)(const void *)(packed + at + sizeof value.head);
        uint64_t data = data_at(at, (bt_value_type)value.head.type, value.head.rank);
        value.data = packed + data;
        if (i == index) return value;
        at = (data + (has_bytes(value.head.type) ? value.head.as.bytes : 0) + 7) / 8 * 8;
    }
}

/* The sizes are as many as its bytes. */
static bool is_array_of(const char *sizes, const bti_packed_value *head) {
    uint64_t bytes = bt_dtype_size((bt_dtype)head->dtype);
    bool empty = false;
    if (!bytes) return false;
    for (int i = 0; i < head->rank; i++) {
        int64_t size;
        memcpy(&size, sizes + 8 * i, 8);
        if (size < 0) return false;
        if (!size) empty = true;
        if (!empty && __builtin_mul_overflow(bytes, (uint64_t)size, &bytes)) return false;
    }
    return head->as.bytes == (empty ? 0 : bytes);
}

bool bti_packed_is_whole(const char *packed, uint64_t bytes) {
    int64_t count;
    if (bytes < 8) return false;
    memcpy(&count, packed, 8);
    if (count < 0 || (uint64_t)count > bytes / sizeof(bti_packed_value)) return false;
    uint64_t at = first_at(count), listed;
    for (int64_t i = 0; i < count; i++) {
        bti_packed_value head;
        if (at > bytes) return false;
        if (count > SHORT_LIST) memcpy(&listed, packed + 8 + i * 8, 8);
        if (count > SHORT_LIST && listed != at) return false;
        if (bytes - at < sizeof head) return false;
        memcpy(&head, packed + at, sizeof head);
        bool is_array = head.type == BT_ARRAY_VALUE;
        if (head.type > BT_ACTOR_VALUE || head.rank > (is_array ? BT_MAX_RANK : 0)) return false;
        uint64_t data = data_at(at, (bt_value_type)head.type, head.rank),
                 length = has_bytes(head.type) ? head.as.bytes : 0;
        if (data > bytes || length > bytes - data) return false;
        if (head.type == BT_TEXT_VALUE && (!length || packed[data + length - 1])) return false;
        if (is_array && !is_array_of(packed + at + sizeof head, &head)) return false;
        at = (data + length + 7) / 8 * 8;
        if (at > (bytes + 7) / 8 * 8) return false;
        if (at > bytes) at = bytes;
    }
    return true;
}

/* --- into variables -------------------------------------------------------------------------------------------------- */

static const char *type_name(int type) {
    static const char *const names[] = {"nothing", "an integer", "a real number", "a text",
                                        "bytes",   "an array",   "a reference",   "an actor"};
    return type >= 0 && type < (int)(sizeof names / sizeof *names) ? names[type] : "of no type";
}

typedef struct place_text {
    char text[160];
} place_text;

static place_text text_of(const bti_value_place *place) {
    place_text p = {"the result"};
    if (place->function) snprintf(p.text, sizeof p.text, "argument %d of %s", place->index + 1, place->function);
    return p;
}

static bt_status to_integer(int64_t value, bool is_signed, size_t bytes, void *out, const bti_value_place *place) {
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
        return bti_fail(BT_INVALID_ARGUMENT, "%s is an integer; a variable of %zu bytes is none", text_of(place).text,
                        bytes);
    int64_t least = bytes == 8 ? INT64_MIN : -((int64_t)1 << (8 * bytes - 1)), most = -(least + 1);
    if (!is_signed) least = 0, most = bytes == 8 ? INT64_MAX : most * 2 + 1;
    if (value < least || value > most)
        return bti_fail(BT_OUT_OF_RANGE, "%s is %lld, which does not fit into %zu bytes%s", text_of(place).text,
                        (long long)value, bytes, is_signed ? "" : " without sign");
    memcpy(out, &value, bytes); /* little-endian, as everywhere here */
    return BT_OK;
}

bt_status bti_value_to(const bti_unpacked_value *value, const bti_value_place *place, bt_value_type type, size_t bytes,
                       void *out) {
    const bti_packed_value *head = &value->head;
    if (!out && type != BT_NOTHING)
        return bti_fail(BT_INVALID_ARGUMENT, "the variable for %s is NULL", text_of(place).text);
    if (type == BT_REAL && (head->type == BT_REAL || head->type == BT_INTEGER)) {
        double real = head->type == BT_REAL ? head->as.real : (double)head->as.integer;
        if (bytes == sizeof(float))
            *(float *)out = (float)real;
        else
            *(double *)out = real;
        return BT_OK;
    }
    bool is_signed = type != BT_UNSIGNED;
    if (!is_signed) type = BT_INTEGER;
    if (type != head->type)
        return bti_fail(BT_INVALID_ARGUMENT, "%s is %s, not %s", text_of(place).text, type_name(head->type),
                        type_name((int)type));
    switch (type) {
    case BT_INTEGER: return to_integer(head->as.integer, is_signed, bytes, out, place);
    case BT_TEXT_VALUE: return *(const char **)out = value->data, BT_OK;
    case BT_BYTES: return *(bt_bytes *)out = (bt_bytes){value->data, head->as.bytes}, BT_OK;
    case BT_ARRAY_VALUE: {
        bt_shape shape = {.rank = head->rank};
        memcpy(shape.size, value->size, head->rank * sizeof *shape.size);
        *(bt_array **)out =
            bti_array_from(place->owner, place->is_argument, value->data, head->as.bytes, (bt_dtype)head->dtype, shape);
        return BT_OK;
    }
    case BT_ACTOR_VALUE: return (*(bt_actor **)out = bti_actor_from(head->as.id)) ? BT_OK : bt_error_status();
    default: return BT_OK;
    }
}

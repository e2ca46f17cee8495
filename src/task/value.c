#include "task/value.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cores.h"
#include "task/handles.h"

static uint64_t align_data(uint64_t at) { return (at + 63) / 64 * 64; }

/* What a packed value of a type is. The rows of types that are never packed are empty. */
typedef struct type_traits {
    bool is_value; /* may stand in any list; a stream is the only value of its list */
    bool has_bytes, refers;
} type_traits;
static type_traits traits_of(uint8_t type) {
    static const type_traits rows[UINT8_MAX + 1] = {
        [BT_NOTHING] = {.is_value = true},
        [BT_INTEGER] = {.is_value = true},
        [BT_REAL] = {.is_value = true},
        [BT_TEXT_VALUE] = {.is_value = true, .has_bytes = true},
        [BT_BYTES] = {.is_value = true, .has_bytes = true},
        [BT_ARRAY_VALUE] = {.is_value = true, .has_bytes = true},
        [BT_REFERENCE] = {.is_value = true, .refers = true},
        [BT_ACTOR_VALUE] = {.is_value = true, .refers = true},
        [BT_LIST_VALUE] = {.is_value = true, .has_bytes = true},
        [BT_STREAM_VALUE] = {.has_bytes = true, .refers = true},
    };
    return rows[type];
}

/* Where the bytes of a value whose head stands at `at` begin. Only a large list has arrays that are not copied when they are read. */
static uint64_t data_at(uint64_t at, const bti_packed_value *head) {
    enum { LARGE = 4096 };
    at += sizeof *head;
    if (head->type == BT_LIST_VALUE) return head->as.bytes >= LARGE ? align_data(at) : at;
    return head->type == BT_ARRAY_VALUE ? align_data(at + (uint64_t)head->rank * 8) : at;
}

static uint64_t end_at(uint64_t at, const bti_packed_value *head) {
    return (data_at(at, head) + (traits_of(head->type).has_bytes ? head->as.bytes : 0) + 7) / 8 * 8;
}

/* A list longer than this has a table of where its values stand, so that finding one does not pass all before it. */
enum { SHORT_LIST = 16 };

static uint64_t first_at(int64_t count) { return 8 + (count > SHORT_LIST ? (uint64_t)count * 8 : 0); }

/* --- packing ------------------------------------------------------------------------------------------------------------ */

static uint64_t list_bytes(const bt_list *list);

static bti_packed_value make_head(const bt_item_value *value) {
    bti_packed_value head = {.type = (uint8_t)value->type};
    switch (value->type) {
    case BT_INTEGER: head.as.integer = value->as.integer; break;
    case BT_REAL: head.as.real = value->as.real; break;
    case BT_TEXT_VALUE: head.as.bytes = strlen(value->as.text) + 1; break;
    case BT_BYTES: head.as.bytes = value->as.bytes.size; break;
    case BT_LIST_VALUE: head.as.bytes = list_bytes(&value->as.list); break;
    case BT_ARRAY_VALUE:
        head.dtype = (uint8_t)bt_dtype_of(value->as.array);
        head.rank = (uint8_t)bt_rank(value->as.array);
        head.as.bytes = (uint64_t)bt_count(value->as.array) * bt_dtype_size((bt_dtype)head.dtype);
        break;
    default: break;
    }
    return head;
}

static uint64_t packed_bytes(const char *packed) {
    int64_t count = bti_packed_count(packed);
    uint64_t at = first_at(count);
    if (count > SHORT_LIST) memcpy(&at, packed + 8 + (count - 1) * 8, 8);
    for (int64_t i = count > SHORT_LIST ? count - 1 : 0; i < count; i++) {
        bti_packed_value head;
        memcpy(&head, packed + at, sizeof head);
        at = end_at(at, &head);
    }
    return at;
}

static uint64_t list_bytes(const bt_list *list) {
    if (bti_list_is_read(list)) return packed_bytes(list->items);
    uint64_t at = first_at(list->count);
    for (int i = 0; i < list->count; i++) {
        bt_item_value value = bti_list_item(list, i);
        bti_packed_value head = make_head(&value);
        at = end_at(at, &head);
    }
    return at;
}

static bt_list list_of(const bt_item_value *values, int count) {
    return (bt_list){values, NULL, count, BTI_LIST_ITEMS};
}

uint64_t bti_pack_bytes(const bt_item_value *values, int count) {
    bt_list list = list_of(values, count);
    return list_bytes(&list);
}

static bt_status pack_list(const bt_list *list, uint64_t bytes, char *packed);

/* *at: where the next one stands. */
static bt_status pack_value(const bt_item_value *value, char *packed, uint64_t *at) {
    bti_packed_value head = make_head(value);
    char *data = packed + data_at(*at, &head), *sizes = packed + *at + sizeof head;
    bt_status status = BT_OK;
    switch (value->type) {
    case BT_REFERENCE: head.as.id = bti_ref_id(value->as.ref); break;
    case BT_ACTOR_VALUE: head.as.id = bti_actor_id(value->as.actor); break;
    case BT_TEXT_VALUE: memcpy(data, value->as.text, head.as.bytes); break;
    case BT_LIST_VALUE: status = pack_list(&value->as.list, head.as.bytes, data); break;
    case BT_BYTES:
        if (head.as.bytes) bti_copy_bytes(data, value->as.bytes.data, head.as.bytes);
        break;
    case BT_ARRAY_VALUE: {
        bt_shape shape = bt_shape_of(value->as.array);
        memcpy(sizes, shape.size, head.rank * sizeof *shape.size);
        status = bt_read(value->as.array, data, head.as.bytes);
        break;
    }
    default: break;
    }
    memcpy(packed + *at, &head, sizeof head);
    *at = end_at(*at, &head);
    return status;
}

static bt_status pack_list(const bt_list *list, uint64_t bytes, char *packed) {
    if (bti_list_is_read(list)) return bti_copy_bytes(packed, list->items, bytes), BT_OK;
    uint64_t at = first_at(list->count);
    memcpy(packed, &(int64_t){list->count}, 8);
    for (int i = 0; i < list->count; i++) {
        bt_item_value value = bti_list_item(list, i);
        if (list->count > SHORT_LIST) memcpy(packed + 8 + (uint64_t)i * 8, &at, 8);
        BTI_TRY(pack_value(&value, packed, &at));
    }
    return BT_OK;
}

bt_status bti_pack(const bt_item_value *values, int count, char *packed) {
    bt_list list = list_of(values, count);
    return pack_list(&list, 0, packed);
}

uint64_t bti_values_bytes(const bti_values *values) {
    return values->packed ? values->bytes : bti_pack_bytes(values->items, values->count);
}

bt_status bti_values_pack(const bti_values *values, char *packed) {
    if (!values->packed) return bti_pack(values->items, values->count, packed);
    bti_copy_bytes(packed, values->packed, values->bytes);
    return BT_OK;
}

void bti_pack_stream(bti_stream_link link, char packed[BTI_STREAM_BYTES]) {
    struct {
        int64_t count;
        bti_packed_value head;
        bti_stream_link link;
    } all = {1, {.type = BT_STREAM_VALUE, .as.bytes = sizeof link}, link};
    _Static_assert(sizeof all == BTI_STREAM_BYTES, "as bti_pack packs one value");
    memcpy(packed, &all, sizeof all);
}

/* --- unpacking ---------------------------------------------------------------------------------------------------------- */

int bti_packed_count(const char *packed) { return (int)*(const int64_t *)(const void *)packed; }

bti_unpacked_value bti_unpack(const char *packed, int index) {
    bti_unpacked_value value = {.head.type = BT_NOTHING};
    int count = packed ? bti_packed_count(packed) : 0;
    if (index >= count) return value;
    uint64_t at = first_at(count);
    if (count > SHORT_LIST) memcpy(&at, packed + 8 + (uint64_t)index * 8, 8);
    for (int i = count > SHORT_LIST ? index : 0;; i++) {
        memcpy(&value.head, packed + at, sizeof value.head);
        value.size = (const int64_t *)(const void *)(packed + at + sizeof value.head);
        value.data = packed + data_at(at, &value.head);
        if (i == index) return value;
        at = end_at(at, &value.head);
    }
}

static bool visit_references(const char *packed, bool in_list, bti_packed_visit *visit, void *data) {
    int count = bti_packed_count(packed);
    uint64_t at = first_at(count);
    for (int i = 0; i < count; i++) {
        bti_packed_value head;
        memcpy(&head, packed + at, sizeof head);
        if (head.type == BT_LIST_VALUE && !visit_references(packed + data_at(at, &head), true, visit, data))
            return false;
        if (traits_of(head.type).refers && !visit(data, &head, in_list)) return false;
        at = end_at(at, &head);
    }
    return true;
}

bool bti_packed_each(const char *packed, bti_packed_visit *visit, void *data) {
    return visit_references(packed, false, visit, data);
}

int bti_packed_depth(const char *packed) {
    int count = bti_packed_count(packed), depth = 0;
    uint64_t at = first_at(count);
    for (int i = 0; i < count; i++) {
        bti_packed_value head;
        memcpy(&head, packed + at, sizeof head);
        int inner = head.type == BT_LIST_VALUE ? 1 + bti_packed_depth(packed + data_at(at, &head)) : 0;
        if (inner > depth) depth = inner;
        at = end_at(at, &head);
    }
    return depth;
}

/* --- what others packed --------------------------------------------------------------------------------------------------- */

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

static bool is_whole(const char *packed, uint64_t bytes, int depth);

/* Its head stands at `at`, and lies within. */
static bool is_whole_value(const char *packed, uint64_t bytes, uint64_t at, const bti_packed_value *head, int depth) {
    bool is_stream = head->type == BT_STREAM_VALUE && !depth && head->as.bytes == sizeof(bti_stream_link);
    if (!traits_of(head->type).is_value && !is_stream) return false;
    if (head->rank > (head->type == BT_ARRAY_VALUE ? BT_MAX_RANK : 0)) return false;
    uint64_t data = data_at(at, head), length = traits_of(head->type).has_bytes ? head->as.bytes : 0;
    if (data > bytes || length > bytes - data) return false;
    if (head->type == BT_TEXT_VALUE) return length && !packed[data + length - 1];
    if (head->type == BT_ARRAY_VALUE) return is_array_of(packed + at + sizeof *head, head);
    return head->type != BT_LIST_VALUE || is_whole(packed + data, length, depth + 1);
}

static bool is_whole(const char *packed, uint64_t bytes, int depth) {
    int64_t count;
    if (bytes < 8 || depth > BTI_MOST_DEPTH) return false;
    memcpy(&count, packed, 8);
    if (count < 0 || count > INT_MAX || (uint64_t)count > bytes / sizeof(bti_packed_value)) return false;
    uint64_t at = first_at(count), listed;
    for (int64_t i = 0; i < count; i++) {
        bti_packed_value head;
        if (at > bytes) return false;
        if (count > SHORT_LIST) memcpy(&listed, packed + 8 + i * 8, 8);
        if (count > SHORT_LIST && listed != at) return false;
        if (bytes - at < sizeof head) return false;
        memcpy(&head, packed + at, sizeof head);
        if (!is_whole_value(packed, bytes, at, &head, depth)) return false;
        at = end_at(at, &head);
        if (at > (bytes + 7) / 8 * 8) return false;
        if (at > bytes) at = bytes;
    }
    return true;
}

bool bti_packed_is_whole(const char *packed, uint64_t bytes) { return is_whole(packed, bytes, 0); }

/* --- into variables -------------------------------------------------------------------------------------------------- */

static const char *type_name(int type) {
    static const char *const names[] = {"nothing",
                                        "an integer",
                                        "a real number",
                                        "a text",
                                        "bytes",
                                        "an array",
                                        "a reference",
                                        "an actor",
                                        "an integer",
                                        "a list",
                                        "a stream (bt_stream_next)"};
    return type >= 0 && type < (int)(sizeof names / sizeof *names) ? names[type] : "of no type";
}

typedef struct place_text {
    char text[160];
} place_text;

static place_text text_of(const bti_value_place *place) {
    place_text p = {"the result"};
    if (place->in_list) snprintf(p.text, sizeof p.text, "value %d of the list", place->index + 1);
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
    case BT_LIST_VALUE:
        *(bt_list *)out = (bt_list){value->data, place->owner, bti_packed_count(value->data),
                                    place->is_argument ? BTI_LIST_ARGUMENT : BTI_LIST_READ};
        return BT_OK;
    case BT_REFERENCE: return (*(bt_ref **)out = bti_ref_from(head->as.id)) ? BT_OK : bt_error_status();
    case BT_ACTOR_VALUE: return (*(bt_actor **)out = bti_actor_from(head->as.id)) ? BT_OK : bt_error_status();
    default: return BT_OK;
    }
}

/* --- lists that were read ------------------------------------------------------------------------------------------------- */

int bt_list_count(bt_list list) { return list.count; }

bt_value_type bt_list_type(bt_list list, int index) {
    if (index < 0 || index >= list.count) return BT_NOTHING;
    if (!bti_list_is_read(&list)) return bti_list_item(&list, index).type;
    return (bt_value_type)bti_unpack(list.items, index).head.type;
}

bt_status bti_list_get(bt_list list, int index, bt_value_type type, size_t bytes, void *out) {
    BTI_CALL("bt_list_get");
    if (index < 0 || index >= list.count)
        return bti_fail(BT_OUT_OF_RANGE, "there is no index %d in a list of %d", index, list.count);
    if (!bti_list_is_read(&list))
        return bti_fail(BT_FAILED_PRECONDITION,
                        "this list was made here (BT_LIST): it can be read where it was passed to");
    bti_unpacked_value value = bti_unpack(list.items, index);
    bti_value_place place = {.owner = (void *)(uintptr_t)list.owner,
                             .is_argument = list.kind == BTI_LIST_ARGUMENT,
                             .in_list = true,
                             .index = index};
    return bti_value_to(&value, &place, type, bytes, out);
}

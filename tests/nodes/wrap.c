#include "nodes/wrap.h"

#include <string.h>

enum { MAGIC = 0x6e6f6465, SHORT_LIST = 16, LARGE_LIST = 4096, HEAD = sizeof(bti_packed_value) };

static uint64_t first_at(int64_t count) { return 8 + (count > SHORT_LIST ? (uint64_t)count * 8 : 0); }
static int64_t count_of(const wrap_shape *s) { return 2 + s->direct + (s->listed > 0); }

/* The head of the values ends at a multiple of 64. */
static uint64_t head_at(const wrap_shape *s) {
    uint64_t least = first_at(count_of(s)) + HEAD + sizeof(wrap_head) + HEAD;
    return (least + 63) / 64 * 64 - HEAD;
}
uint64_t wrap_at(const wrap_shape *s) { return head_at(s) + HEAD; }
static uint64_t direct_at(const wrap_shape *s) { return (wrap_at(s) + s->bytes + 7) / 8 * 8; }
static uint64_t listed_at(const wrap_shape *s) { return direct_at(s) + (uint64_t)s->direct * HEAD; }
static uint64_t listed_bytes(const wrap_shape *s) { return first_at(s->listed) + (uint64_t)s->listed * HEAD; }
static uint64_t listed_data_at(const wrap_shape *s) {
    uint64_t at = listed_at(s) + HEAD;
    return listed_bytes(s) >= LARGE_LIST ? (at + 63) / 64 * 64 : at;
}
uint64_t wrap_bytes(const wrap_shape *s) { return s->listed ? listed_data_at(s) + listed_bytes(s) : listed_at(s); }

static bool count_one(void *data, const bti_packed_value *head, bool in_list) {
    wrap_shape *s = data;
    (void)head;
    if (in_list)
        s->listed++;
    else
        s->direct++;
    return true;
}

wrap_shape wrap_shape_of(const char *packed, uint64_t bytes) {
    wrap_shape s = {bytes, 0, 0};
    (void)bti_packed_each(packed, count_one, &s);
    return s;
}

/* Value `index` of `count` of a packed list. */
static void put(char *list, int64_t count, int64_t index, uint64_t at, const bti_packed_value *head) {
    if (count > SHORT_LIST) memcpy(list + 8 + (uint64_t)index * 8, &at, 8);
    memcpy(list + at, head, HEAD);
}

void wrap_begin(char *list, const wrap_shape *s, uint64_t id) {
    int64_t count = count_of(s);
    uint64_t first = first_at(count), second = head_at(s);
    wrap_head head = {MAGIC, 0, id};
    memcpy(list, &count, 8);
    put(list, count, 0, first, &(bti_packed_value){.type = BT_BYTES, .as.bytes = second - first - HEAD});
    put(list, count, 1, second, &(bti_packed_value){.type = BT_BYTES, .as.bytes = s->bytes});
    memset(list + first + HEAD, 0, second - first - HEAD);
    memcpy(list + first + HEAD, &head, sizeof head);
    memset(list + wrap_at(s) + s->bytes, 0, (8 - s->bytes % 8) % 8);
}

typedef struct referring {
    char *list;
    const wrap_shape *shape;
    uint64_t (*inner)(uint64_t id);
    int64_t direct, listed;
} referring;

static bool refer(void *data, const bti_packed_value *head, bool in_list) {
    referring *r = data;
    const wrap_shape *s = r->shape;
    bti_packed_value inner = {.type = head->type, .as.id = r->inner(head->as.id)};
    if (!inner.as.id) return false;
    if (in_list) {
        uint64_t at = first_at(s->listed) + (uint64_t)r->listed * HEAD;
        put(r->list + listed_data_at(s), s->listed, r->listed++, at, &inner);
    } else {
        put(r->list, count_of(s), 2 + r->direct, direct_at(s) + (uint64_t)r->direct * HEAD, &inner);
        r->direct++;
    }
    return true;
}

bool wrap_refer(char *list, const wrap_shape *s, uint64_t (*inner)(uint64_t id)) {
    referring r = {list, s, inner, 0, 0};
    if (s->listed) {
        uint64_t data = listed_data_at(s);
        put(list, count_of(s), 2 + s->direct, listed_at(s),
            &(bti_packed_value){.type = BT_LIST_VALUE, .as.bytes = listed_bytes(s)});
        memset(list + listed_at(s) + HEAD, 0, data - listed_at(s) - HEAD);
        memcpy(list + data, &s->listed, 8);
    }
    return bti_packed_each(list + wrap_at(s), refer, &r);
}

static const char *none(int line) { return (void)bti_fail(BT_INTERNAL, "nodes: a value that is none %d", line), NULL; }

const char *wrap_read(const char *list, uint64_t *bytes, wrap_head *head) {
    bti_unpacked_value first = bti_unpack(list, 0), values = bti_unpack(list, 1);
    if (first.head.type != BT_BYTES || first.head.as.bytes < sizeof *head || values.head.type != BT_BYTES)
        return none(__LINE__);
    memcpy(head, first.data, sizeof *head);
    if (head->magic != MAGIC || !bti_packed_is_whole(values.data, values.head.as.bytes)) return none(__LINE__);
    *bytes = values.head.as.bytes;
    return values.data;
}

uint64_t wrap_lead(const wrap_shape *s) { return wrap_bytes(s) >= LARGE_LIST ? 64 : 8 + HEAD; }
uint64_t wrap_value_bytes(const wrap_shape *s) { return wrap_lead(s) + wrap_bytes(s); }

void wrap_value_begin(char *value, const wrap_shape *s, uint64_t id) {
    bti_packed_value head = {.type = BT_LIST_VALUE, .as.bytes = wrap_bytes(s)};
    memset(value, 0, wrap_lead(s));
    memcpy(value, &(int64_t){1}, 8);
    memcpy(value + 8, &head, HEAD);
    wrap_begin(value + wrap_lead(s), s, id);
}

const char *wrap_value_read(const char *value, uint64_t *bytes, wrap_head *head) {
    bti_unpacked_value list = bti_unpack(value, 0);
    return list.head.type == BT_LIST_VALUE ? wrap_read(list.data, bytes, head) : none(__LINE__);
}

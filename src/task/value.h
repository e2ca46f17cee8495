/* Values as bytes that every process of a runtime reads: what calls take and give. References and actors in them are ids, which the engine gives and
 * takes (engine.h): nothing else of an engine is known here.
 *
 *     packed   count; of more than 16 values, where each begins (8 bytes each); then for each value a head (16 bytes), the sizes of an
 *              array (8 each), and its bytes, at a multiple of 64 when they are an array's or a large list's. A list's are packed again
 */
#ifndef BTI_TASK_VALUE_H
#define BTI_TASK_VALUE_H

#include <berth/task.h>

#include "base/error.h"

typedef struct bti_packed_value {
    uint8_t type, dtype, rank; /* bt_value_type, bt_dtype */
    uint8_t unused[5];
    union {
        int64_t integer;
        double real;
        uint64_t bytes; /* of a text (with its end), of bytes, of an array, of a list */
        uint64_t id;    /* of a reference, of an actor */
    } as;
} bti_packed_value;

/* One value of a packed list, with what belongs to it. */
typedef struct bti_unpacked_value {
    bti_packed_value head;
    const int64_t *size;
    const void *data;
} bti_unpacked_value;

/* Where a value lies, and what messages call it. */
typedef struct bti_value_place {
    void *owner;          /* the engine's: what keeps its memory; NULL: it goes away, arrays are copied */
    bool is_argument;     /* of the call that runs, which keeps it until it ends */
    const char *function; /* it is an argument of this function; NULL: a result */
    bool in_list;         /* or a value of a list */
    int index;            /* which, from 0 */
} bti_value_place;

enum {
    BTI_MOST_DEPTH = 32,          /* of lists in lists */
    BTI_MOST_REFERENCES = 100000, /* of one call, in one value */
    BTI_MOST_IN_LISTS = 1 << 24   /* values */
};

/* What a bt_list is of. */
enum { BTI_LIST_ITEMS, BTI_LIST_REFS, BTI_LIST_ACTORS, BTI_LIST_READ, BTI_LIST_ARGUMENT, BTI_LIST_KINDS };
/* A value of a list that was made here, of the first three kinds. */
static inline bt_item_value bti_list_item(const bt_list *list, int index) {
    if (list->kind == BTI_LIST_REFS) return bti_of_ref(((bt_ref *const *)list->items)[index]);
    if (list->kind == BTI_LIST_ACTORS) return bti_of_actor(((bt_actor *const *)list->items)[index]);
    return ((const bt_item_value *)list->items)[index];
}
static inline bool bti_list_is_read(const bt_list *list) {
    return list->kind == BTI_LIST_READ || list->kind == BTI_LIST_ARGUMENT;
}

/* The bytes that they take; none of them is NULL or poisoned. */
uint64_t bti_pack_bytes(const bt_item_value *values, int count);
/* Computes arrays and waits for them. */
bt_status bti_pack(const bt_item_value *values, int count, char *packed);
/* The same of values on their way into an engine (engine.h). */
struct bti_values;
uint64_t bti_values_bytes(const struct bti_values *values);
bt_status bti_values_pack(const struct bti_values *values, char *packed);
/* Of a list that another process wrote: it lies within its bytes, and each value within it. */
bool bti_packed_is_whole(const char *packed, uint64_t bytes);
int bti_packed_count(const char *packed);
bti_unpacked_value bti_unpack(const char *packed, int index); /* nothing, past the last one */
/* The value of a stream: an item, and what follows it, as ids. */
enum { BTI_STREAM_BYTES = 40 };
typedef struct bti_stream_link {
    uint64_t item, next;
} bti_stream_link;
void bti_pack_stream(bti_stream_link link, char packed[BTI_STREAM_BYTES]);
/* For each reference, actor and stream in it; false when `visit` said so. */
typedef bool bti_packed_visit(void *data, const bti_packed_value *head, bool in_list);
bool bti_packed_each(const char *packed, bti_packed_visit *visit, void *data);
/* How deep lists stand in it: 0 without any. */
int bti_packed_depth(const char *packed);
/* A variable of this type points into the value. */
static inline bool bti_points_into(bt_value_type type) {
    return type == BT_TEXT_VALUE || type == BT_BYTES || type == BT_LIST_VALUE;
}
/* Into a C variable of that type and size: integers widen to reals; references, actors and arrays belong to the innermost scope. */
bt_status bti_value_to(const bti_unpacked_value *value, const bti_value_place *place, bt_value_type type, size_t bytes,
                       void *out);

#endif

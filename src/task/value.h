/* Values as bytes that every process of a runtime reads: what calls take and give.
 *
 *     packed   count; of more than 16 values, where each begins (8 bytes each); then for each value a head (16 bytes), the sizes of an
 *              array (8 each), and its bytes, at a multiple of 64 when they are an array's
 */
#ifndef BTI_TASK_VALUE_H
#define BTI_TASK_VALUE_H

#include "task/state.h"

typedef struct bti_packed_value {
    uint8_t type, dtype, rank; /* bt_value_type, bt_dtype */
    uint8_t unused[5];
    union {
        int64_t integer;
        double real;
        uint64_t bytes; /* of a text (with its end), of bytes, of an array */
        bti_object *object;
    } as;
} bti_packed_value;

/* One value of a packed list, with what belongs to it. */
typedef struct bti_unpacked_value {
    bti_packed_value head;
    const int64_t *size;
    const void *data;
} bti_unpacked_value;

/* Another handle of this process, of the innermost scope. */
bt_status bti_actor_from(bti_object *object, bt_actor **actor);

/* The bytes that they take; none of them is NULL or poisoned. */
uint64_t bti_pack_bytes(const bt_item_value *values, int count);
/* Computes arrays and waits for them. */
bt_status bti_pack(const bt_item_value *values, int count, char *packed);
/* The list as the value of a new object, pending, that this process holds; NULL with the cause in the error record. */
bti_hold *bti_pack_object(const bt_item_value *values, int count, uint64_t bytes);
/* Of a list that another process wrote: it lies within its bytes, and each value within it. */
bool bti_packed_is_whole(const char *packed, uint64_t bytes);
int bti_packed_count(const char *packed);
bti_unpacked_value bti_unpack(const char *packed, int index); /* nothing, past the last one */
/* Into a C variable of that type and size: integers widen to reals. Arrays lie in the value of `owner`, which is pinned; NULL: it goes away,
 * they are copied. For messages: it is that argument (from 0) of `function`; NULL: a result. */
bt_status bti_value_to(const bti_unpacked_value *value, bti_object *owner, bt_value_type type, size_t bytes, void *out,
                       const char *function, int index);

/* Where the value of an object stands in memory; NULL: on disk, on its way back, or there is none. */
static inline const char *bti_object_value(const bti_object *object) {
    if (object->reader) return NULL;
    return object->value ? object->value : object->bytes && object->bytes <= BTI_INLINE_BYTES ? object->small : NULL;
}

#endif

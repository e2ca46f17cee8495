#include "task/store.h"

#include "task/object.h"

#include <sys/mman.h>

enum { MOST_ORDERS = BTI_KINDS_OF_RECORDS - BTI_BLOCKS, PAGE = 4096 };

static int order_of(uint64_t bytes) {
    int order = BTI_SMALLEST_BLOCK;
    while (((uint64_t)1 << order) < bytes + BTI_BLOCK_HEAD) order++;
    return order;
}

static int kind_of(int order) { return BTI_BLOCKS + order - BTI_SMALLEST_BLOCK; }

bt_status bti_store_open(bti_state *state, uint64_t limit) {
    state->store_limit = limit;
    for (int order = BTI_SMALLEST_BLOCK; order - BTI_SMALLEST_BLOCK < MOST_ORDERS; order++) {
        uint64_t most = (limit >> (order - 1)) + 1; /* a block may be half empty */
        if (most > 1u << 22) most = 1u << 22;
        BTI_TRY(bti_arena_reserve(state->arena, kind_of(order), (uint64_t)1 << order, (uint32_t)most));
        if (((uint64_t)1 << order) > limit) break;
    }
    return BT_OK;
}

char *bti_store_take(bti_state *state, uint64_t bytes) {
    if (bytes > state->store_limit - state->store_used) return NULL;
    int kind = kind_of(order_of(bytes));
    char *block = bti_record_take(state->arena, kind);
    if (!block) return NULL;
    BTI_SET(state->arena, state->store_used, state->store_used + bytes);
    return block + BTI_BLOCK_HEAD;
}

void bti_store_give(bti_state *state, char *value, uint64_t bytes) {
    bti_record_free(state->arena, kind_of(order_of(bytes)), value - BTI_BLOCK_HEAD);
    BTI_SET(state->arena, state->store_used, state->store_used - bytes);
}

/* The first page of a free block holds its place in the list. */
void bti_store_trim(bti_state *state, uint64_t keep) {
    for (int kind = BTI_KINDS_OF_RECORDS - 1; kind >= BTI_BLOCKS; kind--) {
        const bti_records *r = &state->arena->records[kind];
        if (r->bytes < 4 * PAGE) continue;
        for (bti_free_record *block = r->free; block; block = block->next) {
            if (keep >= r->bytes)
                keep -= r->bytes;
            else
                madvise((char *)block + PAGE, r->bytes - PAGE, MADV_REMOVE);
        }
    }
}

/* --- values of objects ------------------------------------------------------------------------------------------------- */

void bti_object_empty(bti_state *state, bti_object *object) {
    if (!object->value) return;
    bti_store_give(state, object->value, object->bytes);
    BTI_SET(state->arena, object->value, NULL);
    BTI_SET(state->arena, object->bytes, 0);
}

bt_status bti_object_room(bti_state *state, bti_object *object, uint64_t bytes, char **room) {
    bti_arena_lock(state->arena);
    bti_object_empty(state, object);
    *room = bytes <= sizeof object->small ? object->small : bti_store_take(state, bytes);
    if (*room) {
        if (*room != object->small) BTI_SET(state->arena, object->value, *room);
        BTI_SET(state->arena, object->bytes, bytes);
    }
    bti_arena_unlock(state->arena);
    if (*room) return BT_OK;
    return bti_fail(BT_RESOURCE_EXHAUSTED, "the store has no room for %llu bytes: %llu of %llu are in use",
                    (unsigned long long)bytes, (unsigned long long)state->store_used,
                    (unsigned long long)state->store_limit);
}

bt_status bti_object_pin(bti_state *state, bti_object *object) {
    bti_arena_lock(state->arena);
    BTI_SET(state->arena, object->pins, object->pins + 1);
    bti_arena_unlock(state->arena);
    return BT_OK;
}

void bti_object_unpin(bti_state *state, bti_object *object) { BTI_SET(state->arena, object->pins, object->pins - 1); }

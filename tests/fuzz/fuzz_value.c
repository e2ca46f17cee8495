/* Packed values: any bytes are refused, or can be read to the last list in them; what was packed again says the same. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "task/value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t read_all;

/* Every byte that a reader would look at. */
static void read_bytes(const void *data, uint64_t bytes) {
    const unsigned char *at = data;
    for (uint64_t i = 0; i < bytes; i++) read_all += at[i];
}

static void read_values(const char *packed, int depth) {
    int count = bti_packed_count(packed);
    if (depth > BTI_MOST_DEPTH) abort();
    for (int i = 0; i < count; i++) {
        bti_unpacked_value value = bti_unpack(packed, i);
        switch (value.head.type) {
        case BT_TEXT_VALUE:
            if (strlen(value.data) >= value.head.as.bytes) abort();
            break;
        case BT_ARRAY_VALUE:
            read_bytes(value.size, value.head.rank * sizeof *value.size);
            read_bytes(value.data, value.head.as.bytes);
            break;
        case BT_BYTES:
        case BT_STREAM_VALUE: read_bytes(value.data, value.head.as.bytes); break;
        case BT_LIST_VALUE: read_values(value.data, depth + 1); break;
        default: break;
        }
    }
}

static bool count_one(void *count, const bti_packed_value *head, bool in_list) {
    (void)in_list;
    if (head->type != BT_REFERENCE && head->type != BT_ACTOR_VALUE && head->type != BT_STREAM_VALUE) abort();
    return ++*(int64_t *)count < 1000000;
}

/* A list that was read is a value of another. */
static void pack_again(const char *packed) {
    bt_item_value items[3] = {bti_of_integer(1), {.type = BT_LIST_VALUE}, bti_of_text("end")};
    items[1].as.list = (bt_list){packed, NULL, bti_packed_count(packed), BTI_LIST_READ};
    uint64_t bytes = bti_pack_bytes(items, 3);
    char *again = calloc(1, bytes);
    if (!again) return;
    if (bti_pack(items, 3, again) != BT_OK) abort();
    if (bti_packed_depth(packed) < BTI_MOST_DEPTH && !bti_packed_is_whole(again, bytes)) abort();
    if (bti_unpack(again, 1).head.type != BT_LIST_VALUE || strcmp(bti_unpack(again, 2).data, "end") != 0) abort();
    if (bti_packed_count(bti_unpack(again, 1).data) != items[1].as.list.count) abort();
    free(again);
}

static bool has_stream(const char *packed) {
    for (int i = 0; i < bti_packed_count(packed); i++)
        if (bti_unpack(packed, i).head.type == BT_STREAM_VALUE) return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *packed = aligned_alloc(64, (size + 63) / 64 * 64 + 64), *exact = malloc(size + 1);
    if (!packed || !exact) abort();
    /* at the end of what may be read, and aligned to 8 bytes */
    char *at = size % 8 ? packed : exact;
    memcpy(at, data, size);
    if (bti_packed_is_whole(at, size)) {
        int64_t count = 0;
        read_values(at, 0);
        (void)bti_packed_each(at, count_one, &count);
        if (!has_stream(at) &&
            bti_pack_bytes(
                &(bt_item_value){.type = BT_LIST_VALUE, .as.list = {at, NULL, bti_packed_count(at), BTI_LIST_READ}},
                1) <= size + 64)
            pack_again(at);
    }
    free(exact);
    free(packed);
    return 0;
}

/* Uploads, downloads, fills and copies. Each puts other contents into a slot, so that launches in flight keep what they read. */
#include <string.h>

#include "base/alloc.h"
#include "drivers/pjrt/device.h"

static bt_status no_host_memory(const bti_pjrt_device *device, size_t bytes) {
    return bti_fail(BT_RESOURCE_EXHAUSTED, "%s: out of host memory for %zu bytes", device->name, bytes);
}

/* Bytes that the contents have, or may have. */
static size_t bytes_held(const bti_pjrt_slot *slot, const bti_pjrt_contents *contents) {
    return contents->buffer ? contents->buffer->bytes : contents->host ? contents->host->bytes : slot->bytes;
}

/* A store of the whole slot that nobody else reads, with what the slot holds but for `bytes` from the offset. Retained; the slot keeps it. */
static bt_status writable(bti_pjrt_device *device, bti_pjrt_slot *slot, size_t offset, size_t bytes,
                          bti_pjrt_store **store) {
    bti_pjrt_contents seen = {0};
    bti_pjrt_store *before = NULL;
    *store = NULL;
    bt_status status = bti_pjrt_look(device, slot, &seen);
    bool whole = offset == 0 && (bytes == slot->bytes || bytes >= bytes_held(slot, &seen));
    if (status != BT_OK && !whole) return status;
    bool fits = seen.host && offset + bytes <= seen.host->bytes;
    if (fits && atomic_load(&seen.host->users) == 2) { /* the slot and this thread */
        *store = bti_pjrt_store_retain(seen.host);
        if (seen.buffer)
            bti_pjrt_replace(device, slot, &seen, (bti_pjrt_contents){.host = bti_pjrt_store_retain(*store)});
        bti_pjrt_contents_release(&seen);
        return BT_OK;
    }
    status = BT_OK;
    if (!whole && (seen.host || seen.buffer)) status = bti_pjrt_bytes_of(device, &seen, 0, &before);
    if (status == BT_OK) *store = bti_pjrt_store_new(slot->bytes);
    if (status == BT_OK && !*store) status = no_host_memory(device, slot->bytes);
    if (status == BT_OK) {
        if (before) memcpy((*store)->at, before->at, before->bytes < slot->bytes ? before->bytes : slot->bytes);
        bti_pjrt_put(device, slot, (bti_pjrt_contents){.host = bti_pjrt_store_retain(*store)});
    }
    bti_pjrt_store_release(before);
    bti_pjrt_contents_release(&seen);
    return status;
}

/* Where to write these bytes, in a store that the caller releases. */
static bt_status begin_writing(bti_pjrt_device *device, uint64_t address, size_t bytes, bti_pjrt_store **store,
                               size_t *offset) {
    bti_pjrt_slot *slot;
    BTI_TRY(bti_pjrt_check_lost(device));
    BTI_TRY(bti_pjrt_find(device, address, bytes, &slot, offset));
    return writable(device, slot, *offset, bytes, store);
}

bt_status bti_pjrt_upload(void *opened, uint64_t address, const void *host, size_t bytes) {
    bti_pjrt_store *store;
    size_t offset;
    BTI_TRY(begin_writing(opened, address, bytes, &store, &offset));
    memcpy(store->at + offset, host, bytes);
    bti_pjrt_store_release(store);
    return BT_OK;
}

bt_status bti_pjrt_fill(void *opened, uint64_t address, int byte, size_t bytes) {
    bti_pjrt_store *store;
    size_t offset;
    BTI_TRY(begin_writing(opened, address, bytes, &store, &offset));
    memset(store->at + offset, byte, bytes);
    bti_pjrt_store_release(store);
    return BT_OK;
}

/* A part of a buffer: all of it is fetched, and kept until its end was read, since parts are read one after the other. */
static bt_status read_part(bti_pjrt_device *device, bti_pjrt_slot *slot, const bti_pjrt_contents *seen, void *host,
                           size_t offset, size_t bytes) {
    bti_pjrt_store *store;
    bool ends = seen->buffer && offset + bytes >= seen->buffer->bytes;
    BTI_TRY(bti_pjrt_bytes_of(device, seen, offset + bytes, &store));
    memcpy(host, store->at + offset, bytes);
    if (seen->buffer && ends != !seen->host) {
        bti_pjrt_contents kept = {.host = ends ? NULL : bti_pjrt_store_retain(store),
                                  .buffer = bti_pjrt_buffer_retain(seen->buffer)};
        bti_pjrt_replace(device, slot, seen, kept);
    }
    bti_pjrt_store_release(store);
    return BT_OK;
}

bt_status bti_pjrt_download(void *opened, void *host, uint64_t address, size_t bytes) {
    bti_pjrt_device *device = opened;
    bti_pjrt_slot *slot;
    bti_pjrt_contents seen;
    size_t offset;
    BTI_TRY(bti_pjrt_check_lost(device));
    BTI_TRY(bti_pjrt_find(device, address, bytes, &slot, &offset));
    BTI_TRY(bti_pjrt_look(device, slot, &seen));
    bool whole = !seen.host && seen.buffer && offset == 0 && bytes == seen.buffer->bytes;
    bt_status status =
        whole ? bti_pjrt_fetch_into(device, seen.buffer, host) : read_part(device, slot, &seen, host, offset, bytes);
    bti_pjrt_contents_release(&seen);
    return status;
}

/* What the whole slot holds can be shared: nobody writes into what has two owners. */
static bool is_whole(const bti_pjrt_slot *to, size_t to_offset, const bti_pjrt_contents *from, size_t from_offset,
                     size_t bytes) {
    size_t there = from->buffer ? from->buffer->bytes : from->host ? from->host->bytes : 0;
    return to_offset == 0 && from_offset == 0 && there && there <= bytes && there <= to->bytes;
}

static bt_status copy_bytes(bti_pjrt_device *target, uint64_t to, bti_pjrt_device *source,
                            const bti_pjrt_contents *from, size_t offset, size_t bytes) {
    bti_pjrt_store *store;
    BTI_TRY(bti_pjrt_bytes_of(source, from, offset + bytes, &store));
    bt_status status = bti_pjrt_upload(target, to, store->at + offset, bytes);
    bti_pjrt_store_release(store);
    return status;
}

bt_status bti_pjrt_copy(void *opened, uint64_t to, uint64_t from, size_t bytes) {
    bti_pjrt_device *device = opened;
    bti_pjrt_slot *target, *source;
    bti_pjrt_contents seen;
    size_t to_offset, from_offset;
    BTI_TRY(bti_pjrt_check_lost(device));
    BTI_TRY(bti_pjrt_find(device, to, bytes, &target, &to_offset));
    BTI_TRY(bti_pjrt_find(device, from, bytes, &source, &from_offset));
    BTI_TRY(bti_pjrt_look(device, source, &seen));
    if (is_whole(target, to_offset, &seen, from_offset, bytes)) {
        bti_pjrt_put(device, target, seen);
        return BT_OK;
    }
    bt_status status = copy_bytes(device, to, device, &seen, from_offset, bytes);
    bti_pjrt_contents_release(&seen);
    return status;
}

/* --- between devices --------------------------------------------------------------------------------------------------- */

/* The buffer on another device of its client. UNIMPLEMENTED: the plugin does not do that. */
static bt_status move(bti_pjrt_device *target, const bti_pjrt_buffer *from, bti_pjrt_buffer *to) {
    const bti_pjrt_calls *calls = target->calls;
    bti_pjrt_copy_to args = {
        .size = BTI_PJRT_SIZE(bti_pjrt_copy_to, result), .buffer = from->handle, .target = target->handle};
    bti_pjrt_get memory = {.size = BTI_PJRT_SIZE(bti_pjrt_get, result), .object = target->handle};
    bt_status status = BT_UNIMPLEMENTED;
    if (calls->buffer_to_device)
        status = bti_pjrt_try(target, "a copy between devices", calls->buffer_to_device(&args));
    if (status == BT_UNIMPLEMENTED && calls->buffer_to_memory && calls->device_memory) {
        status = bti_pjrt_try(target, "its memory", calls->device_memory(&memory));
        args.target = memory.result;
        if (status == BT_OK && !memory.result) status = BT_UNIMPLEMENTED;
        if (status == BT_OK) status = bti_pjrt_try(target, "a copy between devices", calls->buffer_to_memory(&args));
    }
    if (status == BT_UNIMPLEMENTED) return bti_fail(status, "%s takes no copies of other devices", target->name);
    if (status != BT_OK) return status;
    if (!args.result) return bti_fail(BT_INTERNAL, "%s: a copy between devices gave no buffer", target->name);
    to->handle = args.result;
    bti_pjrt_get ready = {.size = BTI_PJRT_SIZE(bti_pjrt_get, result), .object = to->handle};
    BTI_TRY(bti_pjrt_try(target, "a copy between devices", calls->buffer_ready(&ready)));
    return bti_pjrt_await(target, "a copy between devices", ready.result);
}

static bt_status copy_whole(bti_pjrt_device *target, bti_pjrt_slot *to, const bti_pjrt_contents *from) {
    bti_pjrt_contents copied = {0};
    if (!from->buffer) { /* bytes of the host are no device's */
        copied.host = bti_pjrt_store_retain(from->host);
        bti_pjrt_put(target, to, copied);
        return BT_OK;
    }
    BTI_TRY(bti_pjrt_buffer_new(target->calls, &from->buffer->type, &from->buffer->held, &copied.buffer));
    bt_status status = move(target, from->buffer, copied.buffer);
    if (status == BT_OK)
        bti_pjrt_put(target, to, copied);
    else
        bti_pjrt_contents_release(&copied);
    return status;
}

bt_status bti_pjrt_peer_copy(void *to_opened, uint64_t to, void *from_opened, uint64_t from, size_t bytes) {
    bti_pjrt_device *target = to_opened, *source = from_opened;
    bti_pjrt_slot *to_slot, *from_slot;
    bti_pjrt_contents seen;
    size_t to_offset, from_offset;
    BTI_TRY(bti_pjrt_check_lost(target));
    BTI_TRY(bti_pjrt_check_lost(source));
    BTI_TRY(bti_pjrt_find(target, to, bytes, &to_slot, &to_offset));
    BTI_TRY(bti_pjrt_find(source, from, bytes, &from_slot, &from_offset));
    BTI_TRY(bti_pjrt_look(source, from_slot, &seen));
    bt_status status = BT_UNIMPLEMENTED;
    bool moves = target->client == source->client && target->handle != source->handle;
    if ((moves || !seen.buffer) && is_whole(to_slot, to_offset, &seen, from_offset, bytes))
        status = copy_whole(target, to_slot, &seen);
    if (status == BT_UNIMPLEMENTED) status = copy_bytes(target, to, source, &seen, from_offset, bytes);
    bti_pjrt_contents_release(&seen);
    return status;
}

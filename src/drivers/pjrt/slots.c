/* Memory: a table of slots, and counted references to what they hold. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "drivers/pjrt/device.h"

#define SLOT_BYTES (UINT64_C(1) << BTI_PJRT_SLOT_BITS)
#define MOST_SLOTS ((size_t)1 << (63 - BTI_PJRT_SLOT_BITS))

/* --- bytes of the host ------------------------------------------------------------------------------------------------ */

bti_pjrt_store *bti_pjrt_store_new(size_t bytes) {
    bti_pjrt_store *store = bti_alloc(sizeof *store);
    char *memory =
        store ? bti_calloc(1, sizeof(void *) + BTI_MEMORY_ALIGN + bytes) : NULL; /* large ones: fresh pages */
    if (!memory) return bti_free(store), NULL;
    uintptr_t begin = ((uintptr_t)memory + sizeof(void *) + BTI_MEMORY_ALIGN - 1) & ~(uintptr_t)(BTI_MEMORY_ALIGN - 1);
    *store = (bti_pjrt_store){.bytes = bytes, .at = (char *)begin};
    atomic_init(&store->users, 1);
    memcpy(store->at - sizeof memory, &memory, sizeof memory);
    return store;
}

bti_pjrt_store *bti_pjrt_store_retain(bti_pjrt_store *store) {
    if (store) atomic_fetch_add_explicit(&store->users, 1, memory_order_relaxed);
    return store;
}

void bti_pjrt_store_release(bti_pjrt_store *store) {
    char *memory;
    if (!store || atomic_fetch_sub_explicit(&store->users, 1, memory_order_acq_rel) != 1) return;
    memcpy(&memory, store->at - sizeof memory, sizeof memory);
    bti_free(memory);
    bti_free(store);
}

/* --- buffers ---------------------------------------------------------------------------------------------------------- */

bt_status bti_pjrt_buffer_new(const bti_pjrt_calls *calls, const bti_type *type, const bti_type *held,
                              bti_pjrt_buffer **buffer) {
    size_t bytes, held_bytes;
    *buffer = NULL;
    if (!bti_pjrt_bytes(type, &bytes) || !bti_pjrt_bytes(held, &held_bytes))
        return bti_fail(BT_INTERNAL, "an array of more than 2^64 bytes");
    *buffer = bti_calloc(1, sizeof **buffer);
    if (!*buffer) return bti_no_memory();
    (*buffer)->calls = calls;
    (*buffer)->type = *type;
    (*buffer)->held = *held;
    (*buffer)->bytes = bytes;
    atomic_init(&(*buffer)->users, 1);
    return BT_OK;
}

bti_pjrt_buffer *bti_pjrt_buffer_retain(bti_pjrt_buffer *buffer) {
    if (buffer) atomic_fetch_add_explicit(&buffer->users, 1, memory_order_relaxed);
    return buffer;
}

void bti_pjrt_buffer_release(bti_pjrt_buffer *buffer) {
    if (!buffer || atomic_fetch_sub_explicit(&buffer->users, 1, memory_order_acq_rel) != 1) return;
    bti_pjrt_drop(buffer->calls, buffer->calls->buffer_destroy, buffer->handle);
    bti_free(buffer);
}

void bti_pjrt_contents_release(bti_pjrt_contents *contents) {
    bti_pjrt_store_release(contents->host);
    bti_pjrt_buffer_release(contents->buffer);
    bti_error_release(contents->failure);
    *contents = (bti_pjrt_contents){0};
}

/* --- the table -------------------------------------------------------------------------------------------------------- */

/* Under the lock. A number is used again: nothing refers to what was freed. */
static bool add_slot(bti_pjrt_device *device, bti_pjrt_slot *slot, size_t *number) {
    if (device->free_slots.count) {
        *number = device->free_slots.items[--device->free_slots.count];
        device->slots.items[*number] = slot;
        return true;
    }
    *number = device->slots.count;
    /* room to take the number back, so that freeing cannot fail */
    return *number < MOST_SLOTS &&
           bti_vec_grow_((void **)&device->free_slots.items, &device->free_slots.capacity, *number + 1,
                         sizeof *device->free_slots.items) &&
           bti_vec_push(&device->slots, slot);
}

bt_status bti_pjrt_alloc(void *opened, size_t bytes, uint64_t *address) {
    bti_pjrt_device *device = opened;
    size_t number = 0;
    BTI_TRY(bti_pjrt_check_lost(device));
    if (bytes > SLOT_BYTES)
        return bti_fail(BT_RESOURCE_EXHAUSTED, "%s: an array of %zu bytes; there can be 64 GiB in one piece",
                        device->name, bytes);
    bti_pjrt_slot *slot = bti_calloc(1, sizeof *slot);
    if (!slot) return bti_no_memory();
    slot->bytes = bytes;
    bti_lock_take(&device->slots_lock);
    bool added = add_slot(device, slot, &number);
    bti_lock_give(&device->slots_lock);
    *address = (uint64_t)(number + 1) << BTI_PJRT_SLOT_BITS;
    if (added) return BT_OK;
    bti_free(slot);
    return bti_no_memory();
}

/* NULL: there is none. Under the lock. */
static bti_pjrt_slot **place_of(bti_pjrt_device *device, uint64_t address) {
    uint64_t number = address >> BTI_PJRT_SLOT_BITS;
    return number && number <= device->slots.count && device->slots.items[number - 1] ? &device->slots.items[number - 1]
                                                                                      : NULL;
}

void bti_pjrt_free(void *opened, uint64_t address, size_t bytes) {
    (void)bytes;
    bti_pjrt_device *device = opened;
    bti_lock_take(&device->slots_lock);
    bti_pjrt_slot **place = place_of(device, address), *slot = place ? *place : NULL;
    if (slot) {
        *place = NULL;
        device->free_slots.items[device->free_slots.count++] = (size_t)(place - device->slots.items);
    }
    bti_lock_give(&device->slots_lock);
    if (slot) bti_pjrt_contents_release(&slot->contents);
    bti_free(slot);
}

void bti_pjrt_free_all(bti_pjrt_device *device) {
    for (size_t i = 0; i < device->slots.count; i++) bti_pjrt_free(device, (uint64_t)(i + 1) << BTI_PJRT_SLOT_BITS, 0);
    bti_vec_free(&device->slots);
    bti_vec_free(&device->free_slots);
}

bt_status bti_pjrt_find(bti_pjrt_device *device, uint64_t address, size_t bytes, bti_pjrt_slot **slot, size_t *offset) {
    *offset = (size_t)(address & (SLOT_BYTES - 1));
    bti_lock_take(&device->slots_lock);
    bti_pjrt_slot **place = place_of(device, address);
    *slot = place ? *place : NULL;
    bti_lock_give(&device->slots_lock);
    if (*slot && *offset <= (*slot)->bytes && bytes <= (*slot)->bytes - *offset) return BT_OK;
    return bti_fail(BT_INTERNAL, "%s: %zu bytes at %#" PRIx64 " do not lie within memory of this device", device->name,
                    bytes, address);
}

bt_status bti_pjrt_look(bti_pjrt_device *device, bti_pjrt_slot *slot, bti_pjrt_contents *contents) {
    bti_lock_take(&device->slots_lock);
    *contents = (bti_pjrt_contents){bti_pjrt_store_retain(slot->contents.host),
                                    bti_pjrt_buffer_retain(slot->contents.buffer), slot->contents.failure};
    if (contents->failure) bti_error_retain(contents->failure);
    bti_lock_give(&device->slots_lock);
    if (!contents->failure) return BT_OK;
    bt_status status = bti_fail_with(contents->failure);
    bti_pjrt_contents_release(contents);
    return status;
}

void bti_pjrt_put(bti_pjrt_device *device, bti_pjrt_slot *slot, bti_pjrt_contents contents) {
    bti_lock_take(&device->slots_lock);
    bti_pjrt_contents before = slot->contents;
    slot->contents = contents;
    bti_lock_give(&device->slots_lock);
    bti_pjrt_contents_release(&before);
}

void bti_pjrt_replace(bti_pjrt_device *device, bti_pjrt_slot *slot, const bti_pjrt_contents *seen,
                      bti_pjrt_contents contents) {
    bti_lock_take(&device->slots_lock);
    bti_pjrt_contents before = slot->contents;
    bool same = before.host == seen->host && before.buffer == seen->buffer && !before.failure;
    if (same) slot->contents = contents;
    bti_lock_give(&device->slots_lock);
    bti_pjrt_contents_release(same ? &before : &contents);
}

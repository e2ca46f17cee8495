/* bt_pinned: memory of the host that devices copy from and to directly. */
#include "base/guest.h"
#include "base/host_memory.h"
#include "device/device.h"
#include "device/pinned_list.h"
#include "device/table.h"

static bt_status take_memory(bti_pinned *block) {
    bt_device *device = block->device;
    void *memory = NULL;
    bool possible = block->bytes <= PTRDIFF_MAX;
    if (possible && block->bytes >= BTI_HOST_MEMORY_ASK) possible = bti_host_memory_has(block->bytes);
    if (possible && device->driver->host_alloc) {
        BTI_TRY(device->driver->host_alloc(device->state, block->bytes, &memory));
        block->locked = true;
        atomic_fetch_add(&device->pinned, block->bytes);
    } else if (possible) {
        memory = bti_alloc_aligned(BTI_MEMORY_ALIGN, block->bytes);
    }
    block->memory = memory;
    return memory ? BT_OK : bti_fail(BT_RESOURCE_EXHAUSTED, "%s", bti_host_memory_shortage(block->bytes).text);
}

static bt_status make_block(bt_device *device, size_t bytes, void **memory) {
    if (!device || !bytes) return bti_fail(BT_INVALID_ARGUMENT, "a device, and at least one byte");
    BTI_TRY(bti_device_open(device->id));
    bti_pinned *block = bti_calloc(1, sizeof *block);
    if (!block) return bti_no_memory();
    block->bytes = bytes;
    block->device = device;
    bt_status status = take_memory(block);
    *memory = block->memory;
    if (status == BT_OK && bti_pinned_add(block)) return BT_OK;
    if (status == BT_OK)
        bti_pinned_destroy(block);
    else
        bti_free(block);
    return status == BT_OK ? bti_no_memory() : status;
}

void *bt_pinned(bt_device *device, size_t bytes) {
    BTI_CALL("bt_pinned");
    BTI_NO_CANCEL;
    void *memory = NULL;
    return make_block(device, bytes, &memory) == BT_OK ? memory : NULL;
}

void bt_pinned_free(void *memory) {
    BTI_CALL("bt_pinned_free");
    BTI_NO_CANCEL;
    size_t offset;
    if (!memory || bti_device_forked()) return; /* in a child it is the parent's, and a lock may be held by no one */
    if (bti_pinned_remove(memory, &offset)) return;
    if (offset)
        (void)!bti_fail(BT_INVALID_ARGUMENT, "%p is %zu bytes after the beginning of memory of bt_pinned; give that",
                        memory, offset);
    else
        (void)!bti_fail(BT_INVALID_ARGUMENT, "%p is no memory of bt_pinned, or was freed before", memory);
}

bool bt_is_pinned(const void *memory) { return memory && !bti_device_forked() && bti_pinned_is_locked(memory); }

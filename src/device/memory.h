/* The memory of one device: its pool, made by the settings, and the blocks that its driver borrows from it. */
#ifndef BTI_DEVICE_MEMORY_H
#define BTI_DEVICE_MEMORY_H

#include "device/table.h"

/* Makes the device's pool by its settings; on failure nothing is left behind. The caller holds the device's lock. */
bt_status bti_memory_open(bt_device *device);
/* The allocator of launch/program.h. A block that is lent is used by no work that is launched from now on. */
bt_status bti_memory_lend(int id, size_t bytes, uint64_t *address, void **lent);
void bti_memory_take_back(int id, void *block);

#endif

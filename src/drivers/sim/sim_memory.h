/* The memory of a simulated device, behind addresses that are not pointers: a use by the host faults, and a use by another device is
 * caught. In debug builds (BTI_DEBUG) that aborts, as the fault of a real device would end the program; in release builds it is
 * INTERNAL. */
#ifndef BTI_DRIVERS_SIM_SIM_MEMORY_H
#define BTI_DRIVERS_SIM_SIM_MEMORY_H

#include <pthread.h>

#include "base/vec.h"
#include "drivers/driver.h"

typedef struct bti_sim_block {
    uint64_t offset;
    size_t bytes;
    char *host; /* NULL: without data */
} bti_sim_block;

typedef struct bti_sim_memory {
    bt_kind kind; /* of its device, for messages */
    int index, ordinal;
    pthread_rwlock_t lock;         /* of what follows */
    BTI_VEC(bti_sim_block) blocks; /* by offset */
    uint64_t next;                 /* offsets from here on were never used, until they wrap around */
    size_t used, limit;
    bool without_data; /* bytes are counted, and hold nothing */
} bti_sim_memory;

void bti_sim_memory_init(bti_sim_memory *memory, int ordinal, size_t limit);
void bti_sim_memory_free(bti_sim_memory *memory); /* with all blocks */

bt_status bti_sim_memory_alloc(bti_sim_memory *memory, size_t bytes, uint64_t *address);
void bti_sim_memory_release(bti_sim_memory *memory, uint64_t address);
void bti_sim_memory_sizes(bti_sim_memory *memory, size_t *free_bytes, size_t *total_bytes);

/* The host memory (NULL: without data) of `bytes` bytes at an address, which must lie within one live allocation of this device. `what`: the operation, for
 * messages. */
bt_status bti_sim_memory_translate(bti_sim_memory *memory, const char *what, uint64_t address, uint64_t bytes,
                                   char **host);

#endif

/* What a pool is made over, and what it counts. */
#ifndef BTI_DEVICE_POOL_SOURCE_H
#define BTI_DEVICE_POOL_SOURCE_H

#include "device/device.h"

typedef struct bti_pool bti_pool;

/* Allocates and frees segments. */
typedef struct bti_pool_source {
    void *context;
    bt_status (*alloc)(void *context, size_t bytes, uint64_t *address);
    void (*free)(void *context, uint64_t address, size_t bytes);
} bti_pool_source;

typedef struct bti_pool_counters {
    size_t limit, used, peak, cached, largest_free, segments;
} bti_pool_counters;

#define BTI_POOL_ALIGN BTI_MEMORY_ALIGN /* bytes; blocks are multiples of it, at multiples of it */

#endif

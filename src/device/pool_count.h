/* What can be asked of a pool. Thread safe. */
#ifndef BTI_DEVICE_POOL_COUNT_H
#define BTI_DEVICE_POOL_COUNT_H

#include "device/pool_source.h"

bti_pool_counters bti_pool_count(bti_pool *pool);
/* Free bytes in segments that are partly in use, which are neither released nor of use to larger blocks; plus a first segment of small blocks
 * where one may be needed. */
size_t bti_pool_scattered(bti_pool *pool);
/* For tests: NULL, or what is inconsistent in the pool. */
const char *bti_pool_verify(bti_pool *pool);

#endif

/* What the disk cache holds, and what goes when it is too much. */
#ifndef BTI_DRIVERS_EVICT_H
#define BTI_DRIVERS_EVICT_H

#include <stddef.h>
#include <stdint.h>

#define BTI_CACHE_NAME 40 /* bytes of a file's name: 32 hexadecimal digits; or this and what makes it unique */
#define BTI_CACHE_TEMPORARY ".new-"

typedef struct bti_cache_contents {
    uint64_t files, bytes; /* that are left: kernels only, files of other names are not ours */
    uint64_t evicted;
} bti_cache_contents;

/* Looks over the folder. Holds it more than `limit` bytes, those kernels go whose last use lies back longest, to an eighth below
 * the limit; so do files that a process began an hour ago and never ended. Other processes may do the same meanwhile. */
bti_cache_contents bti_evict(int folder, size_t limit);

#endif

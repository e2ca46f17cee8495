/* The folder of the disk cache: its path, whether it may be trusted, what it contains, what is evicted. */
#ifndef BTI_CACHE_FOLDER_H
#define BTI_CACHE_FOLDER_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* The path of the folder, from the flag `cache` and the environment; false, with the reason, when they name none. */
bool bti_folder_path(bti_str *path, bti_str *reason);

/* Opens the folder, which must belong to this user and be writable by nobody else; else -1, with the reason. `make`: creates it and its
 * parent (mode 0700) if they are missing; without it a missing folder gives -1 without a reason. */
int bti_folder_open(const char *path, bool make, bti_str *reason);

#define BTI_CACHE_NAME \
    40 /* bytes of a file's name: 32 hexadecimal digits; or BTI_CACHE_TEMPORARY and a unique suffix */
#define BTI_CACHE_TEMPORARY ".new-"

typedef struct bti_cache_contents {
    uint64_t files, bytes; /* kernels that are left; files of other names are ignored */
    uint64_t evicted;
} bti_cache_contents;

/* Scans the folder. If it holds more than `limit` bytes, deletes the least recently used kernels until it holds 7/8 of the limit; deletes
 * temporary files that are more than an hour old. Other processes may do the same at the same time. */
bti_cache_contents bti_folder_evict(int folder, size_t limit);

/* For tests: the environment is read again at the next use. */
void bti_folder_reset(void);

#endif

/* The cores of the process and how work is split over them. One set of helper threads serves everybody: who has work for
 * several cores borrows those that are idle at that moment, works himself, and gets along alone when none is. */
#ifndef BTI_BASE_CORES_H
#define BTI_BASE_CORES_H

#include <stddef.h>
#include <stdint.h>

/* Cores that kernels may use: the flag `threads`, else what affinity and the cgroup's quota allow. At least 1. */
int bti_cores(void);

/* Runs body on pieces of [0, count), each of `grain` but the last, on the calling thread and on idle cores; returns when all
 * is done. Where pieces begin and end depends on count and grain alone, never on how many cores there are. The body may
 * call this again: that runs on its own thread. Never fails: without helpers the caller does it all. */
void bti_parallel(int64_t count, int64_t grain, void (*body)(void *context, int64_t begin, int64_t end), void *context);

/* memcpy, on several cores when it is large: one alone does not always reach what the memory can. */
void bti_copy_bytes(void *to, const void *from, size_t bytes);
/* The same in pieces of `piece` bytes, each on one core. */
void bti_copy_pieces(void *to, const void *from, size_t bytes, size_t piece);

/* The most cores that this thread's calls may use, itself included; 0: no limit. Returns the limit before. */
int bti_cores_limit(int most);

/* Ends the helper threads; for shutdown. The next call makes new ones. */
void bti_cores_shutdown(void);

#endif

/* Threads that make batches ahead of the one who takes them, in order and in bounded memory. */
#ifndef BTI_DATA_WORKERS_H
#define BTI_DATA_WORKERS_H

#include "data/batcher.h"

typedef struct bti_workers bti_workers;

/* Starts `count` threads; fewer where the system has no more. batcher: taken over with the last thread's end; after an error it stays the caller's. NULL with the cause in the error
 * record: RESOURCE_EXHAUSTED. */
bti_workers *bti_workers_new(bti_batcher *batcher, int count, uint64_t ahead_bytes);
/* They make the batches from `first` up to `end` of the batcher's epoch. They are idle before. */
void bti_workers_begin(bti_workers *workers, int64_t first, int64_t end);
/* The next batch in order, which must be one of these. Waits for it. */
void bti_workers_take(bti_workers *workers, bti_made *made);
/* Ends the making of batches: waits for those in the making, and releases all that were not taken. */
void bti_workers_stop(bti_workers *workers);
/* Whether the calling thread is one of them. */
bool bti_workers_are_calling(const bti_workers *workers);
/* Ends the threads and waits for them; if one of them calls, they end by themselves later. */
void bti_workers_end(bti_workers *workers);

#endif

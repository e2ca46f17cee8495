/* Small objects that come and go with every call (nodes, buffers): taken from what others gave back, so that a loop
 * that is warm asks for no memory. Each thread keeps a few of each size, the rest is shared. */
#ifndef BTI_BASE_RECYCLE_H
#define BTI_BASE_RECYCLE_H

#include <stddef.h>

/* All zero; NULL when memory is short. Large ones are allocated as any other. */
void *bti_recycled_new(size_t bytes);
/* `bytes` as it was asked for. NULL is fine. */
void bti_recycled_free(void *object, size_t bytes);
/* For a thread that frees what others made: it keeps nothing back. */
void bti_recycled_share(void);
/* For shutdown: frees what is kept, but for what other threads keep. */
void bti_recycled_trim(void);

#endif

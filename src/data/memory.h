/* Memory of the host for batches, which is used again when the arrays in it are gone. */
#ifndef BTI_DATA_MEMORY_H
#define BTI_DATA_MEMORY_H

#include <berth/device.h>

#include <stdbool.h>
#include <stddef.h>

typedef struct bti_batch_memory bti_batch_memory; /* the store of one loader */

/* One piece, of which an array may be lent: bt_from_lent(piece->data, ..., bti_piece_give, piece). */
typedef struct bti_piece {
    void *data;
    size_t bytes; /* at least those that were asked for */
    bool pinned;
    bti_batch_memory *store;
    struct bti_piece *next; /* of the pieces that are not in use */
} bti_piece;

/* A store that keeps up to `keep_bytes` of pieces that are not in use. device: copies of the pieces go there, so that they are page-locked
 * where its driver can; NULL: they stay on the host. NULL when memory is short. */
bti_batch_memory *bti_batch_memory_new(bt_device *device, size_t keep_bytes);
/* NULL, with the cause in the error record, when memory is short. Any thread. */
bti_piece *bti_piece_take(bti_batch_memory *store, size_t bytes);
/* Any thread; a bt_lent_end_fn: calls nothing of the library but bti_free. */
void bti_piece_give(void *piece);
/* No pieces are taken any more; those in use are freed when they are given back. Waits, up to ten seconds, for page-locked ones, which copies to the
 * device use: later nobody could free them. NULL is fine. */
void bti_batch_memory_close(bti_batch_memory *store);

#endif

/* A loader: where it is in its epochs, and who makes its batches. */
#ifndef BTI_DATA_LOADER_H
#define BTI_DATA_LOADER_H

#include <sys/types.h>

#include "data/workers.h"

struct bt_loader {
    bti_owned head;
    bti_batcher *batcher;    /* the workers' if there are any, else its own */
    bti_workers *workers;    /* NULL: the caller of bt_loader_next makes the batches */
    bti_example_maker maker; /* without workers */
    bool drop_last;
    pid_t process;
    atomic_flag busy; /* a call is in progress that changes the following */

    int64_t epoch, next; /* the next batch; next == batches: bt_loader_next says that the epoch is over */
    bool over;           /* it has said so: the next epoch begins with the next call */
    bool begun;          /* the order of the epoch is set, and workers make its batches */
    bti_made current;    /* handed out */
    /* [2 * columns] its arrays and sizes, as bt_batch lists them. They stay when it is released: a call that is given one tells. */
    bt_array **handed;
    _Atomic(bti_error *) error; /* why the epoch ended early, retained */
};

/* Before a call that changes where the loader is; `name` is its own. Each BT_OK needs one bti_loader_leave. */
bt_status bti_loader_enter(bt_loader *loader, const char *name);
void bti_loader_leave(bt_loader *loader);
/* To a batch of an epoch, as if it was the first: forgets batches and errors. Of a loader that was entered. */
void bti_loader_go(bt_loader *loader, int64_t epoch, int64_t next);
/* bt_loader_new with the words of a key, where NULL is none; options.shuffle is NULL. For calls that would otherwise copy a key to a device and back. */
bt_loader *bti_loader_new_by_words(bt_dataset *dataset, const bt_loader_options *options, const uint32_t key[2]);
/* Columns of its data set. Of a loader that can be used. */
int bti_loader_columns(const bt_loader *loader);

#endif

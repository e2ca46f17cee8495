/* .npy files in memory, read page by page. */
#ifndef BTI_DATA_MAPPED_H
#define BTI_DATA_MAPPED_H

#include "file/npy.h"

typedef struct bti_mapped {
    bti_file file;
    void *memory; /* the whole file; NULL: nothing is mapped */
    const unsigned char *elements;
    bt_dtype dtype;
    bt_shape shape; /* [N, ...] */
} bti_mapped;

/* Opens a file and maps it; what is made is to be closed also after an error. */
bt_status bti_mapped_open(const char *path, bti_mapped *mapped);
void bti_mapped_close(bti_mapped *mapped); /* one that is zero is fine */
/* DATA_LOSS when the file is shorter than when it was mapped: its pages cannot be read. */
bt_status bti_mapped_check(const bti_mapped *mapped);

#endif

/* The list of memory that programs got by bt_pinned, and which copies use it. */
#ifndef BTI_DEVICE_PINNED_LIST_H
#define BTI_DEVICE_PINNED_LIST_H

#include "drivers/driver.h"

typedef struct bti_pinned {
    char *memory;
    size_t bytes;
    bt_device *device; /* for which it was made */
    bool locked;       /* by the device's driver; else it is ordinary memory */
    bool freed;        /* by the program; the list's own, as is `uses` */
    int uses;          /* copies that use it */
} bti_pinned;

/* Puts the block into the list, which owns it from now on; false: memory is short. */
bool bti_pinned_add(bti_pinned *block);
/* Takes the block that begins there out of the list, and frees it now, or when the last copy that uses it is done. False: no block begins there; *offset: how
 * far the byte is from the beginning of the block in which it lies; 0: in none. */
bool bti_pinned_remove(const void *memory, size_t *offset);
/* Gives the memory back, and the block itself, which is not in the list. */
void bti_pinned_destroy(bti_pinned *block);

/* The block that holds these bytes and that devices of this driver copy directly: it lasts until bti_pinned_leave, also if the program frees
 * it meanwhile. NULL: there is none. */
bti_pinned *bti_pinned_use(const bti_driver *driver, const void *memory, size_t bytes);
void bti_pinned_leave(bti_pinned *block);

/* Whether the byte lies in a block that is page-locked. */
bool bti_pinned_is_locked(const void *memory);
/* Blocks that were not freed, or are in use. */
size_t bti_pinned_alive(void);

#endif

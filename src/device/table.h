/* The devices that are known, by number. Entries are added by probe.c, under the lock of registry.c. */
#ifndef BTI_DEVICE_TABLE_H
#define BTI_DEVICE_TABLE_H

#include "device/device.h"
#include "base/lock.h"

struct bt_device {
    int id;
    bt_kind kind;
    int index; /* within its kind */
    const bti_driver *driver;
    bti_device_facts facts;
    char name[24], long_name[64];
    bool twin;           /* another driver has the same card: only its own name, opencl0:0, leads to it */
    bool unready;        /* a child found that it cannot be opened: no default */
    char *details;       /* lines of what a child told that opened it; NULL: none did */
    atomic_bool retired; /* replaced by a simulated one; no name leads to it */

    bti_lock lock;      /* of what follows */
    atomic_bool opened; /* then the next three stay as they are */
    void *state;        /* the driver's */
    struct bti_pool *pool;
    struct bti_programs *programs; /* under a lock of its own */
    int growth;                    /* the program's settings for this device: -1, 0: the flags' */
    double fraction;
    size_t limit, preallocate;
    atomic_llong live_arrays;
    atomic_size_t lent; /* bytes, to the driver */
};

/* Bit k: kind k. */
#define BTI_KIND(kind) (1u << (kind))
#define BTI_ALL_KINDS (BTI_KIND(BT_KIND_COUNT) - 1)
#define BTI_DEFAULT_KINDS (BTI_KIND(BT_TPU) | BTI_KIND(BT_GPU) | BTI_KIND(BT_CPU))

int bti_registry_total(void);
bt_device *bti_registry_at(int id);
bt_device *bti_registry_find(bt_kind kind, int index); /* NULL: there is none */
/* A new entry, all 0 but its number; NULL when there is no room. Seen by others once it is published. */
bt_device *bti_registry_new(void);
void bti_registry_publish(bt_device *device);
void bti_registry_clear(void);
/* A device was opened (1) or closed (-1). */
void bti_device_note_opened(int change);
void bti_device_forget_copied(int id);

#endif

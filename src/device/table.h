/* The devices that are known, by number. Entries are added by probe.c, under the lock of registry.c. */
#ifndef BTI_DEVICE_TABLE_H
#define BTI_DEVICE_TABLE_H

#include "device/device.h"
#include "base/lock.h"
#include "base/thread.h"

struct bt_device {
    int id;
    bt_kind kind;
    int index; /* within its kind */
    const bti_driver *driver;
    bti_device_facts facts;
    char name[24], long_name[64];
    bool twin;           /* another driver lists the same card: found only by its own name, such as opencl0:0 */
    bool unready;        /* a child found that it cannot be opened: never the default device */
    char *details;       /* lines by a child that opened it; NULL: there was none */
    atomic_bool retired; /* replaced by a simulated one; found by no name */

    bti_lock lock;      /* of what follows */
    atomic_bool opened; /* then the next three stay as they are */
    void *state;        /* the driver's */
    struct bti_pool *pool;
    struct bti_programs *programs; /* under a lock of its own */
    int growth;                    /* settings by calls; -1 or 0: the flags apply */
    double fraction;
    size_t limit, preallocate;
    bti_energy energy; /* the last reading of bt_device_energy */
    bti_counter live_arrays;
    atomic_size_t lent;   /* bytes that the driver has borrowed */
    atomic_size_t pinned; /* bytes of the host's memory that it holds for bt_pinned */

    atomic_bool is_late; /* written under late.c's lock, as is what follows */
    bti_error *late;     /* why; NULL: it is not */
    bool late_recorded;  /* the next one is an event, after everything that was launched before the device was late */
    bti_event late_after;
    struct bti_held *held, *came; /* came: the work is complete, and release was not called yet */

    struct bti_timings *timings; /* by the thread that launches; or NULL */
    bool clock_known;            /* under timings.c's lock: */
    uint64_t clock_ahead_ns;     /* of the process's clock before that of the driver's marks */
};

/* Bit k: kind k. */
#define BTI_KIND(kind) (1u << (kind))
#define BTI_ALL_KINDS (BTI_KIND(BT_KIND_COUNT) - 1)
#define BTI_DEFAULT_KINDS (BTI_KIND(BT_TPU) | BTI_KIND(BT_GPU) | BTI_KIND(BT_CPU))

int bti_registry_total(void);
bt_device *bti_registry_at(int id);
bt_device *bti_registry_find(bt_kind kind, int index); /* NULL: there is none */
/* A new entry, all 0 except its number; NULL when the table is full. Other threads see it once it is published. */
bt_device *bti_registry_new(void);
void bti_registry_publish(bt_device *device);
void bti_registry_clear(void);
/* A device was opened (1) or closed (-1). */
void bti_device_note_opened(int change);
void bti_device_forget_copied(int id);

#endif

/* What the files of this folder share: a device, and finding one. */
#ifndef BTI_DEVICE_REGISTRY_H
#define BTI_DEVICE_REGISTRY_H

#include <pthread.h>

#include "device/device.h"
#include "device/name.h"
#include "device/pool.h"
#include "drivers/sim/sim.h"

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

    pthread_mutex_t lock; /* of what follows */
    atomic_bool opened;   /* then the next three stay as they are */
    void *state;          /* the driver's */
    bti_pool *pool;
    struct bti_programs *programs; /* program.c; under a lock of its own */
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
/* Reads flags, mask and contexts, once, and asks drivers for their devices of these kinds, each kind once. */
void bti_registry_ensure(unsigned kinds);
/* The fault in the settings that was found then (flags, devices, contexts, default device). */
bt_status bti_registry_check(unsigned kinds);

/* Below: the registry has been read, or is being read by this thread. */
int bti_registry_total(void);
bt_device *bti_registry_at(int id);
bt_device *bti_registry_find(bt_kind kind, int index); /* NULL: there is none */
/* The device of a parsed name; NOT_FOUND says what there is. Context names are looked up. `shown` is the name as given. */
bt_status bti_registry_resolve(const bti_name *name, const char *shown, bt_device **device);

/* --- probe.c: under the registry's lock --- */
typedef struct bti_view { /* through which drivers' devices are seen */
    const bti_sim_spec *simulated;
    const char *mask; /* CUDA_VISIBLE_DEVICES; NULL: unset */
} bti_view;
/* Asks drivers for their devices of these kinds, which were not asked for yet, and adds them. */
void bti_probe(unsigned kinds, const bti_view *view);
/* Simulated devices of these kinds anew; those before are retired. */
void bti_probe_simulated(unsigned kinds, const bti_view *view);
/* Why there are none: what drivers of the kind tried, and what the mask hid. */
void bti_probe_reasons(bt_kind kind, bool none, bti_str *text);
/* How the library of a driver (NULL: of any) of the kind, which was asked for, hung, crashed or ended the process; NULL: none did. */
const char *bti_probe_fault(bt_kind kind, const char *driver);
/* Why GPUs of a maker cannot be used, although its driver is there; NULL: nothing speaks for that. */
const char *bti_probe_broken(const char **maker);
void bti_probe_forget(void);
/* registry.c: a new entry, all 0 but its number; NULL when there is no room. Seen by others once it is published. */
bt_device *bti_registry_new(void);
void bti_registry_publish(bt_device *device);

/* --- context.c --- */
/* Puts a new map in the place of the old one; the lines to log are added to `notices`, one a line. */
bt_status bti_contexts_set(const char *map, bti_str *notices);
void bti_contexts_clear(void);
/* The device that a context name stands for. */
bt_status bti_context_find(const char *context, bt_device **device);

/* --- memory.c --- */
/* Makes the device's pool by its settings; on failure nothing stays. Under the device's lock. */
bt_status bti_memory_open(bt_device *device);
/* The allocator of launch/program.h: blocks that no work uses which is launched later than now. */
bt_status bti_memory_lend(int id, size_t bytes, uint64_t *address, void **lent);
void bti_memory_take_back(int id, void *block);

/* --- program.c --- */
struct bti_programs *bti_programs_new(void); /* NULL when memory is short */
void bti_programs_delete(bt_device *device); /* every program; for the closing of the device */

/* --- device.c --- */
void bti_device_close(bt_device *device);
/* A copy between two devices through a buffer of the host, in chunks. */
bt_status bti_device_copy_over_host(bt_device *to_device, uint64_t to, bt_device *from_device, uint64_t from,
                                    size_t bytes);

#endif

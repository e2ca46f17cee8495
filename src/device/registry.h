/* What the files of this folder share: a device, and finding one. */
#ifndef BTI_DEVICE_REGISTRY_H
#define BTI_DEVICE_REGISTRY_H

#include <pthread.h>

#include "base/vec.h"
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
/* --- table.c --- */
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
/* --- context.c --- */
typedef struct bti_context {
    char context[96], device_text[96];
    bti_name device;
} bti_context;
typedef BTI_VEC(bti_context) bti_context_list;
/* Parses the next mapping of *text, past which it moves, and adds it; at the end of the text none. */
bt_status bti_contexts_add(const char **text, bti_context_list *list);
/* The list becomes the map, and the map the list. */
void bti_contexts_swap(bti_context_list *list);
void bti_contexts_clear(void);
/* What a context name is mapped to; NOT_FOUND. */
bt_status bti_context_find(const char *context, bti_context *found);

/* --- registry.c --- */
/* Reads flags, mask and contexts, once, and asks drivers for their devices of these kinds, each kind once. */
void bti_registry_ensure(unsigned kinds);
/* At the start of every public question: also looks whether the mask was changed too late. */
void bti_registry_ensure_for_query(unsigned kinds);
/* The same, and the fault in the settings that was found then (flags, devices, contexts, default device). */
bt_status bti_registry_check(unsigned kinds);
bool bti_registry_is_faulty(void);
/* The device of a parsed name; NOT_FOUND says what there is. Context names are looked up. `shown` is the name as given. */
bt_status bti_registry_resolve(const bti_name *name, const char *shown, bt_device **device);
/* Parses and resolves; of an empty name *device stays. */
bt_status bti_registry_find_name(const char *text, bt_device **device);
/* NOT_FOUND: what there is of the kind, or why there is none. */
bt_status bti_registry_missing(bt_kind kind, const char *shown);
/* What a library did that kept devices of such a name from being listed; NULL when none misbehaved. */
const char *bti_registry_fault_of(const bti_name *name);
/* How often devices were replaced by simulated ones, or all forgotten. */
uint64_t bti_registry_changes(void);
/* As bti_probe_broken; the text is yours to bti_free. */
char *bti_registry_broken(const char **maker);
/* For shutdown, when all devices are closed: everything as at the start. */
void bti_registry_forget(void);

/* --- memory.c --- */
/* Makes the device's pool by its settings; on failure nothing stays. Under the device's lock. */
bt_status bti_memory_open(bt_device *device);
/* The allocator of launch/program.h: blocks that no work uses which is launched later than now. */
bt_status bti_memory_lend(int id, size_t bytes, uint64_t *address, void **lent);
void bti_memory_take_back(int id, void *block);

/* --- program.c --- */
struct bti_programs *bti_programs_new(void); /* NULL when memory is short */
void bti_programs_delete(bt_device *device); /* every program; for the closing of the device */
/* Of an open device; as bti_device_program. */
bt_status bti_programs_get(bt_device *device, const bti_program_source *source, bti_program **program);

/* --- device.c --- */
/* A copy between two devices through a buffer of the host, in chunks. */
bt_status bti_device_copy_over_host(bt_device *to_device, uint64_t to, bt_device *from_device, uint64_t from,
                                    size_t bytes);

#endif

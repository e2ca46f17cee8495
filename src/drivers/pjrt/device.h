/* Devices of PJRT plugins, which load graphs: a program is a StableHLO module, and memory is a table of slots. The files, in the order in which they call each other:
 *
 *     error.c     a plugin's errors          events.c    what was launched and is not complete
 *     types.c     dtypes and layouts         slots.c     memory: bytes of the host, or a buffer of the plugin's
 *     search.c    where plugins lie          convert.c   one made from the other
 *     plugin.c    libraries, tables          transfer.c  uploads, downloads, copies
 *     client.c    clients, their devices     program.c   compilation
 *     probe.c     what devices there are     launch.c    one run of a program
 *                                            pjrt.c      the driver's table
 *
 * An address is a slot's number << 36 and an offset. A buffer of a plugin's is a value that never changes: a launch, an upload or a copy puts other contents into the slot, so
 * that what was launched before keeps what it reads, and a copy shares the buffer. Contents are counted references: readers take one under the device's lock and work
 * without it. No lock is held while a plugin works, but for its start (pjrt_plugins). */
#ifndef BTI_DRIVERS_PJRT_DEVICE_H
#define BTI_DRIVERS_PJRT_DEVICE_H

#include <stdatomic.h>

#include "base/lock.h"
#include "base/vec.h"
#include "drivers/driver.h"
#include "drivers/pjrt/api.h"

/* --- error.c --------------------------------------------------------------------------------------------------------- */
/* BT_OK, or an error with the device or plugin, what it was asked for, and its own words. Destroys what the plugin returned. */
bt_status bti_pjrt_check(const bti_pjrt_calls *calls, const char *whom, const char *what, bti_pjrt_error *error);
/* Destroys it. */
void bti_pjrt_ignore(const bti_pjrt_calls *calls, bti_pjrt_error *error);
/* Destroys an object by this entry; NULL is fine. */
void bti_pjrt_drop(const bti_pjrt_calls *calls, bti_pjrt_error *(*destroy)(bti_pjrt_one *), void *object);
/* A text of the plugin's, shortened to fit, "" when it gives none. */
void bti_pjrt_read_text(const bti_pjrt_calls *calls, bti_pjrt_error *(*entry)(bti_pjrt_text *), void *object,
                        char *text, size_t size);

/* --- types.c --------------------------------------------------------------------------------------------------------- */
bt_status bti_pjrt_type(bt_dtype dtype, int *type);
/* Bytes of a dense array; false on overflow. */
bool bti_pjrt_bytes(const bti_type *type, size_t *bytes);
bool bti_pjrt_same_type(const bti_type *a, const bti_type *b);

/* --- search.c -------------------------------------------------------------------------------------------------------- */
enum { BTI_PJRT_PLUGINS = 32, BTI_PJRT_PATH = 1024, BTI_PJRT_DEVICES = 64 };
typedef struct bti_pjrt_named {
    bt_kind kind;
    char path[BTI_PJRT_PATH];
} bti_pjrt_named;
/* The plugins of these kinds that the flag names, or, where it is empty, libtpu. Opens no library. Lines of `reason`: what was looked for in vain, and what is wrong with the flag. */
int bti_pjrt_search(unsigned kinds, bti_pjrt_named *named, bti_str *reason);
/* Whether this may be a machine of Google Cloud's with a TPU. */
bool bti_pjrt_may_be_on_cloud(void);

/* --- plugin.c -------------------------------------------------------------------------------------------------------- */
typedef struct bti_pjrt_client bti_pjrt_client;
typedef struct bti_pjrt_plugin {
    bt_kind kind;
    int number; /* in ordinals */
    char path[BTI_PJRT_PATH];
    const bti_pjrt_table *table; /* NULL: it has not started */
    int major, minor;
    bti_pjrt_calls calls;
    bti_pjrt_client *client; /* NULL, or the one of this process */
} bti_pjrt_plugin;
/* The lock of plugins and their clients; all of the next functions are called under it. */
void bti_pjrt_plugins_begin(void);
void bti_pjrt_plugins_end(void);
/* The plugin of that name, new or old; NULL when there are too many. */
bti_pjrt_plugin *bti_pjrt_plugin_named(const bti_pjrt_named *named);
bti_pjrt_plugin *bti_pjrt_plugin_at(int number);
/* Opens the library and initialises it, once per process. */
bt_status bti_pjrt_plugin_start(bti_pjrt_plugin *plugin);

/* --- client.c -------------------------------------------------------------------------------------------------------- */
typedef struct bti_pjrt_program bti_pjrt_program;
struct bti_pjrt_client {
    const bti_pjrt_plugin *plugin;
    const bti_pjrt_calls *calls;
    void *handle;
    void *const *devices; /* addressable by this process */
    int device_count;
    struct bti_pjrt_device *open; /* devices, under the lock of plugins */
    long process;
    char platform[32], version[256];
    bool is_cpu;                /* its devices are the host's CPU */
    _Atomic int portable;       /* programs run on each of its devices: 1 yes, 0 not known yet, -1 no */
    bti_lock lock;              /* of `programs` */
    bti_pjrt_program *programs; /* those that its devices share */
    atomic_uint compiled, shared;
    atomic_ullong compile_ns;
};
/* The client of a plugin, made when there is none. It stays until bti_pjrt_client_close, or the end of the process. */
bt_status bti_pjrt_client_open(bti_pjrt_plugin *plugin, bti_pjrt_client **client);
/* Destroys it when no device of it is open. Both under the lock of plugins. */
void bti_pjrt_client_close(bti_pjrt_client *client);
/* Free and total bytes; false: not known. */
bool bti_pjrt_client_memory(const bti_pjrt_client *client, int device, size_t *free_bytes, size_t *total_bytes);
void bti_pjrt_client_kind(const bti_pjrt_client *client, int device, char *text, size_t size);
/* The number by which programs name the device. */
bt_status bti_pjrt_client_id(const bti_pjrt_client *client, int device, int *id);

/* --- probe.c --------------------------------------------------------------------------------------------------------- */
bool bti_pjrt_detect(unsigned kinds, bti_str *reason);
bt_status bti_pjrt_probe(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason);

/* --- an open device -------------------------------------------------------------------------------------------------- */
typedef struct bti_pjrt_launch bti_pjrt_launch;
typedef struct bti_pjrt_fault bti_pjrt_fault;
typedef struct bti_pjrt_slot bti_pjrt_slot;
typedef struct bti_pjrt_device {
    struct bti_pjrt_device *next; /* of the client's that are open */
    bti_pjrt_client *client;
    const bti_pjrt_calls *calls; /* the client's */
    void *handle;
    int ordinal, index;
    char name[128];            /* for messages */
    _Atomic(bti_error *) lost; /* why the device is lost; NULL */

    bti_lock slots_lock; /* of the table and what the slots hold */
    BTI_VEC(bti_pjrt_slot *) slots;
    BTI_VEC(size_t) free_slots; /* numbers */
    atomic_uint retyped;        /* arrays that were fetched to get another type, or length */

    bti_lock events_lock; /* of the next ones */
    bti_pjrt_launch *first, *last;
    uint64_t recorded; /* events so far */
    bti_pjrt_fault *faults;
} bti_pjrt_device;

/* BT_OK, or UNAVAILABLE with the reason why the device is lost. */
bt_status bti_pjrt_check_lost(bti_pjrt_device *device);
/* bti_pjrt_check of what the device was asked for; UNAVAILABLE marks it as lost. */
bt_status bti_pjrt_try(bti_pjrt_device *device, const char *what, bti_pjrt_error *error);

/* --- events.c -------------------------------------------------------------------------------------------------------- */
/* A place for a launch, so that noting one cannot fail. NULL: no memory. */
bti_pjrt_launch *bti_pjrt_launch_new(void);
void bti_pjrt_launch_free(bti_pjrt_launch *launch);
/* The launch has begun, and this event of the plugin's is its end. */
void bti_pjrt_note_launch(bti_pjrt_device *device, bti_pjrt_launch *launch, void *event);
/* Waits for an event of the plugin's, and destroys it. */
bt_status bti_pjrt_await(bti_pjrt_device *device, const char *what, void *event);
bt_status bti_pjrt_record(void *device, bti_event *event);
bt_status bti_pjrt_wait(void *device, bti_event event);
bt_status bti_pjrt_query(void *device, bti_event event, bool *done);
bt_status bti_pjrt_sync(void *device);
/* Whether there are launches that nobody has found complete. */
bool bti_pjrt_has_launches(bti_pjrt_device *device);
/* Waits for all launches; their errors stay those of the events behind them. */
void bti_pjrt_finish_launches(bti_pjrt_device *device);
/* The same, and forgets these errors. */
void bti_pjrt_forget_launches(bti_pjrt_device *device);
/* Whether all launches are complete. */
bool bti_pjrt_is_idle(bti_pjrt_device *device);

/* --- slots.c --------------------------------------------------------------------------------------------------------- */
#define BTI_PJRT_SLOT_BITS 36

/* Bytes of the host's. */
typedef struct bti_pjrt_store {
    atomic_int users;
    size_t bytes;
    char *at; /* aligned to BTI_MEMORY_ALIGN */
} bti_pjrt_store;
/* Zeros. */
bti_pjrt_store *bti_pjrt_store_new(size_t bytes);
bti_pjrt_store *bti_pjrt_store_retain(bti_pjrt_store *store);
void bti_pjrt_store_release(bti_pjrt_store *store);

typedef struct bti_pjrt_buffer {
    atomic_int users;
    const bti_pjrt_calls *calls;
    void *handle;  /* NULL: none yet */
    bti_type type; /* of the array */
    bti_type held; /* the plugin's: longer along some axes, or the same */
    size_t bytes;  /* of the array */
} bti_pjrt_buffer;
bt_status bti_pjrt_buffer_new(const bti_pjrt_calls *calls, const bti_type *type, const bti_type *held,
                              bti_pjrt_buffer **buffer);
bti_pjrt_buffer *bti_pjrt_buffer_retain(bti_pjrt_buffer *buffer);
void bti_pjrt_buffer_release(bti_pjrt_buffer *buffer);

/* What a slot holds: nothing, `host`, `buffer`, both of the same elements, or why its elements are lost. */
typedef struct bti_pjrt_contents {
    bti_pjrt_store *host;
    bti_pjrt_buffer *buffer;
    bti_error *failure;
} bti_pjrt_contents;
void bti_pjrt_contents_release(bti_pjrt_contents *contents);

struct bti_pjrt_slot {
    size_t bytes;
    bti_pjrt_contents contents;
};
bt_status bti_pjrt_alloc(void *device, size_t bytes, uint64_t *address);
void bti_pjrt_free(void *device, uint64_t address, size_t bytes);
void bti_pjrt_free_all(bti_pjrt_device *device);
/* The slot of an address, and the offset in it; `bytes` from there lie within. */
bt_status bti_pjrt_find(bti_pjrt_device *device, uint64_t address, size_t bytes, bti_pjrt_slot **slot, size_t *offset);
/* References to what the slot holds; a failure if the elements are lost. */
bt_status bti_pjrt_look(bti_pjrt_device *device, bti_pjrt_slot *slot, bti_pjrt_contents *contents);
/* Takes over other contents. */
void bti_pjrt_put(bti_pjrt_device *device, bti_pjrt_slot *slot, bti_pjrt_contents contents);
/* The same, unless the slot holds another store or buffer than `seen` by now; then they are released. */
void bti_pjrt_replace(bti_pjrt_device *device, bti_pjrt_slot *slot, const bti_pjrt_contents *seen,
                      bti_pjrt_contents contents);

/* --- convert.c ------------------------------------------------------------------------------------------------------- */
/* Copies the elements of a buffer to the host, row-major; waits. */
bt_status bti_pjrt_fetch_into(bti_pjrt_device *device, const bti_pjrt_buffer *buffer, void *host);
/* The bytes of the contents, `bytes` at least: their store, or a new one. Retained. */
bt_status bti_pjrt_bytes_of(bti_pjrt_device *device, const bti_pjrt_contents *contents, size_t bytes,
                            bti_pjrt_store **store);
/* The slot's elements as an array of this type, in a buffer of the type `held`, retained; the slot keeps it. Waits only if it holds an array of other types. */
bt_status bti_pjrt_typed(bti_pjrt_device *device, bti_pjrt_slot *slot, const bti_type *type, const bti_type *held,
                         bti_pjrt_buffer **buffer);

/* --- transfer.c ------------------------------------------------------------------------------------------------------ */
bt_status bti_pjrt_upload(void *device, uint64_t address, const void *host, size_t bytes);
bt_status bti_pjrt_download(void *device, void *host, uint64_t address, size_t bytes);
bt_status bti_pjrt_copy(void *device, uint64_t to, uint64_t from, size_t bytes);
bt_status bti_pjrt_fill(void *device, uint64_t address, int byte, size_t bytes);
bt_status bti_pjrt_peer_copy(void *to_device, uint64_t to, void *from_device, uint64_t from, size_t bytes);

/* --- program.c ------------------------------------------------------------------------------------------------------- */
struct bti_pjrt_program {
    bti_pjrt_program *next;
    bti_pjrt_client *client;
    int users;        /* of those that are shared, under the client's lock */
    bool is_portable; /* runs on each device of the client */
    void *executable;
    void *own[BTI_PJRT_DEVICES]; /* by device: of one that runs on each by its word, and did not on that device; NULL */
    uint64_t hash;
    char *text;
    size_t bytes;
    int input_count, output_count;
    bti_type *types; /* inputs, outputs */
    int *aliases;
};
bt_status bti_pjrt_program_load(void *device, const bti_program_source *source, void **program);
void bti_pjrt_program_free(void *device, const bti_program_source *source, void *program);
/* Compiles the program once more, for this device alone: its `own`. */
bt_status bti_pjrt_compile_own(bti_pjrt_device *device, bti_pjrt_program *program);

/* --- launch.c -------------------------------------------------------------------------------------------------------- */
bt_status bti_pjrt_launch_segment(void *device, void *program, const uint64_t *addresses, const bti_type *types);

#endif

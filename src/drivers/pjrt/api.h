/* The C interface of PJRT plugins, as far as it is used: the shared libraries by which XLA's compilers drive TPUs, GPUs, CPUs and accelerators.
 *
 * A plugin exports GetPjrtApi, which returns a table of functions (entries.def). Each takes one struct, which begins with its size, and returns NULL or an
 * error that the caller destroys. Objects are pointers that the caller destroys too, unless a comment says "borrowed". Structs are zeroed but for what is set. A plugin
 * refuses a struct that is smaller than the one that it knows, and takes a larger one, so they have the largest known sizes (version 0.114). */
#ifndef BTI_DRIVERS_PJRT_API_H
#define BTI_DRIVERS_PJRT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BTI_PJRT_MAJOR 0
#define BTI_PJRT_OLDEST_MINOR 57 /* before it the table had another order */

typedef struct bti_pjrt_error bti_pjrt_error;

/* The size that a struct begins with: up to its last member, without what pads it. */
#define BTI_PJRT_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

/* --- arguments that several functions have in common ---------------------------------------------------------------- */

typedef struct bti_pjrt_none {
    size_t size;
    void *extension;
} bti_pjrt_none;

/* Destroys an object, or waits for an event. */
typedef struct bti_pjrt_one {
    size_t size;
    void *extension, *object;
} bti_pjrt_one;

/* Another object, or a borrowed one. */
typedef struct bti_pjrt_get {
    size_t size;
    void *extension, *object, *result;
} bti_pjrt_get;

typedef struct bti_pjrt_bool {
    size_t size;
    void *extension, *object;
    bool result;
} bti_pjrt_bool;

typedef struct bti_pjrt_int {
    size_t size;
    void *extension, *object;
    int result;
} bti_pjrt_int;

typedef struct bti_pjrt_size {
    size_t size;
    void *extension, *object;
    size_t result;
} bti_pjrt_size;

/* Borrowed from the object; without a NUL behind it. */
typedef struct bti_pjrt_text {
    size_t size;
    void *extension, *object;
    const char *text;
    size_t length;
} bti_pjrt_text;

/* Borrowed from the object. */
typedef struct bti_pjrt_list {
    size_t size;
    void *extension, *object;
    void *const *items;
    size_t count;
} bti_pjrt_list;

/* --- events ---------------------------------------------------------------------------------------------------------- */

/* The function is called once, on any thread, also right away; the error is its to destroy. The event may be destroyed before. */
typedef struct bti_pjrt_on_ready {
    size_t size;
    void *extension, *event;
    void (*call)(bti_pjrt_error *error, void *data);
    void *data;
} bti_pjrt_on_ready;

/* --- clients and devices --------------------------------------------------------------------------------------------- */

typedef struct bti_pjrt_client_options {
    size_t size;
    void *extension;
    const void *options;
    size_t option_count;
    void *key_value[4]; /* functions by which processes of several hosts find each other, and their arguments */
    void *client;       /* result */
    void *try_get[2];
} bti_pjrt_client_options;

typedef struct bti_pjrt_stat {
    int64_t value;
    bool is_set;
} bti_pjrt_stat;

typedef struct bti_pjrt_memory_stats {
    size_t size;
    void *extension, *device;
    int64_t used_bytes;      /* results */
    bti_pjrt_stat before[3]; /* the peak, the number of allocations, the largest */
    bti_pjrt_stat limit_bytes;
    bti_pjrt_stat after[6];
    int64_t last_value;
    bool last_is_set;
} bti_pjrt_memory_stats;

/* --- buffers --------------------------------------------------------------------------------------------------------- */

/* Types of elements, by their numbers. */
enum {
    BTI_PJRT_PRED = 1,
    BTI_PJRT_S8,
    BTI_PJRT_S16,
    BTI_PJRT_S32,
    BTI_PJRT_S64,
    BTI_PJRT_U8,
    BTI_PJRT_U16,
    BTI_PJRT_U32,
    BTI_PJRT_U64,
    BTI_PJRT_F16,
    BTI_PJRT_F32,
    BTI_PJRT_F64,
    BTI_PJRT_BF16,
    BTI_PJRT_C64,
    BTI_PJRT_C128,
    BTI_PJRT_F8E5M2,
    BTI_PJRT_F8E4M3FN
};

/* How long the bytes of the host stay as they are: until the event, which comes when they were copied, or, of zero copy, when the buffer is destroyed. */
enum { BTI_PJRT_DURING_CALL, BTI_PJRT_UNTIL_COPIED, BTI_PJRT_ZERO_COPY };

typedef struct bti_pjrt_from_host {
    size_t size;
    void *extension, *client;
    const void *data;
    int type;
    const int64_t *shape;
    size_t rank;
    const int64_t *strides; /* NULL: dense, row-major */
    size_t stride_count;
    int semantics;
    void *device, *memory; /* memory NULL: that of the device */
    void *layout;          /* NULL: the device's own */
    void *done;            /* result: the event, ready when the host's memory may be freed */
    void *buffer;          /* result */
} bti_pjrt_from_host;

/* Tiles: none. */
typedef struct bti_pjrt_layout {
    size_t size;
    void *extension;
    struct {
        size_t size;
        void *extension;
        const int64_t *minor_to_major; /* axes, the innermost first */
        size_t rank;
        const int64_t *tile_sizes;
        const size_t *tile_ranks;
        size_t tile_count;
    } tiled;
    int type; /* 0: tiled */
} bti_pjrt_layout;

typedef struct bti_pjrt_to_host {
    size_t size;
    void *extension, *buffer;
    bti_pjrt_layout *layout; /* NULL: as it lies on the device */
    void *host;
    size_t bytes;
    void *event; /* result: ready when the bytes are there */
} bti_pjrt_to_host;

typedef struct bti_pjrt_copy_to {
    size_t size;
    void *extension, *buffer, *target;
    void *result;
} bti_pjrt_copy_to;

/* --- programs -------------------------------------------------------------------------------------------------------- */

typedef struct bti_pjrt_program_text {
    size_t size;
    void *extension;
    char *text;
    size_t bytes;
    const char *format; /* "mlir" */
    size_t format_bytes;
} bti_pjrt_program_text;

typedef struct bti_pjrt_compile {
    size_t size;
    void *extension, *client;
    const bti_pjrt_program_text *program;
    const char *options; /* a serialized CompileOptionsProto */
    size_t option_bytes;
    void *executable; /* result */
} bti_pjrt_compile;

typedef struct bti_pjrt_execute_options {
    size_t size;
    void *extension;
    void *sends, *receives;
    size_t send_count, receive_count;
    int launch;
    const int64_t *kept; /* inputs that keep their memory, whatever the program says */
    size_t kept_count;
    void *context;
    const char *place;
    size_t task_count;
    int *tasks;
    int64_t *incarnations;
    uint64_t later[4]; /* 0: as without them */
} bti_pjrt_execute_options;

typedef struct bti_pjrt_execute {
    size_t size;
    void *extension, *executable;
    bti_pjrt_execute_options *options;
    void *const *const *inputs; /* [device][input] */
    size_t device_count, input_count;
    void **const *outputs; /* [device][output]: results */
    void **events;         /* [device]: results, ready when the run is complete */
    void *device;          /* NULL: that of compilation */
} bti_pjrt_execute;

/* --- the table ------------------------------------------------------------------------------------------------------- */

typedef struct bti_pjrt_table {
    size_t size; /* of the table, in bytes */
    void *extension;
    struct {
        size_t size;
        void *extension;
        int major, minor;
    } version;
    void *entries[];
} bti_pjrt_table;

/* What was read from it; optional entries that it lacks are NULL. */
typedef struct bti_pjrt_calls {
#define BTI_PJRT(slot, name, title, arguments, need) bti_pjrt_error *(*name)(arguments *);
#include "drivers/pjrt/entries.def"
} bti_pjrt_calls;

_Static_assert(offsetof(bti_pjrt_table, entries) == 40, "the head of the table");
_Static_assert(BTI_PJRT_SIZE(bti_pjrt_bool, result) == 25, "of PJRT_Event_IsReady");
_Static_assert(BTI_PJRT_SIZE(bti_pjrt_client_options, try_get) == 88, "of PJRT_Client_Create");
_Static_assert(BTI_PJRT_SIZE(bti_pjrt_memory_stats, last_is_set) == 201, "of PJRT_Device_MemoryStats");
_Static_assert(offsetof(bti_pjrt_memory_stats, limit_bytes) == 80, "of PJRT_Device_MemoryStats");
_Static_assert(BTI_PJRT_SIZE(bti_pjrt_from_host, buffer) == 120, "of PJRT_Client_BufferFromHostBuffer");
_Static_assert(BTI_PJRT_SIZE(bti_pjrt_layout, type) == 76, "of PJRT_Buffer_MemoryLayout");
_Static_assert(BTI_PJRT_SIZE(bti_pjrt_to_host, event) == 56, "of PJRT_Buffer_ToHostBuffer");
_Static_assert(BTI_PJRT_SIZE(bti_pjrt_execute_options, later) == 144, "of PJRT_ExecuteOptions");
_Static_assert(offsetof(bti_pjrt_execute_options, kept) == 56, "of PJRT_ExecuteOptions");
_Static_assert(BTI_PJRT_SIZE(bti_pjrt_execute, device) == 80, "of PJRT_LoadedExecutable_Execute");

#endif

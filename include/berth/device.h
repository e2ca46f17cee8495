/* berth/device.h: finding devices, their names and properties, and their memory.
 *
 * A device pointer is borrowed: it is never freed and is valid until bt_shutdown. Listing and describing devices opens
 * none and takes no device memory. Every call here may be made from any thread.
 *
 * Names (case does not matter): `cpu`, `gpu:1`, `/GPU:1`, `/device:GPU:1`,
 * `/job:localhost/replica:0/task:0/device:GPU:1`, `/physical_device:CPU:0`, `cuda0`, `cuda:0`, `cuda` (GPU N, real CUDA
 * or simulated), `opencl0:0` (platform:device), `tpu:0`, a UUID, a PCI bus id, or a context name (flag `contexts`). A
 * name without a number is the lowest device of its kind.
 */
#ifndef BERTH_DEVICE_H
#define BERTH_DEVICE_H

#include <berth/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum bt_kind {
    BT_CPU,
    BT_GPU,
    BT_TPU,
    BT_ACC, /* other OpenCL devices */
    BT_KIND_COUNT
} bt_kind;

typedef struct bt_device bt_device;

/* "CPU", "GPU", "TPU", "ACC". */
BT_API const char *bt_kind_name(bt_kind kind);

/* The number of visible devices of a kind; 0 when there are none, never an error. */
BT_API int bt_device_count(bt_kind kind);

/* Device `index` of a kind (0 is the lowest); NULL when it does not exist (NOT_FOUND in the error record). */
BT_API bt_device *bt_device_get(bt_kind kind, int index);
#define bt_device_get(...) BTI_AT(bt_device *, bt_device_get(__VA_ARGS__))

/* Finds a device by its name. INVALID_ARGUMENT: not a device name; NOT_FOUND: no such device or context. */
BT_API BT_MUST_USE bt_status bt_device_find(const char *name, bt_device **device);
#define bt_device_find(...) BTI_AT_MUST(bt_device_find(__VA_ARGS__))

/* Writes up to `capacity` devices of a kind to `devices` (borrowed); returns how many the machine has. */
BT_API int bt_device_list(bt_kind kind, bt_device **devices, int capacity);

/* TPU i if there is one, else GPU i, else the CPU (try_gpu of Dive into Deep Learning). Never NULL. */
BT_API bt_device *bt_try_tpu_gpu(int i);

/* Writes all GPUs (up to `capacity`), or the CPU if there is no GPU; returns how many were written. */
BT_API int bt_try_all_gpus(bt_device **devices, int capacity);

/* The name, the long name and a description: "GPU:1"; "/job:localhost/replica:0/task:0/device:GPU:1"; "Simulated GPU".
 * The device owns the texts. */
BT_API const char *bt_device_name(const bt_device *device);
BT_API const char *bt_device_long_name(const bt_device *device);
BT_API const char *bt_device_description(const bt_device *device);
BT_API bt_kind bt_device_kind(const bt_device *device);
BT_API int bt_device_index(const bt_device *device);
BT_API const char *bt_device_driver(const bt_device *device); /* "cpu", "sim", "cuda", ... */

/* Where a call names a device, a `const char *` is a name, and a bt_device * the device itself. */
static inline const char *bti_device_name_itself(const char *name) { return name; }
static inline const char *bti_device_name_of(const bt_device *device) {
    return device ? bt_device_long_name(device) : NULL;
}
#ifdef BERTH_BUILDING
#define BTI_DEVICE(device) device
#elif defined __cplusplus
}
static inline const char *bti_device_named(const char *name) { return name; }
template <int = 0> static inline const char *bti_device_named(const bt_device *device) { /* NULL is the other one's */
    return bti_device_name_of(device);
}
extern "C" {
#define BTI_DEVICE(device) bti_device_named(device)
#else
#define BTI_DEVICE(device) \
    _Generic((device), bt_device * : bti_device_name_of, const bt_device * : bti_device_name_of, \
             char * : bti_device_name_itself, const char * : bti_device_name_itself,             \
             void * : bti_device_name_itself)(device)
#endif

/* "[GPU:0, GPU:1]", or with long names. The caller owns the text: bt_free. NULL when host memory is exhausted. */
BT_API char *bt_device_list_text(bt_device *const *devices, int count, bool long_names);
#define bt_device_list_text(...) BTI_AT(char *, bt_device_list_text(__VA_ARGS__))

/* Frees a text that berth returned to the caller. NULL is accepted. With `BT_TEXT text = bt_to_text(x);` the compiler
 * frees it at the end of the C block. */
BT_API void bt_free(void *memory);
#define BT_TEXT __attribute__((cleanup(bti_free_text))) char *
static inline void bti_free_text(char **text) { bt_free(*text); }

/* What is known of a device. Initialise it with BT_DEVICE_INFO_INIT. The device owns the texts. */
typedef struct bt_device_info {
    size_t size BTI_INITIALLY(sizeof(bt_device_info));
    bt_kind kind;
    int index;
    const char *name, *long_name, *description, *driver, *driver_version, *uuid, *pci_bus_id;
    int capability_major, capability_minor; /* CUDA compute capability; 0.0 where there is none */
    size_t memory_bytes;                    /* total; 0: unknown */
    bool opened;
    /* Lines of text: the libraries and versions of the device, or why it cannot be opened. Filled with the flag probe=open, for
     * devices of third-party drivers (cuda, opencl); else "". */
    const char *details;
} bt_device_info;
#define BT_DEVICE_INFO_INIT BTI_INFO_INIT(bt_device_info)
BT_API BT_MUST_USE bt_status bt_device_describe(const bt_device *device, bt_device_info *info);
#define bt_device_describe(...) BTI_AT_MUST(bt_device_describe(__VA_ARGS__))

/* Whether devices of a kind can be used. `reason` (may be NULL) receives why or why not: which library was tried, what
 * the loader said, the mask. The caller owns that text: bt_free. */
BT_API bool bt_functional(bt_kind kind, char **reason);

/* The device of operations that are outside of any BT_ON block and have no committed inputs: the lowest TPU, else the
 * lowest GPU, else the CPU, unless set by the flag `default_device` or by bt_set_default_device (NULL restores the
 * rule), per process, or by a block BT_DEFAULT (array.h) of the calling thread. */
BT_API bt_device *bt_default_device(void);
BT_API BT_MUST_USE bt_status bt_set_default_device(const char *name);
#define bt_set_default_device(device) BTI_AT_MUST(bt_set_default_device(BTI_DEVICE(device)))

/* --- which devices there are ---------------------------------------------------------------------------------------- */

/* TensorFlow's set_visible_devices: of a kind only these are there from now on, numbered in the list's order; count 0: none. The others are not
 * listed, found or opened, and pointers to devices of the kind from before must not be used. Any thread. INVALID_ARGUMENT: a device of another kind, one twice, or NULL;
 * FAILED_PRECONDITION: a device of the kind was opened already, or lists were replaced so often that there is no room for more;
 * UNIMPLEMENTED: BT_CPU, which is always there. On an error nothing is changed. */
BT_API BT_MUST_USE bt_status bt_set_visible_devices(bt_kind kind, bt_device *const *devices, int count);
#define bt_set_visible_devices(...) BTI_AT_MUST(bt_set_visible_devices(__VA_ARGS__))
/* TensorFlow's logical device configuration: the hardware of `device` becomes `count` >= 1 devices, with memory limits of limits[i] bytes (0: none of its own), so
 * that a program for several GPUs runs on one. They take the device's place in the order, those behind it move. Each has queues and memory of its own;
 * they share its cores, and what is copied from one to another goes over its memory. Simulated ones with a clock compute as if each had a card. Pointers and
 * errors as for bt_set_visible_devices. */
BT_API BT_MUST_USE bt_status bt_set_logical_devices(bt_device *device, const size_t *limits, int count);
#define bt_set_logical_devices(...) BTI_AT_MUST(bt_set_logical_devices(__VA_ARGS__))
/* "[PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')]": what the machine has of a kind, hidden by bt_set_visible_devices or not;
 * "[LogicalDevice(name='/device:GPU:0', device_type='GPU')]": what programs use. As TensorFlow prints them. The caller owns the text: bt_free. NULL when host memory
 * is exhausted, or kind is none. */
BT_API char *bt_physical_devices_text(bt_kind kind);
#define bt_physical_devices_text(...) BTI_AT(char *, bt_physical_devices_text(__VA_ARGS__))
BT_API char *bt_logical_devices_text(bt_kind kind);
#define bt_logical_devices_text(...) BTI_AT(char *, bt_logical_devices_text(__VA_ARGS__))

/* --- context names ------------------------------------------------------------------------------------------------ */

/* Maps names to devices: "dev0->cuda0;dev1->cuda1" (the flag `contexts` does the same at start-up). A name may not
 * contain `->` or `;`, nor begin with `cuda` or `opencl`. While the flag `print_active_device` is on, each mapping is
 * logged: "Mapped name dev0 to device cuda0: NVIDIA H200". On an error no name is mapped. */
BT_API BT_MUST_USE bt_status bt_set_contexts(const char *map);
#define bt_set_contexts(...) BTI_AT_MUST(bt_set_contexts(__VA_ARGS__))

/* --- simulated devices -------------------------------------------------------------------------------------------- */

/* Replaces the devices of a kind by simulated ones, as the flag `devices` does: "sim:gpu*4", "sim:tpu*2";
 * or by cards or a CPU with a model and a clock, "sim:h200*8", "sim:zen3" (docs/simulated-devices.md). INVALID_ARGUMENT: it is no such text.
 * FAILED_PRECONDITION after the first device of that kind was opened. */
BT_API BT_MUST_USE bt_status bt_set_devices(const char *spec);
#define bt_set_devices(...) BTI_AT_MUST(bt_set_devices(__VA_ARGS__))

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* In bytes, and of this process, unless said otherwise. A block is memory that was taken from the device, cached or in use. */
typedef struct bt_memory_info {
    size_t size BTI_INITIALLY(sizeof(bt_memory_info));
    size_t total; /* of the device; 0: unknown */
    /* What this process may take: set by flags (memory_limit, memory_fraction); for the CPU at most what the machine, the
     * process's cgroup or RLIMIT_AS allows. 0: no limit. */
    size_t limit;
    size_t used;         /* by arrays, temporaries and scratch now */
    size_t scratch;      /* the part of `used` that the driver keeps for its kernels and libraries until a trim */
    size_t peak;         /* the largest `used` since the start or bt_memory_reset_peak */
    size_t cached;       /* taken from the device, not in use */
    size_t largest_free; /* the largest cached block */
    size_t device_free;  /* free for all processes, as the device reports it; 0: unknown */
    uint64_t live_arrays;
    uint64_t copied_in, copied_out; /* bytes copied to and from the device: transfers, uploads and reads */
    /* What sets the limit: "flag memory_limit", "the machine's memory", a file of the cgroup...; "" without a limit. Valid
     * until bt_shutdown. */
    const char *limit_source;
    size_t pinned; /* of the host's memory, page-locked by bt_pinned for this device; in none of the other figures */
} bt_memory_info;
#define BT_MEMORY_INFO_INIT BTI_INFO_INIT(bt_memory_info)
BT_API BT_MUST_USE bt_status bt_memory(const bt_device *device, bt_memory_info *info);
#define bt_memory(...) BTI_AT_MUST(bt_memory(__VA_ARGS__))
/* Sets `peak` to `used`. */
BT_API void bt_memory_reset_peak(const bt_device *device);
/* Returns cached memory to the device; returns the number of bytes. Waits for work that still uses it; inside of a
 * callback (custom.h), which may not wait, it is 0, with FAILED_PRECONDITION in the error record. */
BT_API size_t bt_memory_trim(const bt_device *device);

/* `bytes` bytes of the host's memory, of unspecified contents, aligned to 256 bytes, for copies of large arrays from and
 * to devices: where the device's driver can (`cuda`) it is page-locked, so that bt_from, bt_write and bt_read of these
 * bytes, from any place in them, are copied by the device itself, with all devices of the driver; otherwise it is
 * ordinary memory, which bt_is_pinned tells. Opens the device. Page-locking takes about a millisecond for 4 MiB, and the
 * system can use such memory for nothing else: make it once, and use it again.
 *
 * The caller owns it: bt_pinned_free, before bt_shutdown, which fails with FAILED_PRECONDITION as long as there is some;
 * at the end of the process the system takes it. A forked child must not use it. NULL with the cause in the error
 * record: INVALID_ARGUMENT: no device, or 0 bytes; RESOURCE_EXHAUSTED: the machine does not have so much, or the driver
 * cannot lock it; UNAVAILABLE: the device cannot be opened. */
BT_API void *bt_pinned(bt_device *device, size_t bytes);
#define bt_pinned(...) BTI_AT(void *, bt_pinned(__VA_ARGS__))
/* Frees memory of bt_pinned; NULL is accepted. A copy in flight keeps it until the copy is done. An array of bt_from_lent
 * that lies in it must be gone before. Any other pointer, one that was freed before too, changes nothing and sets the
 * error record (INVALID_ARGUMENT). */
BT_API void bt_pinned_free(void *memory);
#define bt_pinned_free(...) BTI_AT_VOID(bt_pinned_free(__VA_ARGS__))
/* Whether this byte lies in memory of bt_pinned that is page-locked. */
BT_API bool bt_is_pinned(const void *memory);

/* A process that uses memory of a device: of any user, the calling process too. */
typedef struct bt_device_process {
    int64_t pid;  /* as the driver reports it: in the PID namespace of the machine, not of a container */
    size_t bytes; /* used by the process, with its context and libraries; 0: unknown */
} bt_device_process;

/* The processes that use memory of a device, the largest first: up to `capacity` of them are written to `processes`
 * [capacity] (the caller's; NULL with a capacity of 0), and *count receives how many there are, which may be more. Each
 * call asks the driver, which takes milliseconds and blocks no work; the device is not opened. Any thread. On an error
 * *count is 0. UNIMPLEMENTED: the driver cannot tell (`cpu`, `sim` and `opencl`; `cuda` without NVML), and the text
 * says why; INVALID_ARGUMENT: no device, no count, a negative capacity, or a capacity without `processes`; UNAVAILABLE:
 * the device is gone, or this process was forked after a device was opened; RESOURCE_EXHAUSTED: out of host memory. */
BT_API BT_MUST_USE bt_status bt_device_processes(const bt_device *device, bt_device_process *processes, int capacity,
                                                 int *count);
#define bt_device_processes(...) BTI_AT_MUST(bt_device_processes(__VA_ARGS__))

/* --- energy -------------------------------------------------------------------------------------------------------- */

/* Reads the energy counter of a device: *joules is what the hardware has used since some moment, such as the load of its driver, so
 * only the difference of two readings means something. It is the energy of the whole hardware, with that of other programs and of
 * idling: a GPU with its memory (NVML; from Volta on), or all processors of the machine, with memory where that is counted
 * apart (RAPL, by Linux's powercap). Counters move some ten times a second (GPUs) or a thousand times (CPUs): shorter spans mean little. Those of CPUs go round, after two minutes at least: in longer runs read them once a minute.
 *
 * false: it is not known, and *joules is 0. *reason (reason may be NULL) receives why, and what helps if something does: no powercap, as in virtual
 * machines; for root only; a simulated device; a lost GPU; the counter went round or was set back since the last call of this process, and the
 * next difference is good again. It is NULL for true, and when host memory is exhausted. The caller owns that text: bt_free. It is no error: the
 * error record stays as it is. Does not open the device, and takes less than some milliseconds, but the first call
 * may start NVML. Any thread. */
BT_API bool bt_device_energy(const bt_device *device, double *joules, char **reason);

/* The settings of the memory flags, for one device (NULL: all). FAILED_PRECONDITION once the device was opened. growth:
 * take memory on demand (default), or all that the limit allows at once; fraction: of the total memory, in (0, 1];
 * limit: bytes; preallocate: bytes taken when the device is opened. */
BT_API BT_MUST_USE bt_status bt_set_memory_growth(bt_device *device, bool on);
#define bt_set_memory_growth(...) BTI_AT_MUST(bt_set_memory_growth(__VA_ARGS__))
BT_API BT_MUST_USE bt_status bt_set_memory_fraction(bt_device *device, double fraction);
#define bt_set_memory_fraction(...) BTI_AT_MUST(bt_set_memory_fraction(__VA_ARGS__))
BT_API BT_MUST_USE bt_status bt_set_memory_limit(bt_device *device, size_t bytes);
#define bt_set_memory_limit(...) BTI_AT_MUST(bt_set_memory_limit(__VA_ARGS__))
BT_API BT_MUST_USE bt_status bt_set_memory_preallocate(bt_device *device, size_t bytes);
#define bt_set_memory_preallocate(...) BTI_AT_MUST(bt_set_memory_preallocate(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif

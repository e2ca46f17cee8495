/* berth/device.h: finding devices, naming them, asking what they are, and how much memory they have.
 *
 * A device pointer is borrowed: it is never freed and stays valid until bt_shutdown. Listing and asking open no device
 * and take no device memory. Every call here may be made from any thread.
 *
 * Names (case does not matter): `cpu`, `gpu:1`, `/GPU:1`, `/device:GPU:1`, `/job:localhost/replica:0/task:0/device:GPU:1`,
 * `/physical_device:CPU:0`, `cuda0`, `cuda:0`, `cuda` (GPU N, real CUDA or simulated), `opencl0:0` (platform:device),
 * `tpu:0`, a UUID or a PCI bus id, or a context name (flag `contexts`). Without a number: the lowest one.
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

/* How many devices of a kind are visible; 0 when there are none, never an error. */
BT_API int bt_device_count(bt_kind kind);

/* Device `index` of a kind (0 is the lowest); NULL when it does not exist (NOT_FOUND in the error record). */
BT_API bt_device *bt_device_get(bt_kind kind, int index);
#define bt_device_get(...) BTI_AT(bt_device *, bt_device_get(__VA_ARGS__))

/* The device that a name means. INVALID_ARGUMENT: not a name; NOT_FOUND: no such device, no such context. */
BT_API BT_MUST_USE bt_status bt_device_find(const char *name, bt_device **device);
#define bt_device_find(...) BTI_AT_MUST(bt_device_find(__VA_ARGS__))

/* Up to `capacity` devices of a kind into `devices` (borrowed); returns how many there are. */
BT_API int bt_device_list(bt_kind kind, bt_device **devices, int capacity);

/* TPU i, else GPU i, else the CPU (Dive into Deep Learning's try_gpu). Never NULL. */
BT_API bt_device *bt_try_tpu_gpu(int i);

/* Every GPU (up to `capacity`), the CPU alone when there is none; returns how many were written. */
BT_API int bt_try_all_gpus(bt_device **devices, int capacity);

/* "GPU:1"; "/job:localhost/replica:0/task:0/device:GPU:1"; "Simulated GPU". Owned by the device. */
BT_API const char *bt_device_name(const bt_device *device);
BT_API const char *bt_device_long_name(const bt_device *device);
BT_API const char *bt_device_description(const bt_device *device);
BT_API bt_kind bt_device_kind(const bt_device *device);
BT_API int bt_device_index(const bt_device *device);
BT_API const char *bt_device_driver(const bt_device *device); /* "cpu", "sim", "cuda", ... */

/* "[GPU:0, GPU:1]" (or long names); the text is yours: bt_free. NULL when memory is short. */
BT_API char *bt_device_list_text(bt_device *const *devices, int count, bool long_names);
#define bt_device_list_text(...) BTI_AT(char *, bt_device_list_text(__VA_ARGS__))

/* Frees a text that berth gave you. NULL is fine. Or let the compiler: `BT_TEXT text = bt_to_text(x);` frees it at the end of
 * the C block. */
BT_API void bt_free(void *memory);
#define BT_TEXT __attribute__((cleanup(bti_free_text))) char *
static inline void bti_free_text(char **text) { bt_free(*text); }

/* What is known of a device. Fill `size` by BT_DEVICE_INFO_INIT. Texts are the device's. */
typedef struct bt_device_info {
    size_t size BTI_INITIALLY(sizeof(bt_device_info));
    bt_kind kind;
    int index;
    const char *name, *long_name, *description, *driver, *driver_version, *uuid, *pci_bus_id;
    int capability_major, capability_minor; /* CUDA compute capability; 0.0 where there is none */
    size_t memory_bytes;                    /* total; 0: unknown */
    bool opened;
    const char *
        details; /* lines of text: its libraries and versions, or why it cannot be opened. With the flag probe=open, of devices
                            of others' drivers; else "" */
} bt_device_info;
#define BT_DEVICE_INFO_INIT BTI_INFO_INIT(bt_device_info)
BT_API BT_MUST_USE bt_status bt_device_describe(const bt_device *device, bt_device_info *info);
#define bt_device_describe(...) BTI_AT_MUST(bt_device_describe(__VA_ARGS__))

/* Whether a kind can be used, and why (not): which library was tried, what the loader said, the mask. `reason` (may be
 * NULL) gets a text that is yours: bt_free. */
BT_API bool bt_functional(bt_kind kind, char **reason);

/* The device that operations outside any block and without committed inputs go to: the lowest TPU, else the lowest GPU,
 * else the CPU, unless set (flag `default_device`, or here; NULL restores the rule). Process-wide. */
BT_API bt_device *bt_default_device(void);
BT_API BT_MUST_USE bt_status bt_set_default_device(const char *name);
#define bt_set_default_device(...) BTI_AT_MUST(bt_set_default_device(__VA_ARGS__))

/* --- context names ------------------------------------------------------------------------------------------------ */

/* Maps names to devices: "dev0->cuda0;dev1->cuda1" (the flag `contexts` does the same at the start). A name may not hold
 * `->` or `;` nor begin with `cuda` or `opencl`. Each mapping is printed to the log while `print_active_device` is on:
 * "Mapped name dev0 to device cuda0: NVIDIA H200". All or nothing. */
BT_API BT_MUST_USE bt_status bt_set_contexts(const char *map);
#define bt_set_contexts(...) BTI_AT_MUST(bt_set_contexts(__VA_ARGS__))

/* --- simulated devices -------------------------------------------------------------------------------------------- */

/* Replaces the devices of a kind by simulated ones, as the flag `devices` does: "sim:gpu*4", "sim:tpu*2". Must come before
 * the first device of that kind is opened (FAILED_PRECONDITION otherwise). */
BT_API BT_MUST_USE bt_status bt_set_devices(const char *spec);
#define bt_set_devices(...) BTI_AT_MUST(bt_set_devices(__VA_ARGS__))

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* All in bytes, all of this process unless said otherwise; blocks are what the device gave, cached or in use. */
typedef struct bt_memory_info {
    size_t size BTI_INITIALLY(sizeof(bt_memory_info));
    size_t total; /* of the device; 0: unknown */
    size_t limit; /* what this process may take of it: by flags (memory_limit, memory_fraction), and of the CPU at most
                          * what the machine, the process's cgroup or RLIMIT_AS gives; 0: no limit */
    size_t used;  /* in arrays, temporaries and scratch now */
    size_t scratch;      /* of `used`: what the driver keeps for its kernels and libraries until a trim */
    size_t peak;         /* the most that `used` was since the start or bt_memory_reset_peak */
    size_t cached;       /* taken from the device, not in use */
    size_t largest_free; /* the largest cached block */
    size_t device_free;  /* what the device says is free for everyone; 0: unknown */
    uint64_t live_arrays;
    uint64_t copied_in, copied_out; /* bytes that came to or left the device: transfers, uploads and reads */
    const char
        *limit_source; /* what sets the limit: "flag memory_limit", "the machine's memory", a file of the cgroup...; ""
                               * when there is none; kept until bt_shutdown */
} bt_memory_info;
#define BT_MEMORY_INFO_INIT BTI_INFO_INIT(bt_memory_info)
BT_API BT_MUST_USE bt_status bt_memory(const bt_device *device, bt_memory_info *info);
#define bt_memory(...) BTI_AT_MUST(bt_memory(__VA_ARGS__))
BT_API void bt_memory_reset_peak(const bt_device *device);
/* Gives cached memory back to the device; returns the bytes given back. Waits for work that still uses it. */
BT_API size_t bt_memory_trim(const bt_device *device);

/* A process that holds memory of a device: of any user, this one too. */
typedef struct bt_device_process {
    int64_t pid;  /* as the driver numbers it: the machine's own number, which is not a container's */
    size_t bytes; /* that it holds, its context and libraries included; 0: the driver does not tell */
} bt_device_process;

/* The processes that hold memory of a device, the largest holder first: up to `capacity` of them into `processes` [capacity]
 * (yours; NULL with a capacity of 0), how many there are in *count, which may be more than `capacity`. The driver is asked anew
 * at each call, for milliseconds, which blocks no work; the device is not opened. Any thread. On an error *count is 0.
 * UNIMPLEMENTED: drivers of this kind do not tell (`cpu`, `sim` and `opencl`; `cuda` without NVML), the text says why;
 * INVALID_ARGUMENT: no device, no count, a capacity below 0 or without `processes`; UNAVAILABLE: the device is not there any
 * more, or this process was forked after a device was opened; RESOURCE_EXHAUSTED: out of host memory. */
BT_API BT_MUST_USE bt_status bt_device_processes(const bt_device *device, bt_device_process *processes, int capacity,
                                                 int *count);
#define bt_device_processes(...) BTI_AT_MUST(bt_device_processes(__VA_ARGS__))

/* The same settings as the flags, for one device (NULL: all). FAILED_PRECONDITION once the device was opened.
 * growth: take memory on demand (default) or all that the limit allows at once; fraction: of the total, in (0, 1];
 * limit: bytes; preallocate: bytes taken when it is opened. */
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

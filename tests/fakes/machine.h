/* A fake machine with NVIDIA GPUs: the libraries of this folder (libcuda, NVML, NVRTC, cuBLASLt, cuDNN, NCCL; written for these tests) report it
 * and compute on the host. The JSON file of the environment variable BERTH_FAKE_MACHINE describes it:
 *
 *     {"driver": "580.65.06", "cuda": 13000, "nvrtc": [13, 0],
 *      "devices": [{"name": "NVIDIA H200", "uuid": "GPU-0a...", "pci": "0000:3b:00.0", "memory": 1073741824,
 *                   "capability": [9, 0], "multiprocessors": 132, "processes": [{"pid": 41, "bytes": 1000, "type": "C+G"}],   bytes 0: unknown; types as
 *                   in nvidia-smi, default C
 *                   "millijoules": [5000, 250],              the energy counter, and its step at each reading; without it: not supported
 *                   "mig": false,                            true: MIG splits it into
 *                   "instances": [{"uuid": "MIG-0a...", "memory": 1000, "processes": []}, null]}],   null: an empty slot
 *                                                in NVML's order
 *      "live": true,                          processes are read again whenever they are listed
 *      "lists_own": true,                     this process is listed while it has a context
 *      "order": [1, 0],                       libcuda's own order, before its mask (default: as listed)
 *      "fail": {"cuMemAlloc_v2": [3, 2]},     the third call returns error 2
 *      "fail_any": [17, 999],                 the 17th call of libcuda, without those that release something
 *      "late": [2, 700],                      the second synchronisation returns 700, as does everything after it on that device
 *      "no_context": true,                    no context may be made (fake_contexts_made)
 *      "nvrtc_library": "/a/libnvrtc.so.13"}  libnvrtc hands everything to this library, and out comes PTX
 *
 * Streams run when the host waits (stream.h), and what is wrong is found then (findings.h). Device addresses are not pointers. */
#ifndef BERTH_TESTS_FAKES_MACHINE_H
#define BERTH_TESTS_FAKES_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_API __attribute__((visibility("default")))
#define FAKE_MOST 16
#define FAKE_PROCESSES 128

typedef struct fake_process {
    unsigned pid;
    uint64_t bytes; /* 0: NVML does not know */
    bool compute, graphics;
} fake_process;

typedef struct fake_device {
    char name[96], uuid[64], pci[24];
    unsigned domain, bus, slot;
    uint64_t memory, used;
    long millijoules, millijoules_step; /* negative: there is no counter */
    int major, minor, process_count, multiprocessors;
    fake_process processes[FAKE_PROCESSES];
    bool mig;
    int first_instance, instance_count; /* for fake_instance; an empty UUID: an empty slot */
    int island;                         /* NVLink to the devices with the same number; 0: to none */
    int contexts;                       /* that this process retains */
    int sticky;                         /* the sticky error of its context */
} fake_device;

typedef struct fake_machine {
    char driver[48], nvrtc_library[512]; /* nvrtc_library: empty if none is given */
    int cuda, nvrtc_major, nvrtc_minor;
    int count;
    fake_device devices[FAKE_MOST];
    int order[FAKE_MOST], order_count;
    bool no_context, live, lists_own;
} fake_machine;

/* The machine, read at the first use. */
FAKE_API fake_machine *fake(void);
FAKE_API void fake_processes_now(void);
FAKE_API fake_device *fake_instance(int number);
FAKE_API int fake_shared_bytes(const fake_device *d); /* the most shared memory of a block */
/* Every function of a library calls it first: 0, or the error to return. */
FAKE_API int fake_call(const char *name, bool release);
FAKE_API int fake_synchronised(int device); /* the late error, or 0 */
FAKE_API bool fake_hangs(int device);
FAKE_API void fake_recorded(int device); /* an event */
FAKE_API void fake_lock(void);
FAKE_API void fake_unlock(void);

/* --- for tests, found by dlsym ------------------------------------------------------------------------------------- */
FAKE_API void fake_reset(void); /* resets everything; the file is read again at the next use */
FAKE_API int fake_contexts_made(void);
FAKE_API int fake_alive(void); /* contexts, streams, events, modules, graphs and allocations that were not released */
FAKE_API int fake_calls(void); /* calls of libcuda so far, without those that release something */
/* The operations that ran, one line each, in their order: "launch NAME GROUPS THREADS LOCAL: WORD WORD ...", "graph
 * COUNT", "copy up BYTES"... */
FAKE_API const char *fake_log_text(void);
FAKE_API void fake_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
FAKE_API void fake_live(int change);
/* At the end of a library: whether the process ends while the program still has what lives. Threads may call, so nothing is freed, and what they call from now on waits until the
 * process is gone. */
FAKE_API bool fake_ends_in_use(void);
FAKE_API void fake_context_made(void);

/* The nth call from now on of a function (device -1), or "late": the nth synchronisation of a device, after which it returns the code until another fault is set, or "hang": the nth
 * event recorded on a device, whose streams run nothing from there on, until another fault is set ("": none). Not with the seed 0. */
FAKE_API void fake_set_fault(const char *name, int device, long nth, int code);
FAKE_API bool fake_fault_happened(void); /* a call failed that the machine's file says */

/* Of this library: a new machine begins. */
void fake_memory_reset(void);
void fake_stream_new_machine(void);
void fake_findings_new_machine(void);

/* --- memory -------------------------------------------------------------------------------------------------------- */
FAKE_API int fake_alloc(int device, uint64_t bytes, uint64_t *address); /* 0, or CUDA_ERROR_OUT_OF_MEMORY */
FAKE_API bool fake_free(uint64_t address);
FAKE_API void fake_free_all(int device);
FAKE_API bool fake_memory_exists(uint64_t address, uint64_t bytes);
/* The host memory of `bytes` bytes at an address within one allocation; else NULL. They count as written by what runs now, without
 * any check (memory.h has those that check). */
FAKE_API void *fake_memory(uint64_t address, uint64_t bytes);

#endif

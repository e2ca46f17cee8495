/* What drivers share whose devices load text of the C family (cuda, opencl): from programs and boxes to launches. A driver
 * fills in a bti_gpu when it opens a device, and hands program_load, launch and launch_kernel of its table on to here.
 *
 * gpu_kernel.c launches fused kernels: which entry (launch/entry.h) a box allows, how many groups, in parts or whole. gpu_work.c runs
 * primitives that are run whole: as kernels of one instruction, or by texts of their own (render/c/). Results of a device
 * do not depend on how many groups run or which library is there, but for products (drivers say which). */
#ifndef BTI_LAUNCH_GPU_H
#define BTI_LAUNCH_GPU_H

#include <pthread.h>

#include "launch/program.h"
#include "launch/entry.h"

typedef struct bti_gpu_function {
    void *handle; /* the driver's */
    int threads;  /* of a group that it can run with, at most */
    int groups;   /* that are worth launching at once: those that the device holds, 0: unknown */
} bti_gpu_function;

typedef struct bti_gpu_launch {
    const bti_gpu_function *function;
    uint32_t groups; /* at least 1 */
    uint32_t threads;
    bool local;         /* it takes local memory: OpenCL's argument before the words */
    size_t local_bytes; /* how much a group gets */
    bti_words *words;   /* the driver may put offsets in the place of addresses */
} bti_gpu_launch;

/* What a driver does for the engine. All on the device's queue, in order. */
typedef struct bti_gpu_driver {
    /* Compiles text, or finds it compiled in the disk cache. `name` is for messages and profilers ("mul+add"). A text that
     * does not compile is INTERNAL with the compiler's log and the lines that it names. */
    bt_status (*build)(void *device, const char *name, const bti_str *text, void **module);
    void (*unload)(void *device, void *module);
    bt_status (*find)(void *device, void *module, const char *name, bti_gpu_function *function);
    void (*forget)(void *device, bti_gpu_function *function); /* (optional) before its module is unloaded */
    bt_status (*launch)(void *device, const bti_gpu_launch *launch);
    /* (optional) A matrix product by the vendor's library; *done false: it has none for this, ours runs. */
    bt_status (*product)(void *device, const bti_work *work, bool *done);
    bt_status (*fill)(void *device, uint64_t address, int byte, size_t bytes);
    bt_status (*copy)(void *device, uint64_t to, uint64_t from, size_t bytes);
    bt_status (*wait)(void *device); /* until everything launched is done */
} bti_gpu_driver;

#define BTI_GPU_SLOTS 8

typedef struct bti_gpu {
    const bti_gpu_driver *driver;
    void *device;     /* passed to the driver's functions */
    const char *name; /* for messages: "NVIDIA H200" */
    bti_target target;
    int units;               /* multiprocessors, compute units */
    int threads;             /* of a group, at most */
    size_t local_bytes;      /* local memory that one group may have */
    bti_allocator allocator; /* of memory for scratch */
    pthread_mutex_t lock;    /* of what follows, and of launches that use it; the driver makes and destroys it */
    struct bti_gpu_scratch {
        uint64_t address;
        void *block; /* the allocator's */
        size_t bytes;
    } scratch[BTI_GPU_SLOTS];
    _Atomic uint64_t scratch_moves; /* how often scratch was given back for more: addresses of before are void */
} bti_gpu;

/* When the device is closed its pool is gone already, and scratch with it: there is nothing to give back. */
bt_status bti_gpu_load(bti_gpu *gpu, const bti_program_source *source, void **program);
void bti_gpu_unload(bti_gpu *gpu, void *program);
bt_status bti_gpu_launch_work(bti_gpu *gpu, void *program, const bti_work *work);
bt_status bti_gpu_launch_kernel(bti_gpu *gpu, void *program, const bti_box *box);

/* Device memory until the same slot is asked for again; the queue's order makes reuse safe. It grows and is kept. Slots: one
 * per purpose that must not share with another in one launch; 0 is for parts of reductions. Within a launch. */
bt_status bti_gpu_scratch(bti_gpu *gpu, int slot, size_t bytes, uint64_t *address);
/* Gives all of it back when what was launched is done; from any thread. */
void bti_gpu_trim(bti_gpu *gpu);

#endif

/* Shared by the files of the fake libcuda. */
#ifndef BERTH_TESTS_FAKES_LIBCUDA_H
#define BERTH_TESTS_FAKES_LIBCUDA_H

#include "drivers/cuda/driver_api.h"
#include "fakes/ptx/ptx.h"
#include "fakes/stream.h"

struct CUctx_st {
    int device, retained; /* device: of the machine */
    CUstream null_stream; /* NULL before its first use */
};
struct CUstream_st {
    fake_stream stream;
    CUcontext context;
    struct CUstream_st *next; /* list of all streams */
    bool open, blocking;      /* blocking: ordered against the null stream, which is blocking too */
    fake_event latest;        /* of blocking streams: what they were last given */
    CUgraphNode last;         /* that cuStreamGetCaptureInfo_v2 told */
};
struct CUmod_st {
    char *text;
    int device;
    ptx_module *ptx; /* NULL: a text of the fake NVRTC, whose kernels only fake_add */
};
struct CUfunc_st {
    char name[64];
    CUmodule module;
    const ptx_function *ptx; /* of module->ptx */
    int dynamic_bytes;       /* the most dynamic shared memory, by cuFuncSetAttribute */
    int words;               /* without ptx: of its argument by value; 0: a pointer */
    bool unloaded;
    struct CUfunc_st *next;
};
struct CUevent_st {
    fake_event event;
    int device;
    bool open, timed;
    struct CUevent_st *next;
};

CUcontext fake_current(void);
/* The stream that gets work or an event now. NULL is the current context's null stream: its work comes after what its blocking streams were
 * given before, and theirs after it (CUDA driver API, "Stream synchronization behavior": the legacy default stream). */
CUstream fake_enter_stream(CUstream stream);
CUresult fake_add(CUstream stream, const fake_work *work, const void *data, size_t bytes);
/* Runs everything on a device, because `call` waits for it, which is counted. The caller is not ordered after it: CUDA's documentation
 * promises no such wait. */
void fake_run_device(int device, const char *call);
/* The same of a call that may wait and may not: the seed draws it, and both are counted. */
void fake_may_run_device(int device, const char *call);
bool fake_may_find(int device); /* whether something destroyed in flight is a finding */
FAKE_API const char *
fake_executables_use(const void *thing); /* the name of recorded work that uses it; NULL: there is none */

/* fake_own: the current context owns `thing`, which `drop` frees at its end. fake_release: `thing` was freed before that. */
bool fake_own(void *thing, void (*drop)(void *thing));
void fake_release(void *thing);

/* libcuda_work.c, libcuda_memory.c: operations of graphs. */
typedef struct fake_launch {
    CUfunction function;
    unsigned grid[3], block[3], local;
    void **parameters, **extra;
} fake_launch;
bool fake_is_kernel(const fake_work *work);
/* Other arguments, addresses or bytes of the same launch, copy or fill: 1 (invalid value) for another one. Under the lock. */
CUresult fake_replace_launch(const char *call, fake_operation *operation, const fake_launch *launch);
CUresult fake_replace_copy(fake_operation *operation, CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult fake_replace_fill(fake_operation *operation, CUdeviceptr to, unsigned char byte, size_t bytes);

/* libcuda_counts.c */
typedef struct fake_launch_size {
    int device;
    uint64_t blocks;
    unsigned threads, dynamic_bytes;
} fake_launch_size;
const char *fake_counts_path(void); /* NULL: nobody wants them */
FAKE_API int fake_sample_of(uint64_t blocks);
void fake_note_counts(const fake_launch_size *size, CUfunction function, const ptx_counts *counts);
FAKE_API void fake_note_product(uint64_t multiplications, uint64_t bytes,
                                const char *computes); /* if somebody wants counts */

/* The blocks that a multiprocessor holds at once. */
int fake_resident_blocks(int device, CUfunction function, int threads, size_t dynamic_bytes);
unsigned fake_most_threads(CUfunction function); /* of a block, by its registers and what the compiler was told */
#define FAKE_SHARED 49152 /* bytes of shared memory of a block where cuFuncSetAttribute did not allow more */

#define ENTER(name)                               \
    do {                                          \
        int fake_code_ = fake_call(#name, false); \
        if (fake_code_) return fake_code_;        \
    } while (0)
/* The same, with a current context, which may have a sticky error. */
#define ENTER_IN_CONTEXT(name)       \
    ENTER(name);                     \
    if (!fake_current()) return 201; \
    if (fake()->devices[fake_current()->device].sticky) return fake()->devices[fake_current()->device].sticky

#endif

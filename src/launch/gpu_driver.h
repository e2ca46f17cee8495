/* What a driver fills in for the GPU engine (gpu.h), and the engine's scratch memory. */
#ifndef BTI_LAUNCH_GPU_DRIVER_H
#define BTI_LAUNCH_GPU_DRIVER_H

#include "launch/program.h"
#include "launch/entry.h"
#include "base/lock.h"

typedef struct bti_gpu_function {
    void *handle; /* the driver's */
    void *module; /* the driver's, if it needs one */
    int threads;  /* the largest group that it can run with; 0: unknown */
    int groups;   /* how many groups the device runs at once; 0: unknown */
} bti_gpu_function;

typedef struct bti_gpu_launch {
    const bti_gpu_function *function;
    uint32_t groups; /* at least 1 */
    uint32_t threads;
    bool local;         /* it has an argument for local memory (OpenCL: before the words) */
    size_t local_bytes; /* local memory of a group */
    bti_words *words;   /* the driver may replace addresses by offsets */
} bti_gpu_launch;

/* Addresses for linear algebra; those that a kind does not need are 0. By columns, [rows, columns]:
 *     Cholesky          a [n, n]: u of a = u^H u takes the place of its upper half
 *     solve             a [n, n] is overwritten; x of a^T x = b takes the place of b [n, m]
 *     triangle          a [n, n] is the transpose of the row-major one; b [m, n], too, whose place x takes
 *     determinants      a [n, n]: l and u of a = p l u take its place
 *     QR                a [m, n]: r takes the place of the upper half; then q of the first columns
 *     eigh              of the upper half of a [n, n], whose place the vectors take
 *     SVD               of a [long, k], which is overwritten: u [long, k], v [k, k], with k the smaller side */
typedef struct bti_gpu_factor_arrays {
    uint64_t a, b, u, v;
    uint64_t a_pointers, b_pointers; /* by pointers: the addresses of each matrix */
    uint64_t pivots;                 /* int64 [n], by pointers int32: the row that is exchanged with this one, from 1 */
    uint64_t values;                 /* of eigh and SVD; of QR k elements that it keeps for the second call */
    uint64_t flags;                  /* int32 for each matrix: not 0 where there is no result; then one more */
} bti_gpu_factor_arrays;

/* What a driver does for the engine. Everything runs on the device's queue, in order. */
typedef struct bti_gpu_driver {
    /* Compiles text, or finds it in the disk cache. `name` is for messages and profilers ("mul+add"). INTERNAL for a text that does
     * not compile, with the compiler's log and the lines that it names. */
    bt_status (*build)(void *device, const char *name, const bti_str *text, void **module);
    void (*unload)(void *device, void *module);
    bt_status (*find_function)(void *device, void *module, const char *name, bti_gpu_function *function);
    void (*free_function)(void *device, bti_gpu_function *function); /* (optional) before its module is unloaded */
    bt_status (*launch)(void *device, const bti_gpu_launch *launch);
    /* (optional) A matrix product by the vendor's library; *done false: not supported, the engine's own kernel runs. */
    bt_status (*product)(void *device, const bti_work *work, bool *done);
    bool (*has_product)(void *device,
                        bt_dtype dtype); /* with it: whether the library may support a product of the dtype */
    /* (optional) What `product` had better get the inputs as, rounded; its output stays what it is. */
    bt_dtype (*product_dtype)(void *device, const bti_work *work);
    /* (optional) A convolution by the vendor's library, of dense operands; *done as above. */
    bt_status (*conv)(void *device, const bti_work *work, bool *done);
    /* (optional, all or none) Fourier transforms by the vendor's library, of lines one after the other (inner 1) or next to each other (outer 1).
     * fft_new: UNIMPLEMENTED: it does not compute such lines. Any thread.
     * fft_free: launches that use it may be running.
     * fft: both addresses are those of complex numbers. What is read of a kind WHOLE may be overwritten. */
    bt_status (*fft_new)(void *device, const bti_fft_lines *lines, void **transform);
    void (*fft_free)(void *device, void *transform);
    bt_status (*fft)(void *device, void *transform, uint64_t from, uint64_t to);
    /* (optional, all or none) Linear algebra by the vendor's library, of matrices by columns, one behind the other: `of` gives what is made of row-major ones (bti_gpu_factor_arrays).
     * factor_new: UNIMPLEMENTED: it does not compute it. *by_pointers: it is given the addresses of all matrices. Under the lock.
     * factor_free: launches that use it may be running.
     * factor: all of the batch; `second`: of a QR, q is made where factors were made before. */
    bt_status (*factor_new)(void *device, const bti_factor *of, void **factor, bool *by_pointers);
    void (*factor_free)(void *device, void *factor);
    bt_status (*factor)(void *device, void *factor, const bti_gpu_factor_arrays *at, bool second);
    bt_status (*wait)(void *device); /* until everything launched is done */
} bti_gpu_driver;

/* The slots of scratch memory: one per purpose within a launch. */
enum {
    BTI_GPU_PARTS, /* of reductions (gpu_kernel.c) */
    BTI_GPU_INPUT, /* and the two after it: inputs that are not dense (gpu_job.c, gpu_fft.c, gpu_factor.c) */
    BTI_GPU_OUTPUT = BTI_GPU_INPUT + 3,
    BTI_GPU_INDICES, /* of orders: their second result (gpu_sort.c) */
    BTI_GPU_KEYS,    /* and the two after it: of sorts and running sums */
    BTI_GPU_ORDERS,
    BTI_GPU_COUNTS,
    BTI_GPU_WORKSPACE, /* of the vendor's libraries (driver->product, driver->conv, driver->fft, driver->factor) */
    BTI_GPU_SLOTS
};

typedef struct bti_gpu {
    const bti_gpu_driver *driver;
    void *device;     /* passed to the driver's functions */
    const char *name; /* for messages: "NVIDIA H200" */
    bti_target target;
    bool is_cpu;             /* the threads of a group run one after the other */
    int units;               /* multiprocessors, compute units */
    int threads;             /* of a group, at most */
    size_t local_bytes;      /* local memory that one group may have */
    bti_allocator allocator; /* of memory for scratch */
    bti_lock lock;           /* of what follows, and held while a launch uses it; the driver makes and destroys it */
    struct bti_gpu_scratch {
        uint64_t address;
        void *block; /* the allocator's */
        size_t bytes;
    } scratch[BTI_GPU_SLOTS];
    struct bti_gpu_texts *texts;    /* of the program that is being launched */
    _Atomic uint64_t scratch_moves; /* how often scratch memory was freed: earlier addresses are invalid */
} bti_gpu;

/* The line of the text that a compiler calls by this number, up to its end; NULL: there is none. Line 1 of a kernel of the program's is the first that
 * the program wrote. */
const char *bti_gpu_text_line(const bti_str *text, long number);

/* Scratch memory, valid until the same slot is asked for again; the queue's order makes reuse safe. It grows and is kept. Under
 * the lock, that is within a launch. */
bt_status bti_gpu_scratch(bti_gpu *gpu, int slot, size_t bytes, uint64_t *address);
/* Frees all of it when the launches that use it are done; from any thread. The device is a bti_gpu, as in gpu.h. */
void bti_gpu_trim(void *device);

#endif

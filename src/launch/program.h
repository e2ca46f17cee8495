/* The arguments of a driver's program_load and open: the source of a program, and the allocator of scratch memory. */
#ifndef BTI_LAUNCH_PROGRAM_H
#define BTI_LAUNCH_PROGRAM_H

#include "base/error.h"
#include "ir/work.h"
#include "launch/functions.h"

/* Device memory for a driver's own use (scratch, workspaces of libraries): from the device's pool, within its limits. */
typedef struct bti_allocator {
    int device; /* argument of the two functions */
    bt_status (*alloc)(int device, size_t bytes, uint64_t *address, void **block);
    void (*free)(int device, void *block); /* all work that used it is done */
} bti_allocator;

#define BTI_SOURCE_DTYPES 4

/* A primitive that runs whole (launch), or a fused kernel (launch_kernel). */
typedef struct bti_program_source {
    bti_op op;
    int dtype_count;
    bt_dtype dtypes[BTI_SOURCE_DTYPES]; /* of the first three inputs at most, then of the output; the rest is 0 */
    const bti_kernel *kernel;           /* NULL, or the fused kernel: op and dtypes are not used then */
    bti_render_function *render;        /* writes the kernel as text */
    bti_render_work_function *render_work;
} bti_program_source;

#endif

/* What a driver makes a program from, and where it takes memory of its own from. */
#ifndef BTI_LAUNCH_PROGRAM_H
#define BTI_LAUNCH_PROGRAM_H

#include "base/error.h"
#include "ir/work.h"
#include "launch/functions.h"

/* Where a driver takes memory of its own from, scratch of libraries say: the device's pool, under its limits. */
typedef struct bti_lender {
    int device; /* for the two functions */
    bt_status (*take)(int device, size_t bytes, uint64_t *address, void **block);
    void (*give)(int device, void *block); /* no work uses it any more */
} bti_lender;

#define BTI_SOURCE_DTYPES 4

/* What a program is made from: a primitive that is run whole (launch), or a fused kernel (launch_kernel). */
typedef struct bti_program_source {
    bti_op op;
    int dtype_count;
    bt_dtype dtypes[BTI_SOURCE_DTYPES]; /* of its inputs, the first three at most, then of the output; the rest 0 */
    const bti_kernel *kernel;           /* NULL, or the fused kernel: op and dtypes say nothing then */
    bti_render_function *render;        /* writes the kernel as text */
    bti_render_work_function *render_work;
} bti_program_source;

#endif

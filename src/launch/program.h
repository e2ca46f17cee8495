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

/* A primitive that runs whole (launch), a fused kernel (launch_kernel), or a matrix product and its epilogue (launch_product). */
typedef struct bti_program_source {
    bti_op op; /* of a fused kernel: 0, and no dtypes */
    int dtype_count;
    bt_dtype dtypes[BTI_SOURCE_DTYPES]; /* of the first three inputs at most, then of the output; the rest is 0 */
    const bti_kernel *kernel;           /* NULL, or the fused kernel, or the epilogue */
    int made; /* of a product with an epilogue: the kernel's operand that is the product; else 0 */
} bti_program_source;
static inline bool bti_source_is_product(const bti_program_source *source) {
    return source->kernel && source->op == BTI_OP_matmul;
}

/* A text that a program lacks. Drivers write no texts and call nobody who does: a launch that lacks one does nothing, says which (text_wanted of
 * drivers/driver.h), and is repeated when exec/ has given it (text_give). */
typedef struct bti_text_wanted {
    const bti_kernel
        *kernel; /* valid until text_give; NULL: the primitive's own text, of a product with its epilogue */
    bti_target target;
    bool variant; /* the kernel's second text: launch/functions.h */
    int number;   /* the driver's own */
} bti_text_wanted;

#endif

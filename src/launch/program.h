/* The arguments of a driver's program_load and open: the source of a program, and the allocator of scratch memory. */
#ifndef BTI_LAUNCH_PROGRAM_H
#define BTI_LAUNCH_PROGRAM_H

#include "base/error.h"
#include "base/str.h"
#include "ir/factor.h"
#include "ir/fft.h"
#include "ir/type.h"
#include "ir/work.h"
#include "launch/functions.h"

/* Device memory for a driver's own use (scratch, workspaces of libraries): from the device's pool, within its limits. */
typedef struct bti_allocator {
    int device; /* argument of the two functions */
    bt_status (*alloc)(int device, size_t bytes, uint64_t *address, void **block);
    void (*free)(int device, void *block); /* all work that used it is done */
} bti_allocator;

#define BTI_SOURCE_DTYPES 4

/* A kernel of the program's: the text of an operation (include/berth/custom.h) for operands of these dtypes and ranks. Its words are the addresses of inputs and
 * outputs, their sizes, the attributes. What the program wrote begins behind the line BTI_OWN_LINES: compilers number lines from there. */
#define BTI_CUSTOM_OPERANDS 64
#define BTI_CUSTOM_ENTRY 64 /* bytes of a name, of an entry */
#define BTI_OWN_LINES "#line 1\n"
typedef struct bti_custom_source {
    const char *name, *entry, *text;
    int input_count, output_count, attr_count;
    bt_dtype dtypes[BTI_CUSTOM_OPERANDS]; /* unused ones 0 */
    uint8_t ranks[BTI_CUSTOM_OPERANDS];
} bti_custom_source;

/* numbers: all words behind the addresses. */
typedef struct bti_custom_launch {
    int address_count, number_count;
    const uint64_t *addresses;
    const int64_t *numbers;
    int64_t groups;
    int threads;
} bti_custom_launch;

/* Of a Fourier transform, or linear algebra: inputs and outputs, at most. */
#define BTI_LIBRARY_OPERANDS 4

/* A part of a plan as one StableHLO module, for devices that load graphs. Arrays are dense, row-major; those without elements are not among them. */
typedef struct bti_segment_source {
    uint64_t hash[2]; /* of the text: equal ones are the same segment */
    const char *text;
    size_t bytes; /* of the text, without the NUL behind it */
    int input_count, output_count;
    const bti_type *
        types; /* of inputs, then of outputs; those of the arrays may be shorter (launch_segment of drivers/driver.h) */
    const int *aliases; /* by input: the output that may get its memory; -1: none. The text says the same */
} bti_segment_source;

/* A primitive that runs whole (launch), a fused kernel (launch_kernel), a matrix product and its epilogue (launch_product), a kernel of the
 * program's (launch_custom), what a library of the device's computes in place of a function of the host's: a Fourier transform, linear algebra (launch_library), or a segment (launch_segment). */
typedef struct bti_program_source {
    bti_op op; /* of a fused kernel: 0, and no dtypes */
    int dtype_count;
    bt_dtype dtypes[BTI_SOURCE_DTYPES]; /* of the first three inputs at most, then of the output; the rest is 0 */
    const bti_kernel *kernel;           /* NULL, or the fused kernel, or the epilogue */
    int made; /* of a product with an epilogue: the kernel's operand that is the product; else 0 */
    const bti_custom_source *custom;   /* NULL, or the program's kernel */
    bti_fft_lines fft;                 /* n 0: it is none */
    bti_factor factor;                 /* of.n 0: it is none */
    const bti_segment_source *segment; /* NULL: it is none */
} bti_program_source;
static inline bool bti_source_is_product(const bti_program_source *source) {
    return source->kernel && source->op == BTI_OP_matmul;
}

/* A text that a program lacks. Drivers write no texts and call nobody who does: a launch that lacks one launches nothing that must not run twice, says which (text_lacked of
 * drivers/driver.h), and is repeated when exec/ has given it (text_give). */
typedef struct bti_text_wanted {
    const bti_kernel *
        kernel; /* valid until text_give; NULL: the own text of the primitive, of a product with its epilogue, of the program's kernel */
    bti_target target;
    int variant; /* which of the kernel's texts: of CPUs a bti_cpu_text (launch/functions.h), of GPUs a bti_entry (launch/entry.h); of attention bti_attention_variant */
    int number;  /* the driver's own */
} bti_text_wanted;

#endif

/* Kernels as CUDA C and OpenCL C. The entries of a fused kernel are those of launch/entry.h. c/cuda.h and c/opencl.h define the same
 * words for each language; c/common.h has functions for both. */
#ifndef BTI_RENDER_C_H
#define BTI_RENDER_C_H

#include "launch/entry.h"
#include "launch/program.h"

/* The text of an entry; BTI_ENTRY_END: all entries in one text, for tests. */
bool bti_render_c(bti_str *text, const bti_kernel *kernel, bti_entry entry, bti_target target);
/* All without the words and functions before them: for tests and golden texts. */
bool bti_render_c_body(bti_str *text, const bti_kernel *kernel, bti_target target);
/* A primitive that is run whole (render.h). A comment above each text in c/ tells what it defines. */
bool bti_render_c_work(bti_str *text, bti_op op, const bt_dtype *dtypes, int count, bti_target target, int variant);
/* A matrix product of the dtype with its epilogue, a map whose operand `made` is the product. */
bool bti_render_c_product(bti_str *text, const bti_kernel *kernel, int made, bt_dtype dtype, bti_target target);
/* What runs before and after linear algebra of such elements by a library of the device's; false: there is none for the target. */
bool bti_render_c_factor(bti_str *text, bt_dtype dtype, bti_target target);
/* The words that a kernel of the program's is written in, and the kernel; launch/program.h says what its words hold. */
void bti_render_c_custom(bti_str *text, const bti_custom_source *source, bti_target target);
/* The words and functions alone. */
void bti_render_c_words(bti_str *text, bti_target target);

#endif

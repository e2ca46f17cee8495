/* Text of the C family: what CUDA and OpenCL devices load. The entries of a fused kernel are those of launch/entry.h; the words that
 * CUDA C and OpenCL C have for the same thing stand in c/cuda.h and c/opencl.h, functions that both call in c/common.h. */
#ifndef BTI_RENDER_C_H
#define BTI_RENDER_C_H

#include "launch/functions.h"

bool bti_render_c(bti_str *text, const bti_kernel *kernel, bti_target target);
/* The same without the words and functions in front: for tests and golden texts. */
bool bti_render_c_body(bti_str *text, const bti_kernel *kernel, bti_target target);
/* Of a primitive that is run whole: a bti_render_work_function. What it defines stands above each text in c/. */
bool bti_render_c_work(bti_str *text, bti_op op, const bt_dtype *dtypes, int count, bti_target target);
/* The words and functions alone. */
void bti_render_c_words(bti_str *text, bti_target target);

#endif

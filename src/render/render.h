/* A kernel as text in the format that a target loads. Pure. */
#ifndef BTI_RENDER_RENDER_H
#define BTI_RENDER_RENDER_H

#include "render/c.h"
#include "render/llvm.h"

/* Writes one of a kernel's texts (bti_text_wanted.variant); false when memory is short. */
static inline bool bti_render(bti_str *text, const bti_kernel *kernel, bti_target target, int variant) {
    if (!bti_target_is_c(target)) return bti_render_llvm(text, kernel, target, (bti_cpu_text)variant);
    return bti_render_c(text, kernel, (bti_entry)variant, target);
}

/* Of the C family: writes the functions of a primitive that is run whole, over values of these dtypes (inputs, then the output); variant: bti_text_wanted.variant. What it is
 * called and takes stands above each text in c/. */
static inline bool bti_render_work(bti_str *text, bti_op op, const bt_dtype *dtypes, int count, bti_target target,
                                   int variant) {
    return bti_target_is_c(target) && bti_render_c_work(text, op, dtypes, count, target, variant);
}

/* Of the C family: a product of the dtype that applies a kernel where it stores its elements (launch/entry.h). */
static inline bool bti_render_product(bti_str *text, const bti_kernel *kernel, int made, bt_dtype dtype,
                                      bti_target target) {
    return bti_target_is_c(target) && bti_render_c_product(text, kernel, made, dtype, target);
}

#endif

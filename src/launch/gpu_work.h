/* Primitives that are run whole: what their files share. */
#ifndef BTI_LAUNCH_GPU_WORK_H
#define BTI_LAUNCH_GPU_WORK_H

#include "launch/gpu_engine.h"

/* Elements from one operand to another of the same shape, or of as many elements where one is dense. */
bt_status bti_gpu_copy(bti_gpu *gpu, bti_gpu_work *work, const bti_operand *from, const bti_operand *to);

/* The text of the primitive itself, built. */
bt_status bti_gpu_work_module(bti_gpu *gpu, bti_gpu_work *work, bti_gpu_module **module);
/* gpu_work_text.c: primitives with texts of their own: products, searches, sorts, running sums, gathers. */
bt_status bti_gpu_work_text(bti_gpu *gpu, bti_gpu_work *work, const bti_work *asked);

#endif

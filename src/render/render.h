/* A kernel as text in the format that a target loads. Pure. */
#ifndef BTI_RENDER_RENDER_H
#define BTI_RENDER_RENDER_H

#include "launch/functions.h"

bool bti_render(bti_str *text, const bti_kernel *kernel, bti_target target, bool stream); /* a bti_render_function */
/* A primitive that is run whole, for targets of the C family: a bti_render_work_function. */
bool bti_render_work(bti_str *text, bti_op op, const bt_dtype *dtypes, int count, bti_target target);

#endif

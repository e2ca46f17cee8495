#include "render/render.h"

#include "render/c.h"
#include "render/llvm.h"

bool bti_render(bti_str *text, const bti_kernel *kernel, bti_target target, bool stream) {
    return bti_target_is_c(target) ? bti_render_c(text, kernel, target) : bti_render_llvm(text, kernel, target, stream);
}

bool bti_render_work(bti_str *text, bti_op op, const bt_dtype *dtypes, int count, bti_target target) {
    return bti_target_is_c(target) && bti_render_c_work(text, op, dtypes, count, target);
}

#include "drivers/gpu/work.h"

bt_status bti_gpu_work_text(bti_gpu *gpu, bti_gpu_work *work, const bti_work *asked) {
    (void)work;
    return bti_fail(BT_UNIMPLEMENTED, "%s has no %s", gpu->name, bti_op_info(asked->op)->name);
}

#include "drivers/cpu/work.h"

#include "base/flags.h"
#include "drivers/cpu/gather.h"
#include "drivers/cpu/product/product.h"
#include "reference/interp.h"

bt_status bti_cpu_work(const bti_work *work) {
    if (bti_flag_choice(BTI_FLAG_kernels) == BTI_KERNELS_INTERPRETER) return bti_interpret(work);
    if (work->op == BTI_OP_matmul) return bti_product(work);
    if (work->op == BTI_OP_argmax || work->op == BTI_OP_argmin) return bti_gather(work);
    switch (bti_op_info(work->op)->class) {
    case BTI_SCAN:
    case BTI_GATHER:
    case BTI_MOVEMENT:
    case BTI_EFFECT: return bti_gather(work);
    default: return bti_interpret(work);
    }
}

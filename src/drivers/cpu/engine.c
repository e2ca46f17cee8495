#include "drivers/cpu/engine.h"

bt_status bti_engine_work(const bti_work *work) { return bti_interpret(work); }

bt_status bti_engine_load(const bti_kernel *kernel, bti_render_function *render, bti_engine_kernel **loaded) {
    (void)kernel, (void)render, (void)loaded;
    return bti_fail(BT_UNIMPLEMENTED, "fused kernels");
}
void bti_engine_free(bti_engine_kernel *loaded) { (void)loaded; }
const bti_kernel *bti_engine_kernel_of(const bti_engine_kernel *loaded) { return (const void *)loaded; }
bt_status bti_engine_run(bti_engine_kernel *loaded, const bti_box *box) {
    (void)loaded, (void)box;
    return bti_fail(BT_UNIMPLEMENTED, "fused kernels");
}

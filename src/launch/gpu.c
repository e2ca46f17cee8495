#include "launch/gpu.h"

#include "base/lock.h"
#include "base/alloc.h"
#include "launch/gpu_engine.h"

typedef struct gpu_program {
    bti_gpu_kernel *kernel; /* one of the two */
    bti_gpu_work *work;
} gpu_program;

static const char *unsupported_dtype(const bti_gpu *gpu, const bti_program_source *source) {
    bool wide = false;
    if (gpu->target != BTI_OPENCL_C_F32) return NULL;
    for (int i = 0; source->kernel && i < source->kernel->instr_count; i++)
        wide = wide || source->kernel->instrs[i].dtype == BT_F64;
    for (int i = 0; !source->kernel && i < source->dtype_count; i++) wide = wide || source->dtypes[i] == BT_F64;
    return wide ? "float64" : NULL;
}

bt_status bti_gpu_load(void *device, const bti_program_source *source, void **loaded) {
    bti_gpu *gpu = device;
    const char *missing = unsupported_dtype(gpu, source);
    if (missing) return bti_fail(BT_UNIMPLEMENTED, "%s has no %s; use float32 there, or the CPU", gpu->name, missing);
    gpu_program *new = bti_calloc(1, sizeof *new);
    if (!new) return bti_no_memory();
    bt_status status = source->kernel ? bti_gpu_kernel_load(gpu, source->kernel, source->render, &new->kernel)
                                      : bti_gpu_work_load(source, &new->work);
    if (status == BT_OK)
        *loaded = new;
    else
        bti_free(new);
    return status;
}

void bti_gpu_unload(void *device, const bti_program_source *source, void *loaded) {
    (void)source;
    bti_gpu *gpu = device;
    gpu_program *old = loaded;
    if (old->kernel) bti_gpu_kernel_free(gpu, old->kernel);
    if (old->work) bti_gpu_work_free(gpu, old->work);
    bti_free(old);
}

bt_status bti_gpu_launch_work(void *device, void *loaded, const bti_work *work) {
    bti_gpu *gpu = device;
    bti_gpu_work *program = ((gpu_program *)loaded)->work;
    bool done;
    bti_lock_take(&gpu->lock);
    bt_status status = bti_gpu_work_as_kernels(gpu, program, work, &done);
    if (status == BT_OK && !done) status = bti_gpu_text_launch(gpu, program, work);
    bti_lock_give(&gpu->lock);
    return status;
}

bt_status bti_gpu_launch_kernel(void *device, void *loaded, const bti_box *box) {
    bti_gpu *gpu = device;
    bti_lock_take(&gpu->lock);
    bt_status status = bti_gpu_kernel_launch(gpu, ((gpu_program *)loaded)->kernel, box);
    bti_lock_give(&gpu->lock);
    return status;
}

bt_status bti_gpu_launch_boxes(void *device, void *loaded, const bti_box *boxes, int count) {
    bti_gpu *gpu = device;
    bti_lock_take(&gpu->lock);
    bt_status status = bti_gpu_kernel_launch_boxes(gpu, ((gpu_program *)loaded)->kernel, boxes, count);
    bti_lock_give(&gpu->lock);
    return status;
}

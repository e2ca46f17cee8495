#include "launch/gpu.h"

#include <string.h>

#include "base/alloc.h"
#include "launch/gpu_engine.h"

#define MOST_GROUPS (1 << 20)
#define ROUNDS 8 /* of as many groups as the device holds at once; then groups take more units each */

/* --- modules ------------------------------------------------------------------------------------------------------- */

bt_status bti_gpu_build(bti_gpu *gpu, const char *name, const bti_str *text, bti_gpu_module *module) {
    if (text->failed) return bti_no_memory();
    return gpu->driver->build(gpu->device, name, text, &module->handle);
}

void bti_gpu_drop(bti_gpu *gpu, bti_gpu_module *module) {
    for (size_t i = 0; i < sizeof module->found && gpu->driver->forget; i++)
        if (module->found[i]) gpu->driver->forget(gpu->device, &module->functions[i]);
    if (module->handle) gpu->driver->unload(gpu->device, module->handle);
    *module = (bti_gpu_module){0};
}

bt_status bti_gpu_start(bti_gpu *gpu, bti_gpu_module *module, const bti_gpu_grid *grid, bti_words *words) {
    bti_gpu_function *function = &module->functions[grid->number];
    if (!module->found[grid->number]) {
        BTI_TRY(gpu->driver->find(gpu->device, module->handle, grid->name, function));
        module->found[grid->number] = true;
    }
    if (function->threads && grid->threads > function->threads)
        return bti_fail(BT_UNIMPLEMENTED, "%s takes %d threads a group for %s, which has %d", gpu->name,
                        function->threads, grid->name, grid->threads);
    int64_t groups = (grid->units + grid->at_once - 1) / grid->at_once;
    int64_t most = function->groups ? (int64_t)function->groups * ROUNDS : MOST_GROUPS;
    if (!groups) return BT_OK;
    bti_gpu_launch launch = {.function = function,
                             .groups = (uint32_t)(groups < most ? groups : most),
                             .threads = (uint32_t)grid->threads,
                             .local = grid->local,
                             .local_bytes = grid->local_bytes,
                             .words = words};
    return gpu->driver->launch(gpu->device, &launch);
}

/* --- scratch ------------------------------------------------------------------------------------------------------- */

bt_status bti_gpu_scratch(bti_gpu *gpu, int slot, size_t bytes, uint64_t *address) {
    struct bti_gpu_scratch *scratch = &gpu->scratch[slot];
    if (scratch->bytes < bytes) {
        size_t wanted = bytes + bytes / 2;
        if (scratch->block) {
            BTI_TRY(gpu->driver->wait(gpu->device));
            gpu->allocator.free(gpu->allocator.device, scratch->block);
            *scratch = (struct bti_gpu_scratch){0};
            gpu->scratch_moves++;
        }
        bt_status status = gpu->allocator.alloc(gpu->allocator.device, wanted, &scratch->address, &scratch->block);
        if (status == BT_RESOURCE_EXHAUSTED)
            status = gpu->allocator.alloc(gpu->allocator.device, wanted = bytes, &scratch->address, &scratch->block);
        if (status != BT_OK) return status;
        scratch->bytes = wanted;
    }
    *address = scratch->address;
    return BT_OK;
}

void bti_gpu_trim(bti_gpu *gpu) {
    bool any = false;
    pthread_mutex_lock(&gpu->lock);
    for (int i = 0; i < BTI_GPU_SLOTS; i++) any = any || gpu->scratch[i].block;
    if (any && gpu->driver->wait(gpu->device) == BT_OK) {
        for (int i = 0; i < BTI_GPU_SLOTS; i++)
            if (gpu->scratch[i].block) gpu->allocator.free(gpu->allocator.device, gpu->scratch[i].block);
        memset(gpu->scratch, 0, sizeof gpu->scratch);
        gpu->scratch_moves++;
    }
    pthread_mutex_unlock(&gpu->lock);
}

/* --- programs ------------------------------------------------------------------------------------------------------ */

typedef struct program {
    bti_gpu_kernel *kernel; /* one of the two */
    bti_gpu_work *work;
} program;

static const char *missing_dtype(const bti_gpu *gpu, const bti_program_source *source) {
    bool wide = false;
    if (gpu->target != BTI_OPENCL_C_F32) return NULL;
    for (int i = 0; source->kernel && i < source->kernel->instr_count; i++)
        wide = wide || source->kernel->instrs[i].dtype == BT_F64;
    for (int i = 0; !source->kernel && i < source->dtype_count; i++) wide = wide || source->dtypes[i] == BT_F64;
    return wide ? "float64" : NULL;
}

bt_status bti_gpu_load(bti_gpu *gpu, const bti_program_source *source, void **loaded) {
    const char *missing = missing_dtype(gpu, source);
    if (missing) return bti_fail(BT_UNIMPLEMENTED, "%s has no %s; use float32 there, or the CPU", gpu->name, missing);
    program *new = bti_calloc(1, sizeof *new);
    if (!new) return bti_no_memory();
    bt_status status = source->kernel ? bti_gpu_kernel_load(gpu, source->kernel, source->render, &new->kernel)
                                      : bti_gpu_work_load(gpu, source, &new->work);
    if (status == BT_OK)
        *loaded = new;
    else
        bti_free(new);
    return status;
}

void bti_gpu_unload(bti_gpu *gpu, void *loaded) {
    program *old = loaded;
    if (old->kernel) bti_gpu_kernel_free(gpu, old->kernel);
    if (old->work) bti_gpu_work_free(gpu, old->work);
    bti_free(old);
}

bt_status bti_gpu_launch_work(bti_gpu *gpu, void *loaded, const bti_work *work) {
    pthread_mutex_lock(&gpu->lock);
    bt_status status = bti_gpu_work_launch(gpu, ((program *)loaded)->work, work);
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

bt_status bti_gpu_launch_kernel(bti_gpu *gpu, void *loaded, const bti_box *box) {
    pthread_mutex_lock(&gpu->lock);
    bt_status status = bti_gpu_kernel_launch(gpu, ((program *)loaded)->kernel, box);
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

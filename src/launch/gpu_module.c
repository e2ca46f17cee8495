/* Texts that are loaded, launches of their functions, scratch memory. */
#include <string.h>

#include "base/lock.h"
#include "base/alloc.h"
#include "launch/gpu_engine.h"

#define MOST_GROUPS (1 << 20)
/* A launch has at most so many times the groups that the device runs at once; groups loop over more units. */
#define ROUNDS 8

/* --- modules ------------------------------------------------------------------------------------------------------ */

bt_status bti_gpu_module_build(bti_gpu *gpu, const char *name, const bti_str *text, bti_gpu_module *module) {
    if (text->failed) return bti_no_memory();
    return gpu->driver->build(gpu->device, name, text, &module->handle);
}

void bti_gpu_module_free(bti_gpu *gpu, bti_gpu_module *module) {
    for (size_t i = 0; i < sizeof module->found && gpu->driver->free_function; i++)
        if (module->found[i]) gpu->driver->free_function(gpu->device, &module->functions[i]);
    if (module->handle) gpu->driver->unload(gpu->device, module->handle);
    *module = (bti_gpu_module){0};
}

bt_status bti_gpu_module_launch(bti_gpu *gpu, bti_gpu_module *module, const bti_gpu_grid *grid, bti_words *words) {
    bti_gpu_function *function = &module->functions[grid->number];
    if (!module->found[grid->number]) {
        BTI_TRY(gpu->driver->find_function(gpu->device, module->handle, grid->name, function));
        module->found[grid->number] = true;
    }
    if (function->threads && grid->threads > function->threads)
        return bti_fail(BT_UNIMPLEMENTED, "%s takes %d threads a group for %s, which has %d", gpu->name,
                        function->threads, grid->name, grid->threads);
    int64_t groups = (grid->units + grid->at_once - 1) / grid->at_once;
    int64_t most_groups = function->groups ? (int64_t)function->groups * ROUNDS : MOST_GROUPS;
    if (!groups) return BT_OK;
    bti_gpu_launch launch = {.function = function,
                             .groups = (uint32_t)(groups < most_groups ? groups : most_groups),
                             .threads = (uint32_t)grid->threads,
                             .local = grid->local,
                             .local_bytes = grid->local_bytes,
                             .words = words};
    return gpu->driver->launch(gpu->device, &launch);
}

/* --- scratch ------------------------------------------------------------------------------------------------------ */

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

void bti_gpu_trim(void *device) {
    bti_gpu *gpu = device;
    bool any = false;
    bti_lock_take(&gpu->lock);
    for (int i = 0; i < BTI_GPU_SLOTS; i++) any = any || gpu->scratch[i].block;
    if (any && gpu->driver->wait(gpu->device) == BT_OK) {
        for (int i = 0; i < BTI_GPU_SLOTS; i++)
            if (gpu->scratch[i].block) gpu->allocator.free(gpu->allocator.device, gpu->scratch[i].block);
        memset(gpu->scratch, 0, sizeof gpu->scratch);
        gpu->scratch_moves++;
    }
    bti_lock_give(&gpu->lock);
}

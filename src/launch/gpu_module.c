/* Texts that are loaded, and launches of their functions. */
#include "launch/gpu_engine.h"

#define MOST_GROUPS (1 << 20)
/* A launch has at most so many times the groups that the device runs at once; groups loop over more units. */
#define ROUNDS 8

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

bt_status bti_gpu_module_find(bti_gpu *gpu, bti_gpu_module *module, int number, const char *name) {
    if (module->found[number]) return BT_OK;
    BTI_TRY(gpu->driver->find_function(gpu->device, module->handle, name, &module->functions[number]));
    module->found[number] = true;
    return BT_OK;
}

bt_status bti_gpu_module_launch(bti_gpu *gpu, bti_gpu_module *module, const bti_gpu_grid *grid, bti_words *words) {
    const bti_gpu_function *function = &module->functions[grid->number];
    BTI_TRY(bti_gpu_module_find(gpu, module, grid->number, grid->name));
    if (function->threads && grid->threads > function->threads)
        return bti_fail(BT_UNIMPLEMENTED, "%s takes %d threads a group for %s, which has %d", gpu->name,
                        function->threads, grid->name, grid->threads);
    int64_t groups = (grid->units + grid->at_once - 1) / grid->at_once;
    if (grid->groups) groups = grid->groups;
    int64_t most_groups = grid->groups       ? grid->groups
                          : function->groups ? (int64_t)function->groups * ROUNDS
                                             : MOST_GROUPS;
    if (!groups) return BT_OK;
    bti_gpu_launch launch = {.function = function,
                             .groups = (uint32_t)(groups < most_groups ? groups : most_groups),
                             .threads = (uint32_t)grid->threads,
                             .local = grid->local,
                             .local_bytes = grid->local_bytes,
                             .words = words};
    return gpu->driver->launch(gpu->device, &launch);
}

/* Modules of kernels and their functions. */
#include "base/alloc.h"
#include "drivers/cuda/device.h"

typedef struct loaded_module {
    bti_cuda_held held; /* first */
    CUmodule handle;
} loaded_module;

static bt_status load_module(bti_cuda_device *device, const char *name, const bti_str *image, CUmodule *module) {
    CUresult result = bti_cu.cuModuleLoadData(module, image->text);
    if (result == CUDA_SUCCESS) return BT_OK;
    bt_status status = bti_cuda_check(device, "cuModuleLoadData", result);
    if (result != CUDA_ERROR_INVALID_IMAGE && result != CUDA_ERROR_NO_BINARY_FOR_GPU &&
        result != CUDA_ERROR_INVALID_PTX && result != CUDA_ERROR_UNSUPPORTED_PTX_VERSION &&
        result != CUDA_ERROR_INVALID_SOURCE)
        return status;
    const bti_cuda_library_state *nvrtc = bti_cuda_library_look(BTI_CUDA_NVRTC);
    const bti_cuda_library_state *driver = bti_cuda_library_look(BTI_CUDA_DRIVER);
    bool newer = nvrtc->major * 100 + nvrtc->minor > driver->major * 100 + driver->minor;
    return bti_fail(newer ? BT_UNAVAILABLE : status,
                    "%s: the driver (of CUDA %s) does not take %s as NVRTC %s compiled it (its code is %d)%s",
                    device->name, driver->version, name, nvrtc->version, result,
                    newer ? "; install a newer driver, or the NVRTC of the driver's CUDA" : "");
}

static bt_status build_module(bti_cuda_device *device, const char *name, const bti_str *text, CUmodule *module) {
    bti_str image = {0};
    bt_status status = bti_cuda_compile(device, name, text, &image);
    if (status == BT_OK) status = load_module(device, name, &image, module);
    if (status != BT_OK && image.length && !atomic_load(&device->lost)) bti_cuda_compile_refuse(device, text);
    bti_str_free(&image);
    return status;
}

static void free_module(bti_cuda_device *device, bti_cuda_retired *retired) {
    loaded_module *module = (loaded_module *)retired;
    if (!atomic_load(&device->lost)) (void)bti_cu.cuModuleUnload(module->handle);
    bti_free(module);
}

bt_status bti_cuda_build(void *opened, const char *name, const bti_str *text, void **built) {
    bti_cuda_device *device = opened;
    *built = NULL;
    loaded_module *module = bti_calloc(1, sizeof *module);
    if (!module) return bti_no_memory();
    module->held.retired.free = free_module;
    module->held.holders = 1;
    bt_status status = bti_cuda_enter(device);
    if (status == BT_OK) status = bti_cuda_leave(build_module(device, name, text, &module->handle));
    if (status == BT_OK)
        *built = module;
    else
        bti_free(module);
    return status;
}

static bt_status read_function(bti_cuda_device *device, loaded_module *module, const char *name,
                               bti_gpu_function *function) {
    CUfunction found;
    int fixed_bytes = 0, blocks = 0;
    BTI_CUDA_TRY(device, cuModuleGetFunction, &found, module->handle, name);
    BTI_CUDA_TRY(device, cuFuncGetAttribute, &function->threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, found);
    BTI_CUDA_TRY(device, cuFuncGetAttribute, &fixed_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, found);
    BTI_CUDA_TRY(device, cuFuncSetAttribute, found, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                 (int)device->shared_opt_in - fixed_bytes);
    int threads = function->threads < BTI_GROUP ? function->threads : BTI_GROUP;
    BTI_CUDA_TRY(device, cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, found, threads, 0);
    function->handle = found;
    function->module = module;
    function->groups = blocks * device->gpu.units;
    return BT_OK;
}

bt_status bti_cuda_find_function(void *opened, void *module, const char *name, bti_gpu_function *function) {
    bti_cuda_device *device = opened;
    *function = (bti_gpu_function){0};
    BTI_TRY(bti_cuda_enter(device));
    return bti_cuda_leave(read_function(device, module, name, function));
}

/* Modules, their functions, and launches. */
#include <string.h>

#include "base/alloc.h"
#include "drivers/cuda/device.h"

#define SLOTS 64
#define SLOT_BYTES (BTI_WORDS * 8)

/* Words that are too many for the parameters of a launch go through slots in device memory. A half of the slots is reused when the
 * launches that used it are complete. */
struct bti_cuda_words {
    CUdeviceptr memory;
    char *host; /* pinned; the source of the copies */
    CUevent done[2];
    bool busy[2];
    int next;
};

struct bti_cuda_module {
    bti_cuda_retired retired; /* first */
    CUmodule handle;
    atomic_uint holders; /* the owner, and recordings */
};

/* --- modules ------------------------------------------------------------------------------------------------------ */

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
    bti_cuda_module *module = (bti_cuda_module *)retired;
    if (!atomic_load(&device->lost)) (void)bti_cu.cuModuleUnload(module->handle);
    bti_free(module);
}

bt_status bti_cuda_build(void *opened, const char *name, const bti_str *text, void **built) {
    bti_cuda_device *device = opened;
    *built = NULL;
    bti_cuda_module *module = bti_calloc(1, sizeof *module);
    if (!module) return bti_no_memory();
    module->retired.free = free_module;
    module->holders = 1;
    bt_status status = bti_cuda_enter(device);
    if (status == BT_OK) status = bti_cuda_leave(build_module(device, name, text, &module->handle));
    if (status == BT_OK)
        *built = module;
    else
        bti_free(module);
    return status;
}

void bti_cuda_module_retain(bti_cuda_module *module) { atomic_fetch_add(&module->holders, 1); }

void bti_cuda_module_release(bti_cuda_device *device, bti_cuda_module *module) {
    if (atomic_fetch_sub(&module->holders, 1) == 1) bti_cuda_retire(device, &module->retired);
}

void bti_cuda_unload(void *device, void *module) { bti_cuda_module_release(device, module); }

static bt_status read_function(bti_cuda_device *device, bti_cuda_module *module, const char *name,
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

/* --- launches ----------------------------------------------------------------------------------------------------- */

/* After a failure the next launch goes on where it ended. */
static bt_status alloc_words(bti_cuda_device *device) {
    struct bti_cuda_words *words = device->words;
    if (words && words->memory) return BT_OK;
    if (!words) words = device->words = bti_calloc(1, sizeof *words);
    if (!words) return bti_no_memory();
    if (!words->host) {
        void *host = NULL;
        BTI_CUDA_TRY(device, cuMemHostAlloc, &host, SLOTS * SLOT_BYTES, 0);
        words->host = host;
    }
    for (int i = 0; i < 2; i++)
        if (!words->done[i]) BTI_CUDA_TRY(device, cuEventCreate, &words->done[i], CU_EVENT_DISABLE_TIMING);
    BTI_CUDA_TRY(device, cuMemAlloc, &words->memory, SLOTS * SLOT_BYTES);
    return BT_OK;
}

void bti_cuda_words_free(bti_cuda_device *device) {
    struct bti_cuda_words *words = device->words;
    if (!words) return;
    if (!atomic_load(&device->lost)) {
        if (words->memory) (void)bti_cu.cuMemFree(words->memory);
        if (words->host) (void)bti_cu.cuMemFreeHost(words->host);
        for (int i = 0; i < 2; i++)
            if (words->done[i]) (void)bti_cu.cuEventDestroy(words->done[i]);
    }
    bti_free(words);
    device->words = NULL;
}

/* Copies the words to a slot; *address is the slot's. */
static bt_status put_words(bti_cuda_device *device, const bti_words *from, CUdeviceptr *address) {
    BTI_TRY(alloc_words(device));
    struct bti_cuda_words *words = device->words;
    int half = words->next >= SLOTS / 2;
    if (words->next % (SLOTS / 2) == 0) {
        if (words->busy[half]) BTI_CUDA_TRY(device, cuEventSynchronize, words->done[half]);
        words->busy[half] = false;
    }
    size_t at = (size_t)words->next * SLOT_BYTES, bytes = (size_t)from->count * 8;
    memcpy(words->host + at, from->word, bytes);
    *address = words->memory + at;
    BTI_CUDA_TRY(device, cuMemcpyHtoDAsync, *address, words->host + at, bytes, device->compute);
    return BT_OK;
}

/* Goes on to the next slot, also after a launch that failed: the copy to its slot is on its way. After the last slot of a half, records the
 * event of the half. */
static bt_status advance_words(bti_cuda_device *device) {
    struct bti_cuda_words *words = device->words;
    int half = words->next >= SLOTS / 2;
    words->next = (words->next + 1) % SLOTS;
    if (words->next % (SLOTS / 2)) return BT_OK;
    bt_status status =
        bti_cuda_check(device, "cuEventRecord", bti_cu.cuEventRecord(words->done[half], device->compute));
    words->busy[half] = status == BT_OK;
    if (status != BT_OK) (void)bti_cu.cuStreamSynchronize(device->compute);
    return status;
}

static bt_status launch_function(bti_cuda_device *device, const bti_gpu_launch *asked) {
    CUdeviceptr address = 0;
    bool by_value = bti_words_by_value(asked->words->count, asked->words->address_count, BTI_CUDA_C);
    void *parameters[] = {by_value ? (void *)asked->words->word : &address};
    if (!by_value) {
        if (bti_cuda_cannot_record(device)) return BT_OK;
        BTI_TRY(put_words(device, asked->words, &address));
    }
    bti_cuda_capture_module(device, asked->function->module);
    bt_status status =
        bti_cuda_check(device, "cuLaunchKernel",
                       bti_cu.cuLaunchKernel(asked->function->handle, asked->groups, 1, 1, asked->threads, 1, 1,
                                             (unsigned)asked->local_bytes, bti_cuda_stream(device), parameters, NULL));
    bt_status advanced = by_value ? BT_OK : advance_words(device);
    return status == BT_OK ? advanced : status;
}

bt_status bti_cuda_launch(void *opened, const bti_gpu_launch *asked) {
    bti_cuda_device *device = opened;
    BTI_TRY(bti_cuda_enter(device));
    return bti_cuda_leave(launch_function(device, asked));
}

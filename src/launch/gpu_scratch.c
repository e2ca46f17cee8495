/* Scratch memory: one block per slot, which grows and is kept. */
#include <string.h>

#include "base/flags.h"
#include "base/lock.h"
#include "launch/gpu_driver.h"

bt_status bti_gpu_scratch(bti_gpu *gpu, int slot, size_t bytes, uint64_t *address) {
    struct bti_gpu_scratch *scratch = &gpu->scratch[slot];
    if (scratch->bytes < bytes) {
        size_t wanted = bti_flag_bool(BTI_FLAG_memory_pool) ? bytes + bytes / 2 : bytes;
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

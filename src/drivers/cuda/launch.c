/* Launches, and their arguments. */
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
    const bti_cuda_launched what = {.kind = BTI_CUDA_KERNEL,
                                    .function = asked->function->handle,
                                    .groups = asked->groups,
                                    .threads = asked->threads,
                                    .bytes = asked->local_bytes,
                                    .word_count = (size_t)asked->words->count,
                                    .words = asked->words->word};
    if (bti_cuda_is_update(device, &what)) return BT_OK;
    bti_cuda_capture_held(device, asked->function->module);
    bt_status status =
        bti_cuda_check(device, "cuLaunchKernel",
                       bti_cu.cuLaunchKernel(asked->function->handle, asked->groups, 1, 1, asked->threads, 1, 1,
                                             (unsigned)asked->local_bytes, bti_cuda_stream(device), parameters, NULL));
    if (status == BT_OK) bti_cuda_note(device, &what);
    bt_status advanced = by_value ? BT_OK : advance_words(device);
    return status == BT_OK ? advanced : status;
}

bt_status bti_cuda_launch(void *opened, const bti_gpu_launch *asked) {
    bti_cuda_device *device = opened;
    BTI_TRY(bti_cuda_enter(device));
    return bti_cuda_leave(launch_function(device, asked));
}

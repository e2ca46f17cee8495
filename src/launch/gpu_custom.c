/* Kernels of the program's: their text is compiled before the first launch, and launched with the grid that the program asks for. */
#include <stdio.h>

#include "base/alloc.h"
#include "launch/gpu_engine.h"

struct bti_gpu_custom {
    char name[BTI_CUSTOM_ENTRY], entry[BTI_CUSTOM_ENTRY];
    bti_gpu_module module;
};

bti_gpu_custom *bti_gpu_custom_new(const bti_custom_source *source) {
    bti_gpu_custom *custom = bti_calloc(1, sizeof *custom);
    if (!custom) return NULL;
    snprintf(custom->name, sizeof custom->name, "%s", source->name);
    snprintf(custom->entry, sizeof custom->entry, "%s", source->entry);
    return custom;
}

bool bti_gpu_custom_lacks_text(const bti_gpu_custom *custom) { return !custom->module.handle; }

/* The program's own mistake, with what the compiler says of it. */
static bt_status blame(const bti_gpu *gpu, const bti_gpu_custom *custom, bt_status status, bool built) {
    if (status != BT_INTERNAL) return status;
    bti_error *why = bti_error_last();
    status = built ? bti_fail(BT_INVALID_ARGUMENT, "%s: the text of the operation \"%s\" has no KERNEL(%s): %s",
                              gpu->name, custom->name, custom->entry, bti_error_message(why))
                   : bti_fail(BT_INVALID_ARGUMENT, "the text of the operation \"%s\" does not compile: %s",
                              custom->name, bti_error_message(why));
    bti_error_release(why);
    return status;
}

/* Compiled without the lock, so that others launch meanwhile; if several threads do, the first one's stays. */
bt_status bti_gpu_custom_give(bti_gpu *gpu, bti_gpu_custom *custom, const bti_str *text) {
    bti_gpu_module module = {0};
    bt_status status = bti_gpu_module_build(gpu, custom->name, text, &module);
    if (status == BT_OK) status = bti_gpu_module_find(gpu, &module, 0, custom->entry);
    if (status != BT_OK) {
        status = blame(gpu, custom, status, module.handle != NULL);
        bti_gpu_module_free(gpu, &module);
        return status;
    }
    bti_lock_take(&gpu->lock);
    bool first = bti_gpu_custom_lacks_text(custom);
    if (first) custom->module = module;
    bti_lock_give(&gpu->lock);
    if (!first) bti_gpu_module_free(gpu, &module);
    return BT_OK;
}

void bti_gpu_custom_free(bti_gpu *gpu, bti_gpu_custom *custom) {
    bti_gpu_module_free(gpu, &custom->module);
    bti_free(custom);
}

bt_status bti_gpu_custom_launch(bti_gpu *gpu, bti_gpu_custom *custom, const bti_custom_launch *asked) {
    bti_words words = {0};
    bti_gpu_grid grid = {.name = custom->entry, .groups = asked->groups, .at_once = 1, .threads = asked->threads};
    for (int a = 0; a < asked->address_count; a++) bti_words_add_address(&words, asked->addresses[a]);
    for (int n = 0; n < asked->number_count; n++) bti_words_add(&words, (uint64_t)asked->numbers[n]);
    return bti_gpu_module_launch(gpu, &custom->module, &grid, &words);
}

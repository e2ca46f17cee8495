/* Texts that launches need. The engine writes none: a launch that lacks one ends before it has launched anything, and is repeated with it. */
#include <string.h>

#include "base/alloc.h"
#include "launch/gpu_engine.h"

bt_status bti_gpu_text_of(bti_gpu *gpu, const bti_kernel *kernel, int variant, const bti_str **text) {
    bti_gpu_texts *texts = gpu->texts;
    bool same = texts->of_kernel == (kernel != NULL) && texts->variant == variant &&
                (!kernel || bti_kernel_equal(&texts->kernel, kernel));
    *text = &texts->given;
    if (texts->is_given && same) return texts->given.failed ? bti_no_memory() : BT_OK;
    texts->wanting = true;
    texts->of_kernel = kernel != NULL;
    texts->variant = variant;
    if (kernel) texts->kernel = *kernel;
    bti_gpu_text_drop(texts);
    return BT_FAILED_PRECONDITION;
}

void bti_gpu_text_keep(bti_gpu_texts *texts, const bti_str *text) {
    bti_gpu_text_drop(texts);
    bti_str_add(&texts->given, bti_str_text(text));
    texts->given.failed = texts->given.failed || text->failed;
    texts->is_given = true;
    texts->wanting = false;
}

void bti_gpu_text_drop(bti_gpu_texts *texts) {
    bti_str_free(&texts->given);
    texts->given = (bti_str){0};
    texts->is_given = false;
}

const char *bti_gpu_text_line(const bti_str *text, long number) {
    const char *at = bti_str_text(text), *own = strstr(at, "\n" BTI_OWN_LINES);
    if (own) at = own + strlen("\n" BTI_OWN_LINES);
    for (long i = 1; i < number && at; i++) {
        at = strchr(at, '\n');
        if (at) at++;
    }
    return at;
}

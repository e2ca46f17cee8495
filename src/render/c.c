#include "render/c.h"

#include <string.h>

#include "base/alloc.h"
#include "render/c_parts.h"

static const char cuda_words[] = {
#include "c_cuda.inc"
    0};
static const char opencl_words[] = {
#include "c_opencl.inc"
    0};
static const char common_functions[] = {
#include "c_common.inc"
    0};

static void add_line(bti_c *w, const char *format, va_list arguments) {
    for (int i = 0; i < w->depth; i++) bti_str_add(w->text, "    ");
    bti_str_addv(w->text, format, arguments);
}

void bti_c_line(bti_c *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add_line(w, format, arguments);
    va_end(arguments);
    bti_str_add(w->text, "\n");
}

void bti_c_open(bti_c *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add_line(w, format, arguments);
    va_end(arguments);
    bti_str_add(w->text, " {\n");
    w->depth++;
}

void bti_c_close(bti_c *w) {
    w->depth--;
    bti_c_line(w, "}");
}

void bti_render_c_words(bti_str *text, bti_target target) {
    if (target == BTI_OPENCL_C) bti_str_add(text, "#define HAS_F64\n");
    bti_str_add(text, target == BTI_CUDA_C ? cuda_words : opencl_words);
    bti_str_add(text, common_functions);
}

bool bti_render_c_body(bti_str *text, const bti_kernel *kernel, bti_target target) {
    bti_c *w = bti_calloc(1, sizeof *w);
    if (!w) return false;
    *w = (bti_c){.text = text, .kernel = kernel, .target = target};
    bti_c_functions(w);
    if (kernel->reduced)
        bti_c_reduction(w);
    else
        bti_c_map(w);
    bti_free(w);
    return !text->failed;
}

bool bti_render_c(bti_str *text, const bti_kernel *kernel, bti_target target) {
    bti_render_c_words(text, target);
    return bti_render_c_body(text, kernel, target);
}

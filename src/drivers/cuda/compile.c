/* Compiles text to machine code by NVRTC; the disk cache keeps it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/trace.h"
#include "cache/cache.h"
#include "drivers/cuda/device.h"

/* What NVRTC compiles for: the device itself; for a device newer than NVRTC, PTX of the newest architecture that NVRTC knows, which the
 * driver compiles. */
typedef struct compile_target {
    int architecture;
    bool ptx;
} compile_target;

static bt_status choose_target(int architecture, compile_target *chosen) {
    const bti_cuda_library_state *nvrtc = bti_cuda_library_look(BTI_CUDA_NVRTC);
    int known[128], count = 0, oldest = 0;
    BTI_TRY(bti_cuda_need(BTI_CUDA_NVRTC));
    if (bti_nvrtc.nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS || count < 1 || count > 128 ||
        bti_nvrtc.nvrtcGetSupportedArchs(known) != NVRTC_SUCCESS)
        return bti_fail(BT_UNAVAILABLE, "NVRTC %s (%s) does not report what it compiles for", nvrtc->version,
                        nvrtc->path);
    *chosen = (compile_target){0, true};
    for (int i = 0; i < count; i++) {
        if (known[i] <= architecture && known[i] > chosen->architecture) chosen->architecture = known[i];
        if (!oldest || known[i] < oldest) oldest = known[i];
    }
    chosen->ptx = chosen->architecture != architecture;
    if (chosen->architecture) return BT_OK;
    return bti_fail(
        BT_UNAVAILABLE,
        "NVRTC %s compiles for compute capability %d.%d and up, and this device has %d.%d: install NVRTC 12 "
        "(NVIDIA's package cuda-nvrtc-12-9, or Python's nvidia-cuda-nvrtc-cu12)",
        nvrtc->version, oldest / 10, oldest % 10, architecture / 10, architecture % 10);
}

bt_status bti_cuda_compiler_check(int architecture) {
    compile_target unused;
    return choose_target(architecture, &unused);
}

/* NVRTC's version is not part of the key, so that a kernel is found without opening NVRTC. */
static bti_cache_key cache_key(const bti_cuda_device *device, const bti_str *text) {
    char name[32];
    snprintf(name, sizeof name, "sm_%d", device->architecture);
    return bti_cache_key_of(text, BTI_CUDA_C, name);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

static bt_status nvrtc_failed(nvrtcResult result, const char *call) {
    return bti_fail(result == NVRTC_ERROR_OUT_OF_MEMORY ? BT_RESOURCE_EXHAUSTED : BT_INTERNAL, "%s: %s", call,
                    bti_nvrtc.nvrtcGetErrorString(result));
}

static void add_text_line(bti_str *told, const bti_str *text, long number) {
    const char *at = bti_gpu_text_line(text, number);
    if (at) bti_str_addf(told, "%5ld | %.*s\n", number, (int)strcspn(at, "\n"), at);
}

/* Adds the lines of the text that the log names, as in "mul+add.cu(12): error: ...". */
static void add_named_lines(bti_str *told, const bti_str *text, const char *log, const char *file) {
    long last = 0;
    int lines = 0;
    size_t length = strlen(file);
    for (const char *at = strstr(log, file); at && lines < 8; at = strstr(at + 1, file)) {
        long number = at[length] == '(' ? strtol(at + length + 1, NULL, 10) : 0;
        if (number < 1 || number == last) continue;
        add_text_line(told, text, number);
        last = number;
        lines++;
    }
}

static bt_status fail_with_log(nvrtcProgram program, nvrtcResult result, const bti_str *text, const char *file) {
    size_t bytes = 0;
    bti_str told = {0};
    char *log = NULL;
    if (result == NVRTC_ERROR_COMPILATION && bti_nvrtc.nvrtcGetProgramLogSize(program, &bytes) == NVRTC_SUCCESS &&
        bytes > 0 && (log = bti_calloc(1, bytes + 1)) && bti_nvrtc.nvrtcGetProgramLog(program, log) == NVRTC_SUCCESS) {
        bti_str_add(&told, log);
        add_named_lines(&told, text, log, file);
    }
    bt_status status = log ? bti_fail(BT_INTERNAL, "NVRTC does not compile %s:\n%s", file, bti_str_text(&told))
                           : nvrtc_failed(result, "nvrtcCompileProgram");
    bti_free(log);
    bti_str_free(&told);
    return status;
}

/* --- compiling ---------------------------------------------------------------------------------------------------- */

static bt_status read_image(nvrtcProgram program, bool ptx, bti_str *image) {
    size_t bytes = 0;
    nvrtcResult result =
        ptx ? bti_nvrtc.nvrtcGetPTXSize(program, &bytes) : bti_nvrtc.nvrtcGetCUBINSize(program, &bytes);
    if (result != NVRTC_SUCCESS) return nvrtc_failed(result, "nvrtcGetCUBINSize");
    char *code = bti_calloc(1, bytes + 1);
    if (!code) return bti_no_memory();
    result = ptx ? bti_nvrtc.nvrtcGetPTX(program, code) : bti_nvrtc.nvrtcGetCUBIN(program, code);
    if (result == NVRTC_SUCCESS) bti_str_add_bytes(image, code, bytes);
    bti_free(code);
    if (result != NVRTC_SUCCESS) return nvrtc_failed(result, "nvrtcGetCUBIN");
    return image->failed ? bti_no_memory() : BT_OK;
}

static bt_status compile_nvrtc(const bti_cuda_device *device, const char *name, const bti_str *text, bti_str *image) {
    char file[80], architecture[48];
    nvrtcProgram program;
    compile_target chosen;
    BTI_TRY(choose_target(device->architecture, &chosen));
    snprintf(file, sizeof file, "%s.cu", name);
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s_%d", chosen.ptx ? "compute" : "sm",
             chosen.architecture);
    const char *const options[] = {architecture, "--std=c++17", "--fmad=false", "-default-device"};
    nvrtcResult result = bti_nvrtc.nvrtcCreateProgram(&program, bti_str_text(text), file, 0, NULL, NULL);
    if (result != NVRTC_SUCCESS) return nvrtc_failed(result, "nvrtcCreateProgram");
    result = bti_nvrtc.nvrtcCompileProgram(program, sizeof options / sizeof *options, options);
    bt_status status =
        result == NVRTC_SUCCESS ? read_image(program, chosen.ptx, image) : fail_with_log(program, result, text, file);
    (void)bti_nvrtc.nvrtcDestroyProgram(&program);
    return status;
}

bt_status bti_cuda_compile(const bti_cuda_device *device, const char *name, const bti_str *text, bti_str *image) {
    bti_cache_key key = cache_key(device, text);
    uint64_t start = bti_trace_begin();
    if (bti_cache_find(key, image)) {
        bti_trace_end(BTI_TRACE_CACHE, name, start);
        return BT_OK;
    }
    image->length = 0;
    start = bti_trace_begin();
    BTI_TRY(compile_nvrtc(device, name, text, image));
    bti_trace_end(BTI_TRACE_COMPILE, name, start);
    const bti_cuda_library_state *nvrtc = bti_cuda_library_look(BTI_CUDA_NVRTC);
    const unsigned compiler[3] = {(unsigned)nvrtc->major, (unsigned)nvrtc->minor, 0};
    bti_cache_store(key, image, compiler);
    return BT_OK;
}

void bti_cuda_compile_refuse(const bti_cuda_device *device, const bti_str *text) {
    bti_cache_refuse(cache_key(device, text));
}

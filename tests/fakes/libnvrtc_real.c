/* Compiles by a real NVRTC, and hands out PTX for the emulator in place of machine code. The lines in front of the PTX
 *     // fake NVRTC: version 13.0
 *     // fake NVRTC: file mul+add.cu
 *     // fake NVRTC: function bti_run registers 40 spill 0 shared 128
 * carry what only the compiler knows; ptx_parse reads them. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/libnvrtc.h"

#define NO_LIBRARY 11 /* NVRTC_ERROR_INTERNAL_ERROR */

/* --- the library ------------------------------------------------------------------------------------------------------ */

static const char *say_no_library(nvrtcResult result) {
    (void)result;
    return "the NVRTC of the fake machine cannot be opened";
}
static nvrtcResult fail_version(int *major, int *minor) {
    *major = *minor = 0;
    return NO_LIBRARY;
}
static nvrtcResult fail_create(nvrtcProgram *program, const char *text, const char *name, int count,
                               const char *const *headers, const char *const *names) {
    (void)text, (void)name, (void)count, (void)headers, (void)names;
    *program = NULL;
    return NO_LIBRARY;
}
static nvrtcResult fail_number(int *number) {
    *number = 0;
    return NO_LIBRARY;
}

static bool load(const char *path, bti_nvrtc_api *api) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays open: NVRTC keeps threads */
    bool complete = library;
    if (!library) fake_log("%s", dlerror());
#define BTI_SYMBOL(result, name, symbol, arguments)                     \
    if (library) *(void **)(void *)&api->name = dlsym(library, symbol); \
    complete = complete && api->name;
#include "drivers/cuda/nvrtc.def"
#undef BTI_SYMBOL
    return complete && api->nvrtcVersion != nvrtcVersion; /* not this library itself */
}

const bti_nvrtc_api *fake_real_nvrtc(void) {
    static char path[sizeof fake()->nvrtc_library];
    static bti_nvrtc_api api;
    const char *wanted = fake()->nvrtc_library;
    if (!*wanted) return NULL;
    fake_lock();
    if (strcmp(path, wanted)) {
        snprintf(path, sizeof path, "%s", wanted);
        if (!load(path, &api))
            api = (bti_nvrtc_api){.nvrtcGetErrorString = say_no_library,
                                  .nvrtcVersion = fail_version,
                                  .nvrtcGetNumSupportedArchs = fail_number,
                                  .nvrtcGetSupportedArchs = fail_number,
                                  .nvrtcCreateProgram = fail_create};
    }
    fake_unlock();
    return &api;
}

/* --- the log ---------------------------------------------------------------------------------------------------------- */

/* "ptxas info    : Used 40 registers, used 1 barriers, 128 bytes smem" */
static unsigned bytes_of_shared(const char *line) {
    unsigned bytes = 0;
    for (const char *at = strchr(line, ','); at; at = strchr(at + 1, ',')) {
        int length = 0;
        unsigned found;
        if (sscanf(at, ", %u bytes smem%n", &found, &length) == 1 && length) bytes = found;
    }
    return bytes;
}

/* Takes what ptxas says of functions out of the log, whose other lines stay: that is the log without -Xptxas=-v. */
static void split_log(char *log, FILE *head) {
    char name[512] = "", *to = log;
    unsigned spill = 0, unused, registers;
    for (char *line = log, *next; *line; line = next) {
        size_t length = strcspn(line, "\n");
        next = line + length + (line[length] == '\n');
        char rest = line[length];
        line[length] = '\0';
        const char *at = strstr(line, "Function properties for ");
        if (at) (void)!sscanf(at, "Function properties for %511s", name);
        (void)!sscanf(line, "ptxas . %u bytes stack frame, %u bytes spill stores", &unused, &spill);
        at = strstr(line, ": Used ");
        if (at && *name && sscanf(at, ": Used %u registers", &registers) == 1) {
            fprintf(head, "// fake NVRTC: function %s registers %u spill %u shared %u\n", name, registers, spill,
                    bytes_of_shared(line));
            *name = '\0';
        }
        bool told = !strncmp(line, "ptxas info", 10) || !strncmp(line, "ptxas   ", 8);
        line[length] = rest;
        if (told) continue;
        memmove(to, line, (size_t)(next - line));
        to += next - line;
    }
    *to = '\0';
}

/* --- compiling -------------------------------------------------------------------------------------------------------- */

static char *read_log(const bti_nvrtc_api *real, nvrtcProgram program) {
    size_t bytes = 0;
    if (real->nvrtcGetProgramLogSize(program, &bytes)) return NULL;
    char *log = calloc(1, bytes + 1);
    if (log && bytes && real->nvrtcGetProgramLog(program, log)) *log = '\0';
    return log;
}

static char *read_ptx(const bti_nvrtc_api *real, nvrtcProgram program) {
    size_t bytes = 0;
    if (real->nvrtcGetPTXSize(program, &bytes)) return NULL;
    char *ptx = calloc(1, bytes + 1);
    if (ptx && real->nvrtcGetPTX(program, ptx)) *ptx = '\0';
    return ptx;
}

nvrtcResult fake_compile_real(nvrtcProgram program, int option_count, const char *const *options) {
    const bti_nvrtc_api *real = fake_real_nvrtc();
    const char **all = calloc((size_t)option_count + 2, sizeof *all);
    size_t bytes;
    int major = 0, minor = 0;
    if (!all) return NVRTC_ERROR_OUT_OF_MEMORY;
    if (option_count) memcpy(all, options, (size_t)option_count * sizeof *all);
    all[option_count] = "-lineinfo";
    all[option_count + 1] = "-Xptxas=-v";
    nvrtcResult result = real->nvrtcCompileProgram(program->real, option_count + 2, all);
    free(all);
    free(program->log);
    free(program->code);
    program->code = NULL;
    program->log = read_log(real, program->real);
    char *ptx = result ? NULL : read_ptx(real, program->real);
    FILE *out = open_memstream(&program->code, &bytes);
    if (!out || !program->log || (!ptx && !result)) {
        if (out) fclose(out);
        return free(ptx), result ? result : NVRTC_ERROR_OUT_OF_MEMORY;
    }
    (void)real->nvrtcVersion(&major, &minor);
    fprintf(out, "// fake NVRTC: version %d.%d\n// fake NVRTC: file %s\n", major, minor, program->name);
    split_log(program->log, out);
    if (ptx) fputs(ptx, out);
    if (fclose(out) && !result) result = NVRTC_ERROR_OUT_OF_MEMORY;
    free(ptx);
    if (!result) fake_log("compile %s %s", program->name, option_count ? options[0] : "");
    return result;
}

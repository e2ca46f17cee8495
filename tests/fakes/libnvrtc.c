/* A fake NVRTC: the text is the code. A line that begins with "#error" does not compile. Where the machine names a real NVRTC, that one
 * compiles, and the code is its PTX. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/libnvrtc.h"

FAKE_API const char *nvrtcGetErrorString(nvrtcResult result) {
    if (fake_real_nvrtc()) return fake_real_nvrtc()->nvrtcGetErrorString(result);
    return result == NVRTC_ERROR_COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR";
}
FAKE_API nvrtcResult nvrtcVersion(int *major, int *minor) {
    int code = fake_call("nvrtcVersion", false);
    if (fake_real_nvrtc()) return code ? code : fake_real_nvrtc()->nvrtcVersion(major, minor);
    *major = fake()->nvrtc_major;
    *minor = fake()->nvrtc_minor;
    return code;
}
static const int known[] = {75, 80, 90, 100};
FAKE_API nvrtcResult nvrtcGetNumSupportedArchs(int *count) {
    int code = fake_call("nvrtcGetNumSupportedArchs", false);
    if (fake_real_nvrtc()) return code ? code : fake_real_nvrtc()->nvrtcGetNumSupportedArchs(count);
    *count = sizeof known / sizeof *known;
    return code;
}
FAKE_API nvrtcResult nvrtcGetSupportedArchs(int *architectures) {
    int code = fake_call("nvrtcGetSupportedArchs", false);
    if (fake_real_nvrtc()) return code ? code : fake_real_nvrtc()->nvrtcGetSupportedArchs(architectures);
    memcpy(architectures, known, sizeof known);
    return code;
}
FAKE_API nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *text, const char *name, int header_count,
                                        const char *const *headers, const char *const *include_names) {
    int code = fake_call("nvrtcCreateProgram", false);
    if (code || header_count) return code ? code : 3;
    nvrtcProgram made = calloc(1, sizeof *made);
    if (!made || !(made->text = strdup(text))) return free(made), 1;
    snprintf(made->name, sizeof made->name, "%s", name);
    if (fake_real_nvrtc())
        code = fake_real_nvrtc()->nvrtcCreateProgram(&made->real, text, name, header_count, headers, include_names);
    if (code) return free(made->text), free(made), code;
    fake_live(1);
    *program = made;
    return 0;
}
FAKE_API nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
    if ((*program)->real) (void)fake_real_nvrtc()->nvrtcDestroyProgram(&(*program)->real);
    free((*program)->text);
    free((*program)->log);
    free((*program)->code);
    free(*program);
    *program = NULL;
    fake_live(-1);
    return 0;
}
static bool is_option(const char *text) {
    return !strncmp(text, "--gpu-architecture=", 19) || !strcmp(text, "--std=c++17") || !strcmp(text, "--fmad=false") ||
           !strcmp(text, "-default-device");
}
FAKE_API nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int option_count, const char *const *options) {
    int code = fake_call("nvrtcCompileProgram", false), line = 1;
    if (code) return code;
    if (program->real) return fake_compile_real(program, option_count, options);
    for (int i = 0; i < option_count; i++)
        if (!is_option(options[i])) return 5;
    for (const char *at = program->text; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL, line++) {
        if (strncmp(at, "#error", 6)) continue;
        free(program->log);
        program->log = NULL;
        (void)!asprintf(&program->log, "%s(%d): error: #error directive\n\n1 error detected.\n", program->name, line);
        return NVRTC_ERROR_COMPILATION;
    }
    size_t bytes = strlen(program->text) + 400;
    program->code = calloc(1, bytes);
    if (!program->code) return 1;
    snprintf(program->code, bytes, "fake code of %d, %s\n%s", fake()->nvrtc_major, option_count ? options[0] : "",
             program->text);
    fake_log("compile %s %s", program->name, option_count ? options[0] : "");
    return 0;
}
FAKE_API nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes) {
    *bytes = strlen(program->code) + 1;
    return fake_call("nvrtcGetCUBINSize", false);
}
FAKE_API nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *code) {
    memcpy(code, program->code, strlen(program->code) + 1);
    return fake_call("nvrtcGetCUBIN", false);
}
FAKE_API nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *bytes) { return nvrtcGetCUBINSize(program, bytes); }
FAKE_API nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *code) { return nvrtcGetCUBIN(program, code); }
FAKE_API nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes) {
    *bytes = (program->log ? strlen(program->log) : 0) + 1;
    return 0;
}
FAKE_API nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log) {
    strcpy(log, program->log ? program->log : "");
    return 0;
}

/* The fake NVRTC around a real one, and what the parser reads from its texts. Without an NVRTC it is skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "drivers/cuda/nvrtc.h"
#include "fakes/ptx/ptx.h"
#include "support/find_nvrtc.h"

static bti_nvrtc_api nvrtc;
static int major;

/* --- the libraries ---------------------------------------------------------------------------------------------------- */

static int open_fake(void **state) {
    found_nvrtc real;
    char machine[] = "/tmp/berth-machine-XXXXXX";
    if (!find_nvrtc(&real)) return 0;
    FILE *file = fdopen(mkstemp(machine), "w");
    assert_non_null(file);
    fprintf(file, "{\"nvrtc_library\": \"%s\"}", real.path);
    assert_int_equal(fclose(file), 0);
    setenv("BERTH_FAKE_MACHINE", machine, 1);
    void *library = dlopen(BERTH_BUILD_DIR "/fakes/libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
#define BTI_SYMBOL(result, name, symbol, arguments) \
    assert_non_null(*(void **)(void *)&nvrtc.name = dlsym(library, symbol));
#include "drivers/cuda/nvrtc.def"
#undef BTI_SYMBOL
    int minor;
    assert_int_equal(nvrtc.nvrtcVersion(&major, &minor), NVRTC_SUCCESS);
    assert_in_range(major, 12, 99);
    return unlink(machine);
}

/* --- compiling -------------------------------------------------------------------------------------------------------- */

/* The log and the code, of the caller to free. */
static nvrtcResult compile(const char *text, const char *option, char **log, char **code) {
    nvrtcProgram program;
    size_t bytes;
    const char *const options[] = {"--gpu-architecture=sm_80", "-default-device", option};
    assert_int_equal(nvrtc.nvrtcCreateProgram(&program, text, "some.cu", 0, NULL, NULL), NVRTC_SUCCESS);
    nvrtcResult result = nvrtc.nvrtcCompileProgram(program, 3, options);
    assert_int_equal(nvrtc.nvrtcGetProgramLogSize(program, &bytes), NVRTC_SUCCESS);
    assert_non_null(*log = calloc(1, bytes + 1));
    assert_int_equal(nvrtc.nvrtcGetProgramLog(program, *log), NVRTC_SUCCESS);
    *code = NULL;
    if (result == NVRTC_SUCCESS) {
        assert_int_equal(nvrtc.nvrtcGetCUBINSize(program, &bytes), NVRTC_SUCCESS);
        assert_non_null(*code = calloc(1, bytes + 1));
        assert_int_equal(nvrtc.nvrtcGetCUBIN(program, *code), NVRTC_SUCCESS);
        assert_int_equal(strlen(*code) + 1, bytes);
    }
    assert_int_equal(nvrtc.nvrtcDestroyProgram(&program), NVRTC_SUCCESS);
    assert_null(program);
    return result;
}

static void test_code_is_ptx(void **state) {
    char *log, *code, *problem = NULL, version[60];
    if (!major) skip();
    nvrtcResult result = compile("extern \"C\" __global__ void __launch_bounds__(128, 2) one(float *x) {\n"
                                 "    __shared__ float held[32];\n"
                                 "    int unused;\n"
                                 "    held[threadIdx.x % 32] = x[0];\n"
                                 "    __syncthreads();\n"
                                 "    x[1] = held[x[2] > 0];\n"
                                 "}\n"
                                 "extern \"C\" __global__ void one_more(double *x) { x[threadIdx.x] = sin(x[1]); }\n",
                                 "--fmad=false", &log, &code);
    assert_int_equal(result, NVRTC_SUCCESS);
    assert_non_null(strstr(log, "some.cu(3): warning"));
    assert_null(strstr(log, "ptxas"));
    snprintf(version, sizeof version, "// fake NVRTC: version %d.", major);
    assert_int_equal(strncmp(code, version, strlen(version)), 0);
    ptx_module *module = ptx_parse(code, &problem);
    if (!module) fail_msg("%s", problem);
    const ptx_function *one = ptx_find(module, "one"), *more = ptx_find(module, "one_more");
    assert_string_equal(module->file, "some.cu");
    assert_int_equal(module->architecture, 80);
    assert_non_null(one);
    assert_non_null(more);
    assert_in_range(one->hardware_registers, 4, 64);
    assert_in_range(more->hardware_registers, one->hardware_registers + 1, 255);
    assert_int_equal(one->shared_bytes, 128);
    assert_int_equal(one->max_threads, 128);
    bool found = false;
    for (uint32_t i = 0; i < one->count; i++)
        found |= one->instructions[i].opcode == PTX_BAR_SYNC && one->instructions[i].line == 5;
    assert_true(found);
    ptx_free(module);
    free(log);
    free(code);
}

static void test_failures(void **state) {
    char *log, *code;
    if (!major) skip();
    assert_int_equal(compile("#error directive\n", "--fmad=false", &log, &code), NVRTC_ERROR_COMPILATION);
    assert_non_null(strstr(log, "some.cu(1): catastrophic error") || strstr(log, "some.cu(1): error") ? log : NULL);
    free(log);
    assert_int_not_equal(compile("", "--no-such-option", &log, &code), NVRTC_SUCCESS);
    free(log);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_code_is_ptx), cmocka_unit_test(test_failures)};
    return cmocka_run_group_tests(tests, open_fake, NULL);
}

/* Modules and functions of the fake libcuda. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/findings.h"
#include "fakes/libcuda.h"

static CUfunction all_functions;

static __attribute__((destructor)) void end(void) {
    for (CUfunction next, f = all_functions; f; f = next) {
        next = f->next;
        free(f);
    }
}

static void drop_module(void *thing) {
    CUmodule module = thing;
    for (CUfunction f = all_functions; f; f = f->next)
        if (f->module == module) f->unloaded = true;
    free(module->text);
    free(module);
}

FAKE_API CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    ENTER_IN_CONTEXT(cuModuleLoadData);
    const char *text = image;
    if (fake_random() & 1) fake_run_device(fake_current()->device, "cuModuleLoadData");
    int version = 0;
    if (sscanf(text, "fake code of %d", &version) != 1) return 200;
    if (version > fake()->cuda / 1000) return 222;
    CUmodule made = calloc(1, sizeof *made);
    if (!made || !(made->text = strdup(text)) || !fake_own(made, drop_module)) return 2;
    *module = made;
    return 0;
}
FAKE_API CUresult cuModuleUnload(CUmodule module) {
    fake_log("unload");
    int code = fake_call("cuModuleUnload", true), device = fake_current() ? fake_current()->device : 0;
    fake_lock();
    const char *launch = fake_stream_uses(module), *recorded = fake_executables_use(module);
    if ((launch || recorded) && fake_may_find(device))
        fake_find(device, FAKE_LAUNCH_FAILED, "cuModuleUnload unloads %s, %s", launch ? launch : recorded,
                  launch ? "whose launch has not run" : "which a graph may launch again");
    fake_run_device(device, "cuModuleUnload");
    fake_release(module);
    fake_unlock();
    return code;
}
FAKE_API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    char start[80];
    ENTER_IN_CONTEXT(cuModuleGetFunction);
    snprintf(start, sizeof start, " %s(", name);
    const char *at = strstr(module->text, start);
    if (!at) return 500;
    CUfunction made = calloc(1, sizeof *made);
    if (!made) return 2;
    snprintf(made->name, sizeof made->name, "%s", name);
    made->module = module;
    const char *end_of_arguments = strchr(at, ')'), *by_value = strstr(at, "const struct words");
    if (by_value && by_value < end_of_arguments) made->words = atoi(by_value + strlen("const struct words"));
    fake_lock();
    made->next = all_functions;
    all_functions = made;
    fake_unlock();
    *function = made;
    return 0;
}
FAKE_API CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
    (void)function;
    ENTER_IN_CONTEXT(cuFuncGetAttribute);
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 512 : 64;
    return 0;
}
FAKE_API CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
    (void)function;
    ENTER_IN_CONTEXT(cuFuncSetAttribute);
    return attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value + 64 <= 232448 ? 0 : 1;
}
FAKE_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                              size_t bytes) {
    (void)function, (void)bytes;
    ENTER_IN_CONTEXT(cuOccupancyMaxActiveBlocksPerMultiprocessor);
    *blocks = 2048 / threads;
    return 0;
}

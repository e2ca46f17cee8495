/* Modules and functions of the fake libcuda. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/findings.h"
#include "fakes/libcuda.h"
#include "fakes/memory.h"

static CUfunction all_functions;

static __attribute__((destructor)) void end(void) {
    if (fake_ends_in_use()) return;
    for (CUfunction next, f = all_functions; f; f = next) {
        next = f->next;
        free(f);
    }
}

static void drop_module(void *thing) {
    CUmodule module = thing;
    for (CUfunction f = all_functions; f; f = f->next)
        if (f->module == module) f->unloaded = true;
    for (int i = 0; module->ptx && i < module->ptx->variable_count; i++)
        if (module->ptx->variables[i].address) (void)fake_free(module->ptx->variables[i].address);
    if (module->ptx) ptx_free(module->ptx);
    free(module->text);
    free(module);
}

/* Variables are memory of the device, which is there before any work. */
static CUresult place_variables(ptx_module *ptx) {
    for (int i = 0; i < ptx->variable_count; i++)
        ptx->variables[i].address = fake_alloc_variable(fake_current()->device, ptx->variables[i].bytes);
    ptx_place_variables(ptx);
    for (int i = 0; i < ptx->variable_count; i++) {
        const ptx_variable *v = &ptx->variables[i];
        void *memory = fake_memory(v->address, v->bytes);
        if (v->initial)
            memcpy(memory, v->initial, v->bytes);
        else
            memset(memory, 0, v->bytes);
    }
    return 0;
}

/* PTX ISA 8.x is of CUDA 12, 9.x of CUDA 13. */
static CUresult load_ptx(CUmodule made, const char *text) {
    char *problem = NULL;
    const char *version = strstr(text, ".version ");
    if (version && atoi(version + strlen(".version ")) + 4 > fake()->cuda / 1000) return 222;
    made->ptx = ptx_parse(text, &problem);
    const fake_device *d = &fake()->devices[fake_current()->device];
    if (made->ptx) return made->ptx->architecture > d->major * 10 + d->minor ? 209 : place_variables(made->ptx);
    fake_find(fake_current()->device, 218, "the emulator does not know this PTX: %s", problem);
    free(problem);
    return 218;
}

static CUresult load_text(CUmodule made, const char *text) {
    int version = 0;
    if (strstr(text, ".address_size")) return load_ptx(made, text);
    if (sscanf(text, "fake code of %d", &version) != 1) return 200;
    if (version > fake()->cuda / 1000) return 222;
    made->text = strdup(text);
    return made->text ? 0 : 2;
}

FAKE_API CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    ENTER_IN_CONTEXT(cuModuleLoadData);
    fake_lock();
    fake_may_run_device(fake_current()->device, "cuModuleLoadData");
    CUmodule made = calloc(1, sizeof *made);
    if (made) made->device = fake_current()->device;
    CUresult result = made ? load_text(made, image) : 2;
    if (!result && !fake_own(made, drop_module)) result = 2;
    if (result && made) drop_module(made);
    fake_unlock();
    if (!result) *module = made;
    return result;
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
/* A kernel's text of the fake NVRTC: "void NAME(const struct words3 x)" or "void NAME(const long *x)". */
static bool find_in_text(CUfunction made, const char *text) {
    char start[80];
    snprintf(start, sizeof start, " %s(", made->name);
    const char *at = strstr(text, start);
    if (!at) return false;
    const char *end_of_arguments = strchr(at, ')'), *by_value = strstr(at, "const struct words");
    if (by_value && by_value < end_of_arguments) made->words = atoi(by_value + strlen("const struct words"));
    return true;
}

FAKE_API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    ENTER_IN_CONTEXT(cuModuleGetFunction);
    CUfunction made = calloc(1, sizeof *made);
    if (!made) return 2;
    snprintf(made->name, sizeof made->name, "%s", name);
    made->module = module;
    made->ptx = module->ptx ? ptx_find(module->ptx, name) : NULL;
    if (module->ptx ? !made->ptx || !made->ptx->entry : !find_in_text(made, module->text)) {
        free(made);
        return 500;
    }
    fake_lock();
    made->next = all_functions;
    all_functions = made;
    fake_unlock();
    *function = made;
    return 0;
}

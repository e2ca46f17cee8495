/* A machine of the fake CUDA driver with kernels in PTX, for tests of it. Included once by a test. */
#ifndef BERTH_TESTS_FAKES_PTX_CUDA_TEST_H
#define BERTH_TESTS_FAKES_PTX_CUDA_TEST_H

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "drivers/cuda/driver_api.h"
#include "fakes/findings.h"

#define COUNT 256
#define BYTES (COUNT * sizeof(float))
#define SEEDS 8
#define WAITS_TEXT 2000

static bti_cuda_driver_api cu;
static void *library;
static CUcontext contexts[2];
static CUstream a, b;
static CUevent event;
static CUdeviceptr x, y;
static float *up, *down; /* pinned */
static CUmodule module;
static CUfunction add, shared_sum, outside, unaligned, sines;

/* add(x, y): y[i] = x[i] + y[i] for 256 threads; outside(x): a read 8 bytes behind 256 floats; unaligned(x): a read at x + 2;
 * shared_sum(x): x[0] = all bytes of dynamic shared memory that thread 0 wrote; sines(x, y): y[i] = sin.approx(x[i]) for 256 threads. */
#define PARAMETERS "(.param .u64 p0, .param .u64 p1)\n{\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .f32 %f<9>;\n"
static const char text[] = ".version 8.0\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 dynamic[];\n"
                           ".visible .entry add" PARAMETERS "ld.param.u64 %rd1, [p0];\n"
                           "ld.param.u64 %rd2, [p1];\n"
                           "mov.u32 %r1, %tid.x;\n"
                           "mul.wide.u32 %rd3, %r1, 4;\n"
                           "add.s64 %rd4, %rd1, %rd3;\n"
                           "add.s64 %rd5, %rd2, %rd3;\n"
                           "ld.global.f32 %f1, [%rd4];\n"
                           "ld.global.f32 %f2, [%rd5];\n"
                           "add.f32 %f3, %f1, %f2;\n"
                           "st.global.f32 [%rd5], %f3;\n"
                           "ret;\n}\n"
                           ".visible .entry outside" PARAMETERS "ld.param.u64 %rd1, [p0];\n"
                           "ld.global.f32 %f1, [%rd1+1032];\n"
                           "st.global.f32 [%rd1], %f1;\n"
                           "ret;\n}\n"
                           ".visible .entry unaligned" PARAMETERS "ld.param.u64 %rd1, [p0];\n"
                           "ld.global.f32 %f1, [%rd1+2];\n"
                           "st.global.f32 [%rd1], %f1;\n"
                           "ret;\n}\n"
                           ".visible .entry sines" PARAMETERS "ld.param.u64 %rd1, [p0];\n"
                           "ld.param.u64 %rd2, [p1];\n"
                           "mov.u32 %r1, %tid.x;\n"
                           "mul.wide.u32 %rd3, %r1, 4;\n"
                           "add.s64 %rd4, %rd1, %rd3;\n"
                           "add.s64 %rd5, %rd2, %rd3;\n"
                           "ld.global.f32 %f1, [%rd4];\n"
                           "sin.approx.f32 %f2, %f1;\n"
                           "st.global.f32 [%rd5], %f2;\n"
                           "ret;\n}\n"
                           ".visible .entry shared_sum" PARAMETERS "ld.param.u64 %rd1, [p0];\n"
                           "mov.u32 %r1, dynamic;\n"
                           "mov.u32 %r2, 7;\n"
                           "st.shared.u32 [%r1], %r2;\n"
                           "ld.shared.u32 %r3, [%r1];\n"
                           "st.global.u32 [%rd1], %r3;\n"
                           "ret;\n}\n";

#define CU(call)                                                            \
    do {                                                                    \
        CUresult result_ = (call);                                          \
        if (result_) fail_msg("line %d: %s: %d", __LINE__, #call, result_); \
    } while (0)

static inline void open_library(void) {
    library = dlopen(BERTH_BUILD_DIR "/fakes/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
#define BTI_SYMBOL(result, name, symbol, arguments)      \
    *(void **)(void *)&cu.name = dlsym(library, symbol); \
    assert_non_null(cu.name);
#include "drivers/cuda/driver_api.def"
#undef BTI_SYMBOL
}

/* A machine with two devices, the first one's context current, two streams, and x (0, 1, 2...) and y (zeros) written. */
static inline void begin(int seed) {
    char number[20], path[] = "/tmp/fake-machine-XXXXXX";
    snprintf(number, sizeof number, "%d", seed);
    setenv("BERTH_FAKE_SEED", number, 1);
    int file = mkstemp(path);
    dprintf(file, "{\"devices\": [{\"memory\": 16777216}, {\"memory\": 16777216, \"pci\": \"0000:02:00.0\"}]}");
    close(file);
    setenv("BERTH_FAKE_MACHINE", path, 1);
    fake_reset();
    open_library();
    CU(cu.cuInit(0));
    unlink(path);
    for (int d = 0; d < 2; d++) CU(cu.cuDevicePrimaryCtxRetain(&contexts[d], d));
    CU(cu.cuCtxPushCurrent(contexts[0]));
    CU(cu.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    CU(cu.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    CU(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cu.cuMemAlloc(&x, BYTES));
    CU(cu.cuMemAlloc(&y, BYTES));
    CU(cu.cuMemHostAlloc((void **)&up, BYTES, 0));
    CU(cu.cuMemHostAlloc((void **)&down, BYTES, 0));
    CU(cu.cuModuleLoadData(&module, text));
    CU(cu.cuModuleGetFunction(&add, module, "add"));
    CU(cu.cuModuleGetFunction(&outside, module, "outside"));
    CU(cu.cuModuleGetFunction(&unaligned, module, "unaligned"));
    CU(cu.cuModuleGetFunction(&sines, module, "sines"));
    CU(cu.cuModuleGetFunction(&shared_sum, module, "shared_sum"));
    for (int i = 0; i < COUNT; i++) up[i] = (float)i;
    CU(cu.cuMemcpyHtoDAsync(x, up, BYTES, a));
    CU(cu.cuMemsetD8Async(y, 0, BYTES, a));
    CU(cu.cuStreamSynchronize(a));
}

static inline void release_contexts(void) {
    CUcontext unused;
    (void)cu.cuCtxPopCurrent(&unused);
    for (int d = 0; d < 2; d++) (void)cu.cuDevicePrimaryCtxRelease(d);
}

/* What was found says all the parts; without parts nothing was found. */
static inline void end(const char *part, const char *other) {
    const char *found;
    int count = fake_findings(&found);
    if (!part && count) fail_msg("%s", found);
    if (part && !strstr(found, part)) fail_msg("\"%s\" does not say \"%s\"", found, part);
    if (other && !strstr(found, other)) fail_msg("\"%s\" does not say \"%s\"", found, other);
    release_contexts();
    fake_findings_clear();
    dlclose(library);
}

static inline CUresult launch(CUfunction function, CUstream stream, CUdeviceptr from, CUdeviceptr to,
                              unsigned threads) {
    void *arguments[] = {&from, &to};
    return cu.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, arguments, NULL);
}

static inline void expect_sums(float times) {
    for (int i = 0; i < COUNT; i++)
        if (down[i] != times * (float)i) fail_msg("value %d is %g", i, (double)down[i]);
}

#endif

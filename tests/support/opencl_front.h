/* A small front of OpenCL for tests: the first device there is, kernels run at once. For tests with cmocka. */
#ifndef BERTH_TESTS_SUPPORT_OPENCL_FRONT_H
#define BERTH_TESTS_SUPPORT_OPENCL_FRONT_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "launch/entry.h"

#define OPENCL_FUNCTIONS(F)                                                                                       \
    F(clGetPlatformIDs, uint32_t, void **, uint32_t *)                                                            \
    F(clGetDeviceIDs, void *, uint64_t, uint32_t, void **, uint32_t *)                                            \
    F(clReleaseMemObject, void *)                                                                                 \
    F(clReleaseKernel, void *)                                                                                    \
    F(clReleaseProgram, void *)                                                                                   \
    F(clReleaseCommandQueue, void *)                                                                              \
    F(clReleaseContext, void *)                                                                                   \
    F(clBuildProgram, void *, uint32_t, void *const *, const char *, void *, void *)                              \
    F(clGetProgramBuildInfo, void *, void *, uint32_t, size_t, void *, size_t *)                                  \
    F(clSetKernelArg, void *, uint32_t, size_t, const void *)                                                     \
    F(clEnqueueNDRangeKernel, void *, void *, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t, \
      const void *, void *)                                                                                       \
    F(clEnqueueReadBuffer, void *, void *, uint32_t, size_t, size_t, void *, uint32_t, const void *, void *)
#define OPENCL_MAKERS(F)                                                                       \
    F(clCreateContext, const void *, uint32_t, void *const *, const void *, void *, int32_t *) \
    F(clCreateCommandQueue, void *, void *, uint64_t, int32_t *)                               \
    F(clCreateProgramWithSource, void *, uint32_t, const char **, const size_t *, int32_t *)   \
    F(clCreateKernel, void *, const char *, int32_t *)                                         \
    F(clCreateBuffer, void *, uint64_t, size_t, void *, int32_t *)

enum {
    CL_DEVICE_TYPE_EVERY = -1,
    CL_READ_WRITE = 1,
    CL_COPY_HOST_POINTER = 1 << 5,
    CL_BUILD_LOG = 0x1183,
    CL_BLOCKING = 1
};

static struct opencl {
#define F(name, ...) int32_t (*name)(__VA_ARGS__);
    OPENCL_FUNCTIONS(F)
#undef F
#define F(name, ...) void *(*name)(__VA_ARGS__);
    OPENCL_MAKERS(F)
#undef F
    void *device, *context, *queue;
} cl;

/* NULL, or what is missing. */
static inline const char *opencl_open(void) {
    void *platform, *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    int32_t code;
    if (!library) return "there is no libOpenCL.so.1";
#define F(name, ...)                                    \
    *(void **)(void *)&cl.name = dlsym(library, #name); \
    if (!cl.name) return "libOpenCL lacks " #name;
    OPENCL_FUNCTIONS(F)
    OPENCL_MAKERS(F)
#undef F
    if (cl.clGetPlatformIDs(1, &platform, NULL) != 0) return "there is no OpenCL platform";
    if (cl.clGetDeviceIDs(platform, (uint32_t)CL_DEVICE_TYPE_EVERY, 1, &cl.device, NULL) != 0)
        return "the OpenCL platform has no device";
    cl.context = cl.clCreateContext(NULL, 1, &cl.device, NULL, NULL, &code);
    cl.queue = cl.context ? cl.clCreateCommandQueue(cl.context, cl.device, 0, &code) : NULL;
    return cl.queue ? NULL : "the OpenCL device cannot be opened";
}

static inline void opencl_close(void) {
    cl.clReleaseCommandQueue(cl.queue);
    cl.clReleaseContext(cl.context);
}

static inline void *opencl_built(const char *text) {
    int32_t code;
    void *program = cl.clCreateProgramWithSource(cl.context, 1, &text, NULL, &code);
    assert_non_null(program);
    code = cl.clBuildProgram(program, 1, &cl.device, "-w -cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt", NULL,
                             NULL);
    if (code == 0) return program;
    static char log[1 << 16];
    cl.clGetProgramBuildInfo(program, cl.device, CL_BUILD_LOG, sizeof log, log, NULL);
    print_error("%s\n%s\n", text, log);
    fail_msg("the text does not compile (%d)", code);
    return NULL;
}

static inline void *opencl_memory(size_t bytes, const void *from) {
    int32_t code;
    void *memory = cl.clCreateBuffer(cl.context, CL_READ_WRITE | (from ? CL_COPY_HOST_POINTER : 0), bytes,
                                     (void *)(uintptr_t)from, &code);
    assert_non_null(memory);
    return memory;
}

/* memories[i] belongs to the i-th word that is an address. */
static inline void opencl_run(void *program, const char *name, size_t threads, size_t groups, void *const *memories,
                              size_t local_bytes, bti_words *words, bti_target target) {
    int32_t code;
    uint32_t argument = 0;
    size_t all = threads * groups, bytes = (size_t)words->count * 8;
    void *kernel = cl.clCreateKernel(program, name, &code), *constant = NULL;
    assert_non_null(kernel);
    for (int m = 0; m < words->address_count; m++) code |= cl.clSetKernelArg(kernel, argument++, 8, &memories[m]);
    if (local_bytes) code |= cl.clSetKernelArg(kernel, argument++, local_bytes, NULL);
    if (bti_words_by_value(words->count, words->address_count, target))
        code |= cl.clSetKernelArg(kernel, argument++, bytes, words->word);
    else {
        constant = opencl_memory(bytes, words->word);
        code |= cl.clSetKernelArg(kernel, argument++, 8, &constant);
    }
    assert_int_equal(code, 0);
    assert_int_equal(cl.clEnqueueNDRangeKernel(cl.queue, kernel, 1, NULL, &all, &threads, 0, NULL, NULL), 0);
    char byte;
    assert_int_equal(cl.clEnqueueReadBuffer(cl.queue, memories[0], CL_BLOCKING, 0, 1, &byte, 0, NULL, NULL), 0);
    if (constant) cl.clReleaseMemObject(constant);
    cl.clReleaseKernel(kernel);
}

#endif

/* Programs: built from text or found in the disk cache, and launched on the device's queue. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/guard.h"
#include "base/libraries.h"
#include "cache/cache.h"
#include "drivers/opencl/device.h"

/* Bytes of address space. PoCL contains an LLVM that compiles at a kernel's first launch too, on PoCL's threads, and ends the process
 * when memory is short. */
#define BUILD_ROOM ((size_t)384 << 20)

#define LOG_MOST 2000 /* bytes of a compiler's log in an error */

static const char *build_options(const bti_cl_device *device) {
    return device->exact_divisions ? "-w -cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt" : "-w -cl-std=CL1.2";
}

/* --- building ----------------------------------------------------------------------------------------------------- */

/* The line number of the log's first error: 12 of "kernel.cl:12:5: error: ..." or "error: kernel.cl:12:5: ..."; 0: none. */
static long line_of_first_error(const char *log) {
    const char *at = strstr(log, "error");
    while (at && at > log && at[-1] != '\n') at--;
    for (; at && *at && *at != '\n'; at++) {
        char *end;
        long number = *at == ':' && at[1] >= '0' && at[1] <= '9' ? strtol(at + 1, &end, 10) : 0;
        if (number > 0 && *end == ':') return number;
    }
    return 0;
}

static void add_named_line(const bti_str *text, const char *log, bti_str *told) {
    long number = line_of_first_error(log);
    const char *line = bti_gpu_text_line(text, number);
    if (number && line) bti_str_addf(told, "\n  line %ld: %.*s", number, (int)strcspn(line, "\n"), line);
}

static bt_status fail_with_log(bti_cl_device *device, const char *name, const bti_str *text, cl_program program) {
    size_t length = 0;
    bti_str told = {0};
    device->cl->clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &length);
    char *log = bti_calloc(1, length + 1);
    if (log) device->cl->clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, length, log, NULL);
    bti_str_addf(&told, "%s: the text of kernel %s does not compile: %.*s", device->name, name, LOG_MOST,
                 log ? log : "");
    if (log) add_named_line(text, log, &told);
    bt_status status = bti_fail(BT_INTERNAL, "%s\n--- the text:\n%s", bti_str_text(&told), bti_gpu_text_line(text, 1));
    bti_str_free(&told);
    bti_free(log);
    return status;
}

static cl_program program_from_binary(bti_cl_device *device, const bti_str *binary) {
    const unsigned char *bytes = (const unsigned char *)binary->text;
    cl_int error, each = CL_SUCCESS;
    cl_program program =
        device->cl->clCreateProgramWithBinary(device->context, 1, &device->id, &binary->length, &bytes, &each, &error);
    if (!program) return NULL;
    if (error == CL_SUCCESS && each == CL_SUCCESS &&
        device->cl->clBuildProgram(program, 1, &device->id, build_options(device), NULL, NULL) == CL_SUCCESS)
        return program;
    device->cl->clReleaseProgram(program);
    return NULL;
}

/* The program's binary for this device; the context's other devices have none. */
static bool read_binary(bti_cl_device *device, cl_program program, bti_str *binary) {
    cl_uint count = 0;
    size_t sizes[64] = {0};
    cl_device_id ids[64];
    unsigned char *each[64] = {NULL};
    bool taken = false;
    if (device->cl->clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof count, &count, NULL) || count > 64)
        return false;
    if (device->cl->clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof ids, ids, NULL)) return false;
    if (device->cl->clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL)) return false;
    for (cl_uint d = 0; d < count; d++)
        if (sizes[d] && !(each[d] = bti_alloc(sizes[d]))) goto end;
    if (device->cl->clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof each, each, NULL)) goto end;
    for (cl_uint d = 0; d < count; d++)
        if (ids[d] == device->id && sizes[d]) {
            bti_str_add_bytes(binary, each[d], sizes[d]);
            taken = !binary->failed;
            break;
        }
end:
    for (cl_uint d = 0; d < count; d++) bti_free(each[d]);
    return taken;
}

static bt_status program_from_text(bti_cl_device *device, const char *name, const bti_str *text, cl_program *program) {
    const char *source = bti_str_text(text);
    size_t length = text->length;
    cl_int error;
    *program = device->cl->clCreateProgramWithSource(device->context, 1, &source, &length, &error);
    if (!*program) return bti_cl_fail(device, "a program", error);
    error = device->cl->clBuildProgram(*program, 1, &device->id, build_options(device), NULL, NULL);
    if (error == CL_SUCCESS) return BT_OK;
    bt_status status = error == CL_BUILD_PROGRAM_FAILURE ? fail_with_log(device, name, text, *program)
                                                         : bti_cl_fail(device, "compiling a kernel", error);
    device->cl->clReleaseProgram(*program);
    *program = NULL;
    return status;
}

static bt_status build_program(void *opened, const char *name, const bti_str *text, void **module) {
    bti_cl_device *device = opened;
    BTI_TRY(bti_cl_check(device));
    BTI_TRY(bti_guard_room(BUILD_ROOM, "compiling by OpenCL"));
    bti_cache_key key = bti_cache_key_of(text, device->gpu.target, device->key);
    bti_str binary = {0};
    cl_program program = bti_cache_find(key, &binary) ? program_from_binary(device, &binary) : NULL;
    bt_status status = BT_OK;
    if (!program) {
        if (binary.length) bti_cache_refuse(key);
        bti_str_free(&binary);
        status = program_from_text(device, name, text, &program);
        if (status == BT_OK && device->keeps_binaries && read_binary(device, program, &binary))
            bti_cache_store(key, &binary, (const unsigned[3]){1, 2, 0});
    }
    bti_str_free(&binary);
    *module = program;
    return status;
}

static void unload_program(void *opened, void *module) {
    bti_cl_device *device = opened;
    device->cl->clReleaseProgram(module);
}

static bt_status find_function(void *opened, void *module, const char *name, bti_gpu_function *function) {
    bti_cl_device *device = opened;
    cl_int error;
    size_t threads = 0;
    cl_kernel kernel = device->cl->clCreateKernel(module, name, &error);
    if (!kernel) return bti_cl_fail(device, name, error);
    device->cl->clGetKernelWorkGroupInfo(kernel, device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof threads, &threads, NULL);
    *function = (bti_gpu_function){.handle = kernel, .threads = (int)threads};
    return BT_OK;
}

static void free_function(void *opened, bti_gpu_function *function) {
    bti_cl_device *device = opened;
    device->cl->clReleaseKernel(function->handle);
}

/* --- launching ---------------------------------------------------------------------------------------------------- */

/* Words that are too many for an argument go into a buffer, which OpenCL keeps until the kernel has run. */
static cl_int set_words(bti_cl_device *device, cl_kernel kernel, cl_uint at, const bti_words *words, cl_mem *constant) {
    size_t bytes = (size_t)words->count * sizeof *words->word;
    if (bti_words_by_value(words->count, words->address_count, device->gpu.target))
        return device->cl->clSetKernelArg(kernel, at, bytes, words->word);
    cl_int error;
    *constant = device->cl->clCreateBuffer(device->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, bytes,
                                           (void *)(uintptr_t)words->word, &error);
    return *constant ? device->cl->clSetKernelArg(kernel, at, sizeof *constant, constant) : error;
}

/* Not when the process is ending: the kernel might be compiled then. */
static cl_int enqueue(bti_cl_device *device, cl_kernel kernel, size_t all, size_t threads) {
    static bti_library_calls calls;
    if (!bti_libraries_enter(&calls)) return CL_DEVICE_NOT_AVAILABLE;
    cl_int error = device->cl->clEnqueueNDRangeKernel(device->queue, kernel, 1, NULL, &all, &threads, 0, NULL, NULL);
    bti_libraries_leave();
    return error;
}

static bt_status launch_function(void *opened, const bti_gpu_launch *asked) {
    bti_cl_device *device = opened;
    cl_kernel kernel = asked->function->handle;
    bti_words *words = asked->words;
    cl_uint at = 0;
    cl_mem constant = NULL;
    BTI_TRY(bti_cl_check(device));
    for (int a = 0; a < words->address_count; a++) {
        cl_mem memory;
        size_t offset;
        BTI_TRY(bti_cl_find_buffer(device, words->word[words->address[a]], &memory, &offset));
        words->word[words->address[a]] = offset;
        BTI_CL_TRY(device, "an argument", device->cl->clSetKernelArg(kernel, at++, sizeof memory, &memory));
    }
    if (asked->local)
        BTI_CL_TRY(device, "local memory", device->cl->clSetKernelArg(kernel, at++, asked->local_bytes, NULL));
    BTI_TRY(bti_guard_room(BUILD_ROOM, "a launch by OpenCL"));
    cl_int error = set_words(device, kernel, at, words, &constant);
    if (error == CL_SUCCESS) error = enqueue(device, kernel, asked->threads * asked->groups, asked->threads);
    if (constant) device->cl->clReleaseMemObject(constant);
    return error == CL_SUCCESS ? BT_OK : bti_cl_fail(device, "a launch", error);
}

static bt_status wait_for_queue(void *opened) {
    bti_cl_device *device = opened;
    for (int i = 0; i < 2; i++) BTI_CL_TRY(device, "waiting", device->cl->clFinish(device->queues[i]));
    return BT_OK;
}

const bti_gpu_driver bti_cl_gpu_driver = {.build = build_program,
                                          .unload = unload_program,
                                          .find_function = find_function,
                                          .free_function = free_function,
                                          .launch = launch_function,
                                          .product = bti_cl_product,
                                          .has_product = bti_cl_has_product,
                                          .wait = wait_for_queue};

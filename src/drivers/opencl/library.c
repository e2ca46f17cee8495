/* OpenCL's library, opened at run time; its errors. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "base/guard.h"
#include "drivers/opencl/device.h"

#define OPEN_ROOM \
    ((size_t)1 << 30) /* bytes of address space: the loader, the drivers that it opens, and their compilers */
#define LIBRARY "libOpenCL.so.1"

BTI_STATIC_LOCK(opencl_library_lock, opencl_library) /* of opening; `functions` does not change once `opened` */
static bti_cl_functions functions;
static bool opened;

static bool open_opencl(bti_str *reason) {
    static const char *const names[] = {
#define BTI_CL(name) #name,
#include "drivers/opencl/functions.def"
    };
    if (bti_guard_room(OPEN_ROOM, "opening OpenCL's libraries") != BT_OK) {
        bti_str_addf(reason, "opencl: %s\n", bt_error_text());
        return false;
    }
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        bti_str_addf(reason, "opencl: %s; it is the package ocl-icd-libopencl1\n", dlerror());
        return false;
    }
    void **at = (void **)&functions;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        at[i] = dlsym(library, names[i]);
        if (at[i]) continue;
        bti_str_addf(reason, "opencl: " LIBRARY " lacks %s; OpenCL 1.2 is needed\n", names[i]);
        dlclose(library);
        return false;
    }
    return true;
}

const bti_cl_functions *bti_cl(bti_str *reason) {
    bti_lock_take(&opencl_library_lock);
    if (!opened) opened = open_opencl(reason);
    bool there = opened;
    bti_lock_give(&opencl_library_lock);
    return there ? &functions : NULL;
}

const char *bti_cl_error_name(cl_int error) {
    static _Thread_local char other[32];
    static const struct {
        cl_int error;
        const char *name;
    } names[] = {
#define NAME(error) {error, #error},
        NAME(CL_DEVICE_NOT_FOUND) NAME(CL_DEVICE_NOT_AVAILABLE) NAME(CL_COMPILER_NOT_AVAILABLE)
            NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE) NAME(CL_OUT_OF_RESOURCES) NAME(CL_OUT_OF_HOST_MEMORY)
                NAME(CL_MEM_COPY_OVERLAP) NAME(CL_BUILD_PROGRAM_FAILURE) NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET)
                    NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) NAME(CL_COMPILE_PROGRAM_FAILURE)
                        NAME(CL_LINKER_NOT_AVAILABLE) NAME(CL_LINK_PROGRAM_FAILURE) NAME(CL_INVALID_VALUE)
                            NAME(CL_INVALID_PLATFORM) NAME(CL_INVALID_DEVICE) NAME(CL_INVALID_CONTEXT)
                                NAME(CL_INVALID_COMMAND_QUEUE) NAME(CL_INVALID_MEM_OBJECT) NAME(CL_INVALID_BINARY)
                                    NAME(CL_INVALID_BUILD_OPTIONS) NAME(CL_INVALID_PROGRAM) NAME(CL_INVALID_KERNEL_NAME)
                                        NAME(CL_INVALID_KERNEL) NAME(CL_INVALID_ARG_INDEX) NAME(CL_INVALID_ARG_VALUE)
                                            NAME(CL_INVALID_ARG_SIZE) NAME(CL_INVALID_KERNEL_ARGS)
                                                NAME(CL_INVALID_WORK_GROUP_SIZE) NAME(CL_INVALID_WORK_ITEM_SIZE)
                                                    NAME(CL_INVALID_EVENT) NAME(CL_INVALID_OPERATION)
                                                        NAME(CL_INVALID_BUFFER_SIZE) NAME(CL_INVALID_GLOBAL_WORK_SIZE)
#undef NAME
                                                            {-1001, "CL_PLATFORM_NOT_FOUND_KHR"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].error == error) return names[i].name;
    snprintf(other, sizeof other, "OpenCL's error %d", (int)error);
    return other;
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

static bt_status status_of_error(cl_int error) {
    switch (error) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_INVALID_BUFFER_SIZE:
    case CL_OUT_OF_RESOURCES: return BT_RESOURCE_EXHAUSTED;
    case CL_DEVICE_NOT_AVAILABLE: return BT_UNAVAILABLE;
    default: return BT_INTERNAL;
    }
}

static bool is_device_lost(cl_int error) {
    return error == CL_DEVICE_NOT_AVAILABLE || error == CL_INVALID_COMMAND_QUEUE || error == CL_INVALID_CONTEXT;
}

bt_status bti_cl_fail(bti_cl_device *device, const char *what, cl_int error) {
    bt_status status = bti_fail(status_of_error(error), "%s: %s: %s", device->name, what, bti_cl_error_name(error));
    if (is_device_lost(error)) {
        bti_error *cause = bti_error_last(), *none = NULL;
        if (!atomic_compare_exchange_strong(&device->lost, &none, cause)) bti_error_release(cause);
    }
    return status;
}

bt_status bti_cl_check(bti_cl_device *device) {
    bti_error *lost = atomic_load(&device->lost);
    if (!lost) return BT_OK;
    return bti_fail(BT_UNAVAILABLE, "%s is lost since an earlier failure (%s); other devices are not touched by it",
                    device->name, bti_error_message(lost));
}

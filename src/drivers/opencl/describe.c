/* What `berth doctor` tells of a device. */
#include "drivers/opencl/opencl.h"

static void add_device_text(const bti_cl_device *device, bti_str *text, const char *title, cl_device_info what) {
    char value[256] = "";
    if (device->cl->clGetDeviceInfo(device->id, what, sizeof value - 1, value, NULL) == CL_SUCCESS)
        bti_str_addf(text, "%s: %s\n", title, value);
}

static void add_platform(const bti_cl_device *device, bti_str *text) {
    char name[128] = "", version[256] = "";
    cl_platform_id platform = NULL;
    device->cl->clGetDeviceInfo(device->id, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    device->cl->clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
    device->cl->clGetPlatformInfo(platform, CL_PLATFORM_VERSION, sizeof version - 1, version, NULL);
    bti_str_addf(text, "platform: %s, %s\n", name, version);
}

void bti_cl_describe(void *opened, bti_str *text) {
    const bti_cl_device *device = opened;
    bti_str_addf(text, "%s: %d compute units\n", device->name, device->gpu.units);
    add_platform(device, text);
    add_device_text(device, text, "device", CL_DEVICE_VERSION);
    add_device_text(device, text, "driver", CL_DRIVER_VERSION);
    bti_str_addf(text, "groups: at most %d threads, %zu KiB of local memory\n", device->gpu.threads,
                 device->gpu.local_bytes >> 10);
    bti_str_addf(text, "allocations: at most %zu MiB each\n", device->largest_buffer >> 20);
    bti_str_addf(text, "float64: %s\n",
                 device->gpu.target == BTI_OPENCL_C ? "yes"
                                                    : "no (cl_khr_fp64 is missing): operations on it are unsupported");
    bti_str_addf(text, "float32 quotients and roots: %s\n",
                 device->exact_divisions ? "correctly rounded" : "as exact as the device makes them");
    bti_str_addf(text, "products of float32 and float64: %s\n",
                 bti_cl_has_clblast(device) ? "by CLBlast" : "by our own kernel (flag clblast, package libclblast1)");
    bti_str_addf(text, "compiled kernels: %s\n",
                 device->keeps_binaries ? "kept in the cache" : "kept by the platform, if at all");
}

/* Enumeration of the platforms' devices; creates no context. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/flags.h"
#include "base/quote.h"
#include "drivers/opencl/device.h"

#define MOST_PLATFORMS 16
#define MOST_DEVICES 32
#define VENDORS "/etc/OpenCL/vendors"

static bool any_file(const char *folder, const char *beginning, const char *end) {
    DIR *listing = opendir(folder);
    bool found = false;
    for (struct dirent *row; listing && !found && (row = readdir(listing));) {
        size_t length = strlen(row->d_name), tail = strlen(end);
        found = !strncmp(row->d_name, beginning, strlen(beginning)) && length >= tail &&
                !strcmp(row->d_name + length - tail, end);
    }
    if (listing) closedir(listing);
    return found;
}

/* Whether the machine has a GPU, by the device files that kernel drivers make. */
static bool has_gpu_node(void) {
    return any_file("/dev/dri", "renderD", "") || any_file("/dev", "nvidia", "") || !access("/dev/kfd", F_OK) ||
           !access("/dev/dxg", F_OK) || any_file("/dev", "mali", "");
}

static bool cpu_counts_as_gpu(void) { return bti_flag_choice(BTI_FLAG_opencl_cpu) == 1; }

/* The environment variable that says where the ICD loader looks for drivers; NULL: it looks in VENDORS. */
static const char *vendors_variable(void) {
    static const char *const variables[] = {"OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i])) return variables[i];
    return NULL;
}

bool bti_cl_detect(unsigned kinds, bti_str *reason) {
    if (!vendors_variable() && !any_file(VENDORS, "", ".icd")) {
        bti_str_add(reason,
                    "opencl: no OpenCL driver is installed (" VENDORS " has no .icd file); for CPUs there is the "
                    "package pocl-opencl-icd, for a GPU its vendor's\n");
        return false;
    }
    if (kinds & 1u << BT_ACC || has_gpu_node() || cpu_counts_as_gpu()) return true;
    bti_str_add(reason,
                "opencl: no graphics card (/dev/dri, /dev/nvidia*, /dev/kfd, /dev/dxg have none), so OpenCL was not "
                "asked for GPUs\n");
    return false;
}

static void read_text(const bti_cl_functions *cl, cl_device_id id, cl_device_info what, char *text, size_t size) {
    char whole[512] = "";
    if (cl->clGetDeviceInfo(id, what, sizeof whole, whole, NULL) != CL_SUCCESS) whole[0] = '\0';
    whole[sizeof whole - 1] = '\0';
    const char *from = whole;
    while (*from == ' ') from++;
    snprintf(text, size, "%s", from);
}

/* cl_khr_pci_bus_info; the attributes of NVIDIA and AMD. */
static void read_pci(const bti_cl_functions *cl, cl_device_id id, char *text, size_t size) {
    struct {
        cl_uint domain, bus, device, function;
    } khronos;
    cl_uint bus, slot;
    struct {
        cl_uint type;
        cl_uchar unused[17], bus, device, function;
    } amd;
    if (cl->clGetDeviceInfo(id, 0x410f, sizeof khronos, &khronos, NULL) == CL_SUCCESS)
        snprintf(text, size, "%04x:%02x:%02x.%x", khronos.domain & 0xffff, khronos.bus & 0xff, khronos.device & 0xff,
                 khronos.function & 0xf);
    else if (cl->clGetDeviceInfo(id, 0x4008, sizeof bus, &bus, NULL) == CL_SUCCESS &&
             cl->clGetDeviceInfo(id, 0x4009, sizeof slot, &slot, NULL) == CL_SUCCESS)
        snprintf(text, size, "0000:%02x:%02x.%x", bus & 0xff, slot >> 3 & 0x1f, slot & 7);
    else if (cl->clGetDeviceInfo(id, 0x4037, sizeof amd, &amd, NULL) == CL_SUCCESS && amd.type == 1)
        snprintf(text, size, "0000:%02x:%02x.%x", amd.bus, amd.device, amd.function & 0xf);
}

static void read_uuid(const bti_cl_functions *cl, cl_device_id id, char *text, size_t size) {
    unsigned char u[16];
    if (cl->clGetDeviceInfo(id, 0x106a, sizeof u, u, NULL) != CL_SUCCESS) return;
    snprintf(text, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2],
             u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

static void read_facts(const bti_cl_functions *cl, cl_device_id id, int ordinal, bti_device_facts *facts) {
    cl_device_type type = 0;
    cl_ulong bytes = 0, largest = 0;
    *facts = (bti_device_facts){.ordinal = ordinal};
    cl->clGetDeviceInfo(id, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    cl->clGetDeviceInfo(id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    facts->kind = type & CL_DEVICE_TYPE_GPU || cpu_counts_as_gpu() ? BT_GPU : BT_ACC;
    cl->clGetDeviceInfo(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest, &largest, NULL);
    facts->memory_bytes = (size_t)bytes;
    facts->largest_bytes = (size_t)largest;
    read_text(cl, id, CL_DEVICE_NAME, facts->description, sizeof facts->description);
    read_text(cl, id, CL_DRIVER_VERSION, facts->driver_version, sizeof facts->driver_version);
    read_pci(cl, id, facts->pci_bus_id, sizeof facts->pci_bus_id);
    if (type & CL_DEVICE_TYPE_GPU) read_uuid(cl, id, facts->uuid, sizeof facts->uuid);
}

static bool is_usable(const bti_cl_functions *cl, cl_device_id id, int ordinal, bti_str *reason) {
    cl_bool available = CL_FALSE, compiler = CL_FALSE, little = CL_FALSE;
    cl->clGetDeviceInfo(id, CL_DEVICE_AVAILABLE, sizeof available, &available, NULL);
    cl->clGetDeviceInfo(id, CL_DEVICE_COMPILER_AVAILABLE, sizeof compiler, &compiler, NULL);
    cl->clGetDeviceInfo(id, CL_DEVICE_ENDIAN_LITTLE, sizeof little, &little, NULL);
    if (available && compiler && little) return true;
    bti_str_addf(reason, "opencl: opencl%d:%d %s\n", ordinal >> 16, ordinal & 0xffff,
                 !available  ? "is not available"
                 : !compiler ? "has no compiler"
                             : "is big-endian");
    return false;
}

bt_status bti_cl_probe(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason) {
    (void)kinds;
    *count = 0;
    const bti_cl_functions *cl = bti_cl(reason);
    cl_platform_id platforms[MOST_PLATFORMS];
    cl_uint platform_count = 0;
    if (!cl) return BT_OK;
    cl_int error = cl->clGetPlatformIDs(MOST_PLATFORMS, platforms, &platform_count);
    if (error != CL_SUCCESS || !platform_count) {
        const char *variable = vendors_variable();
        bti_str_addf(reason, "opencl: no platform (%s): what %s%s%s names could not be opened\n",
                     error ? bti_cl_error_name(error) : "none", variable ? variable : VENDORS, variable ? "=" : "",
                     variable ? bti_quote(getenv(variable)).text : "");
        return BT_OK;
    }
    for (cl_uint p = 0; p < platform_count && p < MOST_PLATFORMS; p++) {
        char name[128] = "";
        cl_device_id ids[MOST_DEVICES];
        cl_uint device_count = 0;
        cl->clGetPlatformInfo(platforms[p], CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
        error = cl->clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MOST_DEVICES, ids, &device_count);
        bti_str_addf(reason, "opencl: platform %u, %s: ", p, name);
        if (error == CL_SUCCESS)
            bti_str_addf(reason, "%u devices\n", device_count);
        else
            bti_str_addf(reason, "%s\n", bti_cl_error_name(error));
        for (cl_uint d = 0; error == CL_SUCCESS && d < device_count && d < MOST_DEVICES; d++) {
            int ordinal = (int)(p << 16 | d);
            if (!is_usable(cl, ids[d], ordinal, reason)) continue;
            if (*count < capacity) read_facts(cl, ids[d], ordinal, &facts[*count]);
            ++*count;
        }
    }
    return BT_OK;
}

bt_status bti_cl_device_of(const bti_cl_functions *cl, int ordinal, cl_platform_id *platform, cl_device_id *id) {
    cl_platform_id platforms[MOST_PLATFORMS];
    cl_device_id ids[MOST_DEVICES];
    cl_uint platform_count = 0, device_count = 0, p = (cl_uint)ordinal >> 16, d = (cl_uint)ordinal & 0xffff;
    cl_int error = cl->clGetPlatformIDs(MOST_PLATFORMS, platforms, &platform_count);
    if (error == CL_SUCCESS && p < platform_count)
        error = cl->clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MOST_DEVICES, ids, &device_count);
    if (error != CL_SUCCESS || p >= platform_count || d >= device_count)
        return bti_fail(BT_UNAVAILABLE, "opencl%u:%u no longer exists (%s)", p, d, bti_cl_error_name(error));
    *platform = platforms[p];
    *id = ids[d];
    return BT_OK;
}

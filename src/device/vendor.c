#include "device/vendor.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file_text.h"

const char *bti_vendor_root = "";

/* --- files of the kernel -------------------------------------------------------------------------------------------- */

/* Finds the line "NAME VALUE". False: the file or the line is missing. */
static bool read_property(const char *path, const char *name, uint64_t *value) {
    char line[200], key[64];
    uint64_t read;
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file))
        found = sscanf(line, "%63s %" SCNu64, key, &read) == 2 && !strcmp(key, name);
    if (file) fclose(file);
    if (found) *value = read;
    return found;
}

/* A node is a processor or a GPU; only GPUs have SIMD units. A container cannot read the nodes of devices that it does not have. */
static bool read_node(const char *root, int node, bti_amd_gpu *gpu) {
    char path[PATH_MAX];
    uint64_t value = 0, domain = 0;
    *gpu = (bti_amd_gpu){0};
    snprintf(path, sizeof path, "%s/sys/class/kfd/kfd/topology/nodes/%d/properties", root, node);
    if (!read_property(path, "simd_count", &value) || !value) return false;
    if (read_property(path, "unique_id", &value) && value)
        snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-%016" PRIx64, value);
    (void)read_property(path, "domain", &domain);
    if (read_property(path, "location_id", &value))
        snprintf(gpu->place, sizeof gpu->place, "%04x:%02x:%02x.%x", (unsigned)domain & 0xffff,
                 (unsigned)(value >> 8) & 0xff, (unsigned)(value >> 3) & 0x1f, (unsigned)value & 7);
    snprintf(path, sizeof path, "%s/sys/class/kfd/kfd/topology/nodes/%d/mem_banks/0/properties", root, node);
    (void)read_property(path, "size_in_bytes", &gpu->memory_bytes);
    return true;
}

int bti_amd_list(const char *root, bti_amd_gpu *gpus, int capacity) {
    char path[PATH_MAX];
    int count = 0;
    snprintf(path, sizeof path, "%s/dev/kfd", root);
    if (access(path, F_OK)) return 0;
    for (int node = 0;; node++) {
        bti_amd_gpu gpu;
        snprintf(path, sizeof path, "%s/sys/class/kfd/kfd/topology/nodes/%d", root, node);
        if (access(path, F_OK)) return count;
        if (!read_node(root, node, &gpu)) continue;
        if (count < capacity) gpus[count] = gpu;
        count++;
    }
}

static bool is_intel(const char *root, const char *name, bool discrete) {
    char path[PATH_MAX], place[PATH_MAX], number[16];
    unsigned vendor = 0, bus = 0;
    snprintf(path, sizeof path, "%s/sys/class/drm/%.40s/device/vendor", root, name);
    if (!bti_file_text(path, number, sizeof number) || sscanf(number, "%x", &vendor) != 1 || vendor != 0x8086)
        return false;
    snprintf(path, sizeof path, "%s/sys/class/drm/%.40s/device", root, name);
    if (!discrete) return true;
    if (!realpath(path, place)) return false;
    const char *last = strrchr(place, '/');
    return last && sscanf(last, "/%*x:%x:", &bus) == 1 && bus != 0; /* GPUs inside processors are on bus 0 */
}

bool bti_intel_find(const char *root, bool discrete) {
    char path[PATH_MAX];
    bool found = false;
    snprintf(path, sizeof path, "%s/sys/class/drm", root);
    DIR *rows = opendir(path);
    for (struct dirent *row; rows && !found && (row = readdir(rows)) != NULL;)
        found = !strncmp(row->d_name, "renderD", 7) && is_intel(root, row->d_name, discrete);
    if (rows) closedir(rows);
    return found;
}

/* --- variables -------------------------------------------------------------------------------------------------------- */

static const char cuda[] = "CUDA_VISIBLE_DEVICES", hip[] = "HIP_VISIBLE_DEVICES", rocr[] = "ROCR_VISIBLE_DEVICES",
                  zero[] = "ZE_AFFINITY_MASK", selector[] = "ONEAPI_DEVICE_SELECTOR", level_zero[] = "level_zero:";

/* The list of "level_zero:0,1"; NULL for other forms, which choose kinds of devices. */
static const char *level_zero_list(const char *text) {
    if (!text || strncmp(text, level_zero, strlen(level_zero))) return NULL;
    const char *list = text + strlen(level_zero);
    return isdigit((unsigned char)*list) && !list[strspn(list, "0123456789.,")] ? list : NULL;
}

bti_mask bti_mask_of(bti_vendor vendor) {
    const char *list;
    switch (vendor) {
    case BTI_AMD:
        if ((list = getenv(hip)) != NULL) return (bti_mask){vendor, hip, "", list};
        if ((list = getenv(cuda)) != NULL) return (bti_mask){vendor, cuda, "", list}; /* HIP reads it too */
        return (bti_mask){vendor, rocr, "", getenv(rocr)};
    case BTI_INTEL:
        if ((list = level_zero_list(getenv(selector))) != NULL) return (bti_mask){vendor, selector, level_zero, list};
        return (bti_mask){vendor, zero, "", getenv(zero)};
    default: return (bti_mask){vendor, cuda, "", getenv(cuda)};
    }
}

void bti_mask_hide(bti_vendor vendor) {
    switch (vendor) {
    case BTI_AMD: setenv(rocr, "", 1); return; /* HIP ignores an empty list of its own, but counts what ROCR shows */
    case BTI_INTEL: setenv(zero, "1000000", 1); return; /* an empty list is ignored; no device has this number */
    default: setenv(cuda, "", 1);
    }
}

void bti_mask_set(const bti_mask *mask, const char *list) {
    char value[8192];
    if (!*list) {
        bti_mask_hide(mask->vendor);
        return;
    }
    bool numbers = isdigit((unsigned char)*list);
    snprintf(value, sizeof value, "%s%s", mask->prefix, list);
    setenv(mask->variable, value, 1);
    if (mask->vendor == BTI_NVIDIA && numbers)
        setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1); /* the order in which the list counts them */
    if (mask->vendor != BTI_UNKNOWN_VENDOR || !numbers) return;
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    setenv(hip, list, 1); /* with it, HIP ignores CUDA_VISIBLE_DEVICES */
    setenv(zero, list, 1);
}

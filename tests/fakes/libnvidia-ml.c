/* An NVML of the fake machine. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "drivers/cuda/nvml.h"
#include "fakes/machine.h"

static int inits;

#define ENTER(name)                               \
    do {                                          \
        int fake_code_ = fake_call(#name, false); \
        if (fake_code_) return fake_code_;        \
        if (!inits) return 1;                     \
    } while (0)

static fake_device *of(nvmlDevice_t device) { return (fake_device *)(void *)device; }
static nvmlReturn_t put(char *to, unsigned length, const char *text) {
    if (length <= strlen(text)) return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(to, text, strlen(text) + 1);
    return 0;
}

FAKE_API nvmlReturn_t nvmlInit_v2(void) {
    int code = fake_call("nvmlInit_v2", false);
    if (!code) inits++;
    return code;
}
FAKE_API nvmlReturn_t nvmlShutdown(void) {
    inits--;
    return 0;
}
FAKE_API const char *nvmlErrorString(nvmlReturn_t result) {
    return result == NVML_ERROR_DRIVER_NOT_LOADED ? "Driver Not Loaded"
           : result == NVML_ERROR_GPU_IS_LOST     ? "GPU is lost"
                                                  : "a fault of the fake";
}
FAKE_API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) {
    ENTER(nvmlSystemGetDriverVersion);
    return put(version, length, fake()->driver);
}
FAKE_API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
    ENTER(nvmlDeviceGetCount_v2);
    *count = (unsigned)fake()->count;
    return 0;
}
FAKE_API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    ENTER(nvmlDeviceGetHandleByIndex_v2);
    *device = (nvmlDevice_t)(void *)&fake()->devices[index];
    return 0;
}
FAKE_API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length) {
    ENTER(nvmlDeviceGetName);
    return put(name, length, of(device)->name);
}
FAKE_API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length) {
    ENTER(nvmlDeviceGetUUID);
    return put(uuid, length, of(device)->uuid);
}
FAKE_API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    ENTER(nvmlDeviceGetPciInfo_v3);
    *pci = (nvmlPciInfo_t){.domain = of(device)->domain, .bus = of(device)->bus, .device = of(device)->slot};
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    return 0;
}
FAKE_API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    ENTER(nvmlDeviceGetMemoryInfo);
    *memory = (nvmlMemory_t){of(device)->memory, of(device)->memory - of(device)->used, of(device)->used};
    return 0;
}
FAKE_API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    ENTER(nvmlDeviceGetCudaComputeCapability);
    *major = of(device)->major;
    *minor = of(device)->minor;
    return 0;
}
FAKE_API nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *millijoules) {
    ENTER(nvmlDeviceGetTotalEnergyConsumption);
    if (of(device)->millijoules < 0) return NVML_ERROR_NOT_SUPPORTED;
    *millijoules = (unsigned long long)of(device)->millijoules;
    of(device)->millijoules += of(device)->millijoules_step;
    return 0;
}
FAKE_API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *now, unsigned *pending) {
    ENTER(nvmlDeviceGetMigMode);
    *now = *pending = of(device)->mig;
    return 0;
}
FAKE_API nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count) {
    ENTER(nvmlDeviceGetMaxMigDeviceCount);
    *count = (unsigned)of(device)->instance_count;
    return 0;
}
FAKE_API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *instance) {
    ENTER(nvmlDeviceGetMigDeviceHandleByIndex);
    fake_device *found = fake_instance(of(device)->first_instance + (int)index);
    if (!*found->uuid) return NVML_ERROR_NOT_FOUND;
    *instance = (nvmlDevice_t)(void *)found;
    return 0;
}
FAKE_API nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t first, nvmlDevice_t second, int index, int *status) {
    ENTER(nvmlDeviceGetP2PStatus);
    bool linked = index == NVML_P2P_CAPS_INDEX_NVLINK && of(first)->island && of(first)->island == of(second)->island;
    *status = linked ? NVML_P2P_STATUS_OK : 5; /* not supported */
    return 0;
}
/* Like NVML, it writes nothing if the array is too small. */
static nvmlReturn_t list(const fake_device *device, bool graphics, unsigned *count, nvmlProcessInfo_t *processes) {
    unsigned room = *count, at = 0;
    bool own = !graphics && fake()->lists_own && device->contexts;
    fake_processes_now();
    *count = own;
    for (int i = 0; i < device->process_count; i++)
        *count += graphics ? device->processes[i].graphics : device->processes[i].compute;
    if (room < *count) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (int i = 0; i < device->process_count; i++) {
        const fake_process *p = &device->processes[i];
        if (graphics ? !p->graphics : !p->compute) continue;
        processes[at++] = (nvmlProcessInfo_t){p->pid, p->bytes ? p->bytes : NVML_VALUE_NOT_AVAILABLE, 0, 0};
    }
    if (own) processes[at] = (nvmlProcessInfo_t){(unsigned)getpid(), device->used, 0, 0};
    return 0;
}
FAKE_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                              nvmlProcessInfo_t *processes) {
    ENTER(nvmlDeviceGetComputeRunningProcesses_v3);
    return list(of(device), false, count, processes);
}
FAKE_API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                               nvmlProcessInfo_t *processes) {
    ENTER(nvmlDeviceGetGraphicsRunningProcesses_v3);
    return list(of(device), true, count, processes);
}

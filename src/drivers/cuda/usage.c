/* What NVML tells of a GPU in use: the processes that hold its memory, and its energy. */
#include <string.h>

#include "base/alloc.h"
#include "drivers/cuda/device.h"

/* --- processes ---------------------------------------------------------------------------------------------------- */

static const char which_processes[] = "which processes use";

typedef nvmlReturn_t list_processes(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *processes);
typedef struct process_list {
    nvmlProcessInfo_t *items;
    unsigned count, room;
} process_list;

/* Adds a process once: a process that computes and draws is in both of NVML's lists, with the same memory. */
static bool add_process(process_list *all, const nvmlProcessInfo_t *one) {
    for (unsigned i = 0; i < all->count; i++)
        if (all->items[i].pid == one->pid && all->items[i].gpuInstanceId == one->gpuInstanceId) return true;
    if (all->count == all->room) {
        unsigned room = all->room ? all->room * 2 : 64;
        nvmlProcessInfo_t *items = bti_realloc(all->items, room * sizeof *items);
        if (!items) return false;
        all->items = items;
        all->room = room;
    }
    all->items[all->count++] = *one;
    return true;
}

/* NVML returns the number of processes if the array is too small; meanwhile there may be more. */
static nvmlReturn_t add_listed(list_processes *ask, nvmlDevice_t device, process_list *all) {
    nvmlReturn_t result = NVML_ERROR_INSUFFICIENT_SIZE;
    nvmlProcessInfo_t *found = NULL;
    for (unsigned room = 64, count, tries = 0; result == NVML_ERROR_INSUFFICIENT_SIZE && tries < 8; tries++) {
        nvmlProcessInfo_t *larger = bti_realloc(found, room * sizeof *found);
        if (!larger) {
            result = NVML_ERROR_MEMORY;
            break;
        }
        found = larger;
        count = room;
        result = ask(device, &count, found);
        for (unsigned i = 0; result == NVML_SUCCESS && i < count; i++)
            if (!add_process(all, &found[i])) result = NVML_ERROR_MEMORY;
        room = count > room ? count + 16 : room * 2;
    }
    bti_free(found);
    return result;
}

static bt_status ask_processes(nvmlDevice_t device, const char *description, void *list) {
    process_list *all = list;
    list_processes *compute = bti_nvml.nvmlDeviceGetComputeRunningProcesses_v3,
                   *graphics = bti_nvml.nvmlDeviceGetGraphicsRunningProcesses_v3;
    if (!compute) compute = bti_nvml.nvmlDeviceGetComputeRunningProcesses_v2;
    nvmlReturn_t result = compute ? add_listed(compute, device, all) : NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS && graphics) {
        nvmlReturn_t drawn = add_listed(graphics, device, all);
        if (drawn == NVML_ERROR_MEMORY) result = drawn; /* a card without graphics has no such list */
    }
    if (result == NVML_SUCCESS) return BT_OK;
    return result == NVML_ERROR_MEMORY ? bti_no_memory() : bti_cuda_nvml_failed(which_processes, description, result);
}

bt_status bti_cuda_processes(int ordinal, bt_device_process *processes, int capacity, int *count) {
    process_list all = {0};
    *count = 0;
    bt_status status = bti_cuda_ask_nvml(ordinal, which_processes, ask_processes, &all);
    for (unsigned i = 0; status == BT_OK && i < all.count; i++, ++*count)
        if (*count < capacity)
            processes[*count] = (bt_device_process){
                all.items[i].pid,
                all.items[i].usedGpuMemory == NVML_VALUE_NOT_AVAILABLE ? 0 : (size_t)all.items[i].usedGpuMemory};
    bti_free(all.items);
    return status;
}

/* --- energy ------------------------------------------------------------------------------------------------------- */

static const char the_energy[] = "the energy of";

/* Counted since NVIDIA's driver was loaded, by GPUs from Volta on; of a GPU that MIG splits as a whole only. */
static bt_status ask_energy(nvmlDevice_t device, const char *description, void *joules) {
    unsigned long long millijoules = 0;
    nvmlReturn_t result = bti_nvml.nvmlDeviceGetTotalEnergyConsumption
                              ? bti_nvml.nvmlDeviceGetTotalEnergyConsumption(device, &millijoules)
                              : NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_ERROR_NOT_SUPPORTED)
        return bti_fail(BT_UNIMPLEMENTED,
                        "NVML does not report the energy of %s: it is counted from the generation Volta on, for whole "
                        "GPUs and not for instances of MIG or virtual GPUs",
                        description);
    if (result != NVML_SUCCESS) return bti_cuda_nvml_failed(the_energy, description, result);
    *(double *)joules = (double)millijoules * 1e-3;
    return BT_OK;
}

bool bti_cuda_energy(int ordinal, double *joules, uint64_t *since_ns, bti_str *reason) {
    bti_errors_aside aside = bti_errors_aside_begin();
    *since_ns = 0;
    bt_status status = bti_cuda_ask_nvml(ordinal, the_energy, ask_energy, joules);
    if (status != BT_OK) bti_str_add_bytes(reason, bt_error_text(), strcspn(bt_error_text(), "\n"));
    bti_errors_aside_end(aside);
    return status == BT_OK;
}

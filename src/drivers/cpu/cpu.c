/* The driver of the CPU: memory of this process, kernels of the engine. Every call returns when its work is done. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cores.h"
#include "base/host_memory.h"
#include "drivers/cpu/energy.h"
#include "drivers/cpu/engine.h"
#include "drivers/cpu/target.h"
#include "drivers/driver.h"

static bti_target_facts cpu_facts = {BTI_CPU_FACTS, .launch_boxes = 1};

static bt_status cpu_probe(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason) {
    (void)kinds;
    (void)reason;
    *count = 1;
    if (!bti_cpu_has(BTI_LLVM_AVX512))
        cpu_facts.channels_last = false; /* convolutions for AVX2 are faster with images in blocks */
    if (capacity < 1) return BT_OK;
    bti_host_memory memory;
    bti_host_memory_read(&memory);
    facts[0] = (bti_device_facts){.kind = BT_CPU};
    bti_cpu_model(facts[0].description, sizeof facts[0].description);
    snprintf(facts[0].driver_version, sizeof facts[0].driver_version, "1");
    facts[0].memory_bytes = memory.total;
    snprintf(facts[0].memory_source, sizeof facts[0].memory_source, "%.159s", memory.source);
    return BT_OK;
}

static bt_status cpu_open(int ordinal, const bti_allocator *allocator, void **device) {
    static int the_cpu;
    (void)ordinal;
    (void)allocator;
    *device = &the_cpu;
    return BT_OK;
}
static void cpu_close(void *device) { (void)device; }

static bt_status cpu_alloc(void *device, size_t bytes, uint64_t *address) {
    (void)device;
    void *memory = bti_alloc_claimed(BTI_MEMORY_ALIGN, bytes);
    if (!memory) return bti_fail(BT_RESOURCE_EXHAUSTED, "CPU:0: %s", bti_host_memory_shortage(bytes).text);
    *address = (uint64_t)(uintptr_t)memory;
    return BT_OK;
}

static void *pointer_of(uint64_t address) { return (void *)(uintptr_t)address; }

static void cpu_free(void *device, uint64_t address, size_t bytes) {
    (void)device;
    bti_free_claimed(pointer_of(address), bytes);
}

static bt_status cpu_upload(void *device, uint64_t address, const void *host, size_t bytes) {
    (void)device;
    bti_copy_bytes(pointer_of(address), host, bytes);
    return BT_OK;
}
static bt_status cpu_download(void *device, void *host, uint64_t address, size_t bytes) {
    (void)device;
    bti_copy_bytes(host, pointer_of(address), bytes);
    return BT_OK;
}
static bt_status cpu_copy(void *device, uint64_t to, uint64_t from, size_t bytes) {
    (void)device;
    memmove(pointer_of(to), pointer_of(from), bytes);
    return BT_OK;
}
static bt_status cpu_fill(void *device, uint64_t address, int byte, size_t bytes) {
    (void)device;
    memset(pointer_of(address), byte, bytes);
    return BT_OK;
}

static bt_status cpu_record(void *device, bti_event *event) {
    (void)device;
    event->value = 0;
    return BT_OK;
}
static bt_status cpu_wait_event(void *device, bti_event event) {
    (void)device, (void)event;
    return BT_OK;
}
static bt_status cpu_query(void *device, bti_event event, bool *done) {
    (void)device, (void)event;
    *done = true;
    return BT_OK;
}
static bt_status cpu_sync_device(void *device) {
    (void)device;
    return BT_OK;
}
static bt_status cpu_memory(void *device, size_t *free_bytes, size_t *total_bytes) {
    (void)device;
    bti_host_memory now;
    bti_host_memory_read(&now);
    *total_bytes = now.total;
    *free_bytes = now.left == SIZE_MAX ? 0 : now.left;
    return *total_bytes ? BT_OK : bti_fail(BT_UNIMPLEMENTED, "CPU:0: /proc/meminfo does not report it");
}

const bti_driver bti_driver_cpu = {
    .name = "cpu",
    .target = &cpu_facts,
    .host_memory = true,
    .side_by_side = true,
    .kinds = 1u << BT_CPU,
    .probe = cpu_probe,
    .open = cpu_open,
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .upload = cpu_upload,
    .download = cpu_download,
    .copy = cpu_copy,
    .fill = cpu_fill,
    .program_load = bti_cpu_program_load,
    .program_free = bti_cpu_program_free,
    .text_lacked = bti_cpu_text_lacked,
    .text_give = bti_cpu_text_give,
    .launch = bti_cpu_launch,
    .launch_kernel = bti_cpu_launch_kernel,
    .launch_series = bti_cpu_launch_series,
    .record = cpu_record,
    .wait = cpu_wait_event,
    .query = cpu_query,
    .sync = cpu_sync_device,
    .memory = cpu_memory,
    .energy = bti_cpu_energy,
};

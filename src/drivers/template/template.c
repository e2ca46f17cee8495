/* The starting point of a new driver: one device whose entries return UNIMPLEMENTED. Copy this folder, rename the table, add a
 * row to drivers.def, and implement the entries: docs/adding-a-driver.md gives the order and the tests of each step. */
#include <stdio.h>

#include "drivers/driver.h"

static bt_status unimplemented(const char *entry) { return bti_fail(BT_UNIMPLEMENTED, "template: no %s yet", entry); }

static bt_status template_probe(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason) {
    (void)kinds, (void)reason; /* add to `reason` what was tried when there is no device */
    *count = 1;
    if (capacity < 1) return BT_OK;
    facts[0] = (bti_device_facts){.kind = BT_ACC, .memory_bytes = 0};
    snprintf(facts[0].description, sizeof facts[0].description, "Template");
    snprintf(facts[0].driver_version, sizeof facts[0].driver_version, "1");
    return BT_OK;
}

static bt_status template_open_device(int ordinal, const bti_allocator *allocator, void **device) {
    static int the_device;
    (void)ordinal, (void)allocator;
    *device = &the_device;
    return BT_OK;
}
static void template_close_device(void *device) { (void)device; }

static bt_status template_alloc(void *device, size_t bytes, uint64_t *address) {
    (void)device, (void)bytes, (void)address;
    return unimplemented("alloc");
}
static void template_free_memory(void *device, uint64_t address, size_t bytes) {
    (void)device, (void)address, (void)bytes;
}

static bt_status template_upload(void *device, uint64_t address, const void *host, size_t bytes) {
    (void)device, (void)address, (void)host, (void)bytes;
    return unimplemented("upload");
}
static bt_status template_download(void *device, void *host, uint64_t address, size_t bytes) {
    (void)device, (void)host, (void)address, (void)bytes;
    return unimplemented("download");
}
static bt_status template_copy(void *device, uint64_t to, uint64_t from, size_t bytes) {
    (void)device, (void)to, (void)from, (void)bytes;
    return unimplemented("copy");
}
static bt_status template_fill(void *device, uint64_t address, int byte, size_t bytes) {
    (void)device, (void)address, (void)byte, (void)bytes;
    return unimplemented("fill");
}

static bt_status template_program_load(void *device, const bti_program_source *source, void **program) {
    (void)device, (void)source, (void)program;
    return unimplemented("program_load");
}
static void template_program_free(void *device, const bti_program_source *source, void *program) {
    (void)device, (void)source, (void)program;
}
static bt_status template_launch(void *device, void *program, const bti_work *work) {
    (void)device, (void)program, (void)work;
    return unimplemented("launch");
}
static bt_status template_launch_kernel(void *device, void *program, const bti_box *box) {
    (void)device, (void)program, (void)box;
    return unimplemented("launch_kernel");
}

static bt_status template_record(void *device, bti_event *event) {
    (void)device, (void)event;
    return unimplemented("record");
}
static bt_status template_wait(void *device, bti_event event) {
    (void)device, (void)event;
    return unimplemented("wait");
}
static bt_status template_query(void *device, bti_event event, bool *done) {
    (void)device, (void)event, (void)done;
    return unimplemented("query");
}
static bt_status template_sync_device(void *device) {
    (void)device;
    return unimplemented("sync");
}
static bt_status template_memory(void *device, size_t *free_bytes, size_t *total_bytes) {
    (void)device, (void)free_bytes, (void)total_bytes;
    return unimplemented("memory");
}

/* Figures of a typical device: plans are made by them (ir/target.h). */
static const bti_target_facts template_facts = {.lanes = 8,
                                                .group_threads = 1,
                                                .units = 1,
                                                .local_bytes = 32 << 10,
                                                .cache_bytes = 1 << 20,
                                                .bandwidth = 10,
                                                .f64_slowdown = 2,
                                                .launch_boxes = 1};

const bti_driver bti_driver_template = {
    .name = "template",
    .target = &template_facts,
    .kinds = 1u << BT_ACC,
    .probe = template_probe,
    .open = template_open_device,
    .close = template_close_device,
    .alloc = template_alloc,
    .free = template_free_memory,
    .upload = template_upload,
    .download = template_download,
    .copy = template_copy,
    .fill = template_fill,
    .program_load = template_program_load,
    .program_free = template_program_free,
    .launch = template_launch,
    .launch_kernel = template_launch_kernel,
    .record = template_record,
    .wait = template_wait,
    .query = template_query,
    .sync = template_sync_device,
    .memory = template_memory,
};

/* From names to devices, and what a device says of itself. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/sized.h"
#include "base/str.h"
#include "device/registry.h"

/* --- finding ------------------------------------------------------------------------------------------------------ */

/* "there are GPU:0 to GPU:3", "there is only GPU:0", "there is none", or why */
static bt_status missing(bt_kind kind, const char *shown) {
    int count = 0;
    char range[96];
    while (bti_registry_find(kind, count)) count++;
    if (count > 1)
        snprintf(range, sizeof range, "there are %s:0 to %s:%d", bt_kind_name(kind), bt_kind_name(kind), count - 1);
    else if (count == 1)
        snprintf(range, sizeof range, "there is only %s:0", bt_kind_name(kind));
    else if (bti_probe_fault(kind, NULL))
        return bti_fail(BT_NOT_FOUND, "no device \"%s\": %s", bti_quote(shown).text, bti_probe_fault(kind, NULL));
    else
        snprintf(range, sizeof range, "there is no %s (bt_functional and `berth doctor` say why)", bt_kind_name(kind));
    return bti_fail(BT_NOT_FOUND, "no device \"%s\": %s", bti_quote(shown).text, range);
}

static bool matches(const bt_device *device, const bti_name *name) {
    const bti_device_facts *facts = &device->facts;
    bool opencl = !strcmp(device->driver->name, "opencl");
    switch (name->form) {
    case BTI_NAME_OPENCL:
        return opencl && (!name->numbered || (facts->ordinal >> 16 == name->platform &&
                                              (facts->ordinal & 0xffff) == name->platform_device));
    case BTI_NAME_UUID: return strlen(facts->uuid) > 4 && !strncasecmp(facts->uuid + 4, name->text, strlen(name->text));
    case BTI_NAME_PCI: return !strcasecmp(facts->pci_bus_id, name->text);
    default: return false;
    }
}

/* Kinds that a name may mean. A card counts once, so who asks for OpenCL's asks for all GPUs. */
static unsigned kinds_of(const bti_name *name) {
    switch (name->form) {
    case BTI_NAME_KIND: return BTI_KIND(name->kind);
    case BTI_NAME_OPENCL: return BTI_KIND(BT_GPU) | BTI_KIND(BT_ACC);
    case BTI_NAME_CONTEXT: return 0;
    default: return BTI_ALL_KINDS;
    }
}

/* What a library did that kept devices of such a name from being listed; NULL when none misbehaved. */
static const char *fault_of(const bti_name *name) {
    if (name->form == BTI_NAME_OPENCL) {
        const char *fault = bti_probe_fault(BT_ACC, "opencl");
        return fault ? fault : bti_probe_fault(BT_GPU, "opencl");
    }
    return name->form == BTI_NAME_KIND && !bti_registry_find(name->kind, 0) ? bti_probe_fault(name->kind, NULL) : NULL;
}

/* "known are opencl0:0, opencl0:1", "there is none", or why */
static bt_status missing_of_opencl(const char *shown, const char *fault) {
    bti_str list = {0};
    for (int id = 0; id < bti_registry_total(); id++) {
        const bt_device *device = bti_registry_at(id);
        if (atomic_load(&device->retired) || strcmp(device->driver->name, "opencl") != 0) continue;
        bti_str_addf(&list, "%sopencl%d:%d", list.length ? ", " : "known are ", device->facts.ordinal >> 16,
                     device->facts.ordinal & 0xffff);
    }
    bt_status status = bti_fail(BT_NOT_FOUND, "no OpenCL device \"%s\": %s", bti_quote(shown).text,
                                fault         ? fault
                                : list.length ? bti_str_text(&list)
                                              : "there is none (`berth doctor` says why)");
    bti_str_free(&list);
    return status;
}

bt_status bti_registry_resolve(const bti_name *name, const char *shown, bt_device **device) {
    bti_registry_ensure(kinds_of(name));
    if (name->form == BTI_NAME_CONTEXT) return bti_context_find(name->text, device);
    if (name->remote)
        return bti_fail(BT_NOT_FOUND, "no device \"%s\": this process is /job:localhost/replica:0/task:0",
                        bti_quote(shown).text);
    if (name->form == BTI_NAME_KIND) {
        *device = bti_registry_find(name->kind, name->index);
        return *device ? BT_OK : missing(name->kind, shown);
    }
    *device = NULL;
    for (int id = 0; id < bti_registry_total(); id++) {
        bt_device *one = bti_registry_at(id);
        if (atomic_load(&one->retired) || !matches(one, name)) continue;
        if (*device && name->form == BTI_NAME_UUID)
            return bti_fail(BT_NOT_FOUND, "\"%s\" begins the UUIDs of %s and %s", bti_quote(shown).text,
                            (*device)->name, one->name);
        if (!*device) *device = one;
    }
    if (*device) return BT_OK;
    if (name->form == BTI_NAME_OPENCL) return missing_of_opencl(shown, fault_of(name));
    const char *what = name->form == BTI_NAME_PCI ? "device on the PCI bus" : "device with the UUID";
    return bti_fail(BT_NOT_FOUND, "no %s \"%s\"", what, bti_quote(shown).text);
}

bt_status bt_device_find(const char *text, bt_device **device) {
    BTI_CALL("bt_device_find");
    bti_name name;
    if (!device) return bti_fail(BT_INVALID_ARGUMENT, "device must not be NULL");
    *device = NULL;
    BTI_TRY(bti_registry_check(0));
    BTI_TRY(bti_name_parse(text, &name));
    return bti_registry_resolve(&name, text, device);
}

bt_status bti_device_canonical(const char *text, char **long_name) {
    bti_name name;
    char kind_name[64];
    *long_name = NULL;
    BTI_TRY(bti_name_parse(text, &name));
    if (name.form == BTI_NAME_KIND && !name.remote) {
        bti_name_long(name.kind, name.index, kind_name, sizeof kind_name);
        *long_name = bti_strdup(kind_name);
    } else {
        bt_device *device;
        BTI_TRY(bt_device_find(text, &device));
        *long_name = bti_strdup(device->long_name);
    }
    return *long_name ? BT_OK : bti_no_memory();
}

/* The handler does not hear of a device that is not there: the caller says so in its own words, or takes another. */
static bt_status resolve_quietly(const bti_name *name, const char *text, bt_device **device) {
    bti_error *before = bti_error_last();
    bool quiet = bti_errors_quiet(true);
    bt_status status = bti_registry_resolve(name, text, device);
    bti_errors_quiet(quiet);
    if (status == BT_OK || name->form != BTI_NAME_CONTEXT) {
        bti_error_put_back(before);
        return status;
    }
    bti_error *error = bti_error_last();
    bti_error_tell(error);
    bti_error_release(error);
    bti_error_release(before);
    return status;
}

bt_status bti_device_place(const char *text, int *id, bool *softened) {
    bti_name name;
    bt_device *device = NULL;
    *softened = false;
    BTI_TRY(bti_registry_check(0));
    BTI_TRY(bti_name_parse(text, &name));
    bt_status status = resolve_quietly(&name, text, &device);
    if (status == BT_OK) *id = device->id;
    if (status == BT_OK || name.form == BTI_NAME_CONTEXT) return status;
    char wanted[128];
    if (name.form == BTI_NAME_KIND && !name.remote)
        bti_name_long(name.kind, name.index, wanted, sizeof wanted);
    else
        snprintf(wanted, sizeof wanted, "%s", bti_quote(text).text);
    const char *fault = name.remote ? NULL : fault_of(&name);
    if (!bti_flag_bool(BTI_FLAG_soft_placement))
        return bti_fail(BT_NOT_FOUND, "Error copying tensor to device: %s. %s unknown device.%s%s", wanted, wanted,
                        fault ? " " : "", fault ? fault : "");
    bt_kind kind = name.form == BTI_NAME_KIND ? name.kind : name.form == BTI_NAME_OPENCL ? BT_CPU : BT_GPU;
    bti_registry_ensure(BTI_KIND(kind));
    device = bti_registry_find(kind, 0);
    if (!device) device = bti_registry_find(BT_CPU, 0);
    bti_log("Soft placement: %s unknown device; using %s", wanted, device->long_name);
    *softened = true;
    *id = device->id;
    return BT_OK;
}

bt_device *bt_device_get(bt_kind kind, int index) {
    BTI_CALL("bt_device_get");
    char name[32];
    if ((unsigned)kind >= BT_KIND_COUNT) {
        (void)!bti_fail(BT_INVALID_ARGUMENT, "%d is not a kind of device (bt_kind)", (int)kind);
        return NULL;
    }
    bti_registry_ensure(BTI_KIND(kind));
    bt_device *device = bti_registry_find(kind, index);
    if (device) return device;
    bti_name_short(kind, index, name, sizeof name);
    (void)!missing(kind, name);
    return NULL;
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

int bt_device_list(bt_kind kind, bt_device **devices, int capacity) {
    int count = bt_device_count(kind);
    for (int i = 0; devices && i < count && i < capacity; i++) devices[i] = bti_registry_find(kind, i);
    return count;
}

bt_device *bt_try_tpu_gpu(int i) {
    bti_registry_ensure(BTI_DEFAULT_KINDS);
    bt_device *device = bti_registry_find(BT_TPU, i);
    if (!device) device = bti_registry_find(BT_GPU, i);
    return device ? device : bti_registry_find(BT_CPU, 0);
}

int bt_try_all_gpus(bt_device **devices, int capacity) {
    int count = bt_device_list(BT_GPU, devices, capacity);
    if (count == 0) count = bt_device_list(BT_CPU, devices, capacity < 1 ? capacity : 1) ? 1 : 0;
    return count < capacity ? count : capacity < 0 ? 0 : capacity;
}

char *bt_device_list_text(bt_device *const *devices, int count, bool long_names) {
    BTI_CALL("bt_device_list_text");
    bti_str text = {0};
    if (bti_check_list(devices, count, "devices") != BT_OK) return NULL;
    for (int i = 0; i < count; i++)
        if (!devices[i]) return (void)!bti_fail(BT_INVALID_ARGUMENT, "device %d of the list is NULL", i + 1), NULL;
    bti_str_add(&text, "[");
    for (int i = 0; i < count; i++)
        bti_str_addf(&text, "%s%s", i ? ", " : "", long_names ? devices[i]->long_name : devices[i]->name);
    bti_str_add(&text, "]");
    return bti_str_take(&text);
}

void bt_free(void *memory) { bti_free(memory); }

/* --- one device --------------------------------------------------------------------------------------------------- */

bt_device *bti_device_at(int id) {
    bti_registry_ensure(0);
    return bti_registry_at(id);
}
int bti_device_id(const bt_device *device) { return device->id; }
int bti_cpu_device_id(void) {
    bti_registry_ensure(BTI_KIND(BT_CPU));
    return bti_registry_find(BT_CPU, 0)->id;
}

const char *bt_device_name(const bt_device *device) { return device ? device->name : ""; }
const char *bt_device_long_name(const bt_device *device) { return device ? device->long_name : ""; }
const char *bt_device_description(const bt_device *device) { return device ? device->facts.description : ""; }
bt_kind bt_device_kind(const bt_device *device) { return device ? device->kind : BT_KIND_COUNT; }
int bt_device_index(const bt_device *device) { return device ? device->index : -1; }
const char *bt_device_driver(const bt_device *device) { return device ? device->driver->name : ""; }

#define MEMBER(name) BTI_MEMBER(bt_device_info, name)
static const bti_member members[] = {MEMBER(size),
                                     MEMBER(kind),
                                     MEMBER(index),
                                     MEMBER(name),
                                     MEMBER(long_name),
                                     MEMBER(description),
                                     MEMBER(driver),
                                     MEMBER(driver_version),
                                     MEMBER(uuid),
                                     MEMBER(pci_bus_id),
                                     MEMBER(capability_major),
                                     MEMBER(capability_minor),
                                     MEMBER(memory_bytes),
                                     MEMBER(opened),
                                     MEMBER(details)};
#undef MEMBER
static const bti_sized_type layout =
    BTI_SIZED_TYPE(bt_device_info, "contents of info", "bt_device_info info = BT_DEVICE_INFO_INIT", members, NULL);

bt_status bt_device_describe(const bt_device *device, bt_device_info *info) {
    if (!device) return bti_fail(BT_INVALID_ARGUMENT, "bt_device_describe: the device is NULL");
    BTI_TRY(bti_sized_check(&layout, "bt_device_describe", info));
    const bti_device_facts *facts = &device->facts;
    bt_device_info known = {.size = sizeof known,
                            .kind = device->kind,
                            .index = device->index,
                            .name = device->name,
                            .long_name = device->long_name,
                            .description = facts->description,
                            .driver = device->driver->name,
                            .driver_version = facts->driver_version,
                            .uuid = facts->uuid,
                            .pci_bus_id = facts->pci_bus_id,
                            .capability_major = facts->capability_major,
                            .capability_minor = facts->capability_minor,
                            .memory_bytes = facts->memory_bytes,
                            .opened = atomic_load(&device->opened),
                            .details = device->details ? device->details : ""};
    bti_info_give(&layout, &known, info);
    return BT_OK;
}

/* Queries of programs: a device by name or kind, the default device, lists, and the description of a device. */
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

bt_status bt_device_find(const char *text, bt_device **device) {
    BTI_CALL("bt_device_find");
    bti_name name;
    if (!device) return bti_fail(BT_INVALID_ARGUMENT, "device must not be NULL");
    *device = NULL;
    BTI_TRY(bti_registry_check(0));
    BTI_TRY(bti_name_parse(text, &name));
    return bti_registry_resolve(&name, text, device);
}

/* The error handler is not called for a missing device: the caller reports it in its own words, or takes another device. */
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
    if (!text) return bti_fail(BT_INVALID_ARGUMENT, "the device is NULL");
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
    const char *fault = name.remote ? NULL : bti_registry_fault_of(&name);
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
    (void)!bti_registry_missing(kind, name);
    return NULL;
}

/* --- the default device ------------------------------------------------------------------------------------------- */

/* The sum of how often the flag and the registry have changed << 8 | id + 1; 0: not known. */
static _Atomic uint64_t default_cache;

static int choose_default(bool *sure) {
    static const bt_kind order[] = {BT_TPU, BT_GPU, BT_CPU};
    bt_device *device = NULL;
    char *name = bti_flag_text(BTI_FLAG_default_device);
    bt_status status = name ? bti_registry_find_name(name, &device) : bti_no_memory();
    bti_free(name);
    *sure = status != BT_RESOURCE_EXHAUSTED; /* out of host memory: tried again at the next call */
    if (status != BT_OK) {
        device = NULL;
        if (!bti_registry_is_faulty() && *sure) bti_log("flag \"default_device\": %s; it is not used", bt_error_text());
    }
    for (int i = 0; !device && i < 3; i++)
        for (int k = 0; (device = bti_registry_find(order[i], k)) && device->unready; k++) {
        }
    return device ? device->id : 0;
}

/* Once per process. Nothing when the program has named another default. */
static void log_broken_gpu(const bt_device *chosen) {
    static atomic_bool logged;
    const char *maker = NULL;
    char name[32] = "cpu", *wanted = NULL;
    if (atomic_load(&logged) || !bti_flag_bool(BTI_FLAG_gpu_notice)) return;
    if (bti_flag_changes(BTI_FLAG_default_device)) wanted = bti_flag_text(BTI_FLAG_default_device);
    bool named = wanted && *wanted;
    bti_free(wanted);
    if (named) return;
    char *text = bti_registry_broken(&maker);
    if (!text || atomic_exchange(&logged, true)) return bti_free(text);
    if (chosen->kind != BT_CPU) snprintf(name, sizeof name, "%s", chosen->name);
    bti_log("An %s GPU may be present on this machine, but it cannot be used: %s. Falling back to %s. (`berth doctor` "
            "tells more; the flag gpu_notice=off silences this.)",
            maker, text, name);
    bti_free(text);
}

static _Thread_local int own_default; /* id + 1; 0: that of the process */

int bti_default_device_enter(int id) {
    int before = own_default - 1;
    own_default = id + 1;
    return before;
}

int bti_default_device_own(void) { return own_default - 1; }

int bti_default_device_id(void) {
    if (own_default) return own_default - 1;
    bti_registry_ensure(BTI_DEFAULT_KINDS);
    uint64_t changes = bti_flag_changes(BTI_FLAG_default_device) + bti_registry_changes(),
             cached = atomic_load(&default_cache);
    if (cached && cached >> 8 == changes) return (int)(cached & 0xff) - 1;
    bti_error *before = bti_error_last();
    bool sure;
    int id = choose_default(&sure);
    bti_error_put_back(before);
    if (sure) atomic_store(&default_cache, changes << 8 | (uint64_t)(id + 1));
    if (sure && bti_registry_at(id)) log_broken_gpu(bti_registry_at(id));
    return id;
}

bt_status bt_set_default_device(const char *name) {
    BTI_CALL("bt_set_default_device");
    BTI_TRY(bti_registry_check(0));
    bt_device *unused;
    if (name) BTI_TRY(bt_device_find(name, &unused));
    return bt_set_flag("default_device", name ? name : "");
}

bt_device *bt_default_device(void) {
    bti_registry_ensure_for_query(BTI_DEFAULT_KINDS);
    return bti_registry_at(bti_default_device_id());
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
static const bti_member device_info_members[] = {MEMBER(size),
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
static const bti_sized_type device_info_layout = BTI_SIZED_TYPE(
    bt_device_info, "contents of info", "bt_device_info info = BT_DEVICE_INFO_INIT", device_info_members, NULL);

bt_status bt_device_describe(const bt_device *device, bt_device_info *info) {
    if (!device) return bti_fail(BT_INVALID_ARGUMENT, "bt_device_describe: the device is NULL");
    BTI_TRY(bti_sized_check(&device_info_layout, "bt_device_describe", info));
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
    bti_info_give(&device_info_layout, &known, info);
    return BT_OK;
}

/* TensorFlow's lists: which devices are there, and several devices on one card. */
#include "base/alloc.h"
#include "base/str.h"
#include "device/registry.h"

static bt_status check_kind(bt_kind kind) {
    if ((unsigned)kind < BT_KIND_COUNT) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "%d is not a kind of device (bt_kind)", (int)kind);
}

static bt_status check_choice(bt_kind kind) {
    BTI_TRY(check_kind(kind));
    if (kind == BT_CPU)
        return bti_fail(BT_UNIMPLEMENTED, "the CPU is always there, and one device; `devices=sim:cpu*2` simulates two");
    return BT_OK;
}

static bt_status check_devices(bt_kind kind, bt_device *const *devices, int count) {
    BTI_TRY(bti_check_list(devices, count, "devices"));
    for (int i = 0; i < count; i++) {
        if (!devices[i]) return bti_fail(BT_INVALID_ARGUMENT, "device %d of the list is NULL", i + 1);
        if (devices[i]->kind != kind || devices[i]->twin)
            return bti_fail(BT_INVALID_ARGUMENT, "%s is no %s", devices[i]->name, bt_kind_name(kind));
        if (atomic_load(&devices[i]->retired))
            return bti_fail(BT_INVALID_ARGUMENT, "device %d of the list, %s, was replaced; ask for the devices again",
                            i + 1, devices[i]->name);
        for (int k = 0; k < i; k++)
            if (devices[k] == devices[i])
                return bti_fail(BT_INVALID_ARGUMENT, "%s is in the list twice", devices[i]->name);
    }
    return BT_OK;
}

bt_status bt_set_visible_devices(bt_kind kind, bt_device *const *devices, int count) {
    BTI_CALL("bt_set_visible_devices");
    bti_chosen chosen[BTI_MAX_DEVICES];
    BTI_TRY(check_choice(kind));
    BTI_TRY(check_devices(kind, devices, count));
    for (int i = 0; i < count; i++) chosen[i] = (bti_chosen){devices[i], 0};
    return bti_registry_choose(kind, chosen, count);
}

bt_status bt_set_logical_devices(bt_device *device, const size_t *limits, int count) {
    BTI_CALL("bt_set_logical_devices");
    bti_chosen chosen[BTI_MAX_DEVICES];
    bt_device *all[BTI_MAX_DEVICES];
    if (!device) return bti_fail(BT_INVALID_ARGUMENT, "the device is NULL");
    BTI_TRY(check_choice(device->kind));
    BTI_TRY(check_devices(device->kind, &device, 1));
    if (!limits || count < 1)
        return bti_fail(BT_INVALID_ARGUMENT,
                        limits ? "%d devices; there must be one or more" : "the limits of %d devices are NULL", count);
    int there = bt_device_list(device->kind, all, BTI_MAX_DEVICES), made = 0;
    if (count > BTI_MAX_DEVICES - there)
        return bti_fail(BT_FAILED_PRECONDITION, "there can be %d devices in all, replaced ones too", BTI_MAX_DEVICES);
    for (int i = 0; i < there; i++)
        for (int part = 0; part < (all[i] == device ? count : 1); part++)
            chosen[made++] = (bti_chosen){all[i], all[i] == device ? limits[part] : 0};
    return bti_registry_choose(device->kind, chosen, made);
}

/* --- as texts ------------------------------------------------------------------------------------------------------- */

static char *list_text(bt_kind kind, int count, const char *sort, const char *name) {
    bti_str text = {0};
    bti_str_add(&text, "[");
    for (int i = 0; i < count; i++)
        bti_str_addf(&text, "%s%s(name='/%s:%s:%d', device_type='%s')", i ? ", " : "", sort, name, bt_kind_name(kind),
                     i, bt_kind_name(kind));
    bti_str_add(&text, "]");
    char *taken = bti_str_take(&text);
    if (!taken) (void)!bti_no_memory();
    return taken;
}

char *bt_physical_devices_text(bt_kind kind) {
    BTI_CALL("bt_physical_devices_text");
    if (check_kind(kind) != BT_OK) return NULL;
    return list_text(kind, bti_registry_physical(kind), "PhysicalDevice", "physical_device");
}

char *bt_logical_devices_text(bt_kind kind) {
    BTI_CALL("bt_logical_devices_text");
    if (check_kind(kind) != BT_OK) return NULL;
    return list_text(kind, bt_device_count(kind), "LogicalDevice", "device");
}

/* The energy of devices: bt_device_energy, and readings that know of gaps. */
#include "base/clock.h"
#include "device/registry.h"

bool bti_device_energy(const bt_device *device, bti_energy *now, bti_str *reason) {
    *now = (bti_energy){0};
    if (device->driver->energy) {
        bool known = device->driver->energy(device->facts.ordinal, &now->joules, &now->since_ns, reason);
        now->at_ns = bti_now_ns(); /* behind since_ns */
        return known;
    }
    if (device->driver->simulated)
        bti_str_addf(reason, "%s is simulated: no hardware counts for it", device->name);
    else
        bti_str_addf(reason, "the driver `%s` does not report it", device->driver->name);
    return false;
}

bool bti_energy_between(const bti_energy *from, const bti_energy *to, double *joules, bti_str *reason) {
    *joules = to->joules - from->joules;
    if (*joules < 0)
        bti_str_add(reason, "the counter was set back in between");
    else if (to->since_ns > from->at_ns)
        bti_str_addf(reason,
                     "the counter was not read for so long (up to %.0f s) that it may have gone round more than once",
                     (double)(to->at_ns - from->at_ns) * 1e-9);
    else
        return true;
    return false;
}

bool bti_device_same_hardware(const bt_device *a, const bt_device *b) {
    return a->driver == b->driver && a->facts.ordinal == b->facts.ordinal;
}

/* NULL when there is none, and when memory is short. */
static void give_reason(bti_str *text, char **reason) {
    if (reason) *reason = text->length ? bti_str_take(text) : NULL;
    bti_str_free(text);
}

/* Under the device's lock: readings follow each other. */
static bool read_after_last(bt_device *device, bti_energy *now, bti_str *why) {
    bti_energy before = device->energy;
    double used;
    if (!bti_device_energy(device, now, why)) return false;
    device->energy = *now;
    return !before.at_ns || bti_energy_between(&before, now, &used, why);
}

bool bt_device_energy(const bt_device *device, double *joules, char **reason) {
    bti_str why = {0};
    bti_energy now = {0};
    bool known = false;
    if (!device || !joules)
        bti_str_add(&why, "bt_device_energy needs a device, and a place for the joules");
    else if (bti_device_forked())
        bti_str_add(&why, "this process was forked after a device was opened");
    else {
        bt_device *entry = bti_registry_at(device->id);
        bti_lock_take(&entry->lock);
        known = read_after_last(entry, &now, &why);
        bti_lock_give(&entry->lock);
    }
    if (joules) *joules = known ? now.joules : 0;
    give_reason(&why, reason);
    return known;
}

/* Reads the settings of devices and asks drivers for devices when they are first needed; finds devices by name. */
#ifndef BTI_DEVICE_REGISTRY_H
#define BTI_DEVICE_REGISTRY_H

#include "device/name.h"
#include "device/table.h"

/* Reads flags, mask and contexts, once, and asks drivers for their devices of these kinds, each kind once. */
void bti_registry_ensure(unsigned kinds);
/* For public queries: the same, and logs a change of the mask that comes too late. */
void bti_registry_ensure_for_query(unsigned kinds);
/* The same; returns the first fault in the settings (flags, devices, contexts, default device). */
bt_status bti_registry_check(unsigned kinds);
bool bti_registry_is_faulty(void);
/* The device of a parsed name; context names are looked up. NOT_FOUND lists the devices that exist. `shown`: the name as given, for messages. */
bt_status bti_registry_resolve(const bti_name *name, const char *shown, bt_device **device);
/* Parses and resolves a name. An empty name leaves *device unchanged. */
bt_status bti_registry_find_name(const char *text, bt_device **device);
/* Returns NOT_FOUND, with the devices of the kind, or why there is none. */
bt_status bti_registry_missing(bt_kind kind, const char *shown);
/* The library fault that kept devices of such a name from being listed; NULL: there was none. */
const char *bti_registry_fault_of(const bti_name *name);
/* Counts replacements by simulated devices and calls of bti_registry_forget. */
uint64_t bti_registry_changes(void);
/* The devices of a kind become those that are chosen of them, in this order; a limit of 0: as it was. FAILED_PRECONDITION once one was opened. */
typedef struct bti_chosen {
    const bt_device *device;
    size_t limit; /* bytes of memory */
} bti_chosen;
bt_status bti_registry_choose(bt_kind kind, const bti_chosen *chosen, int count);
/* How many there were of the kind before any were chosen. */
int bti_registry_physical(bt_kind kind);
/* As bti_probe_broken; the text is yours to bti_free. */
char *bti_registry_broken(const char **maker);
/* For shutdown, when all devices are closed: back to the state at the start. */
void bti_registry_forget(void);

#endif

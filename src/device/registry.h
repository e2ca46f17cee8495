/* The settings of devices are read, and drivers asked, when somebody wants to know; names lead to devices. */
#ifndef BTI_DEVICE_REGISTRY_H
#define BTI_DEVICE_REGISTRY_H

#include "device/name.h"
#include "device/table.h"

/* Reads flags, mask and contexts, once, and asks drivers for their devices of these kinds, each kind once. */
void bti_registry_ensure(unsigned kinds);
/* At the start of every public question: also looks whether the mask was changed too late. */
void bti_registry_ensure_for_query(unsigned kinds);
/* The same, and the fault in the settings that was found then (flags, devices, contexts, default device). */
bt_status bti_registry_check(unsigned kinds);
bool bti_registry_is_faulty(void);
/* The device of a parsed name; NOT_FOUND says what there is. Context names are looked up. `shown` is the name as given. */
bt_status bti_registry_resolve(const bti_name *name, const char *shown, bt_device **device);
/* Parses and resolves; of an empty name *device stays. */
bt_status bti_registry_find_name(const char *text, bt_device **device);
/* NOT_FOUND: what there is of the kind, or why there is none. */
bt_status bti_registry_missing(bt_kind kind, const char *shown);
/* What a library did that kept devices of such a name from being listed; NULL when none misbehaved. */
const char *bti_registry_fault_of(const bti_name *name);
/* How often devices were replaced by simulated ones, or all forgotten. */
uint64_t bti_registry_changes(void);
/* As bti_probe_broken; the text is yours to bti_free. */
char *bti_registry_broken(const char **maker);
/* For shutdown, when all devices are closed: everything as at the start. */
void bti_registry_forget(void);

#endif

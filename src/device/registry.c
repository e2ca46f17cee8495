/* Reads the settings of devices and asks drivers for devices, each kind once, when it is first needed; finds devices by name. */
#include "device/context.h"
#include "device/probe.h"
#include "device/registry.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/flags.h"
#include "base/guest.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/quote.h"

static atomic_uint known;        /* kinds whose devices were asked for; settings are read before */
static _Atomic uint64_t changes; /* how often devices were replaced or forgotten */

/* Protects what follows, and probe.c's accounts. Recursive: an error handler that is called under it may ask for devices. */
BTI_STATIC_LOCK_RECURSIVE(registry_lock, registry)
static enum { UNREAD, READING, READ } settings;
static unsigned asking; /* kinds that drivers are being asked for, by this thread */
static bti_sim_spec simulated;
static int physical[BT_KIND_COUNT]; /* devices before any were chosen, + 1; 0: none were */
static bti_error *setup_fault;
static char *mask; /* CUDA_VISIBLE_DEVICES as it was read; NULL: unset */
static atomic_bool mask_change_logged;

static int known_of(bt_kind kind) {
    int count = 0;
    while (bti_registry_find(kind, count)) count++;
    return count;
}

/* --- from a name to a device ---------------------------------------------------------------------------------------- */

/* "there are GPU:0 to GPU:3", "there is only GPU:0", "there is none", or why */
bt_status bti_registry_missing(bt_kind kind, const char *shown) {
    int count = known_of(kind);
    char range[96];
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

/* Kinds that a name may mean. An OpenCL name needs all drivers of GPUs to be asked, since a card counts once. */
static unsigned kinds_of(const bti_name *name) {
    switch (name->form) {
    case BTI_NAME_KIND: return BTI_KIND(name->kind);
    case BTI_NAME_OPENCL: return BTI_KIND(BT_GPU) | BTI_KIND(BT_ACC);
    case BTI_NAME_CONTEXT: return 0;
    default: return BTI_ALL_KINDS;
    }
}

const char *bti_registry_fault_of(const bti_name *name) {
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
    if (name->form == BTI_NAME_CONTEXT) {
        bti_context mapped;
        BTI_TRY(bti_context_find(name->text, &mapped));
        return bti_registry_resolve(&mapped.device, mapped.device_text, device);
    }
    if (name->remote)
        return bti_fail(BT_NOT_FOUND, "no device \"%s\": this process is /job:localhost/replica:0/task:0",
                        bti_quote(shown).text);
    if (name->form == BTI_NAME_KIND) {
        *device = bti_registry_find(name->kind, name->index);
        return *device ? BT_OK : bti_registry_missing(name->kind, shown);
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
    if (name->form == BTI_NAME_OPENCL) return missing_of_opencl(shown, bti_registry_fault_of(name));
    const char *what = name->form == BTI_NAME_PCI ? "device on the PCI bus" : "device with the UUID";
    return bti_fail(BT_NOT_FOUND, "no %s \"%s\"", what, bti_quote(shown).text);
}

/* --- context names -------------------------------------------------------------------------------------------------- */

static bt_status check_is_present(const bti_context *mapped) {
    bt_device *device;
    bti_without_site without_site = bti_without_site_begin();
    bt_status resolved = bti_registry_resolve(&mapped->device, mapped->device_text, &device);
    bti_without_site_end(without_site);
    if (resolved == BT_OK) return BT_OK;
    bti_error *cause = bti_error_last();
    bt_status status = bti_fail(bti_error_code(cause), "context %s is mapped to a device that is absent: %s",
                                bti_quote(mapped->context).text, bti_error_message(cause));
    bti_error_release(cause);
    return status;
}

/* Puts a new map in the place of the old one; the lines to log are added to `notices`, one a line. */
static bt_status set_contexts(const char *text, bti_str *notices) {
    bti_context_list list = {0};
    bt_status status = BT_OK;
    while (*text && status == BT_OK) {
        size_t count = list.count;
        status = bti_contexts_add(&text, &list);
        if (status == BT_OK && list.count > count) status = check_is_present(&list.items[count]);
    }
    for (size_t i = 0; status == BT_OK && i < list.count && bti_flag_bool(BTI_FLAG_print_active_device); i++) {
        const bti_context *mapped = &list.items[i];
        bt_device *device;
        if (bti_registry_resolve(&mapped->device, mapped->device_text, &device) == BT_OK)
            bti_str_addf(notices, "Mapped name %s to device %s: %s\n", mapped->context, mapped->device_text,
                         device->facts.description);
    }
    if (status == BT_OK) bti_contexts_swap(&list);
    bti_vec_free(&list);
    return status;
}

bt_status bt_set_contexts(const char *text) {
    BTI_CALL("bt_set_contexts");
    bti_str notices = {0};
    if (!text) return bti_fail(BT_INVALID_ARGUMENT, "the map must not be NULL");
    bti_registry_ensure(0);
    bt_status status = set_contexts(text, &notices);
    bti_log_lines(bti_str_text(&notices));
    bti_str_free(&notices);
    return status;
}

/* --- reading the settings and asking drivers ------------------------------------------------------------------------------------------------------ */

/* Keeps the first fault of the settings: the thread's record, just made. */
static void note_fault(bt_status status) {
    if (status != BT_OK && !setup_fault) setup_fault = bti_error_last();
}

static bt_status with_flag(bti_flag flag, bt_status (*use)(const char *value, void *data), void *data) {
    char *value = bti_flag_text(flag);
    if (!value) return bti_no_memory();
    bt_status status = use(value, data);
    bti_free(value);
    return status;
}
static bt_status use_devices(const char *value, void *data) { return bti_sim_spec_parse(value, data); }
static bt_status use_faults(const char *value, void *data) {
    (void)data;
    return bti_sim_fault_check(value);
}
static bt_status use_contexts(const char *value, void *data) { return *value ? set_contexts(value, data) : BT_OK; }
bt_status bti_registry_find_name(const char *text, bt_device **device) {
    bti_name name;
    if (!*text) return BT_OK;
    BTI_TRY(bti_name_parse(text, &name));
    return bti_registry_resolve(&name, text, device);
}
static bt_status use_default(const char *value, void *data) { return bti_registry_find_name(value, data); }

/* The clock stays as it is until devices are asked for again: a trace that is written at the end is of this one. */
static void configure_simulated(void) {
    bti_sim_configure(&simulated);
    uint64_t host[BTI_HOST_WORKS];
    bti_sim_host_works(&simulated, host);
    bti_clock_set_host(host);
    bti_clock_set_virtual(bti_sim_has_models(&simulated));
}

static void read_settings(void) {
    const char *environment = getenv("CUDA_VISIBLE_DEVICES");
    mask = environment ? bti_strdup(environment) : NULL;
    bti_error *flags_fault = bti_flags_fault();
    note_fault(bti_fail_with(flags_fault));
    bti_error_release(flags_fault);
    note_fault(with_flag(BTI_FLAG_devices, use_devices, &simulated));
    note_fault(with_flag(BTI_FLAG_sim_fault, use_faults, NULL));
    configure_simulated();
}

/* Settings that name devices; these are asked for then. */
static void read_names(bti_str *notices) {
    bt_device *unused;
    note_fault(with_flag(BTI_FLAG_contexts, use_contexts, notices));
    note_fault(with_flag(BTI_FLAG_default_device, use_default, &unused));
    bti_flags_pass(BTI_BEFORE_QUERY);
}

static void ask_drivers(unsigned kinds) {
    bti_view view = {&simulated, mask};
    kinds &= ~(atomic_load(&known) | asking);
    if (!kinds) return;
    asking |= kinds;
    bti_probe(kinds, &view);
    asking &= ~kinds;
    atomic_fetch_or_explicit(&known, kinds, memory_order_release);
}

/* Under the lock. A sink or handler that is called meanwhile may ask for devices: it sees those that are known. */
static void read_on(unsigned kinds, bti_str *notices) {
    if (settings == READING) return;
    if (settings == READ) {
        ask_drivers(kinds);
        return;
    }
    settings = READING;
    read_settings();
    settings = READ;
    ask_drivers(kinds);
    read_names(notices);
}

static void notice_mask_change(void) {
    const char *now = getenv("CUDA_VISIBLE_DEVICES");
    if (now ? mask && !strcmp(now, mask) : !mask) return;
    if (atomic_exchange(&mask_change_logged, true)) return;
    bti_log("CUDA_VISIBLE_DEVICES changed from %s%s to %s%s after the devices were first asked for; that has no effect",
            mask ? "" : "unset", mask ? bti_quote(mask).text : "", now ? "" : "unset", now ? bti_quote(now).text : "");
}

__attribute__((noinline)) static void learn_devices(unsigned kinds) {
    BTI_NO_CANCEL;
    bti_str notices = {0};
    bti_lock_take(&registry_lock);
    bti_error *before = bti_error_last();
    bti_without_site without_site = bti_without_site_begin();
    read_on(kinds, &notices);
    bti_without_site_end(without_site);
    bti_error_put_back(before); /* bti_registry_check returns the fault */
    bti_lock_give(&registry_lock);
    bti_log_lines(bti_str_text(&notices)); /* not under the lock: a sink may ask for devices */
    bti_str_free(&notices);
}

/* Called by every operation that is recorded; nearly always everything is known already. */
void bti_registry_ensure(unsigned kinds) {
    kinds |= BTI_KIND(BT_CPU);
    if ((atomic_load_explicit(&known, memory_order_acquire) & kinds) != kinds) learn_devices(kinds);
}

void bti_registry_ensure_for_query(unsigned kinds) {
    bti_registry_ensure(kinds);
    if (!atomic_load_explicit(&mask_change_logged, memory_order_relaxed)) notice_mask_change();
}

bt_status bti_registry_check(unsigned kinds) {
    bti_registry_ensure_for_query(kinds);
    return setup_fault ? bti_fail_with(setup_fault) : BT_OK;
}

bool bti_devices_asked(void) {
    bti_lock_take(&registry_lock);
    bool asked = settings != UNREAD;
    bti_lock_give(&registry_lock);
    return asked;
}

void bti_registry_forget(void) {
    bti_lock_take(&registry_lock);
    bti_registry_clear();
    atomic_store(&known, 0);
    settings = UNREAD;
    atomic_fetch_add(&changes, 1);
    atomic_store(&mask_change_logged, false);
    bti_probe_forget();
    bti_contexts_clear();
    bti_error_release(setup_fault);
    setup_fault = NULL;
    bti_free(mask);
    mask = NULL;
    simulated = (bti_sim_spec){0};
    memset(physical, 0, sizeof physical);
    bti_flags_pass(BTI_ANY_TIME);
    bti_lock_give(&registry_lock);
}

uint64_t bti_registry_changes(void) { return atomic_load_explicit(&changes, memory_order_relaxed); }

/* --- simulated devices -------------------------------------------------------------------------------------------- */

static bt_status check_unopened(bt_kind kind) {
    for (int i = 0;; i++) {
        const bt_device *device = bti_registry_find(kind, i);
        if (!device) return BT_OK;
        if (atomic_load(&device->opened))
            return bti_fail(BT_FAILED_PRECONDITION, "%s was opened already; say so before the first use of a device",
                            device->name);
    }
}

static bt_status check_room(int added) {
    if (bti_registry_total() + added <= BTI_MAX_DEVICES) return BT_OK;
    return bti_fail(BT_FAILED_PRECONDITION, "there can be %d devices in all, replaced ones too", BTI_MAX_DEVICES);
}

static void retire_all(bt_kind kind) {
    bt_device *device;
    for (int i = 0; (device = bti_registry_find(kind, i)); i++) atomic_store(&device->retired, true);
}

/* Under the lock, with the registry read. */
static bt_status replace_devices(const bti_sim_spec *spec) {
    unsigned kinds = 0;
    int added = 0;
    for (int kind = 0; kind < BT_KIND_COUNT; kind++) {
        if (!spec->named[kind]) continue;
        added += spec->count[kind];
        kinds |= BTI_KIND(kind);
        BTI_TRY(check_unopened((bt_kind)kind));
    }
    BTI_TRY(check_room(added));
    for (int kind = 0; kind < BT_KIND_COUNT; kind++) {
        if (!spec->named[kind]) continue;
        simulated.named[kind] = true;
        simulated.count[kind] = spec->count[kind];
        memcpy(simulated.bytes[kind], spec->bytes[kind], sizeof simulated.bytes[kind]);
        memcpy(simulated.models[kind], spec->models[kind], sizeof simulated.models[kind]);
        retire_all((bt_kind)kind);
    }
    configure_simulated();
    bti_view view = {&simulated, mask};
    bti_probe_simulated(kinds, &view);
    atomic_fetch_or(&known, kinds);
    atomic_fetch_add(&changes, 1);
    return BT_OK;
}

bt_status bt_set_devices(const char *text) {
    BTI_CALL("bt_set_devices");
    bti_sim_spec spec;
    if (!text) return bti_fail(BT_INVALID_ARGUMENT, "the text must not be NULL");
    BTI_TRY(bti_sim_spec_parse(text, &spec));
    BTI_TRY(bti_device_check_fork());
    bti_registry_ensure_for_query(0);
    bti_lock_take(&registry_lock);
    bt_status status = replace_devices(&spec);
    for (int kind = 0; kind < BT_KIND_COUNT && status == BT_OK; kind++)
        if (spec.named[kind]) physical[kind] = 0;
    bti_lock_give(&registry_lock);
    return status;
}

/* --- chosen devices ------------------------------------------------------------------------------------------------- */

/* Simulated ones are described anew, as no two may have one ordinal. */
static bt_status choose_simulated(bt_kind kind, const bti_chosen *chosen, int count) {
    bti_sim_spec spec = {0};
    if (count > BTI_SIM_MAX)
        return bti_fail(BT_INVALID_ARGUMENT, "%d devices; at most %d of a kind are simulated", count, BTI_SIM_MAX);
    spec.named[kind] = true;
    spec.count[kind] = count;
    for (int i = 0; i < count; i++) {
        int from = chosen[i].device->facts.ordinal % BTI_SIM_MAX;
        spec.bytes[kind][i] = chosen[i].limit ? chosen[i].limit : simulated.bytes[kind][from];
        spec.models[kind][i] = simulated.models[kind][from];
    }
    return replace_devices(&spec);
}

static bt_status choose_real(bt_kind kind, const bti_chosen *chosen, int count) {
    BTI_TRY(check_unopened(kind));
    BTI_TRY(check_room(count));
    retire_all(kind);
    for (int i = 0; i < count; i++) bti_probe_add_again(chosen[i].device, chosen[i].limit);
    atomic_fetch_add(&changes, 1);
    return BT_OK;
}

bt_status bti_registry_choose(bt_kind kind, const bti_chosen *chosen, int count) {
    bti_registry_ensure_for_query(BTI_KIND(kind));
    bti_lock_take(&registry_lock);
    int before = known_of(kind);
    bt_status status = simulated.named[kind] ? choose_simulated(kind, chosen, count) : choose_real(kind, chosen, count);
    if (status == BT_OK && !physical[kind]) physical[kind] = before + 1;
    bti_lock_give(&registry_lock);
    return status;
}

int bti_registry_physical(bt_kind kind) {
    bti_registry_ensure_for_query(BTI_KIND(kind));
    bti_lock_take(&registry_lock);
    int count = physical[kind] ? physical[kind] - 1 : known_of(kind);
    bti_lock_give(&registry_lock);
    return count;
}

/* --- whether a kind works ----------------------------------------------------------------------------------------- */

bool bt_functional(bt_kind kind, char **reason) {
    int count = bt_device_count(kind);
    bti_str text = {0};
    if ((unsigned)kind >= BT_KIND_COUNT) {
        (void)!bti_fail(BT_INVALID_ARGUMENT, "bt_functional: %d is not a kind (bt_kind)", (int)kind);
        bti_str_addf(&text, "%d is not a kind of device", (int)kind);
        if (reason) *reason = bti_str_take(&text);
        return bti_str_free(&text), false;
    }
    if (!reason) return count > 0;
    bti_lock_take(&registry_lock);
    if (!count) bti_str_addf(&text, "no %s is visible\n", bt_kind_name(kind));
    for (int i = 0; i < count; i++) {
        const bt_device *device = bti_registry_find(kind, i);
        if (device)
            bti_str_addf(&text, "%s: %s (driver %s %s)\n", device->name, device->facts.description,
                         device->driver->name, device->facts.driver_version);
    }
    bti_probe_reasons(kind, !count, &text);
    bti_error *fault = setup_fault;
    if (fault) bti_str_addf(&text, "settings: %s\n", bti_error_message(fault));
    bti_lock_give(&registry_lock);
    while (text.length && text.text[text.length - 1] == '\n') text.text[--text.length] = '\0';
    *reason = bti_str_take(&text);
    return count > 0;
}

int bti_device_count(void) {
    bti_registry_ensure(0);
    return bti_registry_total();
}

int bt_device_count(bt_kind kind) {
    if ((unsigned)kind >= BT_KIND_COUNT) return 0;
    bti_registry_ensure_for_query(BTI_KIND(kind));
    return known_of(kind);
}

char *bti_registry_broken(const char **maker) {
    bti_lock_take(&registry_lock);
    const char *why = bti_probe_broken(maker);
    char *text = why ? bti_strdup(why) : NULL;
    bti_lock_give(&registry_lock);
    return text;
}

bool bti_registry_is_faulty(void) { return setup_fault != NULL; }

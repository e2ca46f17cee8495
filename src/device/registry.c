#include "device/registry.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/guest.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/quote.h"

static bt_device table[BTI_MAX_DEVICES];
static atomic_int total;                   /* entries of the table in use */
static atomic_uint known;                  /* kinds whose devices were asked for; settings are read before */
static atomic_uint_fast64_t default_cache; /* changes of the flag << 8 | id + 1; 0: not known */

/* Under the lock. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; /* an error handler may ask for devices */
BTI_RENEW_IN_CHILD_AS(lock, PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP)
static enum { UNREAD, READING, READ } settings;
static unsigned asking; /* kinds that drivers are being asked for, by this thread */
static bti_sim_spec simulated;
static bti_error *setup_fault;
static char *mask; /* CUDA_VISIBLE_DEVICES as it was read; NULL: unset */
static atomic_bool mask_change_logged;

int bti_registry_total(void) { return atomic_load_explicit(&total, memory_order_acquire); }
bt_device *bti_registry_at(int id) { return id >= 0 && id < bti_registry_total() ? &table[id] : NULL; }

bt_device *bti_registry_find(bt_kind kind, int index) {
    for (int id = 0, n = bti_registry_total(); id < n; id++)
        if (table[id].kind == kind && table[id].index == index && !table[id].twin && !atomic_load(&table[id].retired))
            return &table[id];
    return NULL;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

bt_device *bti_registry_new(void) {
    int id = bti_registry_total();
    if (id == BTI_MAX_DEVICES) return NULL;
    memset(&table[id], 0, sizeof table[id]);
    table[id].id = id;
    pthread_mutex_init(&table[id].lock, NULL);
    return &table[id];
}

void bti_registry_publish(bt_device *device) { atomic_store_explicit(&total, device->id + 1, memory_order_release); }

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
static bt_status use_contexts(const char *value, void *data) { return *value ? bti_contexts_set(value, data) : BT_OK; }
static bt_status use_default(const char *value, void *data) {
    bti_name name;
    if (!*value) return BT_OK;
    BTI_TRY(bti_name_parse(value, &name));
    return bti_registry_resolve(&name, value, data);
}

static void read_settings(void) {
    const char *environment = getenv("CUDA_VISIBLE_DEVICES");
    mask = environment ? bti_strdup(environment) : NULL;
    bti_error *flags_fault = bti_flags_fault();
    note_fault(bti_fail_with(flags_fault));
    bti_error_release(flags_fault);
    note_fault(with_flag(BTI_FLAG_devices, use_devices, &simulated));
    note_fault(with_flag(BTI_FLAG_sim_fault, use_faults, NULL));
    bti_sim_configure(&simulated);
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

void bti_registry_ensure(unsigned kinds) {
    kinds |= BTI_KIND(BT_CPU);
    if ((atomic_load_explicit(&known, memory_order_acquire) & kinds) == kinds) return;
    BTI_NO_CANCEL;
    bti_str notices = {0};
    pthread_mutex_lock(&lock);
    bti_error *before = bti_error_last();
    bti_nowhere nowhere = bti_nowhere_begin();
    read_on(kinds, &notices);
    bti_nowhere_end(nowhere);
    bti_error_put_back(before); /* faults are told by those who return a status */
    pthread_mutex_unlock(&lock);
    bti_log_lines(bti_str_text(&notices)); /* not under the lock: a sink may ask for devices */
    bti_str_free(&notices);
}

/* At the start of every public question: as ensure, and looks whether the mask was changed too late. */
static void ensure_for_query(unsigned kinds) {
    bti_registry_ensure(kinds);
    if (!atomic_load_explicit(&mask_change_logged, memory_order_relaxed)) notice_mask_change();
}

bt_status bti_registry_check(unsigned kinds) {
    ensure_for_query(kinds);
    return setup_fault ? bti_fail_with(setup_fault) : BT_OK;
}

bool bti_devices_asked(void) {
    pthread_mutex_lock(&lock);
    bool asked = settings != UNREAD;
    pthread_mutex_unlock(&lock);
    return asked;
}

void bti_device_shutdown(void) {
    bti_error *before = bti_error_last();
    bool foreign = bti_device_check_fork() != BT_OK; /* a child: what is open is its parent's */
    bti_error_put_back(before);
    if (foreign) return;
    pthread_mutex_lock(&lock);
    for (int id = bti_registry_total() - 1; id >= 0; id--) {
        bti_device_close(&table[id]);
        pthread_mutex_destroy(&table[id].lock);
        bti_free(table[id].details);
    }
    atomic_store(&total, 0);
    atomic_store(&known, 0);
    settings = UNREAD;
    atomic_store(&default_cache, 0);
    atomic_store(&mask_change_logged, false);
    bti_probe_forget();
    bti_contexts_clear();
    bti_error_release(setup_fault);
    setup_fault = NULL;
    bti_free(mask);
    mask = NULL;
    simulated = (bti_sim_spec){0};
    bti_flags_pass(BTI_ANY_TIME);
    pthread_mutex_unlock(&lock);
}

/* --- simulated devices -------------------------------------------------------------------------------------------- */

/* Under the lock, with the registry read. */
static bt_status replace(const bti_sim_spec *spec) {
    unsigned kinds = 0;
    int added = 0;
    for (int kind = 0; kind < BT_KIND_COUNT; kind++) {
        if (spec->named[kind]) added += spec->count[kind], kinds |= BTI_KIND(kind);
        for (int i = 0; spec->named[kind]; i++) {
            bt_device *device = bti_registry_find((bt_kind)kind, i);
            if (!device) break;
            if (atomic_load(&device->opened))
                return bti_fail(BT_FAILED_PRECONDITION, "%s was opened already", device->name);
        }
    }
    if (bti_registry_total() + added > BTI_MAX_DEVICES)
        return bti_fail(BT_FAILED_PRECONDITION, "there can be %d devices in all, replaced ones too", BTI_MAX_DEVICES);
    for (int kind = 0; kind < BT_KIND_COUNT; kind++) {
        if (!spec->named[kind]) continue;
        simulated.named[kind] = true;
        simulated.count[kind] = spec->count[kind];
        memcpy(simulated.bytes[kind], spec->bytes[kind], sizeof simulated.bytes[kind]);
        for (bt_device *device; (device = bti_registry_find((bt_kind)kind, 0));) {
            for (int i = 1; device; device = bti_registry_find((bt_kind)kind, i++))
                atomic_store(&device->retired, true);
        }
    }
    bti_sim_configure(&simulated);
    bti_view view = {&simulated, mask};
    bti_probe_simulated(kinds, &view);
    atomic_fetch_or(&known, kinds);
    atomic_store(&default_cache, 0);
    return BT_OK;
}

bt_status bt_set_devices(const char *text) {
    BTI_CALL("bt_set_devices");
    bti_sim_spec spec;
    if (!text) return bti_fail(BT_INVALID_ARGUMENT, "the text must not be NULL");
    BTI_TRY(bti_sim_spec_parse(text, &spec));
    BTI_TRY(bti_device_check_fork());
    ensure_for_query(0);
    pthread_mutex_lock(&lock);
    bt_status status = replace(&spec);
    pthread_mutex_unlock(&lock);
    return status;
}

/* --- the default device ------------------------------------------------------------------------------------------- */

static int choose_default(bool *sure) {
    static const bt_kind order[] = {BT_TPU, BT_GPU, BT_CPU};
    bt_device *device = NULL;
    bt_status status = with_flag(BTI_FLAG_default_device, use_default, &device);
    *sure = status != BT_RESOURCE_EXHAUSTED; /* out of host memory: the next time may tell */
    if (status != BT_OK) {
        device = NULL;
        if (!setup_fault && *sure) bti_log("flag \"default_device\": %s; it is not used", bt_error_text());
    }
    for (int i = 0; !device && i < 3; i++)
        for (int k = 0; (device = bti_registry_find(order[i], k)) && device->unready; k++) {
        }
    return device ? device->id : 0;
}

/* Once per process. Nothing when the program has named another default. */
static void tell_broken(const bt_device *chosen) {
    static atomic_bool told;
    const char *maker = NULL;
    char name[32] = "cpu", *wanted = NULL;
    if (atomic_load(&told) || !bti_flag_bool(BTI_FLAG_gpu_notice)) return;
    if (bti_flag_changes(BTI_FLAG_default_device)) wanted = bti_flag_text(BTI_FLAG_default_device);
    bool named = wanted && *wanted;
    bti_free(wanted);
    if (named) return;
    pthread_mutex_lock(&lock);
    const char *why = bti_probe_broken(&maker);
    char *text = why ? bti_strdup(why) : NULL;
    pthread_mutex_unlock(&lock);
    if (!text || atomic_exchange(&told, true)) return bti_free(text);
    if (chosen->kind != BT_CPU) snprintf(name, sizeof name, "%s", chosen->name);
    bti_log("An %s GPU may be present on this machine, but it cannot be used: %s. Falling back to %s. (`berth doctor` "
            "tells "
            "more; the flag gpu_notice=off silences this.)",
            maker, text, name);
    bti_free(text);
}

int bti_default_device_id(void) {
    bti_registry_ensure(BTI_DEFAULT_KINDS);
    uint64_t changes = bti_flag_changes(BTI_FLAG_default_device), cached = atomic_load(&default_cache);
    if (cached && cached >> 8 == changes) return (int)(cached & 0xff) - 1;
    bti_error *before = bti_error_last();
    bool sure;
    int id = choose_default(&sure);
    bti_error_put_back(before);
    if (sure) atomic_store(&default_cache, changes << 8 | (uint64_t)(id + 1));
    if (sure && bti_registry_at(id)) tell_broken(bti_registry_at(id));
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
    ensure_for_query(BTI_DEFAULT_KINDS);
    return &table[bti_default_device_id()];
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
    pthread_mutex_lock(&lock);
    if (!count) bti_str_addf(&text, "no %s is visible\n", bt_kind_name(kind));
    for (int i = 0; i < count; i++) {
        bt_device *device = bti_registry_find(kind, i);
        if (device)
            bti_str_addf(&text, "%s: %s (driver %s %s)\n", device->name, device->facts.description,
                         device->driver->name, device->facts.driver_version);
    }
    bti_probe_reasons(kind, !count, &text);
    bti_error *fault = setup_fault;
    if (fault) bti_str_addf(&text, "settings: %s\n", bti_error_message(fault));
    pthread_mutex_unlock(&lock);
    while (text.length && text.text[text.length - 1] == '\n') text.text[--text.length] = '\0';
    *reason = bti_str_take(&text);
    return count > 0;
}

int bti_device_count(void) {
    bti_registry_ensure(0);
    return bti_registry_total();
}

int bt_device_count(bt_kind kind) {
    int count = 0;
    if ((unsigned)kind >= BT_KIND_COUNT) return 0;
    ensure_for_query(BTI_KIND(kind));
    while (bti_registry_find(kind, count)) count++;
    return count;
}

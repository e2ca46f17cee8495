/* Asks drivers for their devices, kind by kind, when a kind is first needed. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/libraries.h"
#include "base/quote.h"
#include "device/name.h"
#include "device/probe.h"
#include "device/trial.h"
#include "device/visibility.h"

#define BTI_DRIVER(name) extern const bti_driver bti_driver_##name;
#include "drivers/drivers.def"
#undef BTI_DRIVER
static const bti_driver *const drivers[] = {
#define BTI_DRIVER(name) &bti_driver_##name,
#include "drivers/drivers.def"
#undef BTI_DRIVER
};
#define DRIVER_COUNT ((int)(sizeof drivers / sizeof *drivers))

typedef struct account {
    bti_str tried[BT_KIND_COUNT]; /* what the driver tried, of the kinds that have no device by it */
    bti_str fault[BT_KIND_COUNT]; /* how its library failed when it was tried */
    bti_str mask;                 /* what the mask hid of its GPUs */
    bti_str broken;               /* why its devices cannot be used, although their maker's driver is there */
} account;
static account accounts[DRIVER_COUNT];

/* Cards that a driver other than OpenCL's has, hidden by the mask or not. */
static struct card { char uuid[64], pci_bus_id[24]; } cards[BTI_MAX_DEVICES];
static int card_count;

static bool is_opencl(const bti_driver *driver) { return !strcmp(driver->name, "opencl"); }

static bool same_text(const char *a, const char *b) { return *a && !strcasecmp(a, b); }

static bool is_twin(const bti_device_facts *facts) {
    for (int i = 0; i < card_count; i++)
        if (same_text(facts->uuid, cards[i].uuid) || same_text(facts->pci_bus_id, cards[i].pci_bus_id)) return true;
    return false;
}

static void note_card(const bti_device_facts *facts) {
    if (card_count == BTI_MAX_DEVICES) return;
    struct card *card = &cards[card_count++];
    memcpy(card->uuid, facts->uuid, sizeof card->uuid);
    memcpy(card->pci_bus_id, facts->pci_bus_id, sizeof card->pci_bus_id);
}

static void name_device(bt_device *device) {
    int index = 0;
    if (device->twin) {
        device->index = -1;
        snprintf(device->name, sizeof device->name, "opencl%d:%d", device->facts.ordinal >> 16,
                 device->facts.ordinal & 0xffff);
        snprintf(device->long_name, sizeof device->long_name, "%s", device->name);
        return;
    }
    while (bti_registry_find(device->kind, index)) index++;
    device->index = index;
    bti_name_short(device->kind, index, device->name, sizeof device->name);
    bti_name_long(device->kind, index, device->long_name, sizeof device->long_name);
}

/* The lines of a reason as one, without the driver's name. */
static void add_joined(bti_str *text, const bti_driver *driver, const char *lines) {
    size_t name = strlen(driver->name);
    for (size_t length; *lines; lines += length + (lines[length] == '\n')) {
        length = strcspn(lines, "\n");
        const char *line = lines;
        size_t rest = length;
        if (!strncmp(line, driver->name, name) && !strncmp(line + name, ": ", 2)) line += name + 2, rest -= name + 2;
        if (text->length && rest) bti_str_add(text, "; ");
        bti_str_add_bytes(text, line, rest);
    }
}

/* `shown` of the driver's `count` devices are visible. */
static void note_broken(const bti_driver *driver, int count, int shown, const char *tried, const char *fault,
                        const char *unready, account *notes) {
    if (!driver->vendor) return;
    if (*fault)
        add_joined(&notes->broken, driver, fault);
    else if (shown && *unready)
        add_joined(&notes->broken, driver, unready);
    else if (!count && driver->broken_install())
        add_joined(&notes->broken, driver, tried);
}

static bool add_device(const bti_driver *driver, const bti_device_facts *facts, bool unready, char *details,
                       account *notes) {
    bt_device *device = bti_registry_new();
    if (!device) {
        bti_free(details);
        bti_str_addf(&notes->tried[facts->kind], "%s: more than %d devices in all\n", driver->name, BTI_MAX_DEVICES);
        return false;
    }
    device->kind = facts->kind;
    device->driver = driver;
    device->facts = *facts;
    device->details = details;
    device->growth = -1;
    device->unready = unready;
    device->twin = facts->kind == BT_GPU && is_opencl(driver) && is_twin(facts);
    name_device(device);
    bti_registry_publish(device);
    return true;
}

void bti_probe_add_again(const bt_device *like, size_t limit) {
    account unused = {0};
    char *details = like->details ? bti_strdup(like->details) : NULL;
    if (!add_device(like->driver, &like->facts, like->unready, details, &unused)) return;
    bt_device *added = bti_registry_at(bti_registry_total() - 1);
    added->limit = limit ? limit : like->limit;
    added->twin = false;
}

/* The order in which devices are listed: those that no mask applies to, then GPUs in the order of CUDA's mask. */
static int apply_mask(const bti_driver *driver, const bti_device_facts *facts, int count, const char *mask, int *order,
                      bti_str *hidden) {
    const char *uuids[BTI_MAX_DEVICES];
    int gpus[BTI_MAX_DEVICES], gpu_count = 0, visible[BTI_MAX_DEVICES], shown = 0;
    for (int i = 0; i < count; i++) {
        if (facts[i].kind != BT_GPU || is_opencl(driver) || facts[i].masked)
            order[shown++] = i;
        else
            uuids[gpu_count] = facts[i].uuid, gpus[gpu_count++] = i;
    }
    int visible_count = bti_visible_devices(mask, uuids, gpu_count, visible);
    if (visible_count < gpu_count)
        bti_str_addf(hidden, "%s: CUDA_VISIBLE_DEVICES=\"%s\" shows %d of %d GPUs\n", driver->name,
                     bti_quote(mask ? mask : "").text, visible_count, gpu_count);
    for (int i = 0; i < visible_count; i++) order[shown++] = gpus[visible[i]];
    return shown;
}

static int keep_kinds(bti_device_facts *facts, int count, unsigned kinds) {
    int kept = 0;
    for (int i = 0; i < count && i < BTI_MAX_DEVICES; i++)
        if (kinds & BTI_KIND(facts[i].kind)) facts[kept++] = facts[i];
    return kept;
}

typedef struct question {
    const bti_driver *driver;
    unsigned kinds;
    bti_device_facts *facts;
    bool likely;
    int count;
    bti_str tried, fault, unready, opened, end;
} question;

static bt_status probe(void *context) {
    question *of = context;
    return of->driver->probe(of->kinds, of->facts, BTI_MAX_DEVICES, &of->count, &of->tried);
}

static void ask_driver(question *of) {
    const bti_driver *driver = of->driver;
    of->likely = !driver->detect || driver->detect(of->kinds, &of->tried);
    if (!of->likely || (driver->third_party && !bti_trial(driver, of->kinds, &of->fault, &of->unready))) return;
    if (driver->third_party)
        bti_trial_open(driver, of->kinds, &of->opened, &of->end); /* before this process has called it */
    if ((driver->third_party ? bti_libraries_open(probe, of) : probe(of)) != BT_OK)
        bti_str_addf(&of->tried, "%s: %s\n", driver->name, bt_error_text());
}

static void ask(const bti_driver *driver, unsigned kinds, const char *mask, account *notes) {
    static bti_device_facts facts[BTI_MAX_DEVICES];
    int order[BTI_MAX_DEVICES];
    question of = {.driver = driver, .kinds = kinds, .facts = facts};
    ask_driver(&of);
    int count = keep_kinds(facts, of.count, kinds);
    for (int i = 0; i < count; i++)
        if (facts[i].kind == BT_GPU && !is_opencl(driver)) note_card(&facts[i]);
    int shown = apply_mask(driver, facts, count, mask, order, &notes->mask);
    if (of.likely)
        note_broken(driver, count, shown, bti_str_text(&of.tried), bti_str_text(&of.fault), bti_str_text(&of.unready),
                    notes);
    for (int i = 0; i < shown; i++) {
        char *details = bti_trial_details(&of.opened, facts[order[i]].ordinal);
        if (!details && of.end.length) details = bti_strdup(bti_str_text(&of.end));
        if (!add_device(driver, &facts[order[i]], of.unready.length > 0, details, notes)) break;
    }
    bti_str_free(&of.unready);
    bti_str_free(&of.opened);
    bti_str_free(&of.end);
    for (int kind = 0; kind < BT_KIND_COUNT; kind++)
        if (kinds & BTI_KIND(kind)) {
            bti_str_add(&notes->tried[kind], bti_str_text(&of.tried));
            bti_str_add(&notes->tried[kind], bti_str_text(&of.fault));
            bti_str_add_bytes(&notes->fault[kind], bti_str_text(&of.fault), strcspn(bti_str_text(&of.fault), "\n"));
        }
    bti_str_free(&of.tried);
    bti_str_free(&of.fault);
}

static unsigned named_kinds(const bti_sim_spec *spec) {
    unsigned kinds = 0;
    for (int kind = 0; kind < BT_KIND_COUNT; kind++)
        if (spec->named[kind]) kinds |= BTI_KIND(kind);
    return kinds;
}

void bti_probe(unsigned kinds, const bti_view *view) {
    unsigned simulated = named_kinds(view->simulated);
    for (int i = 0; i < DRIVER_COUNT; i++) {
        unsigned of = drivers[i]->kinds & kinds;
        if (!drivers[i]->simulated) of &= ~simulated;
        if (of) ask(drivers[i], of, view->mask, &accounts[i]);
    }
}

void bti_probe_simulated(unsigned kinds, const bti_view *view) {
    for (int i = 0; i < DRIVER_COUNT; i++) {
        if (!drivers[i]->simulated) continue;
        for (int kind = 0; kind < BT_KIND_COUNT; kind++)
            if (kinds & BTI_KIND(kind)) bti_str_free(&accounts[i].tried[kind]);
        if (kinds & BTI_KIND(BT_GPU)) bti_str_free(&accounts[i].mask);
        if (drivers[i]->kinds & kinds) ask(drivers[i], drivers[i]->kinds & kinds, view->mask, &accounts[i]);
    }
}

void bti_probe_reasons(bt_kind kind, bool none, bti_str *text) {
    for (int i = 0; i < DRIVER_COUNT; i++) {
        if (none) bti_str_add(text, bti_str_text(&accounts[i].tried[kind]));
        if (kind == BT_GPU) bti_str_add(text, bti_str_text(&accounts[i].mask));
    }
}

const char *bti_probe_fault(bt_kind kind, const char *driver) {
    for (int i = 0; i < DRIVER_COUNT; i++)
        if (accounts[i].fault[kind].length && (!driver || !strcmp(drivers[i]->name, driver)))
            return bti_str_text(&accounts[i].fault[kind]);
    return NULL;
}

const char *bti_probe_broken(const char **maker) {
    for (int i = 0; i < DRIVER_COUNT; i++) {
        if (!accounts[i].broken.length) continue;
        *maker = drivers[i]->vendor;
        return bti_str_text(&accounts[i].broken);
    }
    return NULL;
}

void bti_probe_forget(void) {
    for (int i = 0; i < DRIVER_COUNT; i++) {
        for (int kind = 0; kind < BT_KIND_COUNT; kind++) {
            bti_str_free(&accounts[i].tried[kind]);
            bti_str_free(&accounts[i].fault[kind]);
        }
        bti_str_free(&accounts[i].mask);
        bti_str_free(&accounts[i].broken);
    }
    card_count = 0;
}

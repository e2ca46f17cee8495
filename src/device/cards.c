#include "device/cards.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "device/device.h"
#include "device/visibility.h"
#include "drivers/sim/sim.h"

#define BTI_DRIVER(name) extern const bti_driver bti_driver_##name;
#include "drivers/drivers.def"
#undef BTI_DRIVER
static const bti_driver *const drivers[] = {
#define BTI_DRIVER(name) &bti_driver_##name,
#include "drivers/drivers.def"
#undef BTI_DRIVER
};
enum { DRIVER_COUNT = sizeof drivers / sizeof *drivers, GPUS = 1u << BT_GPU, MOST_PROCESSES = 512 };

typedef struct card {
    const bti_driver *driver;
    int ordinal;
} card;

/* Which drivers are asked: the simulated devices' alone when GPUs are simulated. */
static bool read_settings(bti_sim_spec *spec, bool *simulated, bti_str *reason) {
    *spec = (bti_sim_spec){0};
    char *text = bti_flag_text(BTI_FLAG_devices);
    bool read = text && bti_sim_spec_parse(text, spec) == BT_OK;
    if (!read) bti_str_addf(reason, "%s\n", text ? bt_error_text() : "out of host memory");
    bti_free(text);
    *simulated = spec->named[BT_GPU];
    return read;
}

static bool is_asked(const bti_driver *driver, bool simulated, bti_str *reason) {
    if (!(driver->kinds & GPUS) || !strcmp(driver->name, "opencl")) return false;
    if (simulated != (driver == &bti_driver_sim)) return false;
    return !driver->likely || driver->likely(GPUS, reason);
}

/* Adds what the mask shows of a driver's. */
static int add_shown(const bti_driver *driver, const bti_device_facts *facts, int count, card *cards, int capacity) {
    const char *uuids[BTI_MAX_DEVICES];
    int gpus[BTI_MAX_DEVICES], visible[BTI_MAX_DEVICES], gpu_count = 0, shown = 0;
    for (int i = 0; i < count; i++) {
        if (facts[i].kind != BT_GPU) continue;
        if (facts[i].masked && shown < capacity) cards[shown++] = (card){driver, facts[i].ordinal};
        if (!facts[i].masked) uuids[gpu_count] = facts[i].uuid, gpus[gpu_count++] = facts[i].ordinal;
    }
    int visible_count = bti_visible_devices(getenv("CUDA_VISIBLE_DEVICES"), uuids, gpu_count, visible);
    for (int i = 0; i < visible_count && shown < capacity; i++) cards[shown++] = (card){driver, gpus[visible[i]]};
    return shown;
}

static int find_cards(card *cards, bti_str *reason) {
    static bti_device_facts facts[BTI_MAX_DEVICES];
    bti_sim_spec spec;
    bool simulated;
    int found = 0;
    if (!read_settings(&spec, &simulated, reason)) return 0;
    bti_sim_configure(&spec);
    for (int i = 0; i < DRIVER_COUNT; i++) {
        int count = 0;
        if (!is_asked(drivers[i], simulated, reason)) continue;
        if (drivers[i]->probe(GPUS, facts, BTI_MAX_DEVICES, &count, reason) != BT_OK)
            bti_str_addf(reason, "%s: %s\n", drivers[i]->name, bt_error_text());
        if (count > BTI_MAX_DEVICES) count = BTI_MAX_DEVICES;
        found += add_shown(drivers[i], facts, count, cards + found, BTI_MAX_DEVICES - found);
    }
    return found;
}

int bti_cards_count(bti_str *reason) {
    card cards[BTI_MAX_DEVICES];
    return find_cards(cards, reason);
}

bool bti_cards_tell(void) {
    bti_str reason = {0};
    bti_sim_spec spec;
    bool simulated, tell = false;
    if (read_settings(&spec, &simulated, &reason))
        for (int i = 0; i < DRIVER_COUNT; i++)
            tell |= drivers[i]->processes && is_asked(drivers[i], simulated, &reason);
    bti_str_free(&reason);
    return tell;
}

bt_status bti_cards_held(int pid, bool *held) {
    static card cards[BTI_MAX_DEVICES];
    static bt_device_process processes[MOST_PROCESSES];
    static int count = -1;
    bti_str reason = {0};
    *held = false;
    if (count < 0) count = find_cards(cards, &reason);
    bti_str_free(&reason);
    for (int i = 0; i < count; i++) {
        int listed;
        if (!cards[i].driver->processes) return bti_fail(BT_UNIMPLEMENTED, "%s does not tell", cards[i].driver->name);
        BTI_TRY(cards[i].driver->processes(cards[i].ordinal, processes, MOST_PROCESSES, &listed));
        for (int p = 0; p < listed && p < MOST_PROCESSES; p++) *held |= processes[p].pid == pid;
    }
    return BT_OK;
}

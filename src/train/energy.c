#include "train/energy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

enum { SECONDS_BETWEEN_READINGS = 10 };

/* --- devices ------------------------------------------------------------------------------------------------------------ */

/* Logical devices share the card, whose place on the bus is one. */
static bool is_same_card(const bt_device *a, const bt_device *b) {
    bt_device_info x = BT_DEVICE_INFO_INIT, y = BT_DEVICE_INFO_INIT;
    if (a == b) return true;
    return bt_device_describe(a, &x) == BT_OK && bt_device_describe(b, &y) == BT_OK && *x.pci_bus_id &&
           !strcmp(x.pci_bus_id, y.pci_bus_id) && !strcmp(x.uuid, y.uuid);
}

static void add_device(bti_meters *m, bt_device *device) {
    if (!device || m->count == BTI_METERS_MOST) return;
    for (int i = 0; i < m->count; i++)
        if (is_same_card(m->of[i].device, device)) return;
    m->of[m->count++] = (bti_meter){.device = device};
}

static void add_devices_of(bti_meters *m, bt_layer *model) {
    int count = bt_parameters(model, NULL, 0);
    bt_shared **variables = bti_calloc((size_t)count + 1, sizeof *variables);
    if (variables) (void)bt_parameters(model, variables, count);
    for (int i = 0; i < count && variables; i++)
        BT_SCOPE
            add_device(m, bt_device_of(bt_value(variables[i])));
    bti_free(variables);
}

/* --- readings ----------------------------------------------------------------------------------------------------------- */

/* The counter; false: it is not known any more. */
static bool read_meter(bti_meter *meter, double *joules) {
    char *reason;
    if (*meter->why) return false;
    bool known = bt_device_energy(meter->device, joules, &reason);
    if (!known) snprintf(meter->why, sizeof meter->why, "%s", reason ? reason : "out of host memory");
    bt_free(reason);
    return known;
}

static bool is_any_known(const bti_meters *m) {
    for (int i = 0; i < m->count; i++)
        if (!*m->of[i].why) return true;
    return false;
}

void bti_meters_read(bti_meters *m) {
    double now;
    for (int i = 0; i < m->count; i++) {
        bti_meter *meter = &m->of[i];
        if (*meter->why) continue;
        if (!read_meter(meter, &now)) {
            m->epoch = NAN;
            continue;
        }
        m->epoch += now - meter->last;
        meter->used += now - meter->last;
        meter->last = now;
    }
    m->read_at = bti_now_seconds();
}

void bti_meters_begin(bti_meters *m, bt_layer *model, const bt_strategy *strategy) {
    *m = (bti_meters){.began = bti_now_seconds()};
    add_device(m, bt_device_get(BT_CPU, 0));
    for (int r = 0; strategy && r < bt_strategy_count(strategy); r++) add_device(m, bt_strategy_device(strategy, r));
    add_devices_of(m, model);
    for (int i = 0; i < m->count; i++) (void)read_meter(&m->of[i], &m->of[i].last);
    m->epoch = is_any_known(m) ? 0 : NAN;
    m->read_at = m->began;
}

void bti_meters_step(bti_meters *m, double rows) {
    m->steps++;
    m->rows += rows;
    if (bti_now_seconds() - m->read_at >= SECONDS_BETWEEN_READINGS) bti_meters_read(m);
}

double bti_meters_end_epoch(bti_meters *m) {
    bti_meters_read(m);
    double joules = m->epoch;
    m->epoch = is_any_known(m) ? 0 : NAN;
    return joules;
}

double bti_meters_joules(const bti_meters *m) {
    double joules = 0;
    for (int i = 0; i < m->count; i++)
        if (!*m->of[i].why) joules += m->of[i].used;
    return is_any_known(m) ? joules : NAN;
}

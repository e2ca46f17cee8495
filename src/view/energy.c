#include "view/energy.h"

#include <math.h>
#include <stdio.h>

void bti_energies_read(bti_energies *begun) {
    int count = bti_device_count();
    begun->count = count < BTI_TRACE_DEVICES ? count : BTI_TRACE_DEVICES;
    for (int d = 0; d < begun->count; d++) {
        bti_str reason = {0};
        if (!bti_device_energy(bti_device_at(d), &begun->of[d], &reason)) begun->of[d].at_ns = 0;
        bti_str_free(&reason);
    }
}

static bool difference(const bti_energies *begun, int device, double *joules, double *seconds, bti_str *reason) {
    bti_energy now;
    if (!bti_device_energy(bti_device_at(device), &now, reason)) return false;
    if (device >= begun->count || !begun->of[device].at_ns) {
        bti_str_add(reason, "it could not be read when the profile began");
        return false;
    }
    *seconds = (double)(now.at_ns - begun->of[device].at_ns) * 1e-9;
    return bti_energy_between(&begun->of[device], &now, joules, reason);
}

/* The first of the devices before it that is a part of the same card and was shown; -1: none. */
static int shown_with(const bool *shown, int device) {
    for (int d = 0; d < device; d++)
        if (shown[d] && bti_device_same_hardware(bti_device_at(d), bti_device_at(device))) return d;
    return -1;
}

static void add_joules(bti_str *text, double joules) {
    static const char *const units[] = {"mJ", "J", "kJ", "MJ"};
    int u = 0;
    for (joules *= 1e3; joules >= 999.5 && u < 3; u++) joules *= 1e-3;
    char cell[24];
    snprintf(cell, sizeof cell, "%.3g %s", joules, units[u]);
    bti_str_addf(text, "%12s", cell);
}

static void add_row(const bti_energies *begun, const bti_trace_log *log, const bool *shown, int device, bti_str *text) {
    bti_str reason = {0};
    double joules = 0, seconds = 0;
    int other = shown_with(shown, device);
    bti_str_addf(text, "  %-30s", bt_device_name(bti_device_at(device)));
    if (other >= 0)
        bti_str_addf(text, "%12s of the same card\n", bt_device_name(bti_device_at(other)));
    else if (!difference(begun, device, &joules, &seconds, &reason))
        bti_str_addf(text, "%12s: %s\n", "unknown", bti_str_text(&reason));
    else if (log->is_virtual)
        bti_str_addf(text, "%12s: the time of this profile is that of a model\n", "unknown");
    else {
        add_joules(text, joules);
        bti_str_addf(text, "%10.3g W\n", seconds > 0 ? joules / seconds : 0);
    }
    bti_str_free(&reason);
}

void bti_energies_describe(const bti_energies *begun, const bti_trace_log *log, bti_str *text) {
    bool shown[BTI_TRACE_DEVICES] = {false};
    int cpu = bti_cpu_device_id();
    for (size_t i = 0; i < log->events.count; i++)
        if (log->events.items[i].device >= 0) shown[log->events.items[i].device] = true;
    if (cpu >= 0 && cpu < BTI_TRACE_DEVICES) shown[cpu] = true;
    bti_str_addf(text, "\n%-32s%12s%12s\n", "energy, with other programs'", "used", "mean");
    for (int d = 0; d < bti_device_count() && d < BTI_TRACE_DEVICES; d++)
        if (shown[d]) add_row(begun, log, shown, d, text);
}

/* The energy of the devices of a profile. */
#ifndef BTI_VIEW_ENERGY_H
#define BTI_VIEW_ENERGY_H

#include "base/trace.h"
#include "device/device.h"

/* Readings when a profile begins; at_ns 0: it could not be read. */
typedef struct bti_energies {
    bti_energy of[BTI_TRACE_DEVICES];
    int count;
} bti_energies;

void bti_energies_read(bti_energies *begun);
/* A table of the CPU and of the devices that the log has work of: joules and watts since then, or why they are not known. */
void bti_energies_describe(const bti_energies *begun, const bti_trace_log *log, bti_str *text);

#endif

/* Drivers are asked for their devices, kind by kind. All under the lock of registry.c. */
#ifndef BTI_DEVICE_PROBE_H
#define BTI_DEVICE_PROBE_H

#include "device/table.h"
#include "drivers/sim/sim_flags.h"

typedef struct bti_view { /* through which drivers' devices are seen */
    const bti_sim_spec *simulated;
    const char *mask; /* CUDA_VISIBLE_DEVICES; NULL: unset */
} bti_view;
/* Asks drivers for their devices of these kinds, which were not asked for yet, and adds them. */
void bti_probe(unsigned kinds, const bti_view *view);
/* Simulated devices of these kinds anew; those before are retired. */
void bti_probe_simulated(unsigned kinds, const bti_view *view);
/* Why there are none: what drivers of the kind tried, and what the mask hid. */
void bti_probe_reasons(bt_kind kind, bool none, bti_str *text);
/* How the library of a driver (NULL: of any) of the kind, which was asked for, hung, crashed or ended the process; NULL: none did. */
const char *bti_probe_fault(bt_kind kind, const char *driver);
/* Why GPUs of a maker cannot be used, although its driver is there; NULL: nothing speaks for that. */
const char *bti_probe_broken(const char **maker);
void bti_probe_forget(void);

#endif

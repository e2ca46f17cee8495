/* Drivers are asked for their devices, kind by kind. All under the lock of registry.c. */
#ifndef BTI_DEVICE_PROBE_H
#define BTI_DEVICE_PROBE_H

#include "device/table.h"
#include "drivers/sim/sim_flags.h"

typedef struct bti_view { /* what decides which devices are listed */
    const bti_sim_spec *simulated;
    const char *mask; /* CUDA_VISIBLE_DEVICES; NULL: unset */
} bti_view;
/* Asks drivers for their devices of these kinds and adds them. Once per kind. */
void bti_probe(unsigned kinds, const bti_view *view);
/* Adds the simulated devices of these kinds again, after the former ones were retired. */
void bti_probe_simulated(unsigned kinds, const bti_view *view);
/* Adds a device of the same hardware, as the next of its kind. There is room. */
void bti_probe_add_again(const bt_device *like, size_t limit);
/* Why there are no devices of the kind, or fewer: what its drivers tried (with `none`), and what the mask hid. */
void bti_probe_reasons(bt_kind kind, bool none, bti_str *text);
/* How the library of a driver of the kind (NULL: of any driver) hung, crashed or ended the child process; NULL: none did. */
const char *bti_probe_fault(bt_kind kind, const char *driver);
/* Why the GPUs of a vendor cannot be used although its driver is installed; NULL: no such case is known. */
const char *bti_probe_broken(const char **maker);
void bti_probe_forget(void);

#endif

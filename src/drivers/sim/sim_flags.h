/* What flags say of simulated devices: which exist (flag devices), and which calls fail (flag sim_fault). */
#ifndef BTI_DRIVERS_SIM_SIM_FLAGS_H
#define BTI_DRIVERS_SIM_SIM_FLAGS_H

#include "base/clock.h"
#include "drivers/driver.h"
#include "drivers/sim/sim_model.h"

#define BTI_SIM_MAX 32 /* devices of one kind; the ordinal of a device is kind * BTI_SIM_MAX + index */

/* The devices of "sim:gpu*4;sim:tpu*2@512M" or "sim:h200*4;sim:a100{link=100}*2". A kind that is named is simulated, even with a count of 0 (except the CPU). Either
 * all devices of a kind have a model, or none has. */
typedef struct bti_sim_spec {
    bool named[BT_KIND_COUNT];
    int count[BT_KIND_COUNT];
    size_t bytes[BT_KIND_COUNT][BTI_SIM_MAX]; /* memory of each device; 0: its model's, else the flag sim_memory */
    bti_sim_model models[BT_KIND_COUNT][BTI_SIM_MAX]; /* without a description: none */
} bti_sim_spec;

/* INVALID_ARGUMENT says what is wrong; *spec is unchanged then. "" is no device. Several parts for one kind add up. */
bt_status bti_sim_spec_parse(const char *text, bti_sim_spec *spec);

/* The devices that probe lists from now on, and those that it lists now. Under the registry's lock. */
void bti_sim_configure(const bti_sim_spec *spec);
const bti_sim_spec *bti_sim_configured(void);
/* Whether devices have models: the process's clock is virtual while they are those of the registry. */
bool bti_sim_has_models(const bti_sim_spec *spec);
/* What the work of the host takes: by the first CPU's model; without one nothing. */
void bti_sim_host_works(const bti_sim_spec *spec, uint64_t ns[BTI_HOST_WORKS]);
static inline bool bti_sim_has_model(const bti_sim_spec *spec, int kind, int index) {
    return *spec->models[kind][index].description;
}

/* Called at the start of every entry of the driver, whose name is `entry`: BT_OK, or the fault that the flag injects into this
 * call. */
bt_status bti_sim_fault(const char *entry, bt_kind kind, int index);
/* Called for each event of a device: whether it is one that does not come (hang:3: the third) as long as the flag has this value. */
bt_status bti_sim_hang(bt_kind kind, int index, bool *hangs);
/* Whether a text is a list of faults; else INVALID_ARGUMENT. */
bt_status bti_sim_fault_check(const char *text);

#endif

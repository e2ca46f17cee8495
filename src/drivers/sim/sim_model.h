/* A model of a card or of a CPU: the figures of sim_model.def, or those of one of its rows with some replaced. */
#ifndef BTI_DRIVERS_SIM_SIM_MODEL_H
#define BTI_DRIVERS_SIM_SIM_MODEL_H

#include <stddef.h>

#include <berth/device.h>

#include "base/error.h"

typedef struct bti_sim_model {
    char description[96]; /* "NVIDIA H200 by a model"; "": there is no model */
    bt_kind kind;         /* of the devices */
    int capability_major, capability_minor;
    struct {
#define BTI_SIM_FIGURE(name, unit, doc, ...) double name;
#include "drivers/sim/sim_model.def"
#undef BTI_SIM_FIGURE
    };
} bti_sim_model;

/* The model that a text begins with, "a100" or "a100{units=64/memory=24}", and in *used its length. *used 0: it begins with no model's name.
 * INVALID_ARGUMENT: a figure is unknown or is no number above 0 (of what there may be none: from 0). */
bt_status bti_sim_model_parse(const char *text, size_t length, bti_sim_model *model, size_t *used);

#endif

/* Whether gradients come to the parameters of a training step. */
#ifndef BTI_DIST_FLOWS_H
#define BTI_DIST_FLOWS_H

#include "nn/optimizer.h"

/* flows[p]: whether one comes to parameters[p] (bti_grad_both). FAILED_PRECONDITION: none does, so the loss cannot fall; the error names where they end. Some
 * do not: a line in the log, or, if the optimiser's mode is BTI_GRADIENTS_NEEDED, an error; names them and their layers. The optimiser's mode is
 * BTI_GRADIENTS_KNOWN afterwards, so that this comes once, and stays after an error. */
bt_status bti_check_flows(bt_optimizer *optimizer, const bt_layer *model, bt_shared *const *parameters,
                          const bool *flows, int count, bt_array *loss);

#endif

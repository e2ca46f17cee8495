/* Convolutions by oneDNN. */
#ifndef BTI_DRIVERS_CPU_CONV_ONEDNN_CONV_H
#define BTI_DRIVERS_CPU_CONV_ONEDNN_CONV_H

#include "base/error.h"
#include "reference/conv.h"

/* Arrays are float32. w is dense, x and y are or have their channels last. last: the primitive takes these so. *done false: oneDNN is not there, or
 * has no fast way, and nothing is written. packed: room for w in the layout of the primitive; NULL. */
bt_status bti_conv_by_onednn(const bti_conv *c, bool last, const bti_work_packed *packed, bool *done);

#endif

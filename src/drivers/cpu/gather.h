/* Operations that move data by rule or by index, and operations along lines (cumsum...), on the cores. The results are the
 * interpreter's, bit for bit. */
#ifndef BTI_DRIVERS_CPU_GATHER_H
#define BTI_DRIVERS_CPU_GATHER_H

#include "ir/work.h"

/* The operations of the classes BTI_GATHER, BTI_SCAN, BTI_MOVEMENT and BTI_EFFECT. Fails like the interpreter. */
bt_status bti_cpu_gather(const bti_work *work);

#endif

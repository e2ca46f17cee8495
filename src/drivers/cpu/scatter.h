/* Scatters on the cores. Each element of the output is written by one thread, which adds in the order of the indices, as the interpreter
 * does: where the work is cut changes no bit. */
#ifndef BTI_DRIVERS_CPU_SCATTER_H
#define BTI_DRIVERS_CPU_SCATTER_H

#include "ir/work.h"

/* What bti_op_scatters. */
bt_status bti_cpu_scatter(const bti_work *work);

#endif

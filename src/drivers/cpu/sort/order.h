/* Sorts and selections on the cores. The results are the interpreter's, bit for bit, on any number of them. */
#ifndef BTI_DRIVERS_CPU_SORT_ORDER_H
#define BTI_DRIVERS_CPU_SORT_ORDER_H

#include "base/error.h"
#include "ir/work.h"

/* The operations of the class BTI_ORDER. Fails when memory is short. */
bt_status bti_cpu_order(const bti_work *work);

#endif

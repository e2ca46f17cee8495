/* Primitives that are run whole. */
#ifndef BTI_DRIVERS_WORK_H
#define BTI_DRIVERS_WORK_H

#include "ir/work.h"

/* Products by libraries, what moves data split over the cores, the rest, or with the flag kernels=interpreter all, by the
 * interpreter. */
bt_status bti_cpu_work(const bti_work *work);

#endif

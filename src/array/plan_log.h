/* What evaluation writes to the log, by the flags log_device_placement, transfers and explain. */
#ifndef BTI_ARRAY_PLAN_LOG_H
#define BTI_ARRAY_PLAN_LOG_H

#include "compile/compile.h"

/* One line per public operation, in recorded order. */
void bti_log_order(const bti_nodes *order);
/* Its copies, and the plan itself; a plan that was there lately is only named. Under the graph lock. */
void bti_log_plan(const bti_plan *plan);

#endif

/* top_k, by selection. */
#ifndef BTI_DRIVERS_CPU_SORT_SELECT_H
#define BTI_DRIVERS_CPU_SORT_SELECT_H

#include "drivers/cpu/sort/lines.h"

/* All lines. */
void bti_order_select(bti_order_lines *lines);

#endif

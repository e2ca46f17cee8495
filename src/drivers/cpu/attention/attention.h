/* Attention on the cores (ir/attention.h): queries and keys are taken in blocks, so that scores are never in memory as a whole. */
#ifndef BTI_DRIVERS_CPU_ATTENTION_ATTENTION_H
#define BTI_DRIVERS_CPU_ATTENTION_ATTENTION_H

#include "base/error.h"
#include "ir/work.h"

/* Either operation, of any strides. How it is cut, and so the bits, depends on the shapes, the dtype, the CPU and the libraries that are installed, never on the number
 * of cores. RESOURCE_EXHAUSTED: no memory for scratch. */
bt_status bti_cpu_attention(const bti_work *work);

#endif

/* Convolutions on the cores: by oneDNN (onednn_conv.h), else as matrix products of columns (columns.h). */
#ifndef BTI_DRIVERS_CPU_CONV_CONV_H
#define BTI_DRIVERS_CPU_CONV_CONV_H

#include "base/error.h"
#include "ir/work.h"

/* An operation of ir/conv.h, of any dtype and strides. Which way is chosen and how it is cut, and so the bits, depends on the shapes, the dtype, the CPU and the
 * libraries that are installed, never on the number of cores. RESOURCE_EXHAUSTED: no memory for scratch. */
bt_status bti_cpu_conv(const bti_work *work);

#endif

/* Convolutions as matrix products, of any dtype. */
#ifndef BTI_DRIVERS_CPU_CONV_COLUMNS_H
#define BTI_DRIVERS_CPU_CONV_COLUMNS_H

#include "base/error.h"
#include "reference/conv.h"

/* Arrays are dense; the one that is made has elements. */
bt_status bti_conv_by_columns(const bti_conv *c);
/* Where bti_conv_is_product: the columns of an image are the image itself. */
bt_status bti_conv_by_product(const bti_conv *c);

#endif

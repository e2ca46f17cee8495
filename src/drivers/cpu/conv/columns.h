/* Convolutions as matrix products, of any dtype. */
#ifndef BTI_DRIVERS_CPU_CONV_COLUMNS_H
#define BTI_DRIVERS_CPU_CONV_COLUMNS_H

#include "base/error.h"
#include "reference/conv.h"

/* Arrays are dense; the one that is made has elements. */
bt_status bti_conv_by_columns(const bti_conv *c);
/* Whether the columns of an image are the image itself: the kernel has one element, which meets each place. y and x are then one product for each image and
 * group, by bti_conv_by_product. */
bool bti_conv_is_product(const bti_conv *c);
bt_status bti_conv_by_product(const bti_conv *c);

#endif

/* Elements that lie apart, brought together. */
#ifndef BTI_FILE_STRIDES_H
#define BTI_FILE_STRIDES_H

#include <berth/array.h>

/* Copies elements of `element` bytes to `to`, dense and row-major. stride: in elements, by axis, maybe negative or 0; `from` is the
 * element whose indices are 0. */
void bti_gather_strided(const void *from, void *to, bt_shape shape, const int64_t *stride, size_t element);
/* Whether elements with these strides lie dense and row-major. */
bool bti_is_dense(bt_shape shape, const int64_t *stride);

#endif

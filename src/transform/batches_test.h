/* What the tests of batches share. */
#ifndef BTI_TRANSFORM_BATCHES_TEST_H
#define BTI_TRANSFORM_BATCHES_TEST_H

#include <berth.h>

/* The shape of a stack of so many along an axis, and one of the stack. */
static inline bt_shape with_axis(bt_shape shape, int axis, int64_t size) {
    bt_shape wider = {.rank = shape.rank + 1};
    for (int i = 0; i <= shape.rank; i++)
        wider.size[i] = i < axis ? shape.size[i] : i == axis ? size : shape.size[i - 1];
    return wider;
}

static inline bt_array *element(bt_array *batch, int axis, int64_t index) {
    return bt_squeeze(bt_slice_axis(batch, axis, index, index + 1, 1), axis);
}

#endif

/* Blocks of mixed precision (berth/precision.h: BT_AUTOCAST): what the thread's innermost one says, and what an operation makes of it. */
#ifndef BTI_ARRAY_AUTOCAST_H
#define BTI_ARRAY_AUTOCAST_H

#include <berth/dtype.h>

/* What a row of names.def says. */
typedef enum bti_autocast_class {
    BTI_AUTOCAST_LOWER,
    BTI_AUTOCAST_FLOAT32,
    BTI_AUTOCAST_WIDEST,
    BTI_AUTOCAST_BODY
} bti_autocast_class;

/* Of a public operation; of one without a row BODY: it makes nothing of the block. */
bti_autocast_class bti_autocast_class_of(const char *public_name);

/* A thread's state: off, or the dtype of its innermost block, which may be one that no block can have. */
#define BTI_AUTOCAST_OFF 0
static inline int bti_autocast_of(bt_dtype dtype) {
    return dtype == BT_F32 ? BTI_AUTOCAST_OFF : (unsigned)dtype < BT_DTYPE_COUNT ? (int)dtype + 1 : BT_DTYPE_COUNT + 1;
}
static inline bt_dtype bti_autocast_dtype(int state) { return (bt_dtype)(state - 1); }

#endif

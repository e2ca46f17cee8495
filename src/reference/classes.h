/* The interpreter by classes of operations. */
#ifndef BTI_REFERENCE_CLASSES_H
#define BTI_REFERENCE_CLASSES_H

#include "base/error.h"
#include "ir/work.h"

/* elementwise.c */
bt_status bti_interpret_elementwise(const bti_work *work);
/* to[i] = op(to[i], from[i]) in the dtype, of an elementwise operation of two numbers. */
void bti_combine_line(bti_op op, bt_dtype dtype, char *to, int64_t to_step, const char *from, int64_t from_step,
                      int64_t count);
static inline void bti_add_line(bt_dtype dtype, char *to, int64_t to_step, const char *from, int64_t from_step,
                                int64_t count) {
    bti_combine_line(BTI_OP_add, dtype, to, to_step, from, from_step, count);
}

/* reduce.c */
void bti_interpret_reduce(const bti_work *work);
void bti_interpret_running(const bti_work *work);

/* gather.c */
void bti_interpret_gather(const bti_work *work);

/* conv.c */
void bti_interpret_conv(const bti_work *work);

/* attention.c */
bt_status bti_interpret_attention(const bti_work *work);

/* order.c */
bt_status bti_interpret_order(const bti_work *work);

#endif

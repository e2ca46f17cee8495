/* Cases of the conformance test: one list, run on every device. */
#ifndef BERTH_TESTS_SUPPORT_CONFORMANCE_H
#define BERTH_TESTS_SUPPORT_CONFORMANCE_H

#include "support/values.h"

/* A row of ops.def. */
typedef struct row {
    const char *name, *class, *rule;
    int arity;
    double low, high, tolerance;
} row;

/* Begins "exp/float32/flipped (2, 3)"; false when the device's list says that it is unsupported. */
bool case_begin(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends it: what came out, and what should have. */
void case_end(bt_array *got, const host *want, double tolerance);
/* The other device that copies go to and come from. */
const char *case_other_device(void);

typedef struct cases {
    const char *name; /* of the row */
    void (*run)(const row *of);
} cases;
/* Each ends with a NULL. */
extern const cases elementwise_cases[], structured_cases[], conv_cases[], attention_cases[], source_cases[],
    control_cases[];

/* Shapes at the edges: a scalar, nothing, eight axes... */
extern const bt_shape edge_shapes[];
extern const int edge_shape_count;
/* "(2, 3)"; one of four texts in turn. */
const char *shape_text(bt_shape shape);

#define COMPUTED_DTYPES BT_F8E4M3 /* dtypes below have arithmetic */

/* The dtypes that a row takes, by its rule. */
int dtypes_of(const row *of, bt_dtype dtypes[BT_DTYPE_COUNT]);

/* `EACH_LAYOUT(lies) ...`, `EACH_DTYPE(dtype, of) ...`: the statement once for each. */
#define EACH_LAYOUT(lies) for (int lies = 0; lies < LAYOUT_COUNT; lies++)
#define EACH_DTYPE(dtype, of)                                            \
    bt_dtype dtypes_[BT_DTYPE_COUNT];                                    \
    for (int d_ = 0, count_ = dtypes_of(of, dtypes_); d_ < count_; d_++) \
        for (bt_dtype dtype = dtypes_[d_], *once_ = &dtype; once_; once_ = NULL)

#endif

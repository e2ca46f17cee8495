/* What recording a body takes: the arrays that stand for what it is given, what it hands back, and the regions made of that. */
#ifndef BTI_OPS_BODY_H
#define BTI_OPS_BODY_H

#include <berth/control.h>

#include "array/handle.h"
#include "ops/region.h"

typedef struct bti_body {
    const char *called; /* in errors: "the body" */
    int input_count, output_count;
    bt_array **inputs, **outputs; /* of a scope of the recorder's */
    bti_node **given, **made;     /* their nodes, for bti_cutting; given are retained: a body may release what it got */
    uint64_t since;               /* the number of the newest node before it began */
    bool whole;                   /* as bti_cutting has it */
} bti_body;

/* Room for a body; NULLs inside. `called`: what errors call it; a literal. */
bt_status bti_body_begin(bti_body *body, const char *called, int input_count, int output_count);
void bti_body_end(bti_body *body);
/* Input i stands for such a value on the device; weak: for a weak scalar, which takes the dtype of what it meets. */
bt_status bti_body_input(bti_body *body, int i, const bti_type *type, int device, bool weak);
/* Of weak scalars that are carried: those that the body hands back in another dtype become arguments of that one. again: whether there are any; the
 * body is then to be recorded once more. */
bt_status bti_body_promote(const bti_body *body, bt_array *const *carry, bt_array **arguments, int count, bool *again);
/* Whether a weak scalar becomes one of the dtype: floats take all, integers integers. */
static inline bool bti_takes_weak(bt_dtype weak, bt_dtype dtype) {
    return bti_dtype_is_float(dtype) || (!bti_dtype_is_float(weak) && dtype != BT_BOOL);
}
/* Output i must be there; weak scalars become strong. `name`: what errors call it. */
bt_status bti_body_output(bti_body *body, int i, const char *name, int index);
/* Also of this type; the error says what it is compared with. */
bt_status bti_body_output_like(bti_body *body, int i, const bti_type *type, const char *name, int index,
                               const char *as);
/* Records an operation that runs the bodies, whose outputs are all there: its inputs are the arguments, then what the bodies read from outside. */
typedef struct bti_body_operation {
    bti_op op;
    bti_body *const *bodies;
    int body_count;
    bt_array *const *arguments;
    int argument_count;
    const bti_attr *attr;
    const bti_type *types; /* of the results */
    int result_count;
} bti_body_operation;
bt_status bti_body_record(const bti_body_operation *of, bt_array **results);

/* Of what a loop carries: what its body hands back as it got it. It is read by the body like an array from outside, and is its own result. */
typedef struct bti_unchanged {
    int carried, count; /* count: of those that are */
    bool *is;           /* by what is carried */
} bti_unchanged;
/* Finds it, and moves it behind all else that the loop gives to its bodies, of which the last one makes the next carry. At least `least` stay carried. */
bt_status bti_body_set_aside(bti_body *const *bodies, int body_count, bt_array **arguments, int device, int least,
                             bti_unchanged *unchanged);
/* results: those recorded, then room; after it all. */
bt_status bti_body_put_back(const bti_unchanged *unchanged, bt_array *const *arguments, int argument_count,
                            bt_array **results, int result_count);

/* Arguments of a recorder: there, not poisoned, strong. `what`: "carry". */
bt_status bti_body_arguments(bt_array *const *arrays, int count, const char *what, bt_array **made);
/* All are poisoned by the status, which the error record explains; returns it. */
bt_status bti_body_poison(bt_status status, bt_array **arrays, int count);

#endif

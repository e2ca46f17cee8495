/* One recorded operation; and arrays made from the host's data. */
#ifndef BTI_ARRAY_RECORD_H
#define BTI_ARRAY_RECORD_H

#include "array/handle.h"

/* Records one node of the innermost scope: poison passes through, the operation's shape rule (ir/op_rules.h) makes its shape or refuses
 * its inputs, its bytes must be countable, its device is chosen, and its place is the running public call's. rank and shape: what is asked
 * for where the shape is the caller's to choose; other rules do not read them. shape, attr: copied; attr is NULL if the operation has none. */
bt_array *bti_record_shaped(bti_op op, bt_dtype dtype, bool weak, int rank, const int64_t *shape,
                            bt_array *const *inputs, int count, const bti_attr *attr);
/* The same where the rule makes the shape. */
static inline bt_array *bti_record(bti_op op, bt_dtype dtype, bool weak, bt_array *const *inputs, int count,
                                   const bti_attr *attr) {
    return bti_record_shaped(op, dtype, weak, 0, NULL, inputs, count, attr);
}
/* The poison with the reason that a rule of ir/op_rules.h gave, which is freed; NULL when the operation fits. */
bt_array *bti_poison_why(bti_str *why);
static inline bt_array *bti_poison_unless(bool fits, bti_str *why) { return fits ? NULL : bti_poison_why(why); }
/* Records a tuple and its results: results[] become arrays of the innermost scope. On an error they are poisoned. Nothing is poisoned
 * among the inputs. types, attr: copied; regions: retained. What is in them runs where the tuple does. */
bt_status bti_record_tuple(bti_op op, bt_array *const *inputs, int count, const bti_attr *attr, const bti_type *types,
                           int result_count, bti_region *const *regions, int region_count, bt_array **results);
/* The same of an operation of the program's, whose function, which names it, it retains. */
bt_status bti_record_hosted(bti_op op, bti_host_function *host, bt_array *const *inputs, int count,
                            const bti_attr *attr, const bti_type *types, int result_count, bt_array **results);
/* The same of a collective: inputs[i], committed, has result i on its device. Its own is the first one's, whatever block it is recorded in. */
bt_status bti_record_collective(bti_op op, bt_array *const *inputs, int count, bt_array **results);
/* A new array on one of the results of a tuple. */
bt_array *bti_result_of(bti_node *tuple, int index);
/* The same, or an array on the node that stands for that result already: known[index], unless `known` or that is NULL. */
bt_array *bti_known_result(bti_node *tuple, bti_node *const *known, int index);
/* The results of a public operation that is logged where it was recorded: they outlive the call, which ends here. */
void bti_public_results(bti_public *guard, bt_array *const *results, int count);
/* Poison when dtype or shape cannot be an array's; NULL when they can. unknown_allowed: sizes may be -1. */
bt_array *bti_check_shape(bt_dtype dtype, bt_shape shape, bool unknown_allowed);

#endif

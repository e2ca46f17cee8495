/* Operations of the program's: what recorded calls hold of one (custom.c), how it is made (custom_new.c), its rules (custom_rules.c). */
#ifndef BTI_OPS_CUSTOM_H
#define BTI_OPS_CUSTOM_H

#include "base/owned.h"
#include "ir/node.h"

typedef struct bti_custom_operation {
    bti_host_function head;
    bt_custom_options given; /* results: 1 or more; its texts are copies */
} bti_custom_operation;

static inline bti_custom_operation *bti_custom_of(const bti_node *node) { return (bti_custom_operation *)node->host; }
static inline bt_custom_args bti_custom_args_of(const bti_custom_operation *of, const bti_attr *attr) {
    return (bt_custom_args){attr->custom.number, (int)attr->custom.count, of->given.data};
}

struct bt_custom {
    bti_owned head;
    bti_custom_operation *of;
};

/* The functions by which its nodes use it; its options are there. */
void bti_custom_fill(bti_custom_operation *of);
/* Records a call. None of the inputs is poisoned. results: as many as it has; poisoned on an error. */
bt_status bti_record_custom(bti_custom_operation *of, bt_array *const *inputs, int count, const bti_attr *attr,
                            bt_array **results);

#endif

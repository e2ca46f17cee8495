/* From wanted nodes to a plan. Pure: no device, no thread, no clock. */
#ifndef BTI_COMPILE_COMPILE_H
#define BTI_COMPILE_COMPILE_H

#include "ir/plan.h"
#include "ir/target.h"

/* The nodes that computing `wanted` needs and that are not done, in recorded order (inputs before users). The caller holds
 * the graph lock; nodes are borrowed. */
typedef BTI_VEC(bti_node *) bti_nodes;
bt_status bti_reach(bti_node *const *wanted, size_t count, bti_nodes *order);

/* The plan that computes them: values are numbered so that equal operations on one device are done once, views move nothing,
 * copies between devices are made once per value and destination and from the smallest form of it, storages end at their
 * last reader; elementwise work and the reductions around it become kernels; temporaries share an arena per device. Results: the nodes of `order` that are wanted,
 * and of those that the user holds the ones that are in memory anyway or were computed before (node->passed). The caller holds the graph lock. */
typedef enum bti_fusing {
    BTI_FUSED,     /* as many operations in a kernel as go */
    BTI_SINGLE,    /* a kernel for each */
    BTI_PRIMITIVES /* no kernels: every operation is run whole, by the interpreter */
} bti_fusing;
typedef struct bti_planning {
    bti_fusing fusing;
    bool share; /* temporaries share an arena per device; else each is a block of its own */
    const bti_target_facts *(*target)(int device); /* the facts of a device */
    bti_str *text;                                 /* the plan after each pass is added to it; NULL: not wanted */
    const char *(*device_name)(int device);        /* for `text` */
} bti_planning;
bt_status bti_compile(const bti_nodes *order, bti_node *const *wanted, size_t count, const bti_planning *how,
                      bti_plan *plan);

#endif

/* From wanted nodes to a plan. Pure: no device, no thread, no clock. */
#ifndef BTI_COMPILE_COMPILE_H
#define BTI_COMPILE_COMPILE_H

#include "ir/plan.h"
#include "ir/target.h"
#include "ir/walk.h"

typedef BTI_VEC(bti_node *) bti_nodes;

/* The nodes that computing `wanted` needs and that are not done, in recorded order (inputs before users); borrowed. They are claimed: until
 * bti_unclaim no other thread plans them, and they keep their inputs. Constants that nobody wanted are planned where they are read, by whom
 * they are claimed does not matter. */
typedef struct bti_order {
    bti_node **items;
    size_t count, capacity;
    uint64_t claim; /* by which its nodes are claimed; not 0, and nobody else's */
    bool sorted;
    size_t asked, next; /* so many of `wanted` and so many of the order were looked at */
    bti_numbers others; /* constants in it that somebody else has claimed */
} bti_order;
/* Claims what it reaches. *busy: NULL when all is claimed; else a node that somebody else has claimed: call it again with the same arguments
 * when that is over, or give up. Of a new order only `claim` is set. When memory is short what there is is still claimed. */
bt_status bti_reach(bti_node *const *wanted, size_t count, bti_order *order, bti_node **busy);
static inline bool bti_is_claimed(const bti_node *node, const bti_order *order) {
    return atomic_load_explicit(&node->claim, memory_order_relaxed) == order->claim;
}
/* Ends the claim, inputs before their users, and empties the order; its number stays. */
void bti_unclaim(bti_order *order);

/* The plan that computes them: values are numbered so that equal operations on one device are done once, views move nothing,
 * copies between devices are made once per value and destination and from the smallest form of it, storages end at their
 * last reader; elementwise work and the reductions around it become kernels; temporaries share an arena per device. Results: the nodes of `order` that are wanted,
 * and of those that the user holds the ones that are in memory anyway or were computed before (node->passed). */
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
bt_status bti_compile(const bti_order *order, bti_node *const *wanted, size_t count, const bti_planning *how,
                      bti_plan *plan);

/* The plan notes what a run may do with a given storage whose memory the caller gives up: nothing if a result lies in it. False when memory is
 * short. */
bool bti_plan_donate(bti_plan *plan, int32_t given);

#endif

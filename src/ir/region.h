/* What can be asked of regions (node.h), and what is made of them. */
#ifndef BTI_IR_REGION_H
#define BTI_IR_REGION_H

#include "ir/node.h"

/* Which input the node is; which node, counted behind the inputs; -1: none. */
int bti_region_input(const bti_region *region, const bti_node *node);
int bti_region_place(const bti_region *region, const bti_node *node);
/* A number in the order of recording that is smaller than those of all its nodes. */
uint64_t bti_region_since(const bti_region *region);
/* Whether it calls a callback, itself or in a region. */
bool bti_node_tells(const bti_node *node);
/* A leaf for one; NULL when memory is short. */
bti_node *bti_region_leaf(const bti_type *type, int device, bti_place place);

/* The node once more, on other inputs (as many), with numbers for unknown sizes (NULL: as they are), in its regions too. It is symbolic if an
 * input is, or a size of it is still unknown. INVALID_ARGUMENT
 * without a word: a size has no number, or the sizes do not fit. */
bt_status bti_node_again(const bti_node *node, bti_node *const *inputs, const bti_binding *binding, bti_node **made);
/* The same where a callback is not called: in what was computed before and is recorded, or computed, again. */
bt_status bti_node_again_untold(const bti_node *node, bti_node *const *inputs, const bti_binding *binding,
                                bti_node **made);
/* Whether it makes such results of its inputs; unknown sizes may turn out to fit. */
bool bti_node_fits(const bti_node *node);

#endif

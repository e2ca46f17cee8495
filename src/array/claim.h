/* Claims on nodes that are to be planned: one thread at a time plans and computes a node. docs/decisions/0033 says how threads whose graphs
 * overlap go on. */
#ifndef BTI_ARRAY_CLAIM_H
#define BTI_ARRAY_CLAIM_H

#include "compile/compile.h"

/* bti_reach; waits where other threads plan what it needs. *order is new; ended by bti_claim_end, also after a failure. A thread that has a claim
 * makes no second one and calls nothing that evaluates. */
bt_status bti_claim(bti_node *const *wanted, size_t count, bti_order *order);
void bti_claim_end(bti_order *order);
/* The same for one node, whatever it is made of. False: it is not PENDING. */
bool bti_claim_node(bti_node *node);
void bti_claim_end_node(bti_node *node);

#endif

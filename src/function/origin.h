/* Where results of prepared calls come from: such a call records nothing, but remembers what it was given, as its results'
 * history would. When the history is needed, the call is recorded: each result becomes a copy of its recorded node, and
 * the recorded nodes get the sequence numbers that they would have had. */
#ifndef BTI_FUNCTION_ORIGIN_H
#define BTI_FUNCTION_ORIGIN_H

#include <berth/function.h>

#include "array/handle.h"

/* For a call of a function, with room for what it is given: arguments, then variables' values (to be filled, retained). Yours
 * until drop; NULL when memory is short. */
bti_origin *bti_origin_new(bt_function *function);
void bti_origin_drop(bti_origin *origin);
/* Its numbers in the order of recording are taken now: what it was given has smaller ones. */
void bti_origin_number(bti_origin *origin);
/* The node is that output of the call; its history ends there if the call donates. */
void bti_origin_add(bti_origin *origin, int output, bti_node *result);

#define BTI_CUT_DONATED "bt_call with a donated argument" /* for errors about gradients */

/* Whether the node is a result whose call has not been recorded. */
static inline bool bti_origin_is_unrecorded(const bti_node *node) { return node->origin && !node->left_origin; }
/* Records all calls that the nodes were made by, as far back as `passes` lets through and not before `oldest` (a number in the
 * order of recording), in one pass. `passes` is also called for unrecorded nodes. */
bt_status bti_origins_record(bti_node *const *nodes, int count, uint64_t oldest, bool (*passes)(const bti_node *node));

#endif

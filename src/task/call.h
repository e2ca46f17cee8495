/* Calls and groups as a program or a worker asks for them: checked, and written as orders. Without the lock. */
#ifndef BTI_TASK_CALL_H
#define BTI_TASK_CALL_H

#include "task/order.h"

/* The order of a call. Its arguments are packed into `small` if they take at most `most` bytes (order->bytes); else the caller puts them into the store
 * (order->pack). */
bt_status bti_order_of(bti_state *state, const bti_engine_call *asked, bti_call_order *order, char *small,
                       uint64_t most);
/* What the bundles of a group take. */
bt_status bti_group_read(const bti_state *state, const bt_task_options *bundles, int count, bti_supply *supplies);

#endif

/* Shared variables: what they are to functions, layers and optimizers. */
#ifndef BTI_FUNCTION_SHARED_H
#define BTI_FUNCTION_SHARED_H

#include <berth/function.h>

#include "array/handle.h"

/* The variable that a value node reads, if it still lives (retained), else NULL. */
bt_shared *bti_shared_find(const void *shared, int64_t number);
uint64_t bti_shared_alive(void);
/* Between these two, this thread's sets of shared variables wait; the outermost end commits them as one step, or drops them. */
void bti_sets_begin(void);
bt_status bti_sets_end(bool commit);
/* Sets of this thread wait for bti_sets_end. */
bool bti_sets_wait(void);

int bti_shared_replicas(const bt_shared *shared);
int64_t bti_shared_bytes(const bt_shared *shared); /* of one replica */
/* A variable beside one replica of another. Otherwise as bt_shared_new_beside. */
bt_shared *bti_shared_new_at(const bt_shared *beside, int replica, bt_array *value);
/* The number of the replica on a device; -1: none. */
int bti_shared_replica_on(const bt_shared *shared, int device);
/* Takes a replica out of a variable that has others; those behind it move up. Values of it that are in use elsewhere stay. Not while another thread uses the variable. */
void bti_shared_drop_replica(bt_shared *shared, int replica);
/* The value of that replica, whichever is the thread's; of the only one of a variable that is not mirrored. An array of the innermost scope. */
bt_array *bti_shared_value_at(bt_shared *shared, int replica);
int bti_shared_device(const bt_shared *shared); /* of this thread's replica */
bool bti_shared_committed(const bt_shared *shared);
/* Whether both are on the same devices, replica by replica. */
bool bti_shared_together(const bt_shared *a, const bt_shared *b);
/* The value as the replica takes it: cast and on its device (retained; `value` itself when it fits); NULL when memory is
 * short. */
bti_node *bti_shared_fit(const bt_shared *shared, int replica, bti_node *value);
/* Whether transfers=error refuses to bring the value to the replica. A set of a variable with several replicas spreads it: then
 * the value must be where one of them is. */
bool bti_shared_refused(const bt_shared *shared, int replica, const bti_node *value);
/* Fails when it does for a replica that this thread sets. The error calls the value `name`, "the new value of" (role) it. */
bt_status bti_shared_check_place(const bt_shared *shared, const bt_array *value, const char *name, const char *role);
/* Why this array cannot be the gradient of the variable, which has its shape. */
bt_status bti_shared_check_gradient(const bt_shared *shared, const bt_array *gradient);
/* Why this value cannot be set (as a status in the error record); BT_OK when it can. */
bt_status bti_shared_check(const bt_shared *shared, const bt_array *value);

/* The failure of a step that was found to have failed when the variable was read or set; told once for all variables of the step. Does not wait. */
bt_status bti_shared_report(bt_shared *shared);
/* Waits for its last values, of all replicas. The failure of a step that set it, which is reported once. */
bt_status bti_shared_settle(bt_shared *shared);

#endif

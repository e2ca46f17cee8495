/* Shared variables inside. */
#ifndef BTI_FUNCTION_SHARED_H
#define BTI_FUNCTION_SHARED_H

#include <berth/function.h>

#include "array/handle.h"

/* The node of op `value` for a replica's value now (retained); NULL when memory is short. Under its own lock. */
bti_node *bti_shared_value(bt_shared *shared, int replica);
/* Those of several at one moment: a step that set some of them counts in all or in none. False when memory is short (what
 * there is of values[] is retained all the same, the rest NULL). */
bool bti_shared_values(bt_shared *const *shared, const int *replicas, size_t count, bti_node **values);
/* The variable that a value node reads, if it still lives (retained), else NULL. */
bt_shared *bti_shared_find(const void *shared, int64_t number);
uint64_t bti_shared_alive(void);
/* Sets replica replicas[i] of shared[i] to values[i] (which fits and is on its device): all or none, in one step. */
bt_status bti_shared_commit(bt_shared *const *shared, bti_node *const *values, const int *replicas, int count);
/* The same for results that are there, or will be without anybody's doing. new: NULL when memory is short; give: its value for
 * replica replicas[i] of shared[i], in the order of commit; commit takes it over. pace: what comes before the work of such a
 * step: tells of a set that was lost (then nothing may be set), starts what is unsettled, waits when far ahead. */
typedef struct bti_set_step bti_set_step;
bti_set_step *bti_set_step_new(int count, bti_gate *gate); /* which counts only with that gate; borrowed, may be NULL */
bool bti_set_step_give(bti_set_step *step, const bt_shared *shared, int replica, bti_buffer *buffer,
                       const bti_layout *layout);
void bti_set_step_drop(bti_set_step *step);
bt_status bti_set_step_commit(bti_set_step *step, bt_shared *const *shared, const int *replicas);
bt_status bti_shared_pace(bt_shared *shared, int replica);
/* Between these two, this thread's sets of shared variables wait; the outermost end commits them as one step, or drops them. */
void bti_sets_begin(void);
bt_status bti_sets_end(bool commit);
/* Sets of this thread wait for bti_sets_end. */
bool bti_sets_wait(void);

int bti_shared_replicas(const bt_shared *shared);
int bti_shared_device(const bt_shared *shared); /* of this thread's replica */
bool bti_shared_committed(const bt_shared *shared);
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

#endif

/* Where an operation goes, decided when it is recorded: blocks, committed inputs, the policy, the default; replicas. */
#ifndef BTI_ARRAY_PLACE_H
#define BTI_ARRAY_PLACE_H

#include "array/handle.h"

/* Overrides the device, the rule and the source line of operations that are recorded on this thread: a gradient runs on the device of its
 * forward operation and is reported under that operation's line. */
typedef struct bti_forced {
    bool on;
    int gradient_in; /* not 0: public operations nested in so many are a gradient's, and logged as such */
    bool of_block;   /* what is recorded is a gradient of an operation in a checkpoint block */
    int device;
    bool committed;
    bti_place place;
} bti_forced;
bti_forced bti_force(bti_forced forced); /* returns what was set before; give it back */
const bti_forced *bti_forced_now(void);

/* Operations that are recorded between these two run on the node's device and name its place in the source. of_gradient: those of public
 * operations are logged as a gradient's. */
typedef struct bti_recording_context {
    bti_forced forced;
    bti_place place;
} bti_recording_context;
bti_recording_context bti_enter_context_of(const bti_node *node, bool of_gradient);
void bti_leave_context(bti_recording_context before);

/* Why an array stands where it does, decided when its operation is recorded. */
typedef struct bti_placement {
    int device;
    bool committed;
    bti_rule rule;
} bti_placement;
/* For an operation on inputs (none: a source). On errors (unknown device, refused transfer) returns the poisoned array. */
bt_array *bti_choose_device(bt_array *const *inputs, int count, bti_placement *placement);
/* Notes on a new node where it goes and what asked for it: the line, the checkpoint block, whether copies made for it are logged. */
void bti_place_node(bti_node *node, bti_placement placement);
/* A block inside of which nothing can be recorded, for that cause (taken over); ended by bti_on_end. */
bti_on_guard bti_on_refused(bti_error *error);
/* Whether the array is on a device that loads graphs, whose compiler joins operations, and not launches. Not of a poisoned array. */
bool bti_is_in_graphs(const bt_array *x);
/* The transfer policy of this thread now. */
bt_transfers bti_transfers_now(void);
/* Whether that policy refuses a copy of the array to the device. The error of such a refusal: the array with its place, then
 * the format (what it is wanted for, and where), then the call that mends it, in which the array is called `name`. */
bool bti_transfer_refused(const bti_node *array, int device);
bti_error *bti_transfer_error(const bti_node *array, int device, const char *name, const char *format, ...)
    BT_PRINTF(4, 5);
/* Fails with it: `user` (a recorded operation) takes the array from another device. how: the end of the sentence. */
bt_status bti_refuse_input(const bti_node *array, const bti_node *user, const char *how);

/* The innermost checkpoint block (grad.h: BT_CHECKPOINT) that this thread records in, borrowed; NULL: none. */
bti_checkpoint *bti_checkpoint_now(void);
/* The thread records in this one from now on, which the caller holds; returns the one before. */
bti_checkpoint *bti_checkpoint_enter(bti_checkpoint *entered);

/* Replicas (dist): which replica of shared variables this thread reads and sets; and on which devices new ones live. */
int bti_replica(void); /* 0 outside of any */
bool bti_in_replica(void);
int bti_set_replica(int replica); /* -1: outside; returns the one before */
/* The devices that new shared variables of this thread get a replica on; count 0: no strategy. Copied; returns false when
 * there are more than BTI_MAX_REPLICAS. */
#define BTI_MAX_REPLICAS 64
bool bti_set_replica_devices(const int *devices, int count);
int bti_replica_devices(const int **devices); /* borrowed; returns the count */
/* Whether work on an array that is on the device may be done there: a block, or placement=tensorflow, may put it elsewhere. */
bool bti_may_work_on(int device);
/* Whether a BT_ON or BT_DEFAULT block of this thread is open. */
bool bti_in_device_block(void);

#endif

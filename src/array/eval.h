/* From handles to results: the one place that strings compile and exec together. */
#ifndef BTI_ARRAY_EVAL_H
#define BTI_ARRAY_EVAL_H

#include "array/handle.h"
#include "compile/compile.h"

/* Computes the nodes and the pending sets of this thread's shared variables; `behind`: queue threads begin at once. The
 * status is that of planning and memory; on BT_OK each node is DONE or FAILED. */
bt_status bti_eval_nodes(bti_node *const *nodes, int count, bool behind);
/* The same, then waits for it; its first cause otherwise. */
bt_status bti_block_node(bti_node *node);
/* Computes what the gate depends on, waits for it; its cause as a status when it failed. NULL: BT_OK. Under no lock. */
bt_status bti_gate_wait(bti_gate *gate);
/* What bti_eval_nodes computes: the nodes and the sets (borrowed), into an empty list. */
bt_status bti_eval_wanted(bti_node *const *nodes, int count, bti_nodes *wanted);
/* Its elements, row-major, to the host; `bytes` is the node's size. */
bt_status bti_read_node(bti_node *node, void *data);

/* The elements, row-major, where the host can read them without a copy, and a new array of the innermost scope that keeps them as they are:
 * without a history, and whatever becomes of x. NULL: nowhere, or they failed. Computes and waits. */
const void *bti_array_in_place(bt_array *x, bt_array **holder);

/* How plans are made now, by the flags. */
bti_fusing bti_fusing_now(void);
/* `passes`: the plan after each pass is added to it; NULL: not wanted. */
bti_planning bti_planning_with(bti_fusing fusing, bti_str *passes);

/* Notes a recorded node; evaluates what this thread holds when the flags' bounds are passed. */
void bti_eval_recorded(const bti_node *node);
/* Whether recording on this thread starts nothing, and evaluation does not wait for earlier work, whatever memory that keeps: for a caller that has an order of its own. Returns
 * what held before. */
bool bti_eval_hold(bool holds);
/* BERTH_SYNC: computes it now. */
void bti_eval_sync(bt_array *array);
/* With the flag check_nan: called after each evaluation with its results, which are DONE and know how they were made; what it evaluates is not
 * checked in turn. Its status is that of the evaluation. ops/check_nan.c sets it before main. */
typedef bt_status bti_result_check(bti_node *const *results, int count);
void bti_eval_set_check(bti_result_check *check);
/* Nodes that shared variables were set to and that the next evaluation of this thread computes. */
bool bti_eval_note_set(bti_node *node);

#endif

/* What evaluation writes to the log, and what operations are called there, by the flags log_device_placement, transfers and explain. */
#ifndef BTI_ARRAY_PLAN_LOG_H
#define BTI_ARRAY_PLAN_LOG_H

#include "array/autocast.h"
#include "compile/compile.h"

/* A public operation and what the log calls it. */
typedef struct bti_op_name {
    const char *public_name; /* "bt_matmul", as in the header; of a macro, the macro */
    const char *log_name;    /* "MatMul" */
    bti_autocast_class autocast;
} bti_op_name;

/* Row i of names.def, in alphabetical order; NULL past the last. */
const bti_op_name *bti_name_at(int i);

/* What the placement log calls a public operation; NULL when it is not in the table: constants, which have no line. */
const char *bti_log_name(const char *public_name);

/* One line per public operation, in recorded order. */
void bti_log_order(const bti_order *order);
/* Copies that are logged, of a run of the plan (nodes: as exec.h has it). */
void bti_log_copies(const bti_plan *plan, bti_node *const *nodes);
/* Its copies, and the plan itself; a plan that was there lately is only named. `passes`: the plan after each pass, for the flag explain=passes. */
void bti_log_plan(const bti_plan *plan, const bti_str *passes);
/* "GPU:0", as plans name devices. */
const char *bti_plan_device_name(int device);

#endif

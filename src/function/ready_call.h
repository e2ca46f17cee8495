/* A function's call made ready to run: the plan for arguments and variables of these shapes on these devices, and where what it
 * reads and gives comes from. */
#ifndef BTI_FUNCTION_READY_CALL_H
#define BTI_FUNCTION_READY_CALL_H

#include "function/body.h"
#include "array/eval.h"

/* Where an output, or a variable's new value, comes from. */
typedef struct bti_source {
    enum { BTI_FROM_PLAN, BTI_FROM_GIVEN, BTI_FROM_CONSTANT } from;
    int index;      /* of the plan's results; of what is given */
    bti_node *node; /* recorded for the plan: shape, device, place; retained */
} bti_source;

typedef struct bti_given_storage {
    int32_t storage;
    int given;
} bti_given_storage;

/* What makes plans differ beside what is given. */
typedef struct bti_plan_setting {
    bti_fusing fusing;
    int kernels; /* the flag */
    int replica; /* that this thread sets; -1: all */
    bt_transfers policy;
} bti_plan_setting;

struct bti_ready_call {
    atomic_uint refs;
    bti_ready_call *next; /* of the function */
    bti_plan_setting setting;
    int given_count;
    bti_node **given;       /* what stands for it: shapes, layouts, devices; retained */
    bti_prepared *prepared; /* NULL: such calls are recorded each time */
    bti_nodes order;        /* what the plan names; retained */
    BTI_VEC(bti_given_storage) storages;
    int output_count, set_count;
    bti_source *outputs;
    bti_source *sets;
    bt_shared **updated; /* by set: borrowed of the function */
    int *replicas;
};

bti_plan_setting bti_plan_setting_now(void);
/* The one for these nodes (all DONE), if the function has it; retained. */
bti_ready_call *bti_ready_call_find(bt_function *function, bti_node *const *given, bti_plan_setting setting);
/* The same, made when it is not there. NULL: such a call is best recorded (it fails, or memory is short). */
bti_ready_call *bti_ready_call_make(bt_function *function, bti_node *const *given, bti_plan_setting setting);
/* One with a plan that is not made ready to run: it lives no longer than what is returned. NULL: there is none, maybe with the
 * cause in the error record. */
bti_ready_call *bti_ready_call_plan(bt_function *function, bti_node *const *given, bti_plan_setting setting,
                                    bti_plan *plan);
void bti_ready_call_release(bti_ready_call *ready);

#endif

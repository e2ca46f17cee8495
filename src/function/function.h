/* What a function is: the graph that its calls record, and the plans of its last calls. */
#ifndef BTI_FUNCTION_FUNCTION_H
#define BTI_FUNCTION_FUNCTION_H

#include <berth/function.h>

#include "array/handle.h"
#include "array/place.h"
#include "array/plan_store.h"
#include "base/lock.h"
#include "base/vec.h"
#include "compile/compile.h"
#include "exec/exec.h"

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
    int default_device; /* of this thread; -1: that of the process */
} bti_plan_setting;

/* A call made ready to run: the plan for arguments and variables of these shapes on these devices, and where what it reads and gives
 * comes from. */
typedef struct bti_ready_call {
    bti_kept kept; /* first */
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
} bti_ready_call;

struct bt_function {
    bti_owned head;
    int input_count, output_count, update_count;
    bti_node **inputs, **outputs;  /* retained */
    bti_node **updates;            /* retained */
    bt_shared **updated;           /* retained; the variable of each update */
    bt_shared **updated_by_number; /* the same in the order of their numbers; borrowed */
    BTI_VEC(bti_node *)
    body; /* what each call records anew, inputs before users, in nodes that nobody computes; retained */
    BTI_VEC(bt_shared *) read; /* variables that the body reads; retained */
    BTI_VEC(int) replicas;     /* which of theirs */
    bool *donated;             /* by input: each call takes the argument away from its caller */
    int donated_count;
    BTI_VEC(int) places; /* by output: where in the body it is made; -1: not there */
    bti_lock lock;       /* protects the next four */
    bool called;         /* a call was made ready, or is being: what is donated is settled */
    bool making;         /* a thread makes a call ready: one at a time */
    pthread_cond_t made; /* it does no more */
    bti_shelf ready;     /* calls made ready */
};

/* An input with sizes that are known or symbolic. */
bt_array *bti_input_on(bti_placement placement, bt_dtype dtype, int rank, const int64_t *shape);
/* A new one without inputs and outputs: to be filled (define.c) and released. NULL when memory is short. */
bt_function *bti_function_new(int input_count, int output_count, int update_count);
extern const bti_handle_class bti_function_class;
int bti_function_outputs(const bt_function *function);
uint64_t bti_functions_alive(void);

/* The ready call for these nodes (all DONE), if the function has it; retained. */
bti_ready_call *bti_ready_call_find(bt_function *function, bti_node *const *given, bti_plan_setting setting);
bool bti_ready_call_fits(const bti_ready_call *ready, bti_node *const *given, bti_plan_setting setting);
/* The function keeps it as long as the store of plans has room. */
void bti_ready_call_keep(bt_function *function, bti_ready_call *ready);
void bti_ready_call_begin(bti_ready_call *ready); /* a new one, of zeros: held by the caller */
void bti_ready_call_release(bti_ready_call *ready);

#endif

/* A plan: the steps to run, their devices, order and memory. compile/ makes it from nodes, exec/ runs it, view/ shows it.
 * It is pure data: storages are numbers until exec binds memory to them. */
#ifndef BTI_IR_PLAN_H
#define BTI_IR_PLAN_H

#include <string.h>

#include "base/label.h"
#include "base/vec.h"
#include "ir/kernel.h"
#include "ir/node.h"

/* Why a value is in memory and not in the registers of a kernel that computes and uses it. */
typedef enum bti_why {
    BTI_WHY_NONE,   /* it is not */
    BTI_WHY_RESULT, /* the program holds it */
    BTI_WHY_WORK,   /* read by an operation that is run whole: matmul, take ... */
    BTI_WHY_DEVICE, /* read on another device */
    BTI_WHY_VIEW,   /* read in another order, or in part */
    BTI_WHY_SHAPE,  /* read by a kernel over another shape */
    BTI_WHY_AXES,   /* read by a kernel that folds other axes, or again after columns were folded */
    BTI_WHY_LONG,   /* its row is too long to be gone over again */
    BTI_WHY_ORDER,  /* its reader needs a third kernel in between */
    BTI_WHY_FULL,   /* its kernel has no room for the reader */
    BTI_WHY_AGAIN,  /* others are computed again from it later (BT_CHECKPOINT) */
    BTI_WHY_OFF     /* fusing is off */
} bti_why;

/* One block of memory. Several values may be in it: a view is in the storage of its input. */
typedef struct bti_storage {
    int device;
    int64_t bytes;
    const bti_node *node; /* whose result it was made for: names it in reports */
    int32_t value;        /* the first value in it: what it was made for, one result of a tuple or its scratch memory */
    const bti_node *reader;        /* of a copy from another device: who wanted it first; else NULL */
    bti_buffer *external;          /* memory that exists already (borrowed from its node); else NULL */
    bool given;                    /* memory that exists already; in the plan of a region, bound by each run */
    int32_t first_step, last_step; /* first written, last read; last_step == step count: kept. -1: never in memory */
    int64_t offset;                /* of a temporary: where in the device's arena, bytes; else -1 */
    uint8_t why;                   /* bti_why */
    bool own_block;                /* not in the arena: written by a copy from another device, or memory_pool is off */
    bool in_place;                 /* where its step reads a temporary, or what a loop carries, for the last time */
} bti_storage;

/* Where an operation's result lies. */
typedef struct bti_value {
    int32_t storage; /* -1: an index; layout gives its start and strides in numbers */
    bt_dtype dtype;
    int rank;
    int64_t shape[BTI_MAX_RANK];
    bti_layout layout;
} bti_value;
static inline bti_type bti_value_type(const bti_value *value) {
    bti_type type = {.dtype = value->dtype, .rank = value->rank};
    memcpy(type.shape, value->shape, sizeof type.shape);
    return type;
}
/* Bytes of its elements, as they are read or written: an axis of stride 0 counts once. */
int64_t bti_value_bytes(const bti_value *value);

typedef enum bti_step_kind {
    BTI_STEP_WORK,    /* one primitive, run whole */
    BTI_STEP_KERNEL,  /* a fused kernel */
    BTI_STEP_COPY,    /* bytes from a storage of one device to one of another */
    BTI_STEP_CONTROL, /* runs the plans of regions */
    BTI_STEP_PRODUCT, /* a matrix product, and the map that reads it: its epilogue */
    /* One operation of several devices at once, over one array or more: operand i lies on device number i % group, and output i is input i's. It begins
     * on each device when its inputs are there, and runs beside what follows it in the plan up to the first step of that device that reads one of its outputs. */
    BTI_STEP_COLLECTIVE,
    BTI_STEP_SEGMENT /* operations that a device which loads graphs runs as one program */
} bti_step_kind;

typedef struct bti_step {
    uint8_t kind;           /* bti_step_kind */
    uint8_t op;             /* of work: bti_op: the node's, or copy where a view is made dense */
    bool own_kernel;        /* of an operation of the program's: its kernel runs on the device */
    bool by_library;        /* a library of the device's computes it instead of the host: exec/ decides that */
    int device;             /* that runs it; of a copy: that sends; of a collective: the first */
    const bti_node *node;   /* the operation (of a kernel: the last one), or what is copied */
    const bti_node *reader; /* of a copy: the operation that it was made for */
    int32_t first_operand;  /* into plan->operands: value numbers: inputs, then outputs */
    int32_t input_count, output_count;
    bool
        packs; /* the device may keep its second input, which is given, in a layout of its own: what is given again need not be brought into it again */
    int32_t group; /* of a collective: how many devices take part */
    /* of a kernel, and of the epilogue of a product: */
    int32_t kernel; /* into plan->kernels */
    /* 1 + the axis that it runs in halves of (ir/halves.h), all its boxes; 0: it runs as it stands. The plan shows, and counts, what is meant: all
     * points. */
    uint8_t halved;
    /* It runs over so many boxes, which do not wait for each other: one launch. Operands are the inputs of all boxes, then the outputs of all;
     * numbers and scalars are those of each box behind those of the one before. */
    int32_t box_count;
    int32_t
        first_number; /* into plan->numbers: an extent per axis of the nest, then per operand a stride per axis (bytes; of
                             an index: numbers) */
    int32_t first_scalar;               /* into plan->scalars */
    int32_t first_member, member_count; /* into plan->members: the operations fused */
    /* of a control step: into plan->controls. Its last output is its scratch memory. */
    int32_t control;
    /* Of a product: which operand of the kernel it makes. This input is in no memory and lies dense, in rows; the last two axes of the kernel's nest
     * are the product's rows and columns, those before them its batch. The product's own two inputs stand behind those of the kernel. */
    int32_t made;
    int32_t first_inner, inner_count; /* of a segment: into plan->inner */
} bti_step;

typedef struct bti_plan_result {
    bti_node *node; /* borrowed; gets this value's storage and layout */
    int32_t value;
    int32_t of_tuple; /* which result of the tuple `node` it is; -1: of no tuple */
} bti_plan_result;

/* How a control step binds the plans of its regions. In a region's plan the first storages are its inputs, in order; its results are its outputs,
 * in order, each in a storage of its own, dense. */
typedef struct bti_control {
    struct bti_plan *plans; /* one per region */
    int plan_count;
    uint8_t op; /* bti_op: scan, while, cond */
    bool reverse;
    int carried, by_row;
    int64_t steps;         /* of a scan; of a while: the most, 0: any number */
    int64_t arena_bytes;   /* at the beginning of the scratch memory: temporaries of the plan that runs */
    int64_t test_offset;   /* in the scratch memory: the test of a while */
    int64_t *carry_offset; /* in the scratch memory, by what is carried: its second place; -1: it has none */
    int64_t *row_move;     /* by what is given by rows: bytes from one row to the next */
} bti_control;

/* A given storage whose memory the plan does not need after its last reader. A run whose caller gives the memory up may write the output there;
 * the plan is the same for a run whose caller does not. */
typedef struct bti_donation {
    int32_t given;
    int32_t output; /* a kept storage of as many bytes; -1: none, the memory serves later work */
} bti_donation;

typedef struct bti_plan {
    BTI_VEC(bti_storage) storages;
    BTI_VEC(bti_value) values;
    BTI_VEC(int32_t) operands;
    BTI_VEC(bti_step) steps;
    BTI_VEC(bti_step) inner; /* of segments: one operation each, in order; gone when the plan is ready to run */
    BTI_VEC(bti_plan_result) results;
    BTI_VEC(bti_kernel *) kernels; /* each once */
    BTI_VEC(int64_t) numbers;
    BTI_VEC(uint64_t) scalars;
    BTI_VEC(const bti_node *) members;
    BTI_VEC(bti_control) controls;
    BTI_VEC(int64_t) arenas; /* bytes of temporaries, by device; those past the end have none */
    BTI_VEC(bti_donation) donations;
} bti_plan;

/* Equal for plans that do the same, wherever their operations were asked for. */
uint64_t bti_plan_hash(const bti_plan *plan);

static inline const bti_value *bti_plan_operand(const bti_plan *plan, const bti_step *step, int operand) {
    return &plan->values.items[plan->operands.items[step->first_operand + operand]];
}
static inline const bti_value *bti_plan_output(const bti_plan *plan, const bti_step *step, int output) {
    return bti_plan_operand(plan, step, step->input_count + output);
}

/* The device of a collective's operand. */
static inline int bti_plan_device(const bti_plan *plan, const bti_step *step, int operand) {
    return plan->storages.items[bti_plan_operand(plan, step, operand)->storage].device;
}

/* How many numbers a box of a kernel has; where those of a box of a step begin. */
static inline int32_t bti_kernel_numbers(const bti_kernel *kernel) {
    return bti_kernel_axes(kernel) * (bti_kernel_operands(kernel) + 1);
}
static inline const int64_t *bti_plan_numbers(const bti_plan *plan, const bti_step *step, int box) {
    return plan->numbers.items + step->first_number + box * bti_kernel_numbers(plan->kernels.items[step->kernel]);
}
static inline bool bti_step_has_kernel(const bti_step *step) {
    return step->kind == BTI_STEP_KERNEL || step->kind == BTI_STEP_PRODUCT;
}
/* The node of a run that a node of the plan stands for. nodes: NULL of a plan without stand-ins (exec/exec.h). */
static inline bti_node *bti_run_node(bti_node *const *nodes, const bti_node *named) {
    return nodes ? nodes[named->claimed] : (bti_node *)(uintptr_t)named;
}
/* The place of its last operation in a run; the label is that of the last one that has a label. */
static inline bti_place bti_step_place(const bti_plan *plan, const bti_step *step, bti_node *const *nodes) {
    bti_place place = bti_run_node(nodes, step->node)->place;
    for (int m = bti_labels_used() ? step->member_count : 0; m-- > 0 && !place.label;)
        place.label = bti_run_node(nodes, plan->members.items[step->first_member + m])->place.label;
    return place;
}
/* How many of its inputs are the kernel's; those of a product come next. */
static inline int bti_step_kernel_inputs(const bti_step *step) {
    return step->input_count - (step->kind == BTI_STEP_PRODUCT ? 2 : 0);
}
/* The place among the step's operands of an operand of the kernel, of that box; and the box of one of the step's operands. */
static inline int bti_step_operand(const bti_step *step, int box, int operand) {
    int inputs = bti_step_kernel_inputs(step) / step->box_count, outputs = step->output_count / step->box_count;
    return operand < inputs ? box * inputs + operand : step->input_count + box * outputs + operand - inputs;
}

/* Whether it changes parts of its first input. */
static inline bool bti_step_is_update(const bti_step *step) {
    return step->kind == BTI_STEP_WORK && bti_op_updates((bti_op)step->op);
}

/* Whether the host calls a function for it: it is no work of the device. */
static inline bool bti_step_is_host(const bti_step *step) {
    return step->kind == BTI_STEP_WORK && bti_op_info((bti_op)step->op)->class == BTI_HOST && !step->own_kernel &&
           !step->by_library;
}

/* "add+sum" of a kernel or a segment, "matmul+add" of a product with its epilogue, else the operation. */
void bti_step_name(char *name, size_t size, const bti_plan *plan, const bti_step *step);

void bti_plan_free(bti_plan *plan);

/* Bytes that move between memory and cores in a run, without copies between devices; `least`: the least possible, when all given
 * values are read once and all kept ones are written once. */
typedef struct bti_traffic {
    int64_t read, written, least;
} bti_traffic;
bti_traffic bti_plan_traffic(const bti_plan *plan);
/* Adds what a step reads and writes, a run of it; not of control steps, copies between devices and collectives. */
void bti_step_traffic(const bti_plan *plan, const bti_step *step, bti_traffic *traffic);

/* Operations on numbers in a run: of an element-wise operation or a running sum one for each element (of casts and copies none), of a
 * reduction one for each element folded, of an order one for each element ordered, of a product two for each multiplication and addition, of added rows one for each element. */
double bti_plan_operations(const bti_plan *plan);
/* Kernels and primitives in a run; counted as operations are: all steps of a scan, one of a loop with a test, the dearer way of a branch. */
double bti_plan_launches(const bti_plan *plan);

/* The bytes that a run allocates for results and temporaries on each of the first `devices` devices.
 * block_bytes: the size of a block for so many bytes on a device; NULL: the same. */
void bti_plan_memory(const bti_plan *plan, size_t (*block_bytes)(int device, size_t bytes), int64_t *bytes,
                     int devices);
/* Whether the storage is reserved by itself for a run, and whether it stays after it. */
static inline bool bti_plan_keeps(const bti_plan *plan, const bti_storage *storage) {
    return !storage->given && storage->last_step == (int32_t)plan->steps.count;
}
static inline bool bti_plan_reserves(const bti_plan *plan, const bti_storage *storage) {
    return bti_plan_keeps(plan, storage) || (!storage->given && storage->own_block);
}

#endif

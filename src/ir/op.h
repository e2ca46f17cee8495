/* The table of operations, as an enum and as rows that can be asked. */
#ifndef BTI_IR_OP_H
#define BTI_IR_OP_H

#include <stdbool.h>

#include <berth/dtype.h>

/* How an operation walks its data; what a stage must know of it without knowing the operation. */
typedef enum bti_class {
    BTI_SOURCE,      /* no inputs: leaf, const, iota */
    BTI_ELEMENTWISE, /* output[i] from inputs[i]; all of one shape */
    BTI_REDUCE,      /* folds the axes of its mask away (kept as size 1) */
    BTI_SCAN,        /* running fold along an axis */
    BTI_MOVEMENT,    /* a view of its input: no data moves where strides can say it */
    BTI_GATHER,      /* moves data by rule or by index: pad, concat, take, scatter_add */
    BTI_HEAVY,       /* matrix products, convolutions and attention */
    BTI_ORDER,       /* sorts and selections: tuples of values and indices */
    BTI_CONTROL,     /* runs regions (ir/region.h); several results */
    BTI_COLLECTIVE,  /* runs on several devices at once: a tuple; result i lies where input i does */
    BTI_HOST,        /* the host calls a function of the program's (node->host) */
    BTI_EFFECT       /* devices and variables: copy, value, identity */
} bti_class;

/* Which dtypes go in, which comes out. Inputs have been promoted to one dtype before, unless the rule says otherwise. */
typedef enum bti_dtype_rule {
    BTI_ANY,     /* any dtype; the same comes out */
    BTI_NUMBER,  /* any but bool; the same */
    BTI_FLOAT,   /* floating; integers and bool become float32, 64-bit ones float64 */
    BTI_BITS,    /* integers and bool; the same */
    BTI_COMPARE, /* any; bool comes out */
    BTI_OWN      /* its recorder says */
} bti_dtype_rule;

/* Which member of bti_attr (ir/attr.h) an operation has. */
typedef enum bti_attr_kind {
    BTI_ATTR_none,
    BTI_ATTR_constant,
    BTI_ATTR_size,
    BTI_ATTR_word,
    BTI_ATTR_fold,
    BTI_ATTR_axis,
    BTI_ATTR_running,
    BTI_ATTR_top,
    BTI_ATTR_permute,
    BTI_ATTR_slice,
    BTI_ATTR_pad,
    BTI_ATTR_window,
    BTI_ATTR_attention,
    BTI_ATTR_scan,
    BTI_ATTR_loop,
    BTI_ATTR_result,
    BTI_ATTR_value,
    BTI_ATTR_custom
} bti_attr_kind;

typedef enum bti_op {
#define BTI_OP(name, ...) BTI_OP_##name,
#include "ir/ops.def"
#undef BTI_OP
    BTI_OP_COUNT
} bti_op;

typedef struct bti_op_row {
    const char *name; /* "add" */
    bti_class class;
    int arity; /* -1: one or more */
    bti_attr_kind attr;
    bti_dtype_rule dtype_rule;
    const char *gradient; /* its rule (ops/gradient.h): "sub", or "none" */
    const char *tangent;  /* its rule (ops/application.h): "linear", or "none" */
    const char *batch;    /* its rule (ops/application.h): "same", or "none" */
    double low, high;     /* the range that tests draw inputs from */
    double tolerance;     /* relative, float32, against a wider computation */
    const char *doc;
} bti_op_row;

extern const bti_op_row bti_op_rows[BTI_OP_COUNT];
static inline const bti_op_row *bti_op_info(bti_op op) { return &bti_op_rows[op]; }
/* Instructions of an operation for one element (ir/instructions.def): on a core, else on a card. */
int bti_op_instructions(bti_op op, bool on_core);
/* A scatter with an index for each element. */
static inline bool bti_op_scatters_along(bti_op op) {
    return op == BTI_OP_scatter_axis || op == BTI_OP_scatter_set || op == BTI_OP_scatter_max ||
           op == BTI_OP_scatter_min;
}
static inline bool bti_op_scatters(bti_op op) { return op == BTI_OP_scatter_add || bti_op_scatters_along(op); }
/* Its result is its first input but for parts, which may be written where that lies. */
static inline bool bti_op_updates(bti_op op) { return op == BTI_OP_update_slice || bti_op_scatters(op); }

#endif

/* The program of the block interpreter: a kernel as steps, made by blocks_make.c, run by blocks.c. */
#ifndef BTI_DRIVERS_CPU_BLOCK_PROGRAM_H
#define BTI_DRIVERS_CPU_BLOCK_PROGRAM_H

#include "drivers/cpu/vector/vector.h"
#include "ir/dtype.h"
#include "reference/operand.h"

#define BTI_BLOCK_LEAST 32       /* points of the smallest block: the number of lanes */
#define BTI_BLOCK_SCRATCH 131072 /* bytes: enough for the largest kernel in the smallest blocks */
#define BTI_BLOCK_CACHED 32768   /* bytes that the blocks of a kernel together should not exceed */

typedef enum bti_block_kind {
    BTI_BLOCK_LOAD,
    BTI_BLOCK_IOTA,
    BTI_BLOCK_TAKE,    /* rows by number: arg[0] */
    BTI_BLOCK_LOOP,    /* a loop from values to a value */
    BTI_BLOCK_WIDENED, /* the same, of values that are widened first */
    BTI_BLOCK_RECAST,  /* a cast that no loop does */
    BTI_BLOCK_COPY,    /* the same bits */
    BTI_BLOCK_PART,    /* of complex numbers; `number`: bytes before it */
    BTI_BLOCK_JOIN,    /* complex numbers of their parts */
    BTI_BLOCK_SPREAD,  /* a ROW value, repeated over its block */
    BTI_BLOCK_FOLD,    /* into the accumulators of a reduction */
    BTI_BLOCK_TOTAL,   /* the value of a reduction */
    BTI_BLOCK_STORE
} bti_block_kind;

typedef struct bti_block_step {
    bti_loop *loop;
    uint32_t slot;   /* offset of the value's block in scratch */
    uint16_t value;  /* instruction; of FOLD and STORE: the instruction whose value they read */
    uint16_t arg[4]; /* values */
    uint8_t kind;
    uint8_t operand; /* of LOAD, IOTA, TAKE, STORE; of a value that is stored: its output */
    bool each;       /* of TAKE: each point has a row number of its own */
    bool
        stored; /* in `operand`, and may be computed there directly; of LOAD: copied if an output is in place of an input */
    uint8_t number; /* argument of the loop */
    uint8_t dtype, from, size_log;
    uint8_t argument_count;
    uint16_t reduction; /* of FOLD and TOTAL */
} bti_block_step;

typedef struct bti_block_reduction {
    const bti_fold_loops *fold;  /* of the values */
    const bti_fold_loops *merge; /* of accumulators */
    uint32_t lanes, total;       /* slots */
    uint64_t start;
    uint8_t op, dtype;
    bti_plain accumulator;
    uint8_t size_log; /* of the accumulator */
    uint8_t stage;
} bti_block_reduction;

typedef struct bti_block_range {
    int begin, end; /* of steps */
} bti_block_range;

/* The steps of one sweep. */
typedef struct bti_block_sweep {
    bti_block_range rows;   /* before it: ROW values of its stage */
    bti_block_range points; /* for each block */
    bool folds;             /* something is folded */
} bti_block_sweep;

typedef struct bti_block_constant {
    uint32_t slot;
    uint16_t value, scalar;
    uint8_t dtype, size_log;
} bti_block_constant;

struct bti_blocks {
    bti_kernel kernel;
    const bti_vector_code *code;
    int block;  /* points */
    int sweeps; /* `sweep` has one more, for the ROW values after the last */
    int step_count, constant_count, reduction_count;
    bti_block_step *steps;
    bti_block_sweep *sweep;
    bti_block_constant *constants;
    bti_block_reduction *reductions;
    bti_block_range row_stores;
    double cost; /* ns for a point */
};

/* The state of a run. `at`: the addresses of the operands' elements at the first point of the current line. */
typedef struct bti_block_machine {
    const struct bti_blocks *blocks;
    const bti_box *box;
    int line; /* the axis */
    uint64_t at[BTI_KERNEL_OPERANDS];
    int64_t step[BTI_KERNEL_OPERANDS]; /* along the line */
    bool direct[BTI_KERNEL_OPERANDS];  /* outputs that blocks may be computed into directly */
    bool in_place;                     /* some output has the memory of an input */
    const void *value[BTI_KERNEL_INSTRS];
    char scratch[BTI_BLOCK_SCRATCH] __attribute__((aligned(64)));
} bti_block_machine;

static inline int bti_size_log(bt_dtype dtype) { return __builtin_ctz((unsigned)bt_dtype_size(dtype)); }

/* The type that loops process values of the dtype in. */
static inline bti_plain bti_plain_of(bt_dtype dtype) {
    switch (dtype) {
    case BT_BOOL: return BTI_PLAIN_BOOL;
    case BT_F16:
    case BT_BF16:
    case BT_F32: return BTI_PLAIN_F32;
    case BT_F64: return BTI_PLAIN_F64;
    case BT_I32: return BTI_PLAIN_I32;
    case BT_U32: return BTI_PLAIN_U32;
    default: return bti_dtype_is_signed(dtype) ? BTI_PLAIN_I64 : BTI_PLAIN_U64;
    }
}

/* Whether the dtype is such a type itself. */
static inline bool bti_plain_is(bt_dtype dtype) {
    int bits = bti_dtype_bits(dtype);
    return bits == 1 || bits >= 32;
}

#endif

/* A fused kernel: a small straight program that runs for every point of a nest of loops. Written by compile/, printed as
 * text by render/, run by the drivers. It contains no sizes: extents, addresses, strides and scalars are arguments of the launch.
 *
 * The nest. Axes from the outermost: `outer` kept ones, `reduced` ones, `inner` (0 or 1) kept one. Three forms:
 *     map      outer, -, inner = 1          each point is independent
 *     rows     outer, reduced > 0, inner = 0   the reduced axes span a row; the last of them is the line
 *     columns  outer, reduced > 0, inner = 1   for each point of the line (the inner axis) the reduced axes are folded
 * The last axis is the *line*: the axis that vectors run along.
 *
 * The program. Instructions are in order; their arguments are earlier instructions. Each computes one value of `dtype` as scalar.def and
 * ops.def say, rounded to the dtype at once, so that fusion changes no bit.
 *     leaf      arg[0]: number of the input operand that is loaded
 *     iota      arg[0]: number of the input operand whose "address" counts: address + sum of coordinate * stride (64 bits,
 *               wrapping), converted to the dtype as a signed 64-bit integer is
 *     const     arg[0]: number of the scalar; its 64 bits are an int64, uint64 or double by dtype, converted to the dtype
 *     take      attr: number of an input operand, which only instructions of this kind read. arg[0]: a row number (int32 or int64), arg[1], arg[2]:
 *               int64 constants: how many rows there are (at least 1), and the bytes from one to the next. Loads at address + sum of coordinate *
 *               stride + row * bytes. A negative row counts from the end; one that is out of range gives bti_missing(dtype)
 *     elementwise operations; a cast to the dtype that the argument has stores a ROW value at every point: it is always POINT
 *     sum prod max min    arg[0]: folded over the reduced axes, as below
 *
 * Levels and stages (nests with reduced axes only; in a map everything is POINT at stage 0). A ROW value is the same for all
 * points of a row (in columns: for all that differ along reduced axes only): loads, iotas and scalars that do not move along
 * reduced axes, reductions, elementwise operations of ROW values, and takes of ROW rows that do not move along them. All others are POINT. The stage of a value is the number of
 * sweeps over the row that must be complete before it is known: a reduction's is its argument's + 1, any other's the greatest
 * of its arguments' (0 for loads, iotas, scalars). A reduction is folded, and a POINT value stored, in sweep number
 * stage-of-what-is-folded-or-stored (sweeps count from 0); POINT values are computed again in each sweep that needs them.
 * Columns have one sweep: no POINT value of theirs has a stage above 0, no ROW value one above 1. ROW values of stage 0 may be
 * used by POINT ones. In rows with several sweeps no output is in memory that a later sweep still reads.
 *
 * Reductions. The order of folding is part of the meaning of a kernel, so that all implementations of a kind of device give the same bits. On
 * CPUs it is this; launch/entry.h has the chunks and lanes of GPUs, which begin and fold alike:
 *     - Accumulators: sum and prod of floats in float64, of integers in the dtype (wrapping); max and min in the dtype.
 *       Start: 0, 1, the least or greatest value of the dtype (-inf and inf; false and true).
 *     - fold(a, x): a + x, a * x, maximum(a, x), minimum(a, x) of scalar.def (x converted to float64 first for sum, prod).
 *     - rows: for each line of the row, in order; for each chunk of BTI_ROW_CHUNK points of the line (the last is shorter):
 *       BTI_LANES lanes start from the start value; point i of the chunk is folded into lane i % BTI_LANES, in order; then for w = LANES/2,
 *       LANES/4 ... 1: lane[k] = fold(lane[k], lane[k + w]) for k < w; lane[0] is the chunk's part.
 *     - columns: for each line of the reduced axes (along the last reduced axis), for each chunk of BTI_COLUMN_CHUNK points
 *       of it: an accumulator starts from the start value and folds the chunk's points in order; that is the chunk's part.
 *     - The total starts from the start value and folds the parts in order; then it is rounded to the dtype.
 * So several cores may compute a row, part by part. An empty reduction gives the start value. */
#ifndef BTI_IR_KERNEL_H
#define BTI_IR_KERNEL_H

#include "ir/op.h"
#include "ir/shape.h"

#define BTI_KERNEL_OPERANDS 64 /* inputs and outputs together */
#define BTI_KERNEL_INSTRS 192
#define BTI_LANES 32
#define BTI_ROW_CHUNK 16384
#define BTI_COLUMN_CHUNK 1024
#define BTI_LONG_ROW (1 << 18) /* points of a row; of more, it is not gone over again, and GPUs fold it in parts */

struct bti_box;

typedef enum bti_level { BTI_POINT, BTI_ROW } bti_level;

typedef struct bti_instr {
    uint8_t op;    /* bti_op */
    uint8_t dtype; /* bt_dtype of the value */
    uint8_t level; /* bti_level */
    uint8_t stage;
    uint8_t attr;    /* threefry: which word; take: the operand */
    uint8_t again;   /* 1: in halves (ir/halves.h), for the second of two points: a name does not tell it again */
    uint16_t arg[4]; /* unused ones 0 */
} bti_instr;

/* Inputs first, then outputs. */
typedef struct bti_kernel_operand {
    uint8_t dtype;  /* of an index operand: BT_I64 */
    uint8_t moves;  /* bit a: its stride along axis a may differ from 0; else it is 0 */
    uint8_t unit;   /* it moves along the line by one element */
    uint8_t index;  /* an index: read by iota, its address and strides are numbers, not memory */
    uint8_t taken;  /* read by take: its rows are chosen by numbers */
    uint8_t unused; /* 0 */
    uint16_t value; /* of an output: the instruction stored there. A POINT value moves along all axes, a ROW value along
                       the kept ones. Of an input: 0 */
} bti_kernel_operand;

typedef struct bti_kernel {
    uint8_t outer, reduced, inner; /* numbers of axes; at most BTI_MAX_RANK together */
    uint8_t unused;                /* 0 */
    uint16_t input_count, output_count, scalar_count, instr_count;
    bti_kernel_operand operands[BTI_KERNEL_OPERANDS]; /* unused ones all 0 */
    bti_instr instrs[BTI_KERNEL_INSTRS];              /* unused ones all 0 */
} bti_kernel;

static inline int bti_kernel_axes(const bti_kernel *kernel) { return kernel->outer + kernel->reduced + kernel->inner; }
/* The number of the line's axis. */
static inline int bti_kernel_line(const bti_kernel *kernel) { return bti_kernel_axes(kernel) - 1; }
/* Masks of axes: all, the reduced, the kept ones. */
static inline unsigned bti_kernel_all_axes(const bti_kernel *kernel) { return (1u << bti_kernel_axes(kernel)) - 1; }
static inline unsigned bti_kernel_reduced_axes(const bti_kernel *kernel) {
    return ((1u << kernel->reduced) - 1) << kernel->outer;
}
static inline unsigned bti_kernel_kept_axes(const bti_kernel *kernel) {
    return bti_kernel_all_axes(kernel) & ~bti_kernel_reduced_axes(kernel);
}
static inline int bti_kernel_operands(const bti_kernel *kernel) { return kernel->input_count + kernel->output_count; }
/* Whether an instruction is a reduction; how many of arg[] are instructions; the operand that it reads, or -1. */
bool bti_instr_reduces(const bti_instr *instr);
int bti_instr_arguments(const bti_instr *instr);
static inline int bti_instr_operand(const bti_instr *instr) {
    if (instr->op == BTI_OP_take) return instr->attr;
    return instr->op == BTI_OP_leaf || instr->op == BTI_OP_iota ? instr->arg[0] : -1;
}
/* By instruction, whether its value differs along the line of the nest: what does not is the same for a whole vector or block. */
void bti_kernel_along_line(const bti_kernel *kernel, bool along[BTI_KERNEL_INSTRS]);
/* The bytes of an operand that a nest of that extent reads or writes, once each; of one that rows are taken from, once for each number. */
int64_t bti_kernel_operand_bytes(const bti_kernel *kernel, int operand, const int64_t *extent);
/* Of an operand that is taken from: the bytes from one row to the next, and from the first row to the last; of any other 0. */
int64_t bti_kernel_row_bytes(const bti_kernel *kernel, const struct bti_box *box, int operand);
int64_t bti_kernel_rows_reach(const bti_kernel *kernel, const struct bti_box *box, int operand);
/* Points of a line that are folded into one part. */
static inline int64_t bti_kernel_chunk(const bti_kernel *kernel) {
    return kernel->inner ? BTI_COLUMN_CHUNK : BTI_ROW_CHUNK;
}
/* Number of sweeps over a row: 1 for maps and columns. */
int bti_kernel_sweeps(const bti_kernel *kernel);
/* Sets level and stage of every instruction from op, arg and the operands' `moves`. */
void bti_kernel_set_stages(bti_kernel *kernel);
/* Which values a sweep needs: those that it folds or stores, and what these are computed from, ROW values too. In columns sweep 1
 * stores the ROW values. `loaded`: by instruction, whether the sweep loads its value instead of computing it; NULL: none. */
void bti_kernel_needs(const bti_kernel *kernel, int sweep, const bool *loaded, bool needed[BTI_KERNEL_INSTRS]);
/* Of maps: whether an operand may be strided on the innermost axis and contiguous on another, as transposed ones are: it moves
 * along the last two axes, and is not known to be contiguous. */
bool bti_kernel_may_cross(const bti_kernel *kernel, int operand);
/* Of a box of a map: an output whose elements are as wide as those of an input and lie alike, so that the input may be in its place: the one that stores
 * the input unchanged, if there is one. Its number among the operands; -1: none. */
int bti_kernel_output_like(const bti_kernel *kernel, int input, const struct bti_box *box);
/* Of a box: the axis along which the first operand that is strided on the innermost axis is contiguous, forwards or backwards;
 * -1: none. */
int bti_kernel_crossing_axis(const bti_kernel *kernel, const struct bti_box *box);
/* The last of the first `axes` axes along which elements of `size` bytes are contiguous, forwards or backwards; -1: none. */
int bti_contiguous_axis(const int64_t *extent, const int64_t *stride, int axes, int64_t size);
/* NULL, or the fault of the kernel (a static text): for tests and debug builds. */
const char *bti_kernel_verify(const bti_kernel *kernel);
/* One line per operand and instruction; for explain, golden texts and messages. */
void bti_kernel_text(bti_str *text, const bti_kernel *kernel);
/* Its operations as one word, "mul+add+sum": elementwise ones and reductions in order, none twice in a row, without casts;
 * "..." where the name is too long. */
void bti_kernel_name(char *name, size_t size, const bti_kernel *kernel);
uint64_t bti_kernel_hash(const bti_kernel *kernel);
bool bti_kernel_equal(const bti_kernel *a, const bti_kernel *b);

/* The part of a nest to run: all of it, or a box with smaller extents and moved addresses. Extents are at
 * least 1. An address is the driver's (for cpu: a pointer) of the operand's element [0, 0, ...]; of an index operand the
 * number there. Strides count bytes (of an index operand: numbers), per axis of the nest; outputs do not overlap inputs,
 * unless an output is the same as an input element for element (in place). */
typedef struct bti_box {
    int64_t extent[BTI_MAX_RANK];
    const uint64_t *scalars;
    uint64_t address[BTI_KERNEL_OPERANDS];
    int64_t stride[BTI_KERNEL_OPERANDS][BTI_MAX_RANK];
} bti_box;
/* The points of its axes from `first` up to, not including, `end`. */
int64_t bti_box_points(const bti_box *box, int first, int end);
/* Into how many pieces of a length an extent is cut: the last may be shorter. */
static inline int64_t bti_pieces_of(int64_t extent, int64_t piece) { return (extent + piece - 1) / piece; }

#endif

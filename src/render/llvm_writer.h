/* What the files of the LLVM writer share, lowest first: llvm_text.c, then llvm_cast.c, llvm_value.c, llvm_memory.c,
 * llvm_nest.c, llvm_reduce.c, llvm_turned.c, llvm.c.
 *
 * A *temp* is a number n that names the value %tn of the function that is being written. All temps are written for the
 * current number of lanes: 1 (a scalar) or more (a vector); so the same code writes values that are computed once per
 * line and values that are computed for each point. */
#ifndef BTI_RENDER_LLVM_WRITER_H
#define BTI_RENDER_LLVM_WRITER_H

#include "ir/dtype.h"
#include "launch/functions.h"

/* --- types, instructions, loops and calls (llvm_text.c) ----------------------------------------------------------- */

typedef enum bti_llvm_type {
    BTI_LLVM_I1,
    BTI_LLVM_I8,
    BTI_LLVM_I16,
    BTI_LLVM_I32,
    BTI_LLVM_I64,
    BTI_LLVM_F32,
    BTI_LLVM_F64,
    BTI_LLVM_HALF,
    BTI_LLVM_PTR,
    BTI_LLVM_I128
} bti_llvm_type;

typedef int bti_temp;
#define BTI_NO_TEMP (-1)

/* The value of a kernel's instruction: as a scalar (0) and as a vector (1), in its dtype; and of the small floats, whose
 * own form is 16 bits, as a float32 too. */
typedef struct bti_llvm_value {
    bti_temp own[2], wide[2];
} bti_llvm_value;

typedef enum bti_llvm_mode { BTI_LLVM_RUN, BTI_LLVM_PART, BTI_LLVM_FINISH } bti_llvm_mode;

typedef struct bti_llvm {
    bti_str *text, declared; /* declared: of intrinsics */
    const bti_kernel *kernel;
    const bti_kernel *asked; /* the kernel; of turned rows (launch/turned.h): as it was, with the sweeps of rows */
    bti_target target;
    bool stream;       /* outputs are stored around the cache */
    bool narrow;       /* launch/narrow.h */
    int lanes;         /* that instructions are written for now */
    int vector;        /* lanes of the kernel's vectors */
    int temps;         /* names given so far in this function */
    int labels, block; /* labels given; the block being written */
    unsigned helpers;  /* those that the module needs: llvm_text.c, llvm_memory.c */

    /* of instructions: varies along the line; else the number of loops around the place where it is computed */
    bool along[BTI_KERNEL_INSTRS];
    uint8_t depth[BTI_KERNEL_INSTRS];
    bool splat[BTI_KERNEL_INSTRS];  /* needed as a vector although it does not vary */
    bool wanted[BTI_KERNEL_INSTRS]; /* in the sweep being written */
    int sweep;
    bti_llvm_mode mode;
    /* A value that later sweeps find in an output's memory, where `kept_sweep` left it, or none: bti_llvm_keep(). */
    int kept, kept_in, kept_sweep;

    /* Turned rows: a value that later sweeps find in a slot (number + 1; 0: none), where this sweep left it. llvm_turned.c */
    uint8_t slot[BTI_KERNEL_INSTRS], slot_sweep[BTI_KERNEL_INSTRS];
    bti_temp slot_point;

    /* of the function being written */
    bti_llvm_value value[BTI_KERNEL_INSTRS];
    bti_temp at[BTI_KERNEL_OPERANDS]; /* current position in the loops around: a pointer, or the number of an index */
    bti_temp stride[BTI_KERNEL_OPERANDS][BTI_MAX_RANK], extent[BTI_MAX_RANK];
    bti_temp index;         /* the first lane's coordinate along the line */
    bti_temp mask, rest;    /* of a vector that is not full: the mask of its lanes and their number; else none */
    bti_temp point, points; /* number of the kept point, and how many there are */
} bti_llvm;

const char *bti_llvm_name(bti_llvm_type type, int lanes); /* "<16 x float>" */
int bti_llvm_bits(bti_llvm_type type);
bti_llvm_type bti_llvm_own(bt_dtype dtype);  /* how a value is held: bool as i1, the small floats as i16 */
bti_llvm_type bti_llvm_wide(bt_dtype dtype); /* how it is computed with: the small floats as float */
static inline bti_llvm_type bti_llvm_stored(bt_dtype dtype) { /* in memory */
    return dtype == BT_BOOL ? BTI_LLVM_I8 : bti_llvm_own(dtype);
}
static inline bool bti_llvm_is_small(bt_dtype dtype) { return dtype == BT_F16 || dtype == BT_BF16; }
static inline bool bti_llvm_calls_function(const bti_instr *instr) {
    return bti_dtype_is_float((bt_dtype)instr->dtype) && bti_op_calls_function(instr->op);
}
static inline bool bti_llvm_is_float(bti_llvm_type type) { return type == BTI_LLVM_F32 || type == BTI_LLVM_F64; }

/* A line of text, indented; %t%d for temps. */
void bti_llvm_line(bti_llvm *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
bti_temp bti_llvm_new(bti_llvm *w);
bti_temp bti_llvm_int(bti_llvm *w, bti_llvm_type type, int64_t number);
bti_temp bti_llvm_real(bti_llvm *w, bti_llvm_type type, double number); /* one that the type has */
bti_temp bti_llvm_count(bti_llvm *w, bti_llvm_type type);               /* 0, 1, 2... by lane */
/* `operation` is an opcode such as "fadd", or a comparison such as "icmp ult". */
bti_temp bti_llvm_op(bti_llvm *w, const char *operation, bti_llvm_type type, bti_temp x, bti_temp y);
bti_temp bti_llvm_op_int(bti_llvm *w, const char *operation, bti_llvm_type type, bti_temp x, int64_t y);
bti_temp bti_llvm_op_real(bti_llvm *w, const char *operation, bti_llvm_type type, bti_temp x, double y);
bti_temp bti_llvm_select(bti_llvm *w, bti_llvm_type type, bti_temp condition, bti_temp x, bti_temp y);
bti_temp bti_llvm_convert(bti_llvm *w, const char *operation, bti_llvm_type from, bti_temp x, bti_llvm_type to);
bti_temp bti_llvm_resize(bti_llvm *w, bti_llvm_type from, bti_temp x, bti_llvm_type to, bool is_signed);
/* "sqrt", "copysign"... of 1 to 3 arguments of the type. */
bti_temp bti_llvm_intrinsic(bti_llvm *w, const char *name, bti_llvm_type type, int count, const bti_temp *x);
void bti_llvm_declare(bti_llvm *w, const char *declaration);
/* A scalar in all lanes of a vector. */
bti_temp bti_llvm_splat(bti_llvm *w, bti_llvm_type type, bti_temp x, int lanes);
/* Lanes [from, from + count) of a vector of `lanes`. */
bti_temp bti_llvm_slice(bti_llvm *w, bti_llvm_type type, bti_temp x, int lanes, int from, int count);
/* Lanes 0, 2, 4 ... (or 1, 3, 5 ... of `odd`) of a vector of twice the current lanes; and two of the current lanes as such a vector. */
bti_temp bti_llvm_every_other(bti_llvm *w, bti_llvm_type type, bti_temp x, bool odd);
bti_temp bti_llvm_interleaved(bti_llvm *w, bti_llvm_type type, bti_temp even, bti_temp odd);
bti_temp bti_llvm_load(bti_llvm *w, bti_llvm_type type, bti_temp pointer, int align);
void bti_llvm_store(bti_llvm *w, bti_llvm_type type, bti_temp value, bti_temp pointer, int align);
/* pointer + index * bytes of the type; pointer + offset bytes */
bti_temp bti_llvm_element(bti_llvm *w, bti_llvm_type type, bti_temp pointer, bti_temp index);
/* The element of the array in a parameter of the function: "extent", "stride"... */
bti_temp bti_llvm_parameter(bti_llvm *w, const char *array, bti_llvm_type type, int64_t index);

/* Values that a loop or branch changes; replaced in place by the temps that hold them inside and after it. */
typedef struct bti_llvm_carry {
    int count, lanes;
    bti_temp value[BTI_KERNEL_INSTRS];
    uint8_t type[BTI_KERNEL_INSTRS];
} bti_llvm_carry;

typedef struct bti_llvm_loop {
    int head, latch;
    bti_temp index, next, bound, carried;
    int64_t step;
    bti_llvm_carry *carry; /* may be NULL */
} bti_llvm_loop;
/* for (index = from; index < bound; index += step), of at least one round */
void bti_llvm_loop_begin(bti_llvm *w, bti_llvm_loop *loop, bti_temp from, bti_temp bound, int64_t step,
                         bti_llvm_carry *carry);
void bti_llvm_loop_end(bti_llvm *w, bti_llvm_loop *loop);

typedef struct bti_llvm_if {
    int before, join;
    bti_llvm_carry *carry, saved; /* carry may be NULL */
} bti_llvm_if;
void bti_llvm_if_begin(bti_llvm *w, bti_llvm_if *branch, bti_temp condition, bti_llvm_carry *carry);
void bti_llvm_if_end(bti_llvm *w, bti_llvm_if *branch);

/* A vector function of the table on all current lanes, in pieces of the target's width. `number` is the float32 entry. */
bti_temp bti_llvm_call_vector(bti_llvm *w, int number, bti_llvm_type type, int count, const bti_temp *x);
/* A scalar function of the table, lane by lane. */
bti_temp bti_llvm_call_scalar(bti_llvm *w, int number, bti_llvm_type type, int count, const bti_temp *x);
void bti_llvm_call_helpers(bti_llvm *w);

/* --- elementwise values (llvm_value.c, llvm_cast.c) --------------------------------------------------------------- */

/* Writes an elementwise instruction for the current lanes; its value in own and wide form is set. */
void bti_llvm_elementwise(bti_llvm *w, int instr);
/* The value of an instruction for the current lanes: in its dtype, and in the type that computes with it. */
bti_temp bti_llvm_held(const bti_llvm *w, int instr);
bti_temp bti_llvm_operand(const bti_llvm *w, int instr);
/* Sets the value of an instruction, splat too where wanted: from its held form; and from one of the wide type. */
void bti_llvm_set(bti_llvm *w, int instr, bti_temp held);
void bti_llvm_set_wide(bti_llvm *w, int instr, bti_temp wide);

bti_temp bti_llvm_f32_of(bti_llvm *w, bt_dtype small, bti_temp bits);
bti_temp bti_llvm_small_of(bti_llvm *w, bt_dtype small, bti_llvm_type from,
                           bti_temp x); /* from F32 or F64; one rounding */
/* A value of the wide type `from` of a dtype in the held form of another, as `cast` does it. */
bti_temp bti_llvm_cast(bti_llvm *w, bt_dtype from, bti_temp x, bt_dtype to);
/* A float64 rounded to a float dtype, in its held form. */
bti_temp bti_llvm_rounded(bti_llvm *w, bti_temp x, bt_dtype to);

/* --- memory (llvm_memory.c) --------------------------------------------------------------------------------------- */

/* Loads or counts: a leaf, iota or take instruction, for the current lanes. */
void bti_llvm_leaf(bti_llvm *w, int instr);
void bti_llvm_iota(bti_llvm *w, int instr);
void bti_llvm_take(bti_llvm *w, int instr);
void bti_llvm_output(bti_llvm *w, int operand, int instr); /* stores the value of an instruction */
void bti_llvm_read_back(bti_llvm *w, int operand, int instr);
/* Vectors of contiguous elements, through the mask where there is one. */
bti_temp bti_llvm_load_row(bti_llvm *w, bti_llvm_type type, bti_temp pointer);
void bti_llvm_store_row(bti_llvm *w, bti_llvm_type type, bti_temp value, bti_temp pointer, bool stream);
void bti_llvm_memory_helpers(bti_llvm *w);

/* --- sweeps, loops and the line (llvm_nest.c) ----------------------------------------------------------------------- */

/* Chooses where every instruction is computed: for each point of the line, or inside so many loops. */
void bti_llvm_place(bti_llvm *w);
/* Which instructions along the line a sweep needs; for the ends of columns (sweep 1) those that its outputs need. */
void bti_llvm_mark(bti_llvm *w, int sweep);
/* Chooses the value that is kept between sweeps; calls bti_llvm_mark. */
void bti_llvm_keep(bti_llvm *w);
/* Values that do not vary along the line: those computed inside `depth` loops. */
void bti_llvm_values_at(bti_llvm *w, int depth);
void bti_llvm_row_values(bti_llvm *w, int stage); /* ROW values of a stage above 0 that do not vary along the line */
bti_temp bti_llvm_least(bti_llvm *w, bti_temp x, bti_temp y);
/* One loop of the nest: operands move along, values of that depth are computed. */
typedef struct bti_llvm_axis {
    bti_llvm_loop loop;
    bti_temp at[BTI_KERNEL_OPERANDS], point;
} bti_llvm_axis;
void bti_llvm_axis_begin(bti_llvm *w, bti_llvm_axis *axis, int number, bti_llvm_carry *carry);
void bti_llvm_axis_from(bti_llvm *w, bti_llvm_axis *axis, int number, bti_temp from, bti_temp to,
                        bti_llvm_carry *carry); /* a part of it */
void bti_llvm_axis_end(bti_llvm *w, bti_llvm_axis *axis);

/* Writes `body` for the vectors of [from, to) along the line; the last, if not full, under a mask. */
typedef void bti_llvm_body(bti_llvm *w, void *context);
void bti_llvm_along(bti_llvm *w, bti_temp from, bti_temp to, bti_llvm_carry *carry, bti_llvm_body *body, void *context);
/* What every body starts and ends with: the wanted values, and the outputs that the sweep stores. */
void bti_llvm_values(bti_llvm *w);
void bti_llvm_value_of(bti_llvm *w, int instr); /* one instruction, for the current lanes */
void bti_llvm_outputs(bti_llvm *w, bti_level level);

/* --- rows and columns (llvm_reduce.c) ----------------------------------------------------------------------------- */

void bti_llvm_rows(bti_llvm *w);
void bti_llvm_columns(bti_llvm *w);
void bti_llvm_columns_memory(bti_llvm *w); /* the accumulators of columns: at the function's start */
/* One reduction. */
bti_llvm_type bti_llvm_accumulator(const bti_instr *reduction);
bti_llvm_type bti_llvm_accumulator_stored(const bti_instr *reduction); /* in memory */
bti_temp bti_llvm_start(bti_llvm *w, const bti_instr *reduction);
bti_temp bti_llvm_fold(bti_llvm *w, const bti_instr *reduction, bti_temp total, bti_temp x);
bti_temp bti_llvm_folded(bti_llvm *w, const bti_instr *reduction); /* its argument, as the accumulator's type */
void bti_llvm_set_total(bti_llvm *w, int instr, bti_temp total);

/* --- turned rows (llvm_turned.c) ------------------------------------------------------------------------------------ */

static inline bool bti_llvm_is_turned(const bti_llvm *w) { return w->kernel != w->asked && w->kernel->reduced; }
void bti_llvm_turned(bti_llvm *w);
void bti_llvm_turned_memory(bti_llvm *w);
static inline bool bti_llvm_in_slot(const bti_llvm *w, int instr, int sweep) {
    return w->slot[instr] && sweep > w->slot_sweep[instr];
}

#endif

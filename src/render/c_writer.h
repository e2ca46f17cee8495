/* What the files of the writer of C share, lowest first: c_value.c, c_place.c, c_row.c, c_rows.c, then c_map.c, c_reduce.c and c_product.c, then c.c.
 *
 * Names in the text: v<instruction> its value, x<instruction> what was loaded for it, p<instruction> and t<instruction> a
 * reduction's part and total, a<operand> the address of a row or point, l<operand> the address of a line. */
#ifndef BTI_RENDER_C_WRITER_H
#define BTI_RENDER_C_WRITER_H

#include "launch/entry.h"

typedef enum bti_c_words { BTI_C_UNNAMED, BTI_C_BY_VALUE, BTI_C_IN_MEMORY, BTI_C_OF_BOX } bti_c_words;

typedef struct bti_c {
    bti_str *text;
    const bti_kernel *kernel;
    bti_target target;
    bti_entry only; /* that is to be written; BTI_ENTRY_END: all */
    bti_entry entry;
    bti_word_places places;
    bti_c_words words; /* what W(number) means in the text so far */
    int first_memory;  /* the number of the first operand's; 0 but of an epilogue */
    int depth;         /* of indentation */
    int sweep;         /* the one that is written; what it needs */
    bool needed[BTI_KERNEL_INSTRS];
    /* A costly value that `held_sweep` leaves in local memory in the place of a load that no later sweep needs: bti_c_hold. */
    int held, held_load, held_sweep;
} bti_c;

/* --- lines and values (c_value.c) --- */
void bti_c_line(bti_c *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bti_c_open(bti_c *w, const char *format, ...) __attribute__((format(printf, 2, 3))); /* with a brace; indents */
void bti_c_close(bti_c *w);
static inline bool bti_c_is_small(bt_dtype dtype) { return dtype == BT_F16 || dtype == BT_BF16; }
const char *bti_c_small_name(bt_dtype dtype);  /* of such a dtype: "f16", "bf16" */
const char *bti_c_stored_type(bt_dtype dtype); /* in memory */
const char *bti_c_accumulator(const bti_c *w, const bti_instr *reduction);
/* The functions that the kernel's values call. */
void bti_c_functions(bti_c *w);
/* "const f32 v3 = ...;" of an elementwise instruction; of a const from its word. */
void bti_c_value(bti_c *w, int instr);
void bti_c_constant(bti_c *w, int instr);
/* The value of a leaf whose stored form is the expression; of an index. */
void bti_c_loaded(bti_c *w, int instr, const char *stored);
void bti_c_counted(bti_c *w, int instr, const char *number);
/* The stored form of a value, as an expression. */
void bti_c_stored(const bti_c *w, int instr, char *expression, size_t size);
/* Start of an accumulator; "to = fold(to, x)" where x is an accumulator, or a value of the argument. */
const char *bti_c_start(const bti_c *w, int reduction);
void bti_c_fold(bti_c *w, int reduction, const char *to, const char *x);
void bti_c_total(bti_c *w, int reduction); /* v = t, rounded */

/* --- entries and addresses (c_place.c) --- */
static inline bt_dtype bti_c_dtype(const bti_c *w, int instr) { return (bt_dtype)w->kernel->instrs[instr].dtype; }
/* begin_entry: "KERNEL(256) bti_run(MEMORY(0) ... const words) {" and the lines that all entries begin with; begin_units: the loop
 * over units; end_entry: the ends of both. */
bool bti_c_has_local(const bti_c *w); /* the entry has local memory */
void bti_c_begin_entry(bti_c *w, bti_entry entry);
bool bti_c_wants(const bti_c *w, bti_entry entry);   /* in this text */
void bti_c_begin_units(bti_c *w, const char *count); /* "unit", and "rest", a variable, the same; "lane" of 32 */
void bti_c_end_entry(bti_c *w);
/* Product of the extents of a mask of axes. */
void bti_c_product(unsigned axes, char *text, size_t size);
/* Declares `prefix`<operand>, by adding coordinates times strides along the axes of the mask to `base`<operand> (or to the
 * operand's address when base is NULL); coordinates are called c<axis>. */
void bti_c_places(bti_c *w, const char *prefix, const char *base, unsigned axes);
/* c<axis> of the axes from the number `rest`, the last axis fastest. */
void bti_c_coordinates(bti_c *w, unsigned axes);
/* The element of an operand at `prefix`<operand> and `index` along the axis (-1: none), as an lvalue. */
void bti_c_element(const bti_c *w, const char *prefix, int operand, int axis, const char *index, char *text,
                   size_t size);
void bti_c_index(const bti_c *w, const char *prefix, int operand, int axis, const char *index, char *text, size_t size);
/* Of a take: declares "row<instr>", its row, from an expression of the row's number; the stored form of the element in that row, bti_missing if there is none. */
void bti_c_row(bti_c *w, int instr, const char *number);
void bti_c_row_element(const bti_c *w, int instr, const char *prefix, int axis, const char *index, char *text,
                       size_t size);
const char *bti_c_missing(bt_dtype dtype); /* in stored form */
/* The value of an instruction, loaded and counted there; nothing of constants and reductions. The output's value, stored. */
void bti_c_instr(bti_c *w, int instr, const char *prefix, int axis, const char *index);
void bti_c_output(bti_c *w, int operand, const char *prefix, int axis, const char *index);
/* The type of what a thread loads at once in the wide entries. */
const char *bti_c_wide_type(const bti_c *w, int operand);

/* --- rows and columns (c_row.c) --- */
static inline bool bti_c_is_point(const bti_c *w, int instr) { return w->kernel->instrs[instr].level == BTI_POINT; }
int bti_c_last_reduced(const bti_c *w);                     /* the axis that lines run along */
unsigned bti_c_line_axes(const bti_kernel *kernel);         /* the other reduced axes */
bool bti_c_is_folded(const bti_c *w, int instr, int sweep); /* a reduction of the sweep */
#define FOR_EACH_FOLDED(i, sweep)                    \
    for (int i = 0; i < w->kernel->instr_count; i++) \
        if (bti_c_is_folded(w, i, sweep))
bool bti_c_is_loaded(const bti_c *w,
                     int instr); /* a load at each point that is needed and can be early, or the value that is held */
/* Of a take that is loaded early: an expression of its row's number, at element "[k]" of what was loaded. */
void bti_c_early_number(const bti_c *w, int take, char *text, size_t size);
bool bti_c_is_kept(const bti_c *w, int instr); /* in local memory: of kept<bti_c_load_of> */
int bti_c_load_of(const bti_c *w, int instr);  /* the load itself, or the one whose place the held value takes */
/* Chooses what is held in the entry; what a sweep needs. */
void bti_c_hold(bti_c *w);
void bti_c_begin_sweep(bti_c *w, int sweep);
static inline bool bti_c_holds_now(const bti_c *w) { return w->held >= 0 && w->sweep == w->held_sweep; }
int bti_c_cost(const bti_instr *instr); /* a rough number of machine instructions for a value, in tens */
/* The value of an instruction at point "i" of the line; loaded: where the element of a load is; NULL: not loaded before. */
void bti_c_point_value(bti_c *w, int instr, const char *loaded);
/* The values that are known at each point of a row after `stage` sweeps; the outputs of a row. */
void bti_c_row_values(bti_c *w, int stage);
void bti_c_row_outputs(bti_c *w);
/* Declares "kept<instr>"; fetches a row into them; the addresses of line "number", and "before", its first point among those kept. */
void bti_c_place_kept(bti_c *w);
void bti_c_fetch_kept(bti_c *w);
void bti_c_line_begin(bti_c *w);

/* --- the wide entries of rows (c_rows.c) --- */
/* Declares the accumulators of totals ('t') or of a part ('p'); the points of the thread between "begin" and "end"; the lanes of a part,
 * folded into the totals or into p<reduction>; those of the totals, folded into t<reduction>. */
void bti_c_rows_declare(bti_c *w, int sweep, char prefix);
void bti_c_rows_chunk(bti_c *w, int sweep);
void bti_c_rows_fold_part(bti_c *w, int sweep);
void bti_c_rows_fold_totals(bti_c *w, int sweep);

/* --- all entries of a kernel (c_map.c, c_reduce.c) --- */
void bti_c_map(bti_c *w);
void bti_c_map_of_boxes(bti_c *w); /* the entries for several boxes */
void bti_c_reduction(bti_c *w);

/* --- products (c_product.c) --- */
/* After what define_accumulator() of c.c defines: the function, which stores the product, or which applies the kernel, whose operand `made` is the product. */
void bti_c_plain_product(bti_str *text);
void bti_c_conv(bti_str *text); /* after what says which array is made */
void bti_c_epilogue(bti_c *w, int made);

#endif

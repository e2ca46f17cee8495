/* Rows, by 32 lanes each, and columns, by one thread each: the order of folding of launch/entry.h. What sweeps consist of. */
#include <stdio.h>

#include "ir/dtype.h"
#include "render/c_reduce_parts.h"

int bti_c_last_reduced(const bti_c *w) { return w->kernel->outer + w->kernel->reduced - 1; }

unsigned bti_c_kept_axes(const bti_kernel *kernel) {
    unsigned all = (1u << bti_kernel_axes(kernel)) - 1, reduced = ((1u << kernel->reduced) - 1) << kernel->outer;
    return all & ~reduced;
}

unsigned bti_c_line_axes(const bti_kernel *kernel) { return ((1u << (kernel->reduced - 1)) - 1) << kernel->outer; }

bool bti_c_folds(const bti_c *w, int instr, int sweep) {
    return bti_c_reduces(&w->kernel->instrs[instr]) && w->kernel->instrs[instr].stage == sweep + 1;
}

static void name(char *text, char prefix, int number) { snprintf(text, 16, "%c%d", prefix, number); }

/* --- lanes ---------------------------------------------------------------------------------------------------------- */

void bti_c_halve(bti_c *w, int reduction, char prefix) {
    const char *type = bti_c_accumulator(w, &w->kernel->instrs[reduction]);
    char to[16];
    name(to, prefix, reduction);
    bti_c_line(w, "UNROLL");
    bti_c_open(w, "for (i32 by = 16; by; by /= 2)");
    bti_c_line(w, "FROM_FURTHER(%s, other, %s, by);", type, to);
    bti_c_fold(w, reduction, to, "other");
    bti_c_close(w);
}

void bti_c_from_first(bti_c *w, int reduction, char prefix) {
    bti_c_line(w, "FROM_FIRST(%s, %c%d);", bti_c_accumulator(w, &w->kernel->instrs[reduction]), prefix, reduction);
}

void bti_c_begin(bti_c *w, int sweep, char prefix) {
    EACH_FOLDED(i, sweep)
    bti_c_line(w, "%s %c%d = %s;", bti_c_accumulator(w, &w->kernel->instrs[i]), prefix, i, bti_c_start(w, i));
}

/* --- points of a chunk ---------------------------------------------------------------------------------------------- */

static bool is_point(const bti_c *w, int instr) { return w->kernel->instrs[instr].level == BTI_POINT; }

static bool is_loaded(const bti_c *w, int instr) {
    return w->kernel->instrs[instr].op == BTI_OP_leaf && is_point(w, instr) && w->needed[instr];
}

static bool is_kept(const bti_c *w, int instr) {
    return w->entry == BTI_ENTRY_KEPT && bti_entry_keeps(w->kernel, instr);
}

static const char *loaded_type(const bti_c *w, int instr) {
    return bti_c_stored_type((bt_dtype)w->kernel->instrs[instr].dtype);
}

static bool loads_any(const bti_c *w) {
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (is_loaded(w, i)) return true;
    return false;
}

/* About how many instructions of a machine a value takes, in tens. */
static int weight(const bti_instr *instr) {
    bool wide = bt_dtype_size((bt_dtype)instr->dtype) == 8;
    switch (instr->op) {
#define BTI_VECTOR_FUNCTION(name, arity) case BTI_OP_##name:
#define BTI_SCALAR_FUNCTION(name, ...)
#include "launch/functions.def"
    case BTI_OP_sigmoid:
    case BTI_OP_erfinv:
    case BTI_OP_floor_div:
    case BTI_OP_mod:
    case BTI_OP_random_word:
    case BTI_OP_threefry: return wide ? 16 : 8;
    default: return 1;
    }
}

/* How many points of a thread are loaded before the first is used: enough bytes on their way, not too much text. */
static int points_at_once(const bti_c *w) {
    size_t bytes = 0;
    int values = 0, count = 8;
    for (int i = 0; i < w->kernel->instr_count; i++) {
        if (is_loaded(w, i) && !is_kept(w, i)) bytes += bt_dtype_size(bti_c_dtype(w, i));
        if (is_point(w, i) && w->needed[i]) values += weight(&w->kernel->instrs[i]);
    }
    while (count > 4 && (bytes == 0 || bytes * (size_t)count > 64)) count /= 2;
    while (count > 1 && values * count > 128) count /= 2;
    return count;
}

static void loads(bti_c *w) {
    char element[256];
    for (int i = 0; i < w->kernel->instr_count; i++) {
        if (!is_loaded(w, i)) continue;
        if (is_kept(w, i))
            snprintf(element, sizeof element, "kept%d[before + i]", i);
        else
            bti_c_element(w, "l", w->kernel->instrs[i].arg[0], bti_c_last_reduced(w), "i", element, sizeof element);
        bti_c_line(w, "x%d[k] = %s;", i, element);
    }
}

/* Compilers that see products of counted numbers through try, for very long, to write them without a loop. */
static void counted(bti_c *w, int instr) {
    char text[160];
    bti_c_index(w, "l", w->kernel->instrs[instr].arg[0], bti_c_last_reduced(w), "i", text, sizeof text);
    bti_c_line(w, "i64 n%d = %s;", instr, text);
    bti_c_line(w, "OPAQUE(n%d);", instr);
    snprintf(text, sizeof text, "n%d", instr);
    bti_c_counted(w, instr, text);
}

static void uses(bti_c *w, int sweep) {
    char text[32], part[16], value[16];
    for (int i = 0; i < w->kernel->instr_count; i++) {
        if (!is_point(w, i) || !w->needed[i]) continue;
        if (is_loaded(w, i)) {
            snprintf(text, sizeof text, "x%d[k]", i);
            bti_c_loaded(w, i, text);
        } else if (w->kernel->instrs[i].op == BTI_OP_iota)
            counted(w, i);
        else
            bti_c_instr(w, i, "l", bti_c_last_reduced(w), "i");
    }
    EACH_FOLDED(i, sweep) {
        name(part, 'p', i);
        name(value, 'v', w->kernel->instrs[i].arg[0]);
        bti_c_fold(w, i, part, value);
    }
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++) {
        int stored = w->kernel->operands[o].value;
        if (is_point(w, stored) && w->kernel->instrs[stored].stage == sweep)
            bti_c_output(w, o, "l", bti_c_last_reduced(w), "i");
    }
}

/* So many points of the thread from "first" on, which may go past the end. */
static void batch(bti_c *w, int sweep, int count, bool past_end) {
    int spacing = w->kernel->inner ? 1 : 32;
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (is_loaded(w, i)) bti_c_line(w, "%s x%d[%d];", loaded_type(w, i), i, count);
    for (int part = 0; part < 2; part++) {
        if (part == 0 && !loads_any(w)) continue;
        bti_c_line(w, "UNROLL");
        bti_c_open(w, "for (i32 k = 0; k < %d; k++)", count);
        bti_c_line(w, "const i64 i = first + %d * k;", spacing);
        if (past_end) bti_c_line(w, "if (i >= end) continue;");
        if (part == 0)
            loads(w);
        else
            uses(w, sweep);
        bti_c_close(w);
    }
}

/* From "begin" to "end" of the line, the thread's points of it. */
void bti_c_chunk(bti_c *w, int sweep) {
    int spacing = w->kernel->inner ? 1 : 32, count = points_at_once(w);
    bti_c_line(w, "i64 first = begin%s;", w->kernel->inner ? "" : " + lane");
    bti_c_open(w, "for (; first + %d < end; first += %d)", (count - 1) * spacing, count * spacing);
    batch(w, sweep, count, false);
    bti_c_close(w);
    if (count == 1) return;
    bti_c_open(w, "if (first < end)");
    batch(w, sweep, count, true);
    bti_c_close(w);
}

/* --- values of a row ------------------------------------------------------------------------------------------------ */

void bti_c_row_values(bti_c *w, int stage) {
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (!is_point(w, i) && w->kernel->instrs[i].stage == stage) bti_c_instr(w, i, "a", -1, NULL);
}

void bti_c_row_outputs(bti_c *w) {
    bool lanes = bti_entry_in_lanes(w->kernel, w->entry), any = false;
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++) {
        if (is_point(w, w->kernel->operands[o].value)) continue;
        if (lanes && !any) bti_c_open(w, "if (lane == 0)");
        any = true;
        bti_c_output(w, o, "a", -1, NULL);
    }
    if (lanes && any) bti_c_close(w);
}

/* Rows, by 32 lanes each, and columns, by one thread each: the order of folding of ir/entry.h. */
#include <stdio.h>

#include "render/c_parts.h"

#define AT_ONCE 8 /* points of a lane that are loaded before the first is used */

static int last_reduced(const bti_c *w) { return w->kernel->outer + w->kernel->reduced - 1; }
static bool in_rows(const bti_c *w) { return !w->kernel->inner; }

static unsigned kept_axes(const bti_kernel *kernel) {
    unsigned all = (1u << bti_kernel_axes(kernel)) - 1, reduced = ((1u << kernel->reduced) - 1) << kernel->outer;
    return all & ~reduced;
}
/* The reduced axes but the last. */
static unsigned line_axes(const bti_kernel *kernel) { return ((1u << (kernel->reduced - 1)) - 1) << kernel->outer; }

static void product_of(unsigned axes, char *text, size_t size) {
    int length = snprintf(text, size, axes ? "%s" : "%s1", "");
    for (int axis = 0; axis < BTI_MAX_RANK; axis++)
        if (axes >> axis & 1)
            length += snprintf(text + length, size - (size_t)length, "%sW(%d)", length ? " * " : "", axis);
}

/* Number of a reduction among them. */
static int number_of(const bti_c *w, int reduction) {
    int number = 0;
    for (int i = 0; i < reduction; i++) number += bti_c_reduces(&w->kernel->instrs[i]);
    return number;
}

/* Reductions that the sweep folds. */
static bool folds(const bti_c *w, int instr, int sweep) {
    return bti_c_reduces(&w->kernel->instrs[instr]) && w->kernel->instrs[instr].stage == sweep + 1;
}

#define EACH_FOLDED(i, sweep)                        \
    for (int i = 0; i < w->kernel->instr_count; i++) \
        if (folds(w, i, sweep))

static void name(char *text, char prefix, int number) { snprintf(text, 16, "%c%d", prefix, number); }

/* --- lanes ---------------------------------------------------------------------------------------------------------- */

static void halve(bti_c *w, int reduction, char prefix) {
    const char *type = bti_c_accumulator(w, &w->kernel->instrs[reduction]);
    char to[16];
    name(to, prefix, reduction);
    bti_c_open(w, "for (i32 by = 16; by; by /= 2)");
    bti_c_line(w, "FROM_FURTHER(%s, other, %s, by);", type, to);
    bti_c_fold(w, reduction, to, "other");
    bti_c_close(w);
}

static void from_first(bti_c *w, int reduction, char prefix) {
    bti_c_line(w, "FROM_FIRST(%s, %c%d);", bti_c_accumulator(w, &w->kernel->instrs[reduction]), prefix, reduction);
}

/* --- points of a chunk ---------------------------------------------------------------------------------------------- */

static bool is_point(const bti_c *w, int instr) { return w->kernel->instrs[instr].level == BTI_POINT; }

/* Which loads are kept in local memory, and where in the row's part of it. */
static bool is_kept(const bti_c *w, int instr) {
    return w->entry == BTI_ENTRY_KEPT && bti_entry_keeps(w->kernel, instr);
}

static void kept_element(const bti_c *w, int instr, char *text, size_t size) {
    snprintf(text, size, "((LOCAL %s *)kept%d)[before + i]",
             bti_c_stored_type((bt_dtype)w->kernel->operands[w->kernel->instrs[instr].arg[0]].dtype), instr);
}

static void load_points(bti_c *w, int sweep) {
    char element[256];
    for (int i = 0; i < w->kernel->instr_count; i++) {
        const bti_instr *instr = &w->kernel->instrs[i];
        if (instr->op != BTI_OP_leaf || !is_point(w, i) || !w->needed[i]) continue;
        if (is_kept(w, i) && sweep > 0)
            kept_element(w, i, element, sizeof element);
        else
            bti_c_element(w, "l", instr->arg[0], last_reduced(w), "i", element, sizeof element);
        bti_c_line(w, "x%d[k] = %s;", i, element);
        if (!is_kept(w, i) || sweep > 0) continue;
        kept_element(w, i, element, sizeof element);
        bti_c_line(w, "%s = x%d[k];", element, i);
    }
}

static void declare_loads(bti_c *w) {
    for (int i = 0; i < w->kernel->instr_count; i++) {
        const bti_instr *instr = &w->kernel->instrs[i];
        if (instr->op == BTI_OP_leaf && is_point(w, i) && w->needed[i])
            bti_c_line(w, "%s x%d[%d];", bti_c_stored_type((bt_dtype)w->kernel->operands[instr->arg[0]].dtype), i,
                       AT_ONCE);
    }
}

static void point_values(bti_c *w) {
    char text[256];
    for (int i = 0; i < w->kernel->instr_count; i++) {
        const bti_instr *instr = &w->kernel->instrs[i];
        if (!is_point(w, i) || !w->needed[i] || instr->op == BTI_OP_const) continue;
        if (instr->op == BTI_OP_leaf) {
            snprintf(text, sizeof text, "x%d[k]", i);
            bti_c_loaded(w, i, text);
        } else if (instr->op == BTI_OP_iota) {
            bti_c_index(w, "l", instr->arg[0], last_reduced(w), "i", text, sizeof text);
            bti_c_counted(w, i, text);
        } else
            bti_c_value(w, i);
    }
}

static void use_points(bti_c *w, int sweep) {
    char element[256], text[256], part[16], value[16];
    point_values(w);
    EACH_FOLDED(i, sweep) {
        name(part, 'p', i);
        name(value, 'v', w->kernel->instrs[i].arg[0]);
        bti_c_fold(w, i, part, value);
    }
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++) {
        int stored = w->kernel->operands[o].value;
        if (!is_point(w, stored) || w->kernel->instrs[stored].stage != sweep) continue;
        bti_c_element(w, "l", o, last_reduced(w), "i", element, sizeof element);
        bti_c_stored(w, stored, text, sizeof text);
        bti_c_line(w, "%s = %s;", element, text);
    }
}

/* From `begin` to `end` of the line, the thread's points of it. */
static void chunk(bti_c *w, int sweep) {
    int spacing = in_rows(w) ? 32 : 1;
    bti_c_open(w, "for (i64 first = begin%s; first < end; first += %d)", in_rows(w) ? " + lane" : "",
               AT_ONCE * spacing);
    declare_loads(w);
    bti_c_line(w, "UNROLL");
    bti_c_open(w, "for (i32 k = 0; k < %d; k++)", AT_ONCE);
    bti_c_line(w, "const i64 i = first + %d * k;", spacing);
    bti_c_line(w, "if (i >= end) continue;");
    load_points(w, sweep);
    bti_c_close(w);
    bti_c_line(w, "UNROLL");
    bti_c_open(w, "for (i32 k = 0; k < %d; k++)", AT_ONCE);
    bti_c_line(w, "const i64 i = first + %d * k;", spacing);
    bti_c_line(w, "if (i >= end) continue;");
    use_points(w, sweep);
    bti_c_close(w);
    bti_c_close(w);
}

static void begin_parts(bti_c *w, int sweep) {
    EACH_FOLDED(i, sweep)
    bti_c_line(w, "%s p%d = %s;", bti_c_accumulator(w, &w->kernel->instrs[i]), i, bti_c_start(w, i));
}

/* --- whole rows ----------------------------------------------------------------------------------------------------- */

/* A part into the total: of several, part number `set` into lane set % 32. */
static void fold_part(bti_c *w, int sweep) {
    char part[16], total[16];
    EACH_FOLDED(i, sweep) {
        name(part, 'p', i);
        name(total, 't', i);
        if (in_rows(w)) {
            halve(w, i, 'p');
            from_first(w, i, 'p');
            bti_c_open(w, "if ((set & 31) == lane)");
        }
        bti_c_fold(w, i, total, part);
        if (in_rows(w)) bti_c_close(w);
    }
}

static void whole_lines(bti_c *w, int sweep) {
    int last = last_reduced(w);
    bti_c_open(w, "for (i64 number = 0, set = 0; number < lines; number++)");
    if (w->entry == BTI_ENTRY_KEPT) bti_c_line(w, "const i64 before = number * W(%d);", last);
    if (line_axes(w->kernel)) bti_c_line(w, "i64 rest = number;");
    bti_c_coordinates(w, line_axes(w->kernel));
    bti_c_places(w, "l", "a", line_axes(w->kernel));
    bti_c_open(w, "for (i64 begin = 0; begin < W(%d); begin += %d, set++)", last,
               in_rows(w) ? BTI_ROW_CHUNK : BTI_COLUMN_CHUNK);
    bti_c_line(w, "const i64 end = least(W(%d), begin + %d);", last, in_rows(w) ? BTI_ROW_CHUNK : BTI_COLUMN_CHUNK);
    begin_parts(w, sweep);
    chunk(w, sweep);
    fold_part(w, sweep);
    bti_c_close(w);
    bti_c_close(w);
}

static void row_values(bti_c *w, int stage) {
    char text[256];
    for (int i = 0; i < w->kernel->instr_count; i++) {
        const bti_instr *instr = &w->kernel->instrs[i];
        if (is_point(w, i) || instr->stage != stage || instr->op == BTI_OP_const || bti_c_reduces(instr)) continue;
        if (instr->op == BTI_OP_leaf) {
            bti_c_element(w, "a", instr->arg[0], -1, NULL, text, sizeof text);
            bti_c_loaded(w, i, text);
        } else if (instr->op == BTI_OP_iota) {
            bti_c_index(w, "a", instr->arg[0], -1, NULL, text, sizeof text);
            bti_c_counted(w, i, text);
        } else
            bti_c_value(w, i);
    }
}

static void row_outputs(bti_c *w) {
    char element[256], text[256];
    bool lanes = bti_entry_in_lanes(w->kernel, w->entry);
    if (lanes) bti_c_open(w, "if (lane == 0)");
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++) {
        if (is_point(w, w->kernel->operands[o].value)) continue;
        bti_c_element(w, "a", o, -1, NULL, element, sizeof element);
        bti_c_stored(w, w->kernel->operands[o].value, text, sizeof text);
        bti_c_line(w, "%s = %s;", element, text);
    }
    if (lanes) bti_c_close(w);
}

static void totals(bti_c *w, int sweep, bool in_lanes) {
    EACH_FOLDED(i, sweep) {
        if (in_lanes) {
            halve(w, i, 't');
            from_first(w, i, 't');
        }
        bti_c_total(w, i);
    }
}

static void begin_totals(bti_c *w, int sweep) {
    EACH_FOLDED(i, sweep)
    bti_c_line(w, "%s t%d = %s;", bti_c_accumulator(w, &w->kernel->instrs[i]), i, bti_c_start(w, i));
}

/* Lanes and the loop over units: 32 threads for each, or one. Every group goes around equally often. */
static void begin_units(bti_c *w, const char *count) {
    bti_c_line(w, "const i64 units = %s;", count);
    if (bti_entry_in_lanes(w->kernel, w->entry)) {
        bti_c_line(w, "const i32 lane = (i32)(THREAD & 31);");
        bti_c_open(w, "for (i64 unit = (i64)GROUP * (THREADS / 32) + THREAD / 32; unit < units; unit += (i64)GROUPS * "
                      "(THREADS / 32))");
    } else
        bti_c_open(w, "for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < units; unit += (i64)GROUPS * THREADS)");
}

static void place_kept(bti_c *w) {
    char lines[128];
    if (w->entry != BTI_ENTRY_KEPT) return;
    product_of(((1u << w->kernel->reduced) - 1) << w->kernel->outer, lines, sizeof lines);
    bti_c_line(w, "const i64 points = %s;", lines);
    int count = 0, previous = -1;
    bti_str bytes = {0};
    for (int i = 0; i < w->kernel->instr_count; i++) {
        if (!bti_entry_keeps(w->kernel, i)) continue;
        size_t size = bt_dtype_size((bt_dtype)w->kernel->operands[w->kernel->instrs[i].arg[0]].dtype);
        bti_str_addf(&bytes, "%s((points * %zu + 15) & ~(i64)15)", count++ ? " + " : "", size);
    }
    bti_c_line(w, "LOCAL u8 *kept = dynamic + (THREAD / 32) * (%s);", bti_str_text(&bytes));
    bti_str_free(&bytes);
    for (int i = 0; i < w->kernel->instr_count; i++) {
        if (!bti_entry_keeps(w->kernel, i)) continue;
        if (previous < 0)
            bti_c_line(w, "LOCAL u8 *kept%d = kept;", i);
        else
            bti_c_line(w, "LOCAL u8 *kept%d = kept%d + ((points * %zu + 15) & ~(i64)15);", i, previous,
                       bt_dtype_size((bt_dtype)w->kernel->operands[w->kernel->instrs[previous].arg[0]].dtype));
        previous = i;
    }
}

static void run(bti_c *w, bti_entry entry) {
    char text[200];
    w->entry = entry;
    bti_c_begin_entry(w);
    product_of(line_axes(w->kernel), text, sizeof text);
    bti_c_line(w, "const i64 lines = %s;", text);
    place_kept(w);
    product_of(kept_axes(w->kernel), text, sizeof text);
    begin_units(w, text);
    bti_c_line(w, "i64 rest = unit;");
    bti_c_coordinates(w, kept_axes(w->kernel));
    bti_c_places(w, "a", NULL, kept_axes(w->kernel));
    row_values(w, 0);
    for (int sweep = 0; sweep < bti_kernel_sweeps(w->kernel); sweep++) {
        bti_kernel_needs(w->kernel, sweep, w->needed);
        begin_totals(w, sweep);
        whole_lines(w, sweep);
        totals(w, sweep, in_rows(w));
        row_values(w, sweep + 1);
    }
    row_outputs(w);
    bti_c_close(w);
    bti_c_close(w);
}

/* --- in parts ------------------------------------------------------------------------------------------------------- */

static void part_element(const bti_c *w, int reduction, const char *set, const char *point, char *text, size_t size) {
    snprintf(text, size, "*(GLOBAL %s *)(parts + ((%s * %d + %d) * kept_points + %s) * 8)",
             bti_c_accumulator(w, &w->kernel->instrs[reduction]), set, bti_entry_reductions(w->kernel),
             number_of(w, reduction), point);
}

static void declare_parts(bti_c *w) {
    bti_c_line(w, "GLOBAL u8 *parts = ADDRESS(%d, %d);", w->places.address_count - 1, w->places.more);
}

/* "chunks", "lines" and "sets" of the box. */
static void declare_sets(bti_c *w) {
    char text[200];
    int piece = in_rows(w) ? BTI_ROW_CHUNK : BTI_COLUMN_CHUNK;
    product_of(line_axes(w->kernel), text, sizeof text);
    bti_c_line(w, "const i64 chunks = (W(%d) + %d) / %d, sets = chunks * %s;", last_reduced(w), piece - 1, piece, text);
}

static void store_parts(bti_c *w) {
    char element[256];
    if (in_rows(w)) EACH_FOLDED(i, 0) halve(w, i, 'p');
    if (in_rows(w)) bti_c_open(w, "if (lane == 0)");
    EACH_FOLDED(i, 0) {
        part_element(w, i, "set", "point", element, sizeof element);
        bti_c_line(w, "%s = p%d;", element, i);
    }
    if (in_rows(w)) bti_c_close(w);
}

static void part(bti_c *w) {
    char text[200];
    int last = last_reduced(w), piece = in_rows(w) ? BTI_ROW_CHUNK : BTI_COLUMN_CHUNK;
    w->entry = BTI_ENTRY_PART;
    bti_c_begin_entry(w);
    declare_parts(w);
    declare_sets(w);
    product_of(kept_axes(w->kernel), text, sizeof text);
    bti_c_line(w, "const i64 kept_points = %s;", text);
    begin_units(w, "sets * kept_points");
    bti_c_line(w, "const i64 set = divided(unit, kept_points), point = unit - set * kept_points;");
    bti_c_line(w, "const i64 number = divided(set, chunks), begin = (set - number * chunks) * %d;", piece);
    bti_c_line(w, "const i64 end = least(W(%d), begin + %d);", last, piece);
    bti_c_line(w, "i64 rest = point;");
    bti_c_coordinates(w, kept_axes(w->kernel));
    bti_c_places(w, "a", NULL, kept_axes(w->kernel));
    if (line_axes(w->kernel)) bti_c_line(w, "rest = number;");
    bti_c_coordinates(w, line_axes(w->kernel));
    bti_c_places(w, "l", "a", line_axes(w->kernel));
    row_values(w, 0);
    bti_kernel_needs(w->kernel, 0, w->needed);
    begin_parts(w, 0);
    chunk(w, 0);
    store_parts(w);
    bti_c_close(w);
    bti_c_close(w);
}

static void finish(bti_c *w) {
    char text[256], total[16];
    w->entry = BTI_ENTRY_FINISH;
    bti_c_begin_entry(w);
    declare_parts(w);
    declare_sets(w);
    product_of(kept_axes(w->kernel), text, sizeof text);
    bti_c_line(w, "const i64 kept_points = %s;", text);
    begin_units(w, "kept_points");
    begin_totals(w, 0);
    bti_c_open(w, "for (i64 set = lane; set < sets; set += 32)");
    EACH_FOLDED(i, 0) {
        part_element(w, i, "set", "unit", text, sizeof text);
        name(total, 't', i);
        bti_c_fold(w, i, total, text);
    }
    bti_c_close(w);
    totals(w, 0, true);
    bti_c_line(w, "i64 rest = unit;");
    bti_c_coordinates(w, kept_axes(w->kernel));
    bti_c_places(w, "a", NULL, kept_axes(w->kernel));
    row_values(w, 0);
    row_values(w, 1);
    row_outputs(w);
    bti_c_close(w);
    bti_c_close(w);
}

void bti_c_reduction(bti_c *w) {
    run(w, BTI_ENTRY_RUN);
    if (bti_entry_exists(w->kernel, BTI_ENTRY_KEPT)) run(w, BTI_ENTRY_KEPT);
    if (!bti_entry_exists(w->kernel, BTI_ENTRY_PART)) return;
    part(w);
    finish(w);
}

/* The wide entries of rows: each thread loads 16 bytes of the line at once, so that a row takes 32 / width threads. Thread t of them
 * is the `width` lanes from t * width on: element c of a thread's accumulators g<reduction> and h<reduction> is lane t * width + c, which
 * folds the same points in the same order as in the other entries. */
#include <stdio.h>

#include "render/c_writer.h"

static const char *accumulator_type(const bti_c *w, int reduction) {
    return bti_c_accumulator(w, &w->kernel->instrs[reduction]);
}

/* Each element, in order: {start, start...}. */
static void declare_lanes(bti_c *w, int reduction, char prefix) {
    bti_str text = {0};
    for (int c = 0; c < bti_entry_width(w->kernel); c++)
        bti_str_addf(&text, "%s%s", c ? ", " : "", bti_c_start(w, reduction));
    bti_c_line(w, "%s %c%d[%d] = {%s};", accumulator_type(w, reduction), prefix, reduction, bti_entry_width(w->kernel),
               bti_str_text(&text));
    w->text->failed |= text.failed;
    bti_str_free(&text);
}

void bti_c_rows_declare(bti_c *w, int sweep, char prefix) {
    FOR_EACH_FOLDED(i, sweep) {
        if (prefix == 't') bti_c_line(w, "%s t%d = %s;", accumulator_type(w, i), i, bti_c_start(w, i));
        declare_lanes(w, i, prefix == 't' ? 'h' : 'g');
    }
}

/* --- points of a chunk ---------------------------------------------------------------------------------------------- */

/* How many pieces a thread loads before it uses the first: enough bytes in flight, without too much text. */
static int pieces_in_flight(const bti_c *w) {
    size_t bytes = 0;
    int values = 0, count = w->entry == BTI_ENTRY_PART_WIDE ? 16 : 8, width = bti_entry_width(w->kernel);
    const size_t most_bytes = 16 * (size_t)count;
    for (int i = 0; i < w->kernel->instr_count; i++) {
        if (bti_c_is_loaded(w, i) && !bti_c_is_kept(w, i)) bytes += bt_dtype_size(bti_c_dtype(w, i)) * (size_t)width;
        if (bti_c_is_point(w, i) && w->needed[i]) values += bti_c_cost(&w->kernel->instrs[i]);
    }
    if (!bytes) count = 1; /* local memory is near */
    while (count > 2 && bytes * (size_t)count > most_bytes) count /= 2;
    while (count > 1 && values * width * count > 128) count /= 2;
    return count;
}

static bool stores_in_sweep(const bti_c *w, int operand, int sweep) {
    int stored = w->kernel->operands[operand].value;
    return bti_c_is_point(w, stored) && w->kernel->instrs[stored].stage == sweep;
}

static void declare_union(bti_c *w, char prefix, int number, int operand, int count) {
    char many[16] = "";
    if (count > 1) snprintf(many, sizeof many, "[%d]", count);
    bti_c_line(w, "union { %s all; %s at[%d]; } %c%d%s;", bti_c_wide_type(w, operand),
               bti_c_stored_type((bt_dtype)w->kernel->operands[operand].dtype), bti_entry_width(w->kernel), prefix,
               number, many);
}

/* Of the load that has the value's place. */
static int operand_of(const bti_c *w, int instr) {
    return bti_instr_operand(&w->kernel->instrs[bti_c_load_of(w, instr)]);
}

/* Of what is taken, rows whose number is the same for the whole line. */
static bool is_loaded_wide(const bti_c *w, int instr) {
    if (!bti_c_is_loaded(w, instr) || !w->kernel->operands[operand_of(w, instr)].unit) return false;
    return w->kernel->instrs[instr].op != BTI_OP_take || !bti_c_is_point(w, w->kernel->instrs[instr].arg[0]);
}

static void write_wide_take(bti_c *w, int instr, const char *at) {
    const bti_instr *take = &w->kernel->instrs[instr];
    const char *type = bti_c_stored_type(bti_c_dtype(w, instr));
    char number[24];
    bti_c_early_number(w, instr, number, sizeof number);
    bti_c_row(w, instr, number);
    bti_c_line(w, "if (row%d >= 0)", instr);
    bti_c_line(w, "    x%d%s.all = *(GLOBAL %s *)((GLOBAL %s *)(l%d + row%d * v%d) + piece);", instr, at,
               bti_c_wide_type(w, take->attr), type, take->attr, instr, take->arg[2]);
    bti_c_line(w, "else");
    bti_c_line(w, "    UNROLL for (i32 c = 0; c < %d; c++) x%d%s.at[c] = (%s)%s;", bti_entry_width(w->kernel), instr,
               at, type, bti_c_missing(bti_c_dtype(w, instr)));
}

static void write_wide_loads(bti_c *w, int count) {
    for (int i = 0; i < w->kernel->instr_count; i++) {
        if (!is_loaded_wide(w, i)) continue;
        int o = operand_of(w, i);
        const char *at = count > 1 ? "[k]" : "", *type = bti_c_stored_type(bti_c_dtype(w, i));
        if (bti_c_is_kept(w, i))
            bti_c_line(w, "x%d%s.all = *(LOCAL %s *)&kept%d[before + piece];", i, at, bti_c_wide_type(w, o),
                       bti_c_load_of(w, i));
        else if (w->kernel->instrs[i].op == BTI_OP_take)
            write_wide_take(w, i, at);
        else
            bti_c_line(w, "x%d%s.all = *(GLOBAL %s *)((GLOBAL %s *)l%d + piece);", i, at, bti_c_wide_type(w, o), type,
                       o);
    }
}

/* The value of each point of a piece, folded and put into y<operand>. */
static void write_point_uses(bti_c *w, int sweep, int count) {
    char text[256], part[24], value[16];
    for (int i = 0; i < w->kernel->instr_count; i++) {
        if (!bti_c_is_point(w, i) || !w->needed[i]) continue;
        snprintf(text, sizeof text, "x%d%s.at[c]", i, count > 1 ? "[k]" : "");
        bti_c_point_value(w, i, is_loaded_wide(w, i) ? text : NULL);
    }
    if (bti_c_holds_now(w)) {
        bti_c_stored(w, w->held, text, sizeof text);
        bti_c_line(w, "x%d%s.at[c] = %s;", w->held_load, count > 1 ? "[k]" : "", text);
    }
    FOR_EACH_FOLDED(i, sweep) {
        snprintf(part, sizeof part, "g%d[c]", i);
        snprintf(value, sizeof value, "v%d", w->kernel->instrs[i].arg[0]);
        bti_c_fold(w, i, part, value);
    }
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++) {
        if (!stores_in_sweep(w, o, sweep)) continue;
        bti_c_stored(w, w->kernel->operands[o].value, text, sizeof text);
        bti_c_line(w, "y%d.at[c] = %s;", o, text);
    }
}

static void open_pieces(bti_c *w, int count) {
    if (count == 1) {
        bti_c_line(w, "const i64 piece = first;");
        return;
    }
    bti_c_line(w, "UNROLL");
    bti_c_open(w, "for (i32 k = 0; k < %d; k++)", count);
    bti_c_line(w, "const i64 piece = first + 32 * k;");
}

static void write_pieces(bti_c *w, int sweep, int count) {
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (is_loaded_wide(w, i)) declare_union(w, 'x', i, operand_of(w, i), count);
    open_pieces(w, count);
    write_wide_loads(w, count);
    if (count > 1) bti_c_close(w);
    if (count > 1) open_pieces(w, count);
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++)
        if (stores_in_sweep(w, o, sweep)) declare_union(w, 'y', o, o, 1);
    bti_c_line(w, "UNROLL");
    bti_c_open(w, "for (i32 c = 0; c < %d; c++)", bti_entry_width(w->kernel));
    bti_c_line(w, "const i64 i = piece + c;");
    write_point_uses(w, sweep, count);
    bti_c_close(w);
    if (bti_c_holds_now(w))
        bti_c_line(w, "*(LOCAL %s *)&kept%d[before + piece] = x%d%s.all;",
                   bti_c_wide_type(w, w->kernel->instrs[w->held_load].arg[0]), w->held_load, w->held_load,
                   count > 1 ? "[k]" : "");
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++)
        if (stores_in_sweep(w, o, sweep))
            bti_c_line(w, "*(GLOBAL %s *)((GLOBAL %s *)l%d + piece) = y%d.all;", bti_c_wide_type(w, o),
                       bti_c_stored_type((bt_dtype)w->kernel->operands[o].dtype), o, o);
    if (count > 1) bti_c_close(w);
}

void bti_c_rows_chunk(bti_c *w, int sweep) {
    int count = pieces_in_flight(w);
    bti_c_line(w, "i64 first = begin + lane * %d;", bti_entry_width(w->kernel));
    if (count > 1) {
        bti_c_open(w, "for (; first + %d < end; first += %d)", (count - 1) * 32, count * 32);
        write_pieces(w, sweep, count);
        bti_c_close(w);
    }
    bti_c_open(w, "for (; first < end; first += 32)");
    write_pieces(w, sweep, 1);
    bti_c_close(w);
}

/* --- lanes ---------------------------------------------------------------------------------------------------------- */

/* Folds the lanes by halving: between threads, then those of each thread; the first thread has the result in element 0. */
static void fold_lanes(bti_c *w, int reduction, char prefix) {
    int width = bti_entry_width(w->kernel);
    char to[24], from[24];
    bti_c_line(w, "UNROLL");
    bti_c_open(w, "for (i32 by = %d; by; by /= 2)", 16 / width);
    bti_c_line(w, "UNROLL");
    bti_c_open(w, "for (i32 c = 0; c < %d; c++)", width);
    snprintf(to, sizeof to, "%c%d[c]", prefix, reduction);
    bti_c_line(w, "FROM_FURTHER(%s, other, %s, by);", accumulator_type(w, reduction), to);
    bti_c_fold(w, reduction, to, "other");
    bti_c_close(w);
    bti_c_close(w);
    for (int half = width / 2; half; half /= 2)
        for (int c = 0; c < half; c++) {
            snprintf(to, sizeof to, "%c%d[%d]", prefix, reduction, c);
            snprintf(from, sizeof from, "%c%d[%d]", prefix, reduction, c + half);
            bti_c_fold(w, reduction, to, from);
        }
}

static void broadcast_first_thread(bti_c *w, int reduction, char prefix) {
    bti_c_line(w, "FROM_FIRST_OF(%s, %c%d[0], %d);", accumulator_type(w, reduction), prefix, reduction,
               bti_entry_unit_threads(w->kernel, w->entry));
}

void bti_c_rows_fold_part(bti_c *w, int sweep) {
    int width = bti_entry_width(w->kernel);
    char to[24], part[24];
    FOR_EACH_FOLDED(i, sweep) {
        fold_lanes(w, i, 'g');
        if (w->entry == BTI_ENTRY_PART_WIDE) {
            bti_c_line(w, "const %s p%d = g%d[0];", accumulator_type(w, i), i, i);
            continue;
        }
        broadcast_first_thread(w, i, 'g');
        bti_c_line(w, "if (sets == 1) t%d = g%d[0];", i, i);
        bti_c_line(w, "else");
        bti_c_line(w, "UNROLL");
        bti_c_open(w, "for (i32 c = 0; c < %d; c++)", width);
        snprintf(to, sizeof to, "h%d[c]", i);
        snprintf(part, sizeof part, "g%d[0]", i);
        bti_c_open(w, "if ((set & 31) == lane * %d + c)", width);
        bti_c_fold(w, i, to, part);
        bti_c_close(w);
        bti_c_close(w);
    }
}

void bti_c_rows_fold_totals(bti_c *w, int sweep) {
    bool any = false;
    FOR_EACH_FOLDED(i, sweep) {
        if (!any) bti_c_open(w, "if (sets > 1)");
        any = true;
        fold_lanes(w, i, 'h');
        broadcast_first_thread(w, i, 'h');
        bti_c_line(w, "t%d = h%d[0];", i, i);
    }
    if (any) bti_c_close(w);
}

/* Reductions. A row is folded by 32 lanes, a kept point of columns by one thread, in the order of launch/entry.h: whole
 * (bti_run, bti_run_kept), or in parts (bti_part) that are folded later (bti_finish). */
#include <stdio.h>

#include "ir/dtype.h"
#include "render/c_writer.h"

static int last_reduced(const bti_c *w) { return w->kernel->outer + w->kernel->reduced - 1; }

static unsigned reduced_axes_but_last(const bti_kernel *kernel) {
    return ((1u << (kernel->reduced - 1)) - 1) << kernel->outer;
}

static bool folds_in_sweep(const bti_c *w, int instr, int sweep) {
    return bti_instr_reduces(&w->kernel->instrs[instr]) && w->kernel->instrs[instr].stage == sweep + 1;
}

#define FOR_EACH_FOLDED(i, sweep)                    \
    for (int i = 0; i < w->kernel->instr_count; i++) \
        if (folds_in_sweep(w, i, sweep))

/* 32 lanes fold a row; in columns each thread folds a kept point of its own. */
static bool folds_in_lanes(const bti_c *w) { return !w->kernel->inner; }
static int chunk_points(const bti_c *w) { return w->kernel->inner ? BTI_COLUMN_CHUNK : BTI_ROW_CHUNK; }

static void accumulator_name(char *text, char prefix, int number) { snprintf(text, 16, "%c%d", prefix, number); }

/* --- lanes ---------------------------------------------------------------------------------------------------------- */

static void fold_lanes(bti_c *w, int reduction, char prefix) {
    const char *type = bti_c_accumulator(w, &w->kernel->instrs[reduction]);
    char to[16];
    accumulator_name(to, prefix, reduction);
    bti_c_line(w, "UNROLL");
    bti_c_open(w, "for (i32 by = 16; by; by /= 2)");
    bti_c_line(w, "FROM_FURTHER(%s, other, %s, by);", type, to);
    bti_c_fold(w, reduction, to, "other");
    bti_c_close(w);
}

static void broadcast_first_lane(bti_c *w, int reduction, char prefix) {
    bti_c_line(w, "FROM_FIRST(%s, %c%d);", bti_c_accumulator(w, &w->kernel->instrs[reduction]), prefix, reduction);
}

static void declare_accumulators(bti_c *w, int sweep, char prefix) {
    FOR_EACH_FOLDED(i, sweep)
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

/* A rough number of machine instructions for a value, in tens. */
static int instruction_cost(const bti_instr *instr) {
    bool random = instr->op == BTI_OP_random_word || instr->op == BTI_OP_threefry;
    if (!random && !bti_op_calls_function(instr->op)) return 1;
    return bt_dtype_size((bt_dtype)instr->dtype) == 8 ? 16 : 8;
}

/* How many points a thread loads before it uses the first: enough bytes in flight, without too much text. */
static int points_in_flight(const bti_c *w) {
    size_t bytes = 0;
    int values = 0, count = 8;
    for (int i = 0; i < w->kernel->instr_count; i++) {
        if (is_loaded(w, i) && !is_kept(w, i)) bytes += bt_dtype_size(bti_c_dtype(w, i));
        if (is_point(w, i) && w->needed[i]) values += instruction_cost(&w->kernel->instrs[i]);
    }
    while (count > 4 && (bytes == 0 || bytes * (size_t)count > 64)) count /= 2;
    while (count > 1 && values * count > 128) count /= 2;
    return count;
}

static void write_loads(bti_c *w) {
    char element[256];
    for (int i = 0; i < w->kernel->instr_count; i++) {
        if (!is_loaded(w, i)) continue;
        if (is_kept(w, i))
            snprintf(element, sizeof element, "kept%d[before + i]", i);
        else
            bti_c_element(w, "l", w->kernel->instrs[i].arg[0], last_reduced(w), "i", element, sizeof element);
        bti_c_line(w, "x%d[k] = %s;", i, element);
    }
}

/* OPAQUE hides the number from the compiler: some compilers spend very long on replacing such loops by formulas. */
static void write_index_value(bti_c *w, int instr) {
    char text[160];
    bti_c_index(w, "l", w->kernel->instrs[instr].arg[0], last_reduced(w), "i", text, sizeof text);
    bti_c_line(w, "i64 n%d = %s;", instr, text);
    bti_c_line(w, "OPAQUE(n%d);", instr);
    snprintf(text, sizeof text, "n%d", instr);
    bti_c_counted(w, instr, text);
}

static void write_uses(bti_c *w, int sweep) {
    char text[32], part[16], value[16];
    for (int i = 0; i < w->kernel->instr_count; i++) {
        if (!is_point(w, i) || !w->needed[i]) continue;
        if (is_loaded(w, i)) {
            snprintf(text, sizeof text, "x%d[k]", i);
            bti_c_loaded(w, i, text);
        } else if (w->kernel->instrs[i].op == BTI_OP_iota)
            write_index_value(w, i);
        else
            bti_c_instr(w, i, "l", last_reduced(w), "i");
    }
    FOR_EACH_FOLDED(i, sweep) {
        accumulator_name(part, 'p', i);
        accumulator_name(value, 'v', w->kernel->instrs[i].arg[0]);
        bti_c_fold(w, i, part, value);
    }
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++) {
        int stored = w->kernel->operands[o].value;
        if (is_point(w, stored) && w->kernel->instrs[stored].stage == sweep)
            bti_c_output(w, o, "l", last_reduced(w), "i");
    }
}

/* `count` points of the thread from "first" on. past_end: some of them may be past the end. */
static void write_batch(bti_c *w, int sweep, int count, bool past_end) {
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
            write_loads(w);
        else
            write_uses(w, sweep);
        bti_c_close(w);
    }
}

/* The thread's points between "begin" and "end" of the line. */
static void write_chunk(bti_c *w, int sweep) {
    int spacing = w->kernel->inner ? 1 : 32, count = points_in_flight(w);
    bti_c_line(w, "i64 first = begin%s;", w->kernel->inner ? "" : " + lane");
    bti_c_open(w, "for (; first + %d < end; first += %d)", (count - 1) * spacing, count * spacing);
    write_batch(w, sweep, count, false);
    bti_c_close(w);
    if (count == 1) return;
    bti_c_open(w, "if (first < end)");
    write_batch(w, sweep, count, true);
    bti_c_close(w);
}

/* --- values of a row, and its outputs ------------------------------------------------------------------------------------------------ */

static void write_row_values(bti_c *w, int stage) {
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (!is_point(w, i) && w->kernel->instrs[i].stage == stage) bti_c_instr(w, i, "a", -1, NULL);
}

static void write_row_outputs(bti_c *w) {
    bool lanes = bti_entry_in_lanes(w->kernel, w->entry), any = false;
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++) {
        if (is_point(w, w->kernel->operands[o].value)) continue;
        if (lanes && !any) bti_c_open(w, "if (lane == 0)");
        any = true;
        bti_c_output(w, o, "a", -1, NULL);
    }
    if (lanes && any) bti_c_close(w);
}

/* --- what is kept in local memory ----------------------------------------------------------------------------------- */

static size_t kept_size(const bti_c *w, int instr) { return bt_dtype_size(bti_c_dtype(w, instr)); }

#define FOR_EACH_KEPT(i)                             \
    for (int i = 0; i < w->kernel->instr_count; i++) \
        if (w->entry == BTI_ENTRY_KEPT && bti_entry_keeps(w->kernel, i))

/* The local memory of a row: the points of one load after those of another, aligned to 16 bytes. */
static void place_kept_rows(bti_c *w) {
    char points[160];
    bti_str before = {0};
    if (w->entry != BTI_ENTRY_KEPT) return;
    bti_c_product(bti_kernel_reduced_axes(w->kernel), points, sizeof points);
    bti_c_line(w, "const i64 points = %s;", points);
    FOR_EACH_KEPT(i) {
        bti_c_line(w, "const i64 at%d = 0%s;", i, bti_str_text(&before));
        bti_str_addf(&before, " + ((points * %zu + 15) & ~(i64)15)", kept_size(w, i));
    }
    bti_c_line(w, "LOCAL u8 *kept = dynamic + (THREAD / 32) * (0%s);", bti_str_text(&before));
    FOR_EACH_KEPT(i) {
        const char *type = bti_c_stored_type(bti_c_dtype(w, i));
        bti_c_line(w, "LOCAL %s *kept%d = (LOCAL %s *)(kept + at%d);", type, i, type, i);
    }
    w->text->failed |= before.failed;
    bti_str_free(&before);
}

static void write_line_begin(bti_c *w) {
    if (w->entry == BTI_ENTRY_KEPT)
        bti_c_line(w, w->kernel->reduced > 1 ? "const i64 before = number * W(%d);" : "const i64 before = 0;",
                   last_reduced(w));
    if (w->kernel->reduced > 1) bti_c_line(w, "rest = number;");
    bti_c_coordinates(w, reduced_axes_but_last(w->kernel));
    bti_c_places(w, "l", "a", reduced_axes_but_last(w->kernel));
}

/* Each lane fetches the elements that it reads later. */
static void write_fetches(bti_c *w) {
    int last = last_reduced(w);
    char step[32];
    if (w->entry != BTI_ENTRY_KEPT) return;
    bti_c_line(w, "FETCH_BEGIN();");
    bti_c_open(w, "for (i64 number = 0; number < lines; number++)");
    write_line_begin(w);
    FOR_EACH_KEPT(i) {
        int o = w->kernel->instrs[i].arg[0];
        snprintf(step, sizeof step, "W(%d)", w->places.stride[o][last]);
        if (w->kernel->operands[o].unit) snprintf(step, sizeof step, "%zu", kept_size(w, i));
        bti_c_line(w, "UNROLL_8");
        bti_c_open(w, "for (i64 i = lane; i < W(%d); i += 32)", last);
        if (w->places.stride[o][last] < 0)
            bti_c_line(w, "FETCH%zu(&kept%d[before + i], l%d);", kept_size(w, i), i, o);
        else
            bti_c_line(w, "FETCH%zu(&kept%d[before + i], l%d + i * %s);", kept_size(w, i), i, o, step);
        bti_c_close(w);
    }
    bti_c_close(w);
    bti_c_line(w, "FETCH_END();");
}

/* --- sweeps --------------------------------------------------------------------------------------------------------- */

/* A single part is the total. Of several parts, part number `set` is folded into lane set % 32. */
static void write_part_fold(bti_c *w, int sweep) {
    char part[16], total[16];
    FOR_EACH_FOLDED(i, sweep) {
        snprintf(part, sizeof part, "p%d", i);
        snprintf(total, sizeof total, "t%d", i);
        if (!folds_in_lanes(w)) {
            bti_c_fold(w, i, total, part);
            continue;
        }
        fold_lanes(w, i, 'p');
        broadcast_first_lane(w, i, 'p');
        bti_c_line(w, "if (sets == 1) %s = %s;", total, part);
        bti_c_open(w, "else if ((set & 31) == lane)");
        bti_c_fold(w, i, total, part);
        bti_c_close(w);
    }
}

static void write_totals(bti_c *w, int sweep) {
    bool any = false;
    FOR_EACH_FOLDED(i, sweep) {
        if (!folds_in_lanes(w)) break;
        if (!any) bti_c_open(w, "if (sets > 1)");
        any = true;
        fold_lanes(w, i, 't');
        broadcast_first_lane(w, i, 't');
    }
    if (any) bti_c_close(w);
    FOR_EACH_FOLDED(i, sweep) bti_c_total(w, i);
}

static void write_lines(bti_c *w, int sweep) {
    int last = last_reduced(w), piece = chunk_points(w);
    bti_c_open(w, "for (i64 number = 0, set = 0; number < lines; number++)");
    write_line_begin(w);
    bti_c_open(w, "for (i64 begin = 0; begin < W(%d); begin += %d, set++)", last, piece);
    bti_c_line(w, "const i64 end = least(W(%d), begin + %d);", last, piece);
    declare_accumulators(w, sweep, 'p');
    write_chunk(w, sweep);
    write_part_fold(w, sweep);
    bti_c_close(w);
    bti_c_close(w);
}

static void write_whole_entry(bti_c *w, bti_entry entry) {
    char text[200];
    bti_c_begin_entry(w, entry);
    bti_c_product(reduced_axes_but_last(w->kernel), text, sizeof text);
    bti_c_line(w, "const i64 lines = %s;", text);
    if (folds_in_lanes(w))
        bti_c_line(w, "const i64 sets = lines * ((W(%d) + %d) / %d);", last_reduced(w), BTI_ROW_CHUNK - 1,
                   BTI_ROW_CHUNK);
    place_kept_rows(w);
    bti_c_product(bti_kernel_kept_axes(w->kernel), text, sizeof text);
    bti_c_begin_units(w, text);
    bti_c_coordinates(w, bti_kernel_kept_axes(w->kernel));
    bti_c_places(w, "a", NULL, bti_kernel_kept_axes(w->kernel));
    write_fetches(w);
    write_row_values(w, 0);
    for (int sweep = 0; sweep < bti_kernel_sweeps(w->kernel); sweep++) {
        bti_kernel_needs(w->kernel, sweep, -1, w->needed);
        declare_accumulators(w, sweep, 't');
        write_lines(w, sweep);
        write_totals(w, sweep);
        write_row_values(w, sweep + 1);
    }
    write_row_outputs(w);
    bti_c_end_entry(w);
}

/* --- parts of rows and columns, and the totals of parts ------------------------------------------------------------- */

/* Number of a reduction among the reductions. */
static int reduction_number(const bti_c *w, int reduction) {
    int number = 0;
    for (int i = 0; i < reduction; i++) number += bti_instr_reduces(&w->kernel->instrs[i]);
    return number;
}

static void part_element(const bti_c *w, int reduction, const char *point, char *text, size_t size) {
    snprintf(text, size, "*(GLOBAL %s *)(parts + ((set * %d + %d) * kept_points + %s) * 8)",
             bti_c_accumulator(w, &w->kernel->instrs[reduction]), bti_entry_reductions(w->kernel),
             reduction_number(w, reduction), point);
}

/* Declares "parts", "kept_points", "chunks" (of a line) and "sets" (of the box). */
static void begin_parts_entry(bti_c *w, bti_entry entry) {
    char text[200];
    int piece = chunk_points(w);
    bti_c_begin_entry(w, entry);
    bti_c_line(w, "GLOBAL u8 *parts = ADDRESS(%d, %d);", w->places.address_count - 1, w->places.more);
    bti_c_product(reduced_axes_but_last(w->kernel), text, sizeof text);
    bti_c_line(w, "const i64 chunks = (W(%d) + %d) / %d, sets = chunks * %s;", last_reduced(w), piece - 1, piece, text);
    bti_c_product(bti_kernel_kept_axes(w->kernel), text, sizeof text);
    bti_c_line(w, "const i64 kept_points = %s;", text);
}

static void write_part_stores(bti_c *w) {
    char element[256];
    if (folds_in_lanes(w)) {
        FOR_EACH_FOLDED(i, 0) fold_lanes(w, i, 'p');
        bti_c_open(w, "if (lane == 0)");
    }
    FOR_EACH_FOLDED(i, 0) {
        part_element(w, i, "point", element, sizeof element);
        bti_c_line(w, "%s = p%d;", element, i);
    }
    if (folds_in_lanes(w)) bti_c_close(w);
}

static void write_part_entry(bti_c *w) {
    int last = last_reduced(w), piece = chunk_points(w);
    begin_parts_entry(w, BTI_ENTRY_PART);
    bti_c_begin_units(w, "sets * kept_points");
    bti_c_line(w, "const i64 set = divided(unit, kept_points), point = unit - set * kept_points;");
    bti_c_line(w, "const i64 number = divided(set, chunks), begin = (set - number * chunks) * %d;", piece);
    bti_c_line(w, "const i64 end = least(W(%d), begin + %d);", last, piece);
    bti_c_line(w, "rest = point;");
    bti_c_coordinates(w, bti_kernel_kept_axes(w->kernel));
    bti_c_places(w, "a", NULL, bti_kernel_kept_axes(w->kernel));
    bti_c_line(w, "rest = number;");
    bti_c_coordinates(w, reduced_axes_but_last(w->kernel));
    bti_c_places(w, "l", "a", reduced_axes_but_last(w->kernel));
    write_row_values(w, 0);
    bti_kernel_needs(w->kernel, 0, -1, w->needed);
    declare_accumulators(w, 0, 'p');
    write_chunk(w, 0);
    write_part_stores(w);
    bti_c_end_entry(w);
}

static void write_finish_entry(bti_c *w) {
    char element[256], total[16];
    begin_parts_entry(w, BTI_ENTRY_FINISH);
    bti_c_begin_units(w, "kept_points");
    declare_accumulators(w, 0, 't');
    bti_c_open(w, "for (i64 set = lane; set < sets; set += 32)");
    FOR_EACH_FOLDED(i, 0) {
        part_element(w, i, "unit", element, sizeof element);
        snprintf(total, sizeof total, "t%d", i);
        bti_c_fold(w, i, total, element);
    }
    bti_c_close(w);
    FOR_EACH_FOLDED(i, 0) {
        fold_lanes(w, i, 't');
        broadcast_first_lane(w, i, 't');
        bti_c_total(w, i);
    }
    bti_c_coordinates(w, bti_kernel_kept_axes(w->kernel));
    bti_c_places(w, "a", NULL, bti_kernel_kept_axes(w->kernel));
    write_row_values(w, 0);
    write_row_values(w, 1);
    write_row_outputs(w);
    bti_c_end_entry(w);
}

void bti_c_reduction(bti_c *w) {
    write_whole_entry(w, BTI_ENTRY_RUN);
    if (bti_entry_exists(w->kernel, BTI_ENTRY_KEPT)) write_whole_entry(w, BTI_ENTRY_KEPT);
    if (bti_entry_exists(w->kernel, BTI_ENTRY_PART)) {
        write_part_entry(w);
        write_finish_entry(w);
    }
}

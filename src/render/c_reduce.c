/* Reductions. A row is folded by 32 lanes, a kept point of columns by one thread, in the order of launch/entry.h: whole
 * (bti_run, bti_run_kept), or in parts (bti_part) that are folded later (bti_finish). */
#include <stdio.h>

#include "ir/dtype.h"
#include "render/c_writer.h"

/* 32 lanes fold a row; in columns each thread folds a kept point of its own. */
static bool folds_in_lanes(const bti_c *w) { return !w->kernel->inner; }

/* Declares "chunk", as bti_entry_chunk. */
static void declare_chunk(bti_c *w) {
    int64_t chunk = w->kernel->inner ? BTI_SHORT_COLUMN_CHUNK : BTI_SHORT_ROW_CHUNK, most = chunk * BTI_MOST_CHUNKS;
    int last = bti_c_last_reduced(w);
    char lines[200], points[200];
    if (w->target != BTI_CUDA_C) {
        bti_c_line(w, "const i64 chunk = %lld;", (long long)bti_kernel_chunk(w->kernel));
        return;
    }
    bti_c_line(w, "%si64 chunk = %lld * ((W(%d) + %lld) / %lld);", w->kernel->inner ? "" : "const ", (long long)chunk,
               last, (long long)most - 1, (long long)most);
    if (!w->kernel->inner) return;
    bti_c_product(bti_c_line_axes(w->kernel), lines, sizeof lines);
    bti_c_product(bti_kernel_kept_axes(w->kernel), points, sizeof points);
    bti_c_open(w, "if (W(%d) > %d)", last, BTI_WHOLE_COLUMN);
    bti_c_line(w, "while (chunk > %d && %s * ((W(%d) + chunk - 1) / chunk) * %s < %d) chunk >>= 1;",
               BTI_LEAST_COLUMN_CHUNK, lines, last, points, BTI_BUSY_PARTS);
    bti_c_close(w);
}

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
    if (bti_entry_is_wide_rows(w->entry)) {
        bti_c_rows_declare(w, sweep, prefix);
        return;
    }
    FOR_EACH_FOLDED(i, sweep)
    bti_c_line(w, "%s %c%d = %s;", bti_c_accumulator(w, &w->kernel->instrs[i]), prefix, i, bti_c_start(w, i));
}

/* --- points of a chunk ---------------------------------------------------------------------------------------------- */

static const char *loaded_type(const bti_c *w, int instr) {
    return bti_c_stored_type((bt_dtype)w->kernel->instrs[instr].dtype);
}

static bool loads_any(const bti_c *w) {
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (bti_c_is_loaded(w, i)) return true;
    return false;
}

/* How many points a thread loads before it uses the first: enough bytes in flight, without too much text. */
static int points_in_flight(const bti_c *w) {
    size_t bytes = 0;
    int values = 0, count = w->entry == BTI_ENTRY_PART ? 16 : 8; /* parts are few */
    for (int i = 0; i < w->kernel->instr_count; i++) {
        if (bti_c_is_loaded(w, i) && !bti_c_is_kept(w, i)) bytes += bt_dtype_size(bti_c_dtype(w, i));
        if (bti_c_is_point(w, i) && w->needed[i]) values += bti_c_cost(&w->kernel->instrs[i]);
    }
    while (count > 4 && (bytes == 0 || bytes * (size_t)count > 64)) count /= 2;
    while (count > 1 && values * count > 128) count /= 2;
    return count;
}

static void write_loads(bti_c *w) {
    char element[300];
    for (int i = 0; i < w->kernel->instr_count; i++) {
        if (!bti_c_is_loaded(w, i)) continue;
        if (bti_c_is_kept(w, i))
            snprintf(element, sizeof element, "kept%d[before + i]", bti_c_load_of(w, i));
        else if (w->kernel->instrs[i].op == BTI_OP_take) {
            bti_c_early_number(w, i, element, sizeof element);
            bti_c_row(w, i, element);
            bti_c_row_element(w, i, "l", bti_c_last_reduced(w), "i", element, sizeof element);
        } else
            bti_c_element(w, "l", w->kernel->instrs[i].arg[0], bti_c_last_reduced(w), "i", element, sizeof element);
        bti_c_line(w, "x%d[k] = %s;", i, element);
    }
}

static void write_uses(bti_c *w, int sweep) {
    char text[64], part[16], value[16];
    for (int i = 0; i < w->kernel->instr_count; i++) {
        if (!bti_c_is_point(w, i) || !w->needed[i]) continue;
        snprintf(text, sizeof text, "x%d[k]", i);
        bti_c_point_value(w, i, bti_c_is_loaded(w, i) ? text : NULL);
    }
    if (bti_c_holds_now(w)) {
        bti_c_stored(w, w->held, text, sizeof text);
        bti_c_line(w, "kept%d[before + i] = %s;", w->held_load, text);
    }
    FOR_EACH_FOLDED(i, sweep) {
        accumulator_name(part, 'p', i);
        accumulator_name(value, 'v', w->kernel->instrs[i].arg[0]);
        bti_c_fold(w, i, part, value);
    }
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++) {
        int stored = w->kernel->operands[o].value;
        if (bti_c_is_point(w, stored) && w->kernel->instrs[stored].stage == sweep)
            bti_c_output(w, o, "l", bti_c_last_reduced(w), "i");
    }
}

/* `count` points of the thread from "first" on. past_end: some of them may be past the end. */
static void write_batch(bti_c *w, int sweep, int count, bool past_end) {
    int spacing = w->kernel->inner ? 1 : 32;
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (bti_c_is_loaded(w, i)) bti_c_line(w, "%s x%d[%d];", loaded_type(w, i), i, count);
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

/* Where the last points of a chunk matter little: less text is compiled sooner. Short rows have bti_run_rows, and what is kept is near. */
static bool ends_point_by_point(const bti_c *w) {
    return w->target == BTI_CUDA_C && (w->entry == BTI_ENTRY_KEPT || bti_entry_exists(w->kernel, BTI_ENTRY_ROWS));
}

/* The thread's points between "begin" and "end" of the line. */
static void write_chunk(bti_c *w, int sweep) {
    int spacing = w->kernel->inner ? 1 : 32, count = points_in_flight(w);
    if (bti_entry_is_wide_rows(w->entry)) {
        bti_c_rows_chunk(w, sweep);
        return;
    }
    bti_c_line(w, "i64 first = begin%s;", w->kernel->inner ? "" : " + lane");
    bti_c_open(w, "for (; first + %d < end; first += %d)", (count - 1) * spacing, count * spacing);
    write_batch(w, sweep, count, false);
    bti_c_close(w);
    if (count == 1) return;
    bool loops = ends_point_by_point(w);
    bti_c_open(w, loops ? "for (; first < end; first += 32)" : "if (first < end)");
    write_batch(w, sweep, loops ? 1 : count, !loops);
    bti_c_close(w);
}

/* --- sweeps --------------------------------------------------------------------------------------------------------- */

/* A single part is the total. Of several parts, part number `set` is folded into lane set % 32. */
static void write_part_fold(bti_c *w, int sweep) {
    char part[16], total[16];
    if (bti_entry_is_wide_rows(w->entry)) {
        bti_c_rows_fold_part(w, sweep);
        return;
    }
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
    if (bti_entry_is_wide_rows(w->entry)) bti_c_rows_fold_totals(w, sweep);
    FOR_EACH_FOLDED(i, sweep) {
        if (!folds_in_lanes(w) || bti_entry_is_wide_rows(w->entry)) break;
        if (!any) bti_c_open(w, "if (sets > 1)");
        any = true;
        fold_lanes(w, i, 't');
        broadcast_first_lane(w, i, 't');
    }
    if (any) bti_c_close(w);
    FOR_EACH_FOLDED(i, sweep) bti_c_total(w, i);
}

/* "end" of the chunk; a thread without a row has no points. */
static void write_end(bti_c *w) {
    char extent[24];
    snprintf(extent, sizeof extent, "W(%d)", bti_c_last_reduced(w));
    bti_c_line(w, "const i64 end = least(%s, begin + chunk);", bti_entry_is_wide_rows(w->entry) ? "extent" : extent);
}

static void write_lines(bti_c *w, int sweep) {
    bti_c_open(w, "for (i64 number = 0, set = 0; number < lines; number++)");
    bti_c_line_begin(w);
    bti_c_open(w, "for (i64 begin = 0; begin < W(%d); begin += chunk, set++)", bti_c_last_reduced(w));
    write_end(w);
    declare_accumulators(w, sweep, 'p');
    write_chunk(w, sweep);
    write_part_fold(w, sweep);
    bti_c_close(w);
    bti_c_close(w);
}

static void write_whole_entry(bti_c *w, bti_entry entry) {
    char text[200];
    bti_c_begin_entry(w, entry);
    bti_c_product(bti_c_line_axes(w->kernel), text, sizeof text);
    bti_c_line(w, "const i64 lines = %s;", text);
    declare_chunk(w);
    if (folds_in_lanes(w))
        bti_c_line(w, "const i64 sets = lines * divided(W(%d) + chunk - 1, chunk);", bti_c_last_reduced(w));
    bti_c_hold(w);
    bti_c_place_kept(w);
    bti_c_product(bti_kernel_kept_axes(w->kernel), text, sizeof text);
    bti_c_begin_units(w, text);
    bti_c_coordinates(w, bti_kernel_kept_axes(w->kernel));
    bti_c_places(w, "a", NULL, bti_kernel_kept_axes(w->kernel));
    bti_c_fetch_kept(w);
    bti_c_row_values(w, 0);
    for (int sweep = 0; sweep < bti_kernel_sweeps(w->kernel); sweep++) {
        bti_c_begin_sweep(w, sweep);
        declare_accumulators(w, sweep, 't');
        write_lines(w, sweep);
        write_totals(w, sweep);
        bti_c_row_values(w, sweep + 1);
    }
    bti_c_row_outputs(w);
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
    bti_c_begin_entry(w, entry);
    bti_c_line(w, "GLOBAL u8 *parts = ADDRESS(%d, %d);", w->places.address_count - 1, w->places.more);
    bti_c_product(bti_c_line_axes(w->kernel), text, sizeof text);
    declare_chunk(w);
    bti_c_line(w, "const i64 chunks = divided(W(%d) + chunk - 1, chunk), sets = chunks * %s;", bti_c_last_reduced(w),
               text);
    bti_c_product(bti_kernel_kept_axes(w->kernel), text, sizeof text);
    bti_c_line(w, "const i64 kept_points = %s;", text);
}

static void write_part_stores(bti_c *w) {
    char element[256];
    if (bti_entry_is_wide_rows(w->entry)) {
        bti_c_rows_fold_part(w, 0);
        bti_c_open(w, "if (active && lane == 0)");
    } else if (folds_in_lanes(w)) {
        FOR_EACH_FOLDED(i, 0) fold_lanes(w, i, 'p');
        bti_c_open(w, "if (lane == 0)");
    }
    FOR_EACH_FOLDED(i, 0) {
        part_element(w, i, "point", element, sizeof element);
        bti_c_line(w, "%s = p%d;", element, i);
    }
    if (folds_in_lanes(w)) bti_c_close(w);
}

static void write_part_entry(bti_c *w, bti_entry entry) {
    begin_parts_entry(w, entry);
    bti_c_begin_units(w, "sets * kept_points");
    bti_c_line(w, "const i64 set = divided(unit, kept_points), point = unit - set * kept_points;");
    bti_c_line(w, "const i64 number = divided(set, chunks), begin = (set - number * chunks) * chunk;");
    write_end(w);
    bti_c_line(w, "rest = point;");
    bti_c_coordinates(w, bti_kernel_kept_axes(w->kernel));
    bti_c_places(w, "a", NULL, bti_kernel_kept_axes(w->kernel));
    bti_c_line(w, "rest = number;");
    bti_c_coordinates(w, bti_c_line_axes(w->kernel));
    bti_c_places(w, "l", "a", bti_c_line_axes(w->kernel));
    bti_c_row_values(w, 0);
    bti_c_hold(w);
    bti_c_begin_sweep(w, 0);
    declare_accumulators(w, 0, 'p');
    write_chunk(w, 0);
    write_part_stores(w);
    bti_c_end_entry(w);
}

/* Loads several parts before it uses the first. */
static void write_parts_of_lane(bti_c *w) {
    char element[256], total[16], part[16];
    const int count = 8;
    bti_c_open(w, "for (i64 first_set = lane; first_set < sets; first_set += lanes * %d)", count);
    FOR_EACH_FOLDED(i, 0)
    bti_c_line(w, "%s x%d[%d];", bti_c_accumulator(w, &w->kernel->instrs[i]), i, count);
    for (int use = 0; use < 2; use++) {
        bti_c_line(w, "UNROLL");
        bti_c_open(w, "for (i32 k = 0; k < %d; k++)", count);
        bti_c_line(w, "const i64 set = first_set + lanes * k;");
        bti_c_line(w, "if (set >= sets) continue;");
        FOR_EACH_FOLDED(i, 0) {
            part_element(w, i, "unit", element, sizeof element);
            snprintf(part, sizeof part, "x%d[k]", i);
            snprintf(total, sizeof total, "t%d", i);
            if (use)
                bti_c_fold(w, i, total, part);
            else
                bti_c_line(w, "%s = %s;", part, element);
        }
        bti_c_close(w);
    }
    bti_c_close(w);
}

/* The lanes of the group: first between sets of 32 threads, then in the first set. */
static void fold_lanes_of_group(bti_c *w, int reduction) {
    const char *type = bti_c_accumulator(w, &w->kernel->instrs[reduction]);
    char to[16];
    accumulator_name(to, 't', reduction);
    for (int within = 0; within < 2; within++) {
        bti_c_open(w, within ? "for (i32 by = 16; by >= across; by /= 2)"
                             : "for (i32 by = (i32)THREADS / 2; by >= 32; by /= 2)");
        bti_c_line(w, "%s(%s, other, %s, by);", within ? "FROM_FURTHER" : "FROM_FURTHER_OF_GROUP", type, to);
        bti_c_fold(w, reduction, to, "other");
        bti_c_close(w);
    }
}

static void write_finish_entry(bti_c *w) {
    begin_parts_entry(w, BTI_ENTRY_FINISH);
    bti_c_begin_units(w, "kept_points");
    declare_accumulators(w, 0, 't');
    write_parts_of_lane(w);
    FOR_EACH_FOLDED(i, 0) {
        fold_lanes_of_group(w, i);
        bti_c_total(w, i);
    }
    bti_c_coordinates(w, bti_kernel_kept_axes(w->kernel));
    bti_c_places(w, "a", NULL, bti_kernel_kept_axes(w->kernel));
    bti_c_row_values(w, 0);
    bti_c_row_values(w, 1);
    bti_c_row_outputs(w);
    bti_c_end_entry(w);
}

void bti_c_reduction(bti_c *w) {
    static const bti_entry whole[] = {BTI_ENTRY_RUN, BTI_ENTRY_KEPT, BTI_ENTRY_ROWS};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (bti_c_wants(w, whole[i])) write_whole_entry(w, whole[i]);
    bool part = bti_c_wants(w, BTI_ENTRY_PART), wide = bti_c_wants(w, BTI_ENTRY_PART_WIDE);
    if (part) write_part_entry(w, BTI_ENTRY_PART);
    if (wide) write_part_entry(w, BTI_ENTRY_PART_WIDE);
    if (part || wide) write_finish_entry(w);
}

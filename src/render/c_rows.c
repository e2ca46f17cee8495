/* Whole rows and columns. */
#include <stdio.h>

#include "ir/dtype.h"
#include "render/c_reduce_parts.h"

static bool in_lanes(const bti_c *w) { return !w->kernel->inner; }

/* --- what is kept in local memory ----------------------------------------------------------------------------------- */

static size_t kept_size(const bti_c *w, int instr) { return bt_dtype_size(bti_c_dtype(w, instr)); }

#define EACH_KEPT(i)                                 \
    for (int i = 0; i < w->kernel->instr_count; i++) \
        if (w->entry == BTI_ENTRY_KEPT && bti_entry_keeps(w->kernel, i))

/* The row's own memory: one load's points after the other's, each from 16 bytes on. */
static void place_kept(bti_c *w) {
    char points[160];
    bti_str before = {0};
    if (w->entry != BTI_ENTRY_KEPT) return;
    bti_c_product(((1u << w->kernel->reduced) - 1) << w->kernel->outer, points, sizeof points);
    bti_c_line(w, "const i64 points = %s;", points);
    EACH_KEPT(i) {
        bti_c_line(w, "const i64 at%d = 0%s;", i, bti_str_text(&before));
        bti_str_addf(&before, " + ((points * %zu + 15) & ~(i64)15)", kept_size(w, i));
    }
    bti_c_line(w, "LOCAL u8 *kept = dynamic + (THREAD / 32) * (0%s);", bti_str_text(&before));
    EACH_KEPT(i) {
        const char *type = bti_c_stored_type(bti_c_dtype(w, i));
        bti_c_line(w, "LOCAL %s *kept%d = (LOCAL %s *)(kept + at%d);", type, i, type, i);
    }
    w->text->failed |= before.failed;
    bti_str_free(&before);
}

static void begin_line(bti_c *w) {
    if (w->entry == BTI_ENTRY_KEPT)
        bti_c_line(w, w->kernel->reduced > 1 ? "const i64 before = number * W(%d);" : "const i64 before = 0;",
                   bti_c_last_reduced(w));
    if (w->kernel->reduced > 1) bti_c_line(w, "rest = number;");
    bti_c_coordinates(w, bti_c_line_axes(w->kernel));
    bti_c_places(w, "l", "a", bti_c_line_axes(w->kernel));
}

/* Lanes fetch what they themselves will read. */
static void keep(bti_c *w) {
    int last = bti_c_last_reduced(w);
    char step[32];
    if (w->entry != BTI_ENTRY_KEPT) return;
    bti_c_line(w, "FETCH_BEGIN();");
    bti_c_open(w, "for (i64 number = 0; number < lines; number++)");
    begin_line(w);
    EACH_KEPT(i) {
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

/* The only part is the total; of several, part number `set` goes into lane set % 32. */
static void fold_part(bti_c *w, int sweep) {
    char part[16], total[16];
    EACH_FOLDED(i, sweep) {
        snprintf(part, sizeof part, "p%d", i);
        snprintf(total, sizeof total, "t%d", i);
        if (!in_lanes(w)) {
            bti_c_fold(w, i, total, part);
            continue;
        }
        bti_c_halve(w, i, 'p');
        bti_c_from_first(w, i, 'p');
        bti_c_line(w, "if (sets == 1) %s = %s;", total, part);
        bti_c_open(w, "else if ((set & 31) == lane)");
        bti_c_fold(w, i, total, part);
        bti_c_close(w);
    }
}

static void totals(bti_c *w, int sweep) {
    bool any = false;
    EACH_FOLDED(i, sweep) {
        if (!in_lanes(w)) break;
        if (!any) bti_c_open(w, "if (sets > 1)");
        any = true;
        bti_c_halve(w, i, 't');
        bti_c_from_first(w, i, 't');
    }
    if (any) bti_c_close(w);
    EACH_FOLDED(i, sweep) bti_c_total(w, i);
}

static void lines(bti_c *w, int sweep) {
    int last = bti_c_last_reduced(w), piece = bti_c_chunk_points(w);
    bti_c_open(w, "for (i64 number = 0, set = 0; number < lines; number++)");
    begin_line(w);
    bti_c_open(w, "for (i64 begin = 0; begin < W(%d); begin += %d, set++)", last, piece);
    bti_c_line(w, "const i64 end = least(W(%d), begin + %d);", last, piece);
    bti_c_begin(w, sweep, 'p');
    bti_c_chunk(w, sweep);
    fold_part(w, sweep);
    bti_c_close(w);
    bti_c_close(w);
}

void bti_c_rows(bti_c *w, bti_entry entry) {
    char text[200];
    bti_c_begin_entry(w, entry);
    bti_c_product(bti_c_line_axes(w->kernel), text, sizeof text);
    bti_c_line(w, "const i64 lines = %s;", text);
    if (in_lanes(w))
        bti_c_line(w, "const i64 sets = lines * ((W(%d) + %d) / %d);", bti_c_last_reduced(w), BTI_ROW_CHUNK - 1,
                   BTI_ROW_CHUNK);
    place_kept(w);
    bti_c_product(bti_c_kept_axes(w->kernel), text, sizeof text);
    bti_c_begin_units(w, text);
    bti_c_coordinates(w, bti_c_kept_axes(w->kernel));
    bti_c_places(w, "a", NULL, bti_c_kept_axes(w->kernel));
    keep(w);
    bti_c_row_values(w, 0);
    for (int sweep = 0; sweep < bti_kernel_sweeps(w->kernel); sweep++) {
        bti_kernel_needs(w->kernel, sweep, w->needed);
        bti_c_begin(w, sweep, 't');
        lines(w, sweep);
        totals(w, sweep);
        bti_c_row_values(w, sweep + 1);
    }
    bti_c_row_outputs(w);
    bti_c_end_entry(w);
}

void bti_c_reduction(bti_c *w) {
    bti_c_rows(w, BTI_ENTRY_RUN);
    if (bti_entry_exists(w->kernel, BTI_ENTRY_KEPT)) bti_c_rows(w, BTI_ENTRY_KEPT);
    if (bti_entry_exists(w->kernel, BTI_ENTRY_PART)) bti_c_in_parts(w);
}

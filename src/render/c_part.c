/* Rows and columns in parts, and what becomes of those: bti_part and bti_finish. */
#include <stdio.h>

#include "render/c_reduce_parts.h"

static bool in_rows(const bti_c *w) { return !w->kernel->inner; }

/* Number of a reduction among them. */
static int number_of(const bti_c *w, int reduction) {
    int number = 0;
    for (int i = 0; i < reduction; i++) number += bti_c_reduces(&w->kernel->instrs[i]);
    return number;
}

static void element_of(const bti_c *w, int reduction, const char *point, char *text, size_t size) {
    snprintf(text, size, "*(GLOBAL %s *)(parts + ((set * %d + %d) * kept_points + %s) * 8)",
             bti_c_accumulator(w, &w->kernel->instrs[reduction]), bti_entry_reductions(w->kernel),
             number_of(w, reduction), point);
}

/* "parts", "kept_points", and of the box "chunks" of a line and "sets" of all. */
static void begin(bti_c *w, bti_entry entry) {
    char text[200];
    int piece = bti_c_chunk_points(w);
    bti_c_begin_entry(w, entry);
    bti_c_line(w, "GLOBAL u8 *parts = ADDRESS(%d, %d);", w->places.address_count - 1, w->places.more);
    bti_c_product(bti_c_line_axes(w->kernel), text, sizeof text);
    bti_c_line(w, "const i64 chunks = (W(%d) + %d) / %d, sets = chunks * %s;", bti_c_last_reduced(w), piece - 1, piece,
               text);
    bti_c_product(bti_c_kept_axes(w->kernel), text, sizeof text);
    bti_c_line(w, "const i64 kept_points = %s;", text);
}

static void store_parts(bti_c *w) {
    char element[256];
    if (in_rows(w)) {
        EACH_FOLDED(i, 0) bti_c_halve(w, i, 'p');
        bti_c_open(w, "if (lane == 0)");
    }
    EACH_FOLDED(i, 0) {
        element_of(w, i, "point", element, sizeof element);
        bti_c_line(w, "%s = p%d;", element, i);
    }
    if (in_rows(w)) bti_c_close(w);
}

static void part(bti_c *w) {
    int last = bti_c_last_reduced(w), piece = bti_c_chunk_points(w);
    begin(w, BTI_ENTRY_PART);
    bti_c_begin_units(w, "sets * kept_points");
    bti_c_line(w, "const i64 set = divided(unit, kept_points), point = unit - set * kept_points;");
    bti_c_line(w, "const i64 number = divided(set, chunks), begin = (set - number * chunks) * %d;", piece);
    bti_c_line(w, "const i64 end = least(W(%d), begin + %d);", last, piece);
    bti_c_line(w, "rest = point;");
    bti_c_coordinates(w, bti_c_kept_axes(w->kernel));
    bti_c_places(w, "a", NULL, bti_c_kept_axes(w->kernel));
    bti_c_line(w, "rest = number;");
    bti_c_coordinates(w, bti_c_line_axes(w->kernel));
    bti_c_places(w, "l", "a", bti_c_line_axes(w->kernel));
    bti_c_row_values(w, 0);
    bti_kernel_needs(w->kernel, 0, w->needed);
    bti_c_begin(w, 0, 'p');
    bti_c_chunk(w, 0);
    store_parts(w);
    bti_c_end_entry(w);
}

static void finish(bti_c *w) {
    char element[256], total[16];
    begin(w, BTI_ENTRY_FINISH);
    bti_c_begin_units(w, "kept_points");
    bti_c_begin(w, 0, 't');
    bti_c_open(w, "for (i64 set = lane; set < sets; set += 32)");
    EACH_FOLDED(i, 0) {
        element_of(w, i, "unit", element, sizeof element);
        snprintf(total, sizeof total, "t%d", i);
        bti_c_fold(w, i, total, element);
    }
    bti_c_close(w);
    EACH_FOLDED(i, 0) {
        bti_c_halve(w, i, 't');
        bti_c_from_first(w, i, 't');
        bti_c_total(w, i);
    }
    bti_c_coordinates(w, bti_c_kept_axes(w->kernel));
    bti_c_places(w, "a", NULL, bti_c_kept_axes(w->kernel));
    bti_c_row_values(w, 0);
    bti_c_row_values(w, 1);
    bti_c_row_outputs(w);
    bti_c_end_entry(w);
}

void bti_c_in_parts(bti_c *w) {
    part(w);
    finish(w);
}

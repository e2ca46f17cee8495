/* Maps: point by point, 16 bytes at a time, in pairs of random words, and in tiles: the entries of launch/entry.h. */
#include <stdio.h>

#include "render/c_writer.h"

/* A point whose coordinates have been computed. */
static void write_point(bti_c *w) {
    bti_c_places(w, "a", NULL, bti_kernel_all_axes(w->kernel));
    for (int i = 0; i < w->kernel->instr_count; i++) bti_c_instr(w, i, "a", -1, NULL);
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++) bti_c_output(w, o, "a", -1, NULL);
}

static void write_run_entry(bti_c *w) {
    char units[160];
    bti_c_begin_entry(w, BTI_ENTRY_RUN);
    bti_c_product(bti_kernel_all_axes(w->kernel), units, sizeof units);
    bti_c_begin_units(w, units);
    bti_c_coordinates(w, bti_kernel_all_axes(w->kernel));
    write_point(w);
    bti_c_end_entry(w);
}

/* Both words of a block are computed for a point of the first half of the line; the second word is used half a line further. */
static void write_pair_entry(bti_c *w) {
    char half[32];
    bti_c_begin_entry(w, BTI_ENTRY_PAIR);
    snprintf(half, sizeof half, "W(%d)", w->places.more);
    bti_c_begin_units(w, half);
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (bti_kernel_paired_word(w->kernel, i)) bti_c_line(w, "u64 both%d = 0;", i);
    bti_c_line(w, "UNROLL");
    bti_c_open(w, "for (i32 second = 0; second < 2; second++)");
    bti_c_line(w, "const i64 c0 = second ? rest + %s : rest;", half);
    write_point(w);
    bti_c_close(w);
    bti_c_end_entry(w);
}

/* --- 16 bytes at a time -------------------------------------------------------------------------------------------- */

static const char *stored_type(const bti_c *w, int operand) {
    return bti_c_stored_type((bt_dtype)w->kernel->operands[operand].dtype);
}

static void write_wide_loads(bti_c *w, int width) {
    char element[256];
    for (int i = 0; i < w->kernel->instr_count; i++) {
        const bti_instr *instr = &w->kernel->instrs[i];
        if (instr->op != BTI_OP_leaf) continue;
        int o = instr->arg[0];
        const char *type = stored_type(w, o), *wide = bti_c_wide_type(w, o);
        if (!w->kernel->operands[o].unit) {
            bti_c_element(w, "a", o, -1, NULL, element, sizeof element);
            bti_c_line(w, "const %s x%d = %s;", type, i, element);
            continue;
        }
        bti_c_line(w, "union { %s all; %s at[%d]; } x%d;", wide, type, width, i);
        bti_c_line(w, "if (full)");
        bti_c_line(w, "    x%d.all = *(GLOBAL %s *)a%d;", i, wide, o);
        bti_c_line(w, "else");
        bti_c_line(w, "    UNROLL for (i32 k = 0; k < %d; k++) x%d.at[k] = k < count ? ((GLOBAL %s *)a%d)[k] : 0;",
                   width, i, type, o);
    }
}

static void write_wide_stores(bti_c *w, int width) {
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++) {
        const char *type = stored_type(w, o), *wide = bti_c_wide_type(w, o);
        bti_c_line(w, "if (full)");
        bti_c_line(w, "    *(GLOBAL %s *)a%d = y%d.all;", wide, o, o);
        bti_c_line(w, "else");
        bti_c_line(w, "    UNROLL for (i32 k = 0; k < %d; k++) if (k < count) ((GLOBAL %s *)a%d)[k] = y%d.at[k];",
                   width, type, o, o);
    }
}

static void write_wide_values(bti_c *w, int width, int line) {
    char text[256];
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++)
        bti_c_line(w, "union { %s all; %s at[%d]; } y%d;", bti_c_wide_type(w, o), stored_type(w, o), width, o);
    bti_c_line(w, "UNROLL");
    bti_c_open(w, "for (i32 k = 0; k < %d; k++)", width);
    for (int i = 0; i < w->kernel->instr_count; i++) {
        const bti_instr *instr = &w->kernel->instrs[i];
        if (instr->op == BTI_OP_leaf) {
            snprintf(text, sizeof text, w->kernel->operands[instr->arg[0]].unit ? "x%d.at[k]" : "x%d", i);
            bti_c_loaded(w, i, text);
        } else
            bti_c_instr(w, i, "a", line, "k");
    }
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++) {
        bti_c_stored(w, w->kernel->operands[o].value, text, sizeof text);
        bti_c_line(w, "y%d.at[k] = %s;", o, text);
    }
    bti_c_close(w);
}

static void write_wide_entry(bti_c *w) {
    int line = bti_kernel_line(w->kernel), width = bti_entry_width(w->kernel);
    char lines[160], units[200];
    bti_c_begin_entry(w, BTI_ENTRY_WIDE);
    bti_c_product((1u << line) - 1, lines, sizeof lines);
    bti_c_line(w, "const i64 pieces = (W(%d) + %d) / %d;", line, width - 1, width);
    snprintf(units, sizeof units, "pieces * %s", lines);
    bti_c_begin_units(w, units);
    if (line) {
        bti_c_line(w, "const i64 before = divided(rest, pieces), c%d = (rest - before * pieces) * %d;", line, width);
        bti_c_line(w, "rest = before;");
    } else
        bti_c_line(w, "const i64 c0 = rest * %d;", width);
    bti_c_coordinates(w, (1u << line) - 1);
    bti_c_line(w, "const i32 count = (i32)least(%d, W(%d) - c%d), full = count == %d;", width, line, line, width);
    bti_c_places(w, "a", NULL, bti_kernel_all_axes(w->kernel));
    write_wide_loads(w, width);
    write_wide_values(w, width, line);
    write_wide_stores(w, width);
    bti_c_end_entry(w);
}

/* --- tiles ---------------------------------------------------------------------------------------------------------- */

/* Maps with operands that are strided on the innermost axis and contiguous on the axis before it. Tiles of both axes go through
 * local memory, so that these operands too are read and written in the order of memory. */
#define TILE_POINTS_PER_THREAD (BTI_TILE * BTI_TILE / BTI_GROUP)

/* Copies a tile of an operand between memory and local memory. Consecutive threads take consecutive elements of memory. */
static void write_tile_copy(bti_c *w, int operand, bool stores) {
    const char *type = bti_c_stored_type((bt_dtype)w->kernel->operands[operand].dtype);
    int line = bti_kernel_line(w->kernel), along = w->places.stride[operand][line],
        across = w->places.stride[operand][line - 1];
    bti_c_line(w, "UNROLL");
    bti_c_open(w, "for (i32 k = 0; k < %d; k++)", TILE_POINTS_PER_THREAD);
    bti_c_line(w, "const i32 slow = (i32)(THREAD / 32) + %d * k, fast = (i32)(THREAD & 31);", BTI_GROUP / 32);
    bti_c_line(w, "const i32 row = crossed%d ? fast : slow, column = crossed%d ? slow : fast;", operand, operand);
    bti_c_line(w, "if (c%d + row >= W(%d) || c%d + column >= W(%d)) continue;", line - 1, line - 1, line, line);
    char element[160], tile[64];
    snprintf(element, sizeof element, "*(GLOBAL %s *)(a%d + row * W(%d) + column * W(%d))", type, operand, across,
             along);
    snprintf(tile, sizeof tile, "tile%d[column * %d + row]", operand, BTI_TILE + 1);
    bti_c_line(w, "%s = %s;", stores ? element : tile, stores ? tile : element);
    bti_c_close(w);
}

static void write_tile_addresses(bti_c *w) {
    const bti_kernel *kernel = w->kernel;
    int line = bti_kernel_line(w->kernel);
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        const bti_kernel_operand *operand = &kernel->operands[o];
        bti_str text = {0};
        if (bti_kernel_may_cross(kernel, o)) continue;
        bti_str_addf(&text, operand->index ? "const i64 e%d = a%d" : "GLOBAL u8 *e%d = a%d", o, o);
        if (w->places.stride[o][line - 1] >= 0) bti_str_addf(&text, " + row * W(%d)", w->places.stride[o][line - 1]);
        if (w->places.stride[o][line] >= 0) bti_str_addf(&text, " + column * W(%d)", w->places.stride[o][line]);
        bti_c_line(w, "%s;", bti_str_text(&text));
        w->text->failed |= text.failed;
        bti_str_free(&text);
    }
}

static void write_tile_points(bti_c *w) {
    const bti_kernel *kernel = w->kernel;
    int line = bti_kernel_line(w->kernel);
    char text[256];
    bti_c_line(w, "UNROLL");
    bti_c_open(w, "for (i32 k = 0; k < %d; k++)", TILE_POINTS_PER_THREAD);
    bti_c_line(w, "const i32 row = (i32)(THREAD / 32) + %d * k, column = (i32)(THREAD & 31);", BTI_GROUP / 32);
    bti_c_line(w, "if (c%d + row >= W(%d) || c%d + column >= W(%d)) continue;", line - 1, line - 1, line, line);
    write_tile_addresses(w);
    for (int i = 0; i < kernel->instr_count; i++) {
        const bti_instr *instr = &kernel->instrs[i];
        if (instr->op == BTI_OP_leaf && bti_kernel_may_cross(kernel, instr->arg[0])) {
            snprintf(text, sizeof text, "tile%d[column * %d + row]", instr->arg[0], BTI_TILE + 1);
            bti_c_loaded(w, i, text);
        } else
            bti_c_instr(w, i, "e", -1, NULL);
    }
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++) {
        if (!bti_kernel_may_cross(kernel, o)) {
            bti_c_output(w, o, "e", -1, NULL);
            continue;
        }
        bti_c_stored(w, kernel->operands[o].value, text, sizeof text);
        bti_c_line(w, "tile%d[column * %d + row] = %s;", o, BTI_TILE + 1, text);
    }
    bti_c_close(w);
}

static void declare_tiles(bti_c *w) {
    for (int o = 0; o < bti_kernel_operands(w->kernel); o++) {
        size_t size = bt_dtype_size((bt_dtype)w->kernel->operands[o].dtype);
        if (!bti_kernel_may_cross(w->kernel, o)) continue;
        bti_c_line(w, "LOCAL_ARRAY %s tile%d[%d];", bti_c_stored_type((bt_dtype)w->kernel->operands[o].dtype), o,
                   BTI_TILE * (BTI_TILE + 1));
        bti_c_line(w, "const i32 crossed%d = W(%d) != %zu;", o, w->places.stride[o][bti_kernel_line(w->kernel)], size);
    }
}

/* The coordinates of the last two axes are those of the tile's first point. */
static void write_tile_coordinates(bti_c *w) {
    int line = bti_kernel_line(w->kernel);
    bti_c_line(w, "const i64 above = divided(rest, across), c%d = (rest - above * across) * %d;", line, BTI_TILE);
    bti_c_line(w, "rest = divided(above, down);");
    bti_c_line(w, "const i64 c%d = (above - rest * down) * %d;", line - 1, BTI_TILE);
    bti_c_coordinates(w, (1u << (line - 1)) - 1);
    bti_c_places(w, "a", NULL, bti_kernel_all_axes(w->kernel));
}

static void write_tiled_entry(bti_c *w) {
    char planes[160], units[200];
    int line = bti_kernel_line(w->kernel);
    bti_c_begin_entry(w, BTI_ENTRY_TILED);
    declare_tiles(w);
    bti_c_line(w, "const i64 down = (W(%d) + %d) / %d, across = (W(%d) + %d) / %d;", line - 1, BTI_TILE - 1, BTI_TILE,
               line, BTI_TILE - 1, BTI_TILE);
    bti_c_product((1u << (line - 1)) - 1, planes, sizeof planes);
    snprintf(units, sizeof units, "down * across * %s", planes);
    bti_c_begin_units(w, units);
    write_tile_coordinates(w);
    for (int o = 0; o < w->kernel->input_count; o++)
        if (bti_kernel_may_cross(w->kernel, o)) write_tile_copy(w, o, false);
    bti_c_line(w, "BARRIER();");
    write_tile_points(w);
    bti_c_line(w, "BARRIER();");
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++)
        if (bti_kernel_may_cross(w->kernel, o)) write_tile_copy(w, o, true);
    bti_c_end_entry(w);
}

/* --- all entries ---------------------------------------------------------------------------------------------------- */

void bti_c_map(bti_c *w) {
    write_run_entry(w);
    if (bti_entry_exists(w->kernel, BTI_ENTRY_WIDE)) write_wide_entry(w);
    if (bti_entry_exists(w->kernel, BTI_ENTRY_PAIR)) write_pair_entry(w);
    if (bti_entry_exists(w->kernel, BTI_ENTRY_TILED)) write_tiled_entry(w);
}

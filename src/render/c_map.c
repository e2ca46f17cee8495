/* Maps: point by point, 16 bytes at a time, and in tiles: the entries of launch/entry.h. */
#include <stdio.h>

#include "render/c_writer.h"

static void write_run_entry(bti_c *w, bti_entry entry) {
    char units[160];
    bti_c_begin_entry(w, entry);
    bti_c_product(bti_kernel_all_axes(w->kernel), units, sizeof units);
    bti_c_begin_units(w, units);
    bti_c_coordinates(w, bti_kernel_all_axes(w->kernel));
    bti_c_places(w, "a", NULL, bti_kernel_all_axes(w->kernel));
    for (int i = 0; i < w->kernel->instr_count; i++) bti_c_instr(w, i, "a", -1, NULL);
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++) bti_c_output(w, o, "a", -1, NULL);
    bti_c_end_entry(w);
}

/* --- 16 bytes at a time -------------------------------------------------------------------------------------------- */

static const char *stored_type(const bti_c *w, int operand) {
    return bti_c_stored_type((bt_dtype)w->kernel->operands[operand].dtype);
}

/* Whether an instruction loads a number or a scalar that is the same along the line. */
static bool is_same_along_line(const bti_c *w, int instr) {
    const bti_instr *of = &w->kernel->instrs[instr];
    if (of->op == BTI_OP_const) return true;
    return of->op == BTI_OP_leaf && !(w->kernel->operands[of->arg[0]].moves >> bti_kernel_line(w->kernel) & 1);
}

/* Pieces of rows whose number is known before the points of a piece are computed. */
static bool is_taken_wide(const bti_c *w, int instr) {
    const bti_instr *take = &w->kernel->instrs[instr];
    return take->op == BTI_OP_take && w->kernel->operands[take->attr].unit && is_same_along_line(w, take->arg[0]);
}

static void write_wide_take(bti_c *w, int instr, int width) {
    const bti_instr *take = &w->kernel->instrs[instr];
    const char *type = stored_type(w, take->attr), *wide = bti_c_wide_type(w, take->attr);
    char number[24], element[300];
    snprintf(number, sizeof number, w->kernel->instrs[take->arg[0]].op == BTI_OP_const ? "v%d" : "x%d", take->arg[0]);
    bti_c_row(w, instr, number);
    bti_c_row_element(w, instr, "a", bti_kernel_line(w->kernel), "k", element, sizeof element);
    bti_c_line(w, "union { %s all; %s at[%d]; } x%d;", wide, type, width, instr);
    bti_c_line(w, "if (full && row%d >= 0)", instr);
    bti_c_line(w, "    x%d.all = *(GLOBAL %s *)(a%d + row%d * v%d);", instr, wide, take->attr, instr, take->arg[2]);
    bti_c_line(w, "else");
    bti_c_line(w, "    UNROLL for (i32 k = 0; k < %d; k++) x%d.at[k] = k < count ? %s : 0;", width, instr, element);
}

static void write_wide_loads(bti_c *w, int width) {
    char element[256];
    for (int i = 0; i < w->kernel->instr_count; i++) {
        const bti_instr *instr = &w->kernel->instrs[i];
        if (is_taken_wide(w, i)) write_wide_take(w, i, width);
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
        } else if (is_taken_wide(w, i)) {
            snprintf(text, sizeof text, "x%d.at[k]", i);
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

static void write_wide_entry(bti_c *w, bti_entry entry) {
    int line = bti_kernel_line(w->kernel), width = bti_entry_width(w->kernel);
    char lines[160], units[200];
    bti_c_begin_entry(w, entry);
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
 * local memory, so that these operands too are read and written in the order of memory. Thread (slow, fast) takes the elements
 * (slow + k * pace, fast) of a tile, whose fast axis is that of memory; all that it loads is on its way before it uses the first. */
static int tile_pace(const bti_c *w) { return BTI_GROUP / bti_entry_tile(w->kernel); }
static int tile_points(const bti_c *w) { return bti_entry_tile(w->kernel) / tile_pace(w); }

static void open_tile_elements(bti_c *w, int count) {
    bti_c_line(w, "UNROLL");
    bti_c_open(w, "for (i32 k = 0; k < %d; k++)", count);
}

/* Copies a tile of an operand between memory and local memory. */
static void write_tile_copy(bti_c *w, int operand, bool stores) {
    const char *type = stored_type(w, operand);
    const int line = bti_kernel_line(w->kernel), pace = tile_pace(w);
    const int pitch = bti_entry_tile_pitch(w->kernel, operand);
    const int along = w->places.stride[operand][line], across = w->places.stride[operand][line - 1];
    bti_c_line(w, "{");
    w->depth++;
    bti_c_line(w, "const i64 fast_stride = crossed%d ? W(%d) : W(%d), slow_stride = crossed%d ? W(%d) : W(%d);",
               operand, across, along, operand, along, across);
    bti_c_line(w, "const i32 at = crossed%d ? slow * %d + fast : fast * %d + slow, step = crossed%d ? %d : %d;",
               operand, pitch, pitch, operand, pace * pitch, pace);
    bti_c_line(w, "const i32 extent = crossed%d ? columns : rows, inside = fast < (crossed%d ? rows : columns);",
               operand, operand);
    bti_c_line(w, "const i32 end = inside ? extent - slow : 0;");
    bti_c_line(w, "GLOBAL u8 *p = a%d + fast * fast_stride + slow * slow_stride;", operand);
    if (!stores) bti_c_line(w, "%s x[%d];", type, tile_points(w));
    open_tile_elements(w, tile_points(w));
    if (stores)
        bti_c_line(w, "if (%d * k < end) *(GLOBAL %s *)(p + k * (%d * slow_stride)) = tile%d[at + k * step];", pace,
                   type, pace, operand);
    else
        bti_c_line(w, "x[k] = %d * k < end ? *(GLOBAL %s *)(p + k * (%d * slow_stride)) : 0;", pace, type, pace);
    bti_c_close(w);
    if (!stores) {
        open_tile_elements(w, tile_points(w));
        bti_c_line(w, "tile%d[at + k * step] = x[k];", operand);
        bti_c_close(w);
    }
    bti_c_close(w);
}

/* d<operand>: the thread's first point, of operands that lie in no tile; s<operand>: from one of its points to the next. */
static void write_tile_addresses(bti_c *w) {
    int line = bti_kernel_line(w->kernel);
    for (int o = 0; o < bti_kernel_operands(w->kernel); o++) {
        int along = w->places.stride[o][line], across = w->places.stride[o][line - 1];
        bti_str text = {0};
        if (bti_kernel_may_cross(w->kernel, o)) continue;
        bti_str_addf(&text, w->kernel->operands[o].index ? "const i64 d%d = a%d" : "GLOBAL u8 *d%d = a%d", o, o);
        if (across >= 0) bti_str_addf(&text, " + slow * W(%d)", across);
        if (along >= 0) bti_str_addf(&text, " + fast * W(%d)", along);
        bti_c_line(w, "%s;", bti_str_text(&text));
        if (across >= 0) bti_c_line(w, "const i64 s%d = %d * W(%d);", o, tile_pace(w), across);
        w->text->failed |= text.failed;
        bti_str_free(&text);
    }
}

/* e<operand>: of a point; of what is loaded, or else of indices, rows that are taken and outputs. */
static void write_tile_element_addresses(bti_c *w, bool loaded) {
    int line = bti_kernel_line(w->kernel);
    for (int o = 0; o < bti_kernel_operands(w->kernel); o++) {
        bool index = w->kernel->operands[o].index, moves = w->places.stride[o][line - 1] >= 0;
        bool early = o < w->kernel->input_count && !index && !w->kernel->operands[o].taken;
        char step[40] = "";
        if (bti_kernel_may_cross(w->kernel, o) || early != loaded) continue;
        if (moves) snprintf(step, sizeof step, " + (first + k) * s%d", o);
        bti_c_line(w, "%se%d = d%d%s;", index ? "const i64 " : "GLOBAL u8 *", o, o, step);
    }
}

static bool is_loaded_outside(const bti_c *w, int instr) {
    return w->kernel->instrs[instr].op == BTI_OP_leaf &&
           !bti_kernel_may_cross(w->kernel, w->kernel->instrs[instr].arg[0]);
}

/* How many points of a thread are loaded at once: 64 bytes at most. */
static int tile_batch(const bti_c *w) {
    size_t bytes = 0;
    int count = tile_points(w);
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (is_loaded_outside(w, i)) bytes += bt_dtype_size((bt_dtype)w->kernel->instrs[i].dtype);
    while (count > 1 && bytes * (size_t)count > 64) count /= 2;
    return count;
}

static void write_tile_loads(bti_c *w, int batch) {
    char element[256];
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (is_loaded_outside(w, i))
            bti_c_line(w, "%s x%d[%d];", stored_type(w, w->kernel->instrs[i].arg[0]), i, batch);
    open_tile_elements(w, batch);
    bti_c_line(w, "if (%d * (first + k) >= end) continue;", tile_pace(w));
    write_tile_element_addresses(w, true);
    for (int i = 0; i < w->kernel->instr_count; i++) {
        if (!is_loaded_outside(w, i)) continue;
        bti_c_element(w, "e", w->kernel->instrs[i].arg[0], -1, NULL, element, sizeof element);
        bti_c_line(w, "x%d[k] = %s;", i, element);
    }
    bti_c_close(w);
}

static void write_tile_values(bti_c *w, int batch) {
    const bti_kernel *kernel = w->kernel;
    char text[256];
    open_tile_elements(w, batch);
    bti_c_line(w, "if (%d * (first + k) >= end) continue;", tile_pace(w));
    write_tile_element_addresses(w, false);
    for (int i = 0; i < kernel->instr_count; i++) {
        int o = kernel->instrs[i].arg[0];
        if (is_loaded_outside(w, i)) {
            snprintf(text, sizeof text, "x%d[k]", i);
            bti_c_loaded(w, i, text);
        } else if (kernel->instrs[i].op == BTI_OP_leaf) {
            snprintf(text, sizeof text, "tile%d[fast * %d + slow + %d * (first + k)]", o,
                     bti_entry_tile_pitch(kernel, o), tile_pace(w));
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
        bti_c_line(w, "tile%d[fast * %d + slow + %d * (first + k)] = %s;", o, bti_entry_tile_pitch(kernel, o),
                   tile_pace(w), text);
    }
    bti_c_close(w);
}

/* What lies in no tile is on its way before the tiles are there, if it is loaded at once. */
static void write_tile_points(bti_c *w) {
    int batch = tile_batch(w);
    bool at_once = batch == tile_points(w);
    bti_c_line(w, "const i32 end = fast < columns ? rows - slow : 0;");
    write_tile_addresses(w);
    if (at_once) {
        bti_c_line(w, "const i32 first = 0;");
        write_tile_loads(w, batch);
    }
    bti_c_line(w, "BARRIER();");
    if (!at_once) {
        bti_c_open(w, "for (i32 first = 0; first < %d; first += %d)", tile_points(w), batch);
        write_tile_loads(w, batch);
    }
    write_tile_values(w, batch);
    if (!at_once) bti_c_close(w);
}

static void declare_tiles(bti_c *w) {
    int tile = bti_entry_tile(w->kernel);
    for (int o = 0; o < bti_kernel_operands(w->kernel); o++) {
        size_t size = bt_dtype_size((bt_dtype)w->kernel->operands[o].dtype);
        if (!bti_kernel_may_cross(w->kernel, o)) continue;
        bti_c_line(w, "LOCAL_ARRAY %s tile%d[%d];", stored_type(w, o), o, tile * bti_entry_tile_pitch(w->kernel, o));
        bti_c_line(w, "const i32 crossed%d = W(%d) != %zu;", o, w->places.stride[o][bti_kernel_line(w->kernel)], size);
    }
    bti_c_line(w, "const i32 slow = (i32)(THREAD / %d), fast = (i32)(THREAD & %d);", tile, tile - 1);
}

/* Whether an array is read both along and across its lines (x + x.T), as far as addresses tell. False: there are no two inputs that could be
 * one. */
static bool write_is_mirrored(bti_c *w) {
    const bti_kernel *kernel = w->kernel;
    bti_str text = {0};
    for (int o = 0; o < kernel->input_count; o++)
        for (int other = 0; other < kernel->input_count && bti_kernel_may_cross(kernel, o); other++) {
            const bti_kernel_operand *of = &kernel->operands[other];
            if (other == o || of->index || of->taken || of->dtype != kernel->operands[o].dtype) continue;
            bti_str_addf(&text, "%sW(%d) == W(%d)", text.length ? " || " : "", w->places.address[o],
                         w->places.address[other]);
        }
    bool any = text.length;
    if (any) bti_c_line(w, "const i32 mirrored = down == across && (%s);", bti_str_text(&text));
    w->text->failed |= text.failed;
    bti_str_free(&text);
    return any;
}

/* The tiles of a square in the order of their larger coordinate, each beside the one across the diagonal: what they share is read from memory
 * once. */
static void write_mirrored_order(bti_c *w) {
    bti_c_open(w, "if (mirrored)");
    bti_c_line(w, "const i64 number = tile_down * across + tile_across;");
    bti_c_line(w, "i64 larger = (i64)sqrt((f32)number);");
    bti_c_line(w, "for (; larger * larger > number;) larger--;");
    bti_c_line(w, "for (; (larger + 1) * (larger + 1) <= number;) larger++;");
    bti_c_line(w, "const i64 of = number - larger * larger;");
    bti_c_line(w, "tile_down = of & 1 ? of >> 1 : larger, tile_across = of & 1 ? larger : of >> 1;");
    bti_c_close(w);
}

/* The coordinates of the last two axes are those of the tile's first point. */
static void write_tile_coordinates(bti_c *w, bool may_be_mirrored) {
    int line = bti_kernel_line(w->kernel), tile = bti_entry_tile(w->kernel);
    bti_c_line(w, "const i64 above = divided(rest, across);");
    bti_c_line(w, "i64 tile_across = rest - above * across;");
    bti_c_line(w, "rest = divided(above, down);");
    bti_c_line(w, "i64 tile_down = above - rest * down;");
    if (may_be_mirrored) write_mirrored_order(w);
    bti_c_line(w, "const i64 c%d = tile_across * %d, c%d = tile_down * %d;", line, tile, line - 1, tile);
    bti_c_line(w, "const i32 rows = (i32)least(%d, W(%d) - c%d), columns = (i32)least(%d, W(%d) - c%d);", tile,
               line - 1, line - 1, tile, line, line);
    bti_c_coordinates(w, (1u << (line - 1)) - 1);
    bti_c_places(w, "a", NULL, bti_kernel_all_axes(w->kernel));
}

static void write_tiled_entry(bti_c *w) {
    char planes[160], units[200];
    int line = bti_kernel_line(w->kernel), tile = bti_entry_tile(w->kernel);
    bti_c_begin_entry(w, BTI_ENTRY_TILED);
    declare_tiles(w);
    bti_c_line(w, "const i64 down = (W(%d) + %d) / %d, across = (W(%d) + %d) / %d;", line - 1, tile - 1, tile, line,
               tile - 1, tile);
    bti_c_product((1u << (line - 1)) - 1, planes, sizeof planes);
    snprintf(units, sizeof units, "down * across * %s", planes);
    bool may_be_mirrored = write_is_mirrored(w);
    bti_c_begin_units(w, units);
    write_tile_coordinates(w, may_be_mirrored);
    for (int o = 0; o < w->kernel->input_count; o++)
        if (bti_kernel_may_cross(w->kernel, o)) write_tile_copy(w, o, false);
    write_tile_points(w);
    bti_c_line(w, "BARRIER();");
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++)
        if (bti_kernel_may_cross(w->kernel, o)) write_tile_copy(w, o, true);
    bti_c_end_entry(w);
}

/* --- all entries ---------------------------------------------------------------------------------------------------- */

void bti_c_map(bti_c *w) {
    if (bti_c_wants(w, BTI_ENTRY_RUN)) write_run_entry(w, BTI_ENTRY_RUN);
    if (bti_c_wants(w, BTI_ENTRY_WIDE)) write_wide_entry(w, BTI_ENTRY_WIDE);
    if (bti_c_wants(w, BTI_ENTRY_TILED)) write_tiled_entry(w);
}

void bti_c_map_of_boxes(bti_c *w) {
    write_run_entry(w, BTI_ENTRY_BOXES);
    if (bti_entry_exists(w->kernel, BTI_ENTRY_WIDE)) write_wide_entry(w, BTI_ENTRY_BOXES_WIDE);
}

/* Maps with operands that leap along the line and go by one element along the axis before it: tiles of both axes go through
 * local memory, so that such operands too are read and written along memory. */
#include <stdio.h>

#include "render/c_parts.h"

#define ROUNDS (BTI_TILE * BTI_TILE / BTI_GROUP) /* points of a thread */

static int line_of(const bti_c *w) { return bti_kernel_axes(w->kernel) - 1; }

/* "e<operand>" at row and column of a tile, in the order that memory has: "i" counts up with the thread. */
static void move_tile(bti_c *w, int operand, bool stores) {
    const char *type = bti_c_stored_type((bt_dtype)w->kernel->operands[operand].dtype);
    int line = line_of(w), along = w->places.stride[operand][line], across = w->places.stride[operand][line - 1];
    bti_c_line(w, "UNROLL");
    bti_c_open(w, "for (i32 k = 0; k < %d; k++)", ROUNDS);
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

static void place_points(bti_c *w) {
    const bti_kernel *kernel = w->kernel;
    int line = line_of(w);
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        const bti_kernel_operand *operand = &kernel->operands[o];
        bti_str text = {0};
        if (bti_entry_tiled(kernel, o)) continue;
        bti_str_addf(&text, operand->index ? "const i64 e%d = a%d" : "GLOBAL u8 *e%d = a%d", o, o);
        if (w->places.stride[o][line - 1] >= 0) bti_str_addf(&text, " + row * W(%d)", w->places.stride[o][line - 1]);
        if (w->places.stride[o][line] >= 0) bti_str_addf(&text, " + column * W(%d)", w->places.stride[o][line]);
        bti_c_line(w, "%s;", bti_str_text(&text));
        w->text->failed |= text.failed;
        bti_str_free(&text);
    }
}

static void points(bti_c *w) {
    const bti_kernel *kernel = w->kernel;
    int line = line_of(w);
    char text[256];
    bti_c_line(w, "UNROLL");
    bti_c_open(w, "for (i32 k = 0; k < %d; k++)", ROUNDS);
    bti_c_line(w, "const i32 row = (i32)(THREAD / 32) + %d * k, column = (i32)(THREAD & 31);", BTI_GROUP / 32);
    bti_c_line(w, "if (c%d + row >= W(%d) || c%d + column >= W(%d)) continue;", line - 1, line - 1, line, line);
    place_points(w);
    for (int i = 0; i < kernel->instr_count; i++) {
        const bti_instr *instr = &kernel->instrs[i];
        if (instr->op == BTI_OP_leaf && bti_entry_tiled(kernel, instr->arg[0])) {
            snprintf(text, sizeof text, "tile%d[column * %d + row]", instr->arg[0], BTI_TILE + 1);
            bti_c_loaded(w, i, text);
        } else
            bti_c_instr(w, i, "e", -1, NULL);
    }
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++) {
        if (!bti_entry_tiled(kernel, o)) {
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
        if (!bti_entry_tiled(w->kernel, o)) continue;
        bti_c_line(w, "LOCAL_ARRAY %s tile%d[%d];", bti_c_stored_type((bt_dtype)w->kernel->operands[o].dtype), o,
                   BTI_TILE * (BTI_TILE + 1));
        bti_c_line(w, "const i32 crossed%d = W(%d) != %zu;", o, w->places.stride[o][line_of(w)], size);
    }
}

/* c of the last two axes: of the tile's first point. */
static void place_tile(bti_c *w) {
    int line = line_of(w);
    bti_c_line(w, "const i64 above = divided(rest, across), c%d = (rest - above * across) * %d;", line, BTI_TILE);
    bti_c_line(w, "rest = divided(above, down);");
    bti_c_line(w, "const i64 c%d = (above - rest * down) * %d;", line - 1, BTI_TILE);
    bti_c_coordinates(w, (1u << (line - 1)) - 1);
    bti_c_places(w, "a", NULL, (1u << bti_kernel_axes(w->kernel)) - 1);
}

void bti_c_tiled_map(bti_c *w) {
    char planes[160], units[200];
    int line = bti_kernel_axes(w->kernel) - 1;
    bti_c_begin_entry(w, BTI_ENTRY_TILED);
    declare_tiles(w);
    bti_c_line(w, "const i64 down = (W(%d) + %d) / %d, across = (W(%d) + %d) / %d;", line - 1, BTI_TILE - 1, BTI_TILE,
               line, BTI_TILE - 1, BTI_TILE);
    bti_c_product((1u << (line - 1)) - 1, planes, sizeof planes);
    snprintf(units, sizeof units, "down * across * %s", planes);
    bti_c_begin_units(w, units);
    place_tile(w);
    for (int o = 0; o < w->kernel->input_count; o++)
        if (bti_entry_tiled(w->kernel, o)) move_tile(w, o, false);
    bti_c_line(w, "BARRIER();");
    points(w);
    bti_c_line(w, "BARRIER();");
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++)
        if (bti_entry_tiled(w->kernel, o)) move_tile(w, o, true);
    bti_c_end_entry(w);
}

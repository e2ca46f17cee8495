/* Maps: point by point, 16 bytes at a time, and in pairs of random words. */
#include <stdio.h>

#include "render/c_parts.h"

static unsigned axes_of(const bti_kernel *kernel) { return (1u << bti_kernel_axes(kernel)) - 1; }

/* A point whose coordinates are known. */
static void point(bti_c *w) {
    bti_c_places(w, "a", NULL, axes_of(w->kernel));
    for (int i = 0; i < w->kernel->instr_count; i++) bti_c_instr(w, i, "a", -1, NULL);
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++) bti_c_output(w, o, "a", -1, NULL);
}

static void plain_map(bti_c *w) {
    char units[160];
    bti_c_begin_entry(w, BTI_ENTRY_RUN);
    bti_c_product(axes_of(w->kernel), units, sizeof units);
    bti_c_begin_units(w, units);
    bti_c_coordinates(w, axes_of(w->kernel));
    point(w);
    bti_c_end_entry(w);
}

/* Both words of a block are computed with the first half of the line, and used half a line apart. */
static void pair_map(bti_c *w) {
    char half[32];
    bti_c_begin_entry(w, BTI_ENTRY_PAIR);
    snprintf(half, sizeof half, "W(%d)", w->places.more);
    bti_c_begin_units(w, half);
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (bti_kernel_paired_word(w->kernel, i)) bti_c_line(w, "u64 both%d = 0;", i);
    bti_c_line(w, "UNROLL");
    bti_c_open(w, "for (i32 second = 0; second < 2; second++)");
    bti_c_line(w, "const i64 c0 = second ? rest + %s : rest;", half);
    point(w);
    bti_c_close(w);
    bti_c_end_entry(w);
}

/* --- 16 bytes at a time -------------------------------------------------------------------------------------------- */

static const char *wide_type(const bti_c *w, int operand) {
    switch (bt_dtype_size((bt_dtype)w->kernel->operands[operand].dtype) * (size_t)bti_entry_width(w->kernel)) {
    case 16: return "uint4";
    case 8: return "uint2";
    case 4: return "u32";
    default: return "u16";
    }
}

static const char *stored_type(const bti_c *w, int operand) {
    return bti_c_stored_type((bt_dtype)w->kernel->operands[operand].dtype);
}

static void wide_loads(bti_c *w, int width) {
    char element[256];
    for (int i = 0; i < w->kernel->instr_count; i++) {
        const bti_instr *instr = &w->kernel->instrs[i];
        if (instr->op != BTI_OP_leaf) continue;
        int o = instr->arg[0];
        const char *type = stored_type(w, o), *wide = wide_type(w, o);
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

static void wide_stores(bti_c *w, int width) {
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++) {
        const char *type = stored_type(w, o), *wide = wide_type(w, o);
        bti_c_line(w, "if (full)");
        bti_c_line(w, "    *(GLOBAL %s *)a%d = y%d.all;", wide, o, o);
        bti_c_line(w, "else");
        bti_c_line(w, "    UNROLL for (i32 k = 0; k < %d; k++) if (k < count) ((GLOBAL %s *)a%d)[k] = y%d.at[k];",
                   width, type, o, o);
    }
}

static void wide_values(bti_c *w, int width, int line) {
    char text[256];
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++)
        bti_c_line(w, "union { %s all; %s at[%d]; } y%d;", wide_type(w, o), stored_type(w, o), width, o);
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

static void wide_map(bti_c *w) {
    int line = bti_kernel_axes(w->kernel) - 1, width = bti_entry_width(w->kernel);
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
    bti_c_places(w, "a", NULL, axes_of(w->kernel));
    wide_loads(w, width);
    wide_values(w, width, line);
    wide_stores(w, width);
    bti_c_end_entry(w);
}

void bti_c_map(bti_c *w) {
    plain_map(w);
    if (bti_entry_exists(w->kernel, BTI_ENTRY_WIDE)) wide_map(w);
    if (bti_entry_exists(w->kernel, BTI_ENTRY_PAIR)) pair_map(w);
    if (bti_entry_exists(w->kernel, BTI_ENTRY_TILED)) bti_c_tiled_map(w);
}

/* Where things are, and maps. */
#include <stdio.h>

#include "render/c_parts.h"

/* --- places -------------------------------------------------------------------------------------------------------- */

static int memory_of(const bti_kernel *kernel, int operand) {
    int number = 0;
    for (int o = 0; o < operand; o++) number += !kernel->operands[o].index;
    return number;
}

static void begin_parameters(bti_c *w) {
    for (int m = 0; m < w->places.address_count; m++) bti_str_addf(w->text, "MEMORY(%d) ", m);
    if (w->entry == BTI_ENTRY_KEPT) bti_str_add(w->text, "DYNAMIC ");
    bool by_value = bti_words_by_value(w->places.count, w->places.address_count, w->target);
    if (by_value)
        bti_str_addf(w->text, "const struct words%d words", w->places.count);
    else
        bti_str_add(w->text, "WORDS_IN_MEMORY");
}

static void number_of_words(bti_c *w) {
    bool by_value = bti_words_by_value(w->places.count, w->places.address_count, w->target);
    bti_str_add(w->text, "\n#undef W\n");
    if (by_value)
        bti_str_addf(w->text,
                     "#define W(number) words.at[number]\n#ifndef WORDS%d\n#define WORDS%d\nstruct words%d { i64 "
                     "at[%d]; };\n#endif\n",
                     w->places.count, w->places.count, w->places.count, w->places.count);
    else
        bti_str_add(w->text, "#define W(number) words[number]\n");
}

void bti_c_begin_entry(bti_c *w) {
    bti_word_places_of(w->kernel, w->entry, &w->places);
    number_of_words(w);
    bti_str_addf(w->text, "KERNEL(%d) %s(", bti_entry_threads(w->kernel, w->entry, w->target),
                 bti_entry_name(w->entry));
    begin_parameters(w);
    bti_str_add(w->text, ") {\n");
    w->depth = 1;
    if (w->entry == BTI_ENTRY_KEPT) bti_c_line(w, "DYNAMIC_BEGIN");
    if (bti_entry_in_lanes(w->kernel, w->entry)) bti_c_line(w, "EXCHANGE_BEGIN");
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (w->kernel->instrs[i].op == BTI_OP_const) bti_c_constant(w, i);
}

void bti_c_places(bti_c *w, const char *prefix, const char *base, unsigned axes) {
    for (int o = 0; o < bti_kernel_operands(w->kernel); o++) {
        const bti_kernel_operand *operand = &w->kernel->operands[o];
        bti_str text = {0};
        bti_str_addf(&text, operand->index ? "const i64 %s%d = " : "GLOBAL u8 *%s%d = ", prefix, o);
        if (base)
            bti_str_addf(&text, "%s%d", base, o);
        else if (operand->index)
            bti_str_addf(&text, "W(%d)", w->places.address[o]);
        else
            bti_str_addf(&text, "ADDRESS(%d, %d)", memory_of(w->kernel, o), w->places.address[o]);
        for (int axis = 0; axis < bti_kernel_axes(w->kernel); axis++)
            if (axes >> axis & 1 && w->places.stride[o][axis] >= 0)
                bti_str_addf(&text, " + c%d * W(%d)", axis, w->places.stride[o][axis]);
        bti_c_line(w, "%s;", bti_str_text(&text));
        w->text->failed |= text.failed;
        bti_str_free(&text);
    }
}

void bti_c_coordinates(bti_c *w, unsigned axes) {
    int first = axes ? __builtin_ctz(axes) : 0, last = axes ? 31 - __builtin_clz(axes) : -1;
    for (int axis = last; axis >= first; axis--) {
        if (!(axes >> axis & 1)) continue;
        if (axis == first) {
            bti_c_line(w, "const i64 c%d = rest;", axis);
            continue;
        }
        bti_c_line(w, "const i64 r%d = divided(rest, W(%d)), c%d = rest - r%d * W(%d);", axis, axis, axis, axis, axis);
        bti_c_line(w, "rest = r%d;", axis);
    }
}

void bti_c_element(const bti_c *w, const char *prefix, int o, int axis, const char *index, char *text, size_t size) {
    const bti_kernel_operand *operand = &w->kernel->operands[o];
    const char *type = bti_c_stored_type((bt_dtype)operand->dtype);
    int word = axis < 0 ? -1 : w->places.stride[o][axis];
    if (word < 0)
        snprintf(text, size, "*(GLOBAL %s *)%s%d", type, prefix, o);
    else if (operand->unit && axis == bti_kernel_axes(w->kernel) - 1)
        snprintf(text, size, "((GLOBAL %s *)%s%d)[%s]", type, prefix, o, index);
    else
        snprintf(text, size, "*(GLOBAL %s *)(%s%d + (%s) * W(%d))", type, prefix, o, index, word);
}

void bti_c_index(const bti_c *w, const char *prefix, int o, int axis, const char *index, char *text, size_t size) {
    int word = axis < 0 ? -1 : w->places.stride[o][axis];
    if (word < 0)
        snprintf(text, size, "%s%d", prefix, o);
    else
        snprintf(text, size, "%s%d + (%s) * W(%d)", prefix, o, index, word);
}

/* --- maps ---------------------------------------------------------------------------------------------------------- */

static bool is_value(const bti_instr *instr) {
    return instr->op != BTI_OP_leaf && instr->op != BTI_OP_iota && instr->op != BTI_OP_const;
}

static void begin_units(bti_c *w, const char *count) {
    bti_c_line(w, "const i64 units = %s;", count);
    bti_c_open(w, "for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < units; unit += (i64)GROUPS * THREADS)");
    bti_c_line(w, "i64 rest = unit;");
}

static void product_of_extents(const bti_kernel *kernel, int axes, char *text, size_t size) {
    int length = snprintf(text, size, "%s", axes ? "" : "1");
    (void)kernel;
    for (int axis = 0; axis < axes; axis++)
        length += snprintf(text + length, size - (size_t)length, "%sW(%d)", axis ? " * " : "", axis);
}

static void plain_map(bti_c *w) {
    const bti_kernel *kernel = w->kernel;
    char text[256];
    bti_c_begin_entry(w);
    product_of_extents(kernel, bti_kernel_axes(kernel), text, sizeof text);
    begin_units(w, text);
    unsigned all = (1u << bti_kernel_axes(kernel)) - 1;
    bti_c_coordinates(w, all);
    bti_c_places(w, "a", NULL, all);
    for (int i = 0; i < kernel->instr_count; i++) {
        const bti_instr *instr = &kernel->instrs[i];
        if (instr->op == BTI_OP_leaf) {
            bti_c_element(w, "a", instr->arg[0], -1, NULL, text, sizeof text);
            bti_c_loaded(w, i, text);
        } else if (instr->op == BTI_OP_iota) {
            bti_c_index(w, "a", instr->arg[0], -1, NULL, text, sizeof text);
            bti_c_counted(w, i, text);
        } else if (is_value(instr))
            bti_c_value(w, i);
    }
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++) {
        char element[256];
        bti_c_element(w, "a", o, -1, NULL, element, sizeof element);
        bti_c_stored(w, kernel->operands[o].value, text, sizeof text);
        bti_c_line(w, "%s = %s;", element, text);
    }
    bti_c_close(w);
    bti_c_close(w);
}

/* --- maps, 16 bytes at a time --------------------------------------------------------------------------------------- */

static const char *bytes_type(size_t bytes) {
    return bytes == 16 ? "bytes16" : bytes == 8 ? "bytes8" : bytes == 4 ? "u32" : bytes == 2 ? "u16" : "u8";
}

static size_t wide_bytes(const bti_c *w, int operand) {
    return (size_t)bti_entry_width(w->kernel) * bt_dtype_size((bt_dtype)w->kernel->operands[operand].dtype);
}

static void wide_loads(bti_c *w, int width) {
    for (int i = 0; i < w->kernel->instr_count; i++) {
        const bti_instr *instr = &w->kernel->instrs[i];
        if (instr->op != BTI_OP_leaf) continue;
        int o = instr->arg[0];
        const char *type = bti_c_stored_type((bt_dtype)w->kernel->operands[o].dtype);
        const char *wide = bytes_type(wide_bytes(w, o));
        if (!w->kernel->operands[o].unit) {
            bti_c_line(w, "const %s x%d = *(GLOBAL %s *)a%d;", type, i, type, o);
            continue;
        }
        bti_c_line(w, "ALIGNED16 %s x%d[%d];", type, i, width);
        bti_c_line(w, "if (count == %d) *(%s *)x%d = *(GLOBAL %s *)a%d;", width, wide, i, wide, o);
        bti_c_line(w, "else for (i32 k = 0; k < %d; k++) x%d[k] = k < count ? ((GLOBAL %s *)a%d)[k] : 0;", width, i,
                   type, o);
    }
}

static void wide_stores(bti_c *w, int width) {
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++) {
        const char *type = bti_c_stored_type((bt_dtype)w->kernel->operands[o].dtype);
        const char *wide = bytes_type(wide_bytes(w, o));
        bti_c_line(w, "if (count == %d) *(GLOBAL %s *)a%d = *(%s *)y%d;", width, wide, o, wide, o);
        bti_c_line(w, "else for (i32 k = 0; k < count; k++) ((GLOBAL %s *)a%d)[k] = y%d[k];", type, o, o);
    }
}

static void wide_values(bti_c *w, int width, int line) {
    char text[256];
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++)
        bti_c_line(w, "ALIGNED16 %s y%d[%d];", bti_c_stored_type((bt_dtype)w->kernel->operands[o].dtype), o, width);
    bti_c_line(w, "UNROLL");
    bti_c_open(w, "for (i32 k = 0; k < %d; k++)", width);
    for (int i = 0; i < w->kernel->instr_count; i++) {
        const bti_instr *instr = &w->kernel->instrs[i];
        if (instr->op == BTI_OP_leaf) {
            snprintf(text, sizeof text, w->kernel->operands[instr->arg[0]].unit ? "x%d[k]" : "x%d", i);
            bti_c_loaded(w, i, text);
        } else if (instr->op == BTI_OP_iota) {
            bti_c_index(w, "a", instr->arg[0], line, "k", text, sizeof text);
            bti_c_counted(w, i, text);
        } else if (is_value(instr))
            bti_c_value(w, i);
    }
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++) {
        bti_c_stored(w, w->kernel->operands[o].value, text, sizeof text);
        bti_c_line(w, "y%d[k] = %s;", o, text);
    }
    bti_c_close(w);
}

static void wide_map(bti_c *w) {
    const bti_kernel *kernel = w->kernel;
    int line = bti_kernel_axes(kernel) - 1, width = bti_entry_width(kernel);
    char lines[128], units[200];
    w->entry = BTI_ENTRY_WIDE;
    bti_c_begin_entry(w);
    product_of_extents(kernel, line, lines, sizeof lines);
    bti_c_line(w, "const i64 pieces = (W(%d) + %d) / %d;", line, width - 1, width);
    snprintf(units, sizeof units, "pieces * %s", lines);
    begin_units(w, units);
    if (line)
        bti_c_line(w, "const i64 r%d = divided(rest, pieces), c%d = (rest - r%d * pieces) * %d;", line, line, line,
                   width);
    else
        bti_c_line(w, "const i64 c%d = rest * %d;", line, width);
    if (line) bti_c_line(w, "rest = r%d;", line);
    bti_c_coordinates(w, (1u << line) - 1);
    bti_c_line(w, "const i32 count = (i32)least(%d, W(%d) - c%d);", width, line, line);
    bti_c_places(w, "a", NULL, (2u << line) - 1);
    wide_loads(w, width);
    wide_values(w, width, line);
    wide_stores(w, width);
    bti_c_close(w);
    bti_c_close(w);
}

void bti_c_map(bti_c *w) {
    w->entry = BTI_ENTRY_RUN;
    plain_map(w);
    if (bti_entry_exists(w->kernel, BTI_ENTRY_WIDE)) wide_map(w);
}

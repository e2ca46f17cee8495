/* How entries begin and end, and the addresses of operands. */
#include <stdio.h>

#include "ir/dtype.h"
#include "render/c_writer.h"

/* --- beginnings and ends of entries ---------------------------------------------------------------------------------------------------------- */

static int memory_number(const bti_c *w, int operand) {
    int number = w->first_memory;
    for (int o = 0; o < operand; o++) number += !w->kernel->operands[o].index;
    return number;
}

static void define_words(bti_c *w, bool by_value) {
    const char *entry = bti_entry_name(w->entry);
    bti_str_add(w->text, "\n");
    if (by_value) bti_str_addf(w->text, "struct %s_words { i64 at[%d]; };\n", entry, w->places.count);
    if (w->words == (by_value ? BTI_C_BY_VALUE : BTI_C_IN_MEMORY)) return;
    if (w->words != BTI_C_UNNAMED) bti_str_add(w->text, "#undef W\n");
    bti_str_addf(w->text, "#define W(number) words%s[number]\n", by_value ? ".at" : "");
    w->words = by_value ? BTI_C_BY_VALUE : BTI_C_IN_MEMORY;
}

static void define_words_of_boxes(bti_c *w) {
    bti_str_addf(w->text, "\nstruct %s_words { i64 at[%d]; };\n", bti_entry_name(w->entry), BTI_BOXES_WORDS);
    if (w->words != BTI_C_OF_BOX) bti_str_add(w->text, "#define W(number) words.at[of_box + (number)]\n");
    w->words = BTI_C_OF_BOX;
}

/* The box of a group, which of the box's groups it is, and how many the box has. */
static void find_box(bti_c *w) {
    bti_c_line(w, "i32 box = 0;");
    bti_c_line(w, "while ((i64)GROUP >= words.at[box]) box++;");
    bti_c_line(w, "const i64 before_box = box ? words.at[box - 1] : 0, group = GROUP - before_box;");
    bti_c_line(w, "const i64 groups = words.at[box] - before_box;");
    bti_c_line(w, "const i32 of_box = %d + box * %d;", bti_entry_boxes(w->kernel), w->places.count);
}

/* As launch/gpu_kernel.c. */
bool bti_c_has_local(const bti_c *w) {
    return w->entry == BTI_ENTRY_KEPT || (w->entry == BTI_ENTRY_ROWS && bti_entry_exists(w->kernel, BTI_ENTRY_KEPT));
}

bool bti_c_wants(const bti_c *w, bti_entry entry) {
    return (w->only == entry || w->only == BTI_ENTRY_END) && bti_entry_is_written(w->kernel, entry, w->target);
}

void bti_c_begin_entry(bti_c *w, bti_entry entry) {
    w->entry = entry;
    bti_word_places_of(w->kernel, entry, &w->places);
    bool boxes = bti_entry_is_of_boxes(entry);
    bool by_value = boxes || bti_words_by_value(w->places.count, w->places.address_count, w->target);
    if (boxes)
        define_words_of_boxes(w);
    else
        define_words(w, by_value);
    bti_str_addf(w->text, "KERNEL(%d) %s(", bti_entry_threads(w->kernel, entry, w->target), bti_entry_name(entry));
    for (int m = 0; m < w->places.address_count; m++) bti_str_addf(w->text, "MEMORY(%d) ", m);
    if (bti_c_has_local(w)) bti_str_add(w->text, "DYNAMIC ");
    if (by_value)
        bti_str_addf(w->text, "const struct %s_words words) {\n", bti_entry_name(entry));
    else
        bti_str_add(w->text, "WORDS_IN_MEMORY) {\n");
    w->depth = 1;
    if (boxes) find_box(w);
    int unit_threads = bti_entry_unit_threads(w->kernel, entry);
    if (bti_c_has_local(w)) bti_c_line(w, "DYNAMIC_BEGIN");
    if (entry == BTI_ENTRY_FINISH)
        bti_c_line(w, "EXCHANGE_OF_GROUP_BEGIN");
    else if (unit_threads > 1 && unit_threads <= 32)
        bti_c_line(w, "EXCHANGE_BEGIN");
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (w->kernel->instrs[i].op == BTI_OP_const) bti_c_constant(w, i);
}

/* As bti_entry_across. */
static void declare_across(bti_c *w) {
    char row[200], short_rows[256] = "";
    if (w->target != BTI_CUDA_C) {
        bti_c_line(w, "const i32 across = 1;");
        return;
    }
    bti_c_product(bti_kernel_reduced_axes(w->kernel), row, sizeof row);
    if (!w->kernel->inner)
        snprintf(short_rows, sizeof short_rows, "%s <= %d ? %d : ", row, BTI_LONG_ROW, BTI_ACROSS_ROWS);
    bti_c_line(w, "const i32 across = %sunits < %d ? 1 : units < %d ? %d : 32;", short_rows, BTI_ACROSS_SECTOR,
               BTI_ACROSS_MANY, BTI_ACROSS_SECTOR);
}

/* Where lanes or groups take units, all groups have the same number of iterations. */
void bti_c_begin_units(bti_c *w, const char *count) {
    int unit_threads = bti_entry_unit_threads(w->kernel, w->entry);
    bti_c_line(w, "const i64 units = %s;", count);
    if (w->entry == BTI_ENTRY_TILED)
        bti_c_open(w, "for (i64 unit = GROUP; unit < units; unit += GROUPS)");
    else if (w->entry == BTI_ENTRY_FINISH) {
        declare_across(w);
        bti_c_line(w, "const i32 lanes = (i32)THREADS / across, lane = (i32)THREAD / across;");
        bti_c_open(w, "for (i64 first = (i64)GROUP * across; first < units; first += (i64)GROUPS * across)");
        bti_c_line(w, "const i64 own = first + (i32)THREAD %% across, unit = least(own, units - 1);");
        bti_c_line(w, "const i32 active = own == unit;");
    } else if (bti_entry_is_wide_rows(w->entry)) {
        bti_c_line(w, "const i32 lane = (i32)(THREAD & %d);", unit_threads - 1);
        bti_c_line(w, "const i64 step = (i64)GROUPS * (THREADS / %d);", unit_threads);
        bti_c_open(
            w,
            "for (i64 before32 = (i64)GROUP * (THREADS / %d) + THREAD / 32 * %d; before32 < units; before32 += step)",
            unit_threads, 32 / unit_threads);
        bti_c_line(w, "const i64 unit = before32 + (THREAD & 31) / %d;", unit_threads);
        bti_c_line(w, "const i32 active = unit < units;");
        bti_c_line(w, "const i64 extent = active ? W(%d) : 0;", bti_kernel_line(w->kernel));
    } else if (unit_threads == 32) {
        bti_c_line(w, "const i32 lane = (i32)(THREAD & 31);");
        bti_c_line(w, "const i64 step = (i64)GROUPS * (THREADS / 32);");
        bti_c_open(w, "for (i64 unit = (i64)GROUP * (THREADS / 32) + THREAD / 32; unit < units; unit += step)");
    } else if (bti_entry_is_of_boxes(w->entry))
        bti_c_open(w, "for (i64 unit = group * THREADS + THREAD; unit < units; unit += groups * THREADS)");
    else
        bti_c_open(w, "for (i64 unit = (i64)GROUP * THREADS + THREAD; unit < units; unit += (i64)GROUPS * THREADS)");
    bti_c_line(w, "i64 rest = unit;");
}

void bti_c_end_entry(bti_c *w) {
    bti_c_close(w);
    bti_c_close(w);
}

/* --- addresses --------------------------------------------------------------------------------------------------------- */

void bti_c_product(unsigned axes, char *text, size_t size) {
    size_t length = (size_t)snprintf(text, size, axes ? "%s" : "%s1", "");
    for (int axis = 0; axis < BTI_MAX_RANK; axis++)
        if (axes >> axis & 1)
            length += (size_t)snprintf(text + length, size - length, "%sW(%d)", length ? " * " : "", axis);
}

static bool is_unit_step(const bti_c *w, int operand, int axis) {
    return w->kernel->operands[operand].unit && axis == bti_kernel_line(w->kernel);
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
            bti_str_addf(&text, "ADDRESS(%d, %d)", memory_number(w, o), w->places.address[o]);
        for (int axis = 0; axis < bti_kernel_axes(w->kernel); axis++)
            if (axes >> axis & 1 && is_unit_step(w, o, axis))
                bti_str_addf(&text, " + c%d * %zu", axis, operand->index ? 1 : bt_dtype_size((bt_dtype)operand->dtype));
            else if (axes >> axis & 1 && w->places.stride[o][axis] >= 0)
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

/* From an address that is an expression. */
static void element_from(const bti_c *w, const char *address, int o, int axis, const char *index, char *text,
                         size_t size) {
    const bti_kernel_operand *operand = &w->kernel->operands[o];
    const char *type = bti_c_stored_type((bt_dtype)operand->dtype);
    int word = axis < 0 ? -1 : w->places.stride[o][axis];
    if (word < 0)
        snprintf(text, size, "*(GLOBAL %s *)%s", type, address);
    else if (is_unit_step(w, o, axis))
        snprintf(text, size, "((GLOBAL %s *)%s)[%s]", type, address, index);
    else
        snprintf(text, size, "*(GLOBAL %s *)(%s + (%s) * W(%d))", type, address, index, word);
}

void bti_c_element(const bti_c *w, const char *prefix, int o, int axis, const char *index, char *text, size_t size) {
    char address[32];
    snprintf(address, sizeof address, "%s%d", prefix, o);
    element_from(w, address, o, axis, index, text, size);
}

void bti_c_index(const bti_c *w, const char *prefix, int o, int axis, const char *index, char *text, size_t size) {
    int word = axis < 0 ? -1 : w->places.stride[o][axis];
    if (word < 0)
        snprintf(text, size, "%s%d", prefix, o);
    else
        snprintf(text, size, "%s%d + (%s) * W(%d)", prefix, o, index, word);
}

const char *bti_c_wide_type(const bti_c *w, int operand) {
    switch (bt_dtype_size((bt_dtype)w->kernel->operands[operand].dtype) * (size_t)bti_entry_width(w->kernel)) {
    case 16: return "uint4";
    case 8: return "uint2";
    case 4: return "u32";
    default: return "u16";
    }
}

/* --- rows that are taken by number ------------------------------------------------------------------------------------ */

const char *bti_c_missing(bt_dtype dtype) {
    switch (dtype) {
    case BT_F8E4M3: return "0x7f";
    case BT_F8E5M2: return "0x7e";
    case BT_F16: return "0x7e00";
    case BT_BF16: return "0x7fc0";
    case BT_F32: return "f32_of_bits(0x7fc00000)";
    case BT_F64: return "f64_of_bits(0x7ff8000000000000ul)";
    case BT_C64: return "0x7fc000007fc00000ul";
    default: return "0";
    }
}

void bti_c_row(bti_c *w, int instr, const char *number) {
    bti_c_line(w, "const i64 row%d = place_of(%s, v%d);", instr, number, w->kernel->instrs[instr].arg[1]);
}

void bti_c_row_element(const bti_c *w, int instr, const char *prefix, int axis, const char *index, char *text,
                       size_t size) {
    const bti_instr *take = &w->kernel->instrs[instr];
    char address[64], element[200];
    snprintf(address, sizeof address, "(%s%d + row%d * v%d)", prefix, take->attr, instr, take->arg[2]);
    element_from(w, address, take->attr, axis, index, element, sizeof element);
    bt_dtype dtype = (bt_dtype)take->dtype;
    snprintf(text, size, "(row%d < 0 ? (%s)%s : %s)", instr, bti_c_stored_type(dtype), bti_c_missing(dtype), element);
}

/* --- instructions at an address ---------------------------------------------------------------------------------------- */

void bti_c_instr(bti_c *w, int number, const char *prefix, int axis, const char *index) {
    const bti_instr *instr = &w->kernel->instrs[number];
    char text[300];
    if (instr->op == BTI_OP_leaf) {
        bti_c_element(w, prefix, instr->arg[0], axis, index, text, sizeof text);
        bti_c_loaded(w, number, text);
    } else if (instr->op == BTI_OP_iota) {
        bti_c_index(w, prefix, instr->arg[0], axis, index, text, sizeof text);
        bti_c_counted(w, number, text);
    } else if (instr->op == BTI_OP_take) {
        snprintf(text, sizeof text, "v%d", instr->arg[0]);
        bti_c_row(w, number, text);
        bti_c_row_element(w, number, prefix, axis, index, text, sizeof text);
        bti_c_loaded(w, number, text);
    } else if (instr->op != BTI_OP_const && !bti_instr_reduces(instr))
        bti_c_value(w, number);
}

void bti_c_output(bti_c *w, int operand, const char *prefix, int axis, const char *index) {
    char element[256], text[256];
    bti_c_element(w, prefix, operand, axis, index, element, sizeof element);
    bti_c_stored(w, w->kernel->operands[operand].value, text, sizeof text);
    bti_c_line(w, "%s = %s;", element, text);
}

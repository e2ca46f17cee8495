/* What the entries of rows and columns share: the values of a row and its outputs, where a line begins, what is kept in local memory. */
#include <stdio.h>

#include "ir/dtype.h"
#include "render/c_writer.h"

int bti_c_last_reduced(const bti_c *w) { return w->kernel->outer + w->kernel->reduced - 1; }

unsigned bti_c_line_axes(const bti_kernel *kernel) { return ((1u << (kernel->reduced - 1)) - 1) << kernel->outer; }

bool bti_c_is_folded(const bti_c *w, int instr, int sweep) {
    return bti_instr_reduces(&w->kernel->instrs[instr]) && w->kernel->instrs[instr].stage == sweep + 1;
}

static bool is_held(const bti_c *w, int instr) { return instr == w->held && w->sweep > w->held_sweep; }

/* Its number is known before the points of a batch are computed. */
static bool is_early_take(const bti_c *w, int instr) {
    const bti_instr *take = &w->kernel->instrs[instr];
    return take->op == BTI_OP_take &&
           (!bti_c_is_point(w, take->arg[0]) || w->kernel->instrs[take->arg[0]].op == BTI_OP_leaf);
}

bool bti_c_is_loaded(const bti_c *w, int instr) {
    bool loads = w->kernel->instrs[instr].op == BTI_OP_leaf || is_early_take(w, instr) || is_held(w, instr);
    return loads && bti_c_is_point(w, instr) && w->needed[instr];
}

void bti_c_early_number(const bti_c *w, int take, char *text, size_t size) {
    int number = w->kernel->instrs[take].arg[0];
    snprintf(text, size, bti_c_is_point(w, number) ? "x%d[k]" : "v%d", number);
}

bool bti_c_is_kept(const bti_c *w, int instr) {
    if (is_held(w, instr)) return true;
    if (!bti_c_has_local(w) || !bti_entry_keeps(w->kernel, instr)) return false;
    return w->entry == BTI_ENTRY_KEPT || w->kernel->operands[w->kernel->instrs[instr].arg[0]].unit;
}

int bti_c_load_of(const bti_c *w, int instr) { return is_held(w, instr) ? w->held_load : instr; }

int bti_c_cost(const bti_instr *instr) {
    bool random = instr->op == BTI_OP_random_word || instr->op == BTI_OP_threefry;
    if (!random && !bti_op_calls_function(instr->op)) return 1;
    return bt_dtype_size((bt_dtype)instr->dtype) == 8 ? 16 : 8;
}

void bti_c_begin_sweep(bti_c *w, int sweep) {
    bool loaded[BTI_KERNEL_INSTRS] = {false};
    w->sweep = sweep;
    if (w->held >= 0) loaded[w->held] = sweep > w->held_sweep;
    bti_kernel_needs(w->kernel, sweep, loaded, w->needed);
}

/* Whether a later sweep reads the value where `load` was, which the sweep that computes it has, and nothing that is computed then needs the load. */
static bool can_hold(bti_c *w, int value, int load) {
    bool again = false;
    int sweeps = bti_kernel_sweeps(w->kernel);
    w->held = value, w->held_load = load;
    w->held_sweep = sweeps; /* not known yet: every sweep computes the value */
    for (int sweep = 0; sweep < sweeps; sweep++) {
        bti_c_begin_sweep(w, sweep);
        bool after = sweep > w->held_sweep;
        if (after && w->needed[load]) return false;
        again = again || (after && w->needed[value]);
        if (!after && w->needed[value]) {
            if (!w->needed[load]) return false;
            w->held_sweep = sweep;
        }
    }
    return again;
}

void bti_c_hold(bti_c *w) {
    w->held = -1, w->sweep = 0;
    if (!bti_c_has_local(w)) return;
    for (int value = w->kernel->instr_count - 1; value >= 0; value--) {
        if (!bti_c_is_point(w, value) || bti_c_cost(&w->kernel->instrs[value]) == 1) continue;
        for (int load = 0; load < value; load++) {
            w->held = -1, w->sweep = 0;
            if (bti_c_is_kept(w, load) && bti_c_dtype(w, load) == bti_c_dtype(w, value) && can_hold(w, value, load)) {
                w->sweep = 0;
                return;
            }
        }
    }
    w->held = -1, w->sweep = 0;
}

/* OPAQUE hides the number from the compiler: some compilers spend very long on replacing such loops by formulas. */
static void write_index_value(bti_c *w, int instr) {
    char text[160];
    bti_c_index(w, "l", w->kernel->instrs[instr].arg[0], bti_c_last_reduced(w), "i", text, sizeof text);
    bti_c_line(w, "i64 n%d = %s;", instr, text);
    bti_c_line(w, "OPAQUE(n%d);", instr);
    snprintf(text, sizeof text, "n%d", instr);
    bti_c_counted(w, instr, text);
}

void bti_c_point_value(bti_c *w, int instr, const char *loaded) {
    if (loaded)
        bti_c_loaded(w, instr, loaded);
    else if (w->kernel->instrs[instr].op == BTI_OP_iota)
        write_index_value(w, instr);
    else
        bti_c_instr(w, instr, "l", bti_c_last_reduced(w), "i");
}

/* --- values of a row, and its outputs ------------------------------------------------------------------------------------------------ */

void bti_c_row_values(bti_c *w, int stage) {
    char element[256], text[300];
    for (int i = 0; i < w->kernel->instr_count; i++) {
        const bti_instr *instr = &w->kernel->instrs[i];
        if (bti_c_is_point(w, i) || instr->stage != stage) continue;
        if (instr->op == BTI_OP_leaf && bti_entry_is_wide_rows(w->entry)) {
            bti_c_element(w, "a", instr->arg[0], -1, NULL, element, sizeof element);
            snprintf(text, sizeof text, "(active ? %s : 0)", element);
            bti_c_loaded(w, i, text);
        } else if (instr->op == BTI_OP_take && bti_entry_is_wide_rows(w->entry)) {
            snprintf(text, sizeof text, "active ? v%d : v%d", instr->arg[0], instr->arg[1]); /* or none */
            bti_c_row(w, i, text);
            bti_c_row_element(w, i, "a", -1, NULL, text, sizeof text);
            bti_c_loaded(w, i, text);
        } else
            bti_c_instr(w, i, "a", -1, NULL);
    }
}

void bti_c_row_outputs(bti_c *w) {
    bool lanes = bti_entry_unit_threads(w->kernel, w->entry) > 1, any = false;
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++) {
        if (bti_c_is_point(w, w->kernel->operands[o].value)) continue;
        if (lanes && !any)
            bti_c_open(w, bti_entry_is_wide_rows(w->entry) || w->entry == BTI_ENTRY_FINISH ? "if (active && lane == 0)"
                                                                                           : "if (lane == 0)");
        any = true;
        bti_c_output(w, o, "a", -1, NULL);
    }
    if (lanes && any) bti_c_close(w);
}

/* --- what is kept in local memory ----------------------------------------------------------------------------------- */

static size_t kept_size(const bti_c *w, int instr) { return bt_dtype_size(bti_c_dtype(w, instr)); }

#define FOR_EACH_KEPT(i)                             \
    for (int i = 0; i < w->kernel->instr_count; i++) \
        if (bti_c_is_kept(w, i))

/* The local memory of a row: the points of one load after those of another, aligned to 16 bytes. */
void bti_c_place_kept(bti_c *w) {
    char points[160];
    bti_str before = {0};
    if (!bti_c_has_local(w)) return;
    bti_c_product(bti_kernel_reduced_axes(w->kernel), points, sizeof points);
    bti_c_line(w, "const i64 points = %s;", points);
    FOR_EACH_KEPT(i) {
        bti_c_line(w, "const i64 at%d = 0%s;", i, bti_str_text(&before));
        bti_str_addf(&before, " + ((points * %zu + 15) & ~(i64)15)", kept_size(w, i));
    }
    bti_c_line(w, "LOCAL u8 *kept = dynamic + (THREAD / %d) * (0%s);", bti_entry_unit_threads(w->kernel, w->entry),
               bti_str_text(&before));
    FOR_EACH_KEPT(i) {
        const char *type = bti_c_stored_type(bti_c_dtype(w, i));
        bti_c_line(w, "LOCAL %s *kept%d = (LOCAL %s *)(kept + at%d);", type, i, type, i);
    }
    w->text->failed |= before.failed;
    bti_str_free(&before);
}

void bti_c_line_begin(bti_c *w) {
    if (bti_c_has_local(w))
        bti_c_line(w, w->kernel->reduced > 1 ? "const i64 before = number * W(%d);" : "const i64 before = 0;",
                   bti_c_last_reduced(w));
    if (w->kernel->reduced > 1) bti_c_line(w, "rest = number;");
    bti_c_coordinates(w, bti_c_line_axes(w->kernel));
    bti_c_places(w, "l", "a", bti_c_line_axes(w->kernel));
}

/* Each lane fetches the elements that it reads later. */
static void fetch_by_element(bti_c *w, int instr, const char *first) {
    int o = w->kernel->instrs[instr].arg[0], last = bti_c_last_reduced(w);
    size_t size = kept_size(w, instr);
    bti_c_line(w, "UNROLL_8");
    bti_c_open(w, "for (i64 i = %slane; i < W(%d); i += 32)", first, last);
    if (w->places.stride[o][last] < 0)
        bti_c_line(w, "FETCH%zu(&kept%d[before + i], l%d);", size, instr, o);
    else if (w->kernel->operands[o].unit)
        bti_c_line(w, "FETCH%zu(&kept%d[before + i], l%d + i * %zu);", size, instr, o, size);
    else
        bti_c_line(w, "FETCH%zu(&kept%d[before + i], l%d + i * W(%d));", size, instr, o, w->places.stride[o][last]);
    bti_c_close(w);
}

/* 16 bytes at a time where the line lies on 16 bytes, whoever reads them later. */
static void fetch_by_16_bytes(bti_c *w, int instr) {
    int o = w->kernel->instrs[instr].arg[0], width = 16 / (int)kept_size(w, instr);
    bti_c_line(w, "const i64 wide%d = ((u64)l%d | (u64)&kept%d[before]) & 15 ? 0 : W(%d) & ~(i64)%d;", instr, o, instr,
               bti_c_last_reduced(w), width - 1);
    bti_c_line(w, "UNROLL_8");
    bti_c_line(w, "for (i64 i = lane * %d; i < wide%d; i += %d)", width, instr, 32 * width);
    bti_c_line(w, "    FETCH16(&kept%d[before + i], l%d + i * %zu);", instr, o, kept_size(w, instr));
}

/* Each thread fetches the elements that it reads later. */
static void fetch_own_pieces(bti_c *w, int instr) {
    int o = w->kernel->instrs[instr].arg[0], width = bti_entry_width(w->kernel);
    size_t size = kept_size(w, instr);
    bti_c_line(w, "UNROLL_8");
    bti_c_line(w, "for (i64 i = lane * %d; i < extent; i += 32)", width);
    bti_c_line(w, "    FETCH%zu(&kept%d[before + i], l%d + i * %zu);", size * (size_t)width, instr, o, size);
}

void bti_c_fetch_kept(bti_c *w) {
    if (!bti_c_has_local(w)) return;
    bti_c_line(w, "FETCH_BEGIN();");
    bti_c_open(w, "for (i64 number = 0; number < lines; number++)");
    bti_c_line_begin(w);
    FOR_EACH_KEPT(i) {
        bool wide = w->kernel->operands[w->kernel->instrs[i].arg[0]].unit && w->target == BTI_CUDA_C;
        char first[32] = "";
        if (w->entry == BTI_ENTRY_ROWS) {
            fetch_own_pieces(w, i);
            continue;
        }
        if (wide) {
            fetch_by_16_bytes(w, i);
            snprintf(first, sizeof first, "wide%d + ", i);
        }
        fetch_by_element(w, i, first);
    }
    bti_c_close(w);
    bti_c_line(w, "FETCH_END();");
}

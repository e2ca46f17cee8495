#include "ir/kernel.h"

#include <stdio.h>
#include <string.h>

#include "ir/dtype.h"

bool bti_instr_reduces(const bti_instr *instr) { return bti_op_info((bti_op)instr->op)->class == BTI_REDUCE; }

int bti_instr_arguments(const bti_instr *instr) {
    switch (instr->op) {
    case BTI_OP_leaf:
    case BTI_OP_iota:
    case BTI_OP_const: return 0;
    case BTI_OP_take: return 3;
    default: return bti_op_info((bti_op)instr->op)->arity;
    }
}

void bti_kernel_set_stages(bti_kernel *kernel) {
    unsigned reduced = bti_kernel_reduced_axes(kernel);
    for (int i = 0; i < kernel->instr_count; i++) {
        bti_instr *instr = &kernel->instrs[i];
        bool row = reduced != 0;
        int stage = 0;
        if (bti_instr_operand(instr) >= 0) row = row && !(kernel->operands[bti_instr_operand(instr)].moves & reduced);
        for (int a = 0; a < bti_instr_arguments(instr); a++) {
            const bti_instr *argument = &kernel->instrs[instr->arg[a]];
            row = row && argument->level == BTI_ROW;
            if (argument->stage > stage) stage = argument->stage;
        }
        if (instr->op == BTI_OP_cast && kernel->instrs[instr->arg[0]].dtype == instr->dtype) row = false;
        if (bti_instr_reduces(instr)) row = true, stage++;
        instr->level = row ? BTI_ROW : BTI_POINT;
        instr->stage = (uint8_t)stage;
    }
}

int bti_kernel_sweeps(const bti_kernel *kernel) {
    int sweeps = 1;
    for (int i = 0; i < kernel->instr_count; i++) /* a reduction of stage s is folded in sweep s - 1 */
        if (bti_instr_reduces(&kernel->instrs[i]) && kernel->instrs[i].stage > sweeps) sweeps = kernel->instrs[i].stage;
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++) {
        const bti_instr *stored = &kernel->instrs[kernel->operands[o].value];
        if (stored->level == BTI_POINT && stored->stage + 1 > sweeps) sweeps = stored->stage + 1;
    }
    return sweeps;
}

void bti_kernel_needs(const bti_kernel *kernel, int sweep, const bool *loaded, bool needed[BTI_KERNEL_INSTRS]) {
    memset(needed, 0, BTI_KERNEL_INSTRS * sizeof *needed);
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++) {
        const bti_instr *stored = &kernel->instrs[kernel->operands[o].value];
        bool row = stored->level == BTI_ROW;
        if (row ? kernel->inner && sweep == 1 : stored->stage == sweep) needed[kernel->operands[o].value] = true;
    }
    for (int i = kernel->instr_count - 1; i >= 0; i--) {
        const bti_instr *instr = &kernel->instrs[i];
        bool reduces = bti_instr_reduces(instr);
        if ((loaded && loaded[i]) || !(reduces ? instr->stage == sweep + 1 : needed[i])) continue;
        for (int a = 0; a < bti_instr_arguments(instr); a++) needed[instr->arg[a]] = true;
    }
}

void bti_kernel_along_line(const bti_kernel *kernel, bool along[BTI_KERNEL_INSTRS]) {
    int line = bti_kernel_line(kernel);
    for (int i = 0; i < kernel->instr_count; i++) {
        const bti_instr *instr = &kernel->instrs[i];
        int operand = bti_instr_operand(instr);
        along[i] = operand >= 0 && kernel->operands[operand].moves >> line & 1;
        for (int a = 0; a < bti_instr_arguments(instr); a++) along[i] = along[i] || along[instr->arg[a]];
        if (bti_instr_reduces(instr)) along[i] = kernel->inner;
    }
}

static unsigned axes_of_value(const bti_kernel *kernel, int instr) {
    unsigned axes[BTI_KERNEL_INSTRS];
    for (int i = 0; i <= instr; i++) {
        int operand = bti_instr_operand(&kernel->instrs[i]);
        axes[i] = operand >= 0 ? kernel->operands[operand].moves : 0;
        for (int a = 0; a < bti_instr_arguments(&kernel->instrs[i]); a++)
            axes[i] |= axes[kernel->instrs[i].arg[a]] &
                       (bti_instr_reduces(&kernel->instrs[i]) ? bti_kernel_kept_axes(kernel) : ~0u);
    }
    return axes[instr];
}

/* A mask of the axes along which an operand is read at other places: those that it moves along, and those of the numbers of its rows. */
static unsigned read_axes(const bti_kernel *kernel, int operand) {
    unsigned axes = kernel->operands[operand].moves;
    for (int i = 0; i < kernel->instr_count && kernel->operands[operand].taken; i++)
        if (kernel->instrs[i].op == BTI_OP_take && kernel->instrs[i].attr == operand) axes |= axes_of_value(kernel, i);
    return axes;
}

int64_t bti_kernel_operand_bytes(const bti_kernel *kernel, int operand, const int64_t *extent) {
    unsigned axes = read_axes(kernel, operand);
    int64_t bytes = (int64_t)bt_dtype_size((bt_dtype)kernel->operands[operand].dtype);
    for (int axis = 0; axis < bti_kernel_axes(kernel); axis++)
        if (axes >> axis & 1) bytes *= extent[axis];
    return bytes;
}

/* The number that is argument `arg` of what takes from the operand. */
static int64_t number_of_take(const bti_kernel *kernel, const bti_box *box, int operand, int arg) {
    for (int i = 0; i < kernel->instr_count && kernel->operands[operand].taken; i++)
        if (kernel->instrs[i].op == BTI_OP_take && kernel->instrs[i].attr == operand)
            return (int64_t)box->scalars[kernel->instrs[kernel->instrs[i].arg[arg]].arg[0]];
    return 0;
}

int64_t bti_kernel_row_bytes(const bti_kernel *kernel, const bti_box *box, int operand) {
    return number_of_take(kernel, box, operand, 2);
}

int64_t bti_kernel_rows_reach(const bti_kernel *kernel, const bti_box *box, int operand) {
    return kernel->operands[operand].taken
               ? (number_of_take(kernel, box, operand, 1) - 1) * bti_kernel_row_bytes(kernel, box, operand)
               : 0;
}

bool bti_kernel_may_cross(const bti_kernel *kernel, int operand) {
    const bti_kernel_operand *o = &kernel->operands[operand];
    int line = bti_kernel_line(kernel);
    return line > 0 && !kernel->reduced && !o->index && !o->taken && !o->unit && (o->moves >> line & 1) &&
           (o->moves >> (line - 1) & 1);
}

int64_t bti_box_points(const bti_box *box, int first, int end) {
    int64_t points = 1;
    for (int axis = first; axis < end; axis++) points *= box->extent[axis];
    return points;
}

int bti_contiguous_axis(const int64_t *extent, const int64_t *stride, int axes, int64_t size) {
    for (int axis = axes - 1; axis >= 0; axis--)
        if (extent[axis] > 1 && (stride[axis] == size || stride[axis] == -size)) return axis;
    return -1;
}

static bool lies_like(const bti_kernel *kernel, int input, int output, const bti_box *box) {
    const bti_kernel_operand *in = &kernel->operands[input], *out = &kernel->operands[output];
    if (bt_dtype_size((bt_dtype)in->dtype) != bt_dtype_size((bt_dtype)out->dtype)) return false;
    for (int axis = 0; axis < bti_kernel_axes(kernel); axis++)
        if (box->extent[axis] > 1 && box->stride[input][axis] != box->stride[output][axis]) return false;
    return true;
}

int bti_kernel_output_like(const bti_kernel *kernel, int input, const bti_box *box) {
    int found = -1;
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++) {
        const bti_instr *stored = &kernel->instrs[kernel->operands[o].value];
        if (!lies_like(kernel, input, o, box)) continue;
        if (stored->op == BTI_OP_leaf && stored->arg[0] == input) return o;
        if (found < 0) found = o;
    }
    return found;
}

int bti_kernel_crossing_axis(const bti_kernel *kernel, const bti_box *box) {
    int line = bti_kernel_line(kernel);
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        int64_t size = (int64_t)bt_dtype_size((bt_dtype)kernel->operands[o].dtype), along = box->stride[o][line];
        if (kernel->operands[o].index || kernel->operands[o].taken || along == 0 || along == size || along == -size)
            continue;
        int axis = bti_contiguous_axis(box->extent, box->stride[o], line, size);
        if (axis >= 0) return axis;
    }
    return -1;
}

#define DEMAND(condition, text) \
    if (!(condition)) return text

static bool is_i64_const(const bti_instr *instr) { return instr->op == BTI_OP_const && instr->dtype == BT_I64; }

static const char *verify_take(const bti_kernel *kernel, const bti_instr *take) {
    bt_dtype number = (bt_dtype)kernel->instrs[take->arg[0]].dtype;
    DEMAND(number == BT_I32 || number == BT_I64, "rows that are not numbered by int32 or int64");
    DEMAND(is_i64_const(&kernel->instrs[take->arg[1]]) && is_i64_const(&kernel->instrs[take->arg[2]]),
           "rows whose count or bytes are no int64 constants");
    DEMAND(kernel->operands[take->attr].dtype == take->dtype, "rows of another dtype");
    return NULL;
}

static const char *verify_instr(const bti_kernel *kernel, int index) {
    const bti_instr *instr = &kernel->instrs[index];
    DEMAND(instr->op < BTI_OP_COUNT && instr->dtype < BT_DTYPE_COUNT, "an instruction's operation or dtype is none");
    bool loads = instr->op == BTI_OP_leaf || instr->op == BTI_OP_iota;
    bool given = loads || instr->op == BTI_OP_const || instr->op == BTI_OP_take;
    int operand = bti_instr_operand(instr);
    DEMAND(given || bti_instr_reduces(instr) || bti_op_info((bti_op)instr->op)->class == BTI_ELEMENTWISE,
           "an instruction that no kernel has");
    DEMAND(operand < kernel->input_count, "a load of no input");
    DEMAND(instr->op != BTI_OP_const || instr->arg[0] < kernel->scalar_count, "a scalar that is not there");
    DEMAND(!loads || kernel->operands[instr->arg[0]].index == (instr->op == BTI_OP_iota),
           "memory that counts, or an index that is loaded");
    DEMAND(instr->op != BTI_OP_leaf || kernel->operands[instr->arg[0]].dtype == instr->dtype,
           "a load of another dtype");
    DEMAND(!bti_instr_reduces(instr) || kernel->reduced, "a reduction in a map");
    for (int a = 0; a < bti_instr_arguments(instr); a++) DEMAND(instr->arg[a] < index, "an argument that comes later");
    DEMAND(operand < 0 || kernel->operands[operand].taken == (instr->op == BTI_OP_take),
           "an operand with rows that is loaded, or one without that is taken from");
    return instr->op == BTI_OP_take ? verify_take(kernel, instr) : NULL;
}

const char *bti_kernel_verify(const bti_kernel *kernel) {
    DEMAND(bti_kernel_axes(kernel) <= BTI_MAX_RANK && bti_kernel_axes(kernel) > 0, "too many axes, or none");
    DEMAND(kernel->inner <= 1 && (kernel->reduced || kernel->inner), "a nest of no form");
    DEMAND(bti_kernel_operands(kernel) <= BTI_KERNEL_OPERANDS && kernel->instr_count <= BTI_KERNEL_INSTRS, "too large");
    DEMAND(kernel->output_count > 0, "no output");
    for (int i = 0; i < kernel->instr_count; i++) {
        const char *wrong = verify_instr(kernel, i);
        if (wrong) return wrong;
    }
    bti_kernel staged = *kernel;
    bti_kernel_set_stages(&staged);
    DEMAND(bti_kernel_equal(&staged, kernel), "stages that do not follow from the program");
    unsigned all = bti_kernel_all_axes(kernel);
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        const bti_kernel_operand *operand = &kernel->operands[o];
        DEMAND(!(operand->moves & ~all), "an operand that moves along no axis of the nest");
        DEMAND(!operand->unit || operand->moves >> (bti_kernel_axes(kernel) - 1), "unit steps of what stands still");
        if (o < kernel->input_count) continue;
        DEMAND(operand->value < kernel->instr_count, "an output of no value");
        const bti_instr *stored = &kernel->instrs[operand->value];
        DEMAND(stored->dtype == operand->dtype, "an output of another dtype");
        DEMAND(operand->moves == (stored->level == BTI_POINT ? all : bti_kernel_kept_axes(kernel)),
               "an output that does not move along the axes of its value");
    }
    if (kernel->inner && kernel->reduced)
        for (int i = 0; i < kernel->instr_count; i++)
            DEMAND(kernel->instrs[i].stage <= (kernel->instrs[i].level == BTI_ROW), "columns of two sweeps");
    return NULL;
}

void bti_kernel_text(bti_str *text, const bti_kernel *kernel) {
    bti_str_addf(text, "nest %d outer, %d reduced, %d inner; %d scalars\n", kernel->outer, kernel->reduced,
                 kernel->inner, kernel->scalar_count);
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        const bti_kernel_operand *operand = &kernel->operands[o];
        bti_str_addf(text, "  %s %d: %s moves ", o < kernel->input_count ? "in " : "out", o,
                     bt_dtype_name((bt_dtype)operand->dtype));
        for (int axis = 0; axis < bti_kernel_axes(kernel); axis++)
            bti_str_add(text, operand->moves >> axis & 1 ? "x" : "-");
        if (operand->unit) bti_str_add(text, " unit");
        if (operand->taken) bti_str_add(text, " taken");
        if (o >= kernel->input_count) bti_str_addf(text, " = %%%d", operand->value);
        bti_str_add(text, "\n");
    }
    for (int i = 0; i < kernel->instr_count; i++) {
        const bti_instr *instr = &kernel->instrs[i];
        const char *name = instr->op == BTI_OP_leaf ? "load" : bti_op_info((bti_op)instr->op)->name;
        bti_str_addf(text, "  %%%d = %s %s", i, name, bt_dtype_name((bt_dtype)instr->dtype));
        for (int a = 0; a < bti_instr_arguments(instr); a++) bti_str_addf(text, " %%%d", instr->arg[a]);
        if (bti_instr_arguments(instr) == 0) bti_str_addf(text, " #%d", instr->arg[0]);
        if (instr->op == BTI_OP_threefry) bti_str_addf(text, " word %d", instr->attr);
        if (instr->op == BTI_OP_take) bti_str_addf(text, " of #%d", instr->attr);
        if (kernel->reduced)
            bti_str_addf(text, "  %s, stage %d", instr->level == BTI_ROW ? "row" : "point", instr->stage);
        bti_str_add(text, "\n");
    }
}

void bti_kernel_name(char *name, size_t size, const bti_kernel *kernel) {
    size_t length = 0;
    int before = -1;
    for (int i = 0; i < kernel->instr_count; i++) {
        int op = kernel->instrs[i].op;
        if (op == before || kernel->instrs[i].again || op == BTI_OP_leaf || op == BTI_OP_const || op == BTI_OP_iota ||
            op == BTI_OP_cast)
            continue;
        const char *text = bti_op_info((bti_op)op)->name;
        if (length + strlen(text) + 5 > size) {
            snprintf(name + length, size - length, "...");
            return;
        }
        length += (size_t)snprintf(name + length, size - length, "%s%s", length ? "+" : "", text);
        before = op;
    }
    if (!length) snprintf(name, size, "%s", kernel->input_count ? "move" : "fill");
}

/* The bytes up to the last used instruction say it all. */
static size_t used_bytes(const bti_kernel *kernel) {
    return offsetof(bti_kernel, instrs) + kernel->instr_count * sizeof *kernel->instrs;
}

uint64_t bti_kernel_hash(const bti_kernel *kernel) {
    uint64_t hash = used_bytes(kernel);
    size_t head = offsetof(bti_kernel, operands) + (size_t)bti_kernel_operands(kernel) * sizeof *kernel->operands;
    const unsigned char *parts[2] = {(const unsigned char *)kernel, (const unsigned char *)kernel->instrs};
    size_t bytes[2] = {head, kernel->instr_count * sizeof *kernel->instrs};
    for (int p = 0; p < 2; p++)
        for (size_t i = 0; i < bytes[p]; i += 8) {
            uint64_t word = 0;
            memcpy(&word, parts[p] + i, bytes[p] - i < 8 ? bytes[p] - i : 8);
            hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
            hash ^= hash >> 29;
        }
    return hash;
}

bool bti_kernel_equal(const bti_kernel *a, const bti_kernel *b) {
    return a->instr_count == b->instr_count && memcmp(a, b, used_bytes(a)) == 0;
}

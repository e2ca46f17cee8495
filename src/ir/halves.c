#include "ir/halves.h"

#include <string.h>

typedef struct halving {
    const bti_kernel *kernel;
    int axis;
    bool differs[BTI_KERNEL_INSTRS]; /* between the two points */
    bool used[BTI_KERNEL_INSTRS];    /* by what stands twice */
} halving;

static bool moves_along(const bti_kernel *kernel, int operand, int axis) {
    return kernel->operands[operand].moves >> axis & 1;
}

/* Whether an instruction draws words by their numbers along the axis, all with one key. */
static bool is_word(const halving *h, int number) {
    const bti_instr *instrs = h->kernel->instrs, *word = &instrs[number];
    return word->op == BTI_OP_random_word && instrs[word->arg[2]].op == BTI_OP_iota && h->differs[word->arg[2]] &&
           instrs[word->arg[3]].op == BTI_OP_const && !h->differs[word->arg[0]] && !h->differs[word->arg[1]];
}

static void begin(halving *h, const bti_kernel *kernel, int axis) {
    h->kernel = kernel;
    h->axis = axis;
    for (int i = 0; i < kernel->instr_count; i++) {
        const bti_instr *instr = &kernel->instrs[i];
        int operand = bti_instr_operand(instr);
        h->differs[i] = operand >= 0 && moves_along(kernel, operand, axis);
        for (int a = 0; a < bti_instr_arguments(instr); a++) h->differs[i] = h->differs[i] || h->differs[instr->arg[a]];
    }
    memset(h->used, 0, sizeof h->used);
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++) h->used[kernel->operands[o].value] = true;
    for (int i = kernel->instr_count - 1; i >= 0; i--) /* nobody asks how many words there are */
        for (int a = 0; h->used[i] && a < bti_instr_arguments(&kernel->instrs[i]) - is_word(h, i); a++)
            h->used[kernel->instrs[i].arg[a]] = true;
}

/* --- which maps ----------------------------------------------------------------------------------------------------- */

static bool has_room(const halving *h) {
    const bti_kernel *kernel = h->kernel;
    int instrs = 0, operands = 0;
    for (int i = 0; i < kernel->instr_count; i++) instrs += h->used[i] + (h->used[i] && h->differs[i]);
    for (int o = 0; o < bti_kernel_operands(kernel); o++) operands += 1 + moves_along(kernel, o, h->axis);
    return instrs <= BTI_KERNEL_INSTRS && operands <= BTI_KERNEL_OPERANDS;
}

/* Whether the words' numbers are in the first half of `count` in the first half of the axis, and `count` / 2 greater in the second. */
static bool counts_all(const halving *h, int word, const bti_box *box) {
    const bti_instr *instr = &h->kernel->instrs[word];
    int number = h->kernel->instrs[instr->arg[2]].arg[0];
    uint64_t count = box->scalars[h->kernel->instrs[instr->arg[3]].arg[0]];
    const int64_t *stride = box->stride[number], along = stride[h->axis];
    int64_t greatest = (int64_t)box->address[number]; /* at the beginning of the axis */
    if (greatest < 0 || along <= 0 || count > UINT32_MAX) return false;
    if ((int64_t)count / along != box->extent[h->axis] || (int64_t)count % along) return false;
    for (int axis = 0; axis < bti_kernel_axes(h->kernel); axis++) {
        if (axis == h->axis) continue;
        if (stride[axis] < 0 || stride[axis] > UINT32_MAX || box->extent[axis] > UINT32_MAX) return false;
        greatest += (box->extent[axis] - 1) * stride[axis];
        if (greatest >= along) return false;
    }
    return greatest < along;
}

static bool halves_well(const bti_kernel *kernel, int axis, const bti_box *box) {
    halving h;
    int words = 0;
    if (box->extent[axis] % 2) return false;
    begin(&h, kernel, axis);
    for (int i = 0; i < kernel->instr_count; i++) {
        if (!is_word(&h, i)) continue;
        if (!counts_all(&h, i, box)) return false;
        words++;
    }
    return words > 0 && has_room(&h);
}

bool bti_kernel_draws(const bti_kernel *kernel) {
    for (int i = 0; i < kernel->instr_count; i++)
        if (kernel->instrs[i].op == BTI_OP_random_word) return true;
    return false;
}

int bti_halves_axis(const bti_kernel *kernel, const bti_box *box) {
    if (kernel->reduced) return -1;
    for (int o = 0; o < bti_kernel_operands(kernel); o++)
        if (bti_kernel_may_cross(kernel, o)) return -1; /* tiles of twice as many operands would be smaller */
    for (int axis = 0; axis < bti_kernel_axes(kernel); axis++)
        if (halves_well(kernel, axis, box)) return axis;
    return -1;
}

/* --- twice ------------------------------------------------------------------------------------------------------------ */

typedef struct twice {
    bti_kernel *halved;
    uint16_t operand[BTI_KERNEL_OPERANDS],
        value[2][BTI_KERNEL_INSTRS]; /* by what they are in the kernel; of each point */
} twice;

/* Two operands for each that moves along the axis. */
static void write_operands(const halving *h, twice *t) {
    const bti_kernel *kernel = h->kernel;
    uint16_t next = 0;
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        t->operand[o] = next;
        for (int half = 0; half <= moves_along(kernel, o, h->axis); half++)
            t->halved->operands[next++] = kernel->operands[o];
        if (o < kernel->input_count) t->halved->input_count = next;
    }
    t->halved->output_count = next - t->halved->input_count;
}

/* The instruction for one of the two points. Both words of a block are of both numbers. */
static void write_instr(const halving *h, twice *t, int number, uint8_t half) {
    const bti_instr *from = &h->kernel->instrs[number];
    uint16_t value = t->halved->instr_count++;
    bti_instr *instr = &t->halved->instrs[value];
    t->value[half][number] = value;
    if (!h->differs[number]) t->value[1][number] = value;
    *instr = *from;
    instr->again = half;
    for (int a = 0; a < bti_instr_arguments(from) - is_word(h, number); a++)
        instr->arg[a] = t->value[half][from->arg[a]];
    int operand = bti_instr_operand(from);
    if (operand >= 0) {
        int own = t->operand[operand] + (half && moves_along(h->kernel, operand, h->axis));
        if (from->op == BTI_OP_take)
            instr->attr = (uint8_t)own;
        else
            instr->arg[0] = (uint16_t)own;
    }
    if (!is_word(h, number)) return;
    instr->op = BTI_OP_threefry;
    instr->attr = half;
    instr->arg[2] = t->value[0][from->arg[2]];
    instr->arg[3] = t->value[1][from->arg[2]];
}

/* First all of one point, so that little of it lives on while the other is computed: the second words of blocks. */
void bti_halves_kernel(const bti_kernel *kernel, int axis, bti_kernel *halved) {
    halving h;
    twice t = {.halved = halved};
    begin(&h, kernel, axis);
    *halved = (bti_kernel){.outer = kernel->outer, .inner = kernel->inner, .scalar_count = kernel->scalar_count};
    write_operands(&h, &t);
    for (uint8_t half = 0; half < 2; half++)
        for (int i = 0; i < kernel->instr_count; i++) {
            bool counts = kernel->instrs[i].op == BTI_OP_iota; /* blocks are of both numbers */
            if (!h.used[i] || (half && (counts || !h.differs[i]))) continue;
            write_instr(&h, &t, i, half);
            if (counts && h.differs[i]) write_instr(&h, &t, i, 1);
        }
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++)
        for (int half = 0; half < 2; half++) /* an output moves along all axes */
            halved->operands[t.operand[o] + half].value = t.value[half][kernel->operands[o].value];
    bti_kernel_set_stages(halved);
}

void bti_halves_box(const bti_kernel *kernel, int axis, bti_box *box) {
    int from = bti_kernel_operands(kernel), to = from;
    for (int o = 0; o < from; o++) to += moves_along(kernel, o, axis);
    box->extent[axis] /= 2;
    while (from--) {
        uint64_t further = (uint64_t)box->extent[axis] * (uint64_t)box->stride[from][axis];
        for (int half = moves_along(kernel, from, axis); half >= 0; half--) {
            box->address[--to] = box->address[from] + (half ? further : 0);
            memmove(box->stride[to], box->stride[from], (size_t)bti_kernel_axes(kernel) * sizeof **box->stride);
        }
    }
}

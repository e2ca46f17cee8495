#include "drivers/cpu/sort/lines.h"

#include "reference/operand.h"

void bti_order_lines_begin(bti_order_lines *lines, const bti_work *work) {
    const bti_operand *operands[] = {&work->output, work->others, work->inputs}, *x = work->inputs;
    int axis = bti_attr_axis(work->op, work->attr);
    *lines = (bti_order_lines){.count = 1, .length = x->shape[axis], .kept = x->shape[axis]};
    if (work->op == BTI_OP_top_k) lines->kept = work->attr->top.k;
    for (int o = 0; o < BTI_ORDER_OPERANDS; o++) {
        bool there = bti_operand_count(operands[o]) > 0;
        lines->first[o] = bti_address(operands[o]);
        if (o < BTI_ORDER_INPUT) lines->wants[o] = there;
        if (there) lines->step[o] = bti_axis_step(operands[o], axis);
        for (int a = 0, to = 0; a < x->rank && there; a++)
            if (a != axis) lines->stride[o][to++] = bti_axis_step(operands[o], a);
    }
    for (int a = 0; a < x->rank; a++) {
        if (a == axis) continue;
        lines->shape[lines->axes++] = x->shape[a];
        lines->count *= x->shape[a];
    }
    bool indexed = lines->wants[BTI_ORDER_INDICES] || work->op == BTI_OP_top_k;
    lines->form = bti_words_form_of(x->dtype, indexed, work->op == BTI_OP_top_k);
}

void bti_order_line_at(const bti_order_lines *lines, int64_t line, char *at[BTI_ORDER_OPERANDS]) {
    for (int o = 0; o < BTI_ORDER_OPERANDS; o++) at[o] = lines->first[o];
    for (int a = lines->axes - 1; a >= 0; line /= lines->shape[a--])
        for (int o = 0; o < BTI_ORDER_OPERANDS; o++) at[o] += line % lines->shape[a] * lines->stride[o][a];
}

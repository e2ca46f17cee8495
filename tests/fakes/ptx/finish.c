/* What can be done only when all functions of a module are known: calls, and the offsets of shared memory. */
#include "fakes/ptx/parse.h"

#define DYNAMIC_ALIGNMENT 16

static uint64_t align(uint64_t offset, uint64_t alignment) { return (offset + alignment - 1) & -alignment; }

static void check_list(ptx_parser *p, const ptx_function *f, const uint32_t *offsets, int count,
                       const ptx_parameter *list, int expected) {
    bool fits = count == expected;
    for (int i = 0; i < count && fits; i++) fits = offsets[i] + (uint64_t)list[i].bytes <= f->frame_bytes;
    if (!fits) ptx_refuse(p, "the function was declared with other parameters");
}

static void check_call(ptx_parser *p, const ptx_function *f, const ptx_instruction *i) {
    const ptx_function *callee = &p->module->functions[i->target];
    p->statement = p->module->text + i->text_at;
    if (!callee->count) ptx_refuse(p, "function %s has no body", callee->name);
    check_list(p, f, i->call_arguments, i->call_argument_count, callee->parameters, callee->parameter_count);
    if (i->call_results) check_list(p, f, i->call_results, i->call_result_count, callee->results, callee->result_count);
}

static bool uses_dynamic(const ptx_operand *operand) {
    return operand->kind == PTX_SHARED_AT && operand->number == PTX_DYNAMIC;
}

/* The variables of the module come first, those of the entry behind them. Dynamic memory begins where the static bytes of the launched
 * entry end; functions that use it must find it at one place, whoever calls them. */
static void size_shared(ptx_parser *p, uint64_t base) {
    ptx_module *m = p->module;
    uint64_t alignment = p->dynamic_alignment > DYNAMIC_ALIGNMENT ? p->dynamic_alignment : DYNAMIC_ALIGNMENT;
    uint32_t most = 0;
    bool everywhere = false;
    for (int k = 0; k < m->function_count; k++) {
        ptx_function *f = &m->functions[k];
        f->shared_bytes = (uint32_t)(f->entry ? f->shared_bytes ? base + f->shared_bytes : p->module_shared : 0);
        if (alignment > DYNAMIC_ALIGNMENT) f->shared_bytes = (uint32_t)align(f->shared_bytes, alignment);
        if (f->shared_bytes > most) most = f->shared_bytes;
        for (uint32_t i = 0; i < f->count && !f->entry; i++)
            for (int o = 0; o < f->instructions[i].from_count; o++)
                everywhere |= uses_dynamic(&f->instructions[i].from[o]);
    }
    for (int k = 0; k < m->function_count && everywhere; k++)
        m->functions[k].shared_bytes = (uint32_t)align(most, alignment);
}

void ptx_finish(ptx_parser *p) {
    ptx_module *m = p->module;
    uint64_t base = align(p->module_shared, 128);
    size_shared(p, base);
    for (int k = 0; k < m->function_count; k++) {
        ptx_function *f = &m->functions[k];
        for (uint32_t i = 0; i < f->count; i++) {
            if (f->instructions[i].opcode == PTX_CALL) check_call(p, f, &f->instructions[i]);
            for (int o = 0; o < f->instructions[i].from_count; o++) {
                ptx_operand *operand = &f->instructions[i].from[o];
                if (operand->kind != PTX_SHARED_AT) continue;
                if (operand->number == PTX_OF_ENTRY) operand->value += base;
                if (operand->number == PTX_DYNAMIC) operand->value += align(f->shared_bytes, DYNAMIC_ALIGNMENT);
                operand->number = 0;
            }
        }
    }
}

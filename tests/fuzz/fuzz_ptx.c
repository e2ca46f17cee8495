/* Texts of PTX: any text is parsed or refused with a problem that names a line; its variables may be placed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/ptx/ptx.h"

/* The arithmetic of instructions is not tested here. */
static void compute_nothing(const ptx_instruction *instruction, uint64_t *to, uint64_t *to2, const uint64_t *a,
                            const uint64_t *b, const uint64_t *c, const uint64_t *d, uint32_t mask, uint32_t *carry,
                            uint64_t seed) {
    (void)instruction, (void)to, (void)to2, (void)a, (void)b, (void)c, (void)d, (void)mask, (void)carry, (void)seed;
}
ptx_compute *ptx_compute_of(const ptx_instruction *instruction) { return instruction->type ? compute_nothing : NULL; }

static void check_function(const ptx_module *module, const ptx_function *f) {
    for (uint32_t i = 0; i < f->count; i++) {
        const ptx_instruction *in = &f->instructions[i];
        if (in->guard >= (int64_t)f->registers || in->text_at > strlen(module->text)) abort();
        if (in->opcode == PTX_BRA && in->target >= f->count) abort();
        if (in->opcode == PTX_CALL && in->target >= (uint32_t)module->function_count) abort();
        for (int k = 0; k < in->to_count; k++)
            if (in->to[k].kind == PTX_REGISTER && in->to[k].number >= f->registers) abort();
        for (int k = 0; k < in->from_count; k++)
            if (in->from[k].kind == PTX_REGISTER && in->from[k].number >= f->registers) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1), *problem = NULL, line[40];
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    ptx_module *module = ptx_parse(text, &problem);
    if (!module != !!problem || (problem && strncmp(problem, "line ", 5))) abort();
    for (int i = 0; module && i < module->function_count; i++) {
        check_function(module, &module->functions[i]);
        if (module->functions[i].count) ptx_text(module, &module->functions[i].instructions[0], line, sizeof line);
    }
    if (module) ptx_place_variables(module);
    ptx_free(module);
    free(problem);
    free(text);
    return 0;
}

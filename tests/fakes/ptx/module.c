/* What is done with parsed modules. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/ptx/ptx.h"

void ptx_free(ptx_module *module) {
    if (!module) return;
    for (int k = 0; k < module->function_count; k++) {
        ptx_function *f = &module->functions[k];
        for (uint32_t i = 0; i < f->count; i++) {
            free(f->instructions[i].call_arguments);
            free(f->instructions[i].call_results);
        }
        free(f->instructions);
        free(f->parameters);
        free(f->results);
        free(f->name);
    }
    for (int i = 0; i < module->variable_count; i++) {
        free(module->variables[i].initial);
        free(module->variables[i].name);
    }
    free(module->functions);
    free(module->variables);
    free(module->relocations);
    free(module->text);
    free(module->file);
    free(module);
}

ptx_function *ptx_find(const ptx_module *module, const char *name) {
    for (int i = 0; i < module->function_count; i++)
        if (module->functions[i].count && !strcmp(module->functions[i].name, name)) return &module->functions[i];
    return NULL;
}

void ptx_place_variables(ptx_module *module) {
    for (int k = 0; k < module->function_count; k++) {
        ptx_function *f = &module->functions[k];
        for (uint32_t i = 0; i < f->count; i++) {
            for (int o = 0; o < f->instructions[i].from_count; o++) {
                ptx_operand *operand = &f->instructions[i].from[o];
                if (operand->kind != PTX_GLOBAL_AT) continue;
                operand->kind = PTX_IMMEDIATE;
                operand->value += module->variables[operand->number].address;
                operand->number = 0;
            }
        }
    }
    for (int i = 0; i < module->relocation_count; i++) {
        const ptx_relocation *r = &module->relocations[i];
        uint64_t value = ((module->variables[r->of].address + r->offset) & r->mask) >> __builtin_ctzll(r->mask);
        memcpy(module->variables[r->variable].initial + r->at, &value, r->bytes);
    }
}

void ptx_text(const ptx_module *module, const ptx_instruction *instruction, char *text, size_t bytes) {
    const char *line = module->text + instruction->text_at;
    size_t length = strcspn(line, "\n");
    while (length && strchr(" \t\r", line[length - 1])) length--;
    snprintf(text, bytes, "%.*s", (int)length, line);
    for (char *at = text; (at = strchr(at, '\t')); at++) *at = ' ';
}

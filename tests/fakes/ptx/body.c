/* Bodies of functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/ptx/parse.h"

static ptx_function *current(ptx_parser *p) { return &p->module->functions[p->function]; }

/* --- declarations ----------------------------------------------------------------------------------------------------- */

/* .reg .b32 %r<14>, %temp; */
static void parse_registers(ptx_parser *p) {
    ptx_type type = ptx_type_of(ptx_directive(p));
    if (type == PTX_NO_TYPE) ptx_refuse(p, "unknown type of registers");
    do {
        ptx_word word = ptx_identifier(p);
        uint32_t count = 0;
        if (ptx_accept(p, '<')) {
            count = (uint32_t)ptx_parse_integer(p, PTX_MOST_REGISTERS);
            ptx_expect(p, '>');
            if (!count) continue;
        }
        ptx_name *name = ptx_add_name(p, word, PTX_REGISTER, 0);
        name->operand.number = p->registers;
        name->count = count;
        name->type = (uint8_t)type;
        p->registers += count ? count : 1;
        if (p->registers > PTX_MOST_REGISTERS) ptx_refuse(p, "too many registers");
    } while (ptx_accept(p, ','));
    ptx_expect(p, ';');
    if (p->registers > current(p)->registers) current(p)->registers = p->registers;
}

/* .local and .param variables of a function, which stand in its frame. */
static void parse_frame_variable(ptx_parser *p, bool argument) {
    ptx_declaration declaration = ptx_parse_declaration(p);
    ptx_expect(p, ';');
    ptx_name *name = ptx_add_name(p, declaration.name, PTX_LOCAL_AT, 0);
    name->operand.value = ptx_place(p, &p->frame, &declaration);
    name->bytes = declaration.bytes;
    name->argument = argument;
    if (p->frame > current(p)->frame_bytes) current(p)->frame_bytes = (uint32_t)p->frame;
}

/* .loc FILE LINE COLUMN, or the same and ", function_name NAME, inlined_at FILE LINE COLUMN". Lines of other files are those of the call;
 * line 0 is code without a line, which counts to the line before. */
static void parse_line(ptx_parser *p) {
    unsigned file, line;
    char text[256];
    snprintf(text, sizeof text, "%.*s", (int)strcspn(p->at, "\n"), p->at);
    p->at += strcspn(p->at, "\n");
    const char *inlined = strstr(text, "inlined_at");
    if (sscanf(text, " %u %u", &file, &line) != 2) ptx_refuse(p, "unknown form of .loc");
    if (file != p->main_file && inlined && sscanf(inlined, "inlined_at %u %u", &file, &line) != 2)
        ptx_refuse(p, "unknown form of .loc");
    if (file == p->main_file && line) p->line = line;
}

void ptx_skip_statement(ptx_parser *p) {
    bool quoted = false;
    for (; *p->at && (quoted || *p->at != ';'); p->at++) quoted ^= *p->at == '"';
    ptx_expect(p, ';');
}

static void parse_directive(ptx_parser *p) {
    ptx_word word = ptx_directive(p);
    if (ptx_is(word, "reg"))
        parse_registers(p);
    else if (ptx_is(word, "local"))
        parse_frame_variable(p, false);
    else if (ptx_is(word, "param"))
        parse_frame_variable(p, true);
    else if (ptx_is(word, "shared"))
        ptx_parse_shared(p, false);
    else if (ptx_is(word, "loc"))
        parse_line(p);
    else if (ptx_is(word, "pragma"))
        ptx_skip_statement(p);
    else
        ptx_refuse(p, "unknown directive .%.*s", (int)word.length, word.text);
}

/* --- scopes and labels ------------------------------------------------------------------------------------------------ */

static void open_scope(ptx_parser *p) {
    if (p->depth + 1 == PTX_MOST_DEPTH) ptx_refuse(p, "braces are nested too deeply");
    p->outer_scopes = ptx_grow(p->outer_scopes, p->scope_count, sizeof *p->outer_scopes);
    p->outer_scopes[p->scope_count] = p->scopes[p->depth].number;
    p->scopes[++p->depth] = (ptx_block){p->scope_count++, p->name_count, p->registers, p->frame};
}

static void close_scope(ptx_parser *p) {
    const ptx_block *scope = &p->scopes[p->depth--];
    p->name_count = scope->names;
    p->registers = scope->registers;
    p->frame = scope->frame;
}

static bool is_within(const ptx_parser *p, uint32_t scope, uint32_t outer) {
    while (scope > outer) scope = p->outer_scopes[scope];
    return scope == outer;
}

static void resolve_branches(ptx_parser *p) {
    for (uint32_t i = 0; i < p->branch_count; i++) {
        const ptx_label *branch = &p->branches[i], *found = NULL;
        for (uint32_t k = 0; k < p->label_count; k++) {
            const ptx_label *label = &p->labels[k];
            if (label->name.length != branch->name.length ||
                memcmp(label->name.text, branch->name.text, branch->name.length) ||
                !is_within(p, branch->scope, label->scope))
                continue;
            if (!found || label->scope > found->scope) found = label;
        }
        p->statement = branch->name.text;
        if (!found) ptx_refuse(p, "unknown label %.*s", (int)branch->name.length, branch->name.text);
        current(p)->instructions[branch->index].target = found->index;
    }
}

/* --- instructions ----------------------------------------------------------------------------------------------------- */

static ptx_instruction *add_instruction(ptx_parser *p) {
    ptx_function *f = current(p);
    f->instructions = ptx_grow(f->instructions, f->count, sizeof *f->instructions);
    ptx_instruction *made = &f->instructions[f->count++];
    *made = (ptx_instruction){.guard = -1, .line = p->line, .text_at = (uint32_t)(p->statement - p->module->text)};
    return made;
}

static void find_compute(ptx_parser *p, ptx_instruction *i) {
    const ptx_kind kind = (ptx_kind)i->from[0].kind;
    if (i->opcode >= PTX_CONTROL) return;
    if (i->opcode == PTX_MOV) {
        if (i->to_count > 1 && i->from_count > 1) ptx_refuse(p, "mov from a vector to a vector");
        if (i->to_count > 1 || i->from_count > 1) return;
        if (kind == PTX_SHARED_AT || kind == PTX_LOCAL_AT || kind == PTX_PARAM_AT) return;
    }
    i->compute = ptx_compute_of(i);
    if (!i->compute) ptx_refuse(p, "unknown form of an instruction");
}

static void parse_guard(ptx_parser *p, int32_t *guard, bool *negated) {
    if (!ptx_accept(p, '@')) return;
    ptx_operand operand;
    *negated = ptx_accept(p, '!');
    const ptx_name *name = ptx_look_up(p, ptx_identifier(p), &operand);
    if (!name || name->type != PTX_PRED) ptx_refuse(p, "unknown predicate");
    *guard = (int32_t)operand.number;
}

static void parse_instruction(ptx_parser *p, ptx_word word) {
    ptx_instruction *i = add_instruction(p);
    int32_t guard = -1;
    bool negated = false;
    if (!word.length) {
        parse_guard(p, &guard, &negated);
        word = ptx_identifier(p);
    }
    while (*p->at == '.' || *p->at == ':') {
        size_t length = strspn(p->at, ".:");
        length += strspn(p->at + length, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        word.length += (uint32_t)length;
        p->at += length;
    }
    const char *signature = ptx_parse_opcode(p, word, i);
    i->guard = guard;
    i->guard_not = negated;
    if (signature)
        ptx_parse_operands(p, i, signature);
    else
        ptx_parse_call(p, i);
    find_compute(p, i);
}

static void parse_label(ptx_parser *p, ptx_word word) {
    p->labels = ptx_grow(p->labels, p->label_count, sizeof *p->labels);
    p->labels[p->label_count++] = (ptx_label){word, p->scopes[p->depth].number, current(p)->count};
}

static void parse_statement(ptx_parser *p) {
    ptx_skip(p);
    p->statement = p->at;
    if (*p->at == '{') {
        p->at++;
        open_scope(p);
    } else if (*p->at == '}') {
        p->at++;
        close_scope(p);
    } else if (*p->at == '.') {
        parse_directive(p);
    } else if (*p->at == '@') {
        parse_instruction(p, (ptx_word){0});
    } else if (!ptx_accept(p, ';')) {
        ptx_word word = ptx_identifier(p);
        const char *behind = p->at;
        if (*p->at != '.' && ptx_accept(p, ':')) {
            parse_label(p, word);
        } else {
            p->at = behind;
            parse_instruction(p, word);
        }
    }
}

void ptx_parse_body(ptx_parser *p) {
    p->label_count = p->branch_count = p->scope_count = 0;
    p->line = 0;
    p->depth = -1;
    p->outer_scopes = ptx_grow(p->outer_scopes, 0, sizeof *p->outer_scopes);
    p->outer_scopes[p->scope_count++] = 0;
    p->scopes[++p->depth] = (ptx_block){0, p->name_count, p->registers, p->frame};
    while (p->depth >= 0) parse_statement(p);
    ptx_instruction *end = add_instruction(p); /* labels may stand behind the last instruction */
    end->opcode = PTX_RET;
    end->vector = 1;
    resolve_branches(p);
}

/* Declarations of variables and parameters, and initial values. */
#include <stdlib.h>
#include <string.h>

#include "fakes/ptx/parse.h"

/* --- declarations ----------------------------------------------------------------------------------------------------- */

static void parse_sizes(ptx_parser *p, ptx_declaration *d) {
    while (ptx_accept(p, '[')) {
        if (ptx_accept(p, ']')) {
            if (d->dimensions) ptx_refuse(p, "only the first dimension may be left out");
            d->unsized = true;
            return;
        }
        if (d->dimensions == 4) ptx_refuse(p, "too many dimensions");
        uint64_t size = ptx_parse_integer(p, PTX_MOST_BYTES);
        ptx_expect(p, ']');
        d->sizes[d->dimensions++] = size;
        d->bytes *= size;
        if (d->bytes > PTX_MOST_BYTES) ptx_refuse(p, "a variable is too large");
    }
}

ptx_declaration ptx_parse_declaration(ptx_parser *p) {
    ptx_declaration d = {.type = PTX_NO_TYPE};
    uint64_t elements = 1;
    bool pointer = false; /* behind .ptr, alignment and space are those of what it points to */
    ptx_skip(p);
    while (*p->at == '.') {
        ptx_word word = ptx_directive(p);
        ptx_type type = ptx_type_of(word);
        if (ptx_is(word, "align")) {
            uint64_t alignment = ptx_parse_integer(p, 4096);
            if (!alignment || alignment & (alignment - 1)) ptx_refuse(p, "an alignment that is no power of two");
            if (!pointer) d.alignment = alignment;
        } else if (ptx_is(word, "v2") || ptx_is(word, "v4")) {
            elements = (uint64_t)(word.text[1] - '0');
        } else if (ptx_is(word, "ptr")) {
            pointer = true;
        } else if (ptx_type_bytes(type) && d.type == PTX_NO_TYPE) {
            d.type = type;
        } else if (!pointer || !(ptx_is(word, "global") || ptx_is(word, "shared") || ptx_is(word, "local") ||
                                 ptx_is(word, "const"))) {
            ptx_refuse(p, "unknown word in a declaration: .%.*s", (int)word.length, word.text);
        }
        ptx_skip(p);
    }
    if (d.type == PTX_NO_TYPE) ptx_refuse(p, "the type is missing");
    d.name = ptx_identifier(p);
    d.bytes = elements * ptx_type_bytes(d.type);
    if (d.alignment < ptx_type_bytes(d.type)) d.alignment = d.bytes;
    parse_sizes(p, &d);
    return d;
}

uint64_t ptx_place(ptx_parser *p, uint64_t *used, const ptx_declaration *d) {
    uint64_t at = (*used + d->alignment - 1) & -d->alignment;
    if (d->unsized || at + d->bytes > PTX_MOST_BYTES) ptx_refuse(p, "variables take too many bytes");
    *used = at + d->bytes;
    return at;
}

void ptx_parse_shared(ptx_parser *p, bool external) {
    ptx_declaration d = ptx_parse_declaration(p);
    ptx_expect(p, ';');
    ptx_name *name = ptx_add_name(p, d.name, PTX_SHARED_AT, 0);
    if (external || d.unsized) {
        if (!external || !d.unsized) ptx_refuse(p, "unknown form of a .shared variable");
        name->operand.number = PTX_DYNAMIC;
        if (d.alignment > p->dynamic_alignment) p->dynamic_alignment = d.alignment;
    } else {
        name->operand.number = p->entry ? PTX_OF_ENTRY : PTX_OF_MODULE;
        name->operand.value = ptx_place(p, p->entry ? &p->entry_shared : &p->module_shared, &d);
    }
}

/* --- initial values --------------------------------------------------------------------------------------------------- */

static void parse_symbol(ptx_parser *p, ptx_relocation *relocation) {
    ptx_operand operand;
    ptx_word word = ptx_identifier(p);
    bool generic = ptx_is(word, "generic") && ptx_accept(p, '(');
    if (generic) word = ptx_identifier(p);
    if (!ptx_look_up(p, word, &operand) || operand.kind != PTX_GLOBAL_AT)
        ptx_refuse(p, "unknown address %.*s in an initial value", (int)word.length, word.text);
    if (generic) ptx_expect(p, ')');
    relocation->of = operand.number;
    ptx_skip(p);
    if (*p->at == '+') p->at++, relocation->offset = ptx_parse_integer(p, UINT64_MAX);
}

static void add_relocation(ptx_parser *p, const ptx_relocation *relocation) {
    ptx_module *m = p->module;
    m->relocations = ptx_grow(m->relocations, (uint32_t)m->relocation_count, sizeof *m->relocations);
    m->relocations[m->relocation_count++] = *relocation;
}

/* One element: a number, an address (generic(counter)+4) or a part of one (0xFF00(counter)). */
static void parse_element(ptx_parser *p, ptx_type type, unsigned char *to, uint64_t at, uint32_t variable) {
    ptx_relocation relocation = {.variable = variable, .at = at, .bytes = ptx_type_bytes(type), .mask = UINT64_MAX};
    ptx_skip(p);
    if (strchr("0123456789-~(", *p->at) && *p->at) {
        ptx_number number = ptx_parse_number(p);
        if (!ptx_accept(p, '(')) {
            uint64_t bits = ptx_number_as(p, number, type);
            memcpy(to, &bits, relocation.bytes);
            return;
        }
        relocation.mask = number.bits;
        if (number.form != PTX_INTEGER || !number.bits) ptx_refuse(p, "unknown part of an address");
        parse_symbol(p, &relocation);
        ptx_expect(p, ')');
    } else {
        parse_symbol(p, &relocation);
    }
    add_relocation(p, &relocation);
}

/* "{1, 2, {3, 4}}": inner braces begin at a multiple of their dimension's size. Gives the bytes that the level takes. */
static void parse_elements_of(ptx_parser *p, const ptx_declaration *d, unsigned char *initial, uint64_t at,
                              uint64_t bytes, int level, uint32_t variable) {
    uint32_t element = ptx_type_bytes(d->type);
    uint64_t inner = level < d->dimensions && d->sizes[level] ? bytes / d->sizes[level] : element, end = at + bytes;
    if (p->nesting++ == PTX_MOST_DEPTH) ptx_refuse(p, "braces are nested too deeply");
    if (ptx_accept(p, '}')) return (void)p->nesting--;
    do {
        if (ptx_accept(p, '{')) {
            if (inner > end - at) ptx_refuse(p, "more initial values than elements");
            parse_elements_of(p, d, initial, at, inner, level + 1, variable);
            at += inner;
        } else {
            if (element > end - at) ptx_refuse(p, "more initial values than elements");
            parse_element(p, d->type, initial + at, at, variable);
            at += element;
        }
    } while (ptx_accept(p, ','));
    ptx_expect(p, '}');
    p->nesting--;
}

void ptx_parse_variable(ptx_parser *p, bool constant, bool external) {
    ptx_module *m = p->module;
    ptx_declaration d = ptx_parse_declaration(p);
    if (external || d.unsized) ptx_refuse(p, "a variable of another module");
    uint32_t number = (uint32_t)m->variable_count;
    ptx_add_name(p, d.name, PTX_GLOBAL_AT, 0)->operand.number = number;
    m->variables = ptx_grow(m->variables, number, sizeof *m->variables);
    ptx_variable *v = &m->variables[m->variable_count++];
    *v = (ptx_variable){.bytes = d.bytes, .alignment = d.alignment, .constant = constant};
    v->name = strndup(d.name.text, d.name.length);
    if (!v->name) abort();
    if (ptx_accept(p, '=')) {
        v->initial = calloc(1, d.bytes + 1);
        if (!v->initial) abort();
        if (ptx_accept(p, '{'))
            parse_elements_of(p, &d, v->initial, 0, d.bytes, 0, number);
        else if (d.bytes)
            parse_element(p, d.type, v->initial, 0, number);
    }
    ptx_expect(p, ';');
}

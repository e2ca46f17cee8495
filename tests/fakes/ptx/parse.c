/* What stands outside of functions in PTX: directives, variables and the heads of functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/ptx/parse.h"

/* --- functions -------------------------------------------------------------------------------------------------------- */

/* A list of parameters, from behind the "(": each is placed behind `*used` bytes of an entry's arguments or of the frame. */
static void parse_parameters(ptx_parser *p, ptx_parameter **list, int *count, uint64_t *used) {
    *count = 0;
    if (ptx_accept(p, ')')) return;
    do {
        if (!ptx_is(ptx_directive(p), "param")) ptx_refuse(p, "parameters are .param variables");
        ptx_declaration d = ptx_parse_declaration(p);
        *list = ptx_grow(*list, (uint32_t)*count, sizeof **list);
        uint64_t at = ptx_place(p, used, &d);
        (*list)[(*count)++] = (ptx_parameter){(uint32_t)at, (uint32_t)d.bytes};
        ptx_name *name = ptx_add_name(p, d.name, p->entry ? PTX_PARAM_AT : PTX_LOCAL_AT, at);
        name->bytes = d.bytes;
        name->argument = true;
    } while (ptx_accept(p, ','));
    ptx_expect(p, ')');
}

/* The function of that name; a new one if it was not declared. */
static uint32_t add_function(ptx_parser *p, ptx_word name) {
    ptx_module *m = p->module;
    for (int i = 0; i < m->function_count; i++) {
        if (!ptx_is(name, m->functions[i].name)) continue;
        if (m->functions[i].count) ptx_refuse(p, "a second function %.*s", (int)name.length, name.text);
        return (uint32_t)i;
    }
    m->functions = ptx_grow(m->functions, (uint32_t)m->function_count, sizeof *m->functions);
    m->functions[m->function_count] = (ptx_function){.name = strndup(name.text, name.length)};
    if (!m->functions[m->function_count].name) abort();
    return (uint32_t)m->function_count++;
}

/* .maxntid 256, 1, 1 and so on. */
static void parse_performance(ptx_parser *p) {
    ptx_function *f = &p->module->functions[p->function];
    ptx_word word = ptx_directive(p);
    if (ptx_is(word, "maxntid") || ptx_is(word, "reqntid")) {
        uint64_t threads = 1;
        do {
            threads *= ptx_parse_integer(p, 1024);
            if (threads > 1024) ptx_refuse(p, "more than 1024 threads");
        } while (ptx_accept(p, ','));
        f->max_threads = (uint32_t)threads;
    } else if (ptx_is(word, "minnctapersm")) {
        f->min_blocks = (uint32_t)ptx_parse_integer(p, 32);
    } else if (ptx_is(word, "maxnctapersm") || ptx_is(word, "maxnreg")) {
        (void)ptx_parse_integer(p, 256);
    } else if (ptx_is(word, "pragma")) {
        ptx_skip_statement(p);
    } else if (!ptx_is(word, "noreturn")) {
        ptx_refuse(p, "unknown directive .%.*s", (int)word.length, word.text);
    }
}

/* What the comment lines in front of the text say: "// fake NVRTC: function NAME registers 40 spill 0 shared 128". */
static void read_properties(const ptx_module *m, ptx_function *f) {
    static const char start[] = "// fake NVRTC: function ";
    size_t length = strlen(f->name);
    for (const char *at = m->text; at && !strncmp(at, "//", 2); at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        if (strncmp(at, start, sizeof start - 1) || strncmp(at + sizeof start - 1, f->name, length)) continue;
        (void)!sscanf(at + sizeof start - 1 + length, " registers %u spill %u", &f->hardware_registers,
                      &f->spill_bytes);
    }
}

static void parse_function(ptx_parser *p, bool entry) {
    uint32_t names = p->name_count;
    uint64_t frame = 0, arguments = 0;
    p->entry = entry;
    p->registers = 0;
    p->entry_shared = 0;
    /* The results stand before the name: they are parsed when it is known. */
    ptx_skip(p);
    const char *before = p->at;
    if (ptx_accept(p, '(')) {
        while (*p->at && *p->at != ')') p->at++;
        ptx_expect(p, ')');
    }
    p->function = add_function(p, ptx_identifier(p));
    ptx_function *f = &p->module->functions[p->function];
    f->entry = entry;
    const char *behind = p->at;
    p->at = before;
    if (ptx_accept(p, '(')) parse_parameters(p, &f->results, &f->result_count, &frame);
    p->at = behind;
    if (ptx_accept(p, '(')) parse_parameters(p, &f->parameters, &f->parameter_count, entry ? &arguments : &frame);
    if (arguments > 32764) ptx_refuse(p, "too many bytes of arguments");
    f->parameter_bytes = (uint32_t)arguments;
    p->frame = frame;
    f->frame_bytes = (uint32_t)frame;
    for (ptx_skip(p); *p->at == '.'; ptx_skip(p)) parse_performance(p);
    if (!ptx_accept(p, ';')) {
        ptx_expect(p, '{');
        ptx_parse_body(p);
        f->shared_bytes = (uint32_t)p->entry_shared;
        read_properties(p->module, f);
    }
    p->name_count = names;
    p->entry = false;
}

/* --- the module ------------------------------------------------------------------------------------------------------- */

static void skip_section(ptx_parser *p) {
    while (*p->at && *p->at != '}') p->at++;
    ptx_expect(p, '}');
}

static void parse_target(ptx_parser *p) {
    ptx_word word = ptx_identifier(p);
    if (word.length < 5 || memcmp(word.text, "sm_", 3)) ptx_refuse(p, "unknown target");
    p->module->architecture = atoi(word.text + 3);
    while (ptx_accept(p, ',')) (void)ptx_identifier(p);
}

static void parse_directive(ptx_parser *p) {
    ptx_word word = ptx_directive(p);
    bool external = false;
    for (; ptx_is(word, "visible") || ptx_is(word, "weak") || ptx_is(word, "extern"); word = ptx_directive(p))
        external |= ptx_is(word, "extern");
    if (ptx_is(word, "version")) {
        (void)ptx_parse_number(p);
    } else if (ptx_is(word, "target")) {
        parse_target(p);
    } else if (ptx_is(word, "address_size")) {
        if (ptx_parse_integer(p, 64) != 64) ptx_refuse(p, "addresses have 64 bits");
    } else if (ptx_is(word, "entry") || ptx_is(word, "func")) {
        parse_function(p, *word.text == 'e');
    } else if (ptx_is(word, "global") || ptx_is(word, "const")) {
        ptx_parse_variable(p, *word.text == 'c', external);
    } else if (ptx_is(word, "shared")) {
        ptx_parse_shared(p, external);
    } else if (ptx_is(word, "file")) {
        p->at += strcspn(p->at, "\n"); /* find_files has read it */
    } else if (ptx_is(word, "section")) {
        skip_section(p);
    } else if (ptx_is(word, "pragma")) {
        ptx_skip_statement(p);
    } else {
        ptx_refuse(p, "unknown directive .%.*s", (int)word.length, word.text);
    }
}

/* The name of the .cu file: "// fake NVRTC: file NAME" in front of the text. Its number is that of the .file directive with the same
 * last part of its path; NVRTC writes these behind the functions. */
static void find_files(ptx_parser *p) {
    char name[256] = "", path[256];
    unsigned number;
    (void)!sscanf(p->module->text, "// fake NVRTC: file %255[^\n]", name);
    p->main_file = 1;
    for (const char *at = p->module->text; (at = strstr(at, "\t.file\t")); at++) {
        if (sscanf(at, " .file %u \"%255[^\"]", &number, path) != 2) continue;
        const char *last = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
        if (!*name && number == 1) snprintf(name, sizeof name, "%s", last);
        if (!strcmp(last, name)) p->main_file = number;
    }
    p->module->file = strdup(name);
    if (!p->module->file) abort();
}

static void free_parser(ptx_parser *p) {
    free(p->names);
    free(p->labels);
    free(p->branches);
    free(p->outer_scopes);
}

ptx_module *ptx_parse(const char *text, char **problem) {
    ptx_parser *p = calloc(1, sizeof *p);
    if (!p || !(p->module = calloc(1, sizeof *p->module)) || !(p->module->text = strdup(text))) abort();
    p->at = p->statement = p->module->text;
    find_files(p);
    if (!setjmp(p->failed)) {
        for (ptx_skip(p); *p->at; ptx_skip(p)) {
            p->statement = p->at;
            parse_directive(p);
        }
        ptx_finish(p);
    }
    ptx_module *module = p->module;
    char *found = p->problem;
    free_parser(p);
    free(p);
    if (!found) return module;
    ptx_free(module);
    if (problem)
        *problem = found;
    else
        free(found);
    return NULL;
}

/* Operands of PTX instructions. */
#include <stdlib.h>
#include <string.h>

#include "fakes/ptx/parse.h"

/* --- names ------------------------------------------------------------------------------------------------------------ */

static bool is_in_range(const ptx_name *name, ptx_word word, uint32_t *number) {
    uint32_t prefix = name->name.length;
    if (word.length <= prefix || word.length > prefix + 7 || memcmp(word.text, name->name.text, prefix)) return false;
    for (*number = 0; prefix < word.length; prefix++) {
        if (word.text[prefix] < '0' || word.text[prefix] > '9') return false;
        *number = *number * 10 + (uint32_t)(word.text[prefix] - '0');
    }
    return *number < name->count;
}

const ptx_name *ptx_look_up(ptx_parser *p, ptx_word word, ptx_operand *operand) {
    for (uint32_t i = p->name_count; i-- > 0;) {
        const ptx_name *name = &p->names[i];
        uint32_t number = 0;
        if (name->count ? !is_in_range(name, word, &number)
                        : name->name.length != word.length || memcmp(name->name.text, word.text, word.length))
            continue;
        *operand = name->operand;
        operand->number += number;
        return name;
    }
    return NULL;
}

ptx_name *ptx_add_name(ptx_parser *p, ptx_word word, ptx_kind kind, uint64_t value) {
    p->names = ptx_grow(p->names, p->name_count, sizeof *p->names);
    p->names[p->name_count] = (ptx_name){.name = word, .operand = {.kind = (uint8_t)kind, .value = value}};
    return &p->names[p->name_count++];
}

/* --- one operand ------------------------------------------------------------------------------------------------------ */

static const struct special {
    const char *name;
    ptx_special number;
} specials[] = {
    {"%tid.x", PTX_TID_X},
    {"%tid.y", PTX_TID_Y},
    {"%tid.z", PTX_TID_Z},
    {"%ntid.x", PTX_NTID_X},
    {"%ntid.y", PTX_NTID_Y},
    {"%ntid.z", PTX_NTID_Z},
    {"%ctaid.x", PTX_CTAID_X},
    {"%ctaid.y", PTX_CTAID_Y},
    {"%ctaid.z", PTX_CTAID_Z},
    {"%nctaid.x", PTX_NCTAID_X},
    {"%nctaid.y", PTX_NCTAID_Y},
    {"%nctaid.z", PTX_NCTAID_Z},
    {"%laneid", PTX_LANEID},
    {"%warpid", PTX_WARPID},
    {"%nwarpid", PTX_NWARPID},
    {"%smid", PTX_SMID},
    {"%nsmid", PTX_NSMID},
    {"%clock", PTX_CLOCK},
    {"%clock64", PTX_CLOCK64},
    {"%lanemask_eq", PTX_LANEMASK_EQ},
    {"%lanemask_lt", PTX_LANEMASK_LT},
    {"%lanemask_le", PTX_LANEMASK_LE},
    {"%lanemask_gt", PTX_LANEMASK_GT},
    {"%lanemask_ge", PTX_LANEMASK_GE},
    {"%dynamic_smem_size", PTX_DYNAMIC_SMEM_SIZE},
};

static bool is_special(ptx_parser *p, ptx_word word, ptx_operand *operand) {
    if (*word.text != '%') return false;
    if (*p->at == '.' && p->at[1] && p->at == word.text + word.length) {
        p->at += 2;
        word.length += 2;
    }
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        if (!ptx_is(word, specials[i].name)) continue;
        *operand = (ptx_operand){.kind = PTX_SPECIAL, .number = specials[i].number};
        return true;
    }
    return false;
}

static bool is_number_next(ptx_parser *p) {
    ptx_skip(p);
    return strchr("0123456789-~(", *p->at) && *p->at;
}

/* What a name was declared as; NULL for special registers. */
static const ptx_name *resolve_name(ptx_parser *p, ptx_word word, ptx_operand *operand) {
    if (ptx_is(word, "generic")) {
        ptx_expect(p, '(');
        word = ptx_identifier(p);
        ptx_expect(p, ')');
        if (ptx_look_up(p, word, operand) && operand->kind != PTX_GLOBAL_AT) ptx_refuse(p, "generic() of .global only");
    }
    const ptx_name *name = ptx_look_up(p, word, operand);
    if (!name && !is_special(p, word, operand)) ptx_refuse(p, "unknown name %.*s", (int)word.length, word.text);
    return name;
}

/* What follows an address: "+8", "+-8", "-8". */
static void parse_offset(ptx_parser *p, ptx_operand *operand) {
    ptx_skip(p);
    if (*p->at == '+')
        p->at++;
    else if (*p->at != '-')
        return;
    ptx_number number = ptx_parse_number(p);
    if (number.form != PTX_INTEGER) ptx_refuse(p, "an offset is not an integer");
    operand->value += number.bits;
}

static void parse_value(ptx_parser *p, ptx_operand *operand, ptx_type type, bool address_allowed) {
    if (ptx_accept(p, '!')) {
        const ptx_name *name = resolve_name(p, ptx_identifier(p), operand);
        if (!name || name->type != PTX_PRED) ptx_refuse(p, "'!' of something that is not a predicate");
        operand->negate = true;
        return;
    }
    ptx_skip(p);
    if (is_number_next(p) || !strncmp(p->at, "WARP_SZ", 7)) {
        *operand = (ptx_operand){.kind = PTX_IMMEDIATE, .value = ptx_number_as(p, ptx_parse_number(p), type)};
        return;
    }
    const ptx_name *name = resolve_name(p, ptx_identifier(p), operand);
    if (type == PTX_PRED && (!name || name->type != PTX_PRED)) ptx_refuse(p, "a predicate is missing");
    if (operand->kind == PTX_REGISTER || operand->kind == PTX_SPECIAL) return;
    if (!address_allowed && operand->kind != PTX_GLOBAL_AT)
        ptx_refuse(p, "the address of %.*s stands for a value", (int)name->name.length, name->name.text);
    parse_offset(p, operand);
}

/* Gives the width of the register; 0: a predicate or `_`. */
static uint8_t parse_destination(ptx_parser *p, ptx_operand *operand, bool predicate) {
    ptx_word word = ptx_identifier(p);
    if (ptx_is(word, "_")) {
        *operand = (ptx_operand){.kind = PTX_NOTHING};
        return 0;
    }
    const ptx_name *name = resolve_name(p, word, operand);
    if (operand->kind != PTX_REGISTER || (name->type == PTX_PRED) != predicate)
        ptx_refuse(p, predicate ? "a predicate is missing" : "a register is missing");
    return (uint8_t)(8 * ptx_type_bytes(name->type));
}

static void parse_address(ptx_parser *p, ptx_instruction *instruction, ptx_operand *operand) {
    ptx_expect(p, '[');
    if (is_number_next(p)) {
        *operand = (ptx_operand){.kind = PTX_IMMEDIATE, .value = ptx_parse_integer(p, UINT64_MAX)};
    } else {
        const ptx_name *name = resolve_name(p, ptx_identifier(p), operand);
        if (operand->kind == PTX_SPECIAL || (name && operand->kind == PTX_REGISTER && name->type == PTX_PRED))
            ptx_refuse(p, "an address is missing");
        parse_offset(p, operand);
    }
    ptx_expect(p, ']');
    if (instruction->space != PTX_PARAM) return;
    /* Parameters of functions and of calls stand in the frame. */
    if (operand->kind == PTX_LOCAL_AT || (operand->kind == PTX_REGISTER && !p->entry)) instruction->space = PTX_LOCAL;
}

/* --- all operands ----------------------------------------------------------------------------------------------------- */

/* The type of the source `index`, which immediates are converted to. */
static ptx_type source_type(const ptx_instruction *i, int index) {
    ptx_type type = (ptx_type)i->type, second = (ptx_type)(i->type2 ? i->type2 : i->type);
    switch (i->opcode) {
    case PTX_CVT:
    case PTX_SET: return index < 2 ? second : PTX_PRED;
    case PTX_SLCT: return index == 2 ? second : type;
    case PTX_SELP:
    case PTX_SETP: return index == 2 ? PTX_PRED : type;
    case PTX_MAD:
    case PTX_MADC: return index == 2 && i->mode == PTX_WIDE ? PTX_B64 : type;
    case PTX_SHL:
    case PTX_SHR: return index == 1 ? PTX_B32 : type;
    case PTX_LD:
    case PTX_ST:
    case PTX_ATOM:
    case PTX_RED: return type;
    case PTX_MATCH:
    case PTX_REDUX: return index == 0 ? type : PTX_B32;
    case PTX_VOTE: return index == 0 ? PTX_PRED : PTX_B32;
    default: return i->opcode > PTX_CONTROL ? PTX_B32 : type;
    }
}

static bool writes_predicate(const ptx_instruction *i) {
    return i->type == PTX_PRED || i->opcode == PTX_SETP || i->opcode == PTX_TESTP || i->opcode == PTX_ISSPACEP;
}

static ptx_operand *next_source(ptx_parser *p, ptx_instruction *i) {
    if (i->from_count == 6) ptx_refuse(p, "too many operands");
    return &i->from[i->from_count++];
}

static ptx_operand *next_destination(ptx_parser *p, ptx_instruction *i) {
    if (i->to_count == 4) ptx_refuse(p, "too many operands");
    return &i->to[i->to_count++];
}

/* "{%f1, %f2}", or one operand where count is 1; count 0: as many as there are, 2 or 4. Gives their number. */
static int parse_elements(ptx_parser *p, ptx_instruction *i, bool written, int count) {
    ptx_type type = (ptx_type)i->type;
    int found = 0;
    bool braces = ptx_accept(p, '{');
    if (braces && count == 1) ptx_refuse(p, "a vector stands for one value");
    if (!braces && count > 1) ptx_refuse(p, "a vector is missing");
    if (braces && !count) type = PTX_B64; /* immediates in a mov of parts: as they are */
    do {
        if (written) {
            uint8_t bits = parse_destination(p, next_destination(p, i), writes_predicate(i));
            if (bits > i->to_bits) i->to_bits = bits;
        } else {
            parse_value(p, next_source(p, i), type, i->opcode == PTX_MOV || i->opcode == PTX_ST);
        }
        found++;
    } while (braces && ptx_accept(p, ','));
    if (braces) ptx_expect(p, '}');
    if (count ? found != count : braces && found != 2 && found != 4) ptx_refuse(p, "a vector of %d", found);
    return found;
}

static void parse_branch(ptx_parser *p, uint32_t instruction) {
    ptx_word name = ptx_identifier(p);
    p->branches = ptx_grow(p->branches, p->branch_count, sizeof *p->branches);
    p->branches[p->branch_count++] = (ptx_label){name, p->scopes[p->depth].number, instruction};
}

static void parse_copy_size(ptx_parser *p, ptx_instruction *i) {
    uint64_t bytes = ptx_parse_integer(p, 16);
    if (bytes != 4 && bytes != 8 && bytes != 16) ptx_refuse(p, "cp.async of %d bytes", (int)bytes);
    i->bytes = (uint8_t)bytes;
}

static void parse_one(ptx_parser *p, ptx_instruction *i, char sign, bool written) {
    switch (sign) {
    case 'd':
    case 'D':
        i->to_bits = parse_destination(p, next_destination(p, i), writes_predicate(i));
        if (sign == 'D' && ptx_accept(p, '|')) (void)parse_destination(p, next_destination(p, i), true);
        return;
    case 'a': parse_address(p, i, next_source(p, i)); return;
    case 'v': (void)parse_elements(p, i, written, i->vector); return;
    case 'm': (void)parse_elements(p, i, written, 0); return;
    case 'c': parse_copy_size(p, i); return;
    case 'l': parse_branch(p, p->module->functions[p->function].count - 1); return;
    default: {
        ptx_type type = source_type(i, i->from_count);
        parse_value(p, next_source(p, i), type, i->opcode == PTX_CVTA || i->opcode == PTX_ISSPACEP);
    }
    }
}

/* The last operand of bar.red; how many stand before it says only the end of the instruction. */
static void check_predicate(ptx_parser *p, const ptx_operand *operand) {
    for (uint32_t i = 0; i < p->name_count && operand->kind == PTX_REGISTER; i++) {
        const ptx_name *name = &p->names[i];
        if (name->type == PTX_PRED && name->operand.kind == PTX_REGISTER && operand->number >= name->operand.number &&
            operand->number - name->operand.number < (name->count ? name->count : 1))
            return;
    }
    ptx_refuse(p, "a predicate is missing");
}

void ptx_parse_operands(ptx_parser *p, ptx_instruction *instruction, const char *signature) {
    bool written = true, first = true;
    for (; *signature; signature++) {
        if (*signature == ':') {
            written = false;
            continue;
        }
        if (!first && !ptx_accept(p, ',')) {
            if (*signature == 'S') break;
            ptx_refuse(p, "operands are missing");
        }
        parse_one(p, instruction, *signature, written);
        first = false;
    }
    ptx_expect(p, ';');
    if (instruction->opcode == PTX_BAR_RED) check_predicate(p, &instruction->from[instruction->from_count - 1]);
}

/* --- calls ------------------------------------------------------------------------------------------------------------ */

static void parse_arguments(ptx_parser *p, const ptx_parameter *parameters, int expected, uint32_t **offsets,
                            int *count) {
    *offsets = calloc((size_t)expected + 1, sizeof **offsets);
    ptx_operand operand;
    if (!*offsets) abort();
    while (*count < expected) {
        const ptx_name *name = ptx_look_up(p, ptx_identifier(p), &operand);
        if (!name || !name->argument || operand.kind != PTX_LOCAL_AT)
            ptx_refuse(p, "an argument that is not a .param variable");
        if (name->bytes < parameters[*count].bytes) ptx_refuse(p, "an argument is too small");
        (*offsets)[(*count)++] = (uint32_t)operand.value;
        if (*count < expected) ptx_expect(p, ',');
    }
    ptx_expect(p, ')');
}

static uint32_t find_function(ptx_parser *p, ptx_word name) {
    for (int i = 0; i < p->module->function_count; i++)
        if (ptx_is(name, p->module->functions[i].name)) return (uint32_t)i;
    ptx_refuse(p, "call of unknown function %.*s", (int)name.length, name.text);
}

/* call (results), name, (arguments); the lists may be missing. The results stand before the name, which says what they are. */
void ptx_parse_call(ptx_parser *p, ptx_instruction *instruction) {
    const char *results = NULL, *end;
    if (ptx_accept(p, '(')) {
        results = p->at;
        while (*p->at && *p->at != ')') p->at++;
        ptx_expect(p, ')');
        ptx_expect(p, ',');
    }
    instruction->target = find_function(p, ptx_identifier(p));
    const ptx_function *callee = &p->module->functions[instruction->target];
    if (callee->entry) ptx_refuse(p, "call of an entry");
    if (ptx_accept(p, ',')) {
        ptx_expect(p, '(');
        parse_arguments(p, callee->parameters, callee->parameter_count, &instruction->call_arguments,
                        &instruction->call_argument_count);
    } else if (callee->parameter_count) {
        ptx_refuse(p, "arguments are missing");
    }
    ptx_expect(p, ';');
    if (!results) return;
    end = p->at;
    p->at = results;
    parse_arguments(p, callee->results, callee->result_count, &instruction->call_results,
                    &instruction->call_result_count);
    p->at = end;
}

/* Shared by the files of the parser: scan.c reads words and numbers, opcodes.c the modifiers of an instruction, operands.c its operands,
 * body.c the body of a function, variables.c declarations, parse.c everything else, and finish.c puts the functions together. The parser leaves by longjmp at the first problem; all memory
 * hangs from ptx_parser, which ptx_parse frees. */
#ifndef BERTH_TESTS_FAKES_PTX_PARSE_H
#define BERTH_TESTS_FAKES_PTX_PARSE_H

#include <setjmp.h>

#include "fakes/ptx/ptx.h"

#define PTX_MOST_REGISTERS (1u << 20)
#define PTX_MOST_BYTES (UINT64_C(1) << 24) /* of variables in one space */
#define PTX_MOST_DEPTH 32                  /* of braces and parentheses */

/* A part of the text. */
typedef struct ptx_word {
    const char *text;
    uint32_t length;
} ptx_word;

/* Which base the value of a PTX_SHARED_AT operand has until the module ends (its `number`); 0 afterwards. */
enum { PTX_OF_MODULE, PTX_OF_ENTRY, PTX_DYNAMIC };

/* A register, a range of registers (%r<14>) or a variable. The operand is what stands for it in instructions. */
typedef struct ptx_name {
    ptx_word name;
    ptx_operand operand;
    uint32_t count; /* of a range; 0: a single name */
    uint64_t bytes;
    uint8_t type;
    bool argument; /* a .param variable */
} ptx_name;

typedef struct ptx_label {
    ptx_word name;
    uint32_t scope, index; /* of an instruction: that it names, or that branches to it */
} ptx_label;

/* A pair of braces in a function. What was declared in it ends with it. */
typedef struct ptx_block {
    uint32_t number, names, registers;
    uint64_t frame;
} ptx_block;

typedef struct ptx_parser {
    ptx_module *module;
    const char *at, *statement; /* statement: what problems name */
    char *problem;
    jmp_buf failed;
    int nesting;              /* of the expression or initialiser */
    uint32_t main_file, line; /* number of the .cu file; line by the latest .loc */

    ptx_name *names; /* those of inner scopes stand behind those of outer ones */
    uint32_t name_count;
    ptx_label *labels, *branches;
    uint32_t label_count, branch_count;

    uint32_t function; /* being parsed */
    bool entry;
    ptx_block scopes[PTX_MOST_DEPTH];
    int depth;                           /* the innermost scope */
    uint32_t *outer_scopes, scope_count; /* of each scope of the function: the number of the one around it */
    uint32_t registers;
    uint64_t frame, entry_shared; /* in use */
    uint64_t module_shared, dynamic_alignment;
} ptx_parser;

/* `array` with room for one more element behind `count` elements. Ends the program when memory is out. */
void *ptx_grow(void *array, uint32_t count, size_t size);
/* Ends parsing with "line 71: unknown instruction: wgmma.fence". */
_Noreturn void ptx_refuse(ptx_parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

void ptx_skip(ptx_parser *p);           /* spaces and comments */
bool ptx_accept(ptx_parser *p, char c); /* skips spaces, then c if it stands there */
void ptx_expect(ptx_parser *p, char c);
bool ptx_is(ptx_word word, const char *text);
ptx_word ptx_identifier(ptx_parser *p); /* without one: a problem */
ptx_word ptx_directive(ptx_parser *p);  /* ".reg" gives "reg" */
/* A literal or a constant expression. */
typedef struct ptx_number {
    uint64_t bits;
    enum { PTX_INTEGER, PTX_SINGLE, PTX_DOUBLE } form;
} ptx_number;
ptx_number ptx_parse_number(ptx_parser *p);
uint64_t ptx_parse_integer(ptx_parser *p, uint64_t most);
/* The bits of a number in a type; a problem where PTX forbids it. */
uint64_t ptx_number_as(ptx_parser *p, ptx_number number, ptx_type type);

ptx_type ptx_type_of(ptx_word word); /* "f32"; PTX_NO_TYPE: none */
/* The opcode and modifiers of "ld.global.nc.v2.f32"; gives the signature of its operands (operands.c). */
const char *ptx_parse_opcode(ptx_parser *p, ptx_word word, ptx_instruction *instruction);

/* The name in the innermost scope; NULL: none. A register of a range has its number in *operand. */
const ptx_name *ptx_look_up(ptx_parser *p, ptx_word word, ptx_operand *operand);
ptx_name *ptx_add_name(ptx_parser *p, ptx_word word, ptx_kind kind, uint64_t value);
void ptx_parse_operands(ptx_parser *p, ptx_instruction *instruction, const char *signature);
void ptx_parse_call(ptx_parser *p, ptx_instruction *instruction);

/* A variable or parameter: ".align 4 .b8 name[12]". */
typedef struct ptx_declaration {
    ptx_word name;
    ptx_type type;
    uint64_t alignment, bytes;
    uint64_t sizes[4]; /* of its dimensions */
    int dimensions;
    bool unsized; /* name[] */
} ptx_declaration;
ptx_declaration ptx_parse_declaration(ptx_parser *p);
/* The offset of a variable behind `*used` bytes, which grow. */
uint64_t ptx_place(ptx_parser *p, uint64_t *used, const ptx_declaration *declaration);
void ptx_parse_shared(ptx_parser *p, bool external);
void ptx_parse_variable(ptx_parser *p, bool constant, bool external); /* .global, .const */
void ptx_skip_statement(ptx_parser *p);                               /* to behind its ';' */
void ptx_parse_body(ptx_parser *p);                                   /* from behind the "{" to behind the "}" */

/* Checks calls, and gives shared memory its offsets, when all functions are known. */
void ptx_finish(ptx_parser *p);

#endif

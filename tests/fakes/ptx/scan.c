/* Words and numbers of PTX. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/ptx/engine.h"
#include "fakes/ptx/parse.h"

void *ptx_grow(void *array, uint32_t count, size_t size) {
    if (count & (count - 1)) return array; /* there is room until the next power of two */
    return ptx_need(array, count ? 2 * (size_t)count : 1, size);
}

void ptx_refuse(ptx_parser *p, const char *format, ...) {
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    int line = 1;
    for (const char *at = p->module->text; at < p->statement; at++) line += *at == '\n';
    size_t length = strcspn(p->statement, "\n");
    if (asprintf(&p->problem, "line %d: %s: %.*s", line, what, (int)(length < 160 ? length : 160), p->statement) < 0)
        abort();
    longjmp(p->failed, 1);
}

/* --- words ------------------------------------------------------------------------------------------------------------ */

void ptx_skip(ptx_parser *p) {
    for (;;) {
        p->at += strspn(p->at, " \t\r\n");
        if (p->at[0] == '/' && p->at[1] == '/') {
            p->at += strcspn(p->at, "\n");
        } else if (p->at[0] == '/' && p->at[1] == '*') {
            const char *end = strstr(p->at + 2, "*/");
            p->at = end ? end + 2 : p->at + strlen(p->at);
        } else {
            return;
        }
    }
}

bool ptx_accept(ptx_parser *p, char c) {
    ptx_skip(p);
    if (*p->at != c) return false;
    p->at++;
    return true;
}

void ptx_expect(ptx_parser *p, char c) {
    if (!ptx_accept(p, c)) ptx_refuse(p, *p->at ? "'%c' is missing" : "'%c' is missing, the text ends", c);
}

bool ptx_is(ptx_word word, const char *text) {
    return strlen(text) == word.length && !memcmp(word.text, text, word.length);
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static ptx_word take_word(ptx_parser *p) {
    ptx_word word = {p->at, 0};
    while (is_letter(p->at[word.length]) || is_digit(p->at[word.length])) word.length++;
    p->at += word.length;
    return word;
}

ptx_word ptx_identifier(ptx_parser *p) {
    ptx_skip(p);
    if (!is_letter(*p->at)) ptx_refuse(p, *p->at ? "a name is missing" : "a name is missing, the text ends");
    return take_word(p);
}

ptx_word ptx_directive(ptx_parser *p) {
    ptx_expect(p, '.');
    return ptx_identifier(p);
}

/* --- numbers ---------------------------------------------------------------------------------------------------------- */

static ptx_number parse_hexadecimal_float(ptx_parser *p, int digits) {
    ptx_number number = {0, digits == 8 ? PTX_SINGLE : PTX_DOUBLE};
    for (int i = 0; i < digits; i++, p->at++) {
        char c = *p->at;
        int digit = is_digit(c)            ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) ptx_refuse(p, "a hexadecimal floating-point number has too few digits");
        number.bits = number.bits << 4 | (unsigned)digit;
    }
    return number;
}

static ptx_number parse_literal(ptx_parser *p) {
    const char *at = p->at;
    if (at[0] == '0' && (at[1] == 'f' || at[1] == 'F')) return p->at += 2, parse_hexadecimal_float(p, 8);
    if (at[0] == '0' && (at[1] == 'd' || at[1] == 'D')) return p->at += 2, parse_hexadecimal_float(p, 16);
    ptx_number number = {0, PTX_INTEGER};
    char *end = NULL;
    errno = 0;
    bool hexadecimal = at[0] == '0' && (at[1] == 'x' || at[1] == 'X'), binary = at[0] == '0' && at[1] == 'b';
    size_t digits = strspn(at, "0123456789");
    if (!hexadecimal && !binary && (at[digits] == '.' || at[digits] == 'e' || at[digits] == 'E')) {
        double value = strtod(at, &end);
        number.form = PTX_DOUBLE;
        memcpy(&number.bits, &value, 8);
        errno = 0; /* subnormals */
    } else {
        number.bits = binary ? strtoull(at + 2, &end, 2) : strtoull(at, &end, 0);
        if (end && *end == 'U') end++;
    }
    if (errno || !end || end == at || is_letter(*end) || is_digit(*end)) ptx_refuse(p, "not a number");
    p->at = end;
    return number;
}

static uint64_t parse_sum(ptx_parser *p, int level);

static ptx_number parse_factor(ptx_parser *p) {
    ptx_skip(p);
    ptx_number number = {0, PTX_INTEGER};
    if (p->nesting++ == PTX_MOST_DEPTH) ptx_refuse(p, "an expression is nested too deeply");
    if (ptx_accept(p, '(')) {
        ptx_skip(p);
        bool cast = *p->at == '.';
        if (cast && ptx_type_bytes(ptx_type_of(ptx_directive(p))) != 8) ptx_refuse(p, "unknown conversion");
        if (!cast) number.bits = parse_sum(p, 0);
        ptx_expect(p, ')');
        if (cast) number = parse_factor(p);
    } else if (ptx_accept(p, '-')) {
        number = parse_factor(p);
        if (number.form == PTX_INTEGER) number.bits = -number.bits;
        if (number.form == PTX_SINGLE) number.bits ^= UINT64_C(1) << 31;
        if (number.form == PTX_DOUBLE) number.bits ^= UINT64_C(1) << 63;
    } else if (*p->at == '~' || *p->at == '!') {
        bool bits = *p->at++ == '~';
        number = parse_factor(p);
        if (number.form != PTX_INTEGER) ptx_refuse(p, "an operator of integers");
        number.bits = bits ? ~number.bits : !number.bits;
    } else if (is_letter(*p->at)) {
        if (!ptx_is(take_word(p), "WARP_SZ")) ptx_refuse(p, "unknown constant");
        number.bits = PTX_WARP;
    } else {
        number = parse_literal(p);
    }
    p->nesting--;
    return number;
}

static uint64_t combine(ptx_parser *p, const char *symbol, uint64_t a, uint64_t b) {
    switch (*symbol) {
    case '|': return a | b;
    case '^': return a ^ b;
    case '&': return a & b;
    case '<': return b < 64 ? a << b : 0;
    case '>': return b < 64 ? a >> b : 0;
    case '+': return a + b;
    case '-': return a - b;
    case '*': return a * b;
    default:
        if (!b) ptx_refuse(p, "division by zero");
        return *symbol == '/' ? a / b : a % b;
    }
}

static const char *const operators[][4] = {{"|"}, {"^"}, {"&"}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "%"}};

static const char *accept_operator(ptx_parser *p, int level) {
    ptx_skip(p);
    for (int i = 0; i < 4 && operators[level][i]; i++) {
        const char *symbol = operators[level][i];
        if (strncmp(p->at, symbol, strlen(symbol)) != 0) continue;
        p->at += strlen(symbol);
        return symbol;
    }
    return NULL;
}

#define LEVELS ((int)(sizeof operators / sizeof *operators))

static uint64_t parse_rest(ptx_parser *p, uint64_t left, int level) {
    for (const char *symbol; (symbol = accept_operator(p, level));)
        left = combine(p, symbol, left, parse_sum(p, level + 1));
    return left;
}

/* An expression of integers whose operators stand at `level` or higher ones. */
static uint64_t parse_sum(ptx_parser *p, int level) {
    ptx_number number = parse_factor(p);
    if (number.form != PTX_INTEGER) ptx_refuse(p, "an expression of floating-point numbers");
    for (int i = LEVELS; i-- > level;) number.bits = parse_rest(p, number.bits, i);
    return number.bits;
}

ptx_number ptx_parse_number(ptx_parser *p) {
    ptx_number number = parse_factor(p);
    for (int i = LEVELS; number.form == PTX_INTEGER && i-- > 0;) number.bits = parse_rest(p, number.bits, i);
    return number;
}

uint64_t ptx_parse_integer(ptx_parser *p, uint64_t most) {
    ptx_number number = ptx_parse_number(p);
    if (number.form != PTX_INTEGER || number.bits > most) ptx_refuse(p, "a number is out of range");
    return number.bits;
}

uint64_t ptx_number_as(ptx_parser *p, ptx_number number, ptx_type type) {
    uint32_t bytes = ptx_type_bytes(type);
    if (type == PTX_PRED && number.form == PTX_INTEGER) return number.bits != 0;
    if (number.form == PTX_INTEGER) {
        if (type == PTX_F32 || type == PTX_F64) ptx_refuse(p, "an integer stands for a floating-point number");
        return bytes && bytes < 8 ? number.bits & ((UINT64_C(1) << 8 * bytes) - 1) : number.bits;
    }
    if (bytes < 4) ptx_refuse(p, "a floating-point number stands for something else");
    float single;
    double value;
    if (number.form == PTX_SINGLE && type == PTX_F64) {
        memcpy(&single, &number.bits, 4);
        value = (double)single;
        memcpy(&number.bits, &value, 8);
    } else if (number.form == PTX_DOUBLE && bytes == 4) {
        memcpy(&value, &number.bits, 8);
        single = (float)value;
        number.bits = 0;
        memcpy(&number.bits, &single, 4);
    }
    return number.bits;
}

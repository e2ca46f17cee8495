#include "bpe_split.h"

#include <stdbool.h>
#include <string.h>

#include "unicode_ranges.h"

int32_t bpe_code_point(const char *text, size_t length, size_t *bytes) {
    static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)*text;
    size_t count = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    int32_t code = count < 2 ? first : first & (0x7f >> count);
    *bytes = 1;
    if (!count || count > length) return -1;
    for (size_t i = 1; i < count; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80) return -1;
        code = code << 6 | (text[i] & 0x3f);
    }
    if (code < least[count] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return -1;
    *bytes = count;
    return code;
}

typedef enum kind { OTHER, LETTER, NUMBER, SPACE } kind;

static bool in_ranges(const code_range *ranges, size_t count, uint32_t code) {
    while (count) {
        size_t middle = count / 2;
        if (code > ranges[middle].last)
            ranges += middle + 1, count -= middle + 1;
        else if (code < ranges[middle].first)
            count = middle;
        else
            return true;
    }
    return false;
}

static bool is_space(uint32_t code) {
    return (code >= 9 && code <= 13) || code == ' ' || code == 0x85 || code == 0xa0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f ||
           code == 0x3000;
}

static kind kind_at(const char *text, size_t length, size_t *bytes) {
    int32_t code = bpe_code_point(text, length, bytes);
    if (code < 0) return OTHER;
    if (is_space((uint32_t)code)) return SPACE;
    if (in_ranges(letters, sizeof letters / sizeof *letters, (uint32_t)code)) return LETTER;
    return in_ranges(numbers, sizeof numbers / sizeof *numbers, (uint32_t)code) ? NUMBER : OTHER;
}

/* The end of the run of one kind that begins at `at`; *last: where its last character begins. */
static size_t end_of_run(const char *text, size_t length, size_t at, kind of, size_t *last) {
    for (size_t bytes; at < length && kind_at(text + at, length - at, &bytes) == of; at += bytes) *last = at;
    return at;
}

static size_t contraction(const char *text, size_t length) {
    static const char *const all[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t bytes = strlen(all[i]);
        if (bytes <= length && !memcmp(text, all[i], bytes)) return bytes;
    }
    return 0;
}

size_t bpe_first_part(const char *text, size_t length) {
    size_t bytes, last = 0, behind = *text == ' ' && length > 1, short_form = contraction(text, length);
    if (short_form) return short_form;
    kind first = kind_at(text + behind, length - behind, &bytes);
    if (first != SPACE) return end_of_run(text, length, behind, first, &last);
    size_t end = end_of_run(text, length, 0, SPACE, &last);
    return end < length && last ? last : end; /* the last space belongs to what follows it */
}

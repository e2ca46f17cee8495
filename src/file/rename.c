#include "file/rename.h"

#include "base/error.h"
#include "base/quote.h"

enum { MOST_STARS = 8 };

typedef struct part {
    const char *text;
    size_t length;
} part;

/* --- parsing -------------------------------------------------------------------------------------------------------- */

static int count_stars(const char *text, size_t length) {
    int stars = 0;
    for (size_t i = 0; i < length; i++) stars += text[i] == '*';
    return stars;
}

static part trimmed(const char *text, size_t length) {
    while (length && (*text == ' ' || *text == '\n')) text++, length--;
    while (length && (text[length - 1] == ' ' || text[length - 1] == '\n')) length--;
    return (part){text, length};
}

static bt_status parse_rule(bti_name_rules *rules, part text, bool renames, const char *option) {
    const char *equals = memchr(text.text, '=', text.length);
    bti_name_rule rule = {.from = text.text, .from_length = text.length};
    const char *wrong = NULL;
    if (renames && equals) {
        part from = trimmed(text.text, (size_t)(equals - text.text));
        part to = trimmed(equals + 1, text.length - (size_t)(equals - text.text) - 1);
        rule = (bti_name_rule){from.text, to.text, from.length, to.length};
        if (memchr(to.text, '=', to.length)) wrong = "has two '='";
        if (count_stars(to.text, to.length) > count_stars(from.text, from.length))
            wrong = "has more '*' behind the '=' than before it";
    } else if (renames || equals)
        wrong = renames ? "has no '='" : "has a '='; it is a name";
    if (!rule.from_length) wrong = "names nothing";
    if (count_stars(rule.from, rule.from_length) > MOST_STARS) wrong = "has more than 8 '*'";
    if (wrong)
        return bti_fail(BT_INVALID_ARGUMENT, "rule \"%s\" of `%s` %s", bti_quote_bytes(text.text, text.length).text,
                        option, wrong);
    return bti_vec_push(rules, rule) ? BT_OK : bti_no_memory();
}

bt_status bti_name_rules_parse(bti_name_rules *rules, const char *text, bool renames, const char *option) {
    *rules = (bti_name_rules){0};
    for (const char *at = text; at && *at;) {
        size_t length = strcspn(at, ";");
        part rule = trimmed(at, length);
        if (rule.length) BTI_TRY(parse_rule(rules, rule, renames, option));
        at += length + (at[length] == ';');
    }
    return BT_OK;
}

/* --- matching ------------------------------------------------------------------------------------------------------- */

/* Whether the pattern is the whole name; stars[i]: what stands for '*' i. What is between two of them is taken at its first place; the last one reaches to the end. */
static bool match_pattern(const char *pattern, size_t pattern_length, const char *name, part stars[MOST_STARS]) {
    const char *end = pattern + pattern_length, *at = name, *name_end = name + strlen(name);
    for (int star = -1;; star++) {
        const char *next = memchr(pattern, '*', (size_t)(end - pattern));
        size_t length = (size_t)((next ? next : end) - pattern), left = (size_t)(name_end - at);
        const char *found = at;
        if (star >= 0 && !next)
            found = left >= length ? name_end - length : NULL; /* behind the last star: the end of the name */
        else if (star >= 0 && length)
            found = memmem(at, left, pattern, length);
        if (!found || (size_t)(name_end - found) < length || memcmp(found, pattern, length)) return false;
        if (star >= 0) stars[star] = (part){at, (size_t)(found - at)};
        at = found + length;
        if (!next) return at == name_end;
        pattern = next + 1;
    }
}

bool bti_name_rules_match(const bti_name_rules *rules, const char *name) {
    part stars[MOST_STARS];
    for (size_t i = 0; i < rules->count; i++)
        if (match_pattern(rules->items[i].from, rules->items[i].from_length, name, stars)) return true;
    return false;
}

bool bti_name_rules_rename(const bti_name_rules *rules, const char *name, bti_str *out) {
    part stars[MOST_STARS];
    out->length = 0;
    for (size_t i = 0; i < rules->count; i++) {
        const bti_name_rule *rule = &rules->items[i];
        if (!match_pattern(rule->from, rule->from_length, name, stars)) continue;
        int star = 0;
        for (size_t c = 0; c < rule->to_length; c++)
            if (rule->to[c] != '*')
                bti_str_add_bytes(out, rule->to + c, 1);
            else
                bti_str_add_bytes(out, stars[star].text, stars[star].length), star++;
        return rule->to_length;
    }
    bti_str_add(out, name);
    return true;
}

static bool matches_one_of(const bti_name_rule *rule, const char *const *names, int count) {
    part stars[MOST_STARS];
    for (int i = 0; i < count; i++)
        if (match_pattern(rule->from, rule->from_length, names[i], stars)) return true;
    return false;
}

bt_status bti_name_rules_check(const bti_name_rules *rules, const char *const *names, int count, const char *option,
                               const char *whose, bti_str *hint) {
    for (size_t i = 0; i < rules->count; i++) {
        const bti_name_rule *rule = &rules->items[i];
        bool leaves_out = rule->to && !rule->to_length;
        if (leaves_out || matches_one_of(rule, names, count)) continue;
        size_t length = rule->to ? (size_t)(rule->to - rule->from) + rule->to_length : rule->from_length;
        bti_quoted text = bti_quote_bytes(rule->from, length);
        if (!hint || !count_stars(rule->from, rule->from_length))
            return bti_fail(BT_INVALID_ARGUMENT, "rule \"%s\" of `%s` matches no name of the %s", text.text, option,
                            whose);
        if (!hint->length)
            bti_str_addf(hint, "rule \"%s\" of `%s` matches no name of the %s", text.text, option, whose);
    }
    return BT_OK;
}

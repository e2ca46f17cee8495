/* Rules for names of tensors: "module.*=*;head.*=4.*". */
#ifndef BTI_FILE_RENAME_H
#define BTI_FILE_RENAME_H

#include "base/str.h"
#include "base/vec.h"
#include <berth/status.h>

typedef struct bti_name_rule {
    const char *from, *to; /* patterns, in the text of the rules; to: NULL for names alone */
    size_t from_length, to_length;
} bti_name_rule;
typedef BTI_VEC(bti_name_rule) bti_name_rules;

/* Parses rules FROM=TO, or FROM alone (names), separated by ';'; spaces around them do not count. `rules` is to be freed (bti_vec_free), and refers to the text. NULL: none. INVALID_ARGUMENT names the rule. */
bt_status bti_name_rules_parse(bti_name_rules *rules, const char *text, bool renames, const char *option);
/* The name by the first rule that matches all of it; the same name if none does; false: it is to be left out. *out is emptied before. */
bool bti_name_rules_rename(const bti_name_rules *rules, const char *name, bti_str *out);
/* Whether one of the patterns matches the name. */
bool bti_name_rules_match(const bti_name_rules *rules, const char *name);
/* INVALID_ARGUMENT names the first rule that matches none of the names, which are those of the `whose`. Rules that leave names out may match none; so may
 * those with a '*' where `hint` is not NULL: the text then says so of the first one. */
bt_status bti_name_rules_check(const bti_name_rules *rules, const char *const *names, int count, const char *option,
                               const char *whose, bti_str *hint);

#endif

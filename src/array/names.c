#include "array/names.h"

#include <stdlib.h>
#include <string.h>

static const bti_name names[] = {
#define BTI_NAME(public_name, log_name) {#public_name, log_name},
#include "array/names.def"
#undef BTI_NAME
};
enum { NAME_COUNT = sizeof names / sizeof *names };

const bti_name *bti_name_at(int i) { return i >= 0 && i < NAME_COUNT ? &names[i] : NULL; }

static int compare(const void *key, const void *row) { return strcmp(key, ((const bti_name *)row)->public_name); }

const char *bti_log_name(const char *public_name) {
    const bti_name *row = bsearch(public_name, names, NAME_COUNT, sizeof *names, compare);
    return row ? row->log_name : NULL;
}

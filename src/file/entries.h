/* What an archive of nested values holds: arrays, and metadata, under the paths that lead to them. */
#ifndef BTI_FILE_ENTRIES_H
#define BTI_FILE_ENTRIES_H

#include "base/str.h"
#include "base/vec.h"
#include "file/tensors.h"

typedef struct bti_archive_entry {
    char *name, *value; /* value: of metadata; of an array what the format notes of it, or NULL */
    int number;         /* of an array in the file; -1: metadata */
} bti_archive_entry;
typedef BTI_VEC(bti_archive_entry) bti_archive_entry_list;

typedef struct bti_entries {
    bti_archive_entry_list tensors, metadata;
    bti_names keys;      /* of the metadata */
    uint64_t text_bytes; /* of names and values so far; the caller bounds it: shared values multiply */
} bti_entries;

/* Adds an entry under the path. Takes `value` over. RESOURCE_EXHAUSTED, also where metadata has no value. */
bt_status bti_entries_add(bti_entries *entries, const bti_str *path, int number, char *value);
/* The names of a list, sorted. *twice: a name of two entries, or NULL. */
bt_status bti_entries_list(const bti_archive_entry_list *list, bti_names *names, const char **twice);
/* As the entries of bti_archive_format; `keys` lists the metadata. */
const char *bti_entries_value(const bti_entries *entries, const char *key);
const char *bti_entries_key(const bti_entries *entries, int index);
void bti_entries_free(bti_entries *entries);

#endif

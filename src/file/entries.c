#include "file/entries.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

static void free_entry(bti_archive_entry *e) {
    bti_free(e->name);
    bti_free(e->value);
}

bt_status bti_entries_add(bti_entries *entries, const bti_str *path, int number, char *value) {
    bti_archive_entry e = {bti_strdup(bti_str_text(path)), value, number};
    entries->text_bytes += path->length + (value ? strlen(value) : 0);
    bool whole = e.name && (number >= 0 || value);
    if (whole && bti_vec_push(number < 0 ? &entries->metadata : &entries->tensors, e)) return BT_OK;
    free_entry(&e);
    return bti_no_memory();
}

bt_status bti_entries_list(const bti_archive_entry_list *list, bti_names *names, const char **twice) {
    *twice = NULL;
    if (list->count > INT32_MAX / 2 || !bti_names_make(names, (int)list->count)) return bti_no_memory();
    for (size_t i = 0; i < list->count; i++) names->names[i] = list->items[i].name;
    *twice = bti_names_sort(names);
    return BT_OK;
}

const char *bti_entries_value(const bti_entries *entries, const char *key) {
    int index = bti_names_find(&entries->keys, key);
    return index < 0 ? NULL : entries->metadata.items[index].value;
}

const char *bti_entries_key(const bti_entries *entries, int index) {
    return index < entries->keys.count ? entries->keys.names[index] : NULL;
}

void bti_entries_free(bti_entries *entries) {
    for (size_t i = 0; i < entries->tensors.count; i++) free_entry(&entries->tensors.items[i]);
    for (size_t i = 0; i < entries->metadata.count; i++) free_entry(&entries->metadata.items[i]);
    bti_vec_free(&entries->tensors);
    bti_vec_free(&entries->metadata);
    bti_names_free(&entries->keys);
}

/* Texts as they are stored in a folder of tests/; BERTH_RENDER_WRITE=1 writes them anew. For tests with cmocka. */
#ifndef BERTH_TESTS_SUPPORT_GOLDEN_TEXTS_H
#define BERTH_TESTS_SUPPORT_GOLDEN_TEXTS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

static inline char *whole_file(const char *path) {
    bti_str text = {0};
    char piece[4096];
    FILE *file = fopen(path, "r");
    if (!file) return NULL;
    for (size_t n; (n = fread(piece, 1, sizeof piece, file)) > 0;) bti_str_add_bytes(&text, piece, n);
    fclose(file);
    return bti_str_take(&text);
}

static inline void write_file(const char *path, const bti_str *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text->text, 1, text->length, file), text->length);
    assert_int_equal(fclose(file), 0);
}

static inline void assert_stored(const char *folder, const char *name, const bti_str *text) {
    char path[512];
    snprintf(path, sizeof path, BERTH_SOURCE_DIR "/tests/%s/%s", folder, name);
    if (getenv("BERTH_RENDER_WRITE")) write_file(path, text);
    char *stored = whole_file(path);
    if (!stored || strcmp(stored, bti_str_text(text)) != 0)
        fail_msg("%s is written otherwise now; BERTH_RENDER_WRITE=1 stores the new text", path);
    bti_free(stored);
}

#endif

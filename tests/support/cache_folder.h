/* What the tests of the disk cache share: a folder for each case, kernels that follow from a number. */
#ifndef BERTH_TESTS_SUPPORT_CACHE_FOLDER_H
#define BERTH_TESTS_SUPPORT_CACHE_FOLDER_H

#include "cache/cache.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <berth/flags.h>
#include <cmocka.h>

#include "base/flags.h"

#define NOBODY 65534
#define SKIPPED 77

static const unsigned compiler[3] = {16, 0, 6};
static char root[64], folder[80];

static inline void set(const char *flag, const char *value) {
    if (bt_set_flag(flag, value) != BT_OK) fail_msg("%s", bt_error_text());
}

static inline void run(const char *format, ...) {
    char line[400];
    va_list rest;
    va_start(rest, format);
    vsnprintf(line, sizeof line, format, rest);
    va_end(rest);
    if (system(line)) fail_msg("%s", line);
}

/* An empty folder of the test; the cache will be a folder in it that does not exist yet. */
static inline int start(void **state) {
    snprintf(root, sizeof root, "/tmp/berth-cache-test-XXXXXX");
    if (!mkdtemp(root) || chmod(root, 0755)) return -1;
    snprintf(folder, sizeof folder, "%s/kernels", root);
    bti_flags_reset();
    bti_cache_reset();
    bt_error_clear();
    return bt_set_flag("cache", folder) != BT_OK;
}

static inline int end(void **state) {
    bti_flags_reset();
    bti_cache_reset();
    run("rm -rf %s", root);
    return 0;
}

static inline bti_cache_key key_of(int number) {
    bti_str text = {0};
    bti_str_addf(&text, "kernel %d", number);
    bti_cache_key key = bti_cache_key_of(&text, BTI_LLVM_AVX2, "");
    bti_str_free(&text);
    return key;
}

/* Bytes that follow from the number. */
static inline bti_str object_of(int number, size_t bytes) {
    bti_str object = {0};
    for (size_t i = 0; i < bytes; i++) {
        char byte = (char)(number * 31 + (int)(i * i % 251));
        bti_str_add_bytes(&object, &byte, 1);
    }
    return object;
}

static inline void store(int number, size_t bytes) {
    bti_str object = object_of(number, bytes);
    bti_cache_store(key_of(number), &object, compiler);
    bti_str_free(&object);
}

/* 0: not found; 1: found as it was stored; -1: found with other bytes. */
static inline int found(int number, size_t bytes) {
    bti_str object = {0}, expected = object_of(number, bytes);
    bool hit = bti_cache_find(key_of(number), &object);
    bool same = object.length == expected.length && !memcmp(bti_str_text(&object), expected.text, expected.length);
    bti_str_free(&object);
    bti_str_free(&expected);
    return hit ? (same ? 1 : -1) : 0;
}

static inline const char *path_of(int number) {
    static char path[200];
    bti_cache_key key = key_of(number);
    snprintf(path, sizeof path, "%s/%016llx%016llx", folder, (unsigned long long)key.high, (unsigned long long)key.low);
    return path;
}

static inline bool there(const char *path) { return access(path, F_OK) == 0; }

static inline bti_cache_state look(bool attempt) {
    static bti_cache_state state;
    bti_cache_look(&state, attempt);
    return state;
}

static inline void expect_reason(const char *text) {
    bti_cache_state state = look(false);
    if (!strstr(state.reason, text)) fail_msg("\"%s\" does not say \"%s\"", state.reason, text);
}

/* Nothing is kept, nothing fails, and the reason says why. */
static inline void expect_useless(const char *reason) {
    store(1, 100);
    assert_int_equal(found(1, 100), 0);
    expect_reason(reason);
    assert_int_equal(look(false).stores, 0);
    assert_int_equal(look(true).files, 0);
    expect_reason(reason);
}

/* Runs it in a process of its own; skips where that says so. */
static inline void in_child(bool (*does)(void)) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        errno = 0;
        bool good = does();
        _exit(good ? 0 : errno == ENOTSUP ? SKIPPED : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED) skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static inline void write_bytes(const char *path, const char *bytes, size_t count) {
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, end)

#endif

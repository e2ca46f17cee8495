/* Helpers of the file tests: a folder of its own for each test, files written byte by byte, arrays compared. */
#ifndef BERTH_TESTS_FILE_CASES_H
#define BERTH_TESTS_FILE_CASES_H

#include <berth.h>
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char file_folder[256];

static inline int make_folder(void **state) {
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(file_folder, sizeof file_folder, "%s/berth-file-XXXXXX", parent ? parent : "/tmp");
    return mkdtemp(file_folder) ? 0 : -1;
}

/* How many files there are; with `remove` they go, and the folder. */
static inline int count_files(bool remove_them) {
    int count = 0;
    DIR *folder = opendir(file_folder);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        count++;
        if (remove_them) unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder) closedir(folder);
    if (remove_them) rmdir(file_folder);
    return count;
}
static inline int drop_folder(void **state) {
    (void)state;
    count_files(true);
    bt_error_clear();
    return 0;
}
#define FILE_TEST(function) cmocka_unit_test_setup_teardown(function, make_folder, drop_folder)

/* A name in the test's folder; valid until the next but three. */
static inline const char *path_of(const char *name) {
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", file_folder, name);
    return path;
}

static inline void write_bytes(const char *name, const void *bytes, size_t count) {
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}
static inline size_t read_bytes(const char *name, void *bytes, size_t capacity) {
    FILE *file = fopen(path_of(name), "rb");
    assert_non_null(file);
    size_t count = fread(bytes, 1, capacity, file);
    fclose(file);
    return count;
}
static inline void expect_bytes(const char *name, const void *bytes, size_t count) {
    unsigned char read[4096];
    assert_int_equal(read_bytes(name, read, sizeof read), count);
    assert_memory_equal(read, bytes, count);
}
static inline void expect_files(int count) { assert_int_equal(count_files(false), count); }

/* A safetensors file of this header, and data that count 0, 1, 2... */
static inline void write_tensors(const char *name, const char *header, size_t length, size_t data_bytes) {
    unsigned char bytes[4096];
    assert_true(8 + length + data_bytes <= sizeof bytes);
    for (size_t i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)length >> 8 * i);
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < data_bytes; i++) bytes[8 + length + i] = (unsigned char)i;
    write_bytes(name, bytes, 8 + length + data_bytes);
}

/* --- statuses and arrays --------------------------------------------------------------------------------------------- */

#define OK(call)                                                         \
    do {                                                                 \
        if ((call) != BT_OK) fail_msg("%s: %s", #call, bt_error_text()); \
    } while (0)

#define expect_error(call, expected, text)                                                                    \
    do {                                                                                                      \
        bt_status got_ = (call);                                                                              \
        if (got_ != (expected) || !strstr(bt_error_text(), text))                                             \
            fail_msg("%s: %s, \"%s\"; expected %s with \"%s\"", #call, bt_status_name(got_), bt_error_text(), \
                     bt_status_name(expected), text);                                                         \
    } while (0)
#define expect_poison(array, expected, text) expect_error(bt_block(array), expected, text)

/* Elements whose bytes differ: any bits are a number, but bools are 0 or 1. */
static inline bt_array *numbered(bt_dtype dtype, bt_shape shape) {
    unsigned char bytes[4096];
    size_t count = bt_dtype_size(dtype);
    for (int i = 0; i < shape.rank; i++) count *= (size_t)shape.size[i];
    assert_true(count <= sizeof bytes);
    for (size_t i = 0; i < count; i++) bytes[i] = (unsigned char)(dtype == BT_BOOL ? i % 2 : i * 7 % 113);
    return bt_from(bytes, dtype, shape);
}

static inline void expect_same(bt_array *got, bt_array *expected) {
    OK(bt_block(got));
    OK(bt_block(expected));
    assert_int_equal(bt_dtype_of(got), bt_dtype_of(expected));
    bt_shape a = bt_shape_of(got), b = bt_shape_of(expected);
    assert_int_equal(a.rank, b.rank);
    for (int i = 0; i < a.rank; i++) assert_int_equal(a.size[i], b.size[i]);
    size_t bytes = (size_t)bt_count(got) * bt_dtype_size(bt_dtype_of(got));
    char *x = malloc(bytes + 1), *y = malloc(bytes + 1);
    assert_true(x && y);
    OK(bt_read(got, x, bytes));
    OK(bt_read(expected, y, bytes));
    assert_memory_equal(x, y, bytes);
    free(x);
    free(y);
}

#endif

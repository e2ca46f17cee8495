/* The fuzzer's bytes as a file: one in memory, filled anew for each input. */
#ifndef BERTH_TESTS_FUZZ_FUZZ_FILE_H
#define BERTH_TESTS_FUZZ_FUZZ_FILE_H

#include <berth.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline const char *fuzz_file(const uint8_t *data, size_t size) {
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size) abort();
    return path;
}

/* What was accepted can be read in full, or says why not. */
static inline void fuzz_read(bt_array *x) {
    if (bt_block(x) != BT_OK) {
        if (!*bt_error_text()) abort();
        return;
    }
    size_t bytes = (size_t)bt_count(x) * bt_dtype_size(bt_dtype_of(x));
    if (bytes > 1 << 20) abort(); /* an array is never larger than its file, four times for CSV */
    unsigned char *data = malloc(bytes + 1);
    if (!data || bt_read(x, data, bytes) != BT_OK) abort();
    free(data);
}

#endif

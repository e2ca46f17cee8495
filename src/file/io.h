/* Reading and replacing files: opened with care, read in full or not at all, replaced whole or not at all. */
#ifndef BTI_FILE_IO_H
#define BTI_FILE_IO_H

#include <berth/array.h>

#include "base/error.h"

/* A regular file opened for reading, or bytes in memory that are read as one. Errors name its path. */
typedef struct bti_file {
    int fd; /* -1: in memory */
    uint64_t size;
    char *path;
    char *memory; /* its own */
} bti_file;

bt_status bti_file_open(const char *path, bti_file *file);
void bti_file_close(bti_file *file);
/* Reads all of these bytes; DATA_LOSS when the file ends before (it was cut after it was opened). Any thread. */
bt_status bti_file_read(const bti_file *file, uint64_t offset, void *data, size_t bytes);
/* DATA_LOSS with path and offset: "model.safetensors: byte 8: ..." */
bt_status bti_file_damaged(const bti_file *file, uint64_t offset, const char *format, ...) BT_PRINTF(3, 4);
/* The first bytes, at most `bytes`; *data is filled up with zeros. */
bt_status bti_file_read_start(const bti_file *file, void *data, size_t bytes);
/* The bytes of an array of bools must be 0 or 1. */
bt_status bti_file_check_bools(const bti_file *file, uint64_t offset, const void *data, size_t bytes);

/* A file that is written beside `path` under a temporary name. Nothing changes at `path` before bti_writer_commit, which syncs and renames.
 * bti_writer_discard ends every writer, and removes what was not committed. */
typedef struct bti_writer {
    int fd;
    char *target, *temporary;
} bti_writer;

bt_status bti_writer_open(bti_writer *writer, const char *path);
bt_status bti_writer_add(bti_writer *writer, const void *data, size_t bytes);
/* The elements of an array, computed here, row-major. */
bt_status bti_writer_add_array(bti_writer *writer, bt_array *array);
/* Writes over bytes that were added before. */
bt_status bti_writer_change(bti_writer *writer, uint64_t offset, const void *data, size_t bytes);
/* The first half of bti_writer_commit: all is on the disk, under the temporary name. For several files that are to change together. */
bt_status bti_writer_sync(bti_writer *writer);
bt_status bti_writer_commit(bti_writer *writer);
void bti_writer_discard(bti_writer *writer);

/* The thread's last error as a poisoned array, for functions that return an array. */
bt_array *bti_file_poison(void);

#endif

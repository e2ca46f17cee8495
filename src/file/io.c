#include "file/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/str.h"
#include "base/files.h"

bt_array *bti_file_poison(void) { return bti_poison(bti_error_last()); }

static bt_status system_error(const char *path, const char *what) {
    int code = errno;
    bt_status status = BT_UNKNOWN;
    switch (code) {
    case ENOENT: status = BT_NOT_FOUND; break;
    case EACCES:
    case EPERM:
    case EROFS: status = BT_PERMISSION_DENIED; break;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM: status = BT_RESOURCE_EXHAUSTED; break;
    case EISDIR:
    case ENOTDIR: status = BT_FAILED_PRECONDITION; break;
    case ENAMETOOLONG:
    case ELOOP:
    case EINVAL: status = BT_INVALID_ARGUMENT; break;
    default: break;
    }
    char reason[128];
    return bti_fail(status, "%s: %s: %s", path, what, strerror_r(code, reason, sizeof reason));
}

/* --- reading -------------------------------------------------------------------------------------------------------- */

bt_status bti_file_open(const char *path, bti_file *file) {
    *file = (bti_file){.fd = -1};
    if (!path) return bti_fail(BT_INVALID_ARGUMENT, "the path is NULL");
    /* O_NONBLOCK: opening a pipe would wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return system_error(path, "cannot be opened");
    struct stat stat;
    bt_status status = BT_OK;
    if (fstat(fd, &stat))
        status = system_error(path, "cannot be examined");
    else if (!S_ISREG(stat.st_mode))
        status = bti_fail(BT_FAILED_PRECONDITION, "%s: not a regular file", path);
    else if (!(file->path = bti_strdup(path)))
        status = bti_no_memory();
    if (status != BT_OK) {
        close(fd);
        return status;
    }
    file->fd = fd;
    file->size = (uint64_t)stat.st_size;
    return BT_OK;
}

void bti_file_close(bti_file *file) {
    if (file->fd >= 0) close(file->fd);
    bti_free(file->path);
    bti_free(file->memory);
    *file = (bti_file){.fd = -1};
}

bt_status bti_file_read(const bti_file *file, uint64_t offset, void *data, size_t bytes) {
    char *to = data;
    if (file->memory && (offset > file->size || bytes > file->size - offset))
        return bti_file_damaged(file, file->size, "the bytes end here");
    if (file->memory) return memcpy(data, file->memory + offset, bytes), BT_OK;
    while (bytes) {
        size_t part = bytes < 1u << 30 ? bytes : 1u << 30;
        ssize_t got = pread(file->fd, to, part, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return system_error(file->path, "cannot be read");
        if (got == 0) return bti_file_damaged(file, offset, "the file ends here, %zu bytes early", bytes);
        to += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return BT_OK;
}

bt_status bti_file_damaged(const bti_file *file, uint64_t offset, const char *format, ...) {
    bti_str text = {0};
    va_list arguments;
    va_start(arguments, format);
    bti_str_addv(&text, format, arguments);
    va_end(arguments);
    bt_status status =
        bti_fail(BT_DATA_LOSS, "%s: byte %llu: %s", file->path, (unsigned long long)offset, bti_str_text(&text));
    bti_str_free(&text);
    return status;
}

bt_status bti_file_read_start(const bti_file *file, void *data, size_t bytes) {
    memset(data, 0, bytes);
    return bti_file_read(file, 0, data, file->size < bytes ? (size_t)file->size : bytes);
}

bt_status bti_file_check_bools(const bti_file *file, uint64_t offset, const void *data, size_t bytes) {
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        if (at[i] > 1) return bti_file_damaged(file, offset + i, "a bool is 0 or 1, not %d", at[i]);
    return BT_OK;
}

/* --- writing -------------------------------------------------------------------------------------------------------- */

/* "DIR/.berth-PID-TIME-N.tmp" beside the target. */
static char *temporary_name(const char *target) {
    static atomic_uint made;
    const char *slash = strrchr(target, '/');
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    bti_str name = {0};
    if (slash) bti_str_add_bytes(&name, target, (size_t)(slash - target) + 1);
    bti_str_addf(&name, ".berth-%ld-%08lx-%u.tmp", (long)getpid(), (unsigned long)now.tv_nsec,
                 atomic_fetch_add(&made, 1));
    return bti_str_take(&name);
}

/* The name that a symbolic link leads to, through further links, whether or not a file of that name exists; "" when memory is short, NULL
 * with errno. */
static char *follow_links(const char *path) {
    enum { MOST_LINKS = 40 };
    char *name = strdup(path), to[PATH_MAX];
    for (int i = 0; name && i < MOST_LINKS; i++) {
        ssize_t length = readlink(name, to, sizeof to - 1);
        if (length < 0) return name; /* not a link, or there is no file */
        to[length] = '\0';
        const char *slash = to[0] == '/' ? NULL : strrchr(name, '/');
        char *next = NULL;
        if (asprintf(&next, "%.*s%s", slash ? (int)(slash - name) + 1 : 0, name, to) < 0) next = NULL;
        free(name);
        name = next;
    }
    if (!name) return errno = ENOMEM, NULL;
    free(name);
    return errno = ELOOP, NULL;
}

/* The real path of the file: what a link leads to is written, and the link is not replaced. */
static bt_status resolve_target(bti_writer *writer, const char *path, struct stat *old, bool *exists) {
    *exists = stat(path, old) == 0;
    if (*exists && S_ISDIR(old->st_mode)) return errno = EISDIR, system_error(path, "cannot be written");
    if (*exists && !S_ISREG(old->st_mode)) return bti_fail(BT_FAILED_PRECONDITION, "%s: not a regular file", path);
    if (!*exists && errno != ENOENT) return system_error(path, "cannot be written");
    char *target = follow_links(path);
    if (!target) return system_error(path, "cannot be written");
    writer->target = bti_strdup(target);
    free(target);
    return writer->target ? BT_OK : bti_no_memory();
}

static bt_status fail_to_make(const char *path, const char *target, int cause) {
    const char *slash = strrchr(target, '/');
    int length = slash == target ? 1 : slash ? (int)(slash - target) : 1;
    if (cause == ENOENT)
        return bti_fail(BT_NOT_FOUND, "%s: cannot be written: there is no folder %.*s", path, length,
                        slash ? target : ".");
    return errno = cause, system_error(path, "cannot be written: no file can be made in its folder");
}

/* Gives the new file the owner, group and mode of the old one. If the group cannot be set, it gets the rights of others: nobody gains
 * access. */
static bool keep_owner_and_mode(int fd, const struct stat *old) {
    mode_t mode = old->st_mode & 0777;
    struct stat now;
    if (fstat(fd, &now)) return false;
    if (now.st_uid != old->st_uid && fchown(fd, old->st_uid, (gid_t)-1)) errno = 0; /* only root may change the owner */
    if (now.st_gid != old->st_gid && fchown(fd, (uid_t)-1, old->st_gid)) mode = (mode & ~070u) | (mode & 07) << 3;
    return fchmod(fd, mode) == 0;
}

bt_status bti_writer_open(bti_writer *writer, const char *path) {
    *writer = (bti_writer){.fd = -1};
    if (!path || !*path) return bti_fail(BT_INVALID_ARGUMENT, "the path is %s", path ? "empty" : "NULL");
    if (path[strlen(path) - 1] == '/') return errno = EISDIR, system_error(path, "cannot be written");
    struct stat old;
    bool exists;
    BTI_TRY(resolve_target(writer, path, &old, &exists));
    do {
        bti_free(writer->temporary);
        writer->temporary = temporary_name(writer->target);
        if (!writer->temporary) return bti_no_memory();
        writer->fd = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (writer->fd < 0 && errno == EEXIST);
    if (writer->fd < 0) {
        bt_status status = fail_to_make(path, writer->target, errno);
        bti_free(writer->temporary);
        writer->temporary = NULL;
        return status;
    }
    if (exists && !keep_owner_and_mode(writer->fd, &old)) return system_error(path, "cannot have the old file's mode");
    return BT_OK;
}

bt_status bti_writer_add(bti_writer *writer, const void *data, size_t bytes) {
    BTI_WRITES;
    const char *from = data;
    while (bytes) {
        size_t part = bytes < 1u << 30 ? bytes : 1u << 30;
        ssize_t put = write(writer->fd, from, part);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return system_error(writer->target, "cannot be written");
        from += put;
        bytes -= (size_t)put;
    }
    return BT_OK;
}

bt_status bti_writer_add_array(bti_writer *writer, bt_array *array) {
    size_t bytes = (size_t)bt_count(array) * bt_dtype_size(bt_dtype_of(array));
    void *data = bti_alloc(bytes);
    if (!data) return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory: %zu bytes to write an array", bytes);
    bt_status status = bt_read(array, data, bytes);
    if (status == BT_OK) status = bti_writer_add(writer, data, bytes);
    bti_free(data);
    return status;
}

/* Syncs the folder, so that the new name survives a crash; some folders cannot be synced. */
static void sync_folder(const char *target) {
    const char *slash = strrchr(target, '/');
    char *folder = slash ? strndup(target, slash == target ? 1 : (size_t)(slash - target)) : strdup(".");
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)!fsync(fd);
        close(fd);
    }
    free(folder);
}

bt_status bti_writer_change(bti_writer *writer, uint64_t offset, const void *data, size_t bytes) {
    BTI_WRITES;
    const char *from = data;
    while (bytes) {
        ssize_t put = pwrite(writer->fd, from, bytes, (off_t)offset);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return system_error(writer->target, "cannot be written");
        from += put;
        offset += (uint64_t)put;
        bytes -= (size_t)put;
    }
    return BT_OK;
}

bt_status bti_writer_sync(bti_writer *writer) {
    if (writer->fd < 0) return BT_OK;
    if (fsync(writer->fd)) return system_error(writer->target, "cannot be synced");
    int fd = writer->fd;
    writer->fd = -1;
    return close(fd) && errno != EINTR ? system_error(writer->target, "cannot be written") : BT_OK;
}

bt_status bti_writer_commit(bti_writer *writer) {
    BTI_TRY(bti_writer_sync(writer));
    if (rename(writer->temporary, writer->target)) return system_error(writer->target, "cannot be replaced");
    bti_free(writer->temporary);
    writer->temporary = NULL;
    sync_folder(writer->target);
    return BT_OK;
}

void bti_writer_discard(bti_writer *writer) {
    if (writer->fd >= 0) close(writer->fd);
    if (writer->temporary) unlink(writer->temporary);
    bti_free(writer->temporary);
    bti_free(writer->target);
    *writer = (bti_writer){.fd = -1};
}

#include "cache/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/lock.h"
#include "base/vec.h"

/* --- the path ----------------------------------------------------------------------------------------------------- */

BTI_STATIC_LOCK(folder_lock, cache_folder) /* of what follows */
static bool read_environment;              /* once: later, threads of the program may change it */
static bti_str home_folder;

static bool is_absolute(const char *path) { return path && path[0] == '/'; }

static void add_home_folder(bti_str *path) {
    bti_lock_take(&folder_lock);
    if (!read_environment) {
        const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
        if (is_absolute(cache))
            bti_str_addf(&home_folder, "%s/berth", cache);
        else if (is_absolute(home))
            bti_str_addf(&home_folder, "%s/.cache/berth", home);
        read_environment = true;
    }
    bti_str_add(path, bti_str_text(&home_folder));
    bti_lock_give(&folder_lock);
}

void bti_folder_reset(void) {
    bti_lock_take(&folder_lock);
    bti_str_free(&home_folder);
    read_environment = false;
    bti_lock_give(&folder_lock);
}

bool bti_folder_path(bti_str *path, bti_str *reason) {
    char *flag = bti_flag_text(BTI_FLAG_cache);
    if (!flag)
        bti_str_add(reason, "out of host memory");
    else if (!strcmp(flag, "off"))
        bti_str_add(reason, "the flag cache is off");
    else if (*flag && !is_absolute(flag))
        bti_str_addf(reason, "%s: the flag cache takes a path from the root on", flag);
    else if (*flag)
        bti_str_add(path, flag);
    else
        add_home_folder(path);
    if (!path->length && !reason->length)
        bti_str_add(reason, "neither XDG_CACHE_HOME nor HOME names a folder from the root on");
    bti_free(flag);
    return path->length > 0 && !path->failed;
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static int open_directory(const char *path) { return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }

/* Makes the folder and its parent, no more: a missing home folder is not created. */
static bool make_folders(const char *path) {
    if (!mkdir(path, 0700) || errno == EEXIST) return true;
    const char *slash = strrchr(path, '/');
    char *parent = errno == ENOENT && slash > path ? bti_strdup(path) : NULL;
    if (!parent) return false;
    parent[slash - path] = '\0';
    bool made = !mkdir(parent, 0700) || errno == EEXIST;
    bti_free(parent);
    return made && (!mkdir(path, 0700) || errno == EEXIST);
}

static const char *folder_fault(int folder) {
    struct stat facts;
    if (fstat(folder, &facts)) return strerror(errno);
    if (facts.st_uid != geteuid()) return "it is another user's";
    return facts.st_mode & (S_IWGRP | S_IWOTH) ? "others may write to it" : NULL;
}

int bti_folder_open(const char *path, bool make, bti_str *reason) {
    int folder = open_directory(path);
    if (folder < 0 && errno == ENOENT) {
        if (!make) return -1;
        if (make_folders(path)) folder = open_directory(path);
    }
    const char *fault = folder < 0 ? strerror(errno) : folder_fault(folder);
    if (!fault) return folder;
    bti_str_addf(reason, "%s: %s", path, fault);
    if (folder >= 0) close(folder);
    return -1;
}

/* --- eviction ----------------------------------------------------------------------------------------------------- */

#define ABANDONED_SECONDS (60 * 60)
#define DIGITS 32

typedef struct kernel_file {
    struct timespec used;
    uint64_t bytes;
    char name[DIGITS + 1];
} kernel_file;
typedef BTI_VEC(kernel_file) kernel_files;

static bool is_kernel_name(const char *name) {
    return strlen(name) == DIGITS && strspn(name, "0123456789abcdef") == DIGITS;
}
static bool is_temporary_name(const char *name) {
    return !strncmp(name, BTI_CACHE_TEMPORARY, strlen(BTI_CACHE_TEMPORARY));
}

/* False when memory is short. */
static bool add_file(int folder, const char *name, kernel_files *found, bti_cache_contents *contents) {
    struct stat facts;
    bool kernel = is_kernel_name(name);
    if ((!kernel && !is_temporary_name(name)) || fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW)) return true;
    if (!kernel) {
        if (time(NULL) - facts.st_mtime > ABANDONED_SECONDS) unlinkat(folder, name, 0);
        return true;
    }
    kernel_file one = {.used = facts.st_mtim, .bytes = (uint64_t)facts.st_size};
    memcpy(one.name, name, DIGITS);
    contents->files++;
    contents->bytes += one.bytes;
    return bti_vec_push(found, one);
}

static int by_last_use(const void *left, const void *right) {
    const kernel_file *a = left, *b = right;
    if (a->used.tv_sec != b->used.tv_sec) return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
    if (a->used.tv_nsec != b->used.tv_nsec) return a->used.tv_nsec < b->used.tv_nsec ? -1 : 1;
    return strcmp(a->name, b->name);
}

bti_cache_contents bti_folder_evict(int folder, size_t limit) {
    bti_cache_contents contents = {0};
    kernel_files found = {0};
    int listed = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = listed >= 0 ? fdopendir(listed) : NULL;
    if (listing)
        for (struct dirent *row; (row = readdir(listing)) && add_file(folder, row->d_name, &found, &contents);) {
        }
    if (listing)
        closedir(listing);
    else if (listed >= 0)
        close(listed);
    if (found.count > 0 && contents.bytes > limit) {
        qsort(found.items, found.count, sizeof *found.items, by_last_use);
        for (size_t i = 0; i < found.count && contents.bytes > limit - limit / 8; i++) {
            unlinkat(folder, found.items[i].name, 0); /* if another process was first, it is gone as well */
            contents.bytes -= found.items[i].bytes;
            contents.files--;
            contents.evicted++;
        }
    }
    bti_vec_free(&found);
    return contents;
}

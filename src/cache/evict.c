#include "cache/evict.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/vec.h"

#define ABANDONED_SECONDS (60 * 60)
#define DIGITS 32

typedef struct entry {
    struct timespec used;
    uint64_t bytes;
    char name[DIGITS + 1];
} entry;
typedef BTI_VEC(entry) entries;

static bool is_kernel(const char *name) { return strlen(name) == DIGITS && strspn(name, "0123456789abcdef") == DIGITS; }
static bool is_temporary(const char *name) { return !strncmp(name, BTI_CACHE_TEMPORARY, strlen(BTI_CACHE_TEMPORARY)); }

/* False when memory is short. */
static bool note(int folder, const char *name, entries *found, bti_cache_contents *contents) {
    struct stat facts;
    bool kernel = is_kernel(name);
    if ((!kernel && !is_temporary(name)) || fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW)) return true;
    if (!kernel) {
        if (time(NULL) - facts.st_mtime > ABANDONED_SECONDS) unlinkat(folder, name, 0);
        return true;
    }
    entry one = {.used = facts.st_mtim, .bytes = (uint64_t)facts.st_size};
    memcpy(one.name, name, DIGITS);
    contents->files++;
    contents->bytes += one.bytes;
    return bti_vec_push(found, one);
}

static int by_last_use(const void *left, const void *right) {
    const entry *a = left, *b = right;
    if (a->used.tv_sec != b->used.tv_sec) return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
    if (a->used.tv_nsec != b->used.tv_nsec) return a->used.tv_nsec < b->used.tv_nsec ? -1 : 1;
    return strcmp(a->name, b->name);
}

bti_cache_contents bti_evict(int folder, size_t limit) {
    bti_cache_contents contents = {0};
    entries found = {0};
    int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = again >= 0 ? fdopendir(again) : NULL;
    if (listing)
        for (struct dirent *row; (row = readdir(listing)) && note(folder, row->d_name, &found, &contents);) {
        }
    if (listing)
        closedir(listing);
    else if (again >= 0)
        close(again);
    if (found.count > 0 && contents.bytes > limit) {
        qsort(found.items, found.count, sizeof *found.items, by_last_use);
        for (size_t i = 0; i < found.count && contents.bytes > limit - limit / 8; i++) {
            unlinkat(folder, found.items[i].name, 0); /* where another process was first, it is gone as well */
            contents.bytes -= found.items[i].bytes;
            contents.files--;
            contents.evicted++;
        }
    }
    bti_vec_free(&found);
    return contents;
}

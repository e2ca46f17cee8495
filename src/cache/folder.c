#include "cache/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/fork.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
BTI_RENEW_IN_CHILD(lock)
static bool read_environment; /* once: later, a program's threads may be changing it */
static bti_str home_folder;

static bool usable(const char *path) { return path && path[0] == '/'; }

static void add_home_folder(bti_str *path) {
    pthread_mutex_lock(&lock);
    if (!read_environment) {
        const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
        if (usable(cache))
            bti_str_addf(&home_folder, "%s/berth", cache);
        else if (usable(home))
            bti_str_addf(&home_folder, "%s/.cache/berth", home);
        read_environment = true;
    }
    bti_str_add(path, bti_str_text(&home_folder));
    pthread_mutex_unlock(&lock);
}

void bti_folder_reset(void) {
    pthread_mutex_lock(&lock);
    bti_str_free(&home_folder);
    read_environment = false;
    pthread_mutex_unlock(&lock);
}

bool bti_folder_path(bti_str *path, bti_str *reason) {
    char *flag = bti_flag_text(BTI_FLAG_cache);
    if (!flag)
        bti_str_add(reason, "out of host memory");
    else if (!strcmp(flag, "off"))
        bti_str_add(reason, "the flag cache is off");
    else if (*flag && !usable(flag))
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

static int open_folder(const char *path) { return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }

/* The folder and the one it stands in, no more: where a home is missing, none is made. */
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

static const char *fault_of(int folder) {
    struct stat facts;
    if (fstat(folder, &facts)) return strerror(errno);
    if (facts.st_uid != geteuid()) return "it is another user's";
    return facts.st_mode & (S_IWGRP | S_IWOTH) ? "others may write to it" : NULL;
}

int bti_folder_open(const char *path, bool make, bti_str *reason) {
    int folder = open_folder(path);
    if (folder < 0 && errno == ENOENT) {
        if (!make) return -1;
        if (make_folders(path)) folder = open_folder(path);
    }
    const char *fault = folder < 0 ? strerror(errno) : fault_of(folder);
    if (!fault) return folder;
    bti_str_addf(reason, "%s: %s", path, fault);
    if (folder >= 0) close(folder);
    return -1;
}

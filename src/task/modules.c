/* Functions by module and name.
 *
 * A module is known by its content, and by a key: the whole path of the file that was opened, and what the file was: a line feed, a hash of its place on disk and of
 * its times, a hash of its bytes. Calls carry the key, so a worker opens the same file, or one that has the same bytes (bti_module_provide), or says
 * that it has changed. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/vec.h"
#include "task/modules.h"

enum { KEY_BYTES = PATH_MAX + BTI_KEY_END + 1 };

/* Never freed, since its functions stay loaded. */
typedef struct module {
    struct module *next;
    void *handle;
    char key[KEY_BYTES];
} module;

/* A path as a caller wrote it, and the module that was opened for it. */
typedef struct spelling {
    struct spelling *next;
    const module *of;
    char path[];
} spelling;

/* A file with these bytes on this machine. */
typedef struct copy {
    struct copy *next;
    uint64_t content;
    char path[];
} copy;

static copy *copies;
static bt_remote_entry *entries; /* of all modules that are loaded */
static module *modules;
static spelling *spellings; /* the latest first */
/* protects all of these; modules are opened under it (dlopen), whose constructors may call bti_register, which takes no lock */
BTI_STATIC_LOCK(modules_lock, task_modules)
static const char *loading = ""; /* the key of the module whose constructors run now; filled in later */

/* Called by constructors: those of the program before main, those of a module while it is opened. */
void bti_register(bt_remote_entry *entry) {
    entry->module = loading;
    entry->next = entries;
    entries = entry;
}

static const bt_remote_entry *find_entry(const char *key, const char *name) {
    for (const bt_remote_entry *e = entries; e; e = e->next)
        if (!strcmp(e->name, name) && !strcmp(e->module, key)) return e;
    return NULL;
}

static int path_length(const char *key) { return (int)strcspn(key, "\n"); }
const char *bti_module_path(const char *key, char *path, size_t size) {
    snprintf(path, size, "%.*s", path_length(key), key);
    return path;
}

/* --- what a file is ----------------------------------------------------------------------------------------------------- */

typedef struct file_hashes {
    uint64_t place, bytes; /* hashes */
} file_hashes;

static uint64_t hash_place(const struct stat *file) {
    const uint64_t words[] = {file->st_dev,
                              file->st_ino,
                              (uint64_t)file->st_size,
                              (uint64_t)file->st_mtim.tv_sec,
                              (uint64_t)file->st_mtim.tv_nsec,
                              (uint64_t)file->st_ctim.tv_sec,
                              (uint64_t)file->st_ctim.tv_nsec};
    return XXH3_64bits(words, sizeof words);
}

/* `known`: the hashes of the file before; if place and times are the same, the bytes are not read again. */
static bt_status hash_file(const char *path, const file_hashes *known, file_hashes *now) {
    struct stat info;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &info) != 0) {
        int error = errno;
        if (file >= 0) close(file);
        return bti_fail(BT_NOT_FOUND, "module %s cannot be opened: %s", path, strerror(error));
    }
    now->place = hash_place(&info);
    now->bytes = known ? known->bytes : 0;
    bt_status status = BT_OK;
    if (!known || known->place != now->place) {
        void *bytes = info.st_size ? mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
        if (bytes == MAP_FAILED) {
            status = bti_fail(BT_NOT_FOUND, "module %s cannot be read: %s", path,
                              info.st_size ? strerror(errno) : "it is empty");
        } else {
            now->bytes = XXH3_64bits(bytes, (size_t)info.st_size);
            munmap(bytes, (size_t)info.st_size);
        }
    }
    close(file);
    return status;
}

static bool read_hashes(const char *key, file_hashes *known) {
    return sscanf(key + path_length(key), "\n%16" SCNx64 "%16" SCNx64, &known->place, &known->bytes) == 2;
}

/* --- opening ------------------------------------------------------------------------------------------------------------ */

static const module *find_module_by_key(const char *key) {
    for (const module *m = modules; m; m = m->next)
        if (!strcmp(m->key, key)) return m;
    return NULL;
}

/* The path of the file that the loader found. */
static bt_status find_path(void *handle, const char *path, char *found) {
    struct link_map *map = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map || !realpath(*map->l_name ? map->l_name : path, found))
        return bti_fail(BT_NOT_FOUND, "module %s: its file is not found again: %s", path, strerror(errno));
    return BT_OK;
}

static bt_status make_module_key(void *handle, const char *path, char *key) {
    char found[PATH_MAX];
    file_hashes is;
    BTI_TRY(find_path(handle, path, found));
    BTI_TRY(hash_file(found, NULL, &is));
    snprintf(key, KEY_BYTES, "%s\n%016" PRIx64 "%016" PRIx64, found, is.place, is.bytes);
    return BT_OK;
}

/* Checks what was just opened: a new module, or one that is known. */
static bt_status check_opened(module *m, const char *path, bool is_new, const module **loaded) {
    BTI_TRY(make_module_key(m->handle, path, m->key));
    for (const module *known = modules; known; known = known->next) {
        if (is_new || known->handle != m->handle) continue;
        if (!strcmp(known->key, m->key)) return *loaded = known, BT_OK;
        return bti_fail(
            BT_FAILED_PRECONDITION,
            "module %s has changed since it was loaded: the loader keeps the old one; give the new file another name",
            path);
    }
    if (is_new) return *loaded = m, BT_OK;
    void *theirs = dlsym(m->handle, "bti_register");
    if (theirs && theirs != (void *)(uintptr_t)bti_register)
        return bti_fail(BT_INVALID_ARGUMENT,
                        "module %s is linked with another libberth than the program: link both with libberth.so", path);
    return bti_fail(BT_INVALID_ARGUMENT, "module %s declares no function (BT_REMOTE)", path);
}

static bt_status open_module(const char *path, const char *key, const module **loaded) {
    module *m = bti_calloc(1, sizeof *m);
    if (!m) return bti_no_memory();
    const bt_remote_entry *before = entries;
    loading = m->key;
    m->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    loading = "";
    if (!m->handle) return bti_free(m), bti_fail(BT_NOT_FOUND, "module %s cannot be opened: %s", path, dlerror());
    bool is_new = entries != before;
    if (key) snprintf(m->key, sizeof m->key, "%s", key); /* it was verified */
    bt_status status = key && is_new ? (*loaded = m, BT_OK) : check_opened(m, path, is_new, loaded);
    if (is_new) { /* its functions stay registered, whatever the status */
        m->next = modules;
        modules = m;
        return status;
    }
    dlclose(m->handle);
    bti_free(m);
    return status;
}

static bt_status remember_spelling(const char *path, const module *of) {
    for (spelling *s = spellings; s; s = s->next)
        if (!strcmp(s->path, path)) return s->of = of, BT_OK;
    spelling *s = bti_alloc(sizeof *s + strlen(path) + 1);
    if (!s) return bti_no_memory();
    strcpy(s->path, path);
    s->of = of;
    s->next = spellings;
    spellings = s;
    return BT_OK;
}

static bt_status load_module(const char *path, const module **loaded) {
    BTI_TRY(open_module(path, NULL, loaded));
    return remember_spelling(path, *loaded);
}

static const copy *find_copy(uint64_t content) {
    const copy *c = copies;
    while (c && c->content != content) c = c->next;
    return c;
}

/* In a worker: opens the file that the program opened, or a copy of it. */
static bt_status load_by_key(const char *key, const module **loaded) {
    char path[PATH_MAX];
    file_hashes known, now;
    if ((*loaded = find_module_by_key(key)) != NULL) return BT_OK;
    bti_module_path(key, path, sizeof path);
    if (!read_hashes(key, &known)) return bti_fail(BT_INVALID_ARGUMENT, "module %s is not known", path);
    const copy *provided = find_copy(known.bytes);
    const char *from = provided ? provided->path : path;
    BTI_TRY(hash_file(from, provided ? NULL : &known, &now));
    if (now.bytes != known.bytes)
        return bti_fail(BT_FAILED_PRECONDITION,
                        "module %s has changed since the program loaded it: %s was overwritten or replaced meanwhile",
                        path, provided ? from : "it");
    return open_module(from, key, loaded);
}

bool bti_module_content(const char *key, uint64_t *content) {
    file_hashes is;
    if (!read_hashes(key, &is)) return false;
    *content = is.bytes;
    return true;
}

bt_status bti_module_provide(uint64_t content, const char *path) {
    file_hashes is;
    char found[PATH_MAX];
    if (!realpath(path, found)) return bti_fail(BT_NOT_FOUND, "module %s cannot be opened: %s", path, strerror(errno));
    BTI_TRY(hash_file(found, NULL, &is));
    if (is.bytes != content) return bti_fail(BT_FAILED_PRECONDITION, "%s has other bytes than the module", path);
    copy *c = bti_alloc(sizeof *c + strlen(found) + 1);
    if (!c) return bti_no_memory();
    c->content = content;
    strcpy(c->path, found);
    bti_lock_take(&modules_lock);
    c->next = copies;
    copies = c;
    bti_lock_give(&modules_lock);
    return BT_OK;
}

bt_status bti_module_open_program(const char *path) {
    bti_lock_take(&modules_lock);
    const bt_remote_entry *before = entries;
    const char *why =
        dlopen(path, RTLD_NOW | RTLD_LOCAL) ? NULL : dlerror(); /* stays open: its functions are registered */
    bool declares = entries != before;
    bti_lock_give(&modules_lock);
    if (why) return bti_fail(BT_FAILED_PRECONDITION, "the program cannot be opened in a worker: %s", why);
    return declares ? BT_OK : bti_fail(BT_FAILED_PRECONDITION, "the program declares no function (BT_REMOTE)");
}

static bt_status find_or_load_module(const char *path, const module **loaded) {
    if (strchr(path, '\n')) return load_by_key(path, loaded);
    for (const spelling *s = spellings; s; s = s->next)
        if (!strcmp(s->path, path)) return *loaded = s->of, BT_OK;
    return load_module(path, loaded);
}

bt_status(bt_module_load)(const char *path) {
    BTI_CALL("bt_module_load");
    const module *loaded;
    if (!path || !*path) return bti_fail(BT_INVALID_ARGUMENT, "the path is empty");
    if (strchr(path, '\n')) return bti_fail(BT_INVALID_ARGUMENT, "a module's path has a line feed");
    bti_lock_take(&modules_lock);
    bt_status status = load_module(path, &loaded);
    bti_lock_give(&modules_lock);
    return status;
}

bt_status bti_module_find(const char *module_path, const char *name, const bt_remote_entry **entry) {
    bt_status status = BT_OK;
    const module *loaded = NULL;
    char path[PATH_MAX];
    bti_lock_take(&modules_lock);
    if (*module_path) status = find_or_load_module(module_path, &loaded);
    if (status == BT_OK) *entry = find_entry(loaded ? loaded->key : "", name);
    bti_lock_give(&modules_lock);
    if (status != BT_OK || *entry) return status;
    return bti_fail(BT_NOT_FOUND, "%s%s has no function \"%s\" (BT_REMOTE)", *module_path ? "module " : "the program",
                    bti_module_path(module_path, path, sizeof path), name);
}

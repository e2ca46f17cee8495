/* Functions by module and name. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "base/vec.h"
#include "task/process.h"

static bt_remote_entry *entries; /* of all modules that are loaded */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
BTI_RENEW_IN_CHILD(lock)
static const char *loading = ""; /* the module whose constructors run now */

/* By constructors: of the program before main, of a module while it is opened. */
void bti_register(bt_remote_entry *entry) {
    entry->module = loading;
    entry->next = entries;
    entries = entry;
}

static const bt_remote_entry *find(const char *module, const char *name) {
    for (const bt_remote_entry *e = entries; e; e = e->next)
        if (!strcmp(e->name, name) && !strcmp(e->module, module)) return e;
    return NULL;
}

/* Under the lock. Its name is kept for good, as its functions are. */
static bt_status load(const char *path) {
    for (const bt_remote_entry *e = entries; e; e = e->next)
        if (!strcmp(e->module, path)) return BT_OK;
    char *name = bti_strdup(path);
    if (!name) return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
    const bt_remote_entry *before = entries;
    loading = name;
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    loading = "";
    if (!module) return bti_free(name), bti_fail(BT_NOT_FOUND, "module %s cannot be opened: %s", path, dlerror());
    if (entries != before) return BT_OK;
    dlclose(module);
    bti_free(name);
    return bti_fail(BT_INVALID_ARGUMENT, "module %s declares no function (BT_REMOTE)", path);
}

bt_status(bt_module_load)(const char *path) {
    BTI_CALL("bt_module_load");
    if (!path || !*path) return bti_fail(BT_INVALID_ARGUMENT, "the path is empty");
    pthread_mutex_lock(&lock);
    bt_status status = load(path);
    pthread_mutex_unlock(&lock);
    return status;
}

bt_status bti_module_find(const char *module, const char *name, const bt_remote_entry **entry) {
    bt_status status = BT_OK;
    pthread_mutex_lock(&lock);
    if (*module) status = load(module);
    if (status == BT_OK) *entry = find(module, name);
    pthread_mutex_unlock(&lock);
    if (status != BT_OK || *entry) return status;
    return bti_fail(BT_NOT_FOUND, "%s%s has no function \"%s\" (BT_REMOTE)", *module ? "module " : "the program",
                    module, name);
}

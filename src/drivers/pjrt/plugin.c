/* Libraries of plugins: opened at run time and never closed, since their threads run in them. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/guard.h"
#include "drivers/pjrt/device.h"

#define OPEN_ROOM ((size_t)2 << 30) /* bytes of address space: the library, its compiler, its threads */

BTI_STATIC_LOCK(plugins_lock, pjrt_plugins)
static bti_pjrt_plugin *plugins[BTI_PJRT_PLUGINS]; /* all that were ever named */

void bti_pjrt_plugins_begin(void) { bti_lock_take(&plugins_lock); }
void bti_pjrt_plugins_end(void) { bti_lock_give(&plugins_lock); }

bti_pjrt_plugin *bti_pjrt_plugin_named(const bti_pjrt_named *named) {
    int i = 0;
    for (; i < BTI_PJRT_PLUGINS && plugins[i]; i++)
        if (plugins[i]->kind == named->kind && !strcmp(plugins[i]->path, named->path)) return plugins[i];
    if (i == BTI_PJRT_PLUGINS) return NULL;
    bti_pjrt_plugin *plugin = bti_calloc(1, sizeof *plugin);
    if (!plugin) return NULL;
    plugin->kind = named->kind;
    plugin->number = i;
    memcpy(plugin->path, named->path, sizeof plugin->path);
    return plugins[i] = plugin;
}

bti_pjrt_plugin *bti_pjrt_plugin_at(int number) {
    return number >= 0 && number < BTI_PJRT_PLUGINS ? plugins[number] : NULL;
}

/* --- the table --------------------------------------------------------------------------------------------------------- */

enum { NEEDED, OPTIONAL };
static const struct {
    const char *title;
    size_t slot;
    int need;
} entries[] = {
#define BTI_PJRT(slot, name, title, arguments, need) {title, slot, need},
#include "drivers/pjrt/entries.def"
};
#define ENTRY_COUNT (sizeof entries / sizeof *entries)
_Static_assert(sizeof(bti_pjrt_calls) == ENTRY_COUNT * sizeof(void *), "a pointer an entry");

static bt_status read_table(bti_pjrt_plugin *plugin, const bti_pjrt_table *table) {
    size_t count = 0;
    if (table->size >= offsetof(bti_pjrt_table, entries))
        count = (table->size - offsetof(bti_pjrt_table, entries)) / sizeof *table->entries;
    else
        return bti_fail(BT_UNAVAILABLE, "%s: its table of functions has only %zu bytes", plugin->path, table->size);
    plugin->major = table->version.major;
    plugin->minor = table->version.minor;
    if (plugin->major != BTI_PJRT_MAJOR || plugin->minor < BTI_PJRT_OLDEST_MINOR)
        return bti_fail(BT_UNAVAILABLE, "%s: it has version %d.%d of the PJRT C API; 0.57 or a later 0.x is needed",
                        plugin->path, plugin->major, plugin->minor);
    void **calls = (void **)&plugin->calls;
    for (size_t i = 0; i < ENTRY_COUNT; i++) {
        calls[i] = entries[i].slot < count ? table->entries[entries[i].slot] : NULL;
        if (!calls[i] && entries[i].need == NEEDED)
            return bti_fail(BT_UNAVAILABLE, "%s: it lacks %s (version %d.%d of the PJRT C API)", plugin->path,
                            entries[i].title, plugin->major, plugin->minor);
    }
    return BT_OK;
}

/* --- starting ---------------------------------------------------------------------------------------------------------- */

/* libtpu asks the metadata server of a Google Cloud machine about the slice of TPUs that the machine is part of: 30 times for each key, more than a minute, where there is
 * no such server. */
static void keep_from_asking(const bti_pjrt_plugin *plugin) {
    if (plugin->kind == BT_TPU && !bti_pjrt_may_be_on_cloud()) setenv("TPU_SKIP_MDS_QUERY", "1", 0);
}

static bt_status open_table(const bti_pjrt_plugin *plugin, const bti_pjrt_table **table) {
    BTI_TRY(bti_guard_room(OPEN_ROOM, "opening a PJRT plugin"));
    keep_from_asking(plugin);
    void *library = dlopen(plugin->path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return bti_fail(BT_UNAVAILABLE, "%s", dlerror());
    const bti_pjrt_table *(*get)(void);
    *(void **)&get = dlsym(library, "GetPjrtApi");
    if (!get)
        return bti_fail(BT_UNAVAILABLE, "%s: it has no function GetPjrtApi, so it is no PJRT plugin", plugin->path);
    *table = get();
    return *table ? BT_OK : bti_fail(BT_UNAVAILABLE, "%s: GetPjrtApi gives no table", plugin->path);
}

static bt_status check_new(const bti_pjrt_plugin *plugin, const bti_pjrt_table *table) {
    for (int i = 0; i < BTI_PJRT_PLUGINS && plugins[i]; i++)
        if (plugins[i]->table == table)
            return bti_fail(BT_UNAVAILABLE, "%s is the same library as %s", plugin->path, plugins[i]->path);
    return BT_OK;
}

bt_status bti_pjrt_plugin_start(bti_pjrt_plugin *plugin) {
    const bti_pjrt_table *table;
    if (plugin->table) return BT_OK;
    BTI_TRY(open_table(plugin, &table));
    BTI_TRY(check_new(plugin, table));
    BTI_TRY(read_table(plugin, table));
    bti_pjrt_none args = {.size = BTI_PJRT_SIZE(bti_pjrt_none, extension)};
    BTI_TRY(bti_pjrt_check(&plugin->calls, plugin->path, "its start", plugin->calls.plugin_initialize(&args)));
    plugin->table = table;
    return BT_OK;
}

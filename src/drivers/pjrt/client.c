/* A client of a plugin, one in the process, which its devices share; and what it tells of them. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/libraries.h"
#include "drivers/pjrt/device.h"

static bt_status list_devices(bti_pjrt_client *client) {
    bti_pjrt_list args = {.size = BTI_PJRT_SIZE(bti_pjrt_list, count), .object = client->handle};
    const char *path = client->plugin->path;
    BTI_TRY(bti_pjrt_check(client->calls, path, "its devices", client->calls->client_devices(&args)));
    if (args.count > BTI_PJRT_DEVICES || (args.count && !args.items))
        return bti_fail(BT_UNAVAILABLE, "%s: it lists %zu devices; there can be %d", path, args.count,
                        BTI_PJRT_DEVICES);
    for (size_t i = 0; i < args.count; i++)
        if (!args.items[i]) return bti_fail(BT_UNAVAILABLE, "%s: its device %zu is none", path, i);
    client->devices = args.items;
    client->device_count = (int)args.count;
    return BT_OK;
}

static bt_status make_client(bti_pjrt_plugin *plugin, bti_pjrt_client *client) {
    bti_pjrt_client_options args = {.size = BTI_PJRT_SIZE(bti_pjrt_client_options, try_get)};
    client->plugin = plugin;
    client->calls = &plugin->calls;
    client->process = (long)getpid();
    BTI_TRY(bti_pjrt_check(client->calls, plugin->path, "a client", client->calls->client_create(&args)));
    client->handle = args.client;
    if (!client->handle) return bti_fail(BT_UNAVAILABLE, "%s: it makes no client", plugin->path);
    bti_pjrt_read_text(client->calls, client->calls->client_platform, client->handle, client->platform,
                       sizeof client->platform);
    bti_pjrt_read_text(client->calls, client->calls->client_version, client->handle, client->version,
                       sizeof client->version);
    client->is_cpu = !strcasecmp(client->platform, "cpu") || !strcasecmp(client->platform, "host");
    return list_devices(client);
}

static void delete_client(bti_pjrt_client *client) {
    bti_pjrt_drop(client->calls, client->calls->client_destroy, client->handle);
    bti_lock_destroy(&client->lock);
    bti_free(client);
}

void bti_pjrt_client_close(bti_pjrt_client *client) {
    if (client->open) return;
    bti_pjrt_plugin_at(client->plugin->number)->client = NULL;
    delete_client(client);
}

/* --- the end of the process: a plugin's threads may be at work on what was launched, and its own exit handlers follow ------------ */

enum { PATIENCE_MS = 10000 };

static void settle_client(bti_pjrt_client *client) {
    for (bti_pjrt_device *device = client->open; device; device = device->next)
        for (int ms = 0; !bti_pjrt_is_idle(device) && ms < PATIENCE_MS; ms++)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    bti_pjrt_client_close(client); /* if only a probe has made it */
}

static void settle(void) {
    bti_pjrt_plugins_begin();
    for (int i = 0; i < BTI_PJRT_PLUGINS; i++) {
        const bti_pjrt_plugin *plugin = bti_pjrt_plugin_at(i);
        if (plugin && plugin->client && plugin->client->process == (long)getpid()) settle_client(plugin->client);
    }
    bti_pjrt_plugins_end();
}

/* --- opening ----------------------------------------------------------------------------------------------------------- */

bt_status bti_pjrt_client_open(bti_pjrt_plugin *plugin, bti_pjrt_client **opened) {
    BTI_TRY(bti_pjrt_plugin_start(plugin));
    if (plugin->client && plugin->client->process != (long)getpid())
        return bti_fail(BT_UNAVAILABLE,
                        "%s was started before this process was forked (by process %ld), and its threads are not here",
                        plugin->path, plugin->client->process);
    *opened = plugin->client;
    if (*opened) return BT_OK;
    bti_pjrt_client *client = bti_calloc(1, sizeof *client);
    if (!client) return bti_no_memory();
    bti_lock_init(&client->lock, BTI_LOCK_pjrt_programs);
    bt_status status = make_client(plugin, client);
    if (status != BT_OK) {
        delete_client(client);
        return status;
    }
    *opened = plugin->client = client;
    bti_libraries_at_end(settle);
    return BT_OK;
}

/* --- devices ------------------------------------------------------------------------------------------------------------ */

static void *description_of(const bti_pjrt_client *client, int device) {
    bti_pjrt_get args = {.size = BTI_PJRT_SIZE(bti_pjrt_get, result), .object = client->devices[device]};
    bti_pjrt_error *error = client->calls->device_description(&args);
    bti_pjrt_ignore(client->calls, error);
    return error ? NULL : args.result;
}

void bti_pjrt_client_kind(const bti_pjrt_client *client, int device, char *text, size_t size) {
    void *description = description_of(client, device);
    text[0] = '\0';
    if (description) bti_pjrt_read_text(client->calls, client->calls->description_kind, description, text, size);
    if (!text[0]) snprintf(text, size, "%s", client->platform);
}

bt_status bti_pjrt_client_id(const bti_pjrt_client *client, int device, int *id) {
    bti_pjrt_int args = {.size = BTI_PJRT_SIZE(bti_pjrt_int, result), .object = description_of(client, device)};
    *id = 0;
    if (!args.object)
        return bti_fail(BT_INTERNAL, "%s: its device %d has no description", client->plugin->path, device);
    BTI_TRY(
        bti_pjrt_check(client->calls, client->plugin->path, "a device's number", client->calls->description_id(&args)));
    if (args.result < 0)
        return bti_fail(BT_INTERNAL, "%s: device %d has number %d", client->plugin->path, device, args.result);
    *id = args.result;
    return BT_OK;
}

bool bti_pjrt_client_memory(const bti_pjrt_client *client, int device, size_t *free_bytes, size_t *total_bytes) {
    bti_pjrt_memory_stats args = {.size = BTI_PJRT_SIZE(bti_pjrt_memory_stats, last_is_set),
                                  .device = client->devices[device]};
    *free_bytes = *total_bytes = 0;
    if (!client->calls->device_memory_stats) return false;
    bti_pjrt_error *error = client->calls->device_memory_stats(&args);
    bti_pjrt_ignore(client->calls, error);
    if (error || !args.limit_bytes.is_set || args.limit_bytes.value <= 0) return false;
    *total_bytes = (size_t)args.limit_bytes.value;
    if (args.used_bytes < 0 || args.used_bytes > args.limit_bytes.value) return false;
    *free_bytes = (size_t)(args.limit_bytes.value - args.used_bytes);
    return true;
}

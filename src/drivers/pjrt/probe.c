/* The devices of the plugins that are named or found. */
#include <stdio.h>
#include <string.h>

#include "drivers/pjrt/device.h"

bool bti_pjrt_detect(unsigned kinds, bti_str *reason) {
    bti_pjrt_named named[BTI_PJRT_PLUGINS];
    return bti_pjrt_search(kinds, named, reason) > 0;
}

static void read_facts(const bti_pjrt_client *client, int index, bti_device_facts *facts) {
    size_t free_bytes;
    *facts = (bti_device_facts){.kind = client->plugin->kind, .ordinal = client->plugin->number << 16 | index};
    bti_pjrt_client_kind(client, index, facts->description, sizeof facts->description);
    snprintf(facts->driver_version, sizeof facts->driver_version, "%.47s", client->version);
    (void)bti_pjrt_client_memory(client, index, &free_bytes, &facts->memory_bytes);
}

/* The client stays: starting a TPU takes seconds, and its devices are opened next. */
static void add_devices(const bti_pjrt_named *named, bti_device_facts *facts, int capacity, int *count,
                        bti_str *reason) {
    bti_pjrt_client *client;
    bti_pjrt_plugin *plugin = bti_pjrt_plugin_named(named);
    if (!plugin) {
        bti_str_addf(reason, "pjrt: %s: more than %d plugins, or out of memory\n", named->path, BTI_PJRT_PLUGINS);
        return;
    }
    if (bti_pjrt_client_open(plugin, &client) != BT_OK) {
        bti_str_addf(reason, "pjrt: %s\n", bt_error_text());
        return;
    }
    bti_str_addf(reason, "pjrt: %s, platform %s: %d devices\n", plugin->path, client->platform, client->device_count);
    for (int i = 0; i < client->device_count; i++, ++*count)
        if (*count < capacity) read_facts(client, i, &facts[*count]);
}

bt_status bti_pjrt_probe(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason) {
    bti_pjrt_named named[BTI_PJRT_PLUGINS];
    int plugin_count = bti_pjrt_search(kinds, named, reason);
    *count = 0;
    bti_pjrt_plugins_begin();
    for (int p = 0; p < plugin_count; p++) add_devices(&named[p], facts, capacity, count, reason);
    bti_pjrt_plugins_end();
    return BT_OK;
}

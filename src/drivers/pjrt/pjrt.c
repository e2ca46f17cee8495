/* PJRT's devices: the driver's table, opening and closing. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "drivers/pjrt/device.h"

/* --- opening --------------------------------------------------------------------------------------------------------------- */

/* The client of the device's plugin, with one user more. */
static bt_status acquire_client(bti_pjrt_device *device) {
    bti_pjrt_plugins_begin();
    bti_pjrt_plugin *plugin = bti_pjrt_plugin_at(device->ordinal >> 16);
    bt_status status = plugin ? bti_pjrt_client_open(plugin, &device->client)
                              : bti_fail(BT_UNAVAILABLE, "pjrt: no plugin has number %d", device->ordinal >> 16);
    if (status == BT_OK && device->index >= device->client->device_count)
        status = bti_fail(BT_UNAVAILABLE, "%s: its device %d no longer exists", plugin->path, device->index);
    if (status == BT_OK) {
        device->calls = device->client->calls;
        device->next = device->client->open;
        device->client->open = device;
    }
    bti_pjrt_plugins_end();
    return status;
}

static void pjrt_close_device(void *opened) {
    bti_pjrt_device *device = opened;
    bti_pjrt_forget_launches(device);
    bti_pjrt_free_all(device);
    bti_pjrt_plugins_begin();
    for (bti_pjrt_device **at = &device->client->open; *at; at = &(*at)->next)
        if (*at == device) {
            *at = device->next;
            break;
        }
    bti_pjrt_client_close(device->client);
    bti_pjrt_plugins_end();
    bti_lock_destroy(&device->slots_lock);
    bti_lock_destroy(&device->events_lock);
    bti_error_release(atomic_load(&device->lost));
    bti_free(device);
}

static bt_status pjrt_open_device(int ordinal, const bti_allocator *allocator, void **opened) {
    (void)allocator; /* plugins have their own scratch memory */
    char kind[64];
    bti_pjrt_device *device = bti_calloc(1, sizeof *device);
    if (!device) return bti_no_memory();
    device->ordinal = ordinal;
    device->index = ordinal & 0xffff;
    bti_lock_init(&device->slots_lock, BTI_LOCK_pjrt_slots);
    bti_lock_init(&device->events_lock, BTI_LOCK_pjrt_events);
    bt_status status = acquire_client(device);
    if (status != BT_OK) {
        bti_lock_destroy(&device->slots_lock);
        bti_lock_destroy(&device->events_lock);
        bti_free(device);
        return status;
    }
    device->handle = device->client->devices[device->index];
    bti_pjrt_client_kind(device->client, device->index, kind, sizeof kind);
    snprintf(device->name, sizeof device->name, "pjrt%d:%d (%s)", ordinal >> 16, device->index, kind);
    *opened = device;
    return BT_OK;
}

static bt_status pjrt_memory(void *opened, size_t *free_bytes, size_t *total_bytes) {
    const bti_pjrt_device *device = opened;
    if (bti_pjrt_client_memory(device->client, device->index, free_bytes, total_bytes)) return BT_OK;
    return bti_fail(BT_UNIMPLEMENTED, "%s: the plugin does not report the free memory", device->name);
}

/* --- what it does not do: it loads graphs ------------------------------------------------------------------------------------- */

static bt_status only_segments(const bti_pjrt_device *device) {
    return bti_fail(BT_UNIMPLEMENTED, "%s runs segments of plans and nothing else", device->name);
}
static bt_status pjrt_launch(void *device, void *program, const bti_work *work) {
    (void)program, (void)work;
    return only_segments(device);
}
static bt_status pjrt_launch_kernel(void *device, void *program, const bti_box *box) {
    (void)program, (void)box;
    return only_segments(device);
}

/* --- for `berth doctor` --------------------------------------------------------------------------------------------------------- */

static void describe_device(void *opened, bti_str *text) {
    bti_pjrt_device *device = opened;
    bti_pjrt_client *client = device->client;
    bti_str_addf(text, "plugin: %s, version %d.%d of the PJRT C API\n", client->plugin->path, client->plugin->major,
                 client->plugin->minor);
    bti_str_addf(text, "platform: %s, %s; %d devices\n", client->platform,
                 client->version[0] ? client->version : "no version", client->device_count);
    bti_str_addf(text, "programs: %u compiled in %.3f s, %u shared between devices\n", atomic_load(&client->compiled),
                 (double)atomic_load(&client->compile_ns) * 1e-9, atomic_load(&client->shared));
    bti_str_addf(text, "arrays fetched to get another type or length: %u\n", atomic_load(&device->retyped));
}

static const bti_target_facts pjrt_facts = {.graphs = true,
                                            .lanes = 128,
                                            .group_threads = 1,
                                            .units = 1,
                                            .local_bytes = 1 << 20,
                                            .cache_bytes = 1 << 20,
                                            .bandwidth = 800,
                                            .f64_slowdown = 16,
                                            .launch_boxes = 1};

const bti_driver bti_driver_pjrt = {
    .name = "pjrt",
    .target = &pjrt_facts,
    .kinds = 1u << BT_TPU | 1u << BT_ACC,
    .third_party = true,
    .async = true,
    .detect = bti_pjrt_detect,
    .probe = bti_pjrt_probe,
    .open = pjrt_open_device,
    .close = pjrt_close_device,
    .alloc = bti_pjrt_alloc,
    .free = bti_pjrt_free,
    .upload = bti_pjrt_upload,
    .download = bti_pjrt_download,
    .copy = bti_pjrt_copy,
    .fill = bti_pjrt_fill,
    .program_load = bti_pjrt_program_load,
    .program_free = bti_pjrt_program_free,
    .launch = pjrt_launch,
    .launch_kernel = pjrt_launch_kernel,
    .launch_segment = bti_pjrt_launch_segment,
    .record = bti_pjrt_record,
    .wait = bti_pjrt_wait,
    .query = bti_pjrt_query,
    .sync = bti_pjrt_sync,
    .memory = pjrt_memory,
    .describe = describe_device,
    .peer_copy = bti_pjrt_peer_copy,
};

/* `berth devices`: the devices, their memory, and the processes that use it. */
#include <stdlib.h>

#include "cli/cli.h"

enum { MAX_DEVICES = 64 };

/* Unknown values ("", 0) are null in JSON. */
static json_t *text_or_null(const char *text) { return text && *text ? json_string(text) : json_null(); }
static json_t *bytes_or_null(size_t bytes) { return bytes ? json_integer((json_int_t)bytes) : json_null(); }

/* Null when the driver cannot tell. */
static json_t *processes_or_null(const bt_device *device) {
    bt_device_process *processes;
    int count = cli_processes(device, &processes);
    json_t *list = count < 0 ? json_null() : json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:I, s:o}", "pid", (json_int_t)processes[i].pid, "bytes",
                                              bytes_or_null(processes[i].bytes)));
    free(processes);
    return list;
}

static json_t *device_as_json(const bt_device *device, const bt_device_info *info, const bt_memory_info *memory) {
    json_t *capability = json_null();
    if (info->capability_major) capability = json_sprintf("%d.%d", info->capability_major, info->capability_minor);
    return json_pack("{s:s, s:s, s:s, s:i, s:s, s:s, s:o, s:o, s:o, s:o, s:{s:o, s:o, s:o, s:o}, s:o, s:b}", "name",
                     info->name, "long_name", info->long_name, "kind", bt_kind_name(info->kind), "index", info->index,
                     "description", info->description, "driver", info->driver, "driver_version",
                     text_or_null(info->driver_version), "uuid", text_or_null(info->uuid), "pci_bus_id",
                     text_or_null(info->pci_bus_id), "compute_capability", capability, "memory", "total_bytes",
                     bytes_or_null(info->memory_bytes), "free_bytes", bytes_or_null(memory->device_free), "limit_bytes",
                     bytes_or_null(memory->limit), "limit_source", text_or_null(memory->limit_source), "processes",
                     processes_or_null(device), "default", device == bt_default_device());
}

static void add_device_row(cli_table *table, const bt_device_info *info, const bt_memory_info *memory,
                           bool is_default) {
    cli_table_row(table, is_default ? "*" : "", info->name, info->long_name, info->description, info->driver,
                  cli_bytes(info->memory_bytes, NULL), cli_bytes(memory->device_free, NULL),
                  *info->uuid ? info->uuid : "-");
}

static void print_limits(void) {
    for (int kind = 0; kind < BT_KIND_COUNT; kind++) {
        bt_device *devices[MAX_DEVICES];
        int count = bt_device_list((bt_kind)kind, devices, MAX_DEVICES);
        for (int i = 0; i < count && i < MAX_DEVICES; i++) {
            bt_memory_info memory = BT_MEMORY_INFO_INIT;
            if (bt_memory(devices[i], &memory) == BT_OK && memory.limit)
                printf("%s: limit %s (%s)\n", bt_device_name(devices[i]), cli_bytes(memory.limit, NULL),
                       memory.limit_source);
        }
    }
}

static void print_processes(void) {
    for (int kind = 0; kind < BT_KIND_COUNT; kind++) {
        bt_device *devices[MAX_DEVICES];
        int count = bt_device_list((bt_kind)kind, devices, MAX_DEVICES);
        for (int i = 0; i < count && i < MAX_DEVICES; i++) {
            char *text = cli_processes_text(devices[i]);
            if (text && *text) printf("%s: memory held by %s\n", bt_device_name(devices[i]), text);
            free(text);
        }
    }
}

int cli_devices(int argc, char **argv) {
    bool json;
    int code = cli_only_json(argc, argv, &json);
    if (code != CLI_OK) return code;
    if (!cli_settings_good(argv)) return CLI_FAILED;
    bt_device *cpu; /* exists always; not found only when a setting names a missing device */
    if (bt_device_find("cpu", &cpu) != BT_OK) code = cli_error(argv, "a setting has an error");
    json_t *list = json_array();
    cli_table table = {.columns = 8, .right = 0140};
    cli_table_row(&table, "", "NAME", "LONG NAME", "DESCRIPTION", "DRIVER", "MEMORY", "FREE", "UUID");
    for (int kind = 0; kind < BT_KIND_COUNT; kind++) {
        bt_device *devices[MAX_DEVICES];
        int count = bt_device_list((bt_kind)kind, devices, MAX_DEVICES);
        for (int i = 0; i < count && i < MAX_DEVICES; i++) {
            bt_device_info info = BT_DEVICE_INFO_INIT;
            bt_memory_info memory = BT_MEMORY_INFO_INIT;
            if (bt_device_describe(devices[i], &info) != BT_OK || bt_memory(devices[i], &memory) != BT_OK) {
                code = cli_error(argv, bt_device_name(devices[i]));
                continue;
            }
            if (json)
                json_array_append_new(list, device_as_json(devices[i], &info, &memory));
            else
                add_device_row(&table, &info, &memory, devices[i] == bt_default_device());
        }
    }
    if (json) {
        cli_table_free(&table);
        int printed = cli_print_json(list);
        return printed == CLI_OK ? code : printed;
    }
    json_decref(list);
    cli_table_print(&table);
    printf("* the default device: of operations that nothing else places\n");
    print_limits();
    print_processes();
    return code;
}

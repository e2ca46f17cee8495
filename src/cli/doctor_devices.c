#include <stdlib.h>
#include <string.h>

#include "cli/doctor.h"

enum { MAX_DEVICES = 64 };

/* Calls fn for each line. */
static void each_line(const char *text, void (*fn)(const char *line, int length, void *data), void *data) {
    while (text && *text) {
        int length = (int)strcspn(text, "\n");
        fn(text, length, data);
        text += length + (text[length] == '\n');
    }
}

static void print_line(const char *line, int length, void *data) {
    (void)data;
    printf("         %.*s\n", length, line);
}

static void append_line(const char *line, int length, void *list) {
    json_array_append_new(list, json_stringn(line, (size_t)length));
}

static json_t *lines_of(const char *text) {
    json_t *list = json_array();
    each_line(text, append_line, list);
    return list;
}

bool doctor_check_kind(bt_kind kind) {
    char *reason = NULL;
    bool works = bt_functional(kind, &reason);
    printf("  %-4s %s%s%s\n", bt_kind_name(kind), cli_begin(stdout, works ? CLI_GOOD : CLI_BAD),
           works ? "works" : "none", cli_end(stdout));
    each_line(reason, print_line, NULL);
    bt_free(reason);
    return works;
}

void doctor_print_opened(void) {
    bool any = false;
    for (int kind = 0; kind < BT_KIND_COUNT; kind++) {
        bt_device *devices[MAX_DEVICES];
        int count = bt_device_list((bt_kind)kind, devices, MAX_DEVICES);
        for (int i = 0; i < count && i < MAX_DEVICES; i++) {
            bt_device_info info = BT_DEVICE_INFO_INIT;
            if (bt_device_describe(devices[i], &info) != BT_OK || !*info.details) continue;
            printf("  %s: %s (driver %s %s)\n", info.name, info.description, info.driver, info.driver_version);
            each_line(info.details, print_line, NULL);
            any = true;
        }
    }
    if (!any) doctor_line("none", "no device needs libraries of others");
}

static json_t *device_json(const bt_device *device) {
    bt_device_info info = BT_DEVICE_INFO_INIT;
    if (bt_device_describe(device, &info) != BT_OK) return json_null();
    json_t *capability = json_null();
    if (info.capability_major) capability = json_sprintf("%d.%d", info.capability_major, info.capability_minor);
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:I, s:o}", "name", info.name, "description", info.description,
                     "driver", info.driver, "driver_version", info.driver_version, "compute_capability", capability,
                     "memory_bytes", (json_int_t)info.memory_bytes, "details", lines_of(info.details));
}

static json_t *kind_json(bt_kind kind, bool *works) {
    char *reason = NULL;
    bt_device *devices[MAX_DEVICES];
    json_t *list = json_array();
    *works = bt_functional(kind, &reason);
    int count = bt_device_list(kind, devices, MAX_DEVICES);
    for (int i = 0; i < count && i < MAX_DEVICES; i++) json_array_append_new(list, device_json(devices[i]));
    json_t *all = json_pack("{s:s, s:b, s:o, s:o}", "kind", bt_kind_name(kind), "works", *works, "reasons",
                            lines_of(reason), "devices", list);
    bt_free(reason);
    return all;
}

int doctor_print_json(void) {
    json_t *kinds = json_array();
    bool works, good = bt_check_flags() == BT_OK;
    json_t *fault = good ? json_null() : json_string(bt_error_text());
    for (int kind = 0; kind < BT_KIND_COUNT; kind++) {
        json_array_append_new(kinds, kind_json((bt_kind)kind, &works));
        good = good && (works || kind != BT_CPU);
    }
    json_t *all =
        json_pack("{s:s, s:b, s:o, s:o}", "version", BERTH_VERSION, "good", good, "fault", fault, "kinds", kinds);
    int printed = cli_print_json(all);
    return printed != CLI_OK ? printed : good ? CLI_OK : CLI_FAILED;
}

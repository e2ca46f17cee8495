/* `berth fit`: runs a program with the flag `memory_forecast`, and prints its predicted and measured memory. */
#include <string.h>

#include "cli/cli.h"

static uint64_t bytes_of(json_t *of, const char *key) { return (uint64_t)json_integer_value(json_object_get(of, key)); }

static void add_device_row(cli_table *table, json_t *device) {
    json_t *step = json_object_get(device, "step");
    const char *operation = json_string_value(json_object_get(step, "operation"));
    const char *file = json_string_value(json_object_get(step, "file"));
    uint64_t refused = bytes_of(device, "refused_bytes");
    char difference[32], where[400], line[32] = "";
    snprintf(difference, sizeof difference, "%+.1f %%",
             json_number_value(json_object_get(device, "difference_percent")));
    if (file && *file) snprintf(line, sizeof line, ":%d", (int)bytes_of(step, "line"));
    snprintf(where, sizeof where, "%s%s%s%s", operation ? operation : "", *line ? " at " : "", file ? file : "", line);
    cli_table_row(table, json_string_value(json_object_get(device, "device")),
                  cli_bytes(bytes_of(device, "predicted_bytes"), NULL),
                  cli_bytes(bytes_of(device, "measured_bytes"), NULL), difference,
                  cli_bytes(bytes_of(step, "added_bytes"), NULL), cli_bytes(bytes_of(step, "largest_bytes"), NULL),
                  cli_bytes(refused, NULL), where);
}

static int print_forecast(json_t *told) {
    cli_table table = {.columns = 8, .right = 0x7e};
    json_t *device;
    size_t i;
    cli_table_row(&table, "DEVICE", "PREDICTED", "MEASURED", "DIFFERENCE", "STEP ADDS", "LARGEST", "REFUSED", "FOR");
    json_array_foreach(json_object_get(told, "devices"), i, device) add_device_row(&table, device);
    if (i)
        cli_table_print(&table);
    else {
        cli_table_free(&table);
        puts("no device memory was used");
    }
    json_decref(told);
    return CLI_OK;
}

int cli_fit(int argc, char **argv) {
    int next = 1;
    bool json = argc > 1 && !strcmp(argv[1], "--json");
    next += json;
    if (argc < next + 2 || strcmp(argv[next], "--")) {
        fprintf(stderr, "usage: %s [--json] -- PROGRAM [ARGUMENT...]\n", argv[0]);
        return CLI_USAGE;
    }
    json_t *told;
    int code = cli_run_told(argv, argv + next + 1, "memory_forecast", &told);
    if (!told) return code;
    int shown = json ? cli_print_json(told) : print_forecast(told);
    return code ? code : shown;
}

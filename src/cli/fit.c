/* `berth fit`: runs a program with the flag `memory_forecast`, and prints its predicted and measured memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static int print_failure(char **argv, const char *what) {
    fprintf(stderr, "%s: %s: %s\n", argv[0], what, strerror(errno));
    return CLI_FAILED;
}

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

static int forecast_program(char **argv, char **program, const char *file, bool json) {
    if (!cli_add_flag("memory_forecast", file)) return print_failure(argv, "out of memory");
    int code = cli_run_program(program);
    if (code < 0) return print_failure(argv, *program);
    json_error_t error;
    json_t *told = json_load_file(file, 0, &error);
    if (!told) {
        fprintf(stderr, "%s: %s reported nothing: it did not use berth, or was killed\n", argv[0], *program);
        return code ? code : CLI_FAILED;
    }
    int shown = json ? cli_print_json(told) : print_forecast(told);
    return code ? code : shown;
}

int cli_fit(int argc, char **argv) {
    int next = 1;
    bool json = argc > 1 && !strcmp(argv[1], "--json");
    next += json;
    if (argc < next + 2 || strcmp(argv[next], "--")) {
        fprintf(stderr, "usage: %s [--json] -- PROGRAM [ARGUMENT...]\n", argv[0]);
        return CLI_USAGE;
    }
    const char *set = getenv("TMPDIR"), *folder = set && *set == '/' && !strchr(set, ',') ? set : "/tmp";
    char *file;
    if (asprintf(&file, "%s/berth-fit-XXXXXX", folder) < 0) return print_failure(argv, "out of memory");
    int opened = mkstemp(file), code = CLI_FAILED;
    if (opened < 0)
        print_failure(argv, file);
    else {
        close(opened);
        code = forecast_program(argv, argv + next + 1, file, json);
        unlink(file);
    }
    free(file);
    return code;
}

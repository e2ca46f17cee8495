/* `berth simulate`: runs a program on cards, or a CPU, by a model, and prints what the flag `summary` reports. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

typedef struct request {
    const char *devices, *page; /* page: NULL: none */
    bool json, without_data;
} request;

static double number_of(json_t *of, const char *key) { return json_number_value(json_object_get(of, key)); }

static void print_place(json_t *of) {
    const char *call = json_string_value(json_object_get(of, "call")),
               *file = json_string_value(json_object_get(of, "file"));
    printf("%s", call && *call ? call : "a call");
    if (file && *file) printf(" at %s:%d", file, (int)number_of(of, "line"));
}

static void print_steps(json_t *told) {
    json_t *steps = json_object_get(told, "steps"), *waits = json_object_get(told, "waits");
    double count = number_of(steps, "count");
    if (count > 0) {
        printf("%.0f step%s of %s each, ", count, count == 1 ? "" : "s", cli_time(number_of(steps, "seconds")));
        print_place(steps);
        printf("\n");
    }
    double waited = number_of(waits, "count");
    printf("%s in all; the host waited %.0f time%s, for %s\n\n", cli_time(number_of(told, "seconds")), waited,
           waited == 1 ? "" : "s", cli_time(number_of(waits, "seconds")));
}

static void print_devices(json_t *devices) {
    cli_table table = {.columns = 7, .right = 0x7e};
    json_t *device;
    size_t i;
    cli_table_row(&table, "DEVICE", "BUSY", "KERNELS", "COPIES HIDDEN", "COPIES EXPOSED", "COPIED", "MOST MEMORY");
    json_array_foreach(devices, i, device) {
        char busy[16];
        snprintf(busy, sizeof busy, "%.1f %%", 100 * number_of(device, "utilization"));
        cli_table_row(&table, json_string_value(json_object_get(device, "device")), busy,
                      cli_time(number_of(device, "kernel_seconds")), cli_time(number_of(device, "hidden_copy_seconds")),
                      cli_time(number_of(device, "exposed_copy_seconds")),
                      cli_bytes((uint64_t)number_of(device, "copied_bytes"), NULL),
                      cli_bytes((uint64_t)number_of(device, "peak_bytes"), NULL));
    }
    if (i)
        cli_table_print(&table);
    else {
        cli_table_free(&table);
        puts("no device was used");
    }
}

static void print_zeros(json_t *readers) {
    json_t *reader;
    size_t i;
    if (json_array_size(readers)) puts("\nThe host was given zeros; what the program decides by them may be wrong:");
    json_array_foreach(readers, i, reader) {
        printf("  ");
        print_place(reader);
        double times = number_of(reader, "times");
        printf(", %.0f time%s, %s\n", times, times == 1 ? "" : "s",
               cli_bytes((uint64_t)number_of(reader, "bytes"), NULL));
    }
}

static int print_summary(json_t *told) {
    print_steps(told);
    print_devices(json_object_get(told, "devices"));
    print_zeros(json_object_get(told, "read_without_data"));
    double dropped = number_of(told, "dropped");
    if (dropped > 0) printf("\n%.0f events found no room: the figures are of what came before\n", dropped);
    json_decref(told);
    return CLI_OK;
}

static int set_flags(char **argv, const request *wanted) {
    char *devices;
    bool whole = !strncmp(wanted->devices, "sim:", 4);
    int code = CLI_OK;
    if (asprintf(&devices, "%s%s", whole ? "" : "sim:", wanted->devices) < 0) return cli_failure(argv, "out of memory");
    if (bt_set_devices(devices) != BT_OK)
        code = cli_misuse(argv, bt_error_text());
    else if (!cli_add_flag("devices", devices) || (wanted->without_data && !cli_add_flag("sim_data", "off")))
        code = cli_failure(argv, "out of memory");
    free(devices);
    return code;
}

static int simulate(char **argv, char **program, const request *wanted) {
    cli_page page = {0};
    json_t *told;
    int code = set_flags(argv, wanted);
    if (code != CLI_OK) return code;
    code = wanted->page ? cli_page_begin(argv, wanted->page, &page) : CLI_OK;
    if (code != CLI_OK) return code;
    code = cli_run_told(argv, program, "summary", &told);
    if (told) {
        int shown = wanted->json ? cli_print_json(told) : print_summary(told);
        code = code ? code : shown;
    }
    if (told && wanted->page) return cli_page_end(argv, &page, *program, code);
    cli_page_free(&page);
    return code;
}

int cli_simulate(int argc, char **argv) {
    static const struct option known[] = {{"devices", required_argument, NULL, 'd'},
                                          {"no-data", no_argument, NULL, 'n'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"output", required_argument, NULL, 'o'},
                                          {0}};
    request wanted = {.devices = "h200*8"};
    for (int option; (option = getopt_long(argc, argv, "+o:", known, NULL)) != -1;) switch (option) {
        case 'd': wanted.devices = optarg; break;
        case 'n': wanted.without_data = true; break;
        case 'j': wanted.json = true; break;
        case 'o': wanted.page = optarg; break;
        default: return fprintf(stderr, "see \"%s --help\"\n", argv[0]), CLI_USAGE;
        }
    if (optind == argc || strcmp(argv[optind - 1], "--")) return cli_misuse(argv, "give a program (-- PROGRAM)");
    if (strchr(wanted.devices, ','))
        return cli_misuse(
            argv, "--devices: several kinds are joined by \";\", each but the first behind \"sim:\", not by a comma");
    return simulate(argv, argv + optind, &wanted);
}

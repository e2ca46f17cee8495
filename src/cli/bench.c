/* `berth bench`: how long typical work takes on this machine. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/bench_figures.h"
#include "cli/bench_measure.h"
#include "cli/bench_rows.h"
#include "cli/bench_start.h"
#include "cli/cli.h"

enum { LEAST_REPETITIONS = 5, MOST_REPETITIONS = 50, LATER = 2 };
#define ROW_SECONDS 1.0

typedef struct options {
    bool json, interactive, startup_probe, first_result, figures;
    const char *device; /* NULL: the CPU, with simulated GPUs for the mixed row */
    int repetitions;    /* 0: at least 5, more while all of them take less than a second */
    int shrink;
} options;

typedef struct measurement {
    double median, least;
    int repetitions;
    uint64_t kernels;
} measurement;

static int read_options(int argc, char **argv, options *out) {
    static const struct option known[] = {{"json", no_argument, NULL, 'j'},
                                          {"interactive", no_argument, NULL, 'i'},
                                          {"repetitions", required_argument, NULL, 'r'},
                                          {"device", required_argument, NULL, 'd'},
                                          {"shrink", required_argument, NULL, 's'},
                                          {"first-result", no_argument, NULL, 'l'},
                                          {"figures", no_argument, NULL, 'f'},
                                          {"startup-probe", no_argument, NULL, 'p'},
                                          {0}};
    for (int option; (option = cli_option(argc, argv, known)) != -1;) switch (option) {
        case 'j': out->json = true; break;
        case 'i': out->interactive = true; break;
        case 'p': out->startup_probe = true; break;
        case 'l': out->first_result = true; break;
        case 'f': out->figures = true; break;
        case 'd': out->device = optarg; break;
        case 's':
            if (!cli_number(argv, "--shrink", optarg, 1, 256, &out->shrink)) return CLI_USAGE;
            break;
        case 'r':
            if (!cli_number(argv, "--repetitions", optarg, 1, 1000, &out->repetitions)) return CLI_USAGE;
            break;
        default: return CLI_USAGE;
        }
    bool without_rows = out->interactive || out->startup_probe || out->first_result || out->figures;
    return without_rows && !cli_no_more(argc, argv) ? CLI_USAGE : CLI_OK;
}

/* The second device of the mixed row: the next of the same kind, else the CPU. */
static const char *second_device(const bt_device *device) {
    bt_kind kind = bt_device_kind(device);
    int next = bt_device_index(device) + 1;
    return next < bt_device_count(kind) ? bt_device_name(bt_device_get(kind, next)) : "cpu";
}

/* Without --device rows run on the CPU, and the row that needs two devices on simulated ones. The cache of kernels on disk is not used. */
static bool choose_devices(const options *given, bench_target *target) {
    bt_device *device;
    *target = (bench_target){"cpu", {"gpu:0", "gpu:1"}, given->shrink ? given->shrink : 1, false};
    if (bt_set_flag("cache", "off") != BT_OK) return false;
    if (!given->device) return bt_set_devices("sim:gpu*2@4G") == BT_OK && bt_set_default_device("cpu") == BT_OK;
    if (bt_device_find(given->device, &device) != BT_OK || bt_set_default_device(given->device) != BT_OK) return false;
    target->is_virtual = !strncmp(bt_device_driver(device), "timed", strlen("timed"));
    target->device = bt_device_kind(device) == BT_CPU ? "cpu" : bt_device_name(device);
    target->mixed[0] = target->device;
    target->mixed[1] = second_device(device);
    return true;
}

/* --- measuring ------------------------------------------------------------------------------------------------------ */

static bool measure_row(const bench_row *row, const options *chosen, const bench_target *target, measurement *found) {
    double seconds[1000], total = 0;
    int wanted = chosen->repetitions ? chosen->repetitions : LEAST_REPETITIONS;
    int most = chosen->repetitions ? chosen->repetitions : MOST_REPETITIONS;
    bool good;
    BT_SCOPE {
        bench_work work = {.target = target};
        good = bench_warm_up(row, &work);
        while (good && found->repetitions < most && (found->repetitions < wanted || total < ROW_SECONDS)) {
            bench_sample sample;
            if (!(good = bench_run_once(row, &work, NULL, &sample))) break;
            seconds[found->repetitions++] = sample.seconds;
            total += sample.seconds * (row->steps ? row->steps : 1);
            found->kernels += sample.kernels;
        }
        if (row->finish) row->finish(&work);
    }
    if (!good) return false;
    found->median = bench_median(seconds, found->repetitions);
    found->least = seconds[0];
    return true;
}

/* --- printing ------------------------------------------------------------------------------------------------------- */

static void add_table_row(cli_table *table, const bench_row *row, const bench_target *target, const measurement *found,
                          double copy_rate) {
    double bytes = bench_row_bytes(row, target), flops = bench_row_flops(row, target);
    char repetitions[16], rate[32] = "", of_copy[16] = "";
    snprintf(repetitions, sizeof repetitions, "%d", found->repetitions);
    if (flops > 0) snprintf(rate, sizeof rate, "%.1f GFLOP/s", flops / found->median * 1e-9);
    if (bytes > 0) {
        snprintf(rate, sizeof rate, "%.1f GB/s", bytes / found->median * 1e-9);
        if (copy_rate > 0) snprintf(of_copy, sizeof of_copy, "%.2f", bytes / found->median / copy_rate);
    }
    cli_table_row(table, row->name, cli_time(found->median), cli_time(found->least), repetitions, rate, of_copy,
                  row->does);
}

static json_t *row_as_json(const bench_row *row, const bench_target *target, const measurement *found,
                           double copy_rate) {
    double bytes = bench_row_bytes(row, target), flops = bench_row_flops(row, target);
    json_t *all = json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:I}", "row", row->name, "does", row->does, "device",
                            target->device, "median_s", found->median, "min_s", found->least, "repetitions",
                            found->repetitions, "kernels_compiled", (json_int_t)found->kernels);
    if (flops > 0) json_object_set_new(all, "flop_per_s", json_real(flops / found->median));
    if (bytes > 0) {
        json_object_set_new(all, "bytes_per_s", json_real(bytes / found->median));
        json_object_set_new(all, "copy_bytes_per_s", json_real(copy_rate));
    }
    return all;
}

static int run_rows(char **argv, const bench_row *const *chosen, int count, const options *wanted,
                    const bench_target *target) {
    cli_table table = {.columns = 7, .right = 076};
    json_t *list = json_array();
    int code = CLI_OK;
    double copy_rate = 0;
    cli_table_row(&table, "ROW", "MEDIAN", "LEAST", "TIMES", "RATE", "OF COPY", "WHAT IT DOES");
    for (int i = 0; i < count; i++) {
        measurement found = {0};
        if (chosen[i]->bytes > 0 && !(copy_rate > 0)) copy_rate = bench_copy_rate(target);
        if (!measure_row(chosen[i], wanted, target, &found)) {
            code = cli_error(argv, chosen[i]->name);
            continue;
        }
        add_table_row(&table, chosen[i], target, &found, copy_rate);
        json_array_append_new(list, row_as_json(chosen[i], target, &found, copy_rate));
    }
    if (wanted->json) {
        cli_table_free(&table);
        int printed = cli_print_json(list);
        return code == CLI_OK ? printed : code;
    }
    json_decref(list);
    cli_table_print(&table);
    if (copy_rate > 0)
        printf("a copy within the memory of %s: %.1f GB/s, read and written\n", target->device, copy_rate * 1e-9);
    return code;
}

/* --- interactive: each line of standard input runs a row once, so that peers.py can measure two libraries in turn ------ */

static void print_answer(json_t *line) {
    if (line) json_dumpf(line, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(line);
}

/* Runs the row once, as the rest of the line, "REPETITION [FILE]", says. */
static bool serve_line(const bench_row *row, bench_work *work, char *rest) {
    bench_sample sample = {0};
    char *file = rest;
    work->repetition = strtoll(rest, &file, 10);
    file += strspn(file, " ");
    if (!bench_run_once(row, work, *file ? file : NULL, &sample)) {
        print_answer(json_pack("{s:s, s:s}", "row", row->name, "error", bt_error_text()));
        return false;
    }
    print_answer(json_pack("{s:s, s:f, s:f, s:i, s:I, s:f, s:f}", "row", row->name, "seconds", sample.seconds,
                           "processor_seconds", sample.processor_seconds, "steps", row->steps ? row->steps : 1,
                           "kernels", (json_int_t)sample.kernels, "bytes", bench_row_bytes(row, work->target), "flops",
                           bench_row_flops(row, work->target)));
    return true;
}

/* Prepares a row anew and runs it without a warm-up: seconds of the first call, and the least of a few later ones. */
static bool serve_first(const bench_row *row, const bench_target *target) {
    double seconds[2] = {0}, start = bti_now_seconds(), prepared = 0;
    bool good = true;
    BT_SCOPE {
        bench_work work = {.target = target};
        good = !row->prepare || row->prepare(&work);
        prepared = bti_now_seconds() - start;
        for (int i = 0; good && i <= LATER; i++) {
            bench_sample sample;
            good = bench_run_once(row, &work, NULL, &sample);
            sample.seconds *= row->steps ? row->steps : 1;
            if (i < 2 || sample.seconds < seconds[1]) seconds[i > 0] = sample.seconds;
        }
        if (row->finish) row->finish(&work);
    }
    print_answer(good ? json_pack("{s:s, s:f, s:f, s:f}", "row", row->name, "prepare_s", prepared, "first_s",
                                  seconds[0], "later_s", seconds[1])
                      : json_pack("{s:s, s:s}", "row", row->name, "error", bt_error_text()));
    return good;
}

typedef struct line_reader {
    char *line;
    size_t size;
    char *rest; /* what follows the name; NULL: no line is left */
} line_reader;

/* Reads the next line that is not empty, and terminates the name in it. */
static void read_line(line_reader *in) {
    ssize_t length;
    in->rest = NULL;
    do length = getline(&in->line, &in->size, stdin);
    while (length == 1 && *in->line == '\n');
    if (length <= 0) return;
    if (in->line[length - 1] == '\n') in->line[length - 1] = '\0';
    in->rest = in->line + strcspn(in->line, " ");
    if (*in->rest) *in->rest++ = '\0';
}

/* Serves all lines that name the row, which is prepared once. */
static bool serve_row(const bench_row *row, const bench_target *target, line_reader *in) {
    bool good = true;
    BT_SCOPE {
        bench_work work = {.target = target};
        good = bench_warm_up(row, &work);
        if (!good) print_answer(json_pack("{s:s, s:s}", "row", row->name, "error", bt_error_text()));
        for (bool ready = good; in->rest && !strcmp(in->line, row->name); read_line(in))
            if (ready) good = serve_line(row, &work, in->rest) && good;
        if (row->finish) row->finish(&work);
    }
    return good;
}

static int serve_rows(char **argv, const bench_target *target) {
    line_reader in = {0};
    int code = CLI_OK;
    read_line(&in);
    while (in.rest) {
        bool first = !strcmp(in.line, "first");
        const char *name = first ? in.rest : in.line;
        const bench_row *row = strcmp(name, "copy") ? bench_find_row(argv, name) : NULL;
        if (!strcmp(in.line, "copy")) {
            print_answer(json_pack("{s:s, s:f}", "row", "copy", "bytes_per_s", bench_copy_rate(target)));
            read_line(&in);
        } else if (!row) {
            code = CLI_FAILED;
            print_answer(json_pack("{s:s, s:s}", "row", name, "error", "unknown row"));
            read_line(&in);
        } else if (first) {
            if (!serve_first(row, target)) code = CLI_FAILED;
            read_line(&in);
        } else if (!serve_row(row, target, &in)) {
            code = CLI_FAILED;
        }
    }
    free(in.line);
    return code;
}

int cli_bench(int argc, char **argv) {
    options given = {0};
    bench_target target;
    const bench_row *chosen[BENCH_MOST_ROWS];
    int count = 0, code = read_options(argc, argv, &given);
    if (code != CLI_OK) return code;
    for (int i = optind; i < argc && count < BENCH_MOST_ROWS; i++)
        if (!(chosen[count++] = bench_find_row(argv, argv[i]))) return CLI_USAGE;
    for (int i = 0; optind == argc && i < (given.device ? bench_row_count() : bench_common_row_count()); i++)
        chosen[count++] = bench_row_at(i);
    if (!cli_settings_good(argv)) return CLI_FAILED;
    if (given.figures) return bench_figures(argv);
    if (given.first_result) return bench_first_result(argv, given.device ? given.device : "cpu");
    if (given.startup_probe) return bench_startup_probe(argv, given.device);
    if (!choose_devices(&given, &target)) return cli_error(argv, "nothing measured");
    code = given.interactive ? serve_rows(argv, &target) : run_rows(argv, chosen, count, &given, &target);
    return bt_shutdown() == BT_OK ? code : cli_error(argv, "the devices cannot be closed");
}

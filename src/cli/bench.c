/* `berth bench`: how long typical work takes here. */
#include "cli/bench.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_REPETITIONS = 5, MOST_REPETITIONS = 50 };
#define ROW_SECONDS 1.0

typedef struct options {
    bool json, interactive, probe, ledger;
    const char *device; /* NULL: the CPU, with simulated GPUs for the mixed row */
    int repetitions;    /* 0: at least 5, more while they take less than a second in all */
    int shrink;
} options;

typedef struct figures {
    double median, least;
    int repetitions;
    uint64_t kernels;
} figures;

static int read_options(int argc, char **argv, options *out) {
    static const struct option known[] = {{"json", no_argument, NULL, 'j'},
                                          {"interactive", no_argument, NULL, 'i'},
                                          {"repetitions", required_argument, NULL, 'r'},
                                          {"device", required_argument, NULL, 'd'},
                                          {"shrink", required_argument, NULL, 's'},
                                          {"first-result", no_argument, NULL, 'l'},
                                          {"startup-probe", no_argument, NULL, 'p'},
                                          {0}};
    for (int option; (option = cli_option(argc, argv, known)) != -1;) switch (option) {
        case 'j': out->json = true; break;
        case 'i': out->interactive = true; break;
        case 'p': out->probe = true; break;
        case 'l': out->ledger = true; break;
        case 'd': out->device = optarg; break;
        case 's':
            if (!cli_number(argv, "--shrink", optarg, 1, 256, &out->shrink)) return CLI_USAGE;
            break;
        case 'r':
            if (!cli_number(argv, "--repetitions", optarg, 1, 1000, &out->repetitions)) return CLI_USAGE;
            break;
        default: return CLI_USAGE;
        }
    return (out->interactive || out->probe || out->ledger) && !cli_no_more(argc, argv) ? CLI_USAGE : CLI_OK;
}

/* The device that the mixed row uses beside this one: the next of its kind, else the CPU. */
static const char *beside(const bt_device *device) {
    bt_kind kind = bt_device_kind(device);
    int next = bt_device_index(device) + 1;
    return next < bt_device_count(kind) ? bt_device_name(bt_device_get(kind, next)) : "cpu";
}

/* Without --device rows run on the CPU; simulated devices are there for the row that wants a second one. Kernels of an earlier
 * run are not used. */
static bool choose_devices(const options *given, bench_target *target) {
    bt_device *device;
    *target = (bench_target){"cpu", {"gpu:0", "gpu:1"}, given->shrink ? given->shrink : 1};
    if (bt_set_flag("cache", "off") != BT_OK) return false;
    if (!given->device) return bt_set_devices("sim:gpu*2@4G") == BT_OK && bt_set_default_device("cpu") == BT_OK;
    if (bt_device_find(given->device, &device) != BT_OK || bt_set_default_device(given->device) != BT_OK) return false;
    target->device = bt_device_kind(device) == BT_CPU ? "cpu" : bt_device_name(device);
    target->mixed[0] = target->device;
    target->mixed[1] = beside(device);
    return true;
}

/* --- measuring ------------------------------------------------------------------------------------------------------ */

static bool measure(const bench_row *row, const options *chosen, const bench_target *target, figures *found) {
    double seconds[1000], total = 0;
    int wanted = chosen->repetitions ? chosen->repetitions : LEAST_REPETITIONS;
    int most = chosen->repetitions ? chosen->repetitions : MOST_REPETITIONS;
    bool good;
    BT_SCOPE {
        bench_work work = {.target = target};
        good = bench_warm_up(row, &work);
        while (good && found->repetitions < most && (found->repetitions < wanted || total < ROW_SECONDS)) {
            bench_sample sample;
            if (!(good = bench_once(row, &work, NULL, &sample))) break;
            seconds[found->repetitions++] = sample.seconds;
            total += sample.seconds * (row->steps ? row->steps : 1);
            found->kernels += sample.kernels;
        }
    }
    if (!good) return false;
    found->median = bench_median(seconds, found->repetitions);
    found->least = seconds[0];
    return true;
}

/* --- printing ------------------------------------------------------------------------------------------------------- */

/* "1.23 ms". */
static const char *time_text(double seconds, char text[16]) {
    static const char *const units[] = {"s", "ms", "us"};
    int unit = 0;
    for (; unit < 2 && seconds < 0.9995; unit++) seconds *= 1e3;
    int digits = seconds < 9.995 ? 2 : seconds < 99.95 ? 1 : 0;
    snprintf(text, 16, "%.*f %s", digits, seconds, units[unit]);
    return text;
}

static void add_row(cli_table *table, const bench_row *row, const bench_target *target, const figures *found,
                    double copy_rate) {
    double bytes = bench_bytes(row, target), flops = bench_flops(row, target);
    char median[16], least[16], repetitions[16], rate[32] = "", of_copy[16] = "";
    snprintf(repetitions, sizeof repetitions, "%d", found->repetitions);
    if (flops > 0) snprintf(rate, sizeof rate, "%.1f GFLOP/s", flops / found->median * 1e-9);
    if (bytes > 0) {
        snprintf(rate, sizeof rate, "%.1f GB/s", bytes / found->median * 1e-9);
        if (copy_rate > 0) snprintf(of_copy, sizeof of_copy, "%.2f", bytes / found->median / copy_rate);
    }
    cli_table_row(table, row->name, time_text(found->median, median), time_text(found->least, least), repetitions, rate,
                  of_copy, row->does);
}

static json_t *as_json(const bench_row *row, const bench_target *target, const figures *found, double copy_rate) {
    double bytes = bench_bytes(row, target), flops = bench_flops(row, target);
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
        figures found = {0};
        if (chosen[i]->bytes > 0 && !(copy_rate > 0)) copy_rate = bench_copy_rate(target);
        if (!measure(chosen[i], wanted, target, &found)) {
            code = cli_error(argv, chosen[i]->name);
            continue;
        }
        add_row(&table, chosen[i], target, &found, copy_rate);
        json_array_append_new(list, as_json(chosen[i], target, &found, copy_rate));
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

int cli_bench(int argc, char **argv) {
    options given = {0};
    bench_target target;
    const bench_row *chosen[64];
    int count = 0, code = read_options(argc, argv, &given);
    if (code != CLI_OK) return code;
    for (int i = optind; i < argc && count < 64; i++)
        if (!(chosen[count++] = bench_row_find(argv, argv[i]))) return CLI_USAGE;
    for (int i = 0; optind == argc && i < (given.device ? bench_row_count() : bench_row_common()); i++)
        chosen[count++] = bench_row_at(i);
    if (!cli_settings_good(argv)) return CLI_FAILED;
    if (given.probe || given.ledger) return bench_startup_probe(argv, given.device, given.ledger);
    if (!choose_devices(&given, &target)) return cli_error(argv, "nothing measured");
    code = given.interactive ? bench_interactive(argv, &target) : run_rows(argv, chosen, count, &given, &target);
    return bt_shutdown() == BT_OK ? code : cli_error(argv, "the devices cannot be closed");
}

/* `berth run`: takes a lease of GPUs and becomes the program that uses them. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

enum {
    EXIT_USAGE = 64,
    EXIT_NEVER_FREE = 69,
    EXIT_NOT_FREE = 75,
    EXIT_CANNOT_RUN = 126,
    EXIT_NOT_FOUND = 127,
    MOST_GPUS = 64
};

typedef struct request {
    bt_lease_options lease;
    bool list, json;
} request;

static bool read_seconds(char **argv, const char *text, bt_lease_options *lease) {
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || *end || !(seconds >= 0 && seconds < 1e9)) {
        fprintf(stderr, "%s: --timeout takes seconds, such as 60 or 0.5, not \"%s\"\n", argv[0], text);
        return false;
    }
    lease->wait = seconds > 0;
    lease->timeout_seconds = seconds;
    return true;
}

static bool read_option(char **argv, int option, request *w) {
    switch (option) {
    case 'g': return cli_number(argv, "--gpus", optarg, 1, MOST_GPUS, &w->lease.num_gpus);
    case 'm': return cli_byte_count(argv, "--mem", optarg, &w->lease.memory_bytes);
    case 't': return read_seconds(argv, optarg, &w->lease);
    case 'w': return w->lease.wait = true;
    case 'l': return w->list = true;
    case 'j': return w->json = true;
    default: return false;
    }
}

static bool check_request(char **argv, int argc, const request *w) {
    const char *error = NULL;
    bool program = optind < argc, asks = w->lease.num_gpus || w->lease.memory_bytes || w->lease.wait;
    if (w->list && (program || asks))
        error = "--list goes with --json alone";
    else if (w->json && !w->list)
        error = "--json goes with --list";
    else if (!w->list && !w->lease.num_gpus)
        error = "--gpus N is missing";
    else if (!w->list && (!program || strcmp(argv[optind - 1], "--") != 0))
        error = "\"-- PROGRAM [ARGUMENT...]\" is missing";
    if (error) fprintf(stderr, "%s: %s\nsee \"%s --help\"\n", argv[0], error, argv[0]);
    return !error;
}

static int print_leases(char **argv, bool json) {
    char *text = (bt_leases_text)(json);
    if (!text) return cli_error(argv, "the leases cannot be read"), EXIT_NEVER_FREE;
    printf("%s%s", text, json ? "\n" : "");
    bt_free(text);
    return CLI_OK;
}

/* The command line as one text, which others see; NULL when out of memory. */
static char *join_arguments(char *const *program) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    for (int i = 0; out && program[i]; i++) fprintf(out, "%s%s", i ? " " : "", program[i]);
    if (out) fclose(out);
    return text;
}

static bool set_environment(const bt_lease *lease, uint64_t share) {
    char bytes[24];
    const char *mask = bt_lease_mask(lease), *variable = bt_lease_variable(lease);
    bool numbers = *mask >= '0' && *mask <= '9' && !strcmp(variable, "CUDA_VISIBLE_DEVICES");
    snprintf(bytes, sizeof bytes, "%" PRIu64, share);
    return !setenv(variable, mask, 1) && (!numbers || !setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1)) &&
           (!share || cli_add_flag("gpu_memory_limit", bytes));
}

static int run_with_lease(char **argv, char **program, request *w) {
    char *command = join_arguments(program);
    w->lease.command = command;
    bt_lease *lease = (bt_lease_take)(&w->lease);
    free(command);
    if (!lease) {
        bt_status status = bt_error_status();
        fprintf(stderr, "%s: %s\n", argv[0], bt_error_text());
        return status == BT_RESOURCE_EXHAUSTED || status == BT_DEADLINE_EXCEEDED ? EXIT_NOT_FREE : EXIT_NEVER_FREE;
    }
    if (set_environment(lease, w->lease.memory_bytes)) execvp(*program, program);
    int error = errno;
    fprintf(stderr, "%s: %s: %s\n", argv[0], *program, strerror(error));
    bt_lease_release(lease);
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

int cli_run(int argc, char **argv) {
    static const struct option options[] = {{"gpus", required_argument, NULL, 'g'},
                                            {"mem", required_argument, NULL, 'm'},
                                            {"timeout", required_argument, NULL, 't'},
                                            {"wait", no_argument, NULL, 'w'},
                                            {"list", no_argument, NULL, 'l'},
                                            {"json", no_argument, NULL, 'j'},
                                            {0}};
    request w = {.lease = {.size = sizeof w.lease, .inherit = true}};
    for (int option; (option = cli_option(argc, argv, options)) != -1;)
        if (!read_option(argv, option, &w)) return EXIT_USAGE;
    if (!check_request(argv, argc, &w)) return EXIT_USAGE;
    return w.list ? print_leases(argv, w.json) : run_with_lease(argv, argv + optind, &w);
}

/* The command `berth`: one row per subcommand; each has a file of its name. */
#include <string.h>

#include "cli/cli.h"

#define JSON_HELP "  --json   as JSON\n"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *does;      /* one line */
    const char *arguments; /* of the usage line */
    const char *more;      /* options and details, whole lines */
} commands[] = {
    {"demo", cli_demo, "trains a classifier of handwritten digits on all accelerators", "[OPTIONS]",
     "  --devices N   on N devices; all TPUs, else all GPUs, when not given; without any, N (or four)\n"
     "                simulated GPUs stand in\n"
     "  --epochs N    passes over the digits (40)\n"
     "  --data FILE   CSV, in each row 64 pixels from 0 to 16 and the digit; else the 1,797 inside\n"
     "  --save FILE   where the model goes, as safetensors (digits.safetensors, else a temporary folder)\n"
     "  --quiet       prints the accuracy and the file only\n"
     "Fails when fewer than 90 % of the held-out digits (the last fifth) are read right.\n"},
    {"bench", cli_bench, "measures how long typical work takes here", "[OPTIONS] [ROW...]",
     "  --json            as JSON\n"
     "  --repetitions N   of each row; else at least 5, more while they take less than a second\n"
     "  --interactive     each line of standard input, ROW REPETITION [FILE], runs the row once and is\n"
     "                    answered by a line of JSON; the result goes to the file, as .npy\n"
     "  --device NAME     rows run there: gpu:0, cuda, opencl0:0...; else on the CPU\n"
     "  --shrink N        rows large_* with N times fewer elements (sides N times shorter where square),\n"
     "                    matmul_* with sides N times shorter\n"
     "  --first-result    what a process spends until its first result, and after; as JSON\n"
     "Rows (all when none is named): elementwise elementwise_compiled linspace random100m\n"
     "random100m_mixed matmul1024 matmul2048 matmul4096 matmul_small softmax layer_norm sum sum_axis0\n"
     "sum_axis1 transpose_add broadcast gather dependent_adds compile startup step_small step_medium\n"
     "step_large; with --device also large_elementwise large_sum large_softmax large_layer_norm\n"
     "large_transpose_add large_gather, matmul_KIND_N for f32, tf32, fast_bf16, bf16 and 1024, 2048, 4096,\n"
     "8192, 16384, launch launch_100 launch_graph. A warm-up comes first; compiled kernels are not kept on\n"
     "disk. OF COPY is the rate beside that of a copy within the device's memory.\n"},
    {"devices", cli_devices, "lists the devices that are here", "[--json]", JSON_HELP},
    {"doctor", cli_doctor, "says what works and, where it does not, why", "[--json]",
     JSON_HELP "Fails when a setting is faulty or the CPU cannot be used.\n"},
    {"config", cli_config, "lists the settings: values, who set them, what they do", "[--json]",
     JSON_HELP "Settings are given as BERTH_FLAGS=\"name=value,name=value\". Fails when one of those is faulty.\n"},
    {"ops", cli_ops, "lists the operations", "[--json]", JSON_HELP},
    {"explain", cli_explain, "runs a program and shows what it computes where",
     "[--json|--dot] -- PROGRAM [ARGUMENT...]",
     "The plans go to standard error, each before it runs: as text, as JSON (an object a line) or as\n"
     "graphs for Graphviz. One that was there lately is only named. The exit code is the program's; 1 when it\n"
     "cannot be run.\n"},
    {"fit", cli_fit, "runs a program and shows how much memory it was foreseen to take, and took",
     "[--json] -- PROGRAM [ARGUMENT...]",
     JSON_HELP
     "Before each computation what it takes is added to what is in use. A row a device: the greatest of these\n"
     "sums, the most that was in use indeed, and the step with that sum: what it adds, its largest piece\n"
     "and the line that asked for it; after \"refused\", the greatest sum that the device could not give.\n"
     "The exit code is the program's; 1 when it cannot be run or told nothing.\n"},
    {"ps", cli_ps, "shows the runtimes of this user: tasks, GPUs, workers, and why who waits",
     "[--json] [--timeline FILE] [PROCESS]",
     JSON_HELP
     "  --timeline FILE   writes what ran where so far, as a Chrome trace, which Perfetto opens\n"
     "Of all programs that run tasks (bt_runtime_init), or of the one with that process number. As JSON: a list.\n"},
    {"top", cli_top, "shows the same once a second", "[--once] [PROCESS]",
     "  --once   one time, as a table; also when standard output is no terminal\n"
     "q or Ctrl-C ends it.\n"},
    {"trace", cli_trace, "records what a program runs when and where, as a page",
     "[-o PAGE] -- PROGRAM [ARGUMENT...] | FILE",
     "  -o, --output PAGE   the page to write: HTML that needs nothing else (trace.html; of FILE: FILE as .html)\n"
     "A program's recording goes beside the page, as .json: a Chrome trace, which Perfetto opens too. FILE is\n"
     "such a recording. The exit code is the program's; 1 when it cannot be run or recorded nothing.\n"},
    {"run", cli_run, "runs a program on GPUs that no other holds",
     "--gpus N [--mem BYTES] [--wait] [--timeout SECONDS] -- PROGRAM [ARGUMENT...] | --list [--json]",
     "  --gpus N            so many of those that CUDA_VISIBLE_DEVICES shows; the program sees these alone\n"
     "  --mem BYTES         a share of each, such as 8G, beside others whose shares fit too; whole GPUs when not\n"
     "                      given. Programs of berth take no more\n"
     "  --wait              until they are free, in order of arrival; else it ends when they are not\n"
     "  --timeout SECONDS   waits at most so long\n"
     "  --list              who holds and who waits for what\n"
     "  --json              the list as JSON\n"
     "It becomes the program. What it took is free when the program and those that it started are gone, by\n"
     "whatever signal. BERTH_LEASES names another folder of lock files. Only who asks is bound.\n"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static const char exit_codes[] = "0 done, 1 failed, 2 wrong usage";
static const char exit_codes_of_run[] = "the program's; 75 not free, or not in time, 69 never free, 64 wrong usage,\n"
                                        "126 the program cannot be run, 127 it is not there";

static void print_help(FILE *out) {
    fprintf(out, "usage: berth COMMAND [ARGUMENTS]\n\n");
    for (int i = 0; i < COMMANDS; i++) fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].does);
    fprintf(out, "\n  berth COMMAND --help   says more\n  berth --version\n\nexit codes: %s\n", exit_codes);
}

static void print_command_help(const struct command *command) {
    printf("usage: berth %s%s%s\n\nberth %s %s.\n\n%s\nexit codes: %s\n", command->name, *command->arguments ? " " : "",
           command->arguments, command->name, command->does, command->more,
           command->run == cli_run ? exit_codes_of_run : exit_codes);
}

static const struct command *find(const char *name) {
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(commands[i].name, name)) return &commands[i];
    return NULL;
}

static bool asks_for_help(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return true;
    return false;
}

static int run(const struct command *command, int argc, char **argv) {
    char name[32];
    if (asks_for_help(argc, argv)) return print_command_help(command), CLI_OK;
    snprintf(name, sizeof name, "berth %s", command->name);
    argv[0] = name;
    return command->run(argc, argv);
}

static int dispatch(int argc, char **argv) {
    const char *first = argc > 1 ? argv[1] : "";
    if (!strcmp(first, "--help") || !strcmp(first, "-h")) return print_help(stdout), CLI_OK;
    if (!strcmp(first, "--version")) return printf("berth %s\n", BERTH_VERSION), CLI_OK;
    if (!*first) return print_help(stderr), CLI_USAGE;
    const struct command *command = find(first);
    if (command) return run(command, argc - 1, argv + 1);
    fprintf(stderr, "berth: there is no %s \"%s\"; see \"berth --help\"\n", *first == '-' ? "option" : "command",
            first);
    return CLI_USAGE;
}

int main(int argc, char **argv) {
    int code = dispatch(argc, argv);
    if (fflush(stdout) || ferror(stdout)) {
        perror("berth: standard output");
        return code ? code : CLI_FAILED;
    }
    return code;
}

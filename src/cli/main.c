/* The command `berth`: one row per subcommand. Each has a file of its name; `top` is in ps.c. */
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
    {"demo", cli_demo, "trains a classifier of handwritten digits on all accelerators", "[NAME] [OPTIONS]",
     "NAME, a model that is trained on the default device in its place: conv (a convolutional network), lstm\n"
     "(which reads the rows one after the other), vae (an autoencoder that draws new digits), gpt (a transformer\n"
     "that learns to write berth's reference and writes a part, with a cache of keys).\n"
     "  --devices N   uses N devices, 1 to 32; default: all TPUs, else all GPUs, else four simulated GPUs\n"
     "  --epochs N    passes over the digits (default: 40; conv and lstm 20, vae 60, gpt 6)\n"
     "  --data FILE   CSV, each row 64 pixels from 0 to 16 and the digit; default: 1,797 built-in digits\n"
     "  --save FILE   saves the model there, as safetensors; default: digits.safetensors, or in a\n"
     "                temporary folder when that cannot be written\n"
     "  --report FILE with NAME: a page with curves, confusion matrix, time and memory; FILE.csv beside it\n"
     "  --quiet       prints only the accuracy and the name of the file\n"
     "Or a model with weights of PyTorch's, from safetensors (also in shards) or .pt: resnet18 (names of\n"
     "torchvision's) and gpt2 (of Hugging Face's). Without weights, a small one is saved under these names and\n"
     "loaded.\n"
     "  --weights FILE     of resnet18 or gpt2; beside those of gpt2 its tokenizer: tokenizer.json, or\n"
     "                     vocab.json and merges.txt\n"
     "  --image FILE       what resnet18 classifies: a binary .ppm, or .npy of bytes [H, W, 3] or of floats\n"
     "                     [3, H, W] that are taken as they are\n"
     "  --labels FILE      the classes' names, a line each\n"
     "  --prompt TEXT      what gpt2 writes behind\n"
     "  --tokens N         so many at most (default: 40)\n"
     "  --temperature T    draws from the 50 likeliest tokens; default: 0, the likeliest\n"
     "  --seed N           of draws (default: 0)\n"
     "  --heads N          of gpt2's attention; default: its width / 64\n"
     "  --save FILE        saves it again, under PyTorch's names\n"
     "Fails when the accuracy on the held-out digits (a fifth of each) is below 90 %, with conv 98.5 %, with\n"
     "lstm 95 %.\n"},
    {"bench", cli_bench, "measures how long typical work takes on this machine", "[OPTIONS] [ROW...]",
     "  --json            as JSON\n"
     "  --repetitions N   of each row; default: at least 5, more while they take less than a second\n"
     "  --interactive     each line of standard input, ROW REPETITION [FILE], runs the row once; the answer\n"
     "                    is a line of JSON; the result is saved to FILE, as .npy\n"
     "  --device NAME     runs rows on this device: gpu:0, cuda, opencl0:0...; default: the CPU\n"
     "  --shrink N        divides the elements of large_*, upload and download rows by N (square ones:\n"
     "                    their sides), and the sides of matmul_* rows\n"
     "  --first-result    prints the times of a process until its first result, and after, as JSON\n"
     "  --figures         measures what a model of this CPU goes by (flag devices: sim:zen3{...})\n"
     "Rows (default: all): elementwise elementwise_compiled linspace random100m\n"
     "random100m_mixed permutation normal matmul1024 matmul2048 matmul4096 matmul_small thin_product\n"
     "fft fft_lines cholesky softmax layer_norm sum sum_axis0 sum_axis1 transpose_add broadcast gather dependent_adds "
     "cumsum\n"
     "cumsum_short cumsum_axis0 short_rows narrow_sums nbody sort sort_short sort4m sort_rows sort_indices topk argmax "
     "scatter_add\n"
     "scatter_add_one scatter_rows embedding_grad scatter_axis take_gradient layer_norm_gradient\n"
     "softmax_gradient conv3x3 conv7x7s2 conv1x1 conv_depthwise conv_grad resnet18 resnet18_one\n"
     "attention attention_causal attention_grad kv_cache matmul_vmap softmax_vmap gather_vmap\n"
     "example_gradients example_gradients_by_hand hvp compile startup step_small step_medium step_large\n"
     "conv_step vae_step gpt_step gpt_step_bf16 gpt2_prompt gpt2_token gru_forward gru_step scan_steps while_steps;\n"
     "with --device also\n"
     "large_elementwise large_sum large_softmax large_layer_norm large_transpose_add large_gather,\n"
     "matmul_KIND_N for f32, tf32, fast_bf16, bf16 and 1024, 2048, 4096, 8192, 16384, KIND_N for cholesky,\n"
     "solve, inv, qr, eigh, svd and 512, 1024, 2048, inv_many, upload download\n"
     "upload_pinned download_pinned, launch launch_100 launch_graph. Each row is\n"
     "warmed up first. The cache of kernels on disk is not used. OF COPY is the rate divided by that of a\n"
     "copy within the device's memory.\n"},
    {"devices", cli_devices, "lists the devices of this machine", "[--json]", JSON_HELP},
    {"doctor", cli_doctor, "checks settings, devices and libraries, and explains what does not work", "[--json]",
     JSON_HELP "Fails when a setting has an error or the CPU cannot be used.\n"},
    {"config", cli_config, "lists the settings: values, where they were set, what they do", "[--json]",
     JSON_HELP "Settings are given as BERTH_FLAGS=\"name=value,name=value\". Fails when one has an error.\n"},
    {"ops", cli_ops, "lists the operations, or describes one of them", "[--json] [NAME]",
     JSON_HELP
     "NAME is that of an operation, bt_conv2d or conv2d: its prototype, what it does, an example and what that\n"
     "prints. Or that of a primitive.\n"},
    {"explain", cli_explain, "runs a program and shows what it computes on which device",
     "[--json|--dot|--passes] -- PROGRAM [ARGUMENT...]",
     "Each plan is written to standard error before it runs: as text, as JSON (one object per line), as a\n"
     "graph for Graphviz, or as it is after each pass of the planner. A plan that was shown recently is only named. "
     "The exit code is that of the program;\n"
     "1 when it cannot be run.\n"},
    {"show", cli_show, "shows what a file holds: a model, safetensors, .npy, .npz, .pt or BSON", "[--json] FILE",
     JSON_HELP
     "Names, dtypes, shapes, elements and bytes of its tensors, its metadata, and the layers of a model that\n"
     "bt_save_model wrote, or of Flux's in BSON. No values are read but those of BSON. Of a malformed file the\n"
     "reason and the offset, and the exit code 1.\n"},
    {"fit", cli_fit, "runs a program and compares its predicted with its measured memory",
     "[--json] -- PROGRAM [ARGUMENT...]",
     JSON_HELP
     "Before each computation the memory that it needs is predicted and added to what is in use. One row per\n"
     "device: the largest of these sums, the largest memory that was in use, and the step with the largest\n"
     "sum: the memory that it adds, its largest allocation and the line that recorded it. REFUSED is the\n"
     "largest sum that the device could not provide.\n"
     "The exit code is that of the program; 1 when it cannot be run or reported nothing.\n"},
    {"ps", cli_ps, "shows the task runtimes of this user: tasks, GPUs, workers, what waits and why",
     "[--json] [--timeline FILE] [PROCESS]",
     JSON_HELP
     "  --timeline FILE   writes what ran where so far as a Chrome trace, which Perfetto opens\n"
     "Shows all programs that run tasks (bt_runtime_init), or the one with process id PROCESS. As JSON: a list.\n"},
    {"top", cli_top, "shows the same, refreshed every second", "[--once] [PROCESS]",
     "  --once   prints it once; also when standard output is not a terminal\n"
     "q or Ctrl-C quits.\n"},
    {"trace", cli_trace, "records a timeline of a program as an HTML page", "[-o PAGE] -- PROGRAM [ARGUMENT...] | FILE",
     "  -o, --output PAGE   the HTML page to write; default: trace.html, or FILE with the suffix .html\n"
     "The recording is written beside the page, as .json: a Chrome trace, which Perfetto opens too. FILE is\n"
     "such a recording. The exit code is that of the program; 1 when it cannot be run or recorded nothing.\n"},
    {"simulate", cli_simulate, "runs a program on devices that one does not have, by a model, in virtual time",
     "[--devices DEVICES] [--no-data] [--json] [-o PAGE] -- PROGRAM [ARGUMENT...]",
     "  --devices DEVICES   h200*8 (the default), a100*4, rtx4090*2, zen3 (a CPU), h200{link=100}*4@80G...: as the\n"
     "                      flag devices\n"
     "  --no-data           devices hold no data and compute nothing: for sizes that this machine could not hold.\n"
     "                      The host reads zeros; who reads them is listed\n" JSON_HELP
     "  -o, --output PAGE   also makes an HTML page of the timeline\n"
     "A step is one run of the plan that runs most often. Per device and step: how busy it is, the time of its\n"
     "kernels, of copies that kernels hide, and of copies that it waits for; and the most memory. A model, not\n"
     "a measurement. The exit code is that of the program; 1 when it cannot be run or reported nothing.\n"},
    {"run", cli_run, "runs a program on GPUs that no other program has leased",
     "--gpus N [--mem BYTES] [--wait] [--timeout SECONDS] -- PROGRAM [ARGUMENT...] | --list [--json]",
     "  --gpus N            takes N of the GPUs that CUDA_VISIBLE_DEVICES shows; the program sees only these\n"
     "  --mem BYTES         takes a share of each GPU, such as 8G; other programs may take the rest. Default:\n"
     "                      whole GPUs. Programs that use berth stay within their share\n"
     "  --wait              waits until they are free, in order of arrival; default: fails when they are not\n"
     "  --timeout SECONDS   waits at most this long\n"
     "  --list              shows who holds and who waits for each GPU\n"
     "  --json              the list as JSON\n"
     "The command becomes the program (exec). The GPUs are free again when the program and all that it started\n"
     "have ended, by whatever signal. BERTH_LEASES names another folder for the lock files. Leases bind only\n"
     "programs that use them.\n"},
    {"cluster", cli_cluster, "starts a Ray cluster of several nodes on this machine, for a try, and ends it",
     "up [--nodes N] [--cpus N] [--gpus N] [--store BYTES] [--port N] | status [--json] | down",
     "up starts the nodes, of which programs with the flags task_engine=ray and task_address are users:\n"
     "  --nodes N       (default: 2)\n"
     "  --cpus N        of each node (default: those of this machine); --gpus N: likewise (default: 0).\n"
     "                  They are counted, not looked for\n"
     "  --store BYTES   of each node's object store (default: 256M)\n"
     "  --port N        of the first node (default: 6379)\n"
     "status lists them; fails unless all are alive. As JSON: the address and a list. down ends them and all that\n"
     "runs on them. Needs Python with Ray: BERTH_PYTHON, or the flag ray_python, names it.\n"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static const char exit_codes[] = "0 done, 1 failed, 2 wrong usage";
static const char exit_codes_of_run[] =
    "that of the program; 75 not free, or not in time, 69 never possible, 64 wrong usage,\n"
    "126 the program cannot be run, 127 it does not exist";

static void print_help(FILE *out) {
    fprintf(out, "usage: berth COMMAND [ARGUMENTS]\n\n");
    for (int i = 0; i < COMMANDS; i++) fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].does);
    fprintf(out, "\n  berth COMMAND --help   describes a command\n  berth --version\n\nexit codes: %s\n", exit_codes);
}

static void print_command_help(const struct command *command) {
    printf("usage: berth %s%s%s\n\nberth %s %s.\n\n%s\nexit codes: %s\n", command->name, *command->arguments ? " " : "",
           command->arguments, command->name, command->does, command->more,
           command->run == cli_run ? exit_codes_of_run : exit_codes);
}

static const struct command *find_command(const char *name) {
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(commands[i].name, name)) return &commands[i];
    return NULL;
}

static bool asks_for_help(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return true;
    return false;
}

static int run_command(const struct command *command, int argc, char **argv) {
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
    const struct command *command = find_command(first);
    if (command) return run_command(command, argc - 1, argv + 1);
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

/* `berth cluster`: a Ray cluster on this machine, for a try. Each node is `ray start --block`, in a session of its own. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cluster_nodes.h"

enum { END_SECONDS = 15, SHOWN = 2000 /* bytes of a log */ };

static const char ray_main[] =
    "import sys; sys.argv[0] = 'ray'; from ray.scripts.scripts import main; sys.exit(main())";

typedef struct plan {
    int nodes, cpus, gpus, port; /* cpus and gpus: of each node */
    uint64_t store_bytes;
} plan;

/* --- up ------------------------------------------------------------------------------------------------------------------ */

/* This machine's address on its network: nodes do not take 127.0.0.1 from each other. Nothing is sent. */
static void find_address(char address[INET_ADDRSTRLEN]) {
    struct sockaddr_in far = {.sin_family = AF_INET, .sin_port = htons(9)}, here;
    socklen_t size = sizeof here;
    int one = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, "192.0.2.1", &far.sin_addr); /* of documentation: nobody has it */
    bool found = one >= 0 && !connect(one, (struct sockaddr *)&far, sizeof far) &&
                 !getsockname(one, (struct sockaddr *)&here, &size) &&
                 inet_ntop(AF_INET, &here.sin_addr, address, INET_ADDRSTRLEN);
    if (one >= 0) close(one);
    if (!found) snprintf(address, INET_ADDRSTRLEN, "127.0.0.1");
}

static bool set_environment(int first_gpu, int gpus) {
    char list[CLI_MOST_NODES * 64] = "";
    for (int g = 0, at = 0; g < gpus && at < (int)sizeof list - 8; g++)
        at += snprintf(list + at, sizeof list - (size_t)at, g ? ",%d" : "%d", first_gpu + g);
    return !setenv("CUDA_VISIBLE_DEVICES", list, 1) && !setenv("RAY_AUTH_MODE", "disabled", 0) &&
           !setenv("RAY_USAGE_STATS_ENABLED", "0", 0);
}

static bool start_node(char **argv, const plan *p, const char *python, cli_cluster_state *cluster) {
    int i = cluster->count;
    char host[64], ip[96], place[128], cpus[32], gpus[32], store[64], folder[CLI_CLUSTER_PATH + 32],
        log[CLI_CLUSTER_PATH + 32];
    cli_node *node = &cluster->nodes[i];
    *node = (cli_node){.cpus = p->cpus, .gpus = p->gpus};
    snprintf(host, sizeof host, "%.*s", (int)strcspn(cluster->address, ":"), cluster->address);
    snprintf(ip, sizeof ip, "--node-ip-address=%s", host);
    snprintf(place, sizeof place, i ? "--address=%s" : "--port=%s",
             i ? cluster->address : strchr(cluster->address, ':') + 1);
    snprintf(cpus, sizeof cpus, "--num-cpus=%d", p->cpus);
    snprintf(gpus, sizeof gpus, "--num-gpus=%d", p->gpus);
    snprintf(store, sizeof store, "--object-store-memory=%llu", (unsigned long long)p->store_bytes);
    snprintf(folder, sizeof folder, "--temp-dir=%s/ray", cluster->folder);
    cli_node_log(cluster, i, log);
    /* The words behind --head are of the first node alone: a NULL ends the others' list. */
    const char *words[] = {python,
                           "-c",
                           ray_main,
                           "start",
                           "--block",
                           ip,
                           place,
                           cpus,
                           gpus,
                           store,
                           "--disable-usage-stats",
                           i ? NULL : "--head",
                           "--include-dashboard=false",
                           folder,
                           NULL};
    if (!set_environment(i * p->gpus, p->gpus)) return cli_failure(argv, "out of memory"), false;
    if (!cli_node_start((char **)(uintptr_t)words, environ, log, node)) {
        int error = errno;
        fprintf(stderr, "%s: %s: %s; BERTH_PYTHON, or the flag ray_python, names a Python with Ray\n", argv[0], python,
                strerror(error));
        return false;
    }
    cluster->count++;
    return cli_cluster_write(argv, cluster);
}

/* Its last bytes, 0-terminated. */
static void read_end(const char *path, char text[SHOWN + 1]) {
    FILE *file = fopen(path, "r");
    size_t length = 0;
    if (file && !fseek(file, 0, SEEK_END)) {
        long size = ftell(file);
        if (!fseek(file, size > SHOWN ? size - SHOWN : 0, SEEK_SET)) length = fread(text, 1, SHOWN, file);
    }
    if (file) fclose(file);
    text[length] = 0;
}

static void print_why(char **argv, int i, const char *how, const char *log) {
    if (strstr(log, "No module named 'ray'"))
        fprintf(
            stderr,
            "%s: Ray is missing: pip install \"ray>=2.50\"; BERTH_PYTHON, or the flag ray_python, names the Python\n",
            argv[0]);
    else
        fprintf(stderr, "%s: node %d %s. The end of its log:\n%s\n", argv[0], i, how, log);
}

static bool await_node(char **argv, const cli_cluster_state *cluster, int i, double seconds) {
    char path[CLI_CLUSTER_PATH + 32], log[SHOWN + 1];
    const struct timespec pause = {.tv_nsec = 50000000};
    cli_node_log(cluster, i, path);
    for (double waited = 0;; waited += 0.05) {
        bool ended = waitpid(cluster->nodes[i].pid, NULL, WNOHANG) > 0;
        read_end(path, log);
        if (!ended && strstr(log, "Ray runtime started")) return true;
        if (ended) return print_why(argv, i, "has ended", log), false;
        if (waited >= seconds) return print_why(argv, i, "does not start in time (flag ray_start_seconds)", log), false;
        nanosleep(&pause, NULL);
    }
}

static void end_nodes(cli_cluster_state *cluster) {
    while (cluster->count) cli_node_end(&cluster->nodes[--cluster->count], END_SECONDS);
    cli_cluster_remove(cluster);
}

static int count_alive(const cli_cluster_state *cluster) {
    int alive = 0;
    for (int i = 0; i < cluster->count; i++) alive += cli_node_is_alive(&cluster->nodes[i]);
    return alive;
}

static int up(char **argv, const plan *p) {
    cli_cluster_state cluster;
    char flag[4096], seconds[64], host[INET_ADDRSTRLEN];
    const char *variable = getenv("BERTH_PYTHON");
    if (!cli_cluster_read(argv, &cluster)) return CLI_FAILED;
    if (count_alive(&cluster)) {
        fprintf(stderr, "%s: a cluster is up at %s; \"berth cluster down\" ends it\n", argv[0], cluster.address);
        return CLI_FAILED;
    }
    if (bt_get_flag("ray_python", flag, sizeof flag) != BT_OK ||
        bt_get_flag("ray_start_seconds", seconds, sizeof seconds) != BT_OK)
        return cli_error(argv, "a flag cannot be read");
    const char *python = *flag ? flag : variable && *variable ? variable : "python3";
    while (cluster.count) cli_node_end(&cluster.nodes[--cluster.count], 0); /* what is left of their sessions */
    if (!cli_cluster_begin(argv, &cluster)) return CLI_FAILED;
    find_address(host);
    snprintf(cluster.address, sizeof cluster.address, "%s:%d", host, p->port);
    for (int i = 0; i < p->nodes; i++) {
        if (start_node(argv, p, python, &cluster) && await_node(argv, &cluster, i, atof(seconds))) continue;
        end_nodes(&cluster);
        return CLI_FAILED;
    }
    printf("%d nodes at %s, each with %d CPUs and %d GPUs (counted, not looked for)\n"
           "run programs there by  BERTH_FLAGS=task_engine=ray,task_address=%s ./program\n"
           "end them by            berth cluster down\n",
           p->nodes, cluster.address, p->cpus, p->gpus, cluster.address);
    return CLI_OK;
}

/* --- status, down ------------------------------------------------------------------------------------------------------- */

static json_t *json_of(const cli_cluster_state *cluster) {
    json_t *nodes = json_array();
    for (int i = 0; i < cluster->count; i++) {
        const cli_node *node = &cluster->nodes[i];
        char log[CLI_CLUSTER_PATH + 32];
        cli_node_log(cluster, i, log);
        json_array_append_new(nodes,
                              json_pack("{s:I, s:b, s:i, s:i, s:s}", "process", (json_int_t)node->pid, "alive",
                                        cli_node_is_alive(node), "cpus", node->cpus, "gpus", node->gpus, "log", log));
    }
    return json_pack("{s:s, s:o}", "address", cluster->address, "nodes", nodes);
}

static void print_nodes(const cli_cluster_state *cluster) {
    cli_table table = {.columns = 6, .right = 1 << 1 | 1 << 2 | 1 << 3};
    printf("%s\n", cluster->address);
    cli_table_row(&table, "NODE", "PROCESS", "CPUS", "GPUS", "STATE", "LOG");
    for (int i = 0; i < cluster->count; i++) {
        const cli_node *node = &cluster->nodes[i];
        char name[32], pid[32], cpus[32], gpus[32], log[CLI_CLUSTER_PATH + 32];
        snprintf(name, sizeof name, i ? "%d" : "%d (head)", i);
        snprintf(pid, sizeof pid, "%d", (int)node->pid);
        snprintf(cpus, sizeof cpus, "%d", node->cpus);
        snprintf(gpus, sizeof gpus, "%d", node->gpus);
        cli_node_log(cluster, i, log);
        cli_table_row(&table, name, pid, cpus, gpus, cli_node_is_alive(node) ? "alive" : "gone", log);
    }
    cli_table_print(&table);
}

static int show_status(char **argv, bool json) {
    cli_cluster_state cluster;
    if (!cli_cluster_read(argv, &cluster)) return CLI_FAILED;
    int alive = count_alive(&cluster);
    if (json)
        cli_print_json(json_of(&cluster));
    else if (cluster.count)
        print_nodes(&cluster);
    if (!cluster.count) fprintf(stderr, "%s: no cluster is up; \"berth cluster up\" starts one\n", argv[0]);
    return cluster.count && alive == cluster.count ? CLI_OK : CLI_FAILED;
}

static int down(char **argv) {
    cli_cluster_state cluster;
    if (!cli_cluster_read(argv, &cluster)) return CLI_FAILED;
    int count = cluster.count;
    if (count) {
        end_nodes(&cluster);
        printf("%d nodes ended\n", count);
    } else
        puts("no cluster was up");
    return CLI_OK;
}

/* --- arguments ----------------------------------------------------------------------------------------------------------- */

static int parse_up(int argc, char **argv, plan *p) {
    static const struct option options[] = {
        {"nodes", required_argument, NULL, 'n'}, {"cpus", required_argument, NULL, 'c'},
        {"gpus", required_argument, NULL, 'g'},  {"port", required_argument, NULL, 'p'},
        {"store", required_argument, NULL, 's'}, {0}};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    *p = (plan){.nodes = 2, .cpus = cores > 0 ? (int)cores : 1, .port = 6379, .store_bytes = 256 << 20};
    for (int option; (option = cli_option(argc, argv, options)) != -1;) {
        bool good = option == 'n'   ? cli_number(argv, "--nodes", optarg, 1, CLI_MOST_NODES, &p->nodes)
                    : option == 'c' ? cli_number(argv, "--cpus", optarg, 1, 4096, &p->cpus)
                    : option == 'g' ? cli_number(argv, "--gpus", optarg, 0, 64, &p->gpus)
                    : option == 'p' ? cli_number(argv, "--port", optarg, 1024, 65535, &p->port)
                    : option == 's' ? cli_byte_count(argv, "--store", optarg, &p->store_bytes)
                                    : false;
        if (!good) return CLI_USAGE;
    }
    return cli_no_more(argc, argv) ? CLI_OK : CLI_USAGE;
}

int cli_cluster(int argc, char **argv) {
    static const char *const words[] = {"up", "status", "down"};
    const char *word = argc > 1 ? argv[1] : "";
    bool json;
    plan p;
    if (argc > 1) argv[1] = argv[0]; /* the name that messages begin with */
    if (!strcmp(word, words[0])) {
        int code = parse_up(argc - 1, argv + 1, &p);
        return code == CLI_OK ? cli_settings_good(argv) ? up(argv, &p) : CLI_FAILED : code;
    }
    if (!strcmp(word, words[1])) {
        int code = cli_only_json(argc - 1, argv + 1, &json);
        return code == CLI_OK ? show_status(argv, json) : code;
    }
    if (!strcmp(word, words[2])) return argc == 2 ? down(argv) : cli_misuse(argv, "\"down\" takes no arguments");
    return cli_misuse(argv, "says what is to be done: up, status or down");
}

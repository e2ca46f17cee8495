#include "cli/cluster_nodes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- the folder -------------------------------------------------------------------------------------------------------- */

/* False: the name is too long, and cut it would be another folder's. */
static bool name_folder(char **argv, char folder[CLI_CLUSTER_PATH]) {
    const char *runtime = getenv("XDG_RUNTIME_DIR"), *temporary = getenv("TMPDIR");
    int length;
    if (runtime && *runtime == '/')
        length = snprintf(folder, CLI_CLUSTER_PATH, "%s/berth-cluster", runtime);
    else
        length = snprintf(folder, CLI_CLUSTER_PATH, "%s/berth-cluster-%u",
                          temporary && *temporary == '/' ? temporary : "/tmp", (unsigned)getuid());
    if (length < CLI_CLUSTER_PATH) return true;
    fprintf(stderr, "%s: the path of XDG_RUNTIME_DIR, or TMPDIR, is too long\n", argv[0]);
    return false;
}

/* Another one after each start of the machine. */
static void read_boot(char boot[64]) {
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    size_t length = file ? fread(boot, 1, 63, file) : 0;
    if (file) fclose(file);
    boot[length] = 0;
    boot[strcspn(boot, "\n")] = 0;
}

static void name_state(const cli_cluster_state *cluster, char path[CLI_CLUSTER_PATH + 32]) {
    snprintf(path, CLI_CLUSTER_PATH + 32, "%s/cluster.json", cluster->folder);
}

void cli_node_log(const cli_cluster_state *cluster, int i, char path[CLI_CLUSTER_PATH + 32]) {
    snprintf(path, CLI_CLUSTER_PATH + 32, "%s/node%d.log", cluster->folder, i);
}

/* Whether it is a folder of this user's that nobody else may write to; printed if not. */
static bool is_own_folder(char **argv, const char *folder) {
    struct stat about;
    if (lstat(folder, &about)) return cli_failure(argv, folder), false;
    if (S_ISDIR(about.st_mode) && about.st_uid == getuid() && !(about.st_mode & 022)) return true;
    fprintf(stderr, "%s: %s is not a folder that only this user may write to; remove it, or set XDG_RUNTIME_DIR\n",
            argv[0], folder);
    return false;
}

static bool take_nodes(cli_cluster_state *cluster, const json_t *state) {
    const json_t *nodes = json_object_get(state, "nodes"), *node;
    const char *address = json_string_value(json_object_get(state, "address")),
               *then = json_string_value(json_object_get(state, "boot"));
    char boot[64];
    size_t i;
    read_boot(boot);
    if (then && strcmp(then, boot) != 0) return true;
    if (!address || json_array_size(nodes) > CLI_MOST_NODES) return false;
    snprintf(cluster->address, sizeof cluster->address, "%s", address);
    json_array_foreach(nodes, i, node) {
        cli_node *to = &cluster->nodes[i];
        to->pid = (pid_t)json_integer_value(json_object_get(node, "process"));
        to->begun = json_integer_value(json_object_get(node, "begun"));
        to->cpus = (int)json_integer_value(json_object_get(node, "cpus"));
        to->gpus = (int)json_integer_value(json_object_get(node, "gpus"));
        if (to->pid < 2) return false;
    }
    cluster->count = (int)json_array_size(nodes);
    return true;
}

bool cli_cluster_read(char **argv, cli_cluster_state *cluster) {
    char path[CLI_CLUSTER_PATH + 32];
    json_error_t error;
    *cluster = (cli_cluster_state){0};
    if (!name_folder(argv, cluster->folder)) return false;
    name_state(cluster, path);
    if (access(path, F_OK)) return true;
    if (!is_own_folder(argv, cluster->folder)) return false;
    json_t *state = json_load_file(path, 0, &error);
    bool good = state && take_nodes(cluster, state);
    json_decref(state);
    if (!good) fprintf(stderr, "%s: %s is damaged; remove it\n", argv[0], path);
    return good;
}

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *where) {
    (void)about, (void)type, (void)where;
    (void)remove(path);
    return 0;
}

void cli_cluster_remove(const cli_cluster_state *cluster) {
    nftw(cluster->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

bool cli_cluster_begin(char **argv, const cli_cluster_state *cluster) {
    struct stat about;
    if (!lstat(cluster->folder, &about)) {
        if (!is_own_folder(argv, cluster->folder)) return false;
        cli_cluster_remove(cluster);
    }
    if (mkdir(cluster->folder, 0700)) return cli_failure(argv, cluster->folder), false;
    return true;
}

bool cli_cluster_write(char **argv, const cli_cluster_state *cluster) {
    char path[CLI_CLUSTER_PATH + 32];
    char boot[64];
    json_t *nodes = json_array();
    name_state(cluster, path);
    read_boot(boot);
    for (int i = 0; i < cluster->count; i++) {
        const cli_node *node = &cluster->nodes[i];
        json_array_append_new(nodes, json_pack("{s:I, s:I, s:i, s:i}", "process", (json_int_t)node->pid, "begun",
                                               (json_int_t)node->begun, "cpus", node->cpus, "gpus", node->gpus));
    }
    json_t *state = json_pack("{s:s, s:s, s:o}", "address", cluster->address, "boot", boot, "nodes", nodes);
    bool done = state && !json_dump_file(state, path, JSON_INDENT(2));
    json_decref(state);
    if (!done) cli_failure(argv, path);
    return done;
}

/* --- processes ----------------------------------------------------------------------------------------------------------- */

/* Of /proc/PID/stat, behind the name: the state, the session, when it began. False: there is no such process. */
static bool read_process(pid_t pid, char *state, int *session, long long *begun) {
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file) return false;
    size_t length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = 0;
    const char *behind = strrchr(line, ')');
    return behind &&
           sscanf(behind + 1, " %c %*d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %lld", state,
                  session, begun) == 3;
}

bool cli_node_start(char **words, char **environment, const char *log, cli_node *node) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    char state;
    int session;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    int error = posix_spawnp(&node->pid, words[0], &files, &attributes, words, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (!error && !read_process(node->pid, &state, &session, &node->begun)) {
        kill(node->pid, SIGKILL);
        (void)waitpid(node->pid, NULL, 0);
        error = ESRCH;
    }
    errno = error;
    return !error;
}

bool cli_node_is_alive(const cli_node *node) {
    char state;
    int session;
    long long begun;
    return read_process(node->pid, &state, &session, &begun) && state != 'Z' && begun == node->begun;
}

static void kill_session(const cli_node *of) {
    DIR *all = opendir("/proc");
    for (struct dirent *entry; all && (entry = readdir(all));) {
        char state;
        int session;
        long long begun;
        pid_t pid = (pid_t)atoi(entry->d_name);
        if (pid > 1 && read_process(pid, &state, &session, &begun) && session == of->pid && begun >= of->begun)
            kill(pid, SIGKILL);
    }
    if (all) closedir(all);
}

void cli_node_end(const cli_node *node, double seconds) {
    const struct timespec pause = {.tv_nsec = 50000000};
    char state;
    int session;
    long long begun;
    if (read_process(node->pid, &state, &session, &begun) && begun != node->begun) return;
    if (cli_node_is_alive(node)) kill(node->pid, SIGTERM);
    for (double waited = 0; waited < seconds && cli_node_is_alive(node); waited += 0.05) {
        nanosleep(&pause, NULL);
        (void)waitpid(node->pid, NULL, WNOHANG); /* it may be a child of this process */
    }
    kill_session(node);
}

/* The nodes of a Ray cluster on this machine that `berth cluster` has started: what is known of them lies in a folder of this user's. */
#ifndef BTI_CLI_CLUSTER_NODES_H
#define BTI_CLI_CLUSTER_NODES_H

#include <sys/types.h>

#include "cli/cli.h"

enum { CLI_MOST_NODES = 64, CLI_CLUSTER_PATH = 256 };

typedef struct cli_node {
    pid_t pid;       /* of `ray start --block`, and of its session */
    long long begun; /* when that process began, in ticks since the machine did: another one may get its number later */
    int cpus, gpus;
} cli_node;

typedef struct cli_cluster_state {
    char folder[CLI_CLUSTER_PATH]; /* $XDG_RUNTIME_DIR/berth-cluster, else $TMPDIR or /tmp/berth-cluster-UID */
    char address[64];              /* "10.0.0.1:6379" */
    int count;
    cli_node nodes[CLI_MOST_NODES];
} cli_cluster_state;

/* Reads what the folder says; count 0: no cluster, or one from before the machine was started again. False: printed why. */
bool cli_cluster_read(char **argv, cli_cluster_state *cluster);
/* Makes the folder, which only this user may read, and what earlier clusters left in it goes. False: printed why. */
bool cli_cluster_begin(char **argv, const cli_cluster_state *cluster);
bool cli_cluster_write(char **argv, const cli_cluster_state *cluster);
void cli_cluster_remove(const cli_cluster_state *cluster);
/* FOLDER/nodeI.log */
void cli_node_log(const cli_cluster_state *cluster, int i, char path[CLI_CLUSTER_PATH + 32]);

/* Starts a process in a session of its own, which writes to the file. False: errno. */
bool cli_node_start(char **words, char **environment, const char *log, cli_node *node);
bool cli_node_is_alive(const cli_node *node);
/* Asks the process to end, waits at most so long, and then kills all of its session; nothing if its number is another process's by now. */
void cli_node_end(const cli_node *node, double seconds);

#endif

#include "task/children.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/cgroup.h"
#include "base/log.h"
#include "task/chores.h"
#include "task/ended.h"
#include "task/energy.h"
#include "task/watch.h"
#include "task/worker_pipes.h"
#include "task/identity.h"
#include "task/listen.h"
#include "task/object.h"
#include "task/server.h"
#include "task/worker.h"
#include "task/proc.h"

typedef struct child {
    bti_client *client;
    pid_t pid;
    bti_worker_pipes *errors; /* NULL: it writes where the program writes */
    struct child *next;
    bool beyond; /* this process may not kill it (other user) */
} child;

static bti_state *state;
static child *children;
static uint64_t oom_kills; /* count of the cgroup when it was read last */

/* --- forking --------------------------------------------------------------------------------------------------------- */

/* Lets the kernel end workers first when memory runs out. */
static void offer_for_memory(void) {
    int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    if (write(file, "1000", 4) < 0) errno = 0;
    close(file);
}

static _Noreturn void be_worker(bti_client *client, bti_worker_pipe_ends ends) {
    setpgid(0, 0);
    if (ends.output >= 0) dup2(ends.output, STDOUT_FILENO);
    if (ends.errors >= 0) dup2(ends.errors, STDERR_FILENO);
    uv_library_shutdown(); /* else libuv would close its file numbers in each process that this one forks, though other files have them by then */
    bti_files_keep(state, bti_nest_pipe());
    for (int number = 1; number <= SIGRTMAX; number++) signal(number, SIG_DFL);
    bti_state_watch(NULL, NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    offer_for_memory();
    if (!bti_identity_take(state)) _exit(1);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* after the change of users, which resets it */
    if (getppid() != state->nest_pid) _exit(1);
    while (!*(volatile int32_t *)&client->pid)
        sched_yield(); /* the nest writes the process number; views show it from the first call on */
    if (client->is_mover) bti_mover_run(state, client);
    bti_worker_run(state, client);
}

static void drop_child(child *c) {
    bti_worker_pipes_close(c->errors);
    bti_free(c);
}

static void tell_gone(bti_client *client, const char *why) {
    bti_wakes wakes = {0};
    bti_arena_lock(state->arena);
    if (client->is_mover) {
        bti_mover_gone(state, client, &wakes);
    } else {
        bti_serve_client(state, client, &wakes); /* messages that it sent before its end */
        bti_client_gone(state, client, why, &wakes);
    }
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
}

/* Calls wait until a process can be started. They fail after a while when there is no other process whose end would help. */
static void tell_not_started(bti_client *client, int error) {
    static const uint64_t most_ns = 10000000000u;
    bti_wakes wakes = {0};
    char why[160];
    uint64_t now = bti_now_ns(), since = state->fork_failing_ns;
    snprintf(why, sizeof why, "no worker process could be started: %s", strerror(error));
    if (!since) bti_log("%s; calls wait until one can", why);
    bti_arena_lock(state->arena);
    if (since && now > since + most_ns && !children)
        bti_client_gone(state, client, why, &wakes);
    else
        bti_worker_not_started(state, client, error, now, &wakes);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
}

static void clear_fork_failure(void) {
    bti_arena_lock(state->arena);
    BTI_SET(state->arena, state->fork_failing_ns, 0);
    BTI_SET(state->arena, state->fork_again_ns, 0);
    bti_arena_unlock(state->arena);
}

static bti_client *pop_client_to_start(void) {
    bti_arena_lock(state->arena);
    bti_client *client = state->to_start;
    if (client) BTI_SET(state->arena, state->to_start, client->next_start);
    bti_arena_unlock(state->arena);
    return client;
}

static void fork_child(bti_client *client) {
    bti_worker_pipe_ends ends = {-1, -1};
    int error = ENOMEM;
    child *c = bti_calloc(1, sizeof *c);
    pid_t pid = -1;
    if (c) {
        *c = (child){.client = client, .errors = bti_worker_pipes_open(&client->errors_read, &ends), .next = children};
        children = c;
        pid = c->pid = fork();
        error = errno;
    }
    if (!pid) be_worker(client, ends);
    if (ends.output >= 0) close(ends.output);
    if (ends.errors >= 0) close(ends.errors);
    if (pid > 0) {
        client->pid = pid;
        if (state->fork_failing_ns) clear_fork_failure();
        return;
    }
    if (c) {
        children = c->next;
        drop_child(c);
    }
    tell_not_started(client, error);
}

void bti_children_start(void) {
    for (bti_client *client; (client = pop_client_to_start()) != NULL;) fork_child(client);
}

/* --- the ends of workers ---------------------------------------------------------------------------------------------- */

/* The kernel has ended a process of this cgroup for want of memory since the last call, and this child died of a SIGKILL that the nest did
 * not send. */
static bool was_out_of_memory(const child *c, int status) {
    bti_cgroup group;
    if (c->client->kill || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) return false;
    bti_cgroup_read(&group);
    bool more = group.oom_kills > oom_kills;
    oom_kills = group.oom_kills;
    return more;
}

static void describe_child_end(const child *c, int status, char *text, size_t size) {
    int length;
    if (c->client->out_of_memory)
        length = snprintf(text, size, "its process (%d) was ended by the system, which had no memory left (cgroup)",
                          (int)c->pid);
    else if (c->client->insane)
        length =
            snprintf(text, size,
                     "its process (%d) was ended: it told the scheduler what makes no sense, so its memory is damaged",
                     (int)c->pid);
    else if (WIFSIGNALED(status))
        length = snprintf(text, size, "its process (%d) was ended by signal %d (%s)", (int)c->pid, WTERMSIG(status),
                          strsignal(WTERMSIG(status)));
    else
        length = snprintf(text, size, "its process (%d) ended with exit code %d", (int)c->pid, WEXITSTATUS(status));
    uint64_t mark = c->client->mail ? atomic_load(&c->client->mail->errors_mark) : 0;
    const char *tail = c->errors ? bti_worker_pipes_tail(c->errors, mark) : "";
    if (!*tail || length < 0 || (size_t)length >= size) return;
    snprintf(text + length, size - (size_t)length, "; the end of its standard error: %s", tail);
}

void bti_children_reap(void) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (bti_gpus_watched(pid) || bti_energy_ended(state, pid, status)) continue;
        child **at = &children;
        while (*at && (*at)->pid != pid) at = &(*at)->next;
        if (!*at) {
            bti_listen_ended(pid); /* or a process that a worker left behind */
            continue;
        }
        child *c = *at;
        char why[3000];
        *at = c->next;
        kill(-pid, SIGKILL); /* processes that it forked and left behind */
        if (c->errors) bti_worker_pipes_finish(c->errors);
        c->client->out_of_memory = was_out_of_memory(c, status);
        describe_child_end(c, status, why, sizeof why);
        if (!bti_gpus_watch(state, c->client, why, tell_gone)) tell_gone(c->client, why);
        drop_child(c);
    }
}

/* --- the end --------------------------------------------------------------------------------------------------------- */

void bti_children_kill_wanted(void) {
    bti_arena_lock(state->arena);
    for (child *c = children; c; c = c->next)
        if (c->client->kill) kill(c->pid, SIGKILL);
    bti_arena_unlock(state->arena);
}

void bti_children_kill(void) {
    for (child *c = children; c; c = c->next) {
        kill(-c->pid, SIGKILL); /* with what it forked */
        c->beyond = kill(c->pid, SIGKILL) != 0 && errno == EPERM;
    }
}

/* Processes that workers left behind: the nest has adopted them. */
static void kill_strays(void) {
    DIR *processes = opendir("/proc");
    bti_proc stat;
    for (struct dirent *row; processes && (row = readdir(processes)) != NULL;) {
        pid_t pid = atoi(row->d_name);
        if (pid > 0 && bti_proc_stat(pid, &stat) && stat.parent == getpid()) kill(pid, SIGKILL);
    }
    if (processes) closedir(processes);
}

void bti_strays_end(void) {
    for (int tries = 0; tries < 2000; tries++) { /* a process of another user cannot be killed */
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0) break;
        if (pid > 0) continue;
        kill_strays();
        usleep(1000);
    }
}

void bti_children_end(void) {
    bti_children_kill();
    for (child *c = children; c; c = c->next)
        if (!c->beyond) waitpid(c->pid, NULL, 0); /* the kernel kills the others when this process ends */
    bti_strays_end();
}

void bti_children_begin(bti_state *shared) {
    bti_cgroup group;
    bti_cgroup_read(&group);
    oom_kills = group.oom_kills;
    state = shared;
}

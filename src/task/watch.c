#include "task/watch.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/log.h"
#include "device/cards.h"
#include "device/trial.h"
#include "task/gpu_use.h"
#include "task/object.h"
#include "task/process.h"

typedef struct watcher {
    pid_t pid;
    bti_client *client;
    bti_gone *gone;
    char *why;
    uint64_t until_ns; /* by then it has ended by itself, unless it is stopped */
    struct watcher *next;
} watcher;

static watcher *watchers;
static const uint64_t spare_ns = 3000000000u;

/* --- in the process that looks ------------------------------------------------------------------------------------------ */

static void set_up_watcher(const bti_state *state) {
    bti_trial_begin_child(-1);
    if (getppid() != state->nest_pid) _exit(1);
    prctl(PR_SET_NAME, "berth watch");
    signal(SIGCHLD, SIG_DFL);
    signal(SIGALRM, SIG_DFL);
}

enum { MOST_USERS = 512, MOST_TOLD = 64 };

/* Processes that were reported in the log, once each; shared with the watching processes. */
static struct told { int32_t count, pids[MOST_TOLD]; } * told;

static void make_told(void) {
    if (told) return;
    void *memory = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) told = memory;
}

static void warn_once(const bti_state *state, const bti_task_record *task, int holder, int user) {
    if (!told || told->count >= MOST_TOLD) return;
    for (int i = 0; i < told->count; i++)
        if (told->pids[i] == user) return;
    if (bti_gpus_warn_of_user(state, task, holder, user)) told->pids[told->count++] = user;
}

/* Whether the process still holds memory on its GPUs; false also where that cannot be found out. */
static bool holds_gpu_memory(const bti_state *state, const bti_task_record *task, int pid) {
    static int users[MOST_USERS];
    int count;
    bool held = false;
    if (bti_cards_users(users, MOST_USERS, &count) != BT_OK) return false;
    for (int i = 0; i < count; i++) {
        held |= users[i] == pid;
        warn_once(state, task, pid, users[i]);
    }
    return held;
}

static _Noreturn void watch_memory_of(const bti_state *state, const bti_task_record *task, int pid) {
    double seconds = bti_flag_float(BTI_FLAG_gpu_free_seconds);
    uint64_t until = bti_now_ns() + (uint64_t)(seconds * 1e9);
    struct timespec pause = {0, 1000000};
    bool held = true;
    set_up_watcher(state);
    bti_gpus_show(state, task);
    alarm((unsigned)seconds + 2); /* ends this process if the driver does not answer */
    while ((held = holds_gpu_memory(state, task, pid)) && bti_now_ns() < until) {
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 50000000) pause.tv_nsec *= 2;
    }
    if (held)
        bti_log("process %d has ended but still holds memory of CUDA_VISIBLE_DEVICES=%s after %g seconds; its GPUs are "
                "handed on "
                "(flag gpu_free_seconds)",
                pid, getenv("CUDA_VISIBLE_DEVICES"), seconds);
    _exit(0);
}

/* --- in the nest ---------------------------------------------------------------------------------------------------------- */

static void free_watcher(watcher *w) {
    if (w) bti_free(w->why);
    bti_free(w);
}

bool bti_gpus_watch(bti_state *state, bti_client *client, const char *why, bti_gone *gone) {
    if (!state->gpu_users_listed || !client->pid) return false;
    const bti_task_record *task = bti_gpus_holder(client);
    if (!task || !task->gpus) return false;
    make_told();
    watcher *w = bti_calloc(1, sizeof *w);
    if (!w || !(w->why = bti_strdup(why)) || (w->pid = fork()) < 0) return free_watcher(w), false;
    if (!w->pid) watch_memory_of(state, task, client->pid);
    w->until_ns = bti_now_ns() + (uint64_t)(bti_flag_float(BTI_FLAG_gpu_free_seconds) * 1e9) + spare_ns;
    w->client = client;
    w->gone = gone;
    w->next = watchers;
    watchers = w;
    return true;
}

bool bti_gpus_watched(pid_t pid) {
    watcher **at = &watchers;
    while (*at && (*at)->pid != pid) at = &(*at)->next;
    watcher *w = *at;
    if (!w) return false;
    *at = w->next;
    w->gone(w->client, w->why);
    free_watcher(w);
    return true;
}

void bti_gpus_watch_check(void) {
    uint64_t now = watchers ? bti_now_ns() : 0;
    for (const watcher *w = watchers; w; w = w->next)
        if (now > w->until_ns) kill(w->pid, SIGKILL);
}

void bti_gpus_watch_end(void) {
    for (watcher *w = watchers; w; w = w->next) kill(w->pid, SIGKILL);
}

bool bti_gpus_are_watched(void) { return watchers != NULL; }

#include "task/keeper.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "task/begin.h"
#include "task/nest.h"
#include "task/process.h"
#include "task/proc.h"

enum { LONG_NS = 1000000000 };

static pid_t nest_pid, keeper_pid; /* copies: the shared memory may be damaged; keeper_pid 0: there is no keeper */
static unsigned long long nest_began;

/* --- the lock that tells whether the nest lives ------------------------------------------------------------------------------------------------ */

static bt_status make_life_lock(pthread_mutex_t *lock) {
    pthread_mutexattr_t attributes;
    int error = pthread_mutexattr_init(&attributes);
    if (error) return bti_fail(BT_INTERNAL, "no lock between processes: %s", strerror(error));
    error = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    if (!error) error = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    if (!error) error = pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return error ? bti_fail(BT_INTERNAL, "no lock between processes: %s", strerror(error)) : BT_OK;
}

/* --- the keeper --------------------------------------------------------------------------------------------------------- */

static _Noreturn void be_keeper(bti_state *state, int pipe) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    state->keeper_pid = getpid();
    pid_t nest = fork();
    if (!nest) bti_nest_run(state, pipe);
    if (nest < 0) {
        state->nest_pid = -errno;
        _exit(1);
    }
    setpgid(0, 0);
    prctl(PR_SET_NAME, "berth keeper");
    for (int file = 0; file < 3; file++) close(file);
    bti_files_keep(NULL, -1);
    bti_arena_close(state->arena);
    while (waitpid(nest, NULL, 0) < 0 && errno == EINTR) continue;
    _exit(0);
}

/* --- the program -------------------------------------------------------------------------------------------------------- */

static void sleep_ns(long ns) { nanosleep(&(struct timespec){.tv_nsec = ns}, NULL); }

/* When a process began; 0: it has ended. A zombie counts as ended, since its adoptive parent may never reap it. */
static unsigned long long start_time_of(pid_t pid) {
    bti_proc stat;
    return bti_proc_stat(pid, &stat) && stat.state != 'Z' && stat.state != 'X' ? stat.began : 0;
}

/* The keeper is reaped here. Without a keeper /proc tells whether the nest has ended. */
static bool keeper_ended(void) {
    return keeper_pid ? waitpid(keeper_pid, NULL, WNOHANG | __WCLONE) != 0 : start_time_of(nest_pid) != nest_began;
}

static bt_status await_nest(bti_state *state) {
    volatile int32_t *pid = &state->nest_pid;
    for (int32_t now; (now = *pid) <= 0;) {
        bool ended = keeper_ended();
        now = *pid;
        if (now < 0) return bti_files_refuse("no process for the runtime", -now);
        if (ended && !now) return bti_fail(BT_RESOURCE_EXHAUSTED, "no process for the runtime: it ended");
        syscall(SYS_futex, pid, FUTEX_WAIT, now, &(struct timespec){.tv_nsec = 20000000}, NULL, 0);
    }
    nest_pid = *pid;
    return BT_OK;
}

bt_status bti_nest_start(bti_state *state) {
    int ends[2];
    BTI_TRY(make_life_lock(&state->nest_lives));
    int made = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
    if (bti_ends_above_standard(made, ends) != 0) return bti_files_refuse("no files for the runtime", errno);
    fflush(NULL);
    pid_t pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL); /* no signal when it ends */
    int error = errno;
    if (!pid) {
        close(ends[1]);
        be_keeper(state, ends[0]);
    }
    close(ends[0]);
    bt_status status = BT_OK;
    if (pid < 0)
        status = bti_fail(BT_RESOURCE_EXHAUSTED, "no process for the runtime: %s", strerror(error));
    else
        keeper_pid = pid, status = await_nest(state);
    if (status != BT_OK) return close(ends[1]), status;
    bti_nest_reach(nest_pid, ends[1]);
    return BT_OK;
}

bt_status bti_nest_start_again(bti_state *state, int memory) {
    int end;
    BTI_TRY(make_life_lock(&state->nest_lives));
    keeper_pid = 0;
    BTI_TRY(bti_nest_begin_again(state, memory, &end));
    nest_pid = state->nest_pid;
    nest_began = start_time_of(nest_pid);
    bti_nest_reach(nest_pid, end);
    return BT_OK;
}

/* Calls the nest repeatedly: the nest or the keeper may be stopped, or the memory damaged. */
void bti_nest_wait(void) {
    uint64_t began = bti_now_ns();
    for (long pause = 20000; !keeper_ended(); pause = pause < 2000000 ? pause * 2 : pause) {
        bti_nest_call();
        sleep_ns(pause);
        if (bti_now_ns() - began < LONG_NS) continue;
        kill(nest_pid, SIGCONT);
        if (keeper_pid) kill(keeper_pid, SIGCONT);
        if (bti_state_fault(true) != BT_OK) kill(nest_pid, SIGKILL);
    }
}

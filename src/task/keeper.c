/* The program's side of the nest, and the process between them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "task/nest.h"
#include "task/queue.h"
#include "task/proc.h"

enum { LONG_NS = 1000000000 };

/* --- the lock that tells ------------------------------------------------------------------------------------------------ */

static bt_status make_lock(pthread_mutex_t *lock) {
    pthread_mutexattr_t attributes;
    int error = pthread_mutexattr_init(&attributes);
    if (error) return bti_fail(BT_INTERNAL, "no lock between processes: %s", strerror(error));
    error = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    if (!error) error = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    if (!error) error = pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return error ? bti_fail(BT_INTERNAL, "no lock between processes: %s", strerror(error)) : BT_OK;
}

bool bti_nest_lives(bti_state *state) {
    int error = pthread_mutex_trylock(&state->nest_lives);
    if (error == EBUSY) return true;
    if (!error || error == EOWNERDEAD) pthread_mutex_unlock(&state->nest_lives); /* cannot be recovered from now on */
    return false;
}

/* --- the keeper --------------------------------------------------------------------------------------------------------- */

static _Noreturn void keep(bti_state *state, int pipe) {
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

/* --- files that the program may have closed ------------------------------------------------------------------------------ */

bool bti_file_know(bti_file_identity *file, int number) {
    struct stat now;
    if (fstat(number, &now) != 0) return false;
    *file = (bti_file_identity){number, now.st_dev, now.st_ino};
    return true;
}

bool bti_file_is_same(const bti_file_identity *file) {
    struct stat now;
    return file->number >= 0 && fstat(file->number, &now) == 0 && now.st_dev == file->device &&
           now.st_ino == file->inode;
}

/* No number of a file is larger: valgrind closes them one by one. */
static unsigned largest_file(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max == RLIM_INFINITY) return ~0u;
    return limit.rlim_max < 1 << 20 ? 1 << 20 /* the limit may have been higher */ : (unsigned)limit.rlim_max;
}

/* The first file from `from` on that is kept; INT_MAX: none. */
static int next_kept(const bti_state *kept, int from, int pipe) {
    int next = pipe >= from ? pipe : INT_MAX;
    if (!kept) return next;
    if (kept->spill_file >= from && kept->spill_file < next) next = kept->spill_file;
    for (int i = 0; i < kept->lease_file_count; i++)
        if (kept->lease_files[i] >= from && kept->lease_files[i] < next) next = kept->lease_files[i];
    return next;
}

void bti_files_keep(const bti_state *kept, int pipe) {
    int from = 3;
    for (int next; (next = next_kept(kept, from, pipe)) < INT_MAX; from = next + 1)
        if (next > from) close_range((unsigned)from, (unsigned)next - 1, 0);
    close_range((unsigned)from, largest_file(), 0);
}

/* --- calling the nest ----------------------------------------------------------------------------------------------------- */

static bti_file_identity program_pipe = {.number = -1}; /* in the program: closes with it */
static bti_file_identity worker_pipe = {.number = -1};  /* in the nest and its workers */
static int call_file = -1;
static unsigned long long nest_began;
static pid_t nest_pid, keeper_pid; /* not those of the shared memory, which may be damaged */

bt_status bti_nest_call_open(void) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return bti_fail(BT_RESOURCE_EXHAUSTED, "no files for the runtime");
    call_file = ends[0];
    bti_file_know(&worker_pipe, ends[1]);
    return BT_OK;
}

void bti_nest_is_here(void) { nest_pid = getpid(); }

int bti_nest_call_file(void) { return call_file; }
int bti_nest_worker_file(void) { return worker_pipe.number; }

/* A process that has other users than the nest may not send it signals, and may have closed its files: then the nest looks by itself within
 * a second. */
void bti_nest_call(void) {
    const bti_file_identity *pipe = bti_process_now.me && bti_process_now.me->is_program ? &program_pipe : &worker_pipe;
    if (!nest_pid || kill(nest_pid, BTI_NEST_SIGNAL) == 0 || errno != EPERM || !bti_file_is_same(pipe)) return;
    if (send(pipe->number, "", 1, MSG_NOSIGNAL) < 0) errno = 0; /* full: it will look */
}

/* --- the program -------------------------------------------------------------------------------------------------------- */

static void pause_ns(long ns) { nanosleep(&(struct timespec){.tv_nsec = ns}, NULL); }

/* When a process began; 0: it has ended. A zombie has ended: the process that adopted it may not reap it. */
static unsigned long long began_at(pid_t pid) {
    bti_proc stat;
    return bti_proc_stat(pid, &stat) && stat.state != 'Z' && stat.state != 'X' ? stat.began : 0;
}

/* The keeper is reaped here. Without a keeper /proc tells whether the nest has ended. */
static bool keeper_ended(void) {
    return keeper_pid ? waitpid(keeper_pid, NULL, WNOHANG | __WCLONE) != 0 : began_at(nest_pid) != nest_began;
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
    BTI_TRY(make_lock(&state->nest_lives));
    int made = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
    if (bti_ends_above_standard(made, ends) != 0) return bti_files_refuse("no files for the runtime", errno);
    fflush(NULL);
    pid_t pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL); /* no signal when it ends */
    int error = errno;
    if (!pid) {
        close(ends[1]);
        keep(state, ends[0]);
    }
    close(ends[0]);
    bt_status status = BT_OK;
    if (pid < 0)
        status = bti_fail(BT_RESOURCE_EXHAUSTED, "no process for the runtime: %s", strerror(error));
    else
        keeper_pid = pid, status = await_nest(state);
    if (status != BT_OK) return close(ends[1]), status;
    bti_file_know(&program_pipe, ends[1]);
    return BT_OK;
}

bt_status bti_nest_start_again(bti_state *state, int memory) {
    int end;
    BTI_TRY(make_lock(&state->nest_lives));
    keeper_pid = 0;
    BTI_TRY(bti_nest_begin_again(state, memory, &end));
    nest_pid = state->nest_pid;
    nest_began = began_at(nest_pid);
    bti_file_know(&program_pipe, end);
    return BT_OK;
}

void bti_nest_leave(void) {
    if (bti_file_is_same(&program_pipe)) close(program_pipe.number);
    program_pipe.number = -1;
    nest_pid = keeper_pid = 0;
}

bool bti_program_has_memory(const bti_state *state) {
    char path[64], line[512], start[40];
    bool has = false, begins = true;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)state->program->pid);
    int length = snprintf(start, sizeof start, "%" PRIxPTR "-", (uintptr_t)state->arena);
    FILE *maps = fopen(path, "re");
    while (maps && !has && fgets(line, sizeof line, maps)) {
        has = begins && !strncmp(line, start, (size_t)length) && strstr(line, "memfd:berth");
        begins = strchr(line, '\n');
    }
    if (maps) fclose(maps);
    return has;
}

/* Calls repeatedly: the nest or the keeper may be stopped, or the memory damaged. */
void bti_nest_wait(void) {
    uint64_t began = bti_now_ns();
    for (long pause = 20000; !keeper_ended(); pause = pause < 2000000 ? pause * 2 : pause) {
        bti_nest_call();
        pause_ns(pause);
        if (bti_now_ns() - began < LONG_NS) continue;
        kill(nest_pid, SIGCONT);
        if (keeper_pid) kill(keeper_pid, SIGCONT);
        if (bti_state_fault(true) != BT_OK) kill(nest_pid, SIGKILL);
    }
}

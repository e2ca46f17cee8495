/* The parent of all workers: a process with one thread and no open device, so that the processes it forks are clean. Its event loop. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uv.h>

#include "task/children.h"
#include "task/chores.h"
#include "task/deadlock.h"
#include "task/dispatch.h"
#include "task/ended.h"
#include "task/energy.h"
#include "task/watch.h"
#include "task/worker_pipes.h"
#include "task/given.h"
#include "task/listen.h"
#include "task/nest.h"
#include "task/proc.h"
#include "task/process.h"
#include "task/server.h"
#include "task/stopped.h"

static bti_state *state;
static uv_loop_t loop;
static uv_timer_t deadline;
static int program_pipe = -1, program_process = -1;
static pid_t keeper;     /* 0: there is none */
static bti_arena *arena; /* a copy: the state may be damaged */

/* Signals that a terminal or a service manager sends to all of its processes. The nest ignores them: it ends with the program. */
static const int ignored[] = {SIGPIPE, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU};

/* --- the end --------------------------------------------------------------------------------------------------------- */

static _Noreturn void end_nest(void) {
    bti_gpus_watch_end();
    bti_energy_end();
    bti_listen_end();
    bti_children_end();
    bti_worker_pipes_end();
    if (keeper) kill(keeper, SIGCONT); /* it may be stopped, and the program waits until it has ended */
    pthread_mutex_unlock(&state->nest_lives);
    bti_arena_close(arena); /* valgrind would look for pointers in all of it */
    _exit(0);
}

/* --- looking --------------------------------------------------------------------------------------------------------- */

static void nest_look(void);

static void on_deadline(uv_timer_t *handle) {
    (void)handle;
    nest_look();
}

enum { LOOK_MS = 300, SOON_MS = 30 }; /* between two checks for deadlocks and for mailboxes whose bell was lost */

static uv_timer_t regular, again;
static int idle_looks;

/* After a deadlock was reported the next check comes soon: there may be more of them. */
static void check_deadlocks(uv_timer_t *handle) {
    if (bti_deadlock_look(state, bti_gpus_are_watched()))
        uv_timer_start(handle, check_deadlocks, SOON_MS, SOON_MS);
    else if (uv_is_active((uv_handle_t *)handle) && ++idle_looks > 2)
        idle_looks = 0, uv_timer_stop(handle);
}

static void on_regular(uv_timer_t *handle) {
    bti_wakes wakes = {0};
    bti_stopped_check(state);
    bti_gpus_watch_check();
    bti_energy_check(state);
    bti_arena_lock(state->arena);
    bti_serve_all(state, &wakes);
    if (bti_given_look(state, &wakes)) bti_dispatch(state, &wakes);
    state->nest_looks = state->worker_count > 0 || state->program->waiters || bti_mover_works(state);
    bool goes_on = state->nest_looks;
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
    check_deadlocks(&again);
    if (!goes_on) uv_timer_stop(handle);
}

static uv_timer_t later;
static void on_later(uv_timer_t *handle);

/* Handles messages of workers when no thread of the program does. A program that makes calls reads the mailboxes while it does so; then
 * nest_rung stays set, so that workers do not ring, and the nest checks each millisecond whether the program still reads them. */
static void read_mailboxes(void) {
    static uint64_t seen;
    bti_wakes wakes = {0};
    bti_arena_lock(state->arena);
    bool waits = state->serves != seen && atomic_load(&state->bells->nest_rung);
    if (!waits) atomic_store(&state->bells->nest_rung, 0);
    bti_serve(state, &wakes);
    seen = state->serves;
    state->nest_looks = true;
    bti_arena_unlock(state->arena);
    wakes.nest = false; /* this is the nest */
    bti_wake(state, &wakes);
    if (waits) uv_timer_start(&later, on_later, 1, 0);
    if (!uv_is_active((uv_handle_t *)&regular)) uv_timer_start(&regular, on_regular, LOOK_MS, LOOK_MS);
}

static void check_deadlines(void) {
    bti_wakes wakes = {0};
    bti_arena_lock(state->arena);
    uint64_t now = bti_now_ns(), next = bti_deadlines(state, now, &wakes);
    uint64_t due = bti_dispatch_due(state, now, &wakes);
    if (due && (!next || due < next)) next = due;
    bti_arena_unlock(state->arena);
    bool starts = wakes.nest;
    wakes.nest = false; /* this is the nest */
    bti_wake(state, &wakes);
    if (starts) bti_children_start();
    bti_children_kill_wanted();
    if (next) uv_timer_start(&deadline, on_deadline, next > now ? (next - now) / 1000000 + 1 : 0, 0);
}

/* What every event does: another process called, or a child has ended, which may have had no time to call. */
static void nest_look(void) {
    if (!bti_arena_check(arena) || atomic_load(&state->closing) || (keeper && getppid() != keeper)) end_nest();
    bti_listen_user(atomic_load(&state->program_user));
    bti_children_reap();
    read_mailboxes();
    bti_children_start();
    bti_energy_check(state);
    check_deadlines();
}

static void on_later(uv_timer_t *handle) {
    (void)handle;
    nest_look();
}

/* --- what wakes it --------------------------------------------------------------------------------------------------- */

/* Signals are read from a signalfd. Handlers of libuv interrupt each other under sanitizers. */
static int signals = -1;

static void on_signals(uv_poll_t *handle, int status, int events) {
    (void)handle;
    (void)status;
    (void)events;
    struct signalfd_siginfo some[16];
    while (read(signals, some, sizeof some) > 0) continue;
    nest_look();
}

static int watch_signals(void) {
    static uv_poll_t poll;
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, BTI_NEST_SIGNAL);
    sigprocmask(SIG_SETMASK, &watched, NULL);
    signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    return signals < 0 || uv_poll_init(&loop, &poll, signals) || uv_poll_start(&poll, UV_READABLE, on_signals) ? -1 : 0;
}

/* False: it has become another program (exec). */
static bool program_has_memory(void) { return bti_proc_maps(state->program->pid, arena, "memfd:berth"); }

/* The program has ended. */
static void on_program(uv_poll_t *handle, int status, int events) {
    (void)handle;
    (void)status;
    (void)events;
    end_nest();
}

static int calls[2] = {-1, -1}; /* a socket pair by which processes that may not send signals to the nest call it */

static void on_call(uv_poll_t *handle, int status, int events) {
    char bytes[64];
    (void)handle;
    (void)status;
    (void)events;
    while (read(calls[0], bytes, sizeof bytes) > 0) continue;
    nest_look();
}

static void on_heartbeat(uv_timer_t *handle) {
    (void)handle;
    nest_look();
}

static int watch_calls(void) {
    static uv_poll_t poll;
    static uv_timer_t heartbeat;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, calls) ||
        uv_poll_init(&loop, &poll, calls[0]) || uv_poll_start(&poll, UV_READABLE, on_call) ||
        uv_timer_init(&loop, &heartbeat))
        return -1;
    return state->identity_may_change ? uv_timer_start(&heartbeat, on_heartbeat, 1000, 1000) : 0;
}

static uv_timer_t becoming;

static void check_program_memory(uv_timer_t *handle) {
    (void)handle;
    if (!program_has_memory()) end_nest();
}

/* The pipe closes when the program ends, when it becomes another program (exec), and when it closes files that it does not know. */
static void on_program_pipe(uv_poll_t *handle, int status, int events) {
    char bytes[64];
    ssize_t length = read(program_pipe, bytes, sizeof bytes);
    (void)status;
    (void)events;
    if (length > 0) {
        nest_look();
        return;
    }
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (program_process < 0 || !program_has_memory()) end_nest();
    uv_poll_stop(handle);
    uv_timer_start(&becoming, check_program_memory, 1000, 1000);
}

/* The pipe alone would report the end of the program late: its children may still have it open. */
static int watch_program(int pipe) {
    static uv_poll_t by_pipe, by_process;
    int process = (int)syscall(SYS_pidfd_open, state->program->pid, 0);
    if (process < 0 && errno == ESRCH) return -1;
    program_pipe = pipe;
    program_process = process;
    if (process >= 0 &&
        (uv_poll_init(&loop, &by_process, process) || uv_poll_start(&by_process, UV_READABLE, on_program)))
        return -1;
    return uv_timer_init(&loop, &becoming) || uv_poll_init(&loop, &by_pipe, pipe) ||
                   uv_poll_start(&by_pipe, UV_READABLE | UV_DISCONNECT, on_program_pipe)
               ? -1
               : 0;
}

/* --- the beginning --------------------------------------------------------------------------------------------------- */

/* Of the program's files the nest keeps standard output and error, the pipe, the spill file and the lock files of leases. */
static void leave_program(int pipe) {
    for (int number = 1; number <= SIGRTMAX; number++) signal(number, SIG_DFL); /* the program's handlers are its own */
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) signal(ignored[i], SIG_IGN);
    bti_files_keep(state, pipe);
    int nothing = open("/dev/null", O_RDWR);
    for (int file = 0; file < 3; file++) /* workers read nothing */
        if (!file || fcntl(file, F_GETFD) < 0) dup2(nothing, file);
    if (nothing > 2) close(nothing);
}

/* libuv aborts when it can open no files. */
static bool can_open_files(int pipe) {
    enum { NEEDED = 12 };
    int files[NEEDED], count = 0;
    while (count < NEEDED && (files[count] = fcntl(pipe, F_DUPFD_CLOEXEC, 3)) >= 0) count++;
    bool can = count == NEEDED;
    int error = errno;
    while (count) close(files[--count]);
    return errno = error, can;
}

/* While this process waits for the lock: its owner may have been stopped or have ended, or the lock may be damaged. */
static void while_waiting_for_lock(void) {
    struct pollfd files[] = {{.fd = program_process, .events = POLLIN}, {.fd = program_pipe, .events = 0}};
    bool gone = program_process >= 0 ? poll(files, 1, 0) > 0 : poll(files + 1, 1, 0) > 0;
    if (gone || bti_arena_is_broken(arena) || atomic_load(&state->closing)) end_nest();
    bti_stopped_end_owner(arena);
}

/* Damaged records have made the nest fault: it ends all processes of the runtime. */
static void on_fault(int number) {
    (void)number;
    bti_arena_break(arena, BTI_FAULT_NEST);
    bti_children_kill();
    alarm(3); /* what follows may need locks that this thread holds */
    bti_strays_end();
    _exit(1);
}

static void watch_nest_memory(void) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) signal(faults[i], on_fault);
    bti_state_watch(state, while_waiting_for_lock);
}

/* The program waits until the nest's process number is there. */
static void announce_nest(void) {
    bti_nest_reach(getpid(), calls[1]);
    *(volatile int32_t *)&state->nest_pid = getpid();
    syscall(SYS_futex, &state->nest_pid, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void bti_nest_run(bti_state *shared, int pipe) {
    state = shared;
    arena = shared->arena;
    keeper = shared->keeper_pid;
    bti_calls_forget();
    prctl(PR_SET_NAME, "berth nest");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, BTI_NEST_SIGNAL);
    if (pthread_mutex_lock(&state->nest_lives) != 0) _exit(1);
    setpgid(0, 0);
    leave_program(pipe);
    errno = 0;
    if (!can_open_files(pipe) || uv_loop_init(&loop) || !bti_worker_pipes_begin(&loop, state->prefix_output) ||
        uv_timer_init(&loop, &deadline) || uv_timer_init(&loop, &regular) || uv_timer_init(&loop, &again) ||
        uv_timer_init(&loop, &later) || watch_signals() || watch_calls() || watch_program(pipe)) {
        state->nest_pid = -(errno ? errno : EAGAIN); /* the program tells why */
        _exit(1);
    }
    watch_nest_memory();
    bti_children_begin(state);
    bti_listen_start(state, &loop);
    announce_nest();
    nest_look(); /* handles what was asked before the nest listened */
    uv_run(&loop, UV_RUN_DEFAULT);
    end_nest();
}

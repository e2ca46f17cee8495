/* The parent of all workers: a process of one thread that opened nothing, so that what it forks is clean. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "task/gpus.h"
#include "task/listen.h"
#include "task/process.h"

enum { TAIL = 2048 }; /* bytes of a worker's standard error that are kept for what is said of its end */

typedef struct child {
    bti_client *client;
    pid_t pid;
    uv_pipe_t errors;
    bool has_pipe;
    char tail[TAIL];
    size_t length;
    struct child *next;
} child;

static bti_state *state;
static child *children;
static uv_loop_t loop;
static uv_timer_t deadline;

/* --- their standard error -------------------------------------------------------------------------------------------- */

static void give_room(uv_handle_t *handle, size_t wanted, uv_buf_t *buffer) {
    (void)handle;
    (void)wanted;
    static char room[65536];
    *buffer = uv_buf_init(room, sizeof room);
}

static void keep_tail(child *c, const char *text, size_t length) {
    if (length > TAIL) text += length - TAIL, length = TAIL;
    size_t kept = c->length + length > TAIL ? TAIL - length : c->length;
    memmove(c->tail, c->tail + c->length - kept, kept);
    memcpy(c->tail + kept, text, length);
    c->length = kept + length;
}

static void pass_on(const char *text, size_t length) {
    while (length) {
        ssize_t written = write(STDERR_FILENO, text, length);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        text += written;
        length -= (size_t)written;
    }
}

static void read_errors(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer) {
    child *c = stream->data;
    if (length < 0) uv_read_stop(stream);
    if (length <= 0) return;
    keep_tail(c, buffer->base, (size_t)length);
    pass_on(buffer->base, (size_t)length);
}

/* --- forking --------------------------------------------------------------------------------------------------------- */

/* Of the files past the standard ones only these two. */
static void keep_open(int a, int b) {
    unsigned low = (unsigned)(a < b ? a : b), high = (unsigned)(a < b ? b : a);
    if ((int)low < 3) low = high;
    if (low > 3) close_range(3, low - 1, 0);
    if (high > low + 1) close_range(low + 1, high - 1, 0);
    close_range(high + 1, ~0u, 0);
}

static _Noreturn void be_worker(bti_client *client, int errors) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != state->nest_pid) _exit(1);
    setpgid(0, 0);
    if (errors >= 0) dup2(errors, STDERR_FILENO);
    keep_open(state->nest_event, state->spill_file);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    client->pid = getpid();
    bti_worker_run(state, client);
}

static child *new_child(bti_client *client, int *errors) {
    int ends[2] = {-1, -1};
    child *c = bti_calloc(1, sizeof *c);
    *errors = -1;
    if (!c) return NULL;
    c->client = client;
    if (pipe2(ends, O_CLOEXEC) == 0) { /* without one it writes where the program writes */
        uv_pipe_init(&loop, &c->errors, 0);
        uv_pipe_open(&c->errors, ends[0]);
        c->errors.data = c;
        c->has_pipe = uv_read_start((uv_stream_t *)&c->errors, give_room, read_errors) == 0;
        *errors = ends[1];
    }
    return c;
}

static void free_child(uv_handle_t *handle) { bti_free(handle->data); }

static void drop_child(child *c) {
    if (c->has_pipe)
        uv_close((uv_handle_t *)&c->errors, free_child);
    else
        bti_free(c);
}

static void tell_gone(bti_client *client, const char *why) {
    bti_wakes wakes = {0};
    bti_arena_lock(state->arena);
    bti_client_gone(state, client, why, &wakes);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
}

static bti_client *next_to_start(void) {
    bti_arena_lock(state->arena);
    bti_client *client = state->to_start;
    if (client) BTI_SET(state->arena, state->to_start, client->next_start);
    bti_arena_unlock(state->arena);
    return client;
}

static void start_all(void) {
    for (bti_client *client; (client = next_to_start()) != NULL;) {
        int errors;
        child *c = new_child(client, &errors);
        pid_t pid = c ? fork() : -1;
        if (!pid) be_worker(client, errors);
        if (errors >= 0) close(errors);
        if (pid < 0) {
            char why[160];
            snprintf(why, sizeof why, "no worker process could be started: %s",
                     c ? strerror(errno) : "out of host memory");
            if (c) drop_child(c);
            tell_gone(client, why);
            continue;
        }
        c->pid = pid;
        c->next = children;
        children = c;
    }
}

/* --- the ends of workers ---------------------------------------------------------------------------------------------- */

static void describe_end(const child *c, int status, char *text, size_t size) {
    int length;
    if (WIFSIGNALED(status))
        length = snprintf(text, size, "its process (%d) was ended by signal %d (%s)", (int)c->pid, WTERMSIG(status),
                          strsignal(WTERMSIG(status)));
    else
        length = snprintf(text, size, "its process (%d) ended with exit code %d", (int)c->pid, WEXITSTATUS(status));
    if (!c->length || length < 0 || (size_t)length >= size) return;
    snprintf(text + length, size - (size_t)length, "; the end of its standard error: %.*s", (int)c->length, c->tail);
}

/* What is still in the pipe of one that has died. */
static void read_rest(child *c) {
    char text[4096];
    uv_os_fd_t file;
    if (!c->has_pipe || uv_fileno((uv_handle_t *)&c->errors, &file) != 0) return;
    for (ssize_t length; (length = read(file, text, sizeof text)) > 0;) {
        keep_tail(c, text, (size_t)length);
        pass_on(text, (size_t)length);
    }
}

static void on_child(uv_signal_t *handle, int number) {
    (void)handle;
    (void)number;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (bti_gpus_watched(pid)) continue;
        child **at = &children;
        while (*at && (*at)->pid != pid) at = &(*at)->next;
        if (!*at) {
            bti_listen_ended(pid); /* or what a worker left behind */
            continue;
        }
        child *c = *at;
        char why[TAIL + 256];
        *at = c->next;
        kill(-pid, SIGKILL); /* what it forked and left */
        read_rest(c);
        describe_end(c, status, why, sizeof why);
        if (!bti_gpus_watch(state, c->client, why, tell_gone)) tell_gone(c->client, why);
        drop_child(c);
    }
}

/* --- the end --------------------------------------------------------------------------------------------------------- */

static _Noreturn void end(void) {
    for (child *c = children; c; c = c->next) kill(-c->pid, SIGKILL);
    for (child *c = children; c; c = c->next) kill(c->pid, SIGKILL);
    bti_gpus_watch_end();
    bti_listen_end();
    while (waitpid(-1, NULL, 0) > 0) continue; /* as its subreaper, for what they left as well */
    _exit(0);
}

/* Those that somebody wants ended, and calls past their time. */
static void kill_wanted(void) {
    bti_arena_lock(state->arena);
    for (child *c = children; c; c = c->next)
        if (c->client->kill) kill(c->pid, SIGKILL);
    bti_arena_unlock(state->arena);
}

static void look_at_deadlines(void);

static void on_deadline(uv_timer_t *handle) {
    (void)handle;
    look_at_deadlines();
}

static void look_at_deadlines(void) {
    bti_wakes wakes = {0};
    bti_arena_lock(state->arena);
    uint64_t now = bti_now_ns(), next = bti_deadlines(state, now, &wakes);
    bti_arena_unlock(state->arena);
    wakes.nest = false;
    bti_wake(state, &wakes);
    kill_wanted();
    if (next) uv_timer_start(&deadline, on_deadline, (next - now) / 1000000 + 1, 0);
}

static void on_event(uv_poll_t *handle, int status, int events) {
    (void)handle;
    (void)status;
    (void)events;
    uint64_t count;
    if (read(state->nest_event, &count, sizeof count) < 0 && errno != EAGAIN) return;
    if (atomic_load(&state->closing)) end();
    start_all();
    look_at_deadlines();
}

/* The program is gone, however it went. */
static void on_program(uv_poll_t *handle, int status, int events) {
    (void)handle;
    (void)status;
    (void)events;
    end();
}

void bti_nest_run(bti_state *shared, int program) {
    static uv_poll_t event, gone;
    static uv_signal_t child_signal;
    state = shared;
    state->nest_pid = getpid();
    prctl(PR_SET_NAME, "berth nest");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    setpgid(0, 0);
    for (int number = 1; number < SIGRTMAX; number++) signal(number, SIG_DFL); /* the program's handlers are its own */
    signal(SIGPIPE, SIG_IGN);
    if (uv_loop_init(&loop) || uv_poll_init(&loop, &event, state->nest_event) || uv_poll_init(&loop, &gone, program) ||
        uv_signal_init(&loop, &child_signal) || uv_timer_init(&loop, &deadline) ||
        uv_signal_start(&child_signal, on_child, SIGCHLD) || uv_poll_start(&event, UV_READABLE, on_event) ||
        uv_poll_start(&gone, UV_READABLE | UV_DISCONNECT, on_program))
        _exit(1);
    bti_listen_start(state, &loop);
    start_all();
    uv_run(&loop, UV_RUN_DEFAULT);
    end();
}

#include "task/worker_pipes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "task/output.h"

enum {
    TAIL = 2048,
    ROOM = 65536,
    AT_ONCE = 4096,
    LONGEST_REST = 1 << 20,
    LINE = 8192,
    LONGEST_NAME = 160,
    STILL_SECONDS = 1,
    END_SECONDS = 10
};

/* The program's standard output or error. */
typedef struct sink {
    const char *name;
    int file;      /* where to write */
    bool own;      /* opened here, so it never blocks */
    bool socket;   /* writes can be told not to block */
    bool can_wait; /* a pipe or a terminal may take no more for a while */
    char waiting[ROOM];
    size_t length;
    uint64_t dropped; /* bytes that had no room to wait */
    uint64_t pause_ms;
    uv_timer_t again;
} sink;

/* One pipe of a worker. */
typedef struct stream {
    uv_poll_t poll;
    int file;  /* -1: there is none */
    bool over; /* nothing more comes */
    sink *to;
    bti_worker_pipes *of;
    char *held; /* the line that has not ended, of LINE bytes; NULL: lines get no prefix */
    size_t held_length;
    char name[LONGEST_NAME];
} stream;

struct bti_worker_pipes {
    stream output, errors;
    int open; /* polls that are not closed */
    bti_errors_read *read;
    size_t length;
    uint64_t tail_end; /* bytes of standard error up to the end of the tail */
    char tail[TAIL + 1];
    bti_worker_pipes *next, *before;
};

static uv_loop_t *loop;
static bti_worker_pipes *all;
static bool prefixes;
static sink output = {.name = "output"}, errors = {.name = "error"};

static void each_stream(const sink *to, void (*fn)(stream *s)) {
    for (bti_worker_pipes *e = all; e; e = e->next) {
        if (e->output.file >= 0 && (!to || e->output.to == to)) fn(&e->output);
        if (e->errors.file >= 0 && (!to || e->errors.to == to)) fn(&e->errors);
    }
}

/* --- to the program's ------------------------------------------------------------------------------------------------- */

/* Writes as much as the file takes now; -1 with EAGAIN: nothing. */
static ssize_t write_some(const sink *to, const char *text, size_t length) {
    if (to->socket) return send(to->file, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (to->can_wait && !to->own) {
        struct pollfd room = {.fd = to->file, .events = POLLOUT};
        if (poll(&room, 1, 0) <= 0) return errno = EAGAIN, -1;
        if (length > AT_ONCE) length = AT_ONCE;
    }
    return write(to->file, text, length);
}

/* Returns how much is left; also 0 when nobody can read it any more. */
static size_t write_until_full(const sink *to, const char **text, size_t length) {
    while (length) {
        ssize_t done = write_some(to, *text, length);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return length;
        if (done <= 0) return 0;
        *text += done;
        length -= (size_t)done;
    }
    return 0;
}

/* Writes the waiting text; false: nothing was taken. */
static bool write_waiting(sink *to) {
    const char *text = to->waiting;
    size_t before = to->length, left = write_until_full(to, &text, before);
    memmove(to->waiting, text, left);
    to->length = left;
    if (!left && to->dropped) {
        to->length = (size_t)snprintf(to->waiting, ROOM, "\n[%llu bytes of workers' standard %s were dropped]\n",
                                      (unsigned long long)to->dropped, to->name);
        to->dropped = 0;
    }
    return left < before;
}

static void resume_stream(stream *s);

static void retry_write(uv_timer_t *timer) {
    sink *to = timer->data;
    to->pause_ms = write_waiting(to) ? 1 : to->pause_ms < 50 ? to->pause_ms * 2 : 50;
    if (to->length)
        uv_timer_start(timer, retry_write, to->pause_ms, 0);
    else
        each_stream(to, resume_stream);
}

static void pause_stream(stream *s) { uv_poll_stop(&s->poll); }

static void pass_to_sink(sink *to, const char *text, size_t length) {
    bool waits = to->length > 0;
    if (!waits) length = write_until_full(to, &text, length);
    size_t room = ROOM - to->length, kept = length < room ? length : room;
    memcpy(to->waiting + to->length, text, kept);
    to->length += kept;
    to->dropped += length - kept;
    if (waits || !to->length) return;
    each_stream(to, pause_stream);
    to->pause_ms = 1;
    uv_timer_start(&to->again, retry_write, 1, 0);
}

static bool open_sink(sink *to, int standard) {
    struct stat kind = {0};
    char path[32];
    to->file = standard;
    to->again.data = to;
    if (fstat(standard, &kind) == 0) to->can_wait = S_ISFIFO(kind.st_mode) || S_ISCHR(kind.st_mode);
    to->socket = S_ISSOCK(kind.st_mode);
    snprintf(path, sizeof path, "/proc/self/fd/%d", standard);
    int own = to->can_wait ? open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    if (own >= 0)
        to->file = own, to->own = true; /* a file description of its own: O_NONBLOCK is not set for the program */
    if (uv_timer_init(loop, &to->again) != 0) return false;
    to->again.data = to;
    return true;
}

bool bti_worker_pipes_begin(uv_loop_t *of, bool with_prefixes) {
    loop = of;
    prefixes = with_prefixes;
    return open_sink(&errors, STDERR_FILENO) && (!prefixes || open_sink(&output, STDOUT_FILENO));
}

/* --- from workers ----------------------------------------------------------------------------------------------------- */

/* `raw`: the number of bytes of the stream that the text stands for. */
static void append_to_tail(bti_worker_pipes *e, const char *text, size_t length, size_t raw) {
    e->tail_end += raw;
    if (length > TAIL) text += length - TAIL, length = TAIL;
    size_t kept = e->length + length > TAIL ? TAIL - length : e->length;
    memmove(e->tail, e->tail + e->length - kept, kept);
    memcpy(e->tail + kept, text, length);
    e->length = kept + length;
    e->tail[e->length] = 0;
}

static void pass_line(stream *s, const char *text, size_t length, bool ended) {
    static char whole[LINE + LONGEST_NAME + 8];
    int prefix = snprintf(whole, sizeof whole, "(%s) ", s->name);
    memcpy(whole + prefix, text, length);
    whole[(size_t)prefix + length] = '\n';
    pass_to_sink(s->to, whole, (size_t)prefix + length + 1);
    if (s != &s->of->errors) return;
    append_to_tail(s->of, text, length, length);
    if (ended) append_to_tail(s->of, "\n", 1, 1);
}

/* The line may end with the worker's mark, which names the function that writes what follows. An unfinished line may stand before the mark. */
static void handle_line(stream *s, const char *text, size_t length, bool ended) {
    static const char mark[] = BTI_OUTPUT_NAME;
    const char *at = memmem(text, length, mark, sizeof mark - 1);
    if (!at) {
        pass_line(s, text, length, ended);
        return;
    }
    if (at > text) pass_line(s, text, (size_t)(at - text), false);
    if (s == &s->of->errors) { /* what follows is of another call */
        s->of->length = 0;
        s->of->tail[0] = '\0';
        s->of->tail_end += (size_t)(text + length + ended - at);
    }
    at += sizeof mark - 1;
    snprintf(s->name, sizeof s->name, "%.*s", (int)(text + length - at), at);
}

typedef enum taken {
    WHILE_TAKEN, /* finished lines, until the program's file takes no more */
    ALL_LINES,   /* finished lines */
    ALL          /* finished lines and what follows the last of them */
} taken;

static void handle_lines(stream *s, taken what) {
    const size_t part = LINE - LONGEST_NAME - sizeof BTI_OUTPUT_NAME; /* so that a name is never split */
    size_t at = 0;
    while (at < s->held_length && (what != WHILE_TAKEN || !s->to->length)) {
        const char *text = s->held + at, *end = memchr(text, '\n', s->held_length - at);
        size_t length = end ? (size_t)(end - text) : s->held_length - at;
        if (!end && what != ALL && length <= part) break;
        if (!end && length > part) length = part;
        handle_line(s, text, length, end != NULL && end == text + length);
        at += length + (end != NULL);
    }
    s->held_length -= at;
    memmove(s->held, s->held + at, s->held_length);
}

/* A worker that sees the same even `turn` before and after it asks for the length of the pipe knows how much it has written
 * (bti_output_mark). */
static ssize_t read_counted(const stream *s, char *into, size_t most) {
    bti_errors_read *count = s->of->read;
    if (s != &s->of->errors) return read(s->file, into, most);
    atomic_fetch_add(&count->turn, 1);
    ssize_t length = read(s->file, into, most);
    int error = errno;
    if (length > 0) atomic_fetch_add(&count->bytes, (unsigned long long)length);
    atomic_fetch_add(&count->turn, 1);
    return errno = error, length;
}

static ssize_t read_stream(stream *s, taken what) {
    static char room[ROOM];
    char *into = s->held ? s->held + s->held_length : room;
    ssize_t length = read_counted(s, into, s->held ? LINE - s->held_length : sizeof room);
    if (length > 0 && s->held) {
        s->held_length += (size_t)length;
        handle_lines(s, what);
    } else if (length > 0) {
        append_to_tail(s->of, room, (size_t)length, (size_t)length);
        pass_to_sink(s->to, room, (size_t)length);
    } else if (!length || (errno != EAGAIN && errno != EINTR)) {
        s->over = true;
    }
    return length;
}

static void on_stream_readable(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    stream *s = poll->data;
    (void)read_stream(s, WHILE_TAKEN);
    if (s->over) uv_poll_stop(poll);
}

static void resume_stream(stream *s) {
    if (s->held) handle_lines(s, WHILE_TAKEN);
    if (!s->over && !s->to->length) uv_poll_start(&s->poll, UV_READABLE | UV_DISCONNECT, on_stream_readable);
}

static bool open_stream(stream *s, bti_worker_pipes *of, sink *to, int *worker_end) {
    int ends[2];
    s->of = of;
    s->to = to;
    s->poll.data = s;
    snprintf(s->name, sizeof s->name, "worker");
    if (prefixes && !(s->held = bti_calloc(1, LINE))) return false;
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    if (uv_poll_init(loop, &s->poll, ends[0]) != 0) return close(ends[0]), close(ends[1]), false;
    s->file = ends[0];
    *worker_end = ends[1];
    of->open++;
    return true;
}

bti_worker_pipes *bti_worker_pipes_open(bti_errors_read *read, bti_worker_pipe_ends *worker_ends) {
    *worker_ends = (bti_worker_pipe_ends){-1, -1};
    bti_worker_pipes *e = bti_calloc(1, sizeof *e);
    if (!e) return NULL;
    e->read = read;
    e->output.file = e->errors.file = -1;
    e->next = all;
    if (all) all->before = e;
    all = e;
    if (!open_stream(&e->errors, e, &errors, &worker_ends->errors) ||
        (prefixes && !open_stream(&e->output, e, &output, &worker_ends->output))) {
        if (worker_ends->errors >= 0) close(worker_ends->errors);
        *worker_ends = (bti_worker_pipe_ends){-1, -1};
        return bti_worker_pipes_close(e), NULL;
    }
    resume_stream(&e->errors);
    if (prefixes) resume_stream(&e->output);
    return e;
}

/* Reads at most LONGEST_REST bytes: a process that outlives its worker may go on writing. */
static void finish_stream(stream *s) {
    ssize_t length;
    if (s->held) handle_lines(s, ALL_LINES);
    for (ssize_t sum = 0; !s->over && sum < LONGEST_REST && (length = read_stream(s, ALL_LINES)) > 0;) sum += length;
    if (s->held) handle_lines(s, ALL);
    s->over = true;
    uv_poll_stop(&s->poll);
}

void bti_worker_pipes_finish(bti_worker_pipes *e) {
    if (e->output.file >= 0) finish_stream(&e->output);
    finish_stream(&e->errors);
}

const char *bti_worker_pipes_tail(const bti_worker_pipes *e, uint64_t mark) {
    uint64_t from = e->tail_end > e->length ? e->tail_end - e->length : 0;
    uint64_t skipped = mark > from ? mark - from : 0;
    return e->tail + (skipped < e->length ? skipped : e->length);
}

static void on_stream_closed(uv_handle_t *handle) {
    stream *s = handle->data;
    bti_worker_pipes *e = s->of;
    close(s->file);
    bti_free(s->held);
    if (!--e->open) bti_free(e);
}

static void close_stream(stream *s) {
    if (s->file >= 0)
        uv_close((uv_handle_t *)&s->poll, on_stream_closed);
    else
        bti_free(s->held);
}

void bti_worker_pipes_close(bti_worker_pipes *e) {
    if (!e) return;
    if (e->next) e->next->before = e->before;
    if (e->before)
        e->before->next = e->next;
    else
        all = e->next;
    bool none = !e->open;
    close_stream(&e->output);
    close_stream(&e->errors);
    if (none) bti_free(e);
}

/* --- the end ---------------------------------------------------------------------------------------------------------- */

static void drain_sink(sink *to, double until) {
    double moved = bti_now_seconds();
    while (to->length && bti_now_seconds() < until && bti_now_seconds() < moved + STILL_SECONDS) {
        struct pollfd room = {.fd = to->file, .events = POLLOUT};
        if (poll(&room, 1, 50) > 0 && write_waiting(to)) moved = bti_now_seconds();
    }
}

void bti_worker_pipes_end(void) {
    double until = bti_now_seconds() + END_SECONDS;
    each_stream(NULL, finish_stream);
    drain_sink(&errors, until);
    if (prefixes) drain_sink(&output, until);
}

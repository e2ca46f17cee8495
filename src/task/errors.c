#include "task/errors.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

enum { TAIL = 2048, ROOM = 65536, AT_ONCE = 4096, LONGEST_REST = 1 << 20 };

struct bti_errors {
    uv_poll_t poll;
    int file;
    bool over; /* nothing more comes */
    size_t length;
    char tail[TAIL + 1];
    bti_errors *next, *before;
};

static uv_loop_t *loop;
static bti_errors *all;

/* --- to the program's ------------------------------------------------------------------------------------------------- */

static struct {
    int file;      /* where to write */
    bool own;      /* opened here: it never blocks */
    bool socket;   /* can be told not to block */
    bool can_wait; /* a pipe or a terminal may take no more for a while */
    char waiting[ROOM];
    size_t length;
    uint64_t dropped; /* bytes that had no room to wait */
    uint64_t pause_ms;
    uv_timer_t again;
} out;

/* As much as it takes now; -1 with EAGAIN: nothing. */
static ssize_t put(const char *text, size_t length) {
    if (out.socket) return send(out.file, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (out.can_wait && !out.own) {
        struct pollfd room = {.fd = out.file, .events = POLLOUT};
        if (poll(&room, 1, 0) <= 0) return errno = EAGAIN, -1;
        if (length > AT_ONCE) length = AT_ONCE;
    }
    return write(out.file, text, length);
}

/* What is left; 0 as well when nobody can read it any more. */
static size_t put_all(const char **text, size_t length) {
    while (length) {
        ssize_t done = put(*text, length);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return length;
        if (done <= 0) return 0;
        *text += done;
        length -= (size_t)done;
    }
    return 0;
}

static void watch(bti_errors *errors);

static void write_again(uv_timer_t *timer) {
    const char *text = out.waiting;
    size_t left = put_all(&text, out.length);
    memmove(out.waiting, text, left);
    out.pause_ms = left < out.length ? 1 : out.pause_ms < 50 ? out.pause_ms * 2 : 50;
    out.length = left;
    if (!left && out.dropped) {
        out.length = (size_t)snprintf(out.waiting, ROOM, "\n[%llu bytes of workers' standard error were dropped]\n",
                                      (unsigned long long)out.dropped);
        out.dropped = 0;
    }
    if (out.length) {
        uv_timer_start(timer, write_again, out.pause_ms, 0);
        return;
    }
    for (bti_errors *e = all; e; e = e->next) watch(e);
}

static void pass_on(const char *text, size_t length) {
    bool waits = out.length > 0;
    if (!waits) length = put_all(&text, length);
    size_t room = ROOM - out.length, kept = length < room ? length : room;
    memcpy(out.waiting + out.length, text, kept);
    out.length += kept;
    out.dropped += length - kept;
    if (waits || !out.length) return;
    for (bti_errors *e = all; e; e = e->next) uv_poll_stop(&e->poll);
    out.pause_ms = 1;
    uv_timer_start(&out.again, write_again, 1, 0);
}

bool bti_errors_begin(uv_loop_t *of) {
    struct stat kind = {0};
    loop = of;
    out.file = STDERR_FILENO;
    if (fstat(STDERR_FILENO, &kind) == 0) out.can_wait = S_ISFIFO(kind.st_mode) || S_ISCHR(kind.st_mode);
    out.socket = S_ISSOCK(kind.st_mode);
    int own = out.can_wait ? open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    if (own >= 0) out.file = own, out.own = true; /* the flag is not that of the program's */
    return uv_timer_init(loop, &out.again) == 0;
}

/* --- from workers ----------------------------------------------------------------------------------------------------- */

static void keep(bti_errors *e, const char *text, size_t length) {
    if (length > TAIL) text += length - TAIL, length = TAIL;
    size_t kept = e->length + length > TAIL ? TAIL - length : e->length;
    memmove(e->tail, e->tail + e->length - kept, kept);
    memcpy(e->tail + kept, text, length);
    e->length = kept + length;
    e->tail[e->length] = 0;
}

static ssize_t take(bti_errors *e) {
    static char room[ROOM];
    ssize_t length = read(e->file, room, sizeof room);
    if (length > 0) {
        keep(e, room, (size_t)length);
        pass_on(room, (size_t)length);
    } else if (!length || (errno != EAGAIN && errno != EINTR)) {
        e->over = true;
    }
    return length;
}

static void on_text(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    bti_errors *e = poll->data;
    (void)take(e);
    if (e->over) uv_poll_stop(poll);
}

static void watch(bti_errors *e) {
    if (!e->over && !out.length) uv_poll_start(&e->poll, UV_READABLE | UV_DISCONNECT, on_text);
}

bti_errors *bti_errors_open(int *worker_end) {
    int ends[2];
    bti_errors *e = bti_calloc(1, sizeof *e);
    *worker_end = -1;
    if (!e) return NULL;
    if (pipe2(ends, O_CLOEXEC) != 0) return bti_free(e), NULL;
    if (uv_poll_init(loop, &e->poll, ends[0]) != 0) {
        close(ends[0]);
        close(ends[1]);
        return bti_free(e), NULL;
    }
    e->file = ends[0];
    e->poll.data = e;
    e->next = all;
    if (all) all->before = e;
    all = e;
    watch(e);
    *worker_end = ends[1];
    return e;
}

/* A process that outlives its worker may go on writing: not all of that is waited for. */
void bti_errors_finish(bti_errors *e) {
    ssize_t length;
    for (ssize_t sum = 0; sum < LONGEST_REST && (length = take(e)) > 0;) sum += length;
    e->over = true;
    uv_poll_stop(&e->poll);
}

const char *bti_errors_tail(const bti_errors *e) { return e->tail; }

static void free_it(uv_handle_t *handle) {
    bti_errors *e = handle->data;
    close(e->file);
    bti_free(e);
}

void bti_errors_close(bti_errors *e) {
    if (!e) return;
    if (e->next) e->next->before = e->before;
    if (e->before)
        e->before->next = e->next;
    else
        all = e->next;
    uv_close((uv_handle_t *)&e->poll, free_it);
}

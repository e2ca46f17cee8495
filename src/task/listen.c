#include "task/listen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "task/process.h"
#include "task/server.h"
#include "task/view.h"

enum { MOST_ANSWERS = 4, BACKLOG = 16, QUESTION_SECONDS = 1 };

static bti_state *state;
static uv_loop_t *loop;
static struct {
    uv_poll_t poll;
    int file;
    uid_t user;
} doors[2]; /* for the user who started the runtime, and for the user that the program is now */
static int door_count;
static uv_timer_t later;
static pid_t answers[MOST_ANSWERS];        /* 0: nobody */
static uint64_t answered_ns[MOST_ANSWERS]; /* since when */

/* --- what both ends use ----------------------------------------------------------------------------------------------- */

socklen_t bti_listen_address(struct sockaddr_un *address, uid_t user, int32_t program) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, BTI_LISTEN_NAME "%u-%d", (unsigned)user,
                          (int)program);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

bool bti_listen_is_friend(int socket) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

bool bti_listen_wait(int socket, short events, uint64_t until_ns) {
    for (;;) {
        uint64_t now = bti_now_ns();
        if (until_ns && now >= until_ns) return false;
        struct pollfd one = {.fd = socket, .events = events};
        int ready = poll(&one, 1, until_ns ? (int)((until_ns - now) / 1000000) + 1 : -1);
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
    }
}

/* --- one who answers --------------------------------------------------------------------------------------------------- */

static bool read_question(int socket, char *text, size_t size, uint64_t until_ns) {
    for (size_t length = 0; length < size;) {
        if (!bti_listen_wait(socket, POLLIN, until_ns)) return false;
        ssize_t got = recv(socket, text + length, size - length, MSG_DONTWAIT);
        if (got < 0 && errno != EAGAIN && errno != EINTR) return false;
        if (!got) return text[length] = '\0', true;
        if (got > 0) length += (size_t)got;
    }
    return false;
}

static bool send_all(int socket, const void *from, uint64_t bytes, uint64_t until_ns) {
    for (const char *at = from; bytes;) {
        if (!bti_listen_wait(socket, POLLOUT, until_ns)) return false;
        ssize_t sent = send(socket, at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
        if (sent > 0) at += sent, bytes -= (uint64_t)sent;
    }
    return true;
}

static _Noreturn void answer_caller(int socket) {
    char what[32];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != state->nest_pid) _exit(1);
    prctl(PR_SET_NAME, "berth view");
    signal(SIGCHLD, SIG_DFL);
    uint64_t until = bti_now_ns() + (uint64_t)BTI_LISTEN_SECONDS * 1000000000u;
    if (!read_question(socket, what, sizeof what, bti_now_ns() + (uint64_t)QUESTION_SECONDS * 1000000000u)) _exit(1);
    char *text = bti_view_text(state, what);
    bti_listen_head head = {.magic = BTI_LISTEN_MAGIC, .bytes = text ? strlen(text) : 0};
    bool done = text && send_all(socket, &head, sizeof head, until) && send_all(socket, text, head.bytes, until);
    _exit(done ? 0 : 1);
}

/* --- the nest ---------------------------------------------------------------------------------------------------------- */

static int find_free_answer(void) {
    for (int i = 0; i < MOST_ANSWERS; i++)
        if (!answers[i]) return i;
    return -1;
}

static void on_caller(uv_poll_t *handle, int status, int events);
static void poll_doors_again(uv_timer_t *timer) {
    (void)timer;
    for (int d = 0; d < door_count; d++) uv_poll_start(&doors[d].poll, UV_READABLE, on_caller);
}

static bool is_welcome(int socket) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
    return !peer.uid || peer.uid == geteuid() || peer.uid == atomic_load(&state->program_user);
}

/* Answering processes end by themselves, unless they are stopped. */
static void end_late_answers(void) {
    uint64_t most = (BTI_LISTEN_SECONDS + QUESTION_SECONDS + 1) * (uint64_t)1000000000, now = bti_now_ns();
    for (int i = 0; i < MOST_ANSWERS; i++)
        if (answers[i] && now - answered_ns[i] > most) kill(answers[i], SIGKILL);
}

static void on_caller(uv_poll_t *handle, int status, int events) {
    (void)events;
    int place = find_free_answer();
    if (status < 0 || place < 0) {
        uv_poll_stop(handle); /* until one of the answering processes has ended */
        end_late_answers();
        uv_timer_start(&later, poll_doors_again, 1000, 0);
        return;
    }
    const int *door = handle->data;
    int socket = accept4(*door, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
        uv_poll_stop(handle); /* no files are left: the poll would fire again at once */
        uv_timer_start(&later, poll_doors_again, 1000, 0);
        return;
    }
    bti_serve_now(state);
    pid_t pid = is_welcome(socket) ? fork() : -1;
    if (!pid) answer_caller(socket);
    close(socket);
    if (pid > 0) answers[place] = pid, answered_ns[place] = bti_now_ns();
}

static void open_door(uid_t user) {
    struct sockaddr_un address;
    socklen_t size = bti_listen_address(&address, user, state->program->pid);
    int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (file < 0) return;
    doors[door_count].file = file;
    doors[door_count].user = user;
    doors[door_count].poll.data = &doors[door_count].file;
    if (bind(file, (struct sockaddr *)&address, size) == 0 && listen(file, BACKLOG) == 0 &&
        uv_poll_init(loop, &doors[door_count].poll, file) == 0 &&
        uv_poll_start(&doors[door_count].poll, UV_READABLE, on_caller) == 0)
        door_count++;
    else
        close(file);
}

void bti_listen_start(bti_state *shared, uv_loop_t *of) {
    state = shared;
    loop = of;
    if (uv_timer_init(loop, &later) == 0) open_door(geteuid());
}

static void on_door_closed(uv_handle_t *handle) {
    (void)handle;
    uid_t user = atomic_load(&state->program_user);
    doors[1].file = 0;
    if (user != doors[0].user) open_door(user);
}

void bti_listen_user(uid_t user) {
    if (!door_count || user == doors[door_count - 1].user || user == doors[0].user) return;
    if (door_count == 1) {
        if (doors[1].file >= 0) open_door(user); /* else the old one is still being closed */
        return;
    }
    door_count = 1;
    uv_close((uv_handle_t *)&doors[1].poll, on_door_closed);
    close(doors[1].file);
    doors[1].file = -1;
}

void bti_listen_ended(pid_t pid) {
    for (int i = 0; i < MOST_ANSWERS; i++) {
        if (answers[i] != pid) continue;
        answers[i] = 0;
        poll_doors_again(NULL);
    }
}

void bti_listen_end(void) {
    for (int i = 0; i < MOST_ANSWERS; i++)
        if (answers[i]) kill(answers[i], SIGKILL);
}

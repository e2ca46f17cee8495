/* The runtimes of other programs, as they tell of themselves. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "base/vec.h"
#include "task/listen.h"
#include "task/process.h"
#include "task/tables.h"
#include "task/timeline_trace.h"

enum { LISTENS = 0x10000, MOST_BYTES = 1 << 28 };

typedef BTI_VEC(int32_t) pid_list;

/* --- asking one ------------------------------------------------------------------------------------------------------- */

static bool receive(int socket, void *to, uint64_t bytes, uint64_t until_ns) {
    for (char *at = to; bytes;) {
        if (!bti_listen_wait(socket, POLLIN, until_ns)) return false;
        ssize_t got = recv(socket, at, bytes, MSG_DONTWAIT);
        if (!got || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
        if (got > 0) at += got, bytes -= (uint64_t)got;
    }
    return true;
}

static char *receive_text(int socket, uint64_t until_ns) {
    bti_listen_head head;
    if (!receive(socket, &head, sizeof head, until_ns) || memcmp(head.magic, BTI_LISTEN_MAGIC, sizeof head.magic))
        return NULL;
    char *text = head.bytes <= MOST_BYTES ? bti_alloc(head.bytes + 1) : NULL;
    if (text && receive(socket, text, head.bytes, until_ns)) return text[head.bytes] = '\0', text;
    bti_free(text);
    return NULL;
}

char *bti_peer_text(int32_t program, const char *what) {
    struct sockaddr_un address;
    socklen_t size = bti_listen_address(&address, geteuid(), program);
    char *text = NULL;
    uint64_t until = bti_now_ns() + (uint64_t)BTI_LISTEN_SECONDS * 1000000000u;
    int to = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (to < 0) return NULL;
    struct timeval limit = {.tv_sec = BTI_LISTEN_SECONDS};
    if (setsockopt(to, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0 &&
        connect(to, (struct sockaddr *)&address, size) == 0 && bti_listen_is_friend(to) &&
        send(to, what, strlen(what), MSG_NOSIGNAL) == (ssize_t)strlen(what) && shutdown(to, SHUT_WR) == 0)
        text = receive_text(to, until);
    close(to);
    return text;
}

/* --- finding them ----------------------------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return x < y ? -1 : x > y;
}

/* The programs of this user that have a runtime. */
static bool list_runtimes(pid_list *pids) {
    char *line = NULL, start[64];
    size_t room = 0;
    bool done = true;
    FILE *file = fopen("/proc/net/unix", "re");
    snprintf(start, sizeof start, "@" BTI_LISTEN_NAME "%u-", (unsigned)geteuid());
    while (done && file && getline(&line, &room, file) > 0) {
        unsigned flags;
        const char *name = strstr(line, start);
        if (name && sscanf(line, "%*s %*s %*s %x", &flags) == 1 && flags & LISTENS)
            done = bti_vec_push(pids, (int32_t)atoi(name + strlen(start)));
    }
    free(line);
    if (file) fclose(file);
    if (pids->count) qsort(pids->items, pids->count, sizeof *pids->items, by_number);
    return done;
}

/* --- all of them ------------------------------------------------------------------------------------------------------- */

static void add_runtime(bti_str *all, int32_t program, bool json, bool first) {
    char *text = bti_peer_text(program, "json");
    if (text && !json) text = bti_view_tables_of(text);
    if (!text && !json)
        bti_str_addf(all, "%sprocess %" PRId32 " does not answer\n", first ? "" : "\n", program);
    else if (!text)
        bti_str_addf(all, "%s{\"pid\": %" PRId32 ", \"fault\": \"does not answer\"}", first ? "" : ",\n", program);
    else
        bti_str_addf(all, "%s%s", first ? "" : json ? ",\n" : "\n", text);
    bti_free(text);
}

static char *runtimes_text(const pid_list *pids, bool json) {
    bti_str all = {0};
    if (json) bti_str_add(&all, "[");
    for (size_t i = 0; i < pids->count; i++) add_runtime(&all, pids->items[i], json, !i);
    bti_str_add(&all, json ? "]\n" : pids->count ? "" : "no runtime is there\n");
    return bti_str_take(&all);
}

static void keep_only(pid_list *pids, int64_t pid) {
    size_t kept = 0;
    for (size_t i = 0; i < pids->count; i++)
        if (pids->items[i] == pid) pids->items[kept++] = pids->items[i];
    pids->count = kept;
}

/* The programs of this user that have a runtime; only program `pid` if that is not 0. */
static bt_status find_runtimes(int64_t pid, pid_list *pids) {
    if (!list_runtimes(pids)) return bti_no_memory();
    if (pid) keep_only(pids, pid);
    return !pid || pids->count ? BT_OK : bti_fail(BT_NOT_FOUND, "process %" PRId64 " has no runtime", pid);
}

char *bt_runtimes_text(int64_t pid, bool json) {
    BTI_CALL("bt_runtimes_text");
    pid_list pids = {0};
    char *text = NULL;
    if (find_runtimes(pid, &pids) == BT_OK && !(text = runtimes_text(&pids, json))) bti_no_memory();
    bti_vec_free(&pids);
    return text;
}

/* The runtime of program `pid`; 0: the only one that there is. */
static bt_status choose_runtime(int64_t pid, int32_t *program) {
    pid_list pids = {0};
    bt_status status = find_runtimes(pid, &pids);
    if (status == BT_OK && !pids.count) status = bti_fail(BT_NOT_FOUND, "no runtime is there");
    if (status == BT_OK && pids.count > 1)
        status = bti_fail(BT_INVALID_ARGUMENT, "%zu runtimes are there: say whose, by the number of its process",
                          pids.count);
    if (status == BT_OK) *program = pids.items[0];
    bti_vec_free(&pids);
    return status;
}

bt_status bt_runtimes_timeline(int64_t pid, const char *path) {
    BTI_CALL("bt_runtimes_timeline");
    int32_t program = 0;
    BTI_TRY(choose_runtime(pid, &program));
    char *text = bti_peer_text(program, "timeline");
    if (!text) return bti_fail(BT_DEADLINE_EXCEEDED, "process %" PRId32 " does not answer", program);
    return bti_timeline_write(path, text);
}

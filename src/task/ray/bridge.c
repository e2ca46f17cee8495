#include "task/ray/bridge.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "base/flags.h"
#include "base/guest.h"
#include "base/lock.h"
#include "task/ray/entries.h"
#include "task/ray/spawn.h"

enum { PIECE = 256 << 10, MOST_POOLED = 4 };
#define MOST_POOLED_BYTES ((uint64_t)1 << 30)

/* protects `unsent` and the order of what is written */
BTI_STATIC_LOCK(link_lock, task_ray_link)
static struct {
    pid_t pid;
    int socket, process, bell; /* of this process; a file of the bridge's process; wakes the thread to write */
    bti_str unsent;            /* what the socket had no room for */
    size_t sent;               /* of `unsent` */
    pthread_t thread;
    atomic_bool ends;
    char name[PATH_MAX + 64];
} bridge = {.socket = -1, .process = -1, .bell = -1};

/* --- writing ------------------------------------------------------------------------------------------------------------ */

/* How many bytes the socket took; an error is for the reader to find. */
static size_t write_now(const char *bytes, size_t count) {
    size_t done = 0;
    while (done < count) {
        ssize_t sent = send(bridge.socket, bytes + done, count - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) break;
        done += (size_t)sent;
    }
    return done;
}

static bt_status bridge_send(const char *frame, uint64_t bytes) {
    bti_lock_take(&link_lock);
    if (bridge.socket < 0) { /* a call that was under way when the runtime ended */
        bti_lock_give(&link_lock);
        return bti_fail(BT_CANCELLED, "the runtime has ended");
    }
    bool waits = bridge.unsent.length > bridge.sent;
    size_t done = waits ? 0 : write_now(frame, bytes);
    if (done < bytes) bti_str_add_bytes(&bridge.unsent, frame + done, bytes - done);
    bool failed = bridge.unsent.failed;
    bti_lock_give(&link_lock);
    if (failed) return bti_no_memory();
    if (!waits && done < bytes && write(bridge.bell, &(uint64_t){1}, 8) < 0) return BT_OK; /* it is rung already */
    return BT_OK;
}

/* Whether more is left to write. */
static bool write_unsent(void) {
    bti_lock_take(&link_lock);
    if (bridge.unsent.length > bridge.sent)
        bridge.sent += write_now(bridge.unsent.text + bridge.sent, bridge.unsent.length - bridge.sent);
    bool more = bridge.unsent.length > bridge.sent;
    if (!more) {
        bridge.unsent.length = bridge.sent = 0;
        if (bridge.unsent.capacity > PIECE) bti_str_free(&bridge.unsent);
    }
    bti_lock_give(&link_lock);
    return more;
}

/* --- reading ------------------------------------------------------------------------------------------------------------ */

/* Takes all whole frames from the front. False: what comes are none. */
static bool take_frames(bti_str *got) {
    size_t at = 0;
    int64_t bytes;
    while ((bytes = bti_ray_frame_bytes(got->text + at, got->length - at)) > 0) {
        if (!bti_ray_receive_frame(got->text + at, (uint64_t)bytes)) return false;
        at += (size_t)bytes;
    }
    memmove(got->text, got->text + at, got->length - at);
    got->length -= at;
    return bytes == 0;
}

/* NULL, or why nothing more comes. */
static const char *read_some(bti_str *got, char *piece) {
    ssize_t count = recv(bridge.socket, piece, PIECE, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return NULL;
    if (count <= 0) return "has ended; what it wrote to standard error says why";
    bti_str_add_bytes(got, piece, (size_t)count);
    if (got->failed) return "has sent more than there is memory for";
    return take_frames(got) ? NULL
                            : "has sent something that is no answer: BERTH_PYTHON is another program, or the files of "
                              "berth do not fit";
}

static void *talk(void *unused) {
    bti_str got = {0};
    char *piece = bti_alloc(PIECE);
    const char *why = piece ? NULL : "has no memory";
    bool more = false;
    while (!why && !atomic_load(&bridge.ends)) {
        struct pollfd files[] = {{bridge.socket, (short)(POLLIN | (more ? POLLOUT : 0)), 0}, {bridge.bell, POLLIN, 0}};
        uint64_t rung;
        if (poll(files, 2, -1) < 0 && errno != EINTR) why = "cannot be waited for";
        if (files[1].revents && read(bridge.bell, &rung, sizeof rung) < 0) continue;
        more = write_unsent();
        if (!why && files[0].revents & ~POLLOUT) why = read_some(&got, piece);
    }
    char text[PATH_MAX + 300];
    snprintf(text, sizeof text, "%s %s", bridge.name, why);
    if (why) bti_ray_lose(BT_UNAVAILABLE, text);
    bti_str_free(&got);
    bti_free(piece);
    return unused;
}

/* --- large values ------------------------------------------------------------------------------------------------------- */

static bt_status map_file(int file, uint64_t bytes, int how, bti_ray_shared *room) {
    void *memory = file < 0 ? MAP_FAILED : mmap(NULL, bytes, how, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        int error = errno;
        if (file >= 0) close(file);
        return bti_fail(BT_RESOURCE_EXHAUSTED, "no memory for a value of %llu bytes that passes to Ray: %s",
                        (unsigned long long)bytes, strerror(error));
    }
    *room = (bti_ray_shared){memory, bytes, (uint64_t)file, file};
    return BT_OK;
}

/* Memory that was used is used again: the system clears new memory, which takes longer than to fill it. */
static bti_ray_shared pool[MOST_POOLED]; /* with link_lock; memory NULL: none */

static bool take_pooled(uint64_t bytes, bti_ray_shared *room) {
    bool found = false;
    bti_lock_take(&link_lock);
    for (int i = 0; i < MOST_POOLED && !found; i++) {
        if (!pool[i].memory || pool[i].bytes < bytes || pool[i].bytes / 2 > bytes) continue;
        *room = pool[i];
        pool[i] = (bti_ray_shared){.file = -1};
        found = true;
    }
    bti_lock_give(&link_lock);
    return found;
}

static bool give_pooled(const bti_ray_shared *room) {
    uint64_t all = room->bytes;
    int place = -1;
    bti_lock_take(&link_lock);
    for (int i = 0; i < MOST_POOLED; i++) {
        if (!pool[i].memory) place = i;
        all += pool[i].bytes;
    }
    bool has_room = place >= 0 && all <= MOST_POOLED_BYTES && bridge.socket >= 0;
    if (has_room) pool[place] = *room;
    bti_lock_give(&link_lock);
    return has_room;
}

/* With link_lock, or where no other thread is. */
static void free_pool(void) {
    for (int i = 0; i < MOST_POOLED; i++) {
        if (pool[i].memory) munmap(pool[i].memory, pool[i].bytes);
        if (pool[i].memory) close(pool[i].file);
        pool[i] = (bti_ray_shared){.file = -1};
    }
}

/* The bridge opens the file by its number in this process. */
static bt_status bridge_share(uint64_t bytes, bti_ray_shared *room) {
    if (take_pooled(bytes, room)) return BT_OK;
    int file = memfd_create("berth-value", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)bytes) != 0) {
        close(file);
        file = -1;
    }
    return map_file(file, bytes, PROT_READ | PROT_WRITE, room);
}

static void bridge_unshare(bti_ray_shared *room) {
    if (give_pooled(room)) return;
    munmap(room->memory, room->bytes);
    close(room->file);
}

static void unmap_number(uint64_t number) {
    bti_str frame = {0};
    bti_ray_begin(&frame, BTI_RAY_UNMAP, 0);
    bti_ray_add64(&frame, number);
    if (bti_ray_finish(&frame)) (void)bridge_send(frame.text, frame.length);
    bti_str_free(&frame);
}

static bt_status bridge_map(uint64_t number, uint64_t bytes, bti_ray_shared *shown) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%llu", (int)bridge.pid, (unsigned long long)number);
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool is_short = file < 0 || fstat(file, &about) || (uint64_t)about.st_size < bytes;
    bt_status status = is_short ? bti_fail(BT_UNAVAILABLE, "%s shows a value of %llu bytes that it does not have",
                                           bridge.name, (unsigned long long)bytes)
                                : map_file(file, bytes, PROT_READ, shown);
    if (is_short && file >= 0) close(file);
    unmap_number(number);
    if (status == BT_OK) close(shown->file);
    return status;
}

static void bridge_unmap(bti_ray_shared *shown) { munmap(shown->memory, shown->bytes); }

static const bti_ray_side bridge_side = {bridge_send, bridge_share, bridge_unshare, bridge_map, bridge_unmap, false};

/* --- starting ----------------------------------------------------------------------------------------------------------- */

/* The bridge's text lies beside libberth. */
static bt_status find_bridge(char *path) {
    Dl_info info;
    char own[PATH_MAX];
    if (!dladdr((void *)(uintptr_t)bti_ray_bridge_start, &info) || !info.dli_fname || !realpath(info.dli_fname, own))
        return bti_fail(BT_NOT_FOUND, "the engine ray needs the file of libberth, which is not found");
    *strrchr(own, '/') = 0;
    if (snprintf(path, PATH_MAX, "%s/berth-ray/bridge.py", own) >= PATH_MAX || access(path, R_OK) != 0)
        return bti_fail(
            BT_NOT_FOUND,
            "the engine ray needs %s, which cannot be read (%s): install berth whole, with the shared library", path,
            strerror(errno));
    return BT_OK;
}

static bt_status open_files(int ends[2]) {
    int made = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
    if (bti_ends_above_standard(made, ends) != 0) return bti_files_refuse("no files for the engine ray", errno);
    (void)setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &(int){4 << 20}, sizeof(int));
    bridge.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bridge.bell >= 0) return BT_OK;
    bt_status status = bti_files_refuse("no files for the engine ray", errno);
    close(ends[0]);
    close(ends[1]);
    return status;
}

/* Likewise. */
static void close_files(void) {
    int *const files[] = {&bridge.socket, &bridge.process, &bridge.bell};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (*files[i] >= 0) close(*files[i]);
        *files[i] = -1;
    }
    bti_str_free(&bridge.unsent);
    bridge.sent = 0;
}

static void forget_bridge(void) {
    bti_ray_entries_forget();
    free_pool();
    close_files();
    bti_ray_side_now = NULL;
}
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_bridge); }

static bt_status spawn_bridge(const char *python, int theirs) {
    char path[PATH_MAX], parent[16];
    BTI_TRY(find_bridge(path));
    snprintf(parent, sizeof parent, "%d", (int)getpid());
    const char *const arguments[] = {python, path, "3", parent, NULL};
    bt_status status = bti_ray_spawn(arguments, theirs, &bridge.pid);
    if (status != BT_OK)
        return bti_fail(status,
                        "the engine ray needs Python with Ray, but %s; BERTH_PYTHON, or the flag ray_python, names it",
                        bt_error_text());
    bridge.process = (int)syscall(SYS_pidfd_open, bridge.pid, 0);
    snprintf(bridge.name, sizeof bridge.name, "the bridge to Ray (%s, process %d)", python, (int)bridge.pid);
    return BT_OK;
}

bt_status bti_ray_bridge_start(void) {
    int ends[2];
    char *flag = bti_flag_text(BTI_FLAG_ray_python);
    const char *variable = getenv("BERTH_PYTHON");
    const char *python = flag && *flag ? flag : variable && *variable ? variable : "python3";
    bt_status status = open_files(ends);
    if (status == BT_OK) {
        bridge.socket = ends[1];
        status = spawn_bridge(python, ends[0]);
        close(ends[0]);
    }
    bti_free(flag);
    if (status != BT_OK) return close_files(), status;
    atomic_store(&bridge.ends, false);
    bti_ray_side_now = &bridge_side;
    if (bti_thread_start(&bridge.thread, BTI_STACK_LIBRARY, talk, NULL)) return BT_OK;
    bti_ray_side_now = NULL;
    close_files();
    return bti_fail(BT_RESOURCE_EXHAUSTED, "no thread for the engine ray");
}

static bool await_bridge(double seconds) {
    struct pollfd one = {.fd = bridge.process, .events = POLLIN};
    int ended = -1;
    while (bridge.process >= 0 && (ended = poll(&one, 1, (int)(seconds * 1e3))) < 0 && errno == EINTR) continue;
    return ended > 0;
}

void bti_ray_bridge_stop(double seconds) {
    if (bridge.socket < 0) return;
    bti_ray_lose(BT_CANCELLED, "the runtime has ended");
    shutdown(bridge.socket, SHUT_RDWR);
    atomic_store(&bridge.ends, true);
    if (write(bridge.bell, &(uint64_t){1}, 8) < 0) return;
    pthread_join(bridge.thread, NULL);
    if (!await_bridge(seconds) && bridge.process >= 0) {
        (void)syscall(SYS_pidfd_send_signal, bridge.process, SIGKILL, NULL, 0);
        (void)await_bridge(seconds);
    }
    bti_lock_take(&link_lock);
    free_pool();
    close_files();
    bti_lock_give(&link_lock);
}

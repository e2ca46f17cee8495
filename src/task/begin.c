/* Starts the nest of a program that has threads or open devices, and therefore cannot be forked into one. The program is started again
 * (exec), with libberth-nest.so loaded before all other libraries (preload/nest.c). */
#include "task/begin.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "base/alloc.h"
#include "base/str.h"
#include "base/vec.h"
#include "task/nest.h"
#include "task/preload/begin.h"

enum { STACK_BYTES = 64 << 10, MOST_FILES = BTI_MOST_LEASE_FILES + 4, TRIES = 40 };

extern char **environ;

/* --- the other side ------------------------------------------------------------------------------------------------------- */

/* Called by libberth-nest.so in place of main. */
BT_API void bti_nest_begin(uint64_t state, int pipe);
void bti_nest_begin(uint64_t address, int pipe) {
    bti_state *state = (bti_state *)(uintptr_t)address;
    fcntl(pipe, F_SETFD, FD_CLOEXEC);
    state->keeper_pid = 0;
    bti_nest_run(state, pipe);
}

/* Ends a program that was started again without libberth-nest.so in charge: its main would run a second time. */
__attribute__((constructor)) static void check_begin(void) {
    if (!getenv(BTI_BEGIN_VARIABLE)) return;
    void **preloaded = dlsym(RTLD_DEFAULT, BTI_BEGIN_PRELOAD_MARK);
    if (!preloaded || *preloaded != dlsym(RTLD_DEFAULT, "__libc_start_main")) _exit(1);
}

/* --- whether it can be ---------------------------------------------------------------------------------------------------- */

#define NOT_AGAIN \
    "this process has threads or uses devices, so the program has to be started again for the runtime, but "

static bt_status find_libraries(char *own, char *first) {
    Dl_info info;
    if (getauxval(AT_SECURE))
        return bti_fail(BT_FAILED_PRECONDITION,
                        NOT_AGAIN "its file gives it rights (setuid, capabilities): begin earlier");
    if (!dladdr((void *)(uintptr_t)bti_nest_begin, &info) || !info.dli_fname || !realpath(info.dli_fname, own))
        return bti_fail(BT_FAILED_PRECONDITION, NOT_AGAIN "the file of libberth is not found: begin earlier");
    void *library = dlopen(own, RTLD_NOW | RTLD_NOLOAD | RTLD_LOCAL);
    bool shared = library && dlsym(library, BTI_BEGIN_ENTRY) == (void *)(uintptr_t)bti_nest_begin;
    if (library) dlclose(library);
    if (!shared)
        return bti_fail(BT_FAILED_PRECONDITION, NOT_AGAIN "libberth is linked into it, not shared: begin earlier");
    char *end = strrchr(own, '/');
    int length = snprintf(first, PATH_MAX, "%.*s/" BTI_BEGIN_LIBRARY, (int)(end - own), own);
    if (length >= PATH_MAX || strpbrk(first, " :") || access(first, R_OK) != 0)
        return bti_fail(BT_FAILED_PRECONDITION, NOT_AGAIN "%s cannot be used (%s): begin earlier", first,
                        strpbrk(first, " :") ? "LD_PRELOAD takes no path with a blank or a colon" : strerror(errno));
    return BT_OK;
}

/* --- what it is given ----------------------------------------------------------------------------------------------------- */

typedef struct beginning {
    char **arguments, **environment;
    char *words;                       /* of arguments */
    char *variable, *preload, *before; /* of the environment */
    int files[MOST_FILES], file_count; /* open files that the new process inherits */
    pid_t pid;
    int error;
} beginning;

static void free_beginning(beginning *b) {
    bti_free(b->arguments);
    bti_free(b->environment);
    bti_free(b->words);
    bti_free(b->variable);
    bti_free(b->preload);
    bti_free(b->before);
}

static bool read_arguments(beginning *b) {
    bti_str text = {0};
    char piece[4096];
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    for (ssize_t got; file >= 0 && (got = read(file, piece, sizeof piece)) > 0;)
        bti_str_add_bytes(&text, piece, (size_t)got);
    if (file >= 0) close(file);
    size_t length = text.length, count = 0;
    b->words = bti_str_take(&text);
    if (!b->words || !length) return false;
    for (size_t i = 0; i < length; i++) count += !b->words[i];
    b->arguments = bti_calloc(count + 1, sizeof *b->arguments);
    for (size_t i = 0, at = 0; b->arguments && i < count; i++, at += strlen(b->words + at) + 1)
        b->arguments[i] = b->words + at;
    return b->arguments && count;
}

static bool is_variable(const char *entry, const char *name) {
    size_t length = strlen(name);
    return !strncmp(entry, name, length) && entry[length] == '=';
}

static char *join_variable(const char *name, const char *first, const char *second) {
    bti_str text = {0};
    bti_str_addf(&text, "%s=%s%s%s", name, first, second ? ":" : "", second ? second : "");
    return bti_str_take(&text);
}

static bool make_environment(beginning *b, const char *marker, const char *first) {
    const char *preloaded = getenv("LD_PRELOAD");
    size_t count = 0, kept = 0;
    while (environ && environ[count]) count++;
    b->environment = bti_calloc(count + 4, sizeof *b->environment);
    b->variable = join_variable(BTI_BEGIN_VARIABLE, marker, NULL);
    b->preload = join_variable("LD_PRELOAD", first, preloaded && *preloaded ? preloaded : NULL);
    b->before = preloaded ? join_variable(BTI_BEGIN_PRELOADED, preloaded, NULL) : NULL;
    if (!b->environment || !b->variable || !b->preload || (preloaded && !b->before)) return false;
    for (size_t i = 0; i < count; i++)
        if (!is_variable(environ[i], "LD_PRELOAD")) b->environment[kept++] = environ[i];
    b->environment[kept++] = b->variable;
    b->environment[kept++] = b->preload;
    if (b->before) b->environment[kept++] = b->before;
    return true;
}

static bt_status prepare_beginning(const bti_state *state, int memory, int pipe, beginning *b) {
    char own[PATH_MAX], first[PATH_MAX], marker[PATH_MAX + 128];
    BTI_TRY(find_libraries(own, first));
    snprintf(marker, sizeof marker, BTI_BEGIN_FORMAT ",%s", memory, pipe, (uint64_t)(uintptr_t)state->arena,
             state->arena->bytes, (uint64_t)(uintptr_t)state, own);
    if (!read_arguments(b) || !make_environment(b, marker, first)) return bti_no_memory();
    b->files[b->file_count++] = memory;
    b->files[b->file_count++] = pipe;
    if (state->spill_file >= 0) b->files[b->file_count++] = state->spill_file;
    for (int i = 0; i < state->lease_file_count; i++) b->files[b->file_count++] = state->lease_files[i];
    return BT_OK;
}

/* --- starting ------------------------------------------------------------------------------------------------------------- */

/* The two child processes share the memory of the program, whose thread waits meanwhile, and run on these stacks: they may only make system
 * calls. The first forks the second and ends, so the second is nobody's child and wait in the program does not see it. */
typedef struct stacks {
    _Alignas(16) char first[STACK_BYTES], second[STACK_BYTES];
    beginning *b;
} stacks;

__attribute__((no_sanitize("address", "thread", "undefined"))) static int execute_program(void *given) {
    beginning *b = ((stacks *)given)->b;
    for (int i = 0; i < b->file_count; i++)
        fcntl(b->files[i], F_SETFD, 0); /* this process has its own table of files */
    execve("/proc/self/exe", b->arguments, b->environment);
    b->error = errno;
    _exit(127);
}

__attribute__((no_sanitize("address", "thread", "undefined"))) static int orphan_and_execute(void *given) {
    stacks *s = given;
    s->b->pid = clone(execute_program, s->second + sizeof s->second, CLONE_VM | CLONE_VFORK | SIGCHLD, s);
    if (s->b->pid < 0) s->b->error = errno;
    _exit(0);
}

static bt_status run_beginning(beginning *b) {
    sigset_t all, before;
    int reaper = 0;
    stacks *s = bti_calloc(1, sizeof *s);
    if (!s) return bti_no_memory();
    s->b = b;
    b->error = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's handlers must not run in the children */
    prctl(PR_GET_CHILD_SUBREAPER, &reaper);
    if (reaper) prctl(PR_SET_CHILD_SUBREAPER, 0);
    pid_t between = clone(orphan_and_execute, s->first + sizeof s->first, CLONE_VM | CLONE_VFORK, s);
    int error = errno;
    if (between > 0)
        while (waitpid(between, NULL, __WCLONE) < 0 && errno == EINTR) continue;
    if (reaper) prctl(PR_SET_CHILD_SUBREAPER, 1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    bti_free(s);
    if (between > 0 && !b->error) return BT_OK;
    return bti_fail(BT_RESOURCE_EXHAUSTED, "no process for the runtime: %s", strerror(between > 0 ? b->error : error));
}

/* Waits for the nest. 1: it is there; 0: the address of its memory was not free; -1: it has ended. */
static int await_nest_of_program(const bti_state *state, int pipe) {
    for (;;) {
        struct pollfd one = {.fd = pipe, .events = POLLIN};
        char said;
        if (*(volatile const int32_t *)&state->nest_pid > 0) return 1;
        if (poll(&one, 1, 2) <= 0) continue;
        ssize_t length = read(pipe, &said, 1);
        if (length == 1) return said == BTI_BEGIN_TAKEN ? 0 : -1;
        if (!length || (errno != EINTR && errno != EAGAIN)) return -1;
    }
}

/* 1: the nest is there, and *end closes with the program; 0: the address of its memory was not free; -1: failed, with the cause in the
 * error record. */
static int try_beginning(bti_state *state, int memory, beginning *b, int *end) {
    int ends[2], there = -1;
    int made = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
    if (bti_ends_above_standard(made, ends) != 0) return (void)bti_files_refuse("no files for the runtime", errno), -1;
    bt_status status = prepare_beginning(state, memory, ends[0], b);
    if (status == BT_OK) status = run_beginning(b);
    close(ends[0]);
    if (status == BT_OK && (there = await_nest_of_program(state, ends[1])) < 0)
        (void)(state->nest_pid < 0
                   ? bti_files_refuse("no process for the runtime", -state->nest_pid)
                   : bti_fail(BT_FAILED_PRECONDITION,
                              "the program was started again for the runtime, and ended before its main"));
    if (there == 1) return *end = ends[1], 1;
    close(ends[1]);
    return there;
}

bt_status bti_nest_begin_again(bti_state *state, int memory, int *end) {
    int there = 0;
    for (int tries = 0; !there && tries < TRIES; tries++) {
        beginning b = {.pid = -1};
        there = try_beginning(state, memory, &b, end);
        free_beginning(&b);
    }
    if (there > 0) return BT_OK;
    return there ? bt_error_status()
                 : bti_fail(BT_FAILED_PRECONDITION,
                            "the memory of the runtime has no room in the program when it is started again");
}

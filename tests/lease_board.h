/* What processes with leases write where all of them see it, so that each can tell from inside whether it is alone. */
#ifndef BERTH_TESTS_LEASE_BOARD_H
#define BERTH_TESTS_LEASE_BOARD_H

#include <berth.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#define COMMAND BERTH_BUILD_DIR "/berth"
#define MIB ((uint64_t)1 << 20)

enum { GPUS = 4, SLOTS = 1024 };

typedef struct board {
    atomic_int whole[GPUS];          /* how many hold it alone */
    atomic_llong bytes[GPUS];        /* of shares */
    atomic_int faults, leases, peak; /* peak: of shares on one GPU at a time */
    atomic_int shares[GPUS];
    atomic_int next, order[SLOTS]; /* who came when */
    atomic_int held[SLOTS];        /* bit g: that process holds GPU g */
    atomic_bool doomed[SLOTS];     /* it is being killed */
} board;

static char folder[200], own[400], board_path[240];
static board *seen;

static board *open_board(const char *path) {
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof(board))) abort();
    board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (b == MAP_FAILED) abort();
    close(file);
    return b;
}

/* Called with what was leased, which nobody else may hold now. */
static inline void enter(board *b, const int *ids, int count, long long bytes) {
    atomic_fetch_add(&b->leases, 1);
    for (int i = 0; i < count; i++) {
        int g = ids[i];
        if (g < 0 || g >= GPUS) {
            atomic_fetch_add(&b->faults, 1);
        } else if (bytes) {
            long long sum = atomic_fetch_add(&b->bytes[g], bytes) + bytes;
            int sharing = atomic_fetch_add(&b->shares[g], 1) + 1;
            if (sum > 1 << 30 || atomic_load(&b->whole[g])) atomic_fetch_add(&b->faults, 1);
            if (sharing > atomic_load(&b->peak)) atomic_store(&b->peak, sharing);
        } else if (atomic_fetch_add(&b->whole[g], 1) || atomic_load(&b->bytes[g])) {
            atomic_fetch_add(&b->faults, 1);
        }
    }
}

static inline void go(board *b, const int *ids, int count, long long bytes) {
    for (int i = 0; i < count; i++) {
        if (bytes) atomic_fetch_sub(&b->shares[ids[i]], 1);
        if (bytes)
            atomic_fetch_sub(&b->bytes[ids[i]], bytes);
        else
            atomic_fetch_sub(&b->whole[ids[i]], 1);
    }
}

/* A new folder of lock files and four simulated GPUs of 1 GiB. */
static int set_up(void **state) {
    snprintf(folder, sizeof folder, "/tmp/berth-lease-test-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    snprintf(board_path, sizeof board_path, "%s/board", folder);
    seen = open_board(board_path);
    setenv("BERTH_LEASES", folder, 1);
    setenv("BERTH_FLAGS", "devices=sim:gpu*4@1G", 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("CUDA_DEVICE_ORDER");
    unsetenv("BERTH_SYNC");
    return 0;
}

static inline void sleep_ms(int ms) { usleep((useconds_t)ms * 1000); }

/* Nothing that was started runs on, which as their reaper this process would see; children of those that were killed may take a
 * moment to end too. */
static int tear_down(void **state) {
    char line[300];
    pid_t left;
    munmap(seen, sizeof *seen);
    snprintf(line, sizeof line, "rm -rf --one-file-system '%s'", folder);
    int removed = system(line);
    for (int i = 0; (left = waitpid(-1, NULL, WNOHANG)) != -1 && i < 10000; i++)
        if (!left) sleep_ms(1);
    if (left != -1) print_error("a process is still there\n");
    return removed || left != -1;
}

static inline void find_own_path(void) {
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length > 0 ? length : 0] = '\0';
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* Who holds or waits for a GPU ("holders", "waiters"), as others are told. */
static inline int count_of(int gpu, const char *whom) {
    char *text = bt_leases_text(true);
    json_t *all = text ? json_loads(text, 0, NULL) : NULL;
    int count = (int)json_array_size(json_object_get(json_array_get(json_object_get(all, "gpus"), (size_t)gpu), whom));
    json_decref(all);
    bt_free(text);
    return count;
}

static inline void await_count(int gpu, const char *whom, int count) {
    for (int i = 0; count_of(gpu, whom) != count; i++) {
        if (i == 6000) fail_msg("there are %d %s of GPU %d, not %d", count_of(gpu, whom), whom, gpu, count);
        sleep_ms(5);
    }
}

/* Starts `berth run OPTIONS -- WORDS`; the shell makes room for itself. */
static inline pid_t start(const char *options_and_program) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        char line[1200];
        snprintf(line, sizeof line, "exec " COMMAND " run %s", options_and_program);
        execl("/bin/sh", "sh", "-c", line, NULL);
        _exit(126);
    }
    return child;
}

static inline int end_of(pid_t child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#endif

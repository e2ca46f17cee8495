/* Shared memory of a runtime that its program overwrites: each call fails with the cause, everything ends, nothing hangs. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/programs.h"
#include "task/state.h"

static bt_status nothing(bt_task *task) {
    (void)task;
    return BT_OK;
}
BT_REMOTE(nothing);

static bt_status nap(bt_task *task) {
    (void)task;
    sleep_seconds(0.3);
    return BT_OK;
}
BT_REMOTE(nap);

static bt_status leave_child(bt_task *task) { return bt_return(task, (int64_t)leave_process()); }
BT_REMOTE(leave_child);

static bti_arena *find_arena(void) {
    char line[512];
    unsigned long long at = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (!at && maps && fgets(line, sizeof line, maps))
        if (strstr(line, "memfd:berth")) sscanf(line, "%llx", &at);
    if (maps) fclose(maps);
    return (bti_arena *)(uintptr_t)at;
}

/* It lies behind the head and the notes. */
static bti_state *find_state(bti_arena *arena) {
    uint64_t notes = (BTI_MOST_NOTES * sizeof(bti_arena_note) + BTI_PAGE - 1) / BTI_PAGE * BTI_PAGE;
    return (bti_state *)(void *)((char *)bti_arena_notes(arena) + notes);
}

typedef void damage(bti_arena *arena, bti_state *state);

static int fails(bt_status status) {
    CHECK(status != BT_OK);
    if (strstr(bt_error_text(), "damaged") || strstr(bt_error_text(), "the runtime is over")) return 0;
    fprintf(stderr, "%s\n", bt_error_text());
    return 1;
}

static int after(damage *of) {
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    int64_t left = 0;
    BT_SCOPE {
        bt_ref *done = bt_remote(nothing), *later = bt_remote(nap);
        CHECK(bt_get(done, NULL) == BT_OK && bt_get(bt_remote(leave_child), &left) == BT_OK);
        bti_arena *arena = find_arena();
        CHECK(arena != NULL && find_state(arena)->arena == arena);
        of(arena, find_state(arena));
        bt_ref *next = bt_remote(nothing);
        CHECK(fails(bt_get(next, NULL)) == 0);
        CHECK(fails(bt_get(later, NULL)) == 0);
        CHECK(fails(bt_get(bt_put(5), NULL)) == 0);
        CHECK(bt_actor_find("x") == NULL);
        CHECK(bt_runtime_text(true) == NULL);
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    CHECK(!process_lives((pid_t)left));
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    BT_SCOPE
        CHECK(bt_get(bt_remote(nothing), NULL) == BT_OK);
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

static void fill(void *at, int with, size_t bytes) { memset(at, with, bytes); }

static void lock_of_ones(bti_arena *a, bti_state *s) { (void)s, fill(&a->lock, 0xff, sizeof a->lock); }
static void lock_of_zeros(bti_arena *a, bti_state *s) { (void)s, fill(&a->guard, 0, 64); }
static void lock_held_by_nobody(bti_arena *a, bti_state *s) { (void)s, *(volatile int *)&a->lock = 0x3ffffff0; }
static void lock_beyond_recovery(bti_arena *a, bti_state *s) { (void)s, a->lock.__data.__owner = 0x7ffffffe; }
static void head(bti_arena *a, bti_state *s) { (void)s, fill(a, 0x41, sizeof *a); }
static void lists(bti_arena *a, bti_state *s) { (void)s, fill(a->records, 0x41, sizeof a->records); }
static void free_lists(bti_arena *a, bti_state *s) {
    (void)s;
    for (int kind = 0; kind < BTI_KINDS_OF_RECORDS; kind++)
        a->records[kind].free = (bti_free_record *)(uintptr_t)0x4141414141414148;
}
static void state_of_ones(bti_arena *a, bti_state *s) { (void)a, fill(s, 0xff, sizeof *s); }
static void state_of_zeros(bti_arena *a, bti_state *s) { (void)a, fill(s, 0, sizeof *s); }
static void state_of_text(bti_arena *a, bti_state *s) { (void)a, fill(s, 0x41, sizeof *s); }

#define DAMAGE(name) \
    static int name##_damaged(void) { return after(name); }
DAMAGE(lock_of_ones)
DAMAGE(lock_of_zeros)
DAMAGE(lock_held_by_nobody)
DAMAGE(lock_beyond_recovery)
DAMAGE(head)
DAMAGE(lists)
DAMAGE(free_lists)
DAMAGE(state_of_ones)
DAMAGE(state_of_zeros)
DAMAGE(state_of_text)

/* Records that the program itself does not look at here, but the nest does. */
static int nest_finds_it(void) {
    if (is_slow()) return -1; /* a sanitizer ends the nest itself */
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    BT_SCOPE {
        CHECK(bt_get(bt_remote(nothing), NULL) == BT_OK);
        bti_arena *arena = find_arena();
        pid_t nest = process_named(getpid(), "berth nest", SOON), worker = 0;
        CHECK(nest > 0 && children_of(nest, &worker, 1) == 1);
        bti_records *clients = &arena->records[BTI_CLIENTS];
        for (uint32_t i = 1; i < clients->used; i++)
            fill(clients->first + i * clients->bytes + 16, 0x41, clients->bytes - 16);
        CHECK(kill(worker, SIGKILL) == 0);
        for (double until = seconds_now() + SOON; process_lives(nest) && seconds_now() < until;) sleep_seconds(0.01);
        CHECK(!process_lives(nest));
        CHECK_FAILS(bt_get(bt_remote(nothing), NULL), BT_INTERNAL, "damaged");
    }
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

/* A program that is stopped while it holds the lock is waited for; when it dies so, all ends. */
static int stopped_with_lock(void) {
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    BT_SCOPE
        CHECK(bt_get(bt_remote(nothing), NULL) == BT_OK);
    CHECK(pthread_mutex_lock(&find_arena()->lock) == 0);
    pid_t nest = process_named(getpid(), "berth nest", SOON), workers[8];
    int count = children_of(nest, workers, 8);
    for (int i = 0; i < count; i++) kill(workers[i], SIGKILL); /* the nest wants the lock to tell of them */
    tell_ready(getpid());
    for (;;) sleep(100);
}
static void stop_then_kill(int pid) {
    kill(pid, SIGSTOP);
    sleep_seconds(1.5);
    if (!process_lives(pid)) fail_drive("the stopped program was ended");
    kill(pid, SIGKILL);
}

int main(int argc, char **argv) {
    static const test_program programs[] = {
        {.name = "lock_of_ones", .run = lock_of_ones_damaged},
        {.name = "lock_of_zeros", .run = lock_of_zeros_damaged},
        {.name = "lock_held_by_nobody", .run = lock_held_by_nobody_damaged},
        {.name = "lock_beyond_recovery", .run = lock_beyond_recovery_damaged},
        {.name = "head", .run = head_damaged},
        {.name = "lists", .run = lists_damaged},
        {.name = "free_lists", .run = free_lists_damaged},
        {.name = "state_of_ones", .run = state_of_ones_damaged},
        {.name = "state_of_zeros", .run = state_of_zeros_damaged},
        {.name = "state_of_text", .run = state_of_text_damaged},
        {.name = "nest_finds_it", .run = nest_finds_it},
        {.name = "stopped_with_lock", .run = stopped_with_lock, .drive = stop_then_kill, .ends_by = SIGKILL},
    };
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}

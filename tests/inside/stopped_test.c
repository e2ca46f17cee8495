/* Processes of a runtime that are stopped (SIGSTOP) hold up nothing but what they do themselves. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/calls.h"
#include "support/programs.h"
#include "task/state.h"

/* --- processes that stop themselves ----------------------------------------------------------------------------------------- */

typedef struct shared {
    atomic_int forks_to_stop;                 /* of the nest: so many of its next children stop at once */
    atomic_int writes_to_stop, trims_to_stop; /* of the mover: it stops in so many of its next calls */
    atomic_int begun;
} shared;
static shared *all; /* of all processes */

static int begin(int cpus, int gpus) {
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(all != MAP_FAILED);
    return bt_runtime_init(.num_cpus = cpus, .num_gpus = gpus, .store_bytes = 4 << 20) == BT_OK ? 0 : 1;
}

static void stop_if_wanted(atomic_int *wanted) {
    if (atomic_load(wanted) > 0 && atomic_fetch_sub(wanted, 1) > 0) raise(SIGSTOP);
}

static bool is_mover(void) {
    char name[16] = "";
    return prctl(PR_GET_NAME, name) == 0 && !strcmp(name, "berth mover");
}

/* In the place of the system's. */
__attribute__((visibility("default"))) pid_t fork(void) {
    pid_t (*real)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
    pid_t pid = real();
    if (!pid && all) stop_if_wanted(&all->forks_to_stop);
    return pid;
}

__attribute__((visibility("default"))) ssize_t pwrite(int file, const void *bytes, size_t size, off_t at) {
    if (all && is_mover()) stop_if_wanted(&all->writes_to_stop);
    return syscall(SYS_pwrite64, file, bytes, size, at);
}

__attribute__((visibility("default"))) int madvise(void *at, size_t size, int how) {
    if (all && is_mover()) stop_if_wanted(&all->trims_to_stop);
    return (int)syscall(SYS_madvise, at, size, how);
}

/* --- a stopped program ---------------------------------------------------------------------------------------------------- */

static char state_of(pid_t pid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[length] = 0;
    const char *end = strrchr(text, ')');
    return end && end[1] ? end[2] : 'X';
}

static bool is_stopped(int pid) { return state_of(pid) == 'T'; }

/* The program's shared memory, which workers have at the same address: the state lies behind the head and the notes. */
static bti_state *find_state(void) {
    uint64_t notes = (BTI_MOST_NOTES * sizeof(bti_arena_note) + BTI_PAGE - 1) / BTI_PAGE * BTI_PAGE;
    char line[512];
    unsigned long long at = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (!at && maps && fgets(line, sizeof line, maps))
        if (strstr(line, "memfd:berth")) sscanf(line, "%llx", &at);
    if (maps) fclose(maps);
    bti_arena *arena = (bti_arena *)(uintptr_t)at;
    return arena ? (bti_state *)(void *)((char *)bti_arena_notes(arena) + notes) : NULL;
}

static bool program_listens(int unused) {
    (void)unused;
    return atomic_load(find_state()->listening) == BTI_PROGRAM_LISTENS;
}

/* Each of these calls took a look of the nest, one in 300 ms, before workers rang it. */
static bt_status nested_while_stopped(bt_task *task) {
    enum { CALLS = 100, MOST_SECONDS = 25 };
    pid_t program = find_state()->program->pid;
    bt_status status = BT_OK;
    if (!comes_true(program_listens, 0, SOON)) return bt_task_fail(task, BT_INTERNAL, "the program does not listen");
    sleep_seconds(0.2); /* it sleeps by now: with the lock it would hold up all */
    kill(program, SIGSTOP);
    bool stopped = comes_true(is_stopped, program, SOON);
    double begun = seconds_now();
    for (int i = 0; i < CALLS && status == BT_OK; i++)
        BT_SCOPE
            status = bt_get(bt_remote(nothing), NULL);
    double seconds = seconds_now() - begun;
    bool still = is_stopped(program);
    kill(program, SIGCONT);
    if (status != BT_OK) return status;
    if (!stopped || !still) return bt_task_fail(task, BT_INTERNAL, "the program was not stopped");
    if (seconds > MOST_SECONDS) return bt_task_fail(task, BT_INTERNAL, "%d calls took %.1f s", CALLS, seconds);
    if (!comes_true(program_listens, 0, SOON)) return bt_task_fail(task, BT_INTERNAL, "the program no longer listens");
    return bt_return(task, seconds);
}
BT_REMOTE(nested_while_stopped);

static int stopped_program(void) {
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    double seconds = 0;
    BT_SCOPE {
        bt_status status = bt_get(bt_remote(nested_while_stopped), &seconds);
        if (status != BT_OK) fprintf(stderr, "%s\n", bt_error_text());
        CHECK(status == BT_OK);
        CHECK(bt_get(bt_remote(nothing), NULL) == BT_OK);
    }
    if (getenv("BERTH_TEST_LONG")) fprintf(stderr, "%.3f ms a call\n", seconds * 10);
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

/* --- a stopped mover -------------------------------------------------------------------------------------------------------- */

static bt_status fill(bt_task *task) {
    static char bytes[2 << 20];
    int64_t size;
    bt_status status = bt_argument(task, 0, &size);
    return status == BT_OK ? bt_return(task, ((bt_bytes){bytes, (size_t)size})) : status;
}
BT_REMOTE(fill);

/* More than the store holds. */
static int fill_store(int64_t size, int count) {
    BT_SCOPE {
        bt_ref *refs[64];
        for (int i = 0; i < count; i++) refs[i] = bt_remote(fill, size);
        for (int i = 0; i < count; i++) CHECK(bt_get_within(refs[i], SOON, NULL) == BT_OK);
    }
    return 0;
}

static int mover_stopped(void) {
    CHECK(begin(2, 0) == 0);
    atomic_store(&all->writes_to_stop, 1);
    CHECK(fill_store(1 << 20, 12) == 0);
    CHECK(atomic_load(&all->writes_to_stop) <= 0);
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

/* It gives memory of free values back under the lock. */
static int mover_stopped_with_lock(void) {
#ifdef __SANITIZE_THREAD__
    return -1; /* it waits for locks without looking who has them */
#endif
    CHECK(begin(2, 0) == 0);
    CHECK(fill_store(400 << 10, 8) == 0);
    atomic_store(&all->trims_to_stop, 1);
    CHECK(fill_store(1800 << 10, 2) == 0);
    CHECK(atomic_load(&all->trims_to_stop) <= 0);
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

/* --- workers that are stopped before they begin a call ---------------------------------------------------------------------- */

static bt_status process(bt_task *task) {
    atomic_fetch_add(&all->begun, 1);
    return bt_return(task, (int64_t)getpid());
}
BT_REMOTE(process);

static int worker_stopped(void) {
    CHECK(begin(2, 0) == 0);
    atomic_store(&all->forks_to_stop, 2);
    BT_SCOPE {
        bt_ref *refs[4];
        for (int i = 0; i < 4; i++) refs[i] = bt_remote(process);
        for (int i = 0; i < 4; i++) CHECK(bt_get_within(refs[i], SOON, NULL) == BT_OK);
    }
    CHECK(atomic_load(&all->begun) == 4);
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

static int actor_stopped(void) {
    CHECK(begin(2, 0) == 0);
    atomic_store(&all->forks_to_stop, 1);
    BT_SCOPE {
        bt_actor *actor = bt_actor_new(actor_new);
        int64_t first = 0, second = 0;
        bt_ref *refs[] = {bt_method(actor, process), bt_method(actor, process)};
        CHECK(bt_get_within(refs[0], SOON, &first) == BT_OK && bt_get_within(refs[1], SOON, &second) == BT_OK);
        CHECK(first == second && atomic_load(&all->begun) == 2);
    }
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

static int gpu_worker_stopped(void) {
    CHECK(begin(2, 1) == 0);
    atomic_store(&all->forks_to_stop, 1);
    BT_SCOPE {
        bt_ref *refs[2];
        for (int i = 0; i < 2; i++) refs[i] = bt_remote_with(BT_OPTIONS(.num_gpus = 1), process);
        for (int i = 0; i < 2; i++) CHECK(bt_get_within(refs[i], SOON, NULL) == BT_OK);
    }
    CHECK(atomic_load(&all->begun) == 2);
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

/* --- the process between the program and the nest --------------------------------------------------------------------------- */

static int keeper_stopped(void) {
    CHECK(begin(2, 0) == 0);
    BT_SCOPE
        CHECK(bt_get(bt_remote(nothing), NULL) == BT_OK);
    pid_t keeper = process_named(getpid(), "berth keeper", SOON);
    CHECK(keeper > 0 && kill(keeper, SIGSTOP) == 0 && comes_true(is_stopped, keeper, SOON));
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

/* --- processes that answer who looks ----------------------------------------------------------------------------------------- */

static bool is_told(int pid) {
    char *text = bt_runtimes_text(pid, true);
    bool told = text && strstr(text, "\"resources\"");
    bt_free(text);
    return told;
}

static void *ask(void *unused) {
    (void)unused;
    return (void *)(uintptr_t)is_told(getpid());
}

/* As many as there may be at once. */
static int views_stopped(void) {
    enum { MOST = 4 };
    pthread_t threads[MOST];
    CHECK(begin(1, 0) == 0);
    CHECK(bt_get(bt_remote(nothing), NULL) == BT_OK && is_told(getpid()));
    atomic_store(&all->forks_to_stop, MOST);
    for (int i = 0; i < MOST; i++) CHECK(pthread_create(&threads[i], NULL, ask, NULL) == 0);
    for (int i = 0; i < MOST; i++) {
        void *told;
        CHECK(pthread_join(threads[i], &told) == 0 && !told);
    }
    CHECK(comes_true(is_told, getpid(), SOON));
    return bt_runtime_shutdown() != BT_OK;
}

int main(int argc, char **argv) {
    static const test_program programs[] = {
        {.name = "stopped_program", .run = stopped_program, .seconds = 100},
        {.name = "mover_stopped", .run = mover_stopped},
        {.name = "mover_stopped_with_lock", .run = mover_stopped_with_lock},
        {.name = "worker_stopped", .run = worker_stopped},
        {.name = "actor_stopped", .run = actor_stopped},
        {.name = "gpu_worker_stopped", .run = gpu_worker_stopped},
        {.name = "keeper_stopped", .run = keeper_stopped},
        {.name = "views_stopped", .run = views_stopped},
    };
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}

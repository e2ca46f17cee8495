/* Processes of a runtime that are stopped (SIGSTOP) hold up nothing but what they do themselves. */
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/calls.h"
#include "support/programs.h"
#include "task/state.h"

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
    enum { CALLS = 100, MOST_SECONDS = 15 };
    pid_t program = find_state()->program->pid;
    bt_status status = BT_OK;
    if (!comes_true(program_listens, 0, 10)) return bt_task_fail(task, BT_INTERNAL, "the program does not listen");
    sleep_seconds(0.2); /* it sleeps by now: with the lock it would hold up all */
    kill(program, SIGSTOP);
    bool stopped = comes_true(is_stopped, program, 10);
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
    if (!comes_true(program_listens, 0, 10)) return bt_task_fail(task, BT_INTERNAL, "the program no longer listens");
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

int main(int argc, char **argv) {
    static const test_program programs[] = {
        {.name = "stopped_program", .run = stopped_program, .seconds = 100},
    };
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}

#include "task/process.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

bti_process bti_process_now;

/* A child that the program or a task forks does not belong to the runtime. */
static void forget_process(void) { bti_process_now = (bti_process){0}; }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_process); }

/* --- files that the program may have closed ------------------------------------------------------------------------------ */

bool bti_file_know(bti_file_identity *file, int number) {
    struct stat now;
    if (fstat(number, &now) != 0) return false;
    *file = (bti_file_identity){number, now.st_dev, now.st_ino};
    return true;
}

bool bti_file_is_same(const bti_file_identity *file) {
    struct stat now;
    return file->number >= 0 && fstat(file->number, &now) == 0 && now.st_dev == file->device &&
           now.st_ino == file->inode;
}

/* The largest possible file number, since valgrind closes a range number by number. */
static unsigned largest_file(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max == RLIM_INFINITY) return ~0u;
    return limit.rlim_max < 1 << 20 ? 1 << 20 /* the limit may have been higher */ : (unsigned)limit.rlim_max;
}

/* The first file from `from` on that is kept; INT_MAX: none. */
static int next_kept(const bti_state *kept, int from, int pipe) {
    int next = pipe >= from ? pipe : INT_MAX;
    if (!kept) return next;
    if (kept->spill_file >= from && kept->spill_file < next) next = kept->spill_file;
    for (int i = 0; i < kept->lease_file_count; i++)
        if (kept->lease_files[i] >= from && kept->lease_files[i] < next) next = kept->lease_files[i];
    return next;
}

void bti_files_keep(const bti_state *kept, int pipe) {
    int from = 3;
    for (int next; (next = next_kept(kept, from, pipe)) < INT_MAX; from = next + 1)
        if (next > from) close_range((unsigned)from, (unsigned)next - 1, 0);
    close_range((unsigned)from, largest_file(), 0);
}

/* --- calling the nest ----------------------------------------------------------------------------------------------------- */

static pid_t nest; /* a copy: the shared memory may be damaged; 0: there is none */
static bti_file_identity nest_pipe = {.number = -1};

void bti_nest_reach(pid_t pid, int pipe) {
    nest = pid;
    bti_file_know(&nest_pipe, pipe);
}

void bti_nest_leave(void) {
    if (bti_file_is_same(&nest_pipe)) close(nest_pipe.number);
    nest_pipe.number = -1;
    nest = 0;
}

int bti_nest_pipe(void) { return nest_pipe.number; }

/* A process of another user than the nest may not send it signals, and may have closed its files: then the nest looks by itself within a
 * second. */
void bti_nest_call(void) {
    if (!nest || kill(nest, BTI_NEST_SIGNAL) == 0 || errno != EPERM || !bti_file_is_same(&nest_pipe)) return;
    if (send(nest_pipe.number, "", 1, MSG_NOSIGNAL) < 0) errno = 0; /* full: it will look */
}

/* --- whether the runtime is there ------------------------------------------------------------------------------------------ */

bool bti_nest_lives(bti_state *state) {
    int error = pthread_mutex_trylock(&state->nest_lives);
    if (error == EBUSY) return true;
    if (!error || error == EOWNERDEAD) pthread_mutex_unlock(&state->nest_lives); /* cannot be recovered from now on */
    return false;
}

static bti_arena *arena; /* a copy, as it was laid out */
static uint64_t arena_bytes;

static bool may_be_record(const void *record) { return bti_arena_has(arena, arena_bytes, record); }

/* Also called without the lock, while others write these words. */
__attribute__((no_sanitize("thread"))) static bool heads_are_whole(const void *of) {
    const bti_state *state = of;
    return state->arena == arena && arena->bytes == arena_bytes && state->program && state->store &&
           may_be_record(state->program) && may_be_record(state->store) && may_be_record(state->clients) &&
           may_be_record(state->idle) && may_be_record(state->to_start) && may_be_record(state->queue_table) &&
           may_be_record(state->last_queue) && may_be_record(state->waiting) && may_be_record(state->machine.waiting) &&
           may_be_record(state->actors) && may_be_record(state->groups) && may_be_record(state->functions) &&
           state->bells && may_be_record(state->bells) && state->mailboxes && may_be_record(state->mailboxes) &&
           may_be_record(state->chores) && may_be_record(state->mover) && state->resource_count >= 0 &&
           state->resource_count <= BTI_MOST_RESOURCES && state->gpu_count >= 0 && state->gpu_count <= BTI_MOST_GPUS;
}

void bti_state_watch(bti_state *state, void (*wait)(void)) {
    arena = state ? state->arena : NULL;
    arena_bytes = state ? state->arena->bytes : 0;
    bti_arena_watch((bti_arena_watcher){state ? heads_are_whole : NULL, state, wait});
}

bt_status bti_state_fault(bool thorough) {
    if (!arena || (thorough ? bti_arena_check(arena) : !bti_arena_is_broken(arena))) return BT_OK;
    return bti_arena_error(arena);
}

bt_status bti_runtime_over(const bti_state *state) {
    BTI_TRY(bti_state_fault(true));
    return bti_fail(BT_ABORTED, atomic_load(&state->closing) == 2
                                    ? "the process that starts workers has ended: the runtime is over"
                                    : "the runtime has ended");
}

bt_status bti_check_runs(bti_state *state) {
    BTI_TRY(bti_state_fault(true));
    if (!bti_nest_lives(state)) atomic_store(&state->closing, 2);
    return atomic_load(&state->closing) ? bti_runtime_over(state) : BT_OK;
}

void bti_state_release(bti_state *state) {
    if (atomic_fetch_sub(&state->users, 1) == 1) bti_arena_close(state->arena);
}

/* Starting and ending a runtime; calls and their results, in any of its processes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/cores.h"
#include "base/flags.h"
#include "task/actor.h"
#include "task/given.h"
#include "task/gpus.h"
#include "task/identity.h"
#include "task/options.h"
#include "task/local.h"
#include "task/nest.h"
#include "task/server.h"
#include "task/spill.h"
#include "task/timeline.h"

bti_process bti_process_now;

/* A child that the program or a task forks is no part of the runtime. */
static void leave_runtime(void) { bti_process_now = (bti_process){0}; }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, leave_runtime); }

/* --- starting -------------------------------------------------------------------------------------------------------- */

static int threads_of_process(void) {
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    for (struct dirent *row; tasks && (row = readdir(tasks)) != NULL;) count += row->d_name[0] != '.';
    if (tasks) closedir(tasks);
    return count > 1 ? count - BTI_CHECKED_THREADS : count;
}

bool bti_is_alone(void) { return threads_of_process() <= 1; }

#define RECORDS_SPACE ((uint64_t)64 << 30) /* of addresses, for all records but values */

static bt_status lay_out(bti_arena *arena, const bt_runtime_options *options, int halvings, bti_state **state) {
    static const struct {
        size_t bytes;
        uint32_t most;
    } kinds[] = {[BTI_CLIENTS] = {sizeof(bti_client), BTI_MOST_CLIENTS},
                 [BTI_OBJECTS] = {sizeof(bti_object), 1 << 22},
                 [BTI_TASKS] = {sizeof(bti_task_record), 1 << 22},
                 [BTI_QUEUES] = {sizeof(bti_queue), 1 << 20},
                 [BTI_FUNCTIONS] = {sizeof(bti_function_record), 1 << 12},
                 [BTI_HOLDS] = {sizeof(bti_hold), 1 << 23},
                 [BTI_WAITS] = {sizeof(bti_wait), 1 << 22},
                 [BTI_MORE] = {sizeof(bti_more), 1 << 18},
                 [BTI_LINKS] = {sizeof(bti_link), 1 << 22},
                 [BTI_WAITERS] = {sizeof(bti_waiter), 1 << 17},
                 [BTI_CHORES] = {sizeof(bti_chore), 1 << 14},
                 [BTI_ACTORS] = {sizeof(bti_actor_record), 1 << 14},
                 [BTI_GROUPS] = {sizeof(bti_group_record), 1 << 10}};
    BTI_TRY(bti_arena_room(arena, sizeof **state, (void **)state));
    (*state)->arena = arena;
    (*state)->spill_file = -1;
    for (int kind = 0; kind < (int)(sizeof kinds / sizeof *kinds); kind++)
        if (kinds[kind].most)
            BTI_TRY(bti_arena_reserve(arena, kind, kinds[kind].bytes,
                                      kind == BTI_FUNCTIONS ? kinds[kind].most : kinds[kind].most >> halvings));
    BTI_TRY(bti_arena_room(arena, sizeof(bti_bells), (void **)&(*state)->bells));
    BTI_TRY(bti_arena_room(arena, sizeof *(*state)->listening, (void **)&(*state)->listening));
    BTI_TRY(bti_arena_room(arena, (uint64_t)(BTI_MOST_CLIENTS >> halvings) * sizeof(bti_mailbox),
                           (void **)&(*state)->mailboxes));
    (*state)->started_ns = bti_now_ns();
    (*state)->prefix_output = options->prefix_output || bti_flag_bool(BTI_FLAG_prefix_output);
    BTI_TRY(bti_queues_open(*state));
    BTI_TRY(bti_timeline_open(*state));
    BTI_TRY(bti_store_open(*state, options->store_bytes));
    return bti_spill_open(*state, options->spill_folder, options->spill_bytes);
}

static bt_status add_resource(bti_state *state, const char *name, double amount) {
    int r = state->resource_count;
    if (strlen(name) >= sizeof state->names[r] || bti_resource_of(state, name) >= 0)
        return bti_fail(BT_INVALID_ARGUMENT, "resource \"%s\": names are all different and have at most %zu bytes",
                        name, sizeof state->names[r] - 1);
    BTI_TRY(bti_units(amount, name, &state->machine.total.of[r]));
    snprintf(state->names[r], sizeof state->names[r], "%s", name);
    return state->resource_count++, BT_OK;
}

/* What the program says of GPUs goes before what their driver tells. */
static bt_status describe_gpus(bti_state *state, const bt_runtime_options *options) {
    const char *type = options->accelerator;
    if (!(options->gpu_memory >= 0) || options->gpu_memory > 1e18)
        return bti_fail(BT_INVALID_ARGUMENT, "bt_runtime_init: gpu_memory is %g bytes", options->gpu_memory);
    if (type && strlen(type) >= sizeof state->gpu_model[0])
        return bti_fail(BT_INVALID_ARGUMENT, "bt_runtime_init: accelerator has at most %zu bytes",
                        sizeof state->gpu_model[0] - 1);
    for (int g = 0; g < state->gpu_count; g++) {
        if (options->gpu_memory > 0) state->gpu_bytes[g] = (uint64_t)options->gpu_memory;
        if (type) snprintf(state->gpu_model[g], sizeof state->gpu_model[g], "%s", type);
    }
    return BT_OK;
}

static bt_status count_resources(bti_state *state, const bt_runtime_options *options) {
    bti_supply *supply = &state->machine;
    BTI_TRY(bti_gpus_count(state, options->num_gpus, options->gpu_wait_seconds));
    BTI_TRY(describe_gpus(state, options));
    BTI_TRY(add_resource(state, "CPU", bti_is_set(options->num_cpus) ? options->num_cpus : bti_cores()));
    BTI_TRY(add_resource(state, "GPU", state->gpu_count));
    for (int g = 0; g < state->gpu_count; g++) supply->gpu_free[g] = BTI_UNIT;
    for (int i = 0; i < 8 && options->resources[i].name; i++)
        BTI_TRY(add_resource(state, options->resources[i].name, options->resources[i].amount));
    supply->free = supply->total;
    return bti_processes_limit(state, options->max_processes);
}

static uint64_t runtimes;

/* Half of all, and half of that, where addresses are few (RLIMIT_AS). */
static bt_status open_arena(bt_runtime_options *options, bti_arena **arena, int *halvings, int *file) {
    enum { MOST_HALVINGS = 6 };
    bti_error *before = bti_error_last();
    for (;; ++*halvings, options->store_bytes /= 2) {
        uint64_t bytes = (RECORDS_SPACE >> *halvings) + bti_store_address_space(options->store_bytes);
        bt_status status = bti_arena_open_file(bytes, arena, file);
        if (status == BT_OK) return bti_error_put_back(before), BT_OK;
        if (*halvings == MOST_HALVINGS) return bti_error_release(before), status;
    }
}

bt_status bti_local_start(const bt_runtime_options *options) {
    bti_arena *arena;
    bti_state *state = NULL;
    bool again = !bti_is_alone() || !bti_gpus_are_unused();
    bt_runtime_options filled = *options;
    if (!filled.store_bytes) filled.store_bytes = bti_store_default_bytes();
    int halvings = 0, memory = -1;
    BTI_TRY(open_arena(&filled, &arena, &halvings, &memory));
    bt_status status = lay_out(arena, &filled, halvings, &state);
    if (status == BT_OK) status = count_resources(state, options);
    if (status == BT_OK) {
        bti_arena_lock(arena);
        state->program = bti_record_new(arena, BTI_CLIENTS);
        state->program->is_program = true;
        state->program->pid = getpid();
        state->clients = state->program;
        state->clients_ever = 1;
        bti_arena_unlock(arena);
        bti_identity_begin(state);
        bti_state_watch(state, NULL);
        status = again ? bti_nest_start_again(state, memory) : bti_nest_start(state);
    }
    close(memory);
    if (state) bti_gpus_leave(state);
    if (status != BT_OK) {
        bti_state_watch(NULL, NULL);
        if (state) bti_spill_close(state);
        return bti_arena_close(arena), status;
    }
    atomic_init(&state->users, 1);
    bti_process_now = (bti_process){state, state->program, ++runtimes};
    return BT_OK;
}

enum { RELEASE_SECONDS = 5 }; /* for the release functions of actors, when the runtime ends */

/* Actors that run nothing end by themselves. How many processes are still to end. */
static int end_actors(bti_state *state, bool tell) {
    bti_wakes wakes = {0};
    int count = 0;
    bti_arena_lock(state->arena);
    bti_serve(state, &wakes);
    for (bti_client *c = state->clients; c; c = c->next) {
        if (!c->actor || bti_given_count(c) || c->kill || (!tell && !c->stops)) continue;
        bti_actor_die(state, c->actor, BT_FAILURE_PROCESS_DIED, BT_ABORTED, "the runtime has ended", &wakes);
        bti_give_end(state, c, &wakes);
        count++;
    }
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
    return count;
}

static void release_actors(bti_state *state) {
    uint64_t until = bti_now_ns() + (uint64_t)RELEASE_SECONDS * 1000000000u;
    for (int left = end_actors(state, true); left && bti_now_ns() < until && bti_nest_lives(state);) {
        usleep(500);
        left = end_actors(state, false);
    }
}

/* All threads of the program that wait. */
static void wake_waiters(bti_state *state) {
    bti_wakes wakes = {.nest = true};
    bti_arena_lock(state->arena);
    atomic_store(&state->closing, 1);
    for (bti_waiter *w = state->program->waiters; w; w = w->next) bti_wake_later(&wakes, &w->word);
    bti_wake_later(&wakes, &state->bells->program);
    bti_wake_later(&wakes, &state->store->moved);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
}

bt_status bti_local_stop(void) {
    bti_state *state = bti_process_now.state;
    if (bti_state_fault(true) == BT_OK) { /* else the nest ends by itself, and who waits sees it */
        release_actors(state);
        wake_waiters(state);
    }
    bti_nest_wait();
    return BT_OK;
}

void bti_local_close(void) {
    bti_state *state = bti_process_now.state;
    bool sound = bti_state_fault(true) == BT_OK;
    bti_nest_leave();
    bti_spill_close(state);
    bti_process_now = (bti_process){0};
    if (sound) bti_state_release(state); /* else the memory stays: its size is not known */
    bti_state_watch(NULL, NULL);
}

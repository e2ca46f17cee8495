#include "task/runtime.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/cores.h"
#include "base/flags.h"
#include "task/actor.h"
#include "task/dispatch.h"
#include "task/energy.h"
#include "task/object.h"
#include "task/given.h"
#include "task/gpus.h"
#include "task/identity.h"
#include "task/options.h"
#include "task/layout.h"
#include "task/keeper.h"
#include "task/ready.h"
#include "task/server.h"
#include "task/spill.h"
#include "task/proc.h"

/* --- starting -------------------------------------------------------------------------------------------------------- */

static bt_status add_resource(bti_state *state, const char *name, double amount) {
    int r = state->resource_count;
    if (strlen(name) >= sizeof state->names[r] || bti_resource_of(state, name) >= 0)
        return bti_fail(BT_INVALID_ARGUMENT, "resource \"%s\": names are all different and have at most %zu bytes",
                        name, sizeof state->names[r] - 1);
    BTI_TRY(bti_units(amount, name, &state->machine.total.of[r]));
    snprintf(state->names[r], sizeof state->names[r], "%s", name);
    return state->resource_count++, BT_OK;
}

/* The program's description of GPUs takes precedence over the driver's. */
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
    bti_energy_board_begin(state);
    BTI_TRY(describe_gpus(state, options));
    BTI_TRY(add_resource(state, "CPU", bti_is_set(options->num_cpus) ? options->num_cpus : bti_cores()));
    BTI_TRY(add_resource(state, "GPU", state->gpu_count));
    for (int g = 0; g < state->gpu_count; g++) supply->gpu_free[g] = BTI_UNIT;
    for (int i = 0; i < 8 && options->resources[i].name; i++)
        BTI_TRY(add_resource(state, options->resources[i].name, options->resources[i].amount));
    supply->free = supply->total;
    return bti_processes_limit(state, options->max_processes);
}

static uint64_t runtimes; /* that this process began */

bt_status bti_local_start(const bt_runtime_options *options) {
    bti_state *state;
    BTI_TRY(bti_proc_check());
    bool again = !bti_is_alone() || !bti_gpus_are_unused();
    int memory = -1;
    BTI_TRY(bti_layout_open(options, &state, &memory));
    bti_arena *arena = state->arena;
    bt_status status = count_resources(state, options);
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
    bti_gpus_leave(state);
    if (status != BT_OK) {
        bti_state_watch(NULL, NULL);
        bti_spill_close(state);
        return bti_arena_close(arena), status;
    }
    atomic_init(&state->users, 1);
    bti_process_now = (bti_process){state, state->program, ++runtimes};
    return BT_OK;
}

enum { RELEASE_SECONDS = 5 }; /* how long bt_runtime_shutdown waits for actors' release functions */

/* Tells actors that run nothing to end. Returns how many processes have not ended yet. */
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
    bti_schedule_pending(state, &wakes);
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

/* Wakes all threads of the program that wait. */
static void wake_waiters(bti_state *state) {
    bti_wakes wakes = {.nest = true};
    bti_arena_lock(state->arena);
    atomic_store(&state->closing, 1);
    for (bti_waiter *w = state->program->waiters; w; w = w->next) bti_wake_later(&wakes, &w->word);
    bti_wake_later(&wakes, &state->bells->program);
    atomic_fetch_add(&state->store->moved, 1);
    bti_wake_now(&state->store->moved);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
}

bt_status bti_local_stop(void) {
    bti_state *state = bti_process_now.state;
    if (bti_state_fault(true) == BT_OK) { /* else the nest ends by itself, and waiting threads notice it */
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

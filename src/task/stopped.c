#include "task/stopped.h"

#include <signal.h>
#include <unistd.h>

#include "base/vec.h"
#include "task/chores.h"
#include "task/dispatch.h"
#include "task/given.h"
#include "task/object.h"
#include "task/process.h"
#include "task/proc.h"

/* --- the program -------------------------------------------------------------------------------------------------------- */

/* Workers ring the nest while the program is stopped. */
static void check_program_stopped(bti_state *state) {
    unsigned now = atomic_load(state->listening);
    if (now == BTI_NOBODY_LISTENS) return;
    bool halted = bti_halt_of(state->program->pid) != BTI_NOT_HALTED;
    if (halted && now == BTI_PROGRAM_LISTENS) {
        atomic_compare_exchange_strong(state->listening, &now, BTI_PROGRAM_HALTED);
    } else if (!halted && now == BTI_PROGRAM_HALTED) {
        atomic_fetch_add(&state->bells->program, 1);
        bti_wake_now(&state->bells->program);
    }
}

/* --- children ------------------------------------------------------------------------------------------------------------- */

enum { MOVER_LOOKS = 3 };

typedef BTI_VEC(bti_client *) clients;

/* Clients that would hold up others if they were stopped. Only the nest frees their records, so the pointers stay valid. */
static void collect_clients(bti_state *state, clients *found) {
    bti_arena_lock(state->arena);
    if (bti_mover_works(state) && state->mover->pid) (void)bti_vec_push(found, state->mover);
    for (bti_client *c = state->clients; c; c = c->next)
        if (c->pid && bti_given_stalls(c) && !bti_vec_push(found, c)) break;
    bti_arena_unlock(state->arena);
}

static void keep_stopped_clients(clients *found) {
    size_t kept = 0;
    for (size_t i = 0; i < found->count; i++) {
        bti_client *c = found->items[i];
        bool stopped = bti_halt_of(c->pid) == BTI_STOPPED;
        if (c->is_mover) c->looks = stopped ? c->looks + 1 : 0;
        if (stopped && (!c->is_mover || c->looks >= MOVER_LOOKS)) found->items[kept++] = c;
    }
    found->count = kept;
}

static void end_clients(bti_state *state, const clients *stopped) {
    bti_wakes wakes = {.nest = true};
    bti_arena_lock(state->arena);
    for (size_t i = 0; i < stopped->count; i++) {
        bti_client *c = stopped->items[i];
        if (c->is_mover)
            BTI_SET(state->arena, c->kill, true);
        else if (bti_given_stalls(c))
            bti_given_give_up(state, c, &wakes);
    }
    bti_dispatch(state, &wakes);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
}

void bti_stopped_check(bti_state *state) {
    clients found = {0};
    check_program_stopped(state);
    collect_clients(state, &found);
    keep_stopped_clients(&found);
    if (found.count) end_clients(state, &found);
    bti_vec_free(&found);
}

void bti_stopped_end_owner(const bti_arena *arena) {
    bti_proc stat;
    pid_t owner = bti_arena_owner(arena);
    if (owner > 0 && bti_proc_stat(owner, &stat) && stat.parent == getpid() && stat.state == 'T') kill(owner, SIGKILL);
}

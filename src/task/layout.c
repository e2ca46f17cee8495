#include "task/layout.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file_text.h"
#include "base/flags.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "task/energy.h"
#include "task/mailbox.h"
#include "task/object.h"
#include "task/process.h"
#include "task/queue.h"
#include "task/spill.h"
#include "task/store.h"
#include "task/tasks.h"

/* --- sizes ---------------------------------------------------------------------------------------------------------------- */

enum { MOST_SCALE = 9 };
#define LEAST_STORE ((uint64_t)1 << 20)

/* At scale n there are most >> n records of a kind. */
static const struct {
    size_t bytes;
    uint32_t most;
    bool fixed; /* `most` at any scale */
} kinds[] = {[BTI_CLIENTS] = {sizeof(bti_client), BTI_MOST_CLIENTS, false},
             [BTI_OBJECTS] = {sizeof(bti_object), 1 << 22, false},
             [BTI_TASKS] = {sizeof(bti_task_record), 1 << 22, false},
             [BTI_QUEUES] = {sizeof(bti_queue), 1 << 20, false},
             [BTI_FUNCTIONS] = {sizeof(bti_function_record), 1 << 12, true},
             [BTI_HOLDS] = {sizeof(bti_hold), 1 << 23, false},
             [BTI_WAITS] = {sizeof(bti_wait), 1 << 22, false},
             [BTI_MORE] = {sizeof(bti_more), 1 << 18, false},
             [BTI_RESULTS] = {sizeof(bti_results), 1 << 18, false},
             [BTI_LEFT_ROOMS] = {sizeof(bti_left_room), 1 << 16, false},
             [BTI_LINKS] = {sizeof(bti_link), 1 << 22, false},
             [BTI_WAITERS] = {sizeof(bti_waiter), 1 << 17, false},
             [BTI_CHORES] = {sizeof(bti_chore), 1 << 14, false},
             [BTI_SLOTS] = {sizeof(bti_slot), 1 << 22, false},
             [BTI_ACTORS] = {sizeof(bti_actor_record), 1 << 14, false},
             [BTI_GROUPS] = {sizeof(bti_group_record), 1 << 10, false}};

static uint32_t most_of(size_t kind, int scale) {
    return kinds[kind].fixed ? kinds[kind].most : kinds[kind].most >> scale;
}

static uint64_t mailbox_bytes(int scale) { return (uint64_t)(BTI_MOST_CLIENTS >> scale) * sizeof(bti_mailbox); }

/* Address space of all but the store, with some to spare for rounding up to pages. */
static uint64_t records_bytes(int scale) {
    uint64_t bytes = BTI_MOST_NOTES * sizeof(bti_arena_note) + sizeof(bti_timeline) + sizeof(bti_energy_board) +
                     mailbox_bytes(scale) + (4 << 20);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        bytes += kinds[kind].bytes * most_of(kind, scale) + BTI_PAGE;
    return bytes;
}

typedef struct plan {
    int scale;
    uint64_t store_bytes, bytes; /* of values in the store; of address space in all */
} plan;

/* As many records as take half of `most` bytes of addresses, then the store; false: they are too few. A store of a size that the program chose
 * keeps it. */
static bool make_plan(uint64_t chosen, uint64_t most, plan *p) {
    for (p->scale = 0; p->scale <= MOST_SCALE; p->scale++) {
        uint64_t records = records_bytes(p->scale);
        if (p->scale < MOST_SCALE && records > most / 2) continue;
        p->store_bytes = chosen ? chosen : bti_store_default_bytes();
        p->bytes = records + bti_store_address_space(p->store_bytes);
        while (!chosen && p->bytes > most && p->store_bytes > LEAST_STORE) {
            p->store_bytes = p->store_bytes / 8 * 7 > LEAST_STORE ? p->store_bytes / 8 * 7 : LEAST_STORE;
            p->bytes = records + bti_store_address_space(p->store_bytes);
        }
        if (p->bytes <= most) return true;
    }
    return false;
}

/* --- the limit of addresses --------------------------------------------------------------------------------------------- */

#define NO_LIMIT ((uint64_t)1 << 60)

typedef struct addresses {
    uint64_t limit, left; /* NO_LIMIT */
} addresses;

static addresses read_addresses(void) {
    struct rlimit limit;
    unsigned long long pages = 0;
    char text[128];
    addresses now = {NO_LIMIT, NO_LIMIT};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur >= NO_LIMIT) return now;
    if (!bti_file_text("/proc/self/statm", text, sizeof text) || sscanf(text, "%llu", &pages) != 1) pages = 0;
    uint64_t used = pages * (uint64_t)sysconf(_SC_PAGE_SIZE);
    now.limit = limit.rlim_cur;
    now.left = now.limit > used ? now.limit - used : 0;
    return now;
}

/* The program and its workers need address space as well: they run with the same limit. */
static uint64_t share_of(uint64_t left, bool chosen) {
    return left == NO_LIMIT ? left : chosen ? left / 4 * 3 : left / 2;
}

static bt_status address_space_error(uint64_t chosen, const addresses *now) {
    uint64_t store = chosen ? chosen : LEAST_STORE;
    uint64_t bytes = records_bytes(MOST_SCALE) + bti_store_address_space(store);
    uint64_t least = chosen ? bytes / 3 * 4 : bytes * 2;
    return bti_fail(BT_RESOURCE_EXHAUSTED,
                    "a store of %llu bytes needs %llu bytes of address space, and RLIMIT_AS (ulimit -v) of "
                    "%llu leaves %llu, also for workers: raise the limit by %llu%s",
                    (unsigned long long)store, (unsigned long long)bytes, (unsigned long long)now->limit,
                    (unsigned long long)now->left, (unsigned long long)(least > now->left ? least - now->left : 1),
                    chosen ? ", or ask for less (.store_bytes)" : "");
}

/* Where another limit than RLIMIT_AS binds (addresses of the processor, RLIMIT_FSIZE), smaller arenas are tried. */
static bt_status open_arena(uint64_t chosen, bti_arena **arena, plan *p, int *file) {
    addresses now = read_addresses();
    bool fits = make_plan(chosen, share_of(now.left, chosen), p);
    bt_status status = BT_OK;
    if (!fits) return address_space_error(chosen, &now);
    bti_error *before = bti_error_last();
    bool quiet = bti_errors_quiet(true);
    while ((status = bti_arena_open_file(p->bytes, arena, file)) != BT_OK && make_plan(chosen, p->bytes / 2, p))
        continue;
    bti_errors_quiet(quiet);
    if (status == BT_OK)
        bti_error_put_back(before);
    else
        bti_error_release(before);
    if (status == BT_OK && !chosen && p->store_bytes < bti_store_default_bytes())
        bti_log("the store has %llu bytes (address space is limited: RLIMIT_AS, ulimit -v)",
                (unsigned long long)p->store_bytes);
    return status;
}

/* --- laying out ------------------------------------------------------------------------------------------------------------- */

static bt_status lay_out_state(bti_arena *arena, const bt_runtime_options *options, const plan *p, bti_state **made) {
    BTI_TRY(bti_arena_room(arena, sizeof **made, (void **)made));
    bti_state *state = *made;
    state->arena = arena;
    state->spill_file = -1;
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        BTI_TRY(bti_arena_reserve(arena, (int)kind, kinds[kind].bytes, most_of(kind, p->scale)));
    BTI_TRY(bti_arena_room(arena, sizeof(bti_bells), (void **)&state->bells));
    BTI_TRY(bti_arena_room(arena, sizeof *state->listening, (void **)&state->listening));
    BTI_TRY(bti_arena_room(arena, mailbox_bytes(p->scale), (void **)&state->mailboxes));
    state->started_ns = bti_now_ns();
    state->prefix_output = options->prefix_output || bti_flag_bool(BTI_FLAG_prefix_output);
    BTI_TRY(bti_queues_open(state));
    BTI_TRY(bti_arena_room(state->arena, sizeof *state->timeline, (void **)&state->timeline));
    BTI_TRY(bti_arena_room(state->arena, sizeof *state->energy, (void **)&state->energy));
    BTI_TRY(bti_store_open(state, p->store_bytes));
    return bti_spill_open(state, options->spill_folder, options->spill_bytes);
}

bt_status bti_layout_open(const bt_runtime_options *options, bti_state **state, int *file) {
    bti_arena *arena;
    plan p;
    *state = NULL;
    BTI_TRY(open_arena(options->store_bytes, &arena, &p, file));
    bt_status status = lay_out_state(arena, options, &p, state);
    if (status == BT_OK) return BT_OK;
    close(*file);
    if (*state) bti_spill_close(*state);
    bti_arena_close(arena);
    return *state = NULL, status;
}

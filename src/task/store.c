#include "task/store.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cgroup.h"

enum {
    MOST_KINDS = BTI_KINDS_OF_RECORDS - BTI_BLOCKS,
    PAGE = 4096,
    WARM_ORDER = 14, /* memory of smaller blocks is not given back */
    PAGED_ORDER = 14,
    TRIM_BYTES = 16 << 20 /* at once */
};

static uint64_t smaller_of(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* A worker may write to the pages of a large value, and to nothing else in the store. */
static uint64_t block_head_bytes(int order) { return order < PAGED_ORDER ? BTI_BLOCK_HEAD : PAGE; }

static int order_of(uint64_t bytes) {
    int order = BTI_SMALLEST_BLOCK;
    while (((uint64_t)1 << order) < bytes + block_head_bytes(order)) order++;
    return order;
}

static int kind_of(int order) { return BTI_BLOCKS + order - BTI_SMALLEST_BLOCK; }
static uint64_t pages(uint64_t bytes) { return (bytes + block_head_bytes(order_of(bytes)) + PAGE - 1) / PAGE * PAGE; }

/* A block may be half empty. */
static uint64_t most_blocks(uint64_t limit, int order) { return smaller_of((limit >> (order - 1)) + 1, 1u << 22); }

uint64_t bti_store_default_bytes(void) {
    bti_cgroup group;
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGE_SIZE);
    bti_cgroup_read(&group);
    return smaller_of(machine, group.memory_bytes) / 10 * 3;
}

uint64_t bti_store_address_space(uint64_t limit) {
    uint64_t bytes = PAGE;
    for (int order = BTI_SMALLEST_BLOCK; order - BTI_SMALLEST_BLOCK < MOST_KINDS; order++) {
        bytes += (most_blocks(limit, order) << order) + PAGE;
        if (((uint64_t)1 << order) > limit + PAGE) break;
    }
    return bytes;
}

bt_status bti_store_open(bti_state *state, uint64_t limit) {
    state->store_limit = limit;
    BTI_TRY(bti_arena_room(state->arena, sizeof *state->store, (void **)&state->store));
    for (int order = BTI_SMALLEST_BLOCK; order - BTI_SMALLEST_BLOCK < MOST_KINDS; order++) {
        BTI_TRY(
            bti_arena_reserve(state->arena, kind_of(order), (uint64_t)1 << order, (uint32_t)most_blocks(limit, order)));
        if (((uint64_t)1 << order) > limit + PAGE) break;
    }
    return BT_OK;
}

/* --- free blocks that have memory ---------------------------------------------------------------------------------------- */

static void unlink_warm(bti_state *state, int order, bti_store_block *block) {
    bti_store *store = state->store;
    if (block->newer)
        BTI_SET(state->arena, block->newer->older, block->older);
    else
        BTI_SET(state->arena, store->warm[order].newest, block->older);
    if (block->older)
        BTI_SET(state->arena, block->older->newer, block->newer);
    else
        BTI_SET(state->arena, store->warm[order].oldest, block->newer);
}

static void link_warm(bti_state *state, int order, bti_store_block *block) {
    bti_store_block *newest = state->store->warm[order].newest;
    BTI_SET(state->arena, block->record.turn, state->arena->turn);
    BTI_SET(state->arena, block->newer, NULL);
    BTI_SET(state->arena, block->older, newest);
    if (newest)
        BTI_SET(state->arena, newest->newer, block);
    else
        BTI_SET(state->arena, state->store->warm[order].oldest, block);
    BTI_SET(state->arena, state->store->warm[order].newest, block);
}

/* A block that was freed since the last commit is left alone: that change may be taken back. */
static bti_store_block *find_warm(const bti_state *state, int order) {
    bti_store_block *block = state->store->warm[order].newest;
    while (block && block->record.turn == state->arena->turn) block = block->older;
    return block;
}

/* --- taking and giving ---------------------------------------------------------------------------------------------------- */

char *bti_store_take(bti_state *state, uint64_t bytes) {
    bool fits = state->store_used <= state->store_limit && bytes <= state->store_limit - state->store_used;
    return fits ? bti_store_take_past(state, bytes) : NULL;
}

char *bti_store_take_past(bti_state *state, uint64_t bytes) {
    int order = order_of(bytes);
    bti_store_block *block = find_warm(state, order);
    if (block)
        unlink_warm(state, order, block);
    else
        block = bti_record_take(state->arena, kind_of(order));
    if (!block) return NULL;
    BTI_SET(state->arena, state->store_used, state->store_used + bytes);
    if (order >= WARM_ORDER && block->memory < pages(bytes)) {
        BTI_SET(state->arena, state->store_memory, state->store_memory + pages(bytes) - block->memory);
        BTI_SET(state->arena, block->memory, pages(bytes));
    }
    return (char *)block + block_head_bytes(order);
}

void bti_store_give(bti_state *state, char *value, uint64_t bytes) {
    int order = order_of(bytes);
    bti_store_block *block = (bti_store_block *)(void *)(value - block_head_bytes(order));
    BTI_SET(state->arena, state->store_used, state->store_used - bytes);
    if (order >= WARM_ORDER)
        link_warm(state, order, block);
    else
        bti_record_free(state->arena, kind_of(order), block);
}

/* --- back to the machine -------------------------------------------------------------------------------------------------- */

bool bti_store_is_over(const bti_state *state, uint64_t bytes) {
    int order = order_of(bytes);
    const bti_store_block *block = find_warm(state, order);
    uint64_t has = block ? block->memory : 0, wants = order < WARM_ORDER || pages(bytes) < has ? 0 : pages(bytes) - has;
    return wants && state->store_memory + wants > state->store_limit;
}

bool bti_store_is_wide(const bti_state *state) {
    return state->store_memory > state->store_used &&
           state->store_memory - state->store_used > state->store_limit / 8 + TRIM_BYTES;
}

bool bti_store_trim(bti_state *state) {
    bti_store_block *oldest = NULL;
    int order = 0;
    for (int o = WARM_ORDER; o < BTI_ORDERS; o++) {
        bti_store_block *block = state->store->warm[o].oldest;
        if (!block || block->record.turn == state->arena->turn) continue;
        if (!oldest || block->record.turn < oldest->record.turn) oldest = block, order = o;
    }
    if (!oldest) return false;
    uint64_t left = oldest->memory > TRIM_BYTES + PAGE ? oldest->memory - TRIM_BYTES : PAGE;
    madvise((char *)oldest + left, oldest->memory - left, MADV_REMOVE);
    BTI_SET(state->arena, state->store_memory, state->store_memory - (oldest->memory - left));
    BTI_SET(state->arena, oldest->memory, left);
    if (left > PAGE) return true;
    unlink_warm(state, order, oldest);
    bti_record_free(state->arena, kind_of(order), oldest);
    return true;
}
